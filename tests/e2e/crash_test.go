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

// crashAt kills the daemon when the k-th request was carried out and before
// its answer, so that the daemon never learns of it. All that was recorded is
// recorded before a request, so there is no other kind of moment.
func crashAt(t *testing.T, k int) {
	w := newTown(t)
	w.start()
	first := w.daemon
	w.fleet.Watch(func(n int, _ lab.Call) {
		if n == k {
			first.kill()
		}
	})
	w.eventually("the crash point", func() bool {
		w.approve() // fails when the daemon dies over it
		return first.dead()
	})
	w.start()
	w.converge()
	w.stop()
	w.intact(1) // the killed daemon could not end its session
}
