package design

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/site"
)

// A family without contradictions has a design, and each node's is what the
// model says of every place, from the layer it says.
func TestLawLayersAreMerged(t *testing.T) {
	holdsForAll(t, consistent, func(f *family) string {
		got := f.evaluate()
		if len(got.designs) == 0 {
			return "there is no design:\n" + describe(got.findings)
		}
		for _, n := range f.nodes() {
			if diff := cmp.Diff(f.design(n), got.designs[n.name], cmp.AllowUnexported(effective{})); diff != "" {
				return fmt.Sprintf("%s by the model (-) and as evaluated (+):\n%s", n.name, diff)
			}
		}
		return ""
	})
}

// Who stands over whom is what C3 says.
func TestLawLinearisationIsC3(t *testing.T) {
	holdsForAll(t, consistent, func(f *family) string {
		got := f.evaluate()
		for _, n := range f.nodes() {
			want := f.line(n)[1:]
			slices.Reverse(want)
			if order := got.orders[n.name]; !slices.Equal(order, want) {
				return fmt.Sprintf("the profiles of %s are %v, by C3 %v", n.name, order, want)
			}
		}
		return ""
	})
}

// Every profile that a node inherits from is applied, once, after its own
// parents.
func TestLawEachProfileIsAppliedOnce(t *testing.T) {
	holdsForAll(t, consistent, func(f *family) string {
		got := f.evaluate()
		for _, n := range f.nodes() {
			order := got.orders[n.name]
			if all := slices.Sorted(maps.Keys(f.ancestors(n))); !slices.Equal(slices.Sorted(slices.Values(order)), all) {
				return fmt.Sprintf("%s inherits from %v and has %v applied", n.name, all, order)
			}
			for i, name := range order {
				for parent := range f.ancestors(f.get(name)) {
					if slices.Index(order, parent) > i {
						return fmt.Sprintf("%s: %s is laid over %s, which stands on it: %v", n.name, parent, name, order)
					}
				}
			}
		}
		return ""
	})
}

// Linearisation is monotone: what a profile's own order says of two others
// holds for all that inherit from it.
func TestLawLinearisationIsMonotone(t *testing.T) {
	holdsForAll(t, func(r *rand.Rand) *family { return withANodeEach(consistent(r)) }, func(f *family) string {
		got := f.evaluate()
		alone := map[string][]string{}
		for _, n := range f.nodes() {
			if len(n.parents) == 1 {
				alone[n.parents[0]] = got.orders[n.name]
			}
		}
		for _, n := range f.nodes() {
			for _, name := range got.orders[n.name] {
				within := slices.DeleteFunc(slices.Clone(got.orders[n.name]), func(p string) bool { return !slices.Contains(alone[name], p) })
				if alone[name] != nil && !slices.Equal(within, alone[name]) {
					return fmt.Sprintf("the order of %s is %v; in %s it is %v", name, alone[name], n.name, within)
				}
			}
		}
		return ""
	})
}

// withANodeEach is a family with a node for every profile alone.
func withANodeEach(f *family) *family {
	for _, m := range slices.Clone(f.members) {
		if !m.isNode {
			f.members = append(f.members, &member{name: "only-" + m.name, isNode: true, parents: []string{m.name}, says: map[string]string{}})
		}
	}
	return f
}

