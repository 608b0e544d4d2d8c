package e2e

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/e2e/crash"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// A daemon that is killed at any moment of a rollout, and started again, brings
// it to its end: in the order that the design asks for, and without a reset or
// an installation more. The moments are over each request to a BMC, and before
// and after each write into its records, its copy of the repository and the
// status branch. What it reads elsewhere leaves nothing behind.
//
// With SLIPWAY_PROVE set it dies in all of them, otherwise in a sample:
// SLIPWAY_RUNS of them, drawn from SLIPWAY_SEED.
func TestProveCrashPoints(t *testing.T) {
	t.Parallel()
	all := rollout(t)
	points := sample(all)
	t.Run("at", func(t *testing.T) {
		for _, p := range points {
			t.Run(p.String(), func(t *testing.T) {
				t.Parallel()
				p.crash(t)
			})
		}
	})
	if !t.Failed() {
		t.Logf("%d points of %d", len(points), len(all))
		fmt.Printf("prove: crash-points %d ok\n", len(points))
	}
}

// point is a moment to die in.
type point struct {
	when string
	n    int // which one, from 1
}

// When a daemon dies.
const (
	// overRequest is when a BMC has carried a request out and not answered it.
	overRequest = "over"
	// beforeWrite and afterWrite are those of package crash.
	beforeWrite = "before"
	afterWrite  = "after"
)

func (p point) String() string { return fmt.Sprint(p.when, " ", p.n) }

// sample chooses among all points: one in each part of them, or all.
func sample(all []point) []point {
	runs := number("SLIPWAY_RUNS", 8)
	if os.Getenv("SLIPWAY_PROVE") != "" || runs >= len(all) {
		return all
	}
	r := rand.New(rand.NewPCG(uint64(number("SLIPWAY_SEED", 1)), 2))
	var points []point
	for i := range runs {
		from, to := i*len(all)/runs, (i+1)*len(all)/runs
		points = append(points, all[from+r.IntN(to-from)])
	}
	return points
}

func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// staged are the machines of a rollout in stages, and inStages its rules:
// new-1 is the canary, old-1 is next, and then the others one at a time. The
// window is always open.
var (
	staged   = []string{"new-1", "new-2", "new-3", "old-1"}
	inStages = rules{cue: `
site: schema.#Site & {rollout: {
	maxUnavailable: "1"
	canaries: {nodes: roles: ["head"], soak: "500ms"}
	pollEvery:    "200ms"
	observeEvery: "300ms"
	reportEvery:  "300ms"
}}
roles: head: {}
roles: worker: needs: base: head: {}
nodes: {"new-1": role: "head", "old-1": role: "head"}
windows: always: {cron: "0 * * * *", length: "2h"}
profiles: worker: window: "always"
`}
)

// rollout is an undisturbed one; it gives its points.
func rollout(t *testing.T) (all []point) {
	w := foundTown(t, staged, inStages)
	w.startProgram(mortal(t), crash.Log+"="+w.path("writes"))
	w.eventually("the rollout has ended", w.ended)
	for n := range w.fleet.CallCount() {
		all = append(all, point{overRequest, n + 1})
	}
	writes, err := os.ReadFile(w.path("writes"))
	check(t, err)
	for n := range bytes.Count(writes, []byte("\n")) {
		all = append(all, point{beforeWrite, n + 1}, point{afterWrite, n + 1})
	}
	w.looks(2)
	w.stop()
	w.wellDone(0)
	return all
}

// ended says whether the rollout has.
func (w *town) ended() bool {
	s, err := w.approve()
	return err == nil && allInSync(s) && s.Rollout != nil && !s.Rollout.Ended.IsZero()
}

// crash kills the daemon of a town at the point, and has another bring the
// rollout to its end.
func (p point) crash(t *testing.T) {
	w := foundTown(t, staged, inStages)
	if p.when == overRequest {
		w.start()
		w.killAt(p.n)
	} else {
		w.startProgram(mortal(t), crash.At+"="+p.String(), crash.Log+"="+w.path("writes"))
	}
	w.eventually("the daemon is dead, or the rollout has ended", func() bool { return w.daemon.dead() || w.ended() })
	if !w.daemon.dead() {
		t.Log("the rollout took less than that; it dies at its end")
		w.daemon.kill()
	}
	w.fleet.Watch(nil)
	w.start()
	w.eventually("the rollout has ended", w.ended)
	w.looks(2) // by then it is recorded
	w.stop()
	w.wellDone(1)
}

// killAt lets the running daemon die when the fleet's k-th request was carried
// out and before its answer, so that the daemon never learns of it.
func (w *town) killAt(k int) {
	d := w.daemon
	w.fleet.Watch(func(n int, _ lab.Call) {
		if n >= k {
			d.kill()
		}
	})
}

