package plan

import (
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// kind is what a facet's change amounts to.
type kind struct {
	action site.Action
	impact site.Impact
	expect site.Duration
}

// kinds is the table of what changing a facet takes. Expected durations are
// what common servers need; power off allows for a graceful shutdown.
var kinds = map[site.Facet]func([]site.Change) kind{
	site.FacetBoot: func([]site.Change) kind {
		return kind{site.ActionBootOrder, site.ImpactOnline, minutes(0.5)}
	},
	site.FacetPower: func(c []site.Change) kind {
		if c[0].Want == "off" {
			return kind{site.ActionPowerOff, site.ImpactReboot, minutes(3)}
		}
		return kind{site.ActionPowerOn, site.ImpactOnline, minutes(3)}
	},
}

var (
	installKind = kind{site.ActionInstall, site.ImpactDestructive, minutes(15)}
	finishKind  = kind{site.ActionFinishInstall, site.ImpactOnline, minutes(4)}
)

func minutes(m float64) site.Duration { return site.Duration(m * float64(time.Minute)) }
