package engine_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// hosted is a site of two hypervisors of 4GiB with the named virtual machines
// of 1GiB, as it is evaluated: without places.
func (w *world) hosted(names ...string) *site.Site {
	s := w.design()
	s.Rollout.FirstContact = "repair"
	s.Hypervisors = map[string]*site.Hypervisor{
		"hv-1": {URL: "libvirt+tls://hv-1.example/system", Memory: 4 << 30, Rack: "r1"},
		"hv-2": {URL: "libvirt+tls://hv-2.example/system", Memory: 4 << 30, Rack: "r2"},
	}
	for _, name := range names {
		if w.fleet.Machine(name) == nil {
			w.fleet.AddVirtual("test", name)
		}
		n := w.fleet.Machine(name).VirtualNode()
		n.Virtual.Host = site.Host{}
		delete(n.Endpoints, site.Manager)
		s.Nodes[name] = n
	}
	return s
}

// reached is on which hypervisor each machine is, as a daemon tells it.
func (w *world) reached() map[string]string {
	where := map[string]string{}
	for name, r := range w.engine.Known().Reach {
		where[name] = r.Hypervisor
	}
	return where
}

// comes lets a commit come in force, or not.
func (w *world) comes(s *site.Site) {
	w.commit(s)
	w.after(30 * time.Second)
}

// Machines are where a design was first accepted to have them, whatever comes
// after: more machines, a restart, a hypervisor with more room.
func TestPlacesLast(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.commit(w.hosted("vm-1", "vm-2", "vm-3"))
		w.up()
		w.after(30 * time.Second)
		first := w.reached()
		on := slices.Sorted(maps.Values(first))
		if len(on) != 3 || on[0] != "hv-1" || on[2] != "hv-2" {
			t.Fatalf("they are not spread: %v", first)
		}
		reach := w.engine.Known().Reach["vm-1"].Manager.URL
		if want := "libvirt+tls://" + first["vm-1"] + ".example/system?domain=vm-1&site=test"; reach != want {
			t.Errorf("vm-1 is reached at %s, want %s", reach, want)
		}
		if rack, want := w.node("vm-1").Rack, "r"+strings.TrimPrefix(first["vm-1"], "hv-"); rack != want {
			t.Errorf("vm-1 is in rack %q, want %s", rack, want)
		}

		w.down()
		w.up()
		w.after(30 * time.Second)
		if diff := cmp.Diff(first, w.reached()); diff != "" {
			t.Error("after a restart:", diff)
		}

		more := w.hosted("a-first", "vm-1", "vm-2", "vm-3")
		more.Hypervisors["hv-3"] = &site.Hypervisor{URL: "libvirt+tls://hv-3.example/system", Rack: "r3"}
		w.comes(more)
		is := w.reached()
		if is["a-first"] != "hv-3" {
			t.Errorf("the new one is on %q, and hv-3 is empty", is["a-first"])
		}
		delete(is, "a-first")
		if diff := cmp.Diff(first, is); diff != "" {
			t.Error("with one more:", diff)
		}
	})
}

// What cannot be placed refuses the revision, and what is in force stays.
func TestImpossiblePlacementIsRefused(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.commit(w.hosted("vm-1", "vm-2"))
		w.up()
		w.after(30 * time.Second)
		was := w.reached()
		for name, c := range map[string]struct {
			put  func(*site.Site)
			says string
		}{
			"too big": {func(s *site.Site) { s.Nodes["vm-3"].Virtual.Memory = 8 << 30 }, "it needs 8GiB of memory, and the most that is free is 3GiB"},
			"moved": {func(s *site.Site) {
				s.Nodes["vm-1"].Virtual.Hypervisor = map[string]string{"hv-1": "hv-2", "hv-2": "hv-1"}[was["vm-1"]]
			}, "and the machine was placed on " + was["vm-1"]},
			"without its hypervisor": {func(s *site.Site) { delete(s.Hypervisors, was["vm-1"]) }, "it was placed on hypervisor " + was["vm-1"]},
		} {
			s := w.hosted("vm-1", "vm-2", "vm-3")
			c.put(s)
			w.comes(s)
			r := w.engine.Report()
			if diff := cmp.Diff(was, w.reached()); diff != "" || r.Status.Applied.ID == r.Status.Attempted.ID {
				t.Errorf("%s: it is in force: %s", name, diff)
			}
			if !site.HasErrors(r.Findings) || !strings.Contains(r.Findings[0].Message, c.says) || !hasProblem(r.Status, c.says) {
				t.Errorf("%s: it is told as %v, %v", name, r.Findings, r.Status.Problems)
			}
		}
		w.comes(w.hosted("vm-1", "vm-2", "vm-3"))
		if r := w.engine.Report(); len(r.Findings) > 0 || len(w.reached()) != 3 {
			t.Errorf("a good revision after it is not in force: %v", r.Findings)
		}
	})
}

func hasProblem(s site.Status, text string) bool {
	return slices.ContainsFunc(s.Problems, func(p site.Problem) bool { return p.About == "design" && strings.Contains(p.What, text) })
}

// A machine whose node was dropped takes its room for as long as it is held.
func TestHeldMachineTakesRoom(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		s := w.hosted("vm-1")
		delete(s.Hypervisors, "hv-2")
		s.Nodes["vm-1"].Virtual.Memory = 3 << 30
		w.commit(s)
		w.up()
		w.after(30 * time.Second)

		next := w.hosted("vm-2")
		delete(next.Hypervisors, "hv-2")
		next.Nodes["vm-2"].Virtual.Memory = 2 << 30
		for range 2 { // while it is in force, and once it is dropped
			w.comes(next)
			r := w.engine.Report()
			if !site.HasErrors(r.Findings) || !strings.Contains(r.Findings[0].Message, "it needs 2GiB of memory, and the most that is free is 1GiB") {
				t.Errorf("the room of one that is held was given away: %v", r.Findings)
			}
			empty := w.hosted()
			delete(empty.Hypervisors, "hv-2")
			w.comes(empty)
		}
		if is := w.engine.Known().Placed["vm-1"].Virtual; is.Host.Hypervisor != "hv-1" || is.Memory != 3<<30 {
			t.Errorf("what is held is told as %+v", is)
		}
	})
}

// A proposal is placed as it will be once it is merged.
func TestProposalIsPlaced(t *testing.T) {
	inBubble(t, drivertest.Config{}, func(w *world) {
		w.commit(w.hosted("vm-1", "vm-2"))
		w.up()
		w.after(30 * time.Second)
		f := w.forge()
		r := f.reviews()
		was := w.reached()

		big := w.hosted("vm-1", "vm-2", "vm-3")
		big.Nodes["vm-3"].Virtual.Memory = 8 << 30
		f.propose(1, big)
		f.propose(2, w.hosted("vm-1", "vm-2", "vm-3"))
		f.round(r)
		if v := f.last(1); v.Planned() || len(v.Findings) != 1 || v.Findings[0].Code != "unplaced" || !strings.Contains(v.Comment, "the most that is free is 3GiB") {
			t.Errorf("what cannot be placed is told as %v, %s", v.Findings, v.Comment)
		}
		if v := f.last(2); !v.Planned() || len(v.Findings) > 0 {
			t.Errorf("one more machine that fits is told as %v", v.Findings)
		}
		if diff := cmp.Diff(was, w.reached()); diff != "" {
			t.Error("a review has moved something:", diff)
		}
	})
}
