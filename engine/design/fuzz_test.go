package design

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/site"
)

// FuzzLoad loads repositories of any text: a module file, a file of the site's
// package, and another anywhere. It ends in an instance of CUE, or in findings
// with places in files that are there.
func FuzzLoad(f *testing.F) {
	const module = "module: \"example.org/site\"\nlanguage: version: \"v0.17.0\"\n"
	f.Add(module, "package a\nimport \"example.org/site/b\"\nracks: b.x\n", "b/b.cue", "package b\nx: r1: {}\n")
	f.Add(module, "package a\nimport b \"example.org/b:c\"\nracks: b.x\n", "cue.mod/pkg/example.org/b/b.cue", "package c\nimport \"example.org/site\"\nx: {}\n")
	f.Add(module+"deps: \"example.org/b@v0\": {v: \"v0.0.1\", replaceWith: \"..\"}\n", "package a\nimport \"example.org/b@v0\"\n", "cue.mod/local-module.cue", module)
	f.Add("module: \"..\"\nlanguage: version: \"v0.17.0\"\n", "package a\nimport \"../b\"\n", "cue.mod/usr/b/b.cue", "package b\n")
	f.Add("", "package a\n@extern(embed)\nx: _ @embed(file=b.json)\n", "b.json", "{}")
	f.Add(module, "package a\ndata: d: path: \"*.yaml\"\n", "d.yaml", "n1: {labels: {a: null}}\n")
	f.Add(module, "package a\n", "sites/b/b.cue", "package b\nnodes: n1: _\n")
	f.Fuzz(func(t *testing.T, module, text, name, other string) {
		if !fs.ValidPath(name) || name == "." || len(module)+len(text)+len(other) > 4<<10 {
			return
		}
		repo := fstest.MapFS{}
		for name, text := range map[string]string{name: other, moduleFile: module, "a.cue": text} {
			repo[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if strings.HasPrefix(name, moduleFile+"/") || strings.HasPrefix(name, "a.cue/") {
			return // no file system has it
		}
		p, found, err := collect(repo, "", Limits{}.withDefaults())
		if err != nil {
			t.Fatal(err)
		}
		l := newLoader(p)
		if !site.HasErrors(found) {
			l.readModule()
			inst := l.load()
			found = append(found, l.findings.list...)
			if (inst == nil) != site.HasErrors(l.findings.list[l.before:]) {
				t.Errorf("loaded: %v, with %s", inst != nil, describe(found))
			}
		}
		for _, x := range found {
			if x.Code == "" || x.Message == "" || x.Fix == "" {
				t.Errorf("got %+v", x)
			}
			if x.File != "" && x.File != moduleFile && repo[x.File] == nil && !isFolder(repo, x.File) {
				t.Errorf("found in %s, which is not there: %+v", x.File, x)
			}
		}
	})
}

func isFolder(files fs.FS, name string) bool {
	info, err := fs.Stat(files, strings.TrimSuffix(name, "/"))
	return err == nil && info.IsDir()
}

// FuzzDecode reads answers that no worker gave: they are refused, or are what
// writes itself the same again.
func FuzzDecode(f *testing.F) {
	for _, files := range []map[string]string{small, {"site.cue": "package a\nnodes: n1: {labels: {a: \"x\"}, boot: order: [\"Hdd\"], tags: _ @unset()}\nprofiles: p: parents: [\"p\"]\nbogus: 1\n"}} {
		p, _, err := collect(repository(files), "", Limits{}.withDefaults())
		if err != nil {
			f.Fatal(err)
		}
		answer, err := askHere(f.Context(), request{ask: askExtract, pack: p})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(answer)
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		d := newDecoder(answer)
		x := d.extract()
		if d.err != nil {
			return
		}
		e := newEncoder()
		e.extract(x)
		again := newDecoder(e.out)
		if y := again.extract(); again.err != nil || !reflect.DeepEqual(bare(x), bare(y)) {
			t.Errorf("%x reads as one thing, and as another once it was written again: %v", answer, again.err)
		}
	})
}

// bare is what an extract says, in terms that can be compared.
func bare(x extract) []string {
	list := []string{fmt.Sprint(x.cutShared, x.lost, x.unread), describe(x.findings)}
	for _, name := range sortedKeys(x.sections) {
		list = append(list, name)
		list = append(list, slices.Sorted(slices.Values(listTree("", x.sections[name])))...)
	}
	for _, all := range [][]layer{x.profiles, x.nodes, x.data} {
		for _, l := range all {
			list = append(list, l.name, l.place.String(), describe(l.findings))
			list = append(list, slices.Sorted(slices.Values(listTree("", l.tree)))...)
		}
	}
	return list
}

// FuzzAllocate gives out addresses of random pools: each node that asks has one
// of its own that may be given, whoever has one keeps it, and the same wishes
// get the same addresses.
func FuzzAllocate(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 11))
		s := randomPools(r)
		got, err := Allocate(s)
		again, err2 := Allocate(s)
		if diff := cmp.Diff(got, again); diff != "" || (err == nil) != (err2 == nil) {
			t.Fatalf("the same site gave other addresses: %s", diff)
		}
		if err != nil {
			checkExhausted(t, s, err)
			return
		}
		checkAllocations(t, s, got)
		s.Allocations = got
		if diff := cmp.Diff(got, must(Allocate(s))); diff != "" {
			t.Errorf("what was allocated was not kept: %s", diff)
		}
		leave := s.NodeNames()[r.IntN(len(s.Nodes))]
		delete(s.Nodes, leave)
		for network, given := range must(Allocate(s)) {
			for node, address := range given {
				if got[network][node] != address {
					t.Errorf("%s had %s of %s, and when %s left %s", node, got[network][node], network, leave, address)
				}
			}
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// randomPools is a site with small networks and nodes that want addresses, some
// of which have one already, good or not.
func randomPools(r *rand.Rand) *site.Site {
	s := &site.Site{Networks: map[string]*site.Network{}, Nodes: map[string]*site.Node{}, Allocations: map[string]map[string]string{}}
	address := func(i int, v6 bool, last int) string {
		if v6 {
			return fmt.Sprintf("2001:db8:%x::%x", i, last)
		}
		return fmt.Sprintf("10.0.%d.%d", i, last)
	}
	for i := range 1 + r.IntN(3) {
		v6 := r.IntN(3) == 0
		n := &site.Network{CIDR: fmt.Sprintf("10.0.%d.0/%d", i, 24+r.IntN(9)), Ranges: map[string]site.Range{}}
		if v6 {
			n.CIDR = fmt.Sprintf("2001:db8:%x::/%d", i, 120+r.IntN(9))
		}
		if r.IntN(2) == 0 {
			n.Gateway = address(i, v6, r.IntN(20))
		}
		for j := range 1 + r.IntN(3) {
			from := 1 + r.IntN(20)
			n.Ranges[fmt.Sprint("range", j)] = site.Range{From: address(i, v6, from), To: address(i, v6, from+r.IntN(12)-1), Use: []site.RangeUse{site.RangeStatic, site.RangeStatic, "dhcp"}[r.IntN(3)]}
		}
		s.Networks[fmt.Sprint("net", i)] = n
		s.Allocations[fmt.Sprint("net", i)] = map[string]string{}
		for j := range 1 + r.IntN(12) {
			name := fmt.Sprint("n", j)
			if s.Nodes[name] == nil {
				s.Nodes[name] = &site.Node{Name: name, Addresses: map[string]string{}}
			}
			switch r.IntN(4) {
			case 0:
				s.Nodes[name].Addresses[fmt.Sprint("net", i)] = address(i, v6, r.IntN(32))
			case 1, 2:
				s.Nodes[name].Addresses[fmt.Sprint("net", i)] = site.AddressAllocate
			}
			if r.IntN(3) == 0 {
				s.Allocations[fmt.Sprint("net", i)][name] = []string{address(i, v6, r.IntN(32)), "nonsense", ""}[r.IntN(3)]
			}
		}
	}
	return s
}

// allowed says whether an address is one that a network may give.
func allowed(n *site.Network, a netip.Addr) bool {
	in := false
	for _, x := range n.Ranges {
		from, to := netip.MustParseAddr(x.From), netip.MustParseAddr(x.To)
		in = in || x.Use == site.RangeStatic && !a.Less(from) && !to.Less(a)
	}
	gateway, _ := netip.ParseAddr(n.Gateway) // it need not have one
	return in && a != gateway && !slices.Contains(site.Unusable(netip.MustParsePrefix(n.CIDR)), a)
}

func checkAllocations(t *testing.T, s *site.Site, got Allocations) {
	t.Helper()
	for network, n := range s.Networks {
		owner := map[string]string{}
		for _, node := range s.NodeNames() {
			wish := s.Nodes[node].Addresses[network]
			given := got[network][node]
			if (wish == site.AddressAllocate) != (given != "") {
				t.Errorf("%s wants %q of %s and is given %q", node, wish, network, given)
			}
			if given == "" {
				continue
			}
			if other := owner[given]; other != "" {
				t.Errorf("%s of %s is given to %s and %s", given, network, other, node)
			}
			owner[given] = node
			if a, err := netip.ParseAddr(given); err != nil || !allowed(n, a) {
				t.Errorf("%s is given %s of %s, which it may not give: %+v", node, given, network, n)
			}
		}
		for _, node := range s.Nodes {
			has, err := netip.ParseAddr(node.Addresses[network])
			if err == nil && owner[has.String()] != "" {
				t.Errorf("%s of %s is %s's, and is given to %s", has, network, node.Name, owner[has.String()])
			}
		}
	}
}

// checkExhausted holds that there is a network with more wishes than addresses,
// and that the error names it.
func checkExhausted(t *testing.T, s *site.Site, err error) {
	t.Helper()
	for network, n := range s.Networks {
		free, wishes := map[netip.Addr]bool{}, 0
		for _, x := range n.Ranges {
			for a := netip.MustParseAddr(x.From); !netip.MustParseAddr(x.To).Less(a); a = a.Next() {
				if allowed(n, a) {
					free[a] = true
				}
			}
		}
		for node := range maps.Values(s.Nodes) {
			a, bad := netip.ParseAddr(node.Addresses[network])
			if bad == nil {
				delete(free, a)
			}
			if node.Addresses[network] == site.AddressAllocate {
				wishes++
			}
		}
		if wishes > len(free) && strings.Contains(err.Error(), "network "+network) {
			return
		}
	}
	t.Errorf("there is enough for everyone: %v", err)
}
