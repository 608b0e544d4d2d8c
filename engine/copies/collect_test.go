package copies

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/record"
)

// What is collected is removed everywhere and is not brought back: not by a daemon that was off meanwhile, and not by
// one that leads next.
func TestWhatIsCollectedStaysAway(t *testing.T) {
	b := newBoard()
	one, two, off := b.node(t, "one", 0), b.node(t, "two", 0), b.node(t, "off", 0)
	one.leads()
	kept, gone := one.add("kept.iso", bytesOf(1000)), one.add("gone.iso", bytesOf(1000))
	one.needed[kept] = true
	round(one, two, off)
	if !off.has(kept) || !off.has(gone) {
		t.Fatal("not copied")
	}
	would, err := one.Keeper().Collect(t.Context(), 0, true)
	must(t, err)
	if len(would) != 1 || would[0].SHA256 != gone || !one.has(gone) {
		t.Errorf("would remove %+v", would)
	}
	did, err := one.Keeper().Collect(t.Context(), 0, false)
	must(t, err)
	if len(did) != 1 || did[0].SHA256 != gone || one.has(gone) {
		t.Errorf("removed %+v", did)
	}
	round(one, two)
	if two.has(gone) || !two.has(kept) || one.has(gone) {
		t.Error("after it was collected")
	}
	if _, still := b.shelves.Artifacts[gone]; !still {
		t.Fatal("that it was collected is forgotten while one daemon has it")
	}
	two.leads() // it is on the third one alone, which comes back
	two.needed[kept] = true
	round(off, two, one)
	if off.has(gone) || one.has(gone) || two.has(gone) || !off.has(kept) {
		t.Error("it came back")
	}
	a := b.shelves.Artifacts[gone]
	a.Removed = a.Removed.Add(-forgottenAfter)
	b.shelves.Artifacts[gone] = a
	round(two)
	if a, still := b.shelves.Artifacts[gone]; still {
		t.Errorf("nobody has it, and its record stays: %+v", a)
	}
}

// A daemon that had just got a file, and was cut off from the records before it could say so, removes it when it is
// back. Nobody else would: the one that leads does not know of it.
func TestCollectedBeforeADaemonHasSaidThatItHasIt(t *testing.T) {
	b := newBoard()
	one, cut := b.node(t, "one", 0), b.node(t, "cut", 0)
	one.leads()
	gone := one.add("gone.iso", bytesOf(1000))
	one.sync(t.Context())
	cut.sync(t.Context())
	one.sync(t.Context())
	a, _ := cut.next()
	cut.copy(t.Context(), a)
	cut.desk.unplug(errors.New("cut off"))
	_, err := one.Keeper().Collect(t.Context(), 0, false)
	must(t, err)
	for range 3 {
		one.sync(t.Context())
	}
	cut.desk.unplug(nil)
	cut.sync(t.Context())
	if cut.has(gone) {
		t.Error("what was collected stays on a daemon")
	}
}

// What is named while it is being collected stays on the daemon that leads, and so on all.
func TestNamedWhileItIsCollected(t *testing.T) {
	_, one, two := pair(t)
	digest := one.add("x.iso", bytesOf(1000))
	round(one, two)
	var asked int
	one.Lead(one.desk, func() (map[string]bool, error) {
		asked++
		return map[string]bool{digest: asked > 1}, nil // a commit has come after the first look
	})
	_, err := one.Keeper().Collect(t.Context(), 0, false)
	must(t, err)
	two.sync(t.Context())
	if !one.has(digest) {
		t.Fatal("what the design names is on no daemon")
	}
	round(one, two)
	if !one.has(digest) || !two.has(digest) {
		t.Error("what the design names is not on all daemons")
	}
}

