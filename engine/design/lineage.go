package design

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/design/rule"
	"github.com/slipway-gitops/slipway/engine/site"
)

// profile is a layer that other layers name.
type profile struct {
	name    string
	parents []string
	// layer is what the profile itself sets; named is where its parents are
	// named, place where it is declared.
	layer        *tree
	named, place site.Origin
	// order is the profile's own linearisation, weakest first and itself last.
	// bad says that it has none, which is reported once.
	order   []string
	bad     bool
	visited bool
}

// pedigree linearises profiles.
type pedigree struct {
	profiles map[string]*profile
	names    []string
	// findings are about the profiles themselves.
	findings findings
	// lost says that profiles may be missing because they did not compile.
	lost bool
}

// linearise orders every profile. It visits them in the order of their names,
// so that the same design gives the same findings.
func (p *pedigree) linearise() {
	for _, name := range p.names {
		p.visit(name, nil)
	}
}

// visit orders a profile after its parents.
func (p *pedigree) visit(name string, below []string) {
	x := p.profiles[name]
	if i := slices.Index(below, name); i >= 0 {
		p.cycle(append(below[i:], name))
		return
	}
	if x.visited {
		return
	}
	for _, parent := range x.parents {
		if p.profiles[parent] != nil {
			p.visit(parent, append(slices.Clone(below), name))
		}
	}
	if !x.visited {
		x.visited = true
		order, ok := p.order(&p.findings, x.parents, "the profile "+name, x.named, "")
		x.order, x.bad = append(order, name), x.bad || !ok
	}
}

// cycle reports profiles whose parents lead back to themselves.
func (p *pedigree) cycle(names []string) {
	var related []string
	for _, name := range names {
		p.profiles[name].bad = true
		related = append(related, p.profiles[name].named.String())
	}
	first := p.profiles[names[0]]
	p.findings.at(first.named, site.Finding{
		Code: "profile-cycle", Path: "profiles." + first.name + ".parents",
		Message: "profiles are their own parents: " + strings.Join(names, " → "),
		Why:     "Slipway cannot tell which one is laid over the other.", Fix: "Remove one of the parents.",
		Related: related[1 : len(related)-1],
	})
}

// order linearises a list of profiles, weakest first: each once, after all of
// its parents, in the order of every list that names them (C3, as of Barrett et
// al., "A monotonic superclass linearization for Dylan", 1996). who names the
// layer that has the list, at its place. If there is no such order, order
// reports it and returns false. It also returns false when a listed profile has
// no order.
func (p *pedigree) order(found *findings, list []string, who string, at site.Origin, node string) ([]string, bool) {
	if !p.known(found, list, who, at, node) {
		return nil, false
	}
	sequences := [][]string{list}
	for _, name := range list {
		if p.profiles[name].bad {
			return nil, false
		}
		sequences = append(sequences, p.profiles[name].order)
	}
	order, stuck := mergeC3(sequences)
	if stuck == nil {
		return order, true
	}
	found.at(at, site.Finding{
		Code: "profile-order", Node: node,
		Message: fmt.Sprintf("%s names profiles in an order that contradicts their parents: %s", who, strings.Join(stuck, ", ")),
		Why:     "What comes later wins, and these two lists contradict each other.",
		Fix:     "Name a profile after those that it is laid over, or leave those out: a profile brings its parents along.",
	})
	return nil, false
}

// known reports whether every profile of a list exists and is named once.
func (p *pedigree) known(found *findings, list []string, who string, at site.Origin, node string) bool {
	good := true
	for i, name := range list {
		if p.profiles[name] == nil {
			good = false
			if p.lost {
				continue
			}
			found.at(at, site.Finding{
				Code: "unknown-profile", Node: node,
				Message: fmt.Sprintf("there is no profile %q%s", name, rule.DidYouMean(name, p.names)),
				Why:     "What it would set is missing, so Slipway does nothing with the nodes that name it.",
				Fix:     "Name an existing profile, or declare this one under `profiles`.",
			})
		}
		if slices.Contains(list[:i], name) {
			good = false
			found.at(at, site.Finding{
				Code: "duplicate-profile", Node: node, Message: fmt.Sprintf("%s names the profile %q twice", who, name),
				Why: "A profile has one place in the order.", Fix: "Name it once.",
			})
		}
	}
	return good
}

// mergeC3 merges sequences, weakest first, and keeps the order of each. The
// first sequence is the list; then follow those of the profiles that it names.
// If two names could be next, mergeC3 takes the one from the later sequence.
// When there is no order, it returns the names that are stuck.
func mergeC3(sequences [][]string) (order, stuck []string) {
	left := slices.Clone(sequences)
	for {
		left = slices.DeleteFunc(left, func(s []string) bool { return len(s) == 0 })
		if len(left) == 0 {
			slices.Reverse(order)
			return order, nil
		}
		strongest, ok := candidate(left)
		if !ok {
			return nil, heads(left)
		}
		order = append(order, strongest)
		for i, s := range left {
			if s[len(s)-1] == strongest {
				left[i] = s[:len(s)-1]
			}
		}
	}
}

// candidate returns the strongest name left: the last name of a sequence, if no
// sequence has it before its own end.
func candidate(left [][]string) (string, bool) {
	for i := len(left) - 1; i >= 0; i-- {
		head := left[i][len(left[i])-1]
		if !slices.ContainsFunc(left, func(s []string) bool { return slices.Contains(s[:len(s)-1], head) }) {
			return head, true
		}
	}
	return "", false
}

func heads(left [][]string) []string {
	var names []string
	for _, s := range left {
		names = append(names, s[len(s)-1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}
