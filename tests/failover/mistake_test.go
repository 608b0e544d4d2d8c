package main

import (
	"context"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/tests/failover/judge"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// Where a lease goes by the time of day, a follower whose clock is set forward leads beside the leader. The judge notices.
func TestProveLeaseByTheTimeOfDayIsNoticed(t *testing.T) {
	noticed(t, func(w *world, l *member) error {
		o := w.members[slices.IndexFunc(w.members, func(m *member) bool { return m != l })]
		return o.set(o.clock+jump, 0)
	}, mistake{"engine/record/cluster.go", "boot: bootTime,", "boot: func() time.Duration { return time.Duration(time.Now().UnixNano()) },"})
}

// Where only the end of a lease goes by the time of day, a leader whose clock is set back goes on after it has lost the other
// members. The judge notices.
func TestProveDeadlineByTheTimeOfDayIsNoticed(t *testing.T) {
	noticed(t, func(w *world, l *member) error { return w.strike("clock and no members", l, turns{}) },
		mistake{"engine/record/term.go", "now.Before(t.deadline) && now.Round(0).Before(t.deadline.Round(0)) && t.site.store.isBefore(t.boot)", "now.Round(0).Before(t.deadline.Round(0))"},
		mistake{"engine/record/term.go", "left := time.Until(t.deadline)", "left := time.Hour"})
}

// noticed has something happen to the leader of a site whose program has mistakes, in the middle of a rollout, until another daemon leads. Then the
// judge must find requests of a daemon that did not hold the term.
func noticed(t *testing.T, happens func(*world, *member) error, mistakes ...mistake) {
	t.Helper()
	if os.Getenv("SLIPWAY_PROVE") == "" || runtime.GOARCH != gripped {
		t.Skip("takes minutes: set SLIPWAY_PROVE, on amd64")
	}
	if !inOwnNetwork(t, mistakes...) {
		return
	}
	w := newWorld(t)
	persons, leave := context.WithCancel(t.Context())
	var there sync.WaitGroup
	for _, m := range w.members[:2] {
		there.Go(func() { m.approves(persons) })
	}
	w.settle()
	l, s := w.leader()
	struck := make(chan error, 1)
	var once sync.Once
	from := w.fleet.CallCount()
	w.fleet.Watch(func(k int, _ lab.Call) {
		if k > from+20 {
			once.Do(func() {
				w.note(judge.Event{At: time.Now(), Kind: judge.Fault, What: "mistake", Address: l.host})
				struck <- happens(w, l)
			})
		}
	})
	w.generation++
	w.commit("install again")
	check(t, <-struck)
	last := time.Now()
	w.until("another daemon leads", func() bool {
		if time.Since(last) > 2*longest { // the leader had just renewed its lease
			last = time.Now()
			check(t, happens(w, l))
		}
		_, now := w.leader()
		return now.Term > s.Term
	})
	for range 4 { // both have something to do
		w.order = []string{w.order[1], w.order[0]}
		w.power = map[string]string{"on": "off", "off": "on"}[w.power]
		w.commit("other power and boot order")
		seen := w.fleet.CallCount()
		w.until("machines are asked", func() bool { return w.fleet.CallCount() > seen+60 })
	}
	leave()
	there.Wait()
	if v := w.verdict(); !slices.ContainsFunc(v.Broken, func(b string) bool { return strings.Contains(b, " held term ") }) {
		t.Errorf("the judge noticed nothing: %q", v.Broken)
	}
}
