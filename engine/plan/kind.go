package plan

import (
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// kind is what a facet's change amounts to.
type kind struct {
	action site.Action
	impact site.Impact
	expect site.Duration
	undo   string
}

// kinds is the table of what changing a facet takes. Expected durations are
// what common servers need; power off allows for a graceful shutdown. What is
// staged disrupts nothing by itself: the restart after it does. Packages take
// the services on a machine away for a while, as a restart does.
var kinds = map[site.Facet]func([]site.Change) kind{
	site.FacetBoot: func(c []site.Change) kind {
		return kind{site.ActionBootOrder, site.ImpactOnline, minutes(0.5), setBack(c)}
	},
	site.FacetPower: func(c []site.Change) kind {
		if c[0].Want == "off" {
			return kind{site.ActionPowerOff, site.ImpactReboot, minutes(3), "power it on; what ran is started anew"}
		}
		return kind{site.ActionPowerOn, site.ImpactOnline, minutes(3), "power it off"}
	},
	site.FacetFirmware: constant(kind{site.ActionFirmware, site.ImpactOnline, minutes(5), "only to a version that the BMC accepts"}),
	site.FacetBIOS:     constant(kind{site.ActionBIOS, site.ImpactOnline, minutes(0.5), "set it back and boot again"}),
	site.FacetBase:     constant(kind{site.ActionBase, site.ImpactOnline, minutes(1), earlier}),
	site.FacetNetwork:  constant(kind{site.ActionNetwork, site.ImpactOnline, minutes(0.5), earlier}),
	site.FacetPackages: constant(kind{site.ActionPackages, site.ImpactReboot, minutes(2), earlier}),
	site.FacetConfig:   constant(kind{site.ActionConfig, site.ImpactOnline, minutes(1.5), earlier}),
	site.FacetDefinition: func(c []site.Change) kind {
		if c[0].Field == "definition.state" {
			return kind{site.ActionDefine, site.ImpactOnline, seconds(5), unmade}
		}
		return kind{site.ActionDefine, site.ImpactOnline, seconds(5), earlier}
	},
	site.FacetDisks: constant(kind{site.ActionDisks, site.ImpactOnline, seconds(10), "cannot be undone: no disk is taken away or made smaller"}),
}

// unmade is how a virtual machine that was made is undone.
const unmade = "`decommission: true` takes it away again"

// virtually is how long actions take on virtual machines, where it is not as
// long as on others.
var virtually = map[site.Action]site.Duration{
	site.ActionInstall:  minutes(2),
	site.ActionRestart:  minutes(1),
	site.ActionPowerOn:  minutes(0.5),
	site.ActionPowerOff: minutes(1),
}

// takes is how long an action takes on a node's machine.
func takes(n *site.Node, a site.Action, otherwise site.Duration) site.Duration {
	if d, ok := virtually[a]; ok && n.IsVirtual() {
		return d
	}
	return otherwise
}

// setBack is how changes are undone of which each was something else before.
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

const earlier = "go back to the earlier design"

var (
	installKind = kind{site.ActionInstall, site.ImpactDestructive, minutes(15), "cannot be undone"}
	finishKind  = kind{site.ActionFinishInstall, site.ImpactOnline, minutes(4), "cannot be undone"}
	restartKind = kind{action: site.ActionRestart, impact: site.ImpactReboot, expect: minutes(5)}
	seedKind    = kind{site.ActionRemoveSeed, site.ImpactOnline, seconds(5), "cannot be undone; an installation makes another one"}
	zeroizeKind = kind{site.ActionZeroize, site.ImpactDestructive, seconds(30), "cannot be undone"}
	wipeKind    = kind{site.ActionZeroize, site.ImpactDestructive, minutes(5), "cannot be undone"}
)

func constant(k kind) func([]site.Change) kind { return func([]site.Change) kind { return k } }

func seconds(s float64) site.Duration { return minutes(s / 60) }

func minutes(m float64) site.Duration { return site.Duration(m * float64(time.Minute)) }

// likeMachines is how many steps of like machines it takes to believe them
// rather than the table.
const likeMachines = 3

// expected is how long a step takes: the median of like machines' latest, to
// the second, or what the table says.
func expected(h site.History, model string, s site.Step) site.Duration {
	took := h[site.Like(model, s.Action)]
	if len(took) < likeMachines {
		return s.Expect
	}
	sorted := slices.Sorted(slices.Values(took))
	median := sorted[len(sorted)/2]
	if len(sorted)%2 == 0 {
		median = (sorted[len(sorted)/2-1] + median) / 2
	}
	return site.Duration(max(time.Second, time.Duration(median).Round(time.Second)))
}

// Model is a machine's manufacturer and model, "unknown" before they are seen.
func Model(o site.Observed) string {
	if _, virtual := o.Facets[site.FacetDefinition]; virtual {
		return "virtual machine"
	}
	if o.Inventory == nil || o.Inventory.Model == "" {
		return "unknown"
	}
	return strings.TrimSpace(o.Inventory.Manufacturer + " " + o.Inventory.Model)
}
