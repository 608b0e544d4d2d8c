package plan

import (
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// staged returns the facets with changes that a machine takes over at boot.
func staged(n *site.Node) []site.Facet {
	if n.IsVirtual() {
		return []site.Facet{site.FacetDefinition, site.FacetDisks}
	}
	return []site.Facet{site.FacetFirmware, site.FacetBIOS}
}

// planRestart boots the machine once for everything that is or will be pending, unless an
// installation or the power step does so anyway.
func planRestart(p *site.NodePlan, n *site.Node, m site.Memory, facets []site.Facet) {
	var changes []site.Change
	for _, s := range p.Steps {
		if s.Action == site.ActionInstall || s.Action == site.ActionRestart {
			return
		}
	}
	drift, maybe, reason := true, false, "pending settings take effect at a boot"
	for _, f := range facets {
		more := restartsFor(p, n, f, m)
		changes = append(changes, more...)
		drift = drift && (len(more) == 0 || isDrift(n, f, m.Recorded))
	}
	if u := restartingUpgrades(p, n, m, facets); u != nil && len(changes) == 0 {
		changes, drift = []site.Change{atBoot(site.FacetPackages)}, isDrift(n, site.FacetPackages, m.Recorded)
		maybe, reason = u.Restart == site.RestartMaybe, restartFor(u)
	}
	if len(changes) == 0 || m.Observed.Facets[site.FacetPower].Have["state"] == "off" || n.Power == "off" {
		return
	}
	p.Waiting = "" // the restart ends the wait
	p.Steps = append(p.Steps, site.Step{
		Node: n.Name, Machine: n.Machine(), Facet: site.FacetPower, Action: restartKind.Action, Changes: changes,
		Impact: restartKind.Impact, Expect: takes(n, restartKind.Action, restartKind.Expect), Reason: reason,
		Undo: "the machine boots once; what ran before starts again", Drift: drift, Maybe: maybe,
	})
}

// restartsFor returns the changes of a facet that a boot makes.
func restartsFor(p *site.NodePlan, n *site.Node, f site.Facet, m site.Memory) []site.Change {
	seen, policy := m.Observed.Facets[f], n.Drift[f]
	if isDrift(n, f, m.Recorded) && (policy == "report" || policy == "propose") {
		return nil
	}
	if seen.Busy != "" || len(wishFor(n, f, seen).unresolved(n, f)) > 0 || isSpent(n, f, m.Recorded) {
		return nil
	}
	if site.IsInside(f) && seen.Waits != "" && !mayReboot(n, f, seen) {
		return nil
	}
	if f != site.FacetKernel && site.IsInside(f) || seen.Waits != "" && AsDesigned(n, f, seen) {
		return waitsFor(f, seen)
	}
	if w := wishFor(n, f, seen); w.reachedBy(seen) {
		changes := w.diff(n, f, seen)
		if len(barred(n, f, changes, seen, m)) > 0 {
			return nil
		}
		return changes
	}
	for _, s := range p.Steps {
		if s.Facet == f {
			return slices.DeleteFunc(slices.Clone(s.Changes), func(c site.Change) bool {
				if ownTerms(f) && effectOf(n, f, c, seen).Effect == site.EffectLive {
					return true
				}
				return seen.Have[strings.TrimPrefix(c.Field, string(f)+".")] == c.Want // the step only takes it back
			})
		}
	}
	return nil
}

// mayReboot reports whether Slipway may boot the machine for what changed in a facet inside.
func mayReboot(n *site.Node, f site.Facet, seen site.FacetState) bool {
	patch := n.PatchIn(seen.Family(n))
	switch {
	case f == site.FacetKernel:
		return true
	case f != site.FacetPackages || patch == nil:
		return false
	case seen.Waits == site.WaitsLibraries:
		return patch.Reboot == "libraries"
	}
	return patch.Reboot != "never"
}

// waitsFor returns the change that a boot makes if everything is as asked but not yet in effect.
func waitsFor(f site.Facet, seen site.FacetState) []site.Change {
	if seen.Waits == "" {
		return nil
	}
	return []site.Change{atBoot(f)}
}

// atBoot is the change that a boot makes if what waits for it has no value to name.
func atBoot(f site.Facet) site.Change {
	return site.Change{Field: string(f) + ".effect", Have: "at the next boot", Want: "now"}
}
