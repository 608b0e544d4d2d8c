package design

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// family is a random site as far as inheritance is concerned, in terms that owe
// nothing to the code that is tested: who names whom, and who says what.
type family struct {
	// profiles come after their parents, nodes after all profiles.
	members []*member
	// shuffle seeds the order of declarations and their files, which must make
	// no difference.
	shuffle uint64
}

// member is a profile or a node.
type member struct {
	name   string
	isNode bool
	// parents are the profiles that it names, weakest first.
	parents []string
	// says is what it says itself, by path: JSON, or taken.
	says map[string]string
}

// taken is what a layer says of what it takes away.
const taken = "@unset()"

// effective is a value of a node, and the member it has it from; "schema" for
// a default.
type effective struct{ value, from string }

func (f *family) get(name string) *member {
	for _, m := range f.members {
		if m.name == name {
			return m
		}
	}
	return nil
}

func (f *family) nodes() []*member {
	return slices.DeleteFunc(slices.Clone(f.members), func(m *member) bool { return !m.isNode })
}

// line is the C3 linearisation of a member, strongest first and itself first,
// as "A Monotonic Superclass Linearization for Dylan" has it; nil when there is
// none. Strongest first is what the paper calls most specific.
func (f *family) line(m *member) []string {
	var sequences [][]string
	for _, name := range slices.Backward(m.parents) {
		of := f.line(f.get(name))
		if of == nil {
			return nil
		}
		sequences = append(sequences, of)
	}
	direct := slices.Clone(m.parents)
	slices.Reverse(direct)
	sequences = append(sequences, direct)
	line := []string{m.name}
	for {
		next, done := "", true
		for _, s := range sequences {
			done = done && len(s) == 0
			if next == "" && len(s) > 0 && !inATail(s[0], sequences) {
				next = s[0]
			}
		}
		if done {
			return line
		}
		if next == "" {
			return nil
		}
		line = append(line, next)
		for i, s := range sequences {
			if len(s) > 0 && s[0] == next {
				sequences[i] = s[1:]
			}
		}
	}
}

func inATail(name string, sequences [][]string) bool {
	for _, s := range sequences {
		if len(s) > 1 && slices.Contains(s[1:], name) {
			return true
		}
	}
	return false
}

// ancestors are all that a member inherits from.
func (f *family) ancestors(m *member) map[string]bool {
	all := map[string]bool{}
	for _, name := range m.parents {
		all[name] = true
		maps.Copy(all, f.ancestors(f.get(name)))
	}
	return all
}

// speaks is what a member says of a path: a value, taken, or nothing.
func (m *member) speaks(path string) string {
	if said := m.says[path]; said != "" {
		return said
	}
	for at := path; at != ""; at = above(at) {
		if m.says[at] == taken {
			return taken
		}
	}
	return ""
}

func above(path string) string { return path[:max(0, strings.LastIndex(path, "/"))] }

// design is what a node comes to: at each path what the nearest says that
// speaks of it, and the schema's default where none does or the nearest takes
// it away.
func (f *family) design(node *member) map[string]effective {
	all := map[string]effective{}
	for _, p := range spots {
		for _, name := range f.line(node) {
			if said := f.get(name).speaks(p.at); said != "" {
				if said != taken {
					all[p.at] = effective{said, name}
				}
				break
			}
		}
	}
	if _, ok := all[credentialSpot]; !ok {
		all[credentialSpot] = effective{`"bmc"`, "schema"}
	}
	return all
}

// spot is a place in a layer that a random family speaks of, and how to make a
// value for it that nobody else has.
type spot struct {
	at   string
	make func(r *rand.Rand, who int) any
}

func aText(_ *rand.Rand, who int) any   { return fmt.Sprint("by-", who) }
func aNumber(_ *rand.Rand, who int) any { return who + 1 }
func aBool(r *rand.Rand, _ int) any     { return r.IntN(2) == 0 }

const credentialSpot = "endpoints/manager/credential"

