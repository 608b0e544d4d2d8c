package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/slipway-gitops/slipway/tests/lab"
)

// sample is how many crash points there are without SLIPWAY_PROVE.
const sample = 12

// A daemon that is killed at any moment of a rollout, and started again,
// repeats no reset and no installation. The moments are seeded ones or, with
// SLIPWAY_PROVE set, after every single request of a rollout.
func TestProveCrashPoints(t *testing.T) {
	t.Parallel()
	requests := rollout(t)
	points := crashPoints(requests)
	t.Run("request", func(t *testing.T) {
		for _, k := range points {
			t.Run(fmt.Sprint(k), func(t *testing.T) {
				t.Parallel()
				crashAt(t, k)
			})
		}
	})
	if !t.Failed() {
		fmt.Printf("prove: crash-points %d ok\n", len(points))
	}
}

// crashPoints chooses among the requests of a rollout: one in each part of it,
// or all.
func crashPoints(requests int) (points []int) {
	if os.Getenv("SLIPWAY_PROVE") != "" {
		for k := range requests {
			points = append(points, k+1)
		}
		return points
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range sample {
		from, to := i*requests/sample, (i+1)*requests/sample
		points = append(points, from+1+r.IntN(to-from))
	}
	return points
}

// rollout is an undisturbed one; it gives its number of requests.
func rollout(t *testing.T) int {
	w := newTown(t)
	w.start()
	w.converge()
	requests := w.fleet.CallCount()
	w.stop()
	w.intact(0)
	return requests
}

// crashAt kills the daemon over the k-th request.
func crashAt(t *testing.T, k int) {
	w := newTown(t)
	w.start()
	w.killAt(k)
	w.eventually("the crash point", func() bool {
		w.approve() // fails when the daemon dies over it
		return w.daemon.dead()
	})
	w.start()
	w.converge()
	w.stop()
	w.intact(1) // the killed daemon could not end its session
}

// killAt lets the running daemon die when the fleet's k-th request was carried
// out and before its answer, so that the daemon never learns of it. All that
// was recorded is recorded before a request, so there is no other kind of
// moment.
func (w *town) killAt(k int) {
	d := w.daemon
	w.fleet.Watch(func(n int, _ lab.Call) {
		if n >= k {
			d.kill()
		}
	})
}

// A daemon that dies again and again gets there all the same, and a BMC's
// sessions suffice for it.
func TestProveCrashLoop(t *testing.T) {
	t.Parallel()
	const life = 58 // requests; to log in, to end the sessions of the life before and to look at all machines takes 44
	w := newTown(t)
	deaths := -1
	for done := false; !done; deaths++ {
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
