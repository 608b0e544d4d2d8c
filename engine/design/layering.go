package design

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// stack is a list of profiles, merged. Many nodes have the same list.
type stack struct {
	folded *tree
	// beaten are the findings about defaults of these profiles that override what
	// another profile sets.
	beaten []site.Finding
	// broken says that part of a profile has no value.
	broken bool
}

// stackOf merges profiles, weakest first. It may run for several nodes at once.
func (sh *shared) stackOf(order []string) stack {
	key := strings.Join(order, "\n")
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s, known := sh.stacks[key]
	if known {
		return s
	}
	for _, p := range order {
		l := sh.pedigree.profiles[p].layer
		if !sh.lost {
			s.beaten = append(s.beaten, beats(l, s.folded, "")...)
		}
		s.folded, s.broken = merge(s.folded, l), s.broken || l.broken
	}
	s.folded.share()
	sh.stacks[key] = s
	return s
}

// beats finds the defaults in a layer that override values of layers below. A
// default looks weaker than every layer, but CUE knows no layers. It resolves the
// default within its own layer, so it wins like any other value.
func beats(over, under *tree, path string) []site.Finding {
	if over == nil || under == nil || over.broken || under.broken {
		return nil
	}
	if over.preset {
		if o := under.place(nil); o.LayerName() != "schema" && !sameValue(over, under) {
			return []site.Finding{{
				Code: "default-over-layer", Severity: site.SeverityWarning, Path: path,
				File: over.origin.File.Value(), Line: over.origin.Line, Col: over.origin.Col,
				Message: fmt.Sprintf("the default %s of %s overrides %s at %s (%s)", brief(over), path, brief(under), o, o.LayerName()),
				Why:     "A default (*) of CUE is resolved within its own layer, so it overrides every layer below, although it looks weaker.",
				Fix:     "Write the value without `*` if it should win, or put it into a weaker profile if it should not.",
				Related: []string{o.String()},
			}}
		}
		return nil
	}
	var found []site.Finding
	for _, key := range over.keys() {
		found = append(found, beats(over.fields[key], under.fields[key], join(path, key))...)
	}
	return found
}

// sameValue reports whether two trees have the same value.
func sameValue(a, b *tree) bool {
	x, _ := compact(a.plain())
	y, _ := compact(b.plain())
	return string(x) == string(y)
}

// brief returns a value as a sentence quotes it.
func brief(t *tree) string {
	text, _ := compact(t.plain())
	return shorten(string(text))
}

// vainUnsets returns the paths that a layer unsets but no layer below sets, with
// their places.
func vainUnsets(over, under *tree, path string) map[string]site.Origin {
	if over == nil || over.isSettled() {
		return nil
	}
	if over.unset {
		if under == nil || under.unset {
			return map[string]site.Origin{path: over.origin}
		}
		return nil
	}
	all := map[string]site.Origin{}
	for _, key := range over.keys() {
		for at, o := range vainUnsets(over.fields[key], under.get(key), join(path, key)) {
			all[at] = o
		}
	}
	return all
}

func vainUnset(who, path string, o site.Origin) site.Finding {
	return site.Finding{
		Code: "unset-nothing", Severity: site.SeverityWarning, Path: path,
		File: o.File.Value(), Line: o.Line, Col: o.Col,
		Message: fmt.Sprintf("%s removes %s, which no layer below sets", who, path),
		Why:     "The line has no effect: the field may have another name, or a layer above may set it.",
		Fix:     "Remove the line, or remove the field that you mean.",
	}
}

// vainUnsets reports what a node's own layer unsets without effect.
func (sh *shared) vainUnsets(found *findings, own layer, below *tree) {
	if sh.lost {
		return
	}
	vain := vainUnsets(own.tree, below, "")
	for _, path := range sortedKeys(vain) {
		if path == "" {
			continue // an unset of the whole layer is not reported
		}
		f := vainUnset("the node "+own.name, path, vain[path])
		f.Node = own.name
		found.add(f)
	}
}

// vainProfiles reports what profiles unset without effect: no layer below sets it,
// in any node that has the profile.
func (sh *shared) vainProfiles(nodes map[string]*site.Node) []site.Finding {
	if sh.lost || !slices.ContainsFunc(sh.pedigree.names, func(p string) bool { return !sh.pedigree.profiles[p].layer.isSettled() }) {
		return nil
	}
	orders := map[string][]string{}
	for _, n := range nodes {
		orders[strings.Join(n.Profiles, "\n")] = n.Profiles
	}
	// vain holds, by profile, what it unset without effect in all orders so far.
	vain := map[string]map[string]site.Origin{}
	for _, order := range orders {
		var below *tree
		for _, name := range order {
			p := sh.pedigree.profiles[name]
			if p == nil {
				break
			}
			here := vainUnsets(p.layer, below, "")
			below = merge(below, p.layer)
			before, seen := vain[name]
			if !seen {
				vain[name] = here
				continue
			}
			for path := range before {
				if _, still := here[path]; !still {
					delete(before, path)
				}
			}
		}
	}
	var found []site.Finding
	for _, name := range sortedKeys(vain) {
		for _, path := range sortedKeys(vain[name]) {
			if path != "" {
				found = append(found, vainUnset("the profile "+name, path, vain[name][path]))
			}
		}
	}
	return found
}
