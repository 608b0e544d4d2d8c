package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// dark is a driver of systems that do not answer once it is dark.
type dark struct {
	driver.Driver
	is atomic.Bool
}

func (d *dark) Open(ctx context.Context, e site.Endpoint, s secret.Value) (driver.Machine, error) {
	m, err := d.Driver.Open(ctx, e, s)
	return darkMachine{m, d}, err
}

type darkMachine struct {
	driver.Machine
	d *dark
}

func (m darkMachine) Observe(ctx context.Context, n *site.Node, facets []site.Facet) (site.Observed, error) {
	if m.d.is.Load() {
		return site.Observed{}, fmt.Errorf("%w: no route to host", driver.ErrUnreachable)
	}
	return m.Machine.Observe(ctx, n, facets)
}

// A machine that a person has booted since, and whose system cannot be asked, is not restarted for what the system said
// before: nobody knows whether it still waits for a boot.
func TestRestartByWhatWasSeenBeforeABoot(t *testing.T) {
	inBubble(t, upgraded, func(w *world) {
		d := &dark{Driver: w.fleet.OSDriver()}
		w.systems = d
		// The fake BMC restarts nothing where nothing is staged; sinks/redfish (boots, restart) switches off and on whatever the
		// system waits for, which no BMC knows.
		var asked []time.Time
		w.bmcs = &hooked{Driver: w.fleet.Driver(), apply: func(_ context.Context, s site.Step, _ driver.Permit) (bool, error) {
			if s.Action == site.ActionRestart {
				asked = append(asked, time.Now())
			}
			return false, nil
		}}
		w.serving("n1")
		s := w.service("n1")
		s.Nodes["n1"].System.Patch = &site.Patch{Level: item.PatchSecurity, Reboot: "ifNeeded"}
		since := time.Now()
		w.commit(s)
		m := w.fleet.Machine("n1")
		w.until("the upgrade begins", 10*time.Minute, func() bool { return !w.begun("n1", site.ActionPackages, since).IsZero() })
		w.do(site.Order{Verb: site.VerbPause, Node: "n1", Reason: "a person works on it"})
		w.after(20 * time.Minute) // the upgrade ends by itself, and is seen; its restart waits for the person
		if n := w.node("n1"); n.State != site.Paused || !strings.HasPrefix(n.Next, "restart") {
			t.Fatalf("its restart does not wait: %s %s, next %q", n.State, n.Reason, n.Next)
		}
		d.is.Store(true)
		m.SetPower("off") // the person boots it
		w.after(time.Minute)
		m.SetPower("on") // and it comes up with a firewall, in a rescue system, or checks its disks
		w.after(20 * time.Minute)
		resumed := time.Now()
		w.do(site.Order{Verb: site.VerbResume, Node: "n1"})
		w.after(20 * time.Minute)
		if seen := w.engine.Known().Nodes["n1"].Observed.Facets[site.FacetPackages].Seen; len(asked) > 0 {
			t.Errorf("n1 is restarted %s after the pause ended, by what its system said %s before; the machine was booted since",
				asked[0].Sub(resumed), resumed.Sub(seen))
		}
	}, "n1")
}
