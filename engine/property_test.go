package engine_test

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/record"
)

// Many random stories are told, and each is held against the laws. SLIPWAY_SEED
// tells one of them again, or SLIPWAY_RUNS from it on; SLIPWAY_TRACE is how many
// lines of a bad one are shown.
func TestProveProperties(t *testing.T) {
	const batch = 200 // stories in one bubble
	first, runs := number("SLIPWAY_SEED", 1), number("SLIPWAY_RUNS", 100)
	switch {
	case os.Getenv("SLIPWAY_RUNS") != "":
	case os.Getenv("SLIPWAY_SEED") != "":
		runs = 1
	case os.Getenv("SLIPWAY_PROVE") != "":
		runs = 100_000
	case racing:
		runs = 20
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // a bubble holds hundreds of engines
	for told := 0; told < runs && !t.Failed(); told += batch {
		stories(t, uint64(first+told), min(batch, runs-told))
	}
	if !t.Failed() {
		fmt.Printf("prove: properties %d ok\n", runs)
	}
}

func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// stories tells some in one bubble, side by side.
func stories(t *testing.T, from uint64, n int) {
	dir := t.TempDir()
	defer os.RemoveAll(dir)
	synctest.Test(t, func(t *testing.T) {
		store, err := record.Open(t.Context(), dir, record.Options{NoSync: true, Tick: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		var all sync.WaitGroup
		for i := range n {
			story := newTrial(from+uint64(i), store)
			all.Go(func() {
				story.tell(t.Context())
				if len(story.wrong) > 0 {
					t.Error(story.ending(number("SLIPWAY_TRACE", 80)))
				}
			})
		}
		all.Wait()
	})
}
