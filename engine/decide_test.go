package engine

import (
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// A machine whose system has not answered since it was disrupted is waited for,
// not one that was then switched off: there is nothing to answer.
func TestMachineThatIsOffIsNotMissed(t *testing.T) {
	for power, want := range map[string]bool{"on": true, "": true, "off": false} {
		e, w := gated(t)
		w.disrupts, w.blindInside = true, true
		w.memory.Observed.Facets = map[site.Facet]site.FacetState{
			site.FacetOS:    {Seen: time.Now()},
			site.FacetPower: {Have: site.Values{"state": power}, Seen: time.Now()},
		}
		if got := w.misses(jobOf(e, w)); got != want {
			t.Errorf("power %q: missed %t", power, got)
		}
	}
}
