package design

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// editedSite is a small site in several files, of which any part changes.
type editedSite struct {
	r *rand.Rand
	// nodes are what each node says, in lines; in says in which file, lead how
	// many lines stand above the nodes of a file.
	nodes map[string][]string
	in    map[string]int
	lead  [siteFiles]int
	// braces says that the nodes of a file are in one pair of braces.
	braces [siteFiles]bool
	// common are declarations that are there or not, by their place in
	// commonTexts.
	common map[int]bool
	// above is how many lines stand above them.
	above int
}

const siteFiles = 3

// nodeLines are what a node may say, good and bad. N stands for its number.
var nodeLines = []string{
	`labels: slot: "N"`,
	`labels: slot: "other"`,
	`boot: order: ["Hdd", "Cd"]`,
	`power: "off"`,
	`power: "sideways"`,
	`rack: "r1"`,
	`rack: "r9"`,
	`rack: _rack`,
	`rack: _nowhere`,
	`rack: nodes.n1.labels.slot`,
	`#base`,
	`#strict`,
	`bots: order: []`,
	`identity: serial: "same"`,
	`identity: serial: "S\(_offset)-N"`,
	`identity: serial: strings.ToUpper("sN")`,
	`labels: domain: networks.mgmt.dns.domain`,
	`addresses: mgmt: "10.1.0.1N"`,
	`addresses: mgmt: "10.9.0.1N"`,
	`endpoints: manager: url: "redfish+https://{addresses.mgmt}/redfish/v1/Systems/{name}"`,
	`profiles: ["base", "extra"]`,
	`profiles: ["extra", "base"]`,
	`profiles: ["missing"]`,
	`power: _ @unset()`,
	`labels: a: string`,
	`generation: 0`,
	`labels: two: _nowhere + _nothing`,
	`boot: order: ["Hdd"], boot: order: ["Pxe"]`,
	`labels: {if _on {on: "yes"}}`,
	`labels: {for k, v in racks {(k): "rack"}}`,
	`extensions: slots: a: number: N`,
	`extensions: slots: a: number: "N"`,
}

// commonTexts are declarations outside of nodes, good and bad; those from
// first on are there now and then.
var commonTexts = []string{
	`profiles: base: {role: "compute", power: "on", boot: order: ["Hdd"]}`,
	`profiles: base: endpoints: manager: url: "redfish+https://10.1.0.1/redfish/v1/Systems/1"`,
	`profiles: extra: parents: ["base"]`,
	`racks: {r1: {}, r2: {}}`,
	`roles: compute: {}`,
	`credentials: bmc: {}`,
	`networks: mgmt: {cidr: "10.1.0.0/24", dns: domain: "example.org"}`,
	`_rack: "r1"`,
	`_offset: 7`,
	`_on: true`,
	`#base: labels: of: "base"`,
	`#strict: {power: "on", ...}`,
	extensionText,
	// Now and then.
	`nodes: [string]: labels: every: "one"`,
	`nodes: [=~"^n1"]: rack: "r2"`,
	`nodes: [Name=string]: labels: name: Name`,
	`nodes: {for i in [1, 2] {"made\(i)": {profiles: ["base"], rack: "r1"}}}`,
	`nodes: "made\(_offset)": profiles: ["base"]`,
	`labels: wrong: {}`,
	`profiles: base: power: "off"`,
	`profiles: base: labels: x: _nothing`,
	`profiles: extra: bois: {}`,
	`profiles: extra: labels: tier: "b"`,
	`profiles: extra: endpoints: manager: url: "redfish+https://{addresses.mgmt}/redfish/v1/Systems/1"`,
	`_count: len(nodes)`,
	`policies: on: {require: power: "on", why: "it runs"}`,
	`policies: slot: {require: labels: slot: =~"^[0-9]$", nodes: racks: ["r1"]}`,
	`suppressions: dup: {code: "duplicate-serial", reason: "spares"}`,
	`suppressions: slot: {code: "policy/slot", reason: "known", nodes: ["n1", "n2"]}`,
	`networks: mgmt: mtu: "large"`,
	`_rack: "r2"`,
	`images: {`,
}

const (
	usualTexts    = 13
	extensionText = `extensions: slots: item: number: int`
)