// spots are places at every depth, beside three and more others each: what is
// below extensions is free, the others have their own definitions.
var spots = slices.Concat(
	entries("labels/%s", aText, "a", "b", "c", "d"),
	entries("tags/%s", aBool, "a", "b", "c"),
	entries("system/packages/%s/version", aText, "chrony", "lldpd", "mdadm"),
	entries("system/files/%s/content", aText, "|etc|a", "|etc|b", "|etc|c"),
	entries("extensions/vm/%s/cpus", aNumber, "web", "db", "dns"),
	entries("extensions/vm/web/disks/%s/size", aNumber, "root", "log", "data", "swap"),
	entries("extensions/vm/web/disks/%s/on", aBool, "root", "log", "data"),
	entries("extensions/vm/db/disks/%s/size", aNumber, "root", "log", "data"),
	entries("extensions/%s/only/flag", aBool, "x1", "x2", "x3"),
	[]spot{
		{credentialSpot, func(r *rand.Rand, _ int) any { return []string{"bmc", "other", "third"}[r.IntN(3)] }},
		{"boot/order", func(r *rand.Rand, _ int) any {
			all := []any{"Hdd", "Pxe", "Cd", "Usb", "UefiHttp"}
			r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			return all[:1+r.IntN(4)]
		}},
		{"power", func(r *rand.Rand, _ int) any { return []string{"on", "off"}[r.IntN(2)] }},
	},
)

func entries(form string, value func(*rand.Rand, int) any, names ...string) []spot {
	var all []spot
	for _, name := range names {
		all = append(all, spot{fmt.Sprintf(form, name), value})
	}
	return all
}

// randomFamily makes profiles of up to three parents each, and nodes. Where
// consistent is asked for, every member has a linearisation.
func randomFamily(r *rand.Rand, consistent bool) *family {
	f := &family{shuffle: r.Uint64()}
	profiles := 2 + r.IntN(7)
	for i := range profiles + 1 + r.IntN(4) {
		m := &member{name: fmt.Sprint("p", i), isNode: i >= profiles}
		if m.isNode {
			m.name = fmt.Sprint("n", i)
		}
		for _, j := range r.Perm(min(i, profiles)) {
			if len(m.parents) < 3 && r.IntN(3) == 0 {
				m.parents = append(m.parents, fmt.Sprint("p", j))
			}
		}
		if m.isNode && len(m.parents) == 0 {
			m.parents = []string{"p0"}
		}
		f.members = append(f.members, m)
		for consistent && f.line(m) == nil {
			m.parents = m.parents[1:]
		}
		m.says = randomSayings(r, i)
	}
	return f
}

// randomSayings is what one member says: values at some places, and some taken
// away, be it alone or with all that they are part of.
func randomSayings(r *rand.Rand, who int) map[string]string {
	says := map[string]string{}
	often := 2 + r.IntN(6)
	for _, p := range spots {
		if r.IntN(often) > 0 {
			continue
		}
		switch at := p.at; r.IntN(6) {
		case 0:
			for range r.IntN(3) {
				if above(at) != "" {
					at = above(at)
				}
			}
			says[at] = taken
		default:
			says[at] = jsonOf(p.make(r, who))
		}
	}
	return says
}

func jsonOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// files are the family as a site's files: every member in several declarations,
// in any order, in any file, with braces or without.
func (f *family) files() map[string]string {
	r := rand.New(rand.NewPCG(f.shuffle, 3))
	var texts []string
	for i, m := range f.members {
		section := "profiles"
		if m.isNode {
			section = "nodes"
		}
		for _, part := range m.parts(r, i) {
			texts = append(texts, fmt.Sprintf("%s: %s: %s\n", section, m.name, part))
		}
	}
	r.Shuffle(len(texts), func(i, j int) { texts[i], texts[j] = texts[j], texts[i] })
	files := map[string]string{"site.cue": familySite}
	for _, t := range texts {
		name := fmt.Sprint("part-", r.IntN(3), ".cue")
		if files[name] == "" {
			files[name] = "package family\n\n"
		}
		files[name] += t
	}
	return files
}

