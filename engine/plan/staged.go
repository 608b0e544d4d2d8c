package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// staged are the facets of which a machine takes over something when it is
// booted.
func staged(n *site.Node) []site.Facet {
	if n.IsVirtual() {
		return []site.Facet{site.FacetDefinition, site.FacetDisks}
	}
	return []site.Facet{site.FacetFirmware, site.FacetBIOS}
}

// mostBoots is how often a machine is booted for what one design stages. Some
// settings appear only after others took effect (Supermicro's HTTP boot of a
// network interface), so that one boot need not do.
const mostBoots = 3

// planRestart boots the machine for what is pending, or will be: once for all
// of it, and not where an installation or the power does so anyhow.
func planRestart(p *site.NodePlan, n *site.Node, m site.Memory) {
	var changes []site.Change
	for _, s := range p.Steps {
		if s.Action == site.ActionInstall {
			return
		}
	}
	drift := true
	for _, f := range staged(n) {
		more := restartsFor(p, n, f, m)
		changes = append(changes, more...)
		drift = drift && (len(more) == 0 || IsDrift(n, f, m.Recorded))
	}
	if len(changes) == 0 || m.Observed.Facets[site.FacetPower].Have["state"] == "off" || n.Power == "off" {
		return
	}
	p.Waiting = "" // it waits for this
	p.Steps = append(p.Steps, site.Step{
		Node: n.Name, Machine: n.Machine(), Facet: site.FacetPower, Action: restartKind.action, Changes: changes,
		Impact: restartKind.impact, Expect: takes(n, restartKind.action, restartKind.expect), Reason: "what is pending takes effect at a boot",
		Undo: "the machine boots once; what ran before is started anew", Drift: drift,
	})
}

// restartsFor are the changes of a facet that a boot brings about.
func restartsFor(p *site.NodePlan, n *site.Node, f site.Facet, m site.Memory) []site.Change {
	seen, policy := m.Observed.Facets[f], n.Drift[f]
	if IsDrift(n, f, m.Recorded) && (policy == "report" || policy == "propose") {
		return nil
	}
	if seen.Busy != "" || len(held(n, f, seen, m.Recorded)) > 0 {
		return nil
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
				return seen.Have[strings.TrimPrefix(c.Field, string(f)+".")] == c.Want // only taken back
			})
		}
	}
	return nil
}

// held says why nothing of a facet is planned: its design means nothing on this
// machine, or the boots that it was given did not make it so.
func held(n *site.Node, f site.Facet, seen site.FacetState, r site.Recorded) []string {
	if why := unresolved(n, f, seen); len(why) > 0 {
		return why
	}
	if r.Boots == nil || r.Boots.Count < mostBoots || r.Boots.Asked != stagedDigest(n) || !isStaged(f) {
		return nil
	}
	changes := wishFor(n, f, seen).diff(n, f, seen)
	if len(changes) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the machine was booted %d times for its %s, and %s; look at its console, then `slipway retry %s` or change the design",
		r.Boots.Count, f, differs(changes), n.Name)}
}

// Booted is the count of boots after another one for what the design stages.
func Booted(n *site.Node, before *site.Boots) *site.Boots {
	now := &site.Boots{Asked: stagedDigest(n), Count: 1}
	if before != nil && before.Asked == now.Asked {
		now.Count += before.Count
	}
	return now
}

// StagedAsDesigned says whether all that the design stages was seen as asked.
func StagedAsDesigned(n *site.Node, o site.Observed) bool {
	for _, f := range staged(n) {
		if n.Asks(f) && !AsDesigned(n, f, o.Facets[f]) {
			return false
		}
	}
	return true
}

func isStaged(f site.Facet) bool {
	return f == site.FacetFirmware || f == site.FacetBIOS || ownTerms(f)
}

// stagedDigest names what the design stages.
func stagedDigest(n *site.Node) string {
	var parts []string
	for _, f := range staged(n) {
		parts = append(parts, n.Want(f).Digest())
	}
	return strings.Join(parts, "-")
}
