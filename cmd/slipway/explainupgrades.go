package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// explainedUpgrades are the upgrades that a node lacks, as the daemon last saw it.
type explainedUpgrades struct {
	*site.Upgrades
	// Unknown says why nobody knows them; empty where that is known.
	Unknown string `json:"unknown,omitempty"`
}

// explainUpgrades says which upgrades a node lacks of those that its design asks for, where a
// path is about them; nil for other paths.
func explainUpgrades(ctx context.Context, state string, s *site.Site, node, path string) *explainedUpgrades {
	n := s.Nodes[node]
	if n == nil || !slices.Contains([]string{"system.patch", "system.patch.level"}, path) {
		return nil
	}
	daemon := daemonAt(state)
	defer daemon.Close()
	known, err := daemon.Known(ctx, s.Name)
	seen := known.Nodes[node].Observed.Facets[site.FacetPackages]
	switch {
	case err != nil:
		return &explainedUpgrades{Unknown: err.Error()}
	case seen.Seen.IsZero():
		return &explainedUpgrades{Unknown: "Slipway has not looked into its system yet"}
	}
	return &explainedUpgrades{Upgrades: plan.Upgrades(n, seen)}
}

// asks is what an upgrade asks of the machine, in words.
var asks = map[string]string{
	item.RestartNeeded: "needs a restart", item.RestartPossible: "may need a restart", item.RestartLibraries: "replaces libraries in use",
}

// print writes an upgrade a line.
func (x explainedUpgrades) print(w *screen) {
	head := paint(w, text.Bold)("upgrades") + "  "
	switch {
	case x.Unknown != "":
		w.Println(head + "unknown: " + x.Unknown)
		return
	case x.Upgrades == nil:
		w.Println(head + "none is missing")
		return
	}
	w.Println(head + fmt.Sprintf("%d are missing", len(x.Packages)))
	var rows [][3]string
	for _, u := range x.Packages {
		about := asks[u.Restart]
		if u.Security && about != "" {
			about = "security, " + about
		} else if u.Security {
			about = "security"
		}
		versions := u.From + " → " + u.To
		if u.From == "" {
			versions = "new → " + u.To
		}
		rows = append(rows, [3]string{"  " + u.Name, versions, about})
	}
	first, second := width(rows, 0), width(rows, 1)
	for _, r := range rows {
		w.Println(text.Pad(r[0], first, ' ') + "  " + text.Pad(r[1], second, ' ') + "  " + r[2])
	}
	if x.More > 0 {
		w.Println(fmt.Sprintf("  and %d more that the machine did not name", x.More))
	}
	if x.Doubt != "" {
		w.Println("  there may be others: " + x.Doubt)
	}
}
