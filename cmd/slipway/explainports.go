package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// explainedPort is what was seen of an interface of the design.
type explainedPort struct {
	Interface string `json:"interface"`
	// Seen is the port; nil where Unknown says why nothing is known of it.
	Seen    *item.Port     `json:"seen,omitempty"`
	Unknown string         `json:"unknown,omitempty"`
	Differs []site.Finding `json:"differs,omitempty"`
}

// explainPorts tells of the interfaces that a path in a node is about, as the daemon has
// last seen them; none for other paths.
func explainPorts(ctx context.Context, state string, s *site.Site, node, path string) []explainedPort {
	n := s.Nodes[node]
	about, rest, _ := strings.Cut(path, ".")
	if n == nil || about != "interfaces" {
		return nil
	}
	daemon := daemonAt(state)
	defer daemon.Close()
	known, err := daemon.Known(ctx, s.Name)
	o := known.Nodes[node].Observed
	_, found := plan.Links(s, n, o, known.Serves)
	var all []explainedPort
	for _, name := range slices.Sorted(maps.Keys(n.Interfaces)) {
		if rest != "" && rest != name && !strings.HasPrefix(rest, name+".") {
			continue
		}
		x := explainedPort{Interface: name}
		p, there := n.PortOf(name, o.Links)
		switch {
		case err != nil:
			x.Unknown = err.Error()
		case o.Facets[site.FacetLinks].Unread[string(site.FacetLinks)] != "":
			x.Unknown = o.Facets[site.FacetLinks].Unread[string(site.FacetLinks)]
		case o.Links == nil:
			x.Unknown = "Slipway has not looked at this in its system yet"
		case !there:
			x.Unknown = "the system has no such interface"
		default:
			x.Seen = &p
		}
		for _, f := range found {
			if strings.HasPrefix(f.Path+".", "interfaces."+name+".") {
				x.Differs = append(x.Differs, f)
			}
		}
		all = append(all, x)
	}
	return all
}

// print writes what was seen, and what of it differs.
func (x explainedPort) print(w *screen) {
	head := paint(w, text.Bold)("seen") + "  " + x.Interface + " "
	if x.Seen == nil {
		w.Println(head + "is not known: " + x.Unknown)
	} else {
		facts := slices.DeleteFunc(portFacts(*x.Seen), func(s string) bool { return s == "" })
		w.Println(head + strings.Join(append([]string{portState(*x.Seen)}, facts...), ", "))
	}
	for _, f := range x.Differs {
		w.Println(paint(w, text.FgYellow)("differs") + fmt.Sprintf("  %s", f.String()))
	}
}
