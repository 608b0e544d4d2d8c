package design

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"cuelang.org/go/cue/cuecontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/slipway-gitops/slipway/engine/site"
)

// extended has a data file, a kind of item, a policy and a suppression that
// ends.
var extended = map[string]string{
	"site.cue": `package small

roles: compute: {}
racks: r1: {}
networks: mgmt: cidr: "10.1.0.0/24"
credentials: bmc: {}
profiles: base: {role: "compute", rack: "r1", extensions: vm: web: cpus: 2}
nodes: {n1: profiles: ["base"], n2: profiles: ["base"]}
data: ipam: path: "ipam.json"
extensions: vm: item: {cpus!: int, memory: *"1GiB" | string}
policies: floor: {why: "People go there.", severity: "warning", require: labels: floor: =~"^[0-9]+$"}
suppressions: later: {code: "policy/floor", nodes: ["n2"], reason: "being moved", until: "2026-08-01T18:00:00Z"}
`,
	"ipam.json": `{
  "n1": {"endpoints": {"manager": {"url": "redfish+https://10.1.0.1/redfish/v1/Systems/1"}}, "labels": {"floor": "2"}},
  "n2": {"endpoints": {"manager": {"url": "redfish+https://10.1.0.2/redfish/v1/Systems/1"}}, "labels": {"floor": "cellar"}}
}`,
}

// What ends by itself ends by the clock of the evaluator, not of its worker.
func TestSuppressionsEndByTheEvaluatorsClock(t *testing.T) {
	for text, want := range map[string]struct {
		shown      []string
		suppressed int
	}{
		"2026-08-01T17:59:59Z": {nil, 1},
		"2026-08-01T18:00:00Z": {[]string{"policy/floor", "suppression-expired"}, 0},
	} {
		now, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		e := newEvaluator(t, Limits{})
		e.Now = func() time.Time { return now }
		r := evaluateIn(t, e, extended)
		var codes []string
		for _, f := range r.Findings {
			codes = append(codes, f.Code)
		}
		slices.Sort(codes)
		if !slices.Equal(codes, want.shown) || len(r.Suppressed) != want.suppressed || r.Site == nil {
			t.Errorf("at %s: shown %v, suppressed %v; want %v", text, codes, r.Suppressed, want)
		}
	}
}

// A value of a data file, and what a kind of item says where no layer speaks,
// can be explained.
func TestExplainExtended(t *testing.T) {
	for target, want := range map[string]string{
		"n1.labels.floor":             `"2" ipam.json:2:114 data/ipam`,
		"n1.extensions.vm.web.memory": `"1GiB" site.cue:10:36 site`,
	} {
		x, _, err := newEvaluator(t, Limits{}).Explain(t.Context(), repository(extended), "", target)
		if err != nil || len(x.Values) != 1 {
			t.Errorf("%s: %v, %v", target, x, err)
			continue
		}
		v := x.Values[0]
		if got := fmt.Sprintf("%s %s %s", v.Value, v.Origin, v.Origin.LayerName()); got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
}

// Data files that take too much end as any part of a design does.
func TestDataIsBounded(t *testing.T) {
	var aliases strings.Builder
	aliases.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range 20 {
		fmt.Fprintf(&aliases, "a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 10))
	}
	for name, c := range map[string]struct{ file, text, code string }{
		"large":   {"ipam.json", `{"n1": {"labels": {"x": "` + strings.Repeat("x", 1<<20) + `"}}}`, "file-too-large"},
		"deep":    {"ipam.json", strings.Repeat(`{"a":`, 190_000) + "1" + strings.Repeat("}", 50), ""},
		"aliases": {"ipam.yaml", aliases.String(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			files := maps.Clone(small)
			files["data.cue"] = fmt.Sprintf("package small\ndata: ipam: path: %q\n", c.file)
			files[c.file] = c.text
			r := evaluateIn(t, newEvaluator(t, Limits{Memory: 1 << 30, Timeout: 20 * time.Second}), files)
			if r.Site != nil || len(r.Findings) == 0 || c.code != "" && r.Findings[0].Code != c.code {
				t.Errorf("found %v, want %s", r.Findings, c.code)
			}
			if evaluateIn(t, newEvaluator(t, Limits{}), small).Site == nil {
				t.Error("the next evaluation fails")
			}
		})
	}
}

// JSON and YAML that no text of the design names is not read, whatever it is.
func TestOtherFilesAreNotRead(t *testing.T) {
	files := maps.Clone(extended)
	files["node_modules/large.json"] = strings.Repeat("x", 2<<20)
	files["pipeline.yaml"] = "{{"
	p, findings, err := collect(repository(files), "", Limits{}.withDefaults())
	if err != nil || len(findings) > 0 {
		t.Fatal(findings, err)
	}
	if names := slices.Collect(maps.Keys(p.data)); !slices.Equal(names, []string{"ipam.json"}) {
		t.Errorf("read %v, want ipam.json alone", names)
	}
}

// What nodes have in common is held against a constraint once; what it does not
// speak of makes no difference.
func TestConstraintLooksOnce(t *testing.T) {
	for text, verdicts := range map[string]int{
		`{boot: order: ["Hdd", ...]}`:                       1,
		`{labels: floor: string}`:                           3,
		`{boot: order: [...], labels: floor!: _}`:           3,
		`X={boot: order: [...], if X.power == "on" {a: 1}}`: 9,
		`{if true {boot: order: [...]}}`:                    9,
		`#B & {boot: order: [...]}`:                         9,
		`{boot: X={order: [...], n: len(X.order)}}`:         9,
	} {
		v := cuecontext.New().CompileString("#B: {boot: _, ...}\nrequire: " + text)
		c := constraintAt(v, "require")
		if c == nil {
			t.Errorf("%s: %v", text, v.Err())
			continue
		}
		for i := range 9 {
			c.hold(map[string]any{
				"boot": map[string]any{"order": []any{"Hdd"}}, "power": "on",
				"name": fmt.Sprint("n", i), "labels": map[string]any{"floor": fmt.Sprint(i % 3)},
			})
		}
		if len(c.verdicts) != verdicts {
			t.Errorf("%s: looked %d times, want %d", text, len(c.verdicts), verdicts)
		}
	}
}

// FuzzData reads data files of any content: each is layers or findings.
func FuzzData(f *testing.F) {
	f.Add("a.json", extended["ipam.json"])
	f.Add("a.json", `{"n1": null, "n1": {"a": null, "b": [null, {"c": null}]}}`)
	f.Add("a.json", `{"n1": 1e1000}`)
	f.Add("a.yaml", "n1: &a {x: ~}\nn2: *a\n<<: *a\n---\n")
	f.Add("a.yml", "? [a]\n: !!binary aGk=\n")
	f.Fuzz(func(t *testing.T, name, text string) {
		if !isData(name) || len(text) > 1<<12 {
			return
		}
		found := findings{}
		r := dataReader{map[string][]byte{"a" + name: []byte(text)}, &found}
		sets := r.read(map[string]dataEntry{"x": {Path: "a" + name}}, &tree{})
		for _, s := range sets {
			for node, said := range s.nodes {
				for _, e := range said {
					if cuecontext.New().BuildExpr(e).Exists() && s.places[node].IsZero() {
						t.Errorf("%s: the node %q has no place", text, node)
					}
				}
			}
		}
	})
}

// What workers make of parts of a design is what is made of it as a whole: data
// files, items and policies too.
func TestExtendedInParts(t *testing.T) {
	e := newEvaluator(t, Limits{})
	for _, g := range goldens(t) {
		if !strings.HasPrefix(g.name(), "data") && !strings.HasPrefix(g.name(), "extensions") && !strings.HasPrefix(g.name(), "policies") {
			continue
		}
		for range 2 { // anew, and with all of it known
			got, err := e.Evaluate(t.Context(), g.files(t), "")
			if err != nil {
				t.Fatal(err)
			}
			want := EvaluateHere(g.files(t), "")
			if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b site.Origin) bool { return a == b }), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: as a whole (-), in parts (+):\n%s", g.name(), diff)
			}
		}
	}
}

