package engine

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// What a person approves of a node is the machine, the system on it, the steps and the revision that were shown, and not
// the words alone: none of it changes without another digest.
func TestApprovalIsOfAllThatWasShown(t *testing.T) {
	shown := func(change func(*worker, *question)) string {
		e, w := asking(t)
		w.memory.Observed.Identity = site.Identity{Serial: "S1"}
		w.memory.Observed.Facets = map[site.Facet]site.FacetState{site.InsideFacets[0]: {Seen: time.Unix(1, 0), OwnedDigest: "d1"}}
		w.memory.Recorded.Installed = &site.Installation{Generation: 1}
		q := question{kind: asksContact, text: "this happens"}
		change(w, &q)
		e.mu.Lock()
		defer e.mu.Unlock()
		return w.approvalLocked(q)
	}
	same := shown(func(*worker, *question) {})
	if !site.IsDigest(same) || shown(func(*worker, *question) {}) != same {
		t.Fatalf("the same is shown as %q and %q", same, shown(func(*worker, *question) {}))
	}
	for name, change := range map[string]func(*worker, *question){
		"another node":                 func(w *worker, _ *question) { w.name = "n2" },
		"another kind":                 func(_ *worker, q *question) { q.kind = asksSystem },
		"other words":                  func(_ *worker, q *question) { q.text = "something else happens" },
		"another revision":             func(w *worker, _ *question) { w.e.applied.ID = "0123456789" },
		"another machine":              func(w *worker, _ *question) { w.memory.Observed.Identity.Serial = "S2" },
		"another system":               func(w *worker, _ *question) { w.memory.Observed.Marker = &site.Marker{Node: "n1", Generation: 7} },
		"a system of somebody else":    func(w *worker, _ *question) { w.stranger = "another host key" },
		"a system that is not ours":    func(w *worker, _ *question) { w.plan.Foreign = "it has the marker of another node" },
		"a system that proves nothing": func(w *worker, _ *question) { w.plan.Unproven = "nobody has seen its marker" },
		"another installation":         func(w *worker, _ *question) { w.memory.Recorded.Installed = &site.Installation{Generation: 2} },
		"another step":                 func(w *worker, _ *question) { w.plan.Steps = append(w.plan.Steps, installOne) },
		"no step":                      func(w *worker, _ *question) { w.plan.Steps = nil },
		"another list": func(w *worker, _ *question) {
			w.memory.Observed.Facets = maps.Clone(w.memory.Observed.Facets)
			w.memory.Observed.Facets[site.InsideFacets[0]] = site.FacetState{Seen: time.Unix(1, 0), OwnedDigest: "d2"}
		},
	} {
		if got := shown(change); got == same || !site.IsDigest(got) {
			t.Errorf("%s is approved by what was shown before: %q", name, got)
		}
	}
}

// A question is answered once, and only while it is still one about the node: its removal is none once it is designed again.
func TestQuestionIsAnsweredOnceAndInTime(t *testing.T) {
	_, w := asking(t)
	o := questioned(w, asksContact)
	if _, err := w.answer(o); err != nil {
		t.Fatal(err)
	}
	if w.status.Approve != "" || w.status.Approval != "" {
		t.Errorf("after the answer it is still asked: %q, %q", w.status.Approve, w.status.Approval)
	}
	if a, err := w.answer(o); !errors.Is(err, site.ErrRefused) {
		t.Errorf("it is answered twice: %+v, %v", a, err)
	}
	for kind, leaving := range map[questionKind]bool{asksRemoval: false, asksContact: true, asksSystem: true} {
		_, w := asking(t)
		w.leaving = leaving
		if a, err := w.answer(questioned(w, kind)); !errors.Is(err, site.ErrRefused) {
			t.Errorf("%s of a node that leaves the design (%t): %+v, %v", kind, leaving, a, err)
		}
	}
}
