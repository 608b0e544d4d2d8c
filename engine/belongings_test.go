package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// The machine of a node that is held stays as it was designed before. A commit that
// gives its address to another node is in force, and the other node waits, also
// when the daemon is restarted, until Slipway acts on the first again.
func TestNobodyGetsTheAddressOfANodeThatIsHeld(t *testing.T) {
	holds := map[string]struct {
		hold func(*world)
		free func(*world)
	}{
		"paused":      {func(w *world) { w.do(site.Order{Verb: site.VerbPause, Node: "n1", Reason: "a disk"}) }, func(w *world) { w.do(site.Order{Verb: site.VerbResume, Node: "n1"}) }},
		"quarantined": {func(w *world) { w.do(site.Order{Verb: site.VerbQuarantine, Node: "n1", Reason: "a shell"}) }, func(w *world) { w.do(site.Order{Verb: site.VerbRelease, Node: "n1"}) }},
	}
	for name, c := range holds {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				d := w.design("n1", "n2")
				d.Rollout.FirstContact = "repair"
				d.Nodes["n1"].Addresses = map[string]string{"os": "10.0.0.1"}
				d.Nodes["n2"].Addresses = map[string]string{"os": "10.0.0.2"}
				w.commit(d)
				w.up()
				w.after(time.Minute)
				w.until("all is as designed", time.Hour, w.is(site.InSync, "n1", "n2"))
				c.hold(w)
				w.after(5 * time.Minute)

				moved := clone(d)
				moved.Nodes["n1"].Addresses = map[string]string{"os": "10.0.0.3"}
				moved.Nodes["n2"].Addresses = map[string]string{"os": "10.0.0.1"}
				w.commit(moved)
				waits := func() bool {
					n := w.node("n2")
					return n.State == site.Stalled && strings.Contains(n.Reason, "n2 has the address 10.0.0.1 in the network os of n1, which is paused, away or quarantined and still has it")
				}
				w.until("n2 waits", 10*time.Minute, waits)
				w.down()
				w.up()
				w.after(10 * time.Minute)
				if !waits() {
					t.Fatalf("after a restart n2 is %s: %s", w.node("n2").State, w.node("n2").Reason)
				}
				c.free(w)
				w.until("n2 has it", time.Hour, w.is(site.InSync, "n1", "n2"))
			}, "n1", "n2")
		})
	}
}
