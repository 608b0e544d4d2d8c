package engine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// What a person has read of a node is not approved once something else waits there, also while the
// status was not told anew.
func TestApprovalOfWhatWasReadOnly(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.fleet.Machine("a").SetPower("on")
		d := w.design("a", "b")
		d.Nodes["a"].Power = "off"
		w.commit(d)
		w.up()
		w.after(5 * time.Minute)
		read := w.node("a")
		if read.Approve == "" || !site.IsDigest(read.Approval) {
			t.Fatalf("nothing to approve: %+v", read)
		}
		refused := func(when, shown string) {
			t.Helper()
			said, err := w.engine.Do(w.t.Context(), site.Order{Verb: site.VerbApprove, Node: "a", By: "eve", Shown: shown})
			if !errors.Is(err, site.ErrRefused) {
				t.Errorf("%s: %q, %v", when, said, err)
			}
		}
		w.commit(w.design("b"))
		w.until("a leaves", time.Minute, func() bool { return len(w.engine.Report().Plan.Removes) > 0 })
		refused("a commit removes the node", read.Approval)
		w.after(2 * time.Minute)
		removal := w.node("a")
		if removal.Approve == "" || removal.Approval == read.Approval {
			t.Fatalf("no removal to approve: %+v", removal)
		}
		refused("its removal waits", read.Approval)
		w.commit(d)
		w.until("a is back", time.Minute, func() bool { return len(w.engine.Report().Plan.Removes) == 0 })
		refused("a commit brings the node back", removal.Approval)
		w.after(2 * time.Minute)
		refused("its disruption waits again", removal.Approval)
		again := w.node("a")
		w.do(site.Order{Verb: site.VerbPause, Node: "a", Reason: "lunch"})
		w.after(2 * time.Minute)
		if now := w.node("a"); now.Approve != "" || now.Approval != "" {
			t.Errorf("while it is paused it asks %q", now.Approve)
		}
		refused("nothing waits", "")
		refused("nothing waits", again.Approval)
		w.do(site.Order{Verb: site.VerbResume, Node: "a"})
		w.after(2 * time.Minute)
		if power := w.fleet.Machine("a").Power(); power != "on" {
			t.Errorf("a is %s", power)
		}
		w.do(site.Order{Verb: site.VerbApprove, Node: "a"})
		w.after(2 * time.Minute)
		if power := w.fleet.Machine("a").Power(); power != "off" {
			t.Errorf("a is %s after its approval", power)
		}
	}, "a", "b")
}

// Another system on the machine, or another revision, is another thing to approve.
func TestApprovalIsOfOneSystem(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.commit(w.installed(1))
		w.up()
		w.after(time.Minute)
		w.approve()
		w.after(15 * time.Minute)
		w.fleet.Machine("a").SetDisk(&site.Marker{Node: "a", Generation: 7, Image: "d9"})
		w.after(10 * time.Minute)
		w.want("a", site.Foreign)
		read := w.node("a")
		w.fleet.Machine("a").SetDisk(&site.Marker{Node: "a", Generation: 8, Image: "d9"})
		w.after(30 * time.Minute)
		now := w.node("a")
		if read.Approval == "" || now.Approval == read.Approval {
			t.Fatalf("read %q, now %q", read.Approval, now.Approval)
		}
		if said, err := w.engine.Do(w.t.Context(), site.Order{Verb: site.VerbApprove, Node: "a", By: "eve", Shown: read.Approval}); !errors.Is(err, site.ErrRefused) {
			t.Errorf("another system was accepted: %q, %v", said, err)
		}
		w.do(site.Order{Verb: site.VerbApprove, Node: "a"})
	}, "a")
}
