package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/design/rule"
	"github.com/slipway-gitops/slipway/engine/site"
)

var update = flag.Bool("update", false, "rewrite what is made from the rules")

// toldOf is a site's files, as far as findings point into them.
var toldOf = fstest.MapFS{
	"base.cue": {Data: []byte("package fra\n\nprofiles: base: {\n\tpower: \"onn\"\n}\n")},
	"ä b.cue":  {Data: []byte("package fra\n\nnodes: \"größe\": rack: \"r{9}\"\n")},
}

// told has a finding of each kind of place: one value of many nodes, one with a
// related place, one without a line, and one of the whole design.
var told = []site.Finding{
	{Code: "invalid-value", Severity: site.SeverityError, File: "base.cue", Line: 4, Col: 9, Node: "n1", Path: "power", More: 99,
		Message: `the power of n1 is "onn"`, Why: "It is neither on nor off.", Fix: `Write "on" or "off".`},
	{Code: "unknown-rack", Severity: site.SeverityWarning, File: "ä b.cue", Line: 3, Col: 25, Node: "größe", Path: "rack",
		Message: `there is no rack "r{9}", 100% sure`, Why: "Nothing is known of it.", Fix: "Declare it.\x1b[31m", Related: []string{"base.cue:3:11"}},
	{Code: "file-too-large", Severity: site.SeverityError, File: "big.cue", Message: "big.cue is larger than 1024 KiB", Why: "Bounds.", Fix: "Split it."},
	{Code: "several-sites", Severity: site.SeverityNote, Message: "the repository has several sites: fra, muc", Why: "One at a time.", Fix: "Name one."},
}

func TestFindingsAsText(t *testing.T) {
	var out strings.Builder
	printFindings(&screen{&out}, toldOf, told)
	printSummary(&screen{&out}, checked{Findings: told})
	want := `base.cue:4:9: error: the power of n1 is "onn" [invalid-value]
  4 │   power: "onn"
    │          ^^^^^
  n1 and 99 more nodes have it
  why: It is neither on nor off.
  do:  Write "on" or "off".

ä b.cue:3:25: warning: there is no rack "r{9}", 100% sure [unknown-rack]
  3 │ nodes: "größe": rack: "r{9}"
    │                       ^^^^^^
  why: Nothing is known of it.
  do:  Declare it.\u001b[31m
  see: base.cue:3:11
  3 │ profiles: base: {
    │           ^^^^

big.cue: error: big.cue is larger than 1024 KiB [file-too-large]
  why: Bounds.
  do:  Split it.

note: the repository has several sites: fra, muc [several-sites]
  why: One at a time.
  do:  Name one.

2 errors, 1 warning, 1 note
most seen: file-too-large 1, invalid-value 1, several-sites 1, unknown-rack 1; more about one: slipway rules CODE
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

func TestVerdict(t *testing.T) {
	for want, c := range map[string]checked{
		"no findings": {},
		"12 nodes of site fra checked, no findings":                     {Site: "fra", Nodes: 12},
		"12 nodes of site fra checked, 1 warning, 1 note, 2 suppressed": {Site: "fra", Nodes: 12, Findings: []site.Finding{told[1], told[3]}, Suppressed: told[:2]},
		"1 error, 1 suppressed":                                         {Findings: told[:1], Suppressed: told[1:2]},
	} {
		if got := verdict(c); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestClipShowsWhatBeginsAtTheColumn(t *testing.T) {
	long := strings.Repeat("a: ", 1000)
	for _, c := range []struct {
		line          string
		col           int
		want          string
		before, width int
	}{
		{"a: b", 4, "a: b", 3, 1},
		{"\ta: bcd", 5, "  a: bcd", 5, 3},
		{"ä: b", 5, "ä: b", 3, 1},
		{`a: "x \" y" // z`, 4, `a: "x \" y" // z`, 3, 8},
		{`a: "open`, 4, `a: "open`, 3, 1},
		{"a: {b: 1}", 4, "a: {b: 1}", 3, 1},
		{"世界: true", 9, "世界: true", 6, 4},
		{"a", 99, "a", 1, 1},
		{"a", 0, "a", 0, 1},
		{"\x1b[31mred\u009b", 1, `\u001b[31mred\u009b`, 0, 6},
		{long, 1, long[:120] + "…", 0, 1},
		{long, 1501, "…" + long[:119] + "…", 61, 1},
		{strings.Repeat("x", 500), 1, strings.Repeat("x", 120) + "…", 0, 120},
	} {
		shown, before, width := clip([]byte(c.line), c.col)
		if shown != c.want || before != c.before || width != c.width {
			t.Errorf("clip(%.20q, %d) = %q, %d, %d, want %q, %d, %d", c.line, c.col, shown, before, width, c.want, c.before, c.width)
		}
	}
}

