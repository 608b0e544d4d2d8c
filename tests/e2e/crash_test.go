package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
)

// sample is how many of the crash points run in CI.
const sample = 12

// TestProveCrashPoints kills the daemon after the k-th request of a rollout,
// starts it again, and expects that no reset and no installation is repeated:
// at seeded points, or after every single request with SLIPWAY_PROVE set.
func TestProveCrashPoints(t *testing.T) {
	requests := rollout(t)
	var points []int
	if os.Getenv("SLIPWAY_PROVE") != "" {
		for k := 1; k <= requests; k++ {
			points = append(points, k)
		}
	} else {
		r := rand.New(rand.NewPCG(1, 2))
		for i := range sample { // one in each twelfth of the rollout
			points = append(points, 1+i*requests/sample+r.IntN(requests/sample))
		}
	}
	t.Run("points", func(t *testing.T) {
		for _, k := range points {
			t.Run(fmt.Sprint(k), func(t *testing.T) {
				t.Parallel()
				crashAfter(t, k)
			})
		}
	})
	if !t.Failed() {
		fmt.Printf("prove: crash-points %d ok\n", len(points))
	}
}

// rollout is an undisturbed one; it gives its number of requests.
func rollout(t *testing.T) int {
	w := newTown(t)
	w.start()
	w.converge()
	n := w.fleet.CallCount()
	w.stop()
	w.intact()
	for _, name := range names {
		if got := w.fleet.Machine(name).State().Sessions; got != 0 {
			t.Errorf("%s: %d sessions are left", name, got)
		}
	}
	return n
}

func crashAfter(t *testing.T, k int) {
	w := newTown(t)
	w.start()
	w.until("the crash point", func() bool {
		w.approve()
		return w.fleet.CallCount() >= k
	})
	w.kill()
	w.start()
	w.converge()
	w.stop()
	w.intact()
}
