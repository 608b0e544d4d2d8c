package rule

import (
	"slices"
	"testing"
	"time"
	_ "time/tzdata" // the zones of the Go release, wherever the test runs
)

// Every listed zone is one that Go knows, and they are in order, as they are
// looked up.
func TestZones(t *testing.T) {
	if len(zones()) < 400 || !slices.IsSorted(zones()) {
		t.Fatalf("%d zones, in order: %t", len(zones()), slices.IsSorted(zones()))
	}
	for _, z := range zones() {
		if _, err := time.LoadLocation(z); err != nil {
			t.Errorf("%s: %v", z, err)
		}
	}
}
