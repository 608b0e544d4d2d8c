package design

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/slipway-gitops/slipway/engine/design/rule"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Every rule is tried with three patches, each laid over one clean site, and
// each with the whole list of what is found:
//
//   - bad is the rule's Wrong: its code is found, and no other;
//   - good is the rule's Right: nothing is found;
//   - boundary is the file boundary.cue of testdata/rules/CODE.txtar: the value
//     that is just allowed, or just not.
//
// A patch is a few lines of CUE, which become the file patch.cue of the clean
// site's package; or, where that cannot show it, an archive (-- NAME --) of
// files to add or to put in the place of the clean site's. Such files of the
// boundary are boundary/NAME.
const (
	rulesDir     = "testdata/rules"
	boundaryFile = "boundary.cue"
	boundaryDir  = "boundary/"
	patchFile    = "patch.cue"
)

// howToBound tells the author of a rule what is missing.
const howToBound = `
Write the file %[2]s with

	-- boundary.cue --
	(a few lines of CUE over testdata/rules/clean: the value that is just allowed, or just not)

then run: go test ./engine/design -run 'TestRules/^%[1]s$' -update
and read the lists of findings that it puts below.`

// unshown are the codes without an example, each with the reason.
var unshown = map[string]string{
	"empty-repository":   "needs a repository without any CUE file; testdata/repository-empty.txtar has one",
	"hypervisor-full":    "is found where machines are placed; engine/placement has one",
	"machine-moves":      "is found where machines are placed; engine/placement has one",
	"bridge-unfit":       "is found where machines are placed; engine/placement has one",
	"bridge-unknown":     "is found where machines are placed; engine/placement has one",
	"placed-otherwise":   "is found where machines are placed; engine/placement has one",
	"unplaced":           "is found where machines are placed; engine/placement has one",
	"file-too-large":     "needs a file of a megabyte",
	"more-findings":      "needs a thousand mistakes",
	"need-gates-nothing": "is found by whoever knows the drivers; tests/script/acting.txtar has one",
	"not-acted-on":       "is found by whoever knows the drivers; tests/script/acting.txtar has one",
	"health-unseen":      "is found by whoever knows the drivers; tests/script/health.txtar has one",
	"no-module":          "needs a repository without the file; testdata/module-none.txtar has one",
	"not-regular-file":   "needs a symbolic link",
	"panic":              "would be a fault of this program",
	"rules-not-checked":  "is found beside another finding; testdata/compile.txtar has one",
	"too-deep":           "needs a file of thousands of levels",
	"too-large":          "needs many files",
	"too-many-operators": "needs a thousand of them; TestInspect has some",
	"too-slow":           "needs a minute",
	"undecodable":        "would be a fault of this program",
	"unknown-site":       "is about the command line; testdata/site-unknown.txtar has one",
	"unreadable":         "needs a file that cannot be read",
}

func TestRules(t *testing.T) {
	clean := cleanSite(t)
	for i, r := range rule.All() {
		if racing && i%5 > 0 {
			continue // each is evaluated in the same way
		}
		t.Run(r.Code, func(t *testing.T) {
			t.Parallel()
			if reason, ok := unshown[r.Code]; ok {
				if r.Wrong != "" || r.Right != "" {
					t.Errorf("the rule has an example, and is listed in unshown: %s", reason)
				}
				return
			}
			ruleCase{r, clean}.test(t)
		})
	}
}

// The clean site has something to check, and nothing to find.
func TestCleanSiteIsClean(t *testing.T) {
	r := EvaluateHere(cleanSite(t), "")
	if r.Site == nil || len(r.Site.Nodes) != 4 || len(r.Findings) > 0 {
		t.Errorf("the site in %s/clean is not clean:\n%s", rulesDir, describe(r.Findings))
	}
}

