package engine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
)

func TestCommitThatChangesNoNodeKeepsAHalt(t *testing.T) {
	all := names(4)
	inBubble(t, patched, func(w *world) {
		d := w.serving(all...)
		w.fleet.Machine("n1").SetFault(drivertest.Lies)
		change := func(d *site.Site) { d.Rollout.MaxUnavailable, d.Rollout.MaxFailures = "2", "0" }
		d = w.patch(d, "2", change)
		w.after(6 * time.Minute)
		before := w.carry(d)
		if r := w.rollout(); r.Halted == "" || len(before) == 4 {
			t.Fatalf("patched %v, rollout is %+v", before, r)
		}
		halted := w.rollout()
		w.patch(d, "2", change) // a word in the README
		w.after(10 * time.Minute)
		if r := w.rollout(); r.Halted != halted.Halted || r.Failed["n1"] == "" || !r.Since.Equal(halted.Since) {
			t.Errorf("rollout is %+v", r)
		}
		if got := w.carry(d); !slices.Equal(got, before) {
			t.Errorf("patched in a halted rollout: %v, before %v", got, before)
		}
	}, all...)
}

// relabel commits a revision that changes only what a node is labelled with.
func (w *world) relabel(was *site.Site, name, label string) *site.Site {
	d := clone(was)
	d.Nodes[name].Labels = map[string]string{"note": label}
	w.commit(d)
	return d
}

// stillHalted says that a rollout is the same one's halt as it was, and that no
// node but those has what the design wants.
func (w *world) stillHalted(when string, d *site.Site, was site.RolloutStatus, those ...string) {
	w.t.Helper()
	if r := w.rollout(); r.Halted != was.Halted || !r.HaltedSince.Equal(was.HaltedSince) {
		w.t.Fatalf("%s: the halt (%s since %s) is %q since %s", when, was.Halted, was.HaltedSince, r.Halted, r.HaltedSince)
	}
	if got := w.carry(d); !slices.Equal(got, those) {
		w.t.Fatalf("%s: patched in a halted rollout: %v", when, got)
	}
}

// A halt goes on over commits that change nothing of what failed, also when the
// daemon restarts or a further node joins; a commit that changes the failed node
// ends it.
func TestUnrelatedCommitLiftsNoHalt(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*site.Site)
		fails  []string
	}{
		"a canary": {canary, []string{"n1"}},
		"too many": {func(d *site.Site) { d.Rollout.MaxUnavailable, d.Rollout.MaxFailures = "2", "1" }, []string{"n1", "n2"}},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, patched, func(w *world) {
				d := w.serving(names(4)...)
				for _, name := range c.fails {
					w.fleet.Machine(name).SetFault(drivertest.Lies)
				}
				d = w.patch(d, "2", c.change)
				w.after(20 * time.Minute)
				was := w.rollout()
				if was.Halted == "" {
					t.Fatalf("rollout is %+v", was)
				}
				those := w.carry(d)

				d = w.relabel(d, "n4", "a")
				w.after(30 * time.Minute)
				w.stillHalted("after a label of another node", d, was, those...)
				d = w.relabel(d, "n1", "b")
				w.after(30 * time.Minute)
				w.stillHalted("after a label of the failed node", d, was, those...)
				w.down()
				d = w.relabel(d, "n3", "c")
				w.up()
				w.after(30 * time.Minute)
				w.stillHalted("after a commit while the daemon was down", d, was, those...)

				for _, name := range c.fails {
					w.fleet.Machine(name).SetFault(drivertest.Healthy)
				}
				d = w.patch(d, "3", nil)
				w.after(3 * time.Hour)
				if got := w.carry(d); len(got) != 4 {
					t.Errorf("after a commit that changes what failed, only %v have it: %+v", got, w.rollout())
				}
			}, names(4)...)
		})
	}
}

// The fix of one of two failed nodes is enough where one may fail.
func TestHaltEndsWhenFewEnoughFailedNodesAreUnchanged(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving(names(4)...)
		w.fleet.Machine("n1").SetFault(drivertest.Lies)
		w.fleet.Machine("n2").SetFault(drivertest.Lies)
		d = w.patch(d, "2", func(d *site.Site) { d.Rollout.MaxUnavailable, d.Rollout.MaxFailures = "2", "1" })
		w.after(20 * time.Minute)
		if w.rollout().Halted == "" {
			t.Fatalf("rollout is %+v", w.rollout())
		}
		w.fleet.Machine("n1").SetFault(drivertest.Healthy)
		d = clone(d)
		d.Nodes["n1"].Drift = map[site.Facet]string{site.FacetHealth: "report"}
		w.commit(d)
		w.after(time.Hour)
		if got := w.carry(d); !slices.Equal(got, []string{"n1", "n3", "n4"}) || w.rollout().Halted != "" {
			t.Errorf("%v have the revision: %+v", got, w.rollout())
		}
	}, names(4)...)
}

// Taking the change back on the nodes that wait, and making it again, does not get
// around a halt.
func TestHaltOutlivesItsRolloutWhileWhatFailedIsUnchanged(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		before := w.serving(names(3)...)
		w.fleet.Machine("n1").SetFault(drivertest.Lies)
		after := w.patch(before, "2", canary)
		w.after(20 * time.Minute)
		was := w.rollout()
		if was.Halted == "" {
			t.Fatalf("rollout is %+v", was)
		}
		back := clone(after)
		back.Nodes["n2"], back.Nodes["n3"] = before.Nodes["n2"], before.Nodes["n3"]
		w.commit(back)
		w.after(time.Hour)
		w.commit(after)
		w.after(time.Hour)
		w.stillHalted("after the change was made again", after, was)
	}, names(3)...)
}
