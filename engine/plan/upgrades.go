package plan

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Upgrades returns the upgrades that the design asks for and the system lacks, and whether the machine restarts for
// them; nil if none are planned.
func Upgrades(n *site.Node, seen site.FacetState) *site.Upgrades {
	patch, w := n.PatchIn(seen.Family(n)), wishFor(n, site.FacetPackages, seen)
	if patch == nil || !w.lacksUpgrades() {
		return nil
	}
	u := &site.Upgrades{Restart: site.RestartNo}
	switch {
	case patch.Snapshot != seen.Have[item.Name(item.KindPatch, "snapshot")]: // the upgrades seen are of other lists
		u.Doubt = "which upgrades the snapshot has is unknown until Slipway fetches its lists of packages"
	case seen.Upgrades == nil:
		u.Doubt = "which upgrades there are is unknown until Slipway fetches the lists of packages"
	default:
		u.More, u.Doubt = seen.Upgrades.More, seen.Upgrades.Doubt
		asked := w.patch(patch.Level)
		for _, p := range seen.Upgrades.Packages {
			if asked.AsksFor(p) {
				u.Packages = append(u.Packages, p)
			}
		}
	}
	u.For = asking(u.Packages, item.RestartNeeded)
	if len(u.For) > 0 {
		u.Restart = site.RestartYes
	} else if u.For = asking(u.Packages, item.RestartPossible); patch.Reboot == "libraries" {
		u.For = append(u.For, asking(u.Packages, item.RestartLibraries)...)
	}
	if u.Restart == site.RestartNo && len(u.For)+len(u.Doubt) > 0 {
		u.Restart = site.RestartMaybe
	}
	if patch.Reboot == "never" && len(u.For) > 0 {
		u.Restart = site.RestartNever
	} else if patch.Reboot == "never" {
		u.Restart = site.RestartNo
	}
	return u
}

// restartingUpgrades returns the upgrades of a planned step if the machine restarts for them, or may; nil for none.
func restartingUpgrades(p *site.NodePlan, n *site.Node, m site.Memory, facets []site.Facet) *site.Upgrades {
	planned := slices.ContainsFunc(p.Steps, func(s site.Step) bool { return s.Facet == site.FacetPackages })
	if !planned || !slices.Contains(facets, site.FacetPackages) {
		return nil
	}
	u := Upgrades(n, m.Observed.Facets[site.FacetPackages])
	if u == nil || u.Restart != site.RestartYes && u.Restart != site.RestartMaybe {
		return nil
	}
	return u
}

// lacksUpgrades reports whether the level or the snapshot of the upgrades differs from the design.
func (w wish) lacksUpgrades() bool {
	return slices.ContainsFunc(w.Items, func(i item.Item) bool {
		return i.Key == item.KindPatch && slices.ContainsFunc([]string{"level", "snapshot"}, func(field string) bool {
			want, asked := i.Fields[field]
			return asked && w.has(site.FacetPackages, item.Name(i.Key, field)) != want
		})
	})
}

// patch returns the upgrades that the design asks for at a level, except for packages that it pins or holds.
func (w wish) patch(level string) item.Patch {
	p := item.Patch{Level: level}
	for _, i := range w.Items {
		switch item.Kind(i.Key) {
		case item.KindPatch:
			var body item.Patch
			if json.Unmarshal(i.Body, &body) == nil {
				p.Except = append(p.Except, body.Except...)
			}
		case item.KindPackages:
			if i.Fields["state"] == item.Held {
				p.Except = append(p.Except, item.ID(i.Key))
			}
		}
	}
	return p
}

// asking returns the names of the upgrades that need something of the machine.
func asking(all []item.Upgrade, what string) (names []string) {
	for _, u := range all {
		if u.Restart == what {
			names = append(names, u.Name)
		}
	}
	return names
}

// restartFor says why the machine restarts, or may restart, for upgrades.
func restartFor(u *site.Upgrades) string {
	switch {
	case u.Restart == site.RestartYes && len(u.For) == 1:
		return "the upgrade of " + u.For[0] + " needs a restart"
	case u.Restart == site.RestartYes:
		return "the upgrades of " + someOf(u.For) + " need a restart"
	case len(u.For) > 0:
		return fmt.Sprintf("only if it is needed after the upgrade of %s", someOf(u.For))
	}
	return "only if an upgrade needs it: " + u.Doubt
}

// upgradeNotes report a restart that upgrades need and the design forbids.
func upgradeNotes(p *site.NodePlan, n *site.Node, m site.Memory) []string {
	seen, u := m.Observed.Facets[site.FacetPackages], p.Upgrades
	patch := n.PatchIn(seen.Family(n))
	if patch == nil || patch.Reboot != "never" || m.Recorded.UnderWay() > 0 {
		return nil
	}
	const never = "`system.patch.reboot` is \"never\", so Slipway plans no restart: restart the machine yourself"
	if seen.Waits == site.WaitsReboot {
		return []string{"inside, upgrades wait for a restart to take effect; " + never}
	}
	if u == nil || u.Restart != site.RestartNever {
		return nil
	}
	if len(asking(u.Packages, item.RestartNeeded)) == 0 {
		return []string{"the upgrade of " + someOf(u.For) + " may need a restart to take effect; " + never}
	}
	return []string{"the upgrade of " + someOf(u.For) + " takes effect after a restart; " + never}
}