// familySite is what every family has besides.
const familySite = `package family

credentials: {bmc: {}, other: {}, third: {}}
roles: compute: {}
racks: r1: {}
extensions: {vm: item: {...}, x1: item: {...}, x2: item: {...}, x3: item: {...}}
`

// parts are the declarations of a member.
func (m *member) parts(r *rand.Rand, who int) []string {
	n := 1 + r.IntN(3)
	parts := make([]*draft, n)
	for i := range parts {
		parts[i] = &draft{}
	}
	some := func() *draft { return parts[r.IntN(n)] }
	for _, at := range slices.Sorted(maps.Keys(m.says)) {
		some().put(at, m.says[at])
	}
	if len(m.parents) > 0 {
		label := "parents"
		if m.isNode {
			label = "profiles"
		}
		some().put(label, jsonOf(m.parents))
	}
	if m.isNode {
		some().put("role", `"compute"`)
		some().put("rack", `"r1"`)
		some().put("endpoints/manager/url", fmt.Sprintf("%q", fmt.Sprintf("redfish+https://192.0.2.%d/redfish/v1/Systems/1", who+1)))
	}
	var out []string
	for _, p := range parts {
		out = append(out, p.text(r))
	}
	return out
}

// draft is a declaration while it is written: fields by name, a value, or that
// it is taken away.
type draft struct {
	fields map[string]*draft
	value  string
	taken  bool
}

func (t *draft) put(at, said string) {
	for _, label := range strings.Split(at, "/") {
		if t.fields == nil {
			t.fields = map[string]*draft{}
		}
		if t.fields[label] == nil {
			t.fields[label] = &draft{}
		}
		t = t.fields[label]
	}
	if said == taken {
		t.taken = true
	} else {
		t.value = said
	}
}

func (t *draft) text(r *rand.Rand) string {
	out := t.value
	switch {
	case out != "":
	case len(t.fields) == 0 && t.taken:
		out = "_"
	default:
		out = t.braces(r)
	}
	if t.taken {
		out += " " + taken
	}
	return out
}

