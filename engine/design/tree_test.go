package design

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/site"
)

// FuzzMerge folds random layers and compares with what each path says by
// itself: the strongest layer that sets it, unless it or a later one took it or
// what it is part of away.
func FuzzMerge(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		var layers []*tree
		want := map[string]string{}
		for i := range 1 + r.IntN(5) {
			l := randomTree(r, fmt.Sprint("layer", i), 3)
			layers = append(layers, l)
			overlay(want, "", l)
		}
		before := fmt.Sprint(leaves(layers))
		var folded *tree
		for _, l := range layers {
			folded = merge(folded, l)
		}
		got := map[string]string{}
		if folded != nil {
			for path, o := range folded.origins().All() {
				got[path] = o.LayerName()
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("each path by itself (-), folded (+):\n%s", diff)
		}
		if after := fmt.Sprint(leaves(layers)); after != before {
			t.Errorf("merging changed a layer: %s, was %s", after, before)
		}
	})
}

// randomTree makes a layer. Its kinds are fixed by the names, as the schema
// fixes them: s… is a struct, v… a value.
func randomTree(r *rand.Rand, layer string, depth int) *tree {
	t := &tree{fields: map[string]*tree{}}
	for _, name := range []string{"v1", "v2", "s1", "s2"} {
		switch {
		case r.IntN(2) == 0:
		case name[0] == 's' && depth > 0:
			t.fields[name] = randomTree(r, layer, depth-1)
			t.fields[name].unset = r.IntN(6) == 0
		case name[0] == 'v':
			t.fields[name] = &tree{origin: site.At("f", 1, 1, layer), value: layer}
			if r.IntN(4) == 0 {
				t.fields[name].value, t.fields[name].unset = nil, true
			}
		}
	}
	return t
}

// overlay puts a layer on a map from path to layer.
func overlay(all map[string]string, prefix string, t *tree) {
	for name, f := range t.fields {
		path := join(prefix, name)
		if f.unset {
			maps.DeleteFunc(all, func(p, _ string) bool { return p == path || strings.HasPrefix(p, path+".") })
		}
		if f.fields != nil {
			overlay(all, path, f)
		} else if !f.unset {
			all[path] = f.origin.LayerName()
		}
	}
}

// leaves lists what layers set and take away.
func leaves(layers []*tree) []string {
	var list []string
	for i, l := range layers {
		list = append(list, listTree(fmt.Sprint(i), l)...)
	}
	slices.Sort(list)
	return list
}

func listTree(path string, t *tree) []string {
	list := []string{fmt.Sprint(path, "=", t.value, t.unset)}
	for name, f := range t.fields {
		list = append(list, listTree(join(path, name), f)...)
	}
	return list
}

// A profile's place in a linearisation is after all of its parents and in the
// order of every list, whatever the profiles.
func FuzzLinearise(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 2))
		p := pedigree{profiles: map[string]*profile{}}
		for i := range 8 {
			x := &profile{name: fmt.Sprint("p", i)}
			for j := range i {
				if r.IntN(3) == 0 {
					x.parents = append(x.parents, fmt.Sprint("p", j))
				}
			}
			if r.IntN(3) == 0 {
				slices.Reverse(x.parents)
			}
			p.profiles[x.name] = x
			p.names = append(p.names, x.name)
		}
		p.linearise()
		for _, x := range p.profiles {
			if x.bad {
				if len(p.findings.list) == 0 {
					t.Errorf("%s has no order and there is no finding", x.name)
				}
				continue
			}
			checkOrder(t, p, x)
		}
	})
}

func checkOrder(t *testing.T, p pedigree, x *profile) {
	t.Helper()
	for _, name := range x.order {
		at := -1
		for _, parent := range p.profiles[name].parents {
			next := slices.Index(x.order, parent)
			if next <= at || next >= slices.Index(x.order, name) {
				t.Errorf("the order of %s, %v, contradicts the parents of %s, %v", x.name, x.order, name, p.profiles[name].parents)
			}
			at = next
		}
	}
	if sorted := slices.Compact(slices.Sorted(slices.Values(x.order))); len(sorted) != len(x.order) {
		t.Errorf("the order of %s names a profile twice: %v", x.name, x.order)
	}
}