// What only another daemon has is collected too. Nothing is added meanwhile, which would be taken for collected. If it
// cannot be recorded, the error says what was removed nevertheless.
func TestWhatOnlyAnotherDaemonHasIsCollected(t *testing.T) {
	b, one, two := pair(t)
	digest := one.add("x.iso", bytesOf(1000))
	round(one, two)
	must(t, one.Files.Remove(digest))
	one.sync(t.Context())
	here := one.add("y.iso", bytesOf(1000))
	one.sync(t.Context())
	puts := 0
	b.put = func() error {
		if puts++; puts == 2 {
			return errors.New("no majority")
		}
		return nil
	}
	_, err := one.Keeper().Collect(t.Context(), 0, false)
	if err == nil || err.Error() != "removed 1 file; files that only other daemons have were not removed: no majority; run `slipway artifact gc` again once this is over" || one.has(here) {
		t.Errorf("it says %v", err)
	}
	b.put = func() error {
		if one.turn.TryLock() {
			one.turn.Unlock()
			t.Error("a file can be added between what Collect looks at and what it records")
		}
		return nil
	}
	gone, err := one.Keeper().Collect(t.Context(), 0, false)
	must(t, err)
	round(two)
	if len(gone) != 1 || gone[0].SHA256 != digest || two.has(digest) {
		t.Errorf("collected %+v", gone)
	}
}

// A file that is added again after it was collected is there again.
func TestWhatIsAddedAgainIsThere(t *testing.T) {
	_, one, two := pair(t)
	content := bytesOf(1000)
	digest := one.add("x.iso", content)
	round(one, two)
	_, err := one.Keeper().Collect(t.Context(), 0, false)
	must(t, err)
	one.add("x.iso", content)
	round(one, two)
	if !one.has(digest) || !two.has(digest) {
		t.Error("it is not there")
	}
}

// What somebody adds again while it is being collected stays.
func TestAddedWhileItIsCollected(t *testing.T) {
	_, one, two := pair(t)
	content := bytesOf(1000)
	digest := one.add("x.iso", content)
	round(one, two)
	i, _ := one.Files.Get(digest)
	one.add("x.iso", content)
	must(t, one.Forget(t.Context(), []artifact.Info{i})) // what Collect found before that
	round(one, two)
	if !one.has(digest) || !two.has(digest) {
		t.Error("it was collected")
	}
}

// A daemon that has lost its term adds and collects nothing: the records refuse it, and it says so.
func TestOneThatLeadsNoMoreChangesNothing(t *testing.T) {
	_, one, two := pair(t)
	digest := one.add("x.iso", bytesOf(1000))
	round(one, two)
	two.leads()
	if _, err := one.Keeper().Collect(t.Context(), 0, false); !errors.Is(err, record.ErrLost) || !one.has(digest) || !strings.Contains(err.Error(), "nothing was removed") {
		t.Errorf("collected: %v", err)
	}
	_, err := one.Keeper().AddFile(t.Context(), strings.NewReader("late"), 0, "", "late.iso", nil)
	if !errors.Is(err, record.ErrLost) || !strings.Contains(err.Error(), "late.iso is in the store of this host, and the other daemons of the site do not know of it") {
		t.Errorf("added: %v", err)
	}
	other := two.add("y.iso", bytesOf(1000)) // at the same time
	round(two, one)
	if !one.has(other) || two.has(digestOf([]byte("late"))) {
		t.Error("what the one that leads added is not copied, or what the other did is")
	}
}

// What is collected while it is being copied is broken off, and leaves no part that takes room.
func TestCollectedWhileItIsCopied(t *testing.T) {
	content := bytesOf(400_000)
	digest := digestOf(content)
	b := newBoard()
	half := make(chan struct{})
	b.liar(t, "a", digest, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", strconv.Quote(digest))
		w.Header().Set("Content-Length", "400000")
		w.Write(content[:200_000])
		w.(http.Flusher).Flush()
		close(half)
		<-r.Context().Done()
	})
	n, a := b.lacks(t, digest, len(content))
	done := make(chan struct{})
	go func() { defer close(done); n.copy(t.Context(), a) }()
	<-half
	b.mu.Lock()
	a.Removed = time.Now()
	b.shelves.Artifacts[digest] = a
	b.mu.Unlock()
	n.sync(t.Context())
	<-done
	n.sync(t.Context())
	if parts, err := os.ReadDir(filepath.Join(n.dir, "partial")); err != nil || len(parts) > 0 || n.has(digest) || n.copying.trouble() != "" || len(n.copying.states()) > 0 {
		t.Errorf("left: %v %v, and it says %q", parts, err, n.copying.trouble())
	}
}
