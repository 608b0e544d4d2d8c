package engine

import (
	"context"
	"errors"
	"testing"

	"golang.org/x/sync/semaphore"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Only a machine under quarantine is looked at and switched off while all places are taken.
func TestQuarantineWaitsForNoPlace(t *testing.T) {
	places := semaphore.NewWeighted(1)
	leave, err := enter(t.Context(), places, job{})
	if err != nil {
		t.Fatal(err)
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := enter(late, places, job{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a second place: %v", err)
	}
	held := job{memory: site.Memory{Recorded: site.Recorded{Quarantined: &site.Hold{By: "ann"}}}}
	if out, err := enter(late, places, held); err != nil {
		t.Errorf("under quarantine: %v", err)
	} else {
		out()
	}
	leave()
	if !places.TryAcquire(1) {
		t.Error("the place is not free again")
	}
}