// What changes in a data file, a kind or a policy changes the nodes.
func TestExtendedEdits(t *testing.T) {
	e := newEvaluator(t, Limits{})
	files := maps.Clone(extended)
	for _, edit := range []struct{ file, from, to string }{
		{"", "", ""},
		{"ipam.json", `"cellar"`, `"3"`},
		{"ipam.json", `"3"`, `null`},
		{"site.cue", `*"1GiB"`, `*"2GiB"`},
		{"site.cue", `cpus: 2`, `cpus: "2"`},
		{"site.cue", `cpus: "2"`, `cpus: 4, memory: "8GiB"`},
		{"site.cue", `^[0-9]+$`, `^[3-9]$`},
		{"site.cue", `path: "ipam.json"`, `path: "ipam.*on"`},
		{"site.cue", `path: "ipam.*on"`, `path: "ipam*.json"`},
		{"site.cue", `code: "policy/floor"`, `code: "policy/flor"`},
	} {
		if edit.file != "" {
			if !strings.Contains(files[edit.file], edit.from) {
				t.Fatalf("%s has no %s", edit.file, edit.from)
			}
			files[edit.file] = strings.Replace(files[edit.file], edit.from, edit.to, 1)
		}
		got, want := evaluateIn(t, e, files), EvaluateHere(repository(files), "")
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b site.Origin) bool { return a == b }), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("after %v: anew (-), from what was known (+):\n%s", edit, diff)
		}
	}
}

// A policy that never ends is a finding, and the next evaluation goes on.
func TestPolicyIsBounded(t *testing.T) {
	files := maps.Clone(extended)
	files["bomb.cue"] = `package small

import "list"

_l: list.Range(0, 1000, 1)
policies: bomb: {why: "x", require: X={
	role:  string
	_much: len([if X.role == "compute" for a in _l for b in _l for c in _l {a + b + c}])
	_much: >0
}}
`
	e := newEvaluator(t, Limits{Timeout: 3 * time.Second, Memory: 1 << 30})
	r := evaluateIn(t, e, files)
	if r.Site != nil || len(r.Findings) != 1 || r.Findings[0].Code != "too-slow" && r.Findings[0].Code != "too-large" {
		t.Errorf("found %v, want that it is too much", r.Findings)
	}
	e.Limits = Limits{} // this machine may be slow
	if r := evaluateIn(t, e, small); r.Site == nil {
		t.Errorf("the next evaluation: %v", r.Findings)
	}
}