func (t *draft) braces(r *rand.Rand) string {
	labels := slices.Sorted(maps.Keys(t.fields))
	r.Shuffle(len(labels), func(i, j int) { labels[i], labels[j] = labels[j], labels[i] })
	var fields []string
	for _, label := range labels {
		name := label
		if strings.Contains(label, "|") || r.IntN(3) == 0 {
			name = fmt.Sprintf("%q", strings.ReplaceAll(label, "|", "/"))
		}
		fields = append(fields, name+": "+t.fields[label].text(r))
	}
	// `a: b: 1` needs no braces, but `a: b: 1 @unset()` is about b.
	if len(fields) == 1 && !t.taken && r.IntN(2) == 0 {
		return fields[0]
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

// outcome is what the product says of a family: each node's design, and its
// profiles, weakest first.
type outcome struct {
	designs  map[string]map[string]effective
	orders   map[string][]string
	findings []site.Finding
}

// evaluate asks the product, once for each family, as many laws look at the
// same.
func (f *family) evaluate() outcome {
	key := fmt.Sprint(f.shuffle, f)
	if known, ok := outcomes.Load(key); ok {
		return known.(outcome)
	}
	o := outcomeOf(EvaluateHere(repository(f.files()), ""))
	outcomes.Store(key, o)
	return o
}

var outcomes sync.Map

// outcomeOf takes from a result what families speak of.

func outcomeOf(result Result) outcome {
	o := outcome{designs: map[string]map[string]effective{}, orders: map[string][]string{}, findings: result.Findings}
	if result.Site == nil {
		return o
	}
	for name, n := range result.Site.Nodes {
		o.orders[name] = n.Profiles
		var plain map[string]any
		if err := json.Unmarshal([]byte(jsonOf(n)), &plain); err != nil {
			panic(err)
		}
		o.designs[name] = map[string]effective{}
		for _, p := range spots {
			if v, ok := lookUp(plain, p.at); ok {
				from := n.Origins.Of(strings.ReplaceAll(strings.ReplaceAll(p.at, "/", "."), "|", "/")).LayerName()
				o.designs[name][p.at] = effective{jsonOf(v), from[strings.Index(from, "/")+1:]}
			}
		}
	}
	return o
}

func lookUp(v any, at string) (any, bool) {
	for _, label := range strings.Split(at, "/") {
		in, _ := v.(map[string]any)
		var ok bool
		if v, ok = in[strings.ReplaceAll(label, "|", "/")]; !ok {
			return nil, false
		}
	}
	return v, true
}

// law is a property of every family: it says what is wrong with this one, and
// nothing where it holds.
type law func(*family) string

// holdsForAll tries a law on random families. One that breaks it is made as
// small as it can be, so that a person can read what is wrong.
func holdsForAll(t *testing.T, make func(*rand.Rand) *family, broken law) {
	t.Helper()
	for seed := range uint64(samples()) {
		f := make(rand.New(rand.NewPCG(seed, 7)))
		if broken(f) == "" {
			continue
		}
		f = f.shrunk(broken)
		t.Fatalf("seed %d, made smaller:\n%s\n%s", seed, f, broken(f))
	}
}

// samples is how many families a law is tried on.
func samples() int { return many(10, 1000) }

// many is how often something random is tried: so often as a sample, all of it
// with SLIPWAY_PROVE, and a fifth of the sample where the race detector makes
// everything slow.
func many(sample, all int) int {
	switch {
	case os.Getenv("SLIPWAY_PROVE") != "":
		return all
	case racing:
		return max(1, sample/5)
	}
	return sample
}

func consistent(r *rand.Rand) *family { return randomFamily(r, true) }

// shrunk takes away what it can as long as the law stays broken.
func (f *family) shrunk(broken law) *family {
	for {
		smaller := f.smaller(broken)
		if smaller == nil {
			return f
		}
		f = smaller
	}
}

// smaller is the family with one thing less that still breaks the law, nil
// without one.
func (f *family) smaller(broken law) *family {
	for i, m := range f.members {
		if !f.named(m.name) {
			if g := f.clone(); g.drop(i).breaks(broken) {
				return g
			}
		}
		for j := range m.parents {
			g := f.clone()
			g.members[i].parents = slices.Delete(g.members[i].parents, j, j+1)
			if (!m.isNode || len(m.parents) > 1) && g.breaks(broken) {
				return g
			}
		}
		for _, at := range slices.Sorted(maps.Keys(m.says)) {
			g := f.clone()
			delete(g.members[i].says, at)
			if g.breaks(broken) {
				return g
			}
		}
	}
	return nil
}

func (f *family) breaks(broken law) bool { return len(f.nodes()) > 0 && broken(f) != "" }

func (f *family) drop(i int) *family {
	f.members = slices.Delete(f.members, i, i+1)
	return f
}

// named says whether any member names a profile.
func (f *family) named(name string) bool {
	return slices.ContainsFunc(f.members, func(m *member) bool { return slices.Contains(m.parents, name) })
}

func (f *family) clone() *family {
	g := &family{shuffle: f.shuffle}
	for _, m := range f.members {
		c := *m
		c.parents, c.says = slices.Clone(m.parents), maps.Clone(m.says)
		g.members = append(g.members, &c)
	}
	return g
}

// String is the family in a line for each thing that is said.
func (f *family) String() string {
	var b strings.Builder
	for _, m := range f.members {
		fmt.Fprintf(&b, "%s over %v\n", m.name, m.parents)
		for _, at := range slices.Sorted(maps.Keys(m.says)) {
			fmt.Fprintf(&b, "\t%s: %s\n", at, m.says[at])
		}
	}
	return b.String()
}