func TestSpotOf(t *testing.T) {
	for place, want := range map[string]spot{
		"a.cue:3:4":   {"a.cue", 3, 4},
		"a:b.cue:3:4": {"a:b.cue", 3, 4},
		"a.cue":       {"a.cue", 0, 0},
		"a.cue:3":     {"a.cue:3", 0, 0},
		"":            {},
	} {
		if got := spotOf(place); got != want {
			t.Errorf("spotOf(%q) = %v, want %v", place, got, want)
		}
	}
}

func TestAnnotations(t *testing.T) {
	var out strings.Builder
	printAnnotations(&screen{&out}, newSources(toldOf), "sites, all", told)
	want := `::error file=sites%2C all/base.cue,line=4,col=9,endColumn=14,title=invalid-value::the power of n1 is "onn"%0An1 and 99 more nodes have it%0AIt is neither on nor off.%0AWrite "on" or "off".
::warning file=sites%2C all/ä b.cue,line=3,col=23,endColumn=29,title=unknown-rack::there is no rack "r{9}", 100%25 sure%0Agröße has it%0ANothing is known of it.%0ADeclare it.\u001b[31m
::error file=sites%2C all/big.cue,title=file-too-large::big.cue is larger than 1024 KiB%0ABounds.%0ASplit it.
::notice title=several-sites::the repository has several sites: fra, muc%0AOne at a time.%0AName one.
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

// The log is what SARIF 2.1.0 demands: the sections are named at each demand.
func TestSARIF(t *testing.T) {
	log := sarifOf(t, toldOf, told, nil)
	if log.Version != "2.1.0" || len(log.Runs) != 1 { // 3.13.2, 3.13.4
		t.Fatalf("got version %q with %d runs", log.Version, len(log.Runs))
	}
	run := log.Runs[0]
	if run.Tool.Driver.Name == "" || run.ColumnKind != "unicodeCodePoints" { // 3.19.8, 3.14.17
		t.Errorf("the run names no tool, or no kind of columns: %+v", run)
	}
	checkSARIFRules(t, run.Tool.Driver.Rules)
	for _, r := range run.Results {
		checkSARIFResult(t, run, r)
	}
	if len(run.Results) != 4 {
		t.Fatalf("got %d results, want 4", len(run.Results))
	}
	power, rack, big, whole := run.Results[0], run.Results[1], run.Results[2], run.Results[3]
	if got := *power.Locations[0].Physical.Region; got.StartLine != 4 || got.StartColumn != 9 || got.EndColumn != 14 {
		t.Errorf("got the region %+v, want 4:9 to 14", got)
	}
	if got, want := power.Locations[0].Logical[0].Name, "nodes.n1.power"; got != want {
		t.Errorf("got the path %q, want %q", got, want)
	}
	if got, want := rack.Locations[0].Physical.Artifact.URI, "site/%C3%A4%20b.cue"; got != want {
		t.Errorf("got the URI %q, want %q", got, want)
	}
	if got := *rack.Locations[0].Physical.Region; got.StartColumn != 23 || got.EndColumn != 29 {
		t.Errorf("got the columns %+v, want 23 to 29 in characters", got)
	}
	if want := `"r{{9}}"`; !strings.Contains(rack.Message.Text, want) { // 3.11.5
		t.Errorf("got the message %q, want braces as %s", rack.Message.Text, want)
	}
	if len(rack.Related) != 1 || rack.Related[0].Physical.Region.StartLine != 3 {
		t.Errorf("got the related locations %+v", rack.Related)
	}
	if big.Locations[0].Physical.Region != nil || whole.Locations[0].Physical.Region != nil {
		t.Error("a result without a line has a region")
	}
}

func sarifOf(t *testing.T, files fstest.MapFS, findings, silenced []site.Finding) sarifLog {
	t.Helper()
	var out strings.Builder
	if err := printSARIF(&screen{&out}, newSources(files), "site", findings, silenced); err != nil {
		t.Fatal(err)
	}
	var log sarifLog
	d := json.NewDecoder(strings.NewReader(out.String()))
	d.DisallowUnknownFields()
	if err := d.Decode(&log); err != nil {
		t.Fatal(err)
	}
	return log
}

func checkSARIFRules(t *testing.T, rules []sarifRule) {
	t.Helper()
	ids := map[string]bool{}
	for _, r := range rules {
		if r.ID == "" || ids[r.ID] { // 3.49.3; each rule once, 3.19.23
			t.Errorf("the id %q is empty or there twice", r.ID)
		}
		ids[r.ID] = true
		if r.Short.Text == "" || r.Full.Text == "" || r.Help.Text == "" || r.Help.Markdown == "" { // 3.12.3: text is needed beside Markdown
			t.Errorf("the rule %s says nothing of itself", r.ID)
		}
		if u, err := url.Parse(r.HelpURI); err != nil || !u.IsAbs() { // 3.49.12
			t.Errorf("the rule %s has the help URI %q", r.ID, r.HelpURI)
		}
		checkSARIFLevel(t, r.Configuration.Level)
	}
	for _, r := range rule.All() {
		if !ids[r.Code] {
			t.Errorf("the rule %s is not described", r.Code)
		}
	}
}

func checkSARIFLevel(t *testing.T, level string) {
	t.Helper()
	if !slices.Contains([]string{"none", "note", "warning", "error"}, level) { // 3.27.10
		t.Errorf("there is no level %q", level)
	}
}

func checkSARIFResult(t *testing.T, run sarifRun, r sarifResult) {
	t.Helper()
	if r.Message.Text == "" { // 3.27.11
		t.Errorf("the result %s has no message", r.RuleID)
	}
	checkSARIFLevel(t, r.Level)
	if r.RuleIndex != nil && run.Tool.Driver.Rules[*r.RuleIndex].ID != r.RuleID { // 3.27.6
		t.Errorf("the index of %s is that of %s", r.RuleID, run.Tool.Driver.Rules[*r.RuleIndex].ID)
	}
	fingerprint := regexp.MustCompile(`^[0-9a-f]{16}:[1-9][0-9]*$`)
	if f := r.Fingerprints["primaryLocationLineHash"]; !fingerprint.MatchString(f) {
		t.Errorf("the result %s has the fingerprint %q", r.RuleID, f)
	}
	if len(r.Locations) == 0 {
		t.Errorf("the result %s has no location", r.RuleID)
	}
	for _, l := range slices.Concat(r.Locations, r.Related) {
		checkSARIFLocation(t, run, l)
	}
	ids := map[int]bool{}
	for _, l := range r.Related {
		if l.ID <= 0 || ids[l.ID] { // 3.28.2: unique among the result's locations
			t.Errorf("related location %d is there twice", l.ID)
		}
		ids[l.ID] = true
	}
}

func checkSARIFLocation(t *testing.T, run sarifRun, l sarifLocation) {
	t.Helper()
	a := l.Physical.Artifact
	u, err := url.Parse(a.URI)
	if err != nil || u.IsAbs() || strings.HasPrefix(a.URI, "/") || strings.Contains(a.URI, "..") { // 3.4.3, 3.4.4: relative to its base
		t.Errorf("the URI %q is not relative to the repository: %v", a.URI, err)
	}
	if _, ok := run.URIBases[a.Base]; !ok {
		t.Errorf("the base %q is not among originalUriBaseIds", a.Base)
	}
	r := l.Physical.Region
	if r == nil {
		return
	}
	if r.StartLine < 1 || r.StartColumn < 0 || r.EndColumn != 0 && r.EndColumn <= r.StartColumn { // 3.30.5, 3.30.6, 3.30.8
		t.Errorf("there is no region %+v", r)
	}
}

// A fingerprint stays when lines are put in above, and differs between results.
func TestSARIFFingerprintsAreStable(t *testing.T) {
	moved, later := fstest.MapFS{}, slices.Clone(told)
	for name, f := range toldOf {
		moved[name] = &fstest.MapFile{Data: append([]byte("// a new line\n\n"), f.Data...)}
	}
	for i := range later {
		if later[i].Line > 0 {
			later[i].Line += 2
		}
	}
	later[0].Node = "n0" // a new node, the first of those that have it
	twice := append(slices.Clone(later), later[1])
	twice[4].Message = "something else about the same value"
	before, after := fingerprints(sarifOf(t, toldOf, told, nil)), fingerprints(sarifOf(t, moved, twice, nil))
	if diff := cmp.Diff(before, after[:4]); diff != "" {
		t.Errorf("fingerprints changed, before (-), after (+):\n%s", diff)
	}
	if all := slices.Compact(slices.Sorted(slices.Values(after))); len(all) != 5 {
		t.Errorf("got %d different fingerprints of 5 results: %v", len(all), after)
	}
}

func fingerprints(log sarifLog) []string {
	var all []string
	for _, r := range log.Runs[0].Results {
		all = append(all, r.Fingerprints["primaryLocationLineHash"])
	}
	return all
}

// A design without findings is an empty list of results, not a missing one,
// which would say that nothing was looked for (3.14.23).
func TestSARIFWithoutFindings(t *testing.T) {
	if log := sarifOf(t, toldOf, nil, nil); log.Runs[0].Results == nil {
		t.Error("got no results, want an empty list")
	}
}

// What the site suppresses is there, and marked as such (3.27.23, 3.35.2).
func TestSARIFTellsWhatIsSuppressed(t *testing.T) {
	log := sarifOf(t, toldOf, told[:1], told[1:2])
	shown, silenced := log.Runs[0].Results[0], log.Runs[0].Results[1]
	if len(shown.Suppressions) > 0 || len(silenced.Suppressions) != 1 || silenced.Suppressions[0].Kind != "external" {
		t.Errorf("got the suppressions %v and %v, want none and an external one", shown.Suppressions, silenced.Suppressions)
	}
}

func TestInRepository(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := inRepository(filepath.Join(root, "a/b")); got != "." {
		t.Errorf("outside of any repository: got %q", got)
	}
	if err := os.Mkdir(filepath.Join(root, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	for folder, want := range map[string]string{"a/b": "a/b", "a": "a", ".": "."} {
		if got := inRepository(filepath.Join(root, folder)); got != want {
			t.Errorf("inRepository(%s) = %q, want %q", folder, got, want)
		}
	}
}

// A byte order mark is not shown, and does not move what is underlined.
func TestExcerptOfAMarkedFile(t *testing.T) {
	var out bytes.Buffer
	files := fstest.MapFS{"a.cue": {Data: []byte("\ufeffa: b: 5\n")}}
	printFindings(&screen{&out}, files, []site.Finding{{Code: "c", Message: "m", File: "a.cue", Line: 1, Col: 10}})
	if want := "  1 │ a: b: 5\n    │       ^\n"; !strings.Contains(out.String(), want) {
		t.Errorf("%q, want %q in it", out.String(), want)
	}
}

// docs/rules.md is made from the rules: -update writes it.
func TestRulesPage(t *testing.T) { isPage(t, "../../docs/rules.md", rulesMarkdown()) }

// isPage holds a page that is made to what it is made of.
func isPage(t *testing.T, page, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s is not current; go test ./cmd/slipway -run %s -update makes it so:\n%s", page, t.Name(), diff)
	}
}

// Whatever a line holds, what is shown of it fits, obeys nobody, and what is
// underlined is in it.
func FuzzClip(f *testing.F) {
	f.Add([]byte("\ta: \"x\\\" y\" // z"), 5)
	f.Add([]byte("\xff\x00\x1b[2J世界"), -1)
	f.Add([]byte(strings.Repeat("a: ", 1000)), 1501)
	f.Fuzz(func(t *testing.T, line []byte, col int) {
		shown, before, width := clip(line, col)
		if n := len([]rune(shown)); n > maxExcerpt+2 {
			t.Errorf("%d letters are shown of %q", n, line)
		}
		if shown != site.Printable(shown) {
			t.Errorf("shown: %q", shown)
		}
		if before < 0 || width < 1 || before > wide([]rune(shown)) || before+width > wide([]rune(shown))+1 {
			t.Errorf("%q at %d: underlined from %d for %d of %d columns", line, col, before, width, wide([]rune(shown)))
		}
		if start, end := characters(line, col); start < 0 || end < start || start > 0 && end == start {
			t.Errorf("%q at %d: from character %d to %d", line, col, start, end)
		}
	})
}