func newEditedSite(seed uint64) *editedSite {
	s := &editedSite{r: rand.New(rand.NewPCG(seed, 3)), nodes: map[string][]string{}, in: map[string]int{}, common: map[int]bool{}}
	for i := range usualTexts {
		s.common[i] = true
	}
	if seed%2 == 1 {
		delete(s.common, slices.Index(commonTexts, extensionText)) // with constraints more is evaluated anew
	}
	for range 4 + s.r.IntN(5) {
		s.addNode()
	}
	return s
}

func (s *editedSite) addNode() {
	name := fmt.Sprintf("n%d", 1+s.r.IntN(9))
	s.nodes[name] = []string{`profiles: ["base"]`, `rack: "r1"`}
	s.in[name] = s.r.IntN(siteFiles)
}

func (s *editedSite) someNode() string {
	names := sortedKeys(s.nodes)
	if len(names) == 0 {
		s.addNode()
		names = sortedKeys(s.nodes)
	}
	return names[s.r.IntN(len(names))]
}

// edit changes one thing, and says what.
func (s *editedSite) edit() string {
	switch s.r.IntN(10) {
	case 0:
		s.addNode()
		return "add a node"
	case 1:
		name := s.someNode()
		delete(s.nodes, name)
		return "remove " + name
	case 2:
		name := s.someNode()
		s.in[name] = s.r.IntN(siteFiles)
		return "move " + name
	case 3:
		s.lead[s.r.IntN(siteFiles)], s.above = s.r.IntN(4), s.r.IntN(4)
		return "insert lines"
	case 4:
		i := s.r.IntN(siteFiles)
		s.braces[i] = !s.braces[i]
		return "other braces"
	case 5, 6:
		i := s.r.IntN(len(commonTexts))
		if i < usualTexts { // seldom
			i = s.r.IntN(len(commonTexts))
		}
		s.common[i] = !s.common[i]
		return "common: " + commonTexts[i]
	case 7:
		name := s.someNode()
		if n := len(s.nodes[name]); n > 2 {
			s.nodes[name] = s.nodes[name][:n-1]
		}
		return "less of " + name
	}
	name := s.someNode()
	line := nodeLines[s.r.IntN(len(nodeLines))]
	s.nodes[name] = append(s.nodes[name], line)
	return name + ": " + line
}

func (s *editedSite) files() map[string]string {
	files := map[string]string{}
	var common strings.Builder
	common.WriteString("package small\n" + strings.Repeat("// A line.\n", s.above))
	for i, text := range commonTexts {
		if s.common[i] {
			common.WriteString(text + "\n")
		}
	}
	files["common.cue"] = common.String()
	for i := range siteFiles {
		var b strings.Builder
		for _, name := range sortedKeys(s.nodes) {
			if s.in[name] != i {
				continue
			}
			text := fmt.Sprintf("%q: {\n\t%s\n}\n", name, strings.ReplaceAll(strings.Join(s.nodes[name], "\n\t"), "N", name[1:]))
			if !s.braces[i] {
				text = "nodes: " + text
			}
			b.WriteString(text)
		}
		body := b.String()
		if s.braces[i] {
			body = "nodes: {\n" + body + "}\n"
		}
		if strings.Contains(body, "strings.") {
			body = "import \"strings\"\n\n" + body
		}
		files[fmt.Sprintf("nodes-%d.cue", i)] = "package small\n" + strings.Repeat("// A line.\n", s.lead[i]) + body
	}
	return files
}

