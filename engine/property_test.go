package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/sitekey"
)

// foundSeeds are those of stories in which something was wrong once, with what it
// was. A seed tells the same story only as long as stories are drawn alike, so that
// each fault has a test of its own, too.
var foundSeeds = map[uint64]string{
	20244:      "another system was not noticed after a person had accepted the one before it",
	40484:      "an approval was taken back on a daemon that did not act for the site",
	41165:      "likewise",
	626:        "a request that was on its way when the daemon died was held to the rollout before it",
	1598:       "the oracle ended with the set of a merge what a command had approved",
	2690:       "a resumed installation did not eject the medium of another one",
	1795494930: "a name was bound to another machine before the design that heals was in force",
	1795490059: "a request hung on a machine that had been well again for long",
	1795488617: "a restart waited without an end for a machine that somebody had switched off",
	84716:      "a law gave an installer whose image the design had dropped too little time",
	41507:      "a law held a step on a machine against the one in its place",
	1795643461: "a law took a machine for one that had served, though the name had been on another one since",
	1795675664: "a law held a pause against a node that had been removed from the records since",
	1795710701: "the oracle held an approval on older records to a design that their daemon did not have yet",
	1795672066: "likewise",
	1795648132: "the oracle had not seen which design came into force beside when somebody approved what that showed",
	1795647738: "the oracle took a line of a design for an approval of what only an older design planned",
	1795623007: "a machine was waited for by a time that was still to come, since the clock had been set back",
	1795507487: "a law held a node whose own failure had halted the rollout, before anything could be sent to it",
	5084:       "the oracle did not let people approve what a merge had approved that nobody had asked about yet",
	1795905851: "a leader that answered again counted as done until its plan was made, and others did not wait for it",
}

func TestStoriesThatOnceFailed(t *testing.T) {
	for seed := range foundSeeds {
		tellOne(t, seed)
	}
}

// The same stories are told each time, so that what a change breaks is broken for
// everybody.
func TestTheFirstStories(t *testing.T) {
	for seed := range uint64(60) {
		tellOne(t, seed)
	}
}

// Many random stories are told, and each is held against the laws and against the
// ledger of its people. SLIPWAY_SEED tells one of them again, or SLIPWAY_RUNS from
// it on; SLIPWAY_TRACE is how many lines of a bad one are shown. CI begins with
// another seed each time, and tells as many as it has time for.
func TestProveProperties(t *testing.T) {
	first, runs, lasting := number("SLIPWAY_SEED", 1), number("SLIPWAY_RUNS", 100), time.Duration(0)
	switch {
	case os.Getenv("SLIPWAY_RUNS") != "":
	case os.Getenv("SLIPWAY_SEED") != "":
		runs = 1
	case racing:
		runs = 20
	case os.Getenv("SLIPWAY_PROVE") != "":
		runs = 100_000
	case os.Getenv("CI") != "":
		first, runs, lasting = number("SLIPWAY_FIRST_SEED", int(time.Now().Unix())), 100_000, time.Minute
	}
	side := runtime.GOMAXPROCS(0) // how many stories are told side by side
	if lasting > 0 {
		side = 1 // other packages are tested meanwhile
	}
	began, next, used := time.Now(), atomic.Int64{}, approvals{}
	fmt.Printf("stories from SLIPWAY_SEED=%d on\n", first)
	defer debug.SetGCPercent(debug.SetGCPercent(800))
	t.Run("stories", func(t *testing.T) {
		for range side {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for i := next.Add(1); i <= int64(runs) && (lasting == 0 || time.Since(began) < lasting); i = next.Add(1) {
					used.note(tellOne(t, uint64(first)+uint64(i)-1))
				}
			})
		}
	})
	for _, by := range []string{"a command", "a line", "a merge"} {
		if runs >= 100 && used.of(by) == 0 {
			t.Errorf("nothing was destroyed that %s approved: the stories do not reach what they are for", by)
		}
	}
	if !t.Failed() {
		told := min(next.Load()-int64(side), int64(runs))
		fmt.Printf("prove: properties %d ok; destroyed after %d commands, %d lines of designs, %d merges\n", told,
			used.of("a command"), used.of("a line"), used.of("a merge"))
	}
}

func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// tellOne tells a story, and fails the test when something is wrong in it.
func tellOne(t *testing.T, seed uint64) *trial {
	t.Helper()
	dir, err := os.MkdirTemp("", "story")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	story := told(t, newTrial(seed, dir, storyKey(t)))
	if len(story.wrong) > 0 {
		t.Error(story.ending(number("SLIPWAY_TRACE", 80)))
	}
	return story
}

// approvals counts those after which something was destroyed, by how they were
// given.
type approvals struct {
	mu   sync.Mutex
	used map[string]int
}

func (a *approvals) note(story *trial) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range story.people.ledger.Entries() {
		if !e.Lost.IsZero() {
			if a.used == nil {
				a.used = map[string]int{}
			}
			a.used[e.By]++
		}
	}
}

func (a *approvals) of(by string) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for is, times := range a.used {
		if strings.HasPrefix(is, by) {
			n += times
		}
	}
	return n
}

// told tells a story, each chapter in a bubble of its own.
func told(t *testing.T, story *trial) *trial {
	for over := false; !over; {
		synctest.Test(t, func(t *testing.T) { over = story.tell(t.Context()) })
	}
	return story
}

// storyKey is the site key of all stories.
func storyKey(t *testing.T) *sitekey.Key {
	t.Helper()
	key, err := makeStoryKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

var makeStoryKey = sync.OnceValues(func() (*sitekey.Key, error) {
	dir, err := os.MkdirTemp("", "key")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	key, _, err := sitekey.LoadOrCreate(filepath.Join(dir, "key"))
	return key, err
})