// wellDone holds a rollout in stages to what the design asks for, with as many
// daemons dead on the way. One that is killed cannot end its session, and has two
// where it dies before it has ended the one without a name.
func (w *town) wellDone(deaths int) {
	w.t.Helper()
	w.inOrder()
	w.wellRecorded(deaths)
	w.intact(2 * deaths)
	if died, err := os.ReadFile(w.path("writes")); err == nil && w.t.Failed() {
		w.t.Logf("the first daemon's writes:\n%s", died)
	}
}

// inOrder holds the changes of machines to their stages.
func (w *town) inOrder() {
	w.t.Helper()
	write := func(c lab.Call) bool { return c.Write() }
	action := func(c lab.Call) bool { return c.Write() && strings.Contains(c.Path, "/Actions/") }
	w.after(w.span("new-1", write), w.span("old-1", write))
	for _, worker := range []string{"new-2", "new-3"} {
		w.after(w.span("old-1", write), w.span(worker, write))
	}
	one, other := w.span("new-2", action), w.span("new-3", action)
	if one.from > other.from {
		one, other = other, one
	}
	w.after(one, other)
}

// span is from when to when something was asked of a machine, as places in the
// log of calls.
type span struct {
	name     string
	from, to int
}

func (w *town) span(name string, of func(lab.Call) bool) span {
	w.t.Helper()
	s := span{name, -1, -1}
	for i, c := range w.fleet.Calls() {
		if c.Machine == name && of(c) {
			if s.to = i; s.from < 0 {
				s.from = i
			}
		}
	}
	if s.from < 0 {
		w.t.Errorf("%s was not changed", name)
	}
	return s
}

func (w *town) after(first, then span) {
	w.t.Helper()
	if then.from < first.to {
		w.t.Errorf("%s was begun before %s was done", then.name, first.name)
	}
}

// wellRecorded looks at what the daemons have left on their disk.
func (w *town) wellRecorded(deaths int) {
	w.t.Helper()
	snap := w.recorded()
	switch r := snap.Rollout; {
	case r == nil || r.Ended.IsZero() || r.Done != len(staged) || len(r.Failed) > 0 || r.Halted != "":
		w.t.Errorf("the rollout is recorded as %+v", r)
	case !slices.Equal(r.Canaries, []string{"new-1"}) || r.Proven.IsZero():
		w.t.Errorf("the canaries are recorded as %q, proven %s", r.Canaries, r.Proven)
	}
	for _, name := range staged {
		r := snap.Nodes[name].Recorded
		if r.InFlight != nil || r.Installing != nil || !r.Disrupted.IsZero() || isNew(name) != (r.Installed != nil && r.Installed.Proven) {
			w.t.Errorf("%s is recorded as %+v", name, r)
		}
	}
	for _, name := range staged {
		a := snap.Accounts[name].Entries
		if len(a) > 1 && w.unsent(name, a[1]) {
			deaths--
			a = a[1:]
		}
		if used := len(a) == 1 && !a[0].Consumed.IsZero(); isNew(name) != used {
			w.t.Errorf("the approvals for %s are recorded as %+v", name, snap.Accounts[name].Entries)
		}
	}
	if deaths < 0 {
		w.t.Error("more approvals were used for nothing than daemons died")
	}
}

// unsent says whether the machine was not changed before it was approved again: a
// daemon that died when it had used an approval and had sent nothing yet asks
// again.
func (w *town) unsent(name string, again site.LedgerEntry) bool {
	return !slices.ContainsFunc(w.fleet.Calls(), func(c lab.Call) bool {
		return c.Machine == name && c.Write() && c.When.Before(again.Opened)
	})
}

// recorded are the records of a daemon that has ended.
func (w *town) recorded() record.Snapshot {
	w.t.Helper()
	store, err := record.Open(context.Background(), filepath.Join(w.path("state"), "records"), record.Options{})
	check(w.t, err)
	defer store.Close()
	snap, err := store.Site("town").Load(context.Background())
	check(w.t, err)
	return snap
}

// A daemon that dies again and again gets there all the same, and a BMC's
// sessions suffice for it.
func TestProveCrashLoop(t *testing.T) {
	t.Parallel()
	life := 60 // requests: about as many as to log in, to end the sessions of the life before and to look at all machines
	w := newTown(t)
	deaths := -1
	for done := false; !done; deaths++ {
		if life += 10; deaths == 50 {
			t.Fatal("nothing comes of 50 lives, each of which is longer than the one before")
		}
		w.start()
		w.killAt(w.fleet.CallCount() + life)
		w.eventually("in-sync or dead", func() bool {
			s, err := w.approve()
			done = err == nil && allInSync(s)
			return done || w.daemon.dead()
		})
	}
	w.fleet.Watch(nil)
	w.daemon.kill()
	w.start()
	w.converge()
	w.stop()
	w.intact(deaths + 1)
	if deaths < 2 {
		t.Errorf("the daemon died %d times, which is no loop", deaths)
	}
	t.Logf("%d deaths", deaths)
}