// An order that contradicts itself is a finding about the first who has it, and
// nobody else is blamed.
func TestLawContradictionsAreFindings(t *testing.T) {
	holdsForAll(t, func(r *rand.Rand) *family { return randomFamily(r, false) }, func(f *family) string {
		var want, got []string
		for _, m := range f.members {
			fine := !slices.ContainsFunc(m.parents, func(p string) bool { return f.line(f.get(p)) == nil })
			if f.line(m) == nil && fine {
				want = append(want, m.name)
			}
		}
		for _, x := range f.evaluate().findings {
			if x.Code == "profile-order" {
				who, _, _ := strings.Cut(x.Message, " names")
				got = append(got, who[strings.LastIndex(who, " ")+1:])
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Sprintf("findings about %v, want %v", got, want)
		}
		return ""
	})
}

// Neither the order of declarations nor the files they are in make a
// difference, for a design or for findings.
func TestLawOrderAndFilesMakeNoDifference(t *testing.T) {
	holdsForAll(t, func(r *rand.Rand) *family { return randomFamily(r, r.IntN(4) > 0) }, func(f *family) string {
		moved := f.clone()
		moved.shuffle++
		here, there := f.evaluate(), moved.evaluate()
		if diff := cmp.Diff(here.designs, there.designs, cmp.AllowUnexported(effective{})); diff != "" {
			return "designs differ:\n" + diff
		}
		if diff := cmp.Diff(here.orders, there.orders); diff != "" {
			return "orders differ:\n" + diff
		}
		if diff := cmp.Diff(placeless(here.findings), placeless(there.findings)); diff != "" {
			return "findings differ:\n" + diff
		}
		return ""
	})
}

// placeless are findings without their places, in an order of their own.
func placeless(all []site.Finding) []string {
	var list []string
	for _, f := range all {
		list = append(list, f.Code+": "+f.Message)
	}
	slices.Sort(list)
	return list
}

// An override survives a diamond: no value comes from a profile while another,
// which stands on that one and speaks of the same place, is inherited too.
func TestLawOverrideSurvivesADiamond(t *testing.T) {
	holdsForAll(t, consistent, func(f *family) string {
		for name, values := range f.evaluate().designs {
			n := f.get(name)
			for at, v := range values {
				for over := range f.ancestors(n) {
					if f.ancestors(f.get(over))[v.from] && f.get(over).speaks(at) != "" {
						return fmt.Sprintf("%s has %s of %s, though %s stands on that and says %s", name, at, v.from, over, f.get(over).speaks(at))
					}
				}
			}
		}
		return ""
	})
}

// A schema's default never beats a layer, be what that says equal to it or not;
// where no layer speaks, or the nearest takes the value away, the default is
// there.
func TestLawDefaultNeverBeatsALayer(t *testing.T) {
	holdsForAll(t, consistent, func(f *family) string {
		for name, values := range f.evaluate().designs {
			said := ""
			for _, of := range f.line(f.get(name)) {
				if said = f.get(of).speaks(credentialSpot); said != "" {
					break
				}
			}
			got := values[credentialSpot]
			if silent := said == "" || said == taken; silent != (got.from == "schema") || silent && got.value != `"bmc"` {
				return fmt.Sprintf("the nearest layer of %s says %q; it has %s of %s", name, said, got.value, got.from)
			}
		}
		return ""
	})
}

// What a layer takes away is gone, with all that is below it, unless a nearer
// one sets it.
func TestLawUnsetIsFinal(t *testing.T) {
	holdsForAll(t, consistent, func(f *family) string {
		for name, values := range f.evaluate().designs {
			line := f.line(f.get(name))
			for at, v := range values {
				for _, nearer := range line[:max(0, slices.Index(line, v.from))] {
					if f.get(nearer).speaks(at) == taken {
						return fmt.Sprintf("%s has %s of %s, though %s takes it away", name, at, v.from, nearer)
					}
				}
			}
		}
		return ""
	})
}

// One more override changes the value that it is about, and no other: not
// those beside it, at any depth.
func TestLawSiblingsSurvive(t *testing.T) {
	holdsForAll(t, consistent, func(f *family) string {
		r := rand.New(rand.NewPCG(f.shuffle, 5))
		of, p := f.nodes()[0], spots[r.IntN(len(spots))]
		before := f.evaluate()
		more := f.clone()
		more.get(of.name).says[p.at] = jsonOf(p.make(r, 99))
		after := more.evaluate()
		if len(before.designs) == 0 || len(after.designs) == 0 {
			return "there is no design:\n" + describe(append(before.findings, after.findings...))
		}
		if diff := cmp.Diff(before.without(of.name, p.at), after.without(of.name, p.at), cmp.AllowUnexported(effective{})); diff != "" {
			return fmt.Sprintf("with %s of %s set to %s besides:\n%s", p.at, of.name, more.get(of.name).says[p.at], diff)
		}
		return ""
	})
}

// without are the designs but for one value of one node.
func (o outcome) without(node, at string) map[string]map[string]effective {
	designs := maps.Clone(o.designs)
	designs[node] = maps.Clone(designs[node])
	delete(designs[node], at)
	return designs
}

// Folding in one go equals folding step by step: where a node's weakest layers
// are one profile that says what they come to, it is the same node.
func TestLawFoldingStepByStep(t *testing.T) {
	holdsForAll(t, consistent, func(f *family) string {
		n := f.nodes()[0]
		line := f.line(n)[1:]
		slices.Reverse(line)
		k := 1 + int(f.shuffle%uint64(len(line)))
		rest := flattened(f, n, line, k)
		base := map[string]string{}
		for at, v := range rest.evaluate().designs["first"] {
			if v.from != "schema" {
				base[at] = v.value
			}
		}
		rest.get("folded").says = base
		if diff := cmp.Diff(valuesAlone(f.evaluate().designs[n.name]), valuesAlone(rest.evaluate().designs[n.name])); diff != "" {
			return fmt.Sprintf("%s in one go (-), with the first %d of %v folded before (+):\n%s", n.name, k, line, diff)
		}
		return ""
	})
}

// flattened is a family of one node whose profiles name no parents. The first k
// of them belong to a node of their own, and an empty profile is in their place.
func flattened(f *family, n *member, line []string, k int) *family {
	flat := &family{shuffle: f.shuffle}
	for _, name := range line {
		p := *f.get(name)
		p.parents = nil
		flat.members = append(flat.members, &p)
	}
	own := *n
	own.parents = append([]string{"folded"}, line[k:]...)
	flat.members = append(flat.members,
		&member{name: "folded", says: map[string]string{}},
		&member{name: "first", isNode: true, parents: line[:k], says: map[string]string{}}, &own)
	return flat
}

func valuesAlone(all map[string]effective) map[string]string {
	list := map[string]string{}
	for at, v := range all {
		list[at] = v.value
	}
	return list
}

// Merging is associative as long as nothing is taken away. (With @unset() it is
// not, and need not be: layers are folded from the weakest on.)
func TestLawMergeIsAssociative(t *testing.T) {
	for seed := range uint64(20 * samples()) {
		r := rand.New(rand.NewPCG(seed, 9))
		var layers [3]*tree
		for i := range layers {
			layers[i] = withoutUnset(randomTree(r, fmt.Sprint("layer", i), 4))
		}
		a, b, c := layers[0], layers[1], layers[2]
		left, right := merge(merge(a, b), c), merge(a, merge(b, c))
		if diff := cmp.Diff(listTree("", left.orEmpty()), listTree("", right.orEmpty()), sortedStrings); diff != "" {
			t.Fatalf("seed %d: (a+b)+c (-), a+(b+c) (+):\n%s\na %v\nb %v\nc %v", seed, diff, listTree("", a), listTree("", b), listTree("", c))
		}
	}
}

var sortedStrings = cmp.Transformer("sorted", func(l []string) []string { return slices.Sorted(slices.Values(l)) })

func withoutUnset(t *tree) *tree {
	for name, f := range t.fields {
		f.unset = false
		if f.fields == nil && f.value == nil {
			delete(t.fields, name)
		} else if f.fields != nil {
			withoutUnset(f)
		}
	}
	return t
}

// What a place holds is of one kind in all layers: a single value, a list or
// fields. Only what a site's own kinds of item leave open can differ, and that
// is a finding about the nearer of the two.
func TestLawKindsNeverChange(t *testing.T) {
	hasOneGoroutine(t)
	kinds := []string{`1`, `"a"`, `true`, `["a"]`, `{a: 1}`}
	form := func(text string) string { return strings.Trim(text[:1], `1"t`) }
	for _, under := range kinds {
		for _, over := range kinds {
			for _, deep := range []string{"", "more: ", "more: still: "} {
				r := EvaluateHere(repository(map[string]string{"site.cue": familySite + `
profiles: p: extensions: vm: web: ` + deep + `it: ` + under + `
profiles: q: parents: ["p"]
nodes: n: {profiles: ["q"], role: "compute", rack: "r1"}
nodes: n: endpoints: manager: url: "redfish+https://192.0.2.1/redfish/v1/Systems/1"
nodes: n: extensions: vm: web: ` + deep + `it: ` + over + "\n"}), "")
				changes := slices.ContainsFunc(r.Findings, func(f site.Finding) bool {
					return f.Code == "kind-changed" && f.Node == "n" && f.Line == 12 && f.Path == "extensions.vm.web."+strings.ReplaceAll(deep, ": ", ".")+"it"
				})
				if want := form(under) != form(over); changes != want {
					t.Errorf("%sit: %s over %s: a finding: %v, want %v\n%s", deep, over, under, changes, want, describe(r.Findings))
				}
			}
		}
	}
}

// Siblings survive at every place of a real design: over each value of the
// example's nodes, in turn, another is put, and then nothing; all others stay.
func TestSiblingsSurviveThroughoutTheExample(t *testing.T) {
	hasOneGoroutine(t)
	deepest, tried := 0, 0
	for name, whole := range exampleTrees(t) {
		all := leavesOf(whole)
		for at := range all {
			path := strings.Split(at, "\x00")
			deepest, tried = max(deepest, len(path)), tried+1
			for _, over := range []*tree{{value: "another"}, {unset: true}} {
				got := leavesOf(merge(whole, (*tree)(nil).set(path, over)))
				if (got[at] == "another") == over.unset || (got[at] == nil) != over.unset {
					t.Errorf("%s: %q is %v after %+v", name, path, got[at], over)
				}
				delete(got, at)
				others := maps.Clone(all)
				delete(others, at)
				if diff := cmp.Diff(others, got); diff != "" {
					t.Errorf("%s: with %+v over %q:\n%s", name, over, path, diff)
				}
			}
		}
	}
	if deepest < 6 || tried < 300 {
		t.Errorf("tried %d places down to %d, want more", tried, deepest)
	}
}

// exampleTrees are the layers of the example's nodes, folded.
func exampleTrees(t *testing.T) map[string]*tree {
	t.Helper()
	p, found, err := collect(os.DirFS("../../site-example"), "", Limits{}.withDefaults())
	if err != nil || len(found) > 0 {
		t.Fatal(err, found)
	}
	answer, err := askHere(t.Context(), request{ask: askExtract, pack: p})
	if err != nil {
		t.Fatal(err)
	}
	x := newDecoder(answer).extract()
	sh := sharedOf("example", &x)
	trees := map[string]*tree{}
	for _, l := range x.nodes {
		trees[l.name] = sh.merge(l).merged
	}
	return trees
}

// leavesOf are the values of a tree by path.
func leavesOf(t *tree) map[string]any {
	all := map[string]any{}
	var walk func(at []string, t *tree)
	walk = func(at []string, t *tree) {
		if t.fields == nil {
			all[strings.Join(at, "\x00")] = t.value
		}
		for name, f := range t.fields {
			walk(append(slices.Clone(at), name), f)
		}
	}
	walk(nil, t)
	return all
}