// No file is left of a rule that is gone.
func TestRuleFilesHaveRules(t *testing.T) {
	paths, err := filepath.Glob(rulesDir + "/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	codes := codesOf(rule.All())
	for _, p := range paths {
		if code := strings.TrimSuffix(filepath.Base(p), ".txtar"); !slices.Contains(codes, code) {
			t.Errorf("%s is of no rule in rule.All()", p)
		}
	}
}

func codesOf(rules []rule.Rule) []string {
	var codes []string
	for _, r := range rules {
		codes = append(codes, r.Code)
	}
	return codes
}

// ruleCase is a rule over the clean site.
type ruleCase struct {
	rule.Rule
	clean fstest.MapFS
}

func (c ruleCase) path() string { return filepath.Join(rulesDir, c.Code+".txtar") }

func (c ruleCase) test(t *testing.T) {
	archive := c.archive(t)
	bad, good := c.findings(patch(c.Wrong)), c.findings(patch(c.Right))
	c.checkBad(t, bad)
	if len(good) > 0 {
		t.Errorf("Right of the rule %s breaks rules; it must be free of findings over %s/clean:\n%s", c.Code, rulesDir, describe(good))
	}
	boundary := boundaryOf(archive)
	if len(boundary) == 0 {
		t.Errorf("the rule %s has no boundary."+howToBound, c.Code, c.path())
	}
	c.compare(t, archive, []txtar.File{
		{Name: wantPrefix + "bad", Data: []byte(describe(bad))},
		{Name: wantPrefix + "good", Data: []byte(describe(good))},
		{Name: wantPrefix + "boundary", Data: []byte(describe(c.findings(boundary)))},
	})
}

// archive is the rule's file, empty where there is none yet.
func (c ruleCase) archive(t *testing.T) *txtar.Archive {
	a, err := txtar.ParseFile(c.path())
	if errors.Is(err, fs.ErrNotExist) {
		return &txtar.Archive{}
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// checkBad holds Wrong to break the one rule, and no other.
func (c ruleCase) checkBad(t *testing.T, bad []site.Finding) {
	t.Helper()
	is := func(f site.Finding) bool { return f.Code == c.Code }
	isNot := func(f site.Finding) bool { return f.Code != c.Code && f.Code != "rules-not-checked" }
	if !slices.ContainsFunc(bad, is) {
		t.Errorf("Wrong of the rule %s does not break it over %s/clean; found:\n%s", c.Code, rulesDir, describe(bad))
	}
	if slices.ContainsFunc(bad, isNot) {
		t.Errorf("Wrong of the rule %s breaks other rules too; make it break this one alone:\n%s", c.Code, describe(bad))
	}
}

// compare holds the lists against those in the rule's file, or writes them.
func (c ruleCase) compare(t *testing.T, archive *txtar.Archive, got []txtar.File) {
	if *update {
		archive.Files = append(slices.DeleteFunc(archive.Files, func(f txtar.File) bool {
			return strings.HasPrefix(f.Name, wantPrefix)
		}), got...)
		if err := os.WriteFile(c.path(), txtar.Format(archive), 0o644); err != nil {
			t.Error(err)
		}
		return
	}
	for _, f := range got {
		if diff := cmp.Diff(lines(fileOf(archive, f.Name)), lines(string(f.Data))); diff != "" {
			t.Errorf("the findings differ from %s in %s (-want, +got; -update rewrites it):\n%s", f.Name, c.path(), diff)
		}
	}
}

// findings are those of the clean site with other files laid over it.
func (c ruleCase) findings(over []txtar.File) []site.Finding {
	repo := maps.Clone(c.clean)
	for _, f := range over {
		repo[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	return EvaluateHere(repo, "").Findings
}

// patch is an example's files.
func patch(example string) []txtar.File {
	if strings.HasPrefix(example, "-- ") {
		return txtar.Parse([]byte(example)).Files
	}
	return []txtar.File{{Name: patchFile, Data: fmt.Appendf(nil, "package clean\n\n%s\n", example)}}
}

// boundaryOf is the boundary's files.
func boundaryOf(a *txtar.Archive) []txtar.File {
	var files []txtar.File
	for _, f := range a.Files {
		if f.Name == boundaryFile {
			files = append(files, patch(string(f.Data))...)
		} else if name, ok := strings.CutPrefix(f.Name, boundaryDir); ok {
			files = append(files, txtar.File{Name: name, Data: f.Data})
		}
	}
	return files
}

// cleanSite is the repository of the clean site.
func cleanSite(t *testing.T) fstest.MapFS {
	t.Helper()
	paths, err := filepath.Glob(rulesDir + "/clean/*.cue")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no clean site: %v", err)
	}
	files := map[string]string{}
	for _, p := range paths {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(p)] = string(text)
	}
	return repository(files)
}

// fileOf is a file of an archive, empty where there is none.
func fileOf(a *txtar.Archive, name string) string {
	for _, f := range a.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

func lines(text string) []string { return slices.Collect(strings.Lines(text)) }
