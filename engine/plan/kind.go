package plan

import (
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// workOf returns what changing a facet takes.
func workOf(f site.Facet, c []site.Change) site.Work {
	switch {
	case f == site.FacetBoot:
		return work(site.ActionBootOrder, site.ImpactOnline, minutes(0.5), setBack(c))
	case f == site.FacetPower && c[0].Want == "off": // includes time for a graceful shutdown
		return work(site.ActionPowerOff, site.ImpactReboot, minutes(3), "power it on; what ran there starts again")
	case f == site.FacetPower:
		return work(site.ActionPowerOn, site.ImpactOnline, minutes(3), "power it off")
	case f == site.FacetDefinition && c[0].Field == "definition.state":
		return work(site.ActionDefine, site.ImpactOnline, seconds(5), unmade)
	case f == site.FacetDefinition:
		return work(site.ActionDefine, site.ImpactOnline, seconds(5), site.Earlier)
	}
	return site.Facets[f].Change
}

func work(a site.Action, i site.Impact, expect site.Duration, undo string) site.Work {
	return site.Work{Action: a, Impact: i, Expect: expect, Undo: undo}
}

// unmade says how to undo the creation of a virtual machine.
const unmade = "`decommission: true` removes it again"

// virtually is how long actions take on virtual machines, where that differs.
var virtually = map[site.Action]site.Duration{
	site.ActionInstall:  minutes(2),
	site.ActionRestart:  minutes(1),
	site.ActionPowerOn:  minutes(0.5),
	site.ActionPowerOff: minutes(1),
}

// takes returns how long an action takes on a node's machine.
func takes(n *site.Node, a site.Action, otherwise site.Duration) site.Duration {
	if d, ok := virtually[a]; ok && n.IsVirtual() {
		return d
	}
	return otherwise
}

// setBack says how to undo changes, if all previous values are known.
func setBack(changes []site.Change) string {
	var back []string
	for _, c := range changes {
		_, field, _ := strings.Cut(c.Field, ".")
		if c.Have == "" || c.Have == "?" {
			return "cannot be undone: the " + field + " before was not seen"
		}
		back = append(back, "the "+field+" back to "+c.Have)
	}
	return "set " + strings.Join(back, " and ")
}

var (
	installKind = work(site.ActionInstall, site.ImpactDestructive, minutes(15), "cannot be undone")
	// The agent unpacks an image of a root file system or writes a whole disk, and has to be started first.
	startKind        = work(site.ActionStartAgent, site.ImpactReboot, minutes(8), "boot the machine from its disk again; what ran before starts again")
	agentInstallKind = work(site.ActionInstall, site.ImpactDestructive, minutes(12), "cannot be undone")

	finishKind  = work(site.ActionFinishInstall, site.ImpactOnline, minutes(4), "cannot be undone")
	restartKind = site.Work{Action: site.ActionRestart, Impact: site.ImpactReboot, Expect: minutes(5)}
	seedKind    = work(site.ActionRemoveSeed, site.ImpactOnline, seconds(5), "cannot be undone; an installation makes another one")
	// The agent has to be started for this, and an overwrite takes hours.
	retireKind  = work(site.ActionZeroize, site.ImpactDestructive, minutes(30), "cannot be undone")
	leaveKind   = work(site.ActionFinishErase, site.ImpactOnline, minutes(2), "power it on")
	zeroizeKind = work(site.ActionZeroize, site.ImpactDestructive, seconds(30), "cannot be undone")
	wipeKind    = work(site.ActionZeroize, site.ImpactDestructive, minutes(5), "cannot be undone")
)

func seconds(s float64) site.Duration { return minutes(s / 60) }

func minutes(m float64) site.Duration { return site.Duration(m * float64(time.Minute)) }

// LikeMachines is how many steps of similar machines override the table.
const LikeMachines = 3

// expected returns how long a step takes: the median of the latest on similar
// machines, to the second, or the value of the table.
func expected(h site.History, model string, s site.Step) site.Duration {
	took := h[site.LikeStep(model, s)]
	if len(took) < LikeMachines {
		return s.Expect
	}
	sorted := slices.Sorted(slices.Values(took))
	median := sorted[len(sorted)/2]
	if len(sorted)%2 == 0 {
		median = (sorted[len(sorted)/2-1] + median) / 2
	}
	return site.Duration(max(time.Second, time.Duration(median).Round(time.Second)))
}

// Model returns a machine's manufacturer and model, "unknown" before they are seen.
func Model(o site.Observed) string {
	if _, virtual := o.Facets[site.FacetDefinition]; virtual {
		return "virtual machine"
	}
	if o.Inventory == nil || o.Inventory.Model == "" {
		return "unknown"
	}
	return strings.TrimSpace(o.Inventory.Manufacturer + " " + o.Inventory.Model)
}
