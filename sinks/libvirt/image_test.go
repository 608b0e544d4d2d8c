package libvirt

import (
	"errors"
	"os"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
)

// An image that a person deleted does not count while it is fetched again,
// though what made it count is left.
func TestImageDeleted(t *testing.T) {
	b := newBench(t, "raw")
	b.mustInstall()
	s, err := b.machine().storage(t.Context(), b.conn(), "default")
	if err != nil {
		t.Fatal(err)
	}
	v, there, err := s.image(t.Context(), b.step.Image)
	if err != nil || !there {
		t.Fatal(there, err)
	}
	if err := os.Remove(b.file(v.Name)); err != nil {
		t.Fatal(err)
	}
	b.volumes() // refreshes
	b.server.cut = 150000
	if _, err := b.machine().fetches.image(t.Context(), s, b.step.Image); !errors.Is(err, driver.ErrUnreachable) {
		t.Fatalf("got %v", err)
	}
	if _, counts, err := s.image(t.Context(), b.step.Image); err != nil || counts {
		t.Errorf("a part of the image counts: %t, %v", counts, err)
	}
}
