package engine

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/site"
)

// An absence that could not be recorded when the daemon came back is recorded with a later renewal of its term. Otherwise
// the daemon after it would show a state through a time in which nobody looked at the machine.
func TestAbsenceIsRecordedLater(t *testing.T) {
	store, err := record.Open(t.Context(), t.TempDir(), record.Options{NoSync: true, Tick: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	e := &Engine{Config: Config{Site: "berlin", Records: store.Site("berlin"), Log: slog.New(slog.DiscardHandler)}}
	now := time.Now()
	e.watch.restore(site.Watched{Since: now.Add(-24 * time.Hour)})
	term := &record.Term{Number: 2, Latest: now.Add(-2 * time.Hour), Began: now}
	full, cancel := context.WithCancel(t.Context())
	cancel() // nothing can be written
	e.keepWatched(full, term)
	recorded := func() int {
		t.Helper()
		snap, err := e.Records.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(snap.Watched.Absences)
	}
	if n := recorded(); n != 0 || len(e.Watched().Absences) != 1 {
		t.Fatalf("%d recorded, %+v known", n, e.Watched())
	}
	e.keepWatched(t.Context(), term) // as keepTerm does
	if n := recorded(); n != 1 {
		t.Errorf("%d absences are recorded", n)
	}
}
