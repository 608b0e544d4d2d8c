package rule

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// OnSite runs the rules about the parts outside the nodes: every one, or only those that judge what is there where a part
// of the site has no value.
func OnSite(s *site.Site, whole bool) []site.Finding {
	var all []site.Finding
	for _, r := range siteRules {
		if whole || r.Partial {
			all = append(all, r.onSite(s)...)
		}
	}
	return all
}

// OnPart runs the rules that judge what is there on a node, where a part of the node or of the site has no value.
func OnPart(s *site.Site, n *site.Node) []site.Finding {
	var all []site.Finding
	for _, r := range nodeRules {
		if r.Partial {
			all = append(all, r.onNode(s, n)...)
		}
	}
	return all
}

// OnNode runs every rule about one node, and returns the node's facts for a
// Fleet. It may run for several nodes at once.
func OnNode(s *site.Site, n *site.Node) ([]site.Finding, Facts) {
	var all []site.Finding
	for _, r := range nodeRules {
		all = append(all, r.onNode(s, n)...)
	}
	var facts Facts
	for i, r := range fleetRules {
		found := r.facts(s, n, func(f Fact, o site.Origin) { facts = append(facts, ruleFact{i, f, o}) })
		all = append(all, found...)
	}
	return all, slices.Clone(facts) // without spare capacity
}

var (
	siteRules  = having(func(r Rule) bool { return r.Site != nil })
	nodeRules  = having(func(r Rule) bool { return r.Node != nil })
	fleetRules = having(func(r Rule) bool { return r.Fleet != nil })
)

func having(what func(Rule) bool) []Rule {
	return slices.DeleteFunc(All(), func(r Rule) bool { return !what(r) })
}

func (r Rule) onSite(s *site.Site) (found []site.Finding) {
	defer r.survive(&found)
	found = r.Site(s)
	for i := range found {
		o, _ := nearest(s.Origins, found[i].Path)
		r.complete(&found[i], o)
	}
	return found
}

func (r Rule) onNode(s *site.Site, n *site.Node) (found []site.Finding) {
	defer r.survive(&found)
	found = r.Node(s, n)
	for i := range found {
		o, ok := nearest(n.Origins, found[i].Path)
		if !ok {
			o = n.Place
		}
		found[i].Node = n.Name
		r.complete(&found[i], o)
	}
	return found
}

// facts passes the rule's facts about a node, with their places, to give.
func (r Rule) facts(s *site.Site, n *site.Node, give func(Fact, site.Origin)) (found []site.Finding) {
	defer r.survive(&found)
	if r.Whole && !isWhole(n) {
		give(Fact{}, site.Origin{})
		return nil
	}
	for _, f := range r.Facts(s, n) {
		if f.Path == "" {
			give(f, site.Origin{})
			continue
		}
		o, ok := nearest(n.Origins, f.Path)
		if !ok {
			o = n.Place
		}
		give(f, o)
	}
	return nil
}

func (r Rule) onFleet(s *site.Site, x *Index) (found []site.Finding) {
	defer r.survive(&found)
	if r.Whole && x.Count("") > 0 {
		return nil
	}
	found = r.Fleet(s, x)
	for i, f := range found {
		o := site.Origin{}
		if f.Node == "" {
			o, _ = nearest(s.Origins, f.Path)
		}
		r.complete(&found[i], o)
	}
	return found
}

// complete fills in what all findings of the rule share.
func (r Rule) complete(f *site.Finding, o site.Origin) {
	f.Code = r.Code
	if f.Severity == "" {
		f.Severity = r.Severity
	}
	if f.Why == "" {
		f.Why = r.Why
	}
	if f.File == "" {
		*f = placed(*f, o)
	}
}

// placed returns a finding at the place of an origin, if that is known.
func placed(f site.Finding, o site.Origin) site.Finding {
	if !o.IsZero() {
		f.File, f.Line, f.Col = o.File.Value(), o.Line, o.Col
	}
	return f
}

// survive turns a panic of the rule into a finding.
func (r Rule) survive(found *[]site.Finding) {
	if cause := recover(); cause != nil {
		*found = []site.Finding{Panicked("the rule "+r.Code, cause)}
	}
}

// Panicked returns the finding about a panic in Slipway.
func Panicked(what string, cause any) site.Finding {
	return site.Finding{
		Code: "panic", Severity: site.SeverityError,
		Message: fmt.Sprintf("%s broke off: %v", what, cause),
		Why:     "This is a fault of Slipway; a design that cannot be checked in full is not applied.",
		Fix:     "Report it with the design that shows it. It happened at " + firstFrames(debug.Stack()),
	}
}

// firstFrames names the functions nearest to a panic.
func firstFrames(stack []byte) string {
	var frames []string
	for line := range strings.Lines(string(stack)) {
		if name, _, ok := strings.Cut(line, "("); ok && !strings.HasPrefix(line, "\t") && strings.Contains(name, "/") {
			frames = append(frames, name)
		}
	}
	if i := slices.Index(frames, "runtime/debug.Stack"); i >= 0 {
		frames = slices.Delete(frames, i, i+1)
	}
	return strings.Join(frames[:min(len(frames), 5)], ", ")
}
