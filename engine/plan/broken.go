package plan

import (
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// brokenBy returns what an installation by the agent breaks on disks that stay and are not in the
// design, as the text of Loss.Breaks. It is not known before the agent has reported disks that fit.
func brokenBy(n *site.Node, o site.Observed) (text string, known bool) {
	l, wrong, known := Layout(n, o)
	if !known || len(wrong) > 0 {
		return "", false
	}
	var all []string
	for _, d := range l.Destroys {
		for _, b := range d.Breaks {
			all = append(all, sharedName(b.Shared))
		}
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", "), true
}

// sharedName returns the exact name of something that lies on several disks: "the array data
// (4ba3…)". A name that contains the list separator does not read as two.
func sharedName(s item.Shared) string {
	name := s.String()
	if s.UUID != "" && !strings.HasSuffix(name, s.UUID) {
		name += " (" + s.UUID + ")"
	}
	return site.DiskName(name)
}

// alsoLost describes what a loss breaks on disks that stay; empty for nothing.
func alsoLost(breaks string) string {
	if breaks == "" {
		return ""
	}
	return "; also what other disks, which stay, have of " + breaks
}

// includesBroken reports whether everything that is broken was approved.
func includesBroken(approved, breaks string) bool {
	of := strings.Split(approved, ", ")
	return breaks == "" || !slices.ContainsFunc(strings.Split(breaks, ", "), func(b string) bool { return !slices.Contains(of, b) })
}

// stays says where the remaining parts of what an installation breaks are, one line each.
func stays(n *site.Node, o site.Observed) (lines []string) {
	l, wrong, known := Layout(n, o)
	if !known || len(wrong) > 0 {
		return nil
	}
	var broken []string
	on := map[string][]string{}
	for _, d := range l.Destroys {
		for _, b := range d.Breaks {
			name := sharedName(b.Shared)
			if !slices.Contains(broken, name) {
				broken = append(broken, name)
			}
			if id := b.On; id != "" && !slices.Contains(on[name], id) {
				on[name] = append(on[name], id)
			}
		}
	}
	for _, name := range broken {
		line := "BROKEN: " + name + ", which lies on disks that stay too"
		if len(on[name]) > 0 {
			line += ": " + strings.Join(on[name], ", ")
		}
		lines = append(lines, line)
	}
	return lines
}