// everything is what that an evaluation says, as text.
func everything(t *testing.T, r Result) string {
	t.Helper()
	text, err := json.MarshalIndent(r.Site, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return describe(r.Findings) + "silenced:\n" + describe(r.Suppressed) + string(text)
}

// What is evaluated in parts and remembered is, after any edit, what evaluating
// the whole package anew gives, findings and places included. SLIPWAY_PROVE
// tries many more sites.
func TestIncrementalEqualsWhole(t *testing.T) {
	sites, edits := many(6, 250), 12
	divided := 0
	for seed := range sites {
		s, kept := newEditedSite(uint64(seed)), newMemory()
		var done []string
		for range edits {
			done = append(done, s.edit())
			p, findings, err := collect(repository(s.files()), "", Limits{}.withDefaults())
			if err != nil || len(findings) > 0 {
				t.Fatal(err, findings)
			}
			now := time.Now()
			here := evaluation{memory: kept, ask: askHere, most: 1 << 20, atOnce: 2, now: now}
			if d, err := here.divide(t.Context(), p); err == nil && d != nil {
				divided++
			}
			parts, err := here.run(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			anew := evaluation{memory: newMemory(), ask: askHere, most: 1 << 20, atOnce: 1, now: now, undivided: true}
			whole, err := anew.run(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			if want, got := everything(t, whole), everything(t, parts); want != got {
				t.Fatalf("seed %d, after\n%s\nwhole (-) and in parts (+) differ:\n%s\n%s", seed, strings.Join(done, "\n"), cmp.Diff(want, got), join("", fmt.Sprint(s.files())))
			}
		}
	}
	if divided < sites*edits/4 {
		t.Errorf("%d of %d were evaluated in parts, want more", divided, sites*edits)
	}
}

// What random sites once found different, in parts and as a whole.
func TestOnceDifferent(t *testing.T) {
	for name, text := range map[string]string{
		"a section with nothing in it": `nodes: "n1": {profiles: [], labels: {a: string, domain: networks.mgmt.domain}}`,
	} {
		p, _, err := collect(repository(map[string]string{"site.cue": "package small\n" + text + "\n"}), "", Limits{}.withDefaults())
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, undivided := range []bool{true, false} {
			e := evaluation{memory: newMemory(), ask: askHere, most: 1 << 20, atOnce: 1, undivided: undivided}
			r, err := e.run(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			said = append(said, everything(t, r))
		}
		if diff := cmp.Diff(said[0], said[1]); diff != "" {
			t.Errorf("%s: whole (-), in parts (+):\n%s", name, diff)
		}
	}
}

// Five mistakes are five findings, whatever they are and however they stand
// beside each other: four in fields of one node, and one in another.
func TestFiveMistakesAreFiveFindings(t *testing.T) {
	hasOneGoroutine(t)
	mistakes := map[string][]string{
		"unknown-field":    {`lables: x: "y"`, `boot: ordr: ["Hdd"]`, `boot: mod: "uefi"`, `endpoints: manger: url: "redfish+https://10.1.0.3/redfish/v1/Systems/1"`, `hardware: ram: "1GiB"`},
		"missing-field":    {`paused: by: "ada"`, `paused: reason: "repair"`, `hardware: hugepages: h: size: "1GiB"`, `hardware: hugepages: h: count: 2`, `endpoints: os: credential: "bmc"`},
		"invalid-value":    {`power: "sideways"`, `hardware: cpus: 0`, `kernel: package: 5`, `bios: smt: "off"`, `identity: serial: "a b"`},
		"does-not-compile": {`labels: a: _nowhere`, `image: nowhere + "x"`, `window: #absent.x`, `labels: b: strings.ToUpper("x")`, `primaryNetwork: "\(absent)"`},
	}
	codes := sortedKeys(mistakes)
	for mix := range 20 {
		want := map[string]int{}
		var lines []string
		for i, code := range codes {
			lines = append(lines, mistakes[code][(mix+i*mix/5)%5])
			want[code]++
		}
		rand.New(rand.NewPCG(uint64(mix), 1)).Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
		other := codes[mix%4]
		want[other]++
		text := `package small
profiles: base: {role: "compute", rack: "r1", endpoints: manager: url: "redfish+https://10.1.0.1/redfish/v1/Systems/1"}
racks: r1: {}
roles: compute: {}
credentials: bmc: {}
nodes: n1: {
	profiles: ["base"]
	` + strings.Join(lines, "\n\t") + `
}
nodes: n2: {
	profiles: ["base"]
	endpoints: manager: url: "redfish+https://10.1.0.2/redfish/v1/Systems/1"
	` + mistakes[other][(mix+1)%5] + `
}
`
		e := evaluation{memory: newMemory(), ask: askHere, most: 1 << 20, atOnce: 1, now: time.Now()}
		p, _, err := collect(repository(map[string]string{"site.cue": text}), "", Limits{}.withDefaults())
		if err != nil {
			t.Fatal(err)
		}
		r, err := e.run(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int{}
		for _, f := range r.Findings {
			got[f.Code]++
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("mix %d: codes wanted (-) and found (+):\n%s\nof\n%s\n%s", mix, diff, text, describe(r.Findings))
		}
	}
}
