package rule

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Fact is something about a node that a rule compares with other nodes: a UUID
// that only one may have, or a network that it takes an address of.
type Fact struct {
	// Key is what is compared or counted, Path the node's value with it. A fact
	// without a path is only counted, which costs nothing however many nodes
	// have it.
	Key, Path string
	// Value is what else the rule needs to know of the node to compare it with others.
	Value string
}

// Facts are what the rules know of a node.
type Facts []ruleFact

type ruleFact struct {
	rule int // in fleetRules
	Fact
	place site.Origin
}

// Holder is a node with a key.
type Holder struct {
	Node, Path, Value string
	Place             site.Origin
}

// Index holds the facts of one rule about all nodes.
type Index struct {
	holders map[string][]Holder // in order of node and path
	several map[string]bool
	counts  map[string]int // of facts without a path
}

func newIndex() *Index {
	return &Index{map[string][]Holder{}, map[string]bool{}, map[string]int{}}
}

// Keys lists all keys in order.
func (x *Index) Keys() []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(x.holders)), maps.Keys(x.counts))
	slices.Sort(all)
	return slices.Compact(all)
}

// pairs splits keys at a blank, and returns the second parts by the first, in
// order.
func (x *Index) pairs() map[string][]string {
	by := map[string][]string{}
	for _, key := range x.Keys() {
		if first, second, ok := strings.Cut(key, " "); ok {
			by[first] = append(by[first], second)
		}
	}
	return by
}

// Count returns how many facts have a key.
func (x *Index) Count(key string) int { return x.counts[key] + len(x.holders[key]) }

// Several lists the keys with more than one holder, in order.
func (x *Index) Several() []string { return slices.Sorted(maps.Keys(x.several)) }

// Holders lists the nodes with a key, in order of node and path. The caller
// must not change the list.
func (x *Index) Holders(key string) []Holder { return x.holders[key] }

func (x *Index) put(node string, f ruleFact) {
	if f.Path == "" {
		x.counts[f.Key]++
		return
	}
	h := Holder{node, f.Path, f.Value, f.place}
	list := x.holders[f.Key]
	at, _ := slices.BinarySearchFunc(list, h, Holder.compare)
	list = slices.Insert(list, at, h)
	x.holders[f.Key] = list
	if len(list) > 1 {
		x.several[f.Key] = true
	}
}

func (x *Index) drop(node string, f ruleFact) {
	if f.Path == "" {
		if x.counts[f.Key]--; x.counts[f.Key] == 0 {
			delete(x.counts, f.Key)
		}
		return
	}
	list := x.holders[f.Key]
	if at, ok := slices.BinarySearchFunc(list, Holder{Node: node, Path: f.Path}, Holder.compare); ok {
		list = slices.Delete(list, at, at+1)
	}
	x.holders[f.Key] = list
	if len(list) < 2 {
		delete(x.several, f.Key)
	}
	if len(list) == 0 {
		delete(x.holders, f.Key)
	}
}

func (h Holder) compare(other Holder) int {
	return cmp.Or(cmp.Compare(h.Node, other.Node), cmp.Compare(h.Path, other.Path))
}

// about places a finding at a holder.
func (h Holder) about(f site.Finding) site.Finding {
	f.Node, f.Path = h.Node, h.Path
	return placed(f, h.Place)
}

// Fleet keeps the facts of all nodes of a site indexed while nodes come, change
// and go.
type Fleet struct {
	indexes []*Index // by rule, as fleetRules
	facts   map[string]Facts
}

// NewFleet returns a fleet without nodes.
func NewFleet() *Fleet {
	f := &Fleet{facts: map[string]Facts{}}
	for range fleetRules {
		f.indexes = append(f.indexes, newIndex())
	}
	return f
}

// Put replaces a node's facts.
func (f *Fleet) Put(node string, facts Facts) {
	f.Drop(node)
	f.facts[node] = facts
	for _, fact := range facts {
		f.indexes[fact.rule].put(node, fact)
	}
}

// Drop forgets a node.
func (f *Fleet) Drop(node string) {
	for _, fact := range f.facts[node] {
		f.indexes[fact.rule].drop(node, fact)
	}
	delete(f.facts, node)
}

// Check runs every rule about the nodes together.
func (f *Fleet) Check(s *site.Site) []site.Finding {
	var all []site.Finding
	for i, r := range fleetRules {
		all = append(all, r.onFleet(s, f.indexes[i])...)
	}
	return all
}

// twice reports every holder of a key but the first.
func twice(what string) func(*site.Site, *Index) []site.Finding {
	return twiceUnless(what, func(_, _ Holder) bool { return false })
}

// twiceUnless is twice without pairs that another rule reports.
func twiceUnless(what string, said func(first, again Holder) bool) func(*site.Site, *Index) []site.Finding {
	return func(_ *site.Site, x *Index) []site.Finding {
		var found []site.Finding
		for _, key := range x.Several() {
			first := x.Holders(key)[0]
			for _, again := range x.Holders(key)[1:] {
				if said(first, again) {
					continue
				}
				message := fmt.Sprintf("%s %s of %s is also that of %s", what, key, again.Node, first.Node)
				if again.Node == first.Node {
					message = fmt.Sprintf("%s has %s %s twice", again.Node, what, key)
				}
				found = append(found, again.about(site.Finding{
					Message: message,
					Fix:     "Correct the one that is wrong.",
					Related: []string{first.Place.String()},
				}))
			}
		}
		return found
	}
}
