package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// An agent that is lost leaves memory by itself, and the machine runs its system again, which Slipway
// cannot always see. When nobody wants the installation any more nothing cuts its power.
func TestAMachineThatLeftMemoryIsNotCutOff(t *testing.T) {
	without := func(w *world, generation int) *site.Site {
		d := w.rooted("a")
		delete(d.Nodes["a"].Endpoints, site.OS)
		d.Nodes["a"].Generation = generation
		return d
	}
	for name, c := range map[string]struct {
		design    func(w *world, generation int) *site.Site
		takesBack func(w *world, back *site.Site)
	}{
		"the design is taken back":  {nil, func(w *world, back *site.Site) { w.commit(back) }},
		"nobody approves it":        {nil, func(*world, *site.Site) {}},
		"nobody can ask its system": {without, func(w *world, back *site.Site) { w.commit(back) }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				w.awaitsApproval("a")
				w.approve()
				w.until("it is in-sync", time.Hour, w.is(site.InSync, "a"))
				design := c.design
				if design == nil {
					design = func(w *world, generation int) *site.Site {
						d := w.rooted("a")
						d.Nodes["a"].Generation = generation
						return d
					}
				}
				w.commit(design(w, 2))
				w.until("the next one waits for approval", 10*time.Minute, func() bool { return w.engine.Report().Status.Approve != "" })
				m := w.fleet.Machine("a")
				m.HasDisks(item.Disk{Name: "nvme0n1", Serial: "NOBODY-KNOWS", Kind: "nvme", Bytes: 480e9 / 512 * 512, Sector: 512})
				w.approve()
				w.until("its agent waits", time.Hour, func() bool { return m.InMemory() && strings.Contains(w.node("a").Reason, "waits for approval") })
				w.down()
				m.Configure(func(c *drivertest.Config) { c.OSTime = 1000 * time.Hour }) // nobody sees it
				m.Leave()
				w.after(2 * time.Hour)
				before := m.Counts()
				w.up()
				w.after(time.Second)
				c.takesBack(w, design(w, 1))
				w.after(24 * time.Hour)
				if now := m.Counts(); now.Resets != before.Resets || m.Power() != "on" {
					t.Errorf("it was reset %d times more: %s: %s %v", now.Resets-before.Resets, w.node("a").State, w.node("a").Reason, w.steps("a"))
				}
			}, "a")
		})
	}
}
