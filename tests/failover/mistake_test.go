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

	"github.com/slipway-gitops/slipway/tests/lab"
)

// rounds are enough for a daemon to be in the middle of its work when another one leads.
const rounds = 5

// Where leases go by the time of day, a follower whose clock is set forward leads beside the leader. That one can still write no record, and
// before each change of a machine it writes one: nothing goes wrong by this mistake alone. Where the records
// let it write too, both change machines, and the judge notices.
func TestProveLeaseByTheTimeOfDayIsNoticed(t *testing.T) {
	if os.Getenv("SLIPWAY_PROVE") == "" || runtime.GOARCH != gripped {
		t.Skip("takes minutes: set SLIPWAY_PROVE, on amd64")
	}
	if !inOwnNetwork(t, mistake{"engine/record/cluster.go", "boot: bootTime,", "boot: func() time.Duration { return time.Duration(time.Now().UnixNano()) },"},
		mistake{"engine/record/fenced.go", `clientv3.Compare(clientv3.ModRevision(t.f.key), "=", t.f.revision)`, `clientv3.Compare(clientv3.ModRevision(t.f.key), ">", 0)`}) {
		return
	}
	w := newWorld(t)
	persons, leave := context.WithCancel(t.Context())
	var there sync.WaitGroup
	for _, m := range w.members[:2] {
		there.Go(func() { m.approves(persons) })
	}
	for i := range rounds {
		w.settle()
		w.leadsBeside(3 + 5*i)
	}
	leave()
	there.Wait()
	if v := w.verdict(); !slices.ContainsFunc(v.Broken, func(b string) bool { return strings.Contains(b, " held term ") }) {
		t.Errorf("the judge noticed nothing: %q", v.Broken)
	}
}

// leadsBeside sets the clock of the daemon that follows forward after some requests of a rollout, until it leads.
func (w *world) leadsBeside(requests int) {
	w.t.Helper()
	l, s := w.leader()
	o := w.members[slices.IndexFunc(w.members, func(m *member) bool { return m != l })]
	struck := make(chan error, 1)
	var once sync.Once
	from := w.fleet.CallCount()
	w.fleet.Watch(func(k int, _ lab.Call) {
		if k >= from+requests {
			once.Do(func() { struck <- o.set(o.clock+jump, 0) })
		}
	})
	w.generation++
	w.order = []string{w.order[1], w.order[0]}
	w.power = map[string]string{"on": "off", "off": "on"}[w.power]
	w.commit("install again")
	check(w.t, <-struck)
	w.fleet.Watch(nil)
	last := time.Now()
	w.until("another daemon leads", func() bool {
		if time.Since(last) > 5*time.Second { // the leader had just renewed its lease
			last = time.Now()
			check(w.t, o.set(o.clock+jump, 0))
		}
		_, now := w.leader()
		return now.Term > s.Term
	})
}
