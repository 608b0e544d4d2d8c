package site_test

import (
	"slices"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// The list of a machine's disks reads as as many as there are.
func TestNamesOfDisks(t *testing.T) {
	for serial, want := range map[string]string{
		"S1": "S1", " S1 ": "S1", "A, B": "A,B", "A ,  B": "A ,B", "A,B": "A,B", "two words": "two words",
		"": "7 without a serial number (1000 bytes)", "  ": "7 without a serial number (1000 bytes)",
	} {
		inv := site.Inventory{Drives: []site.Drive{{Part: site.Part{ID: "7", Serial: serial}, Bytes: 1000}}}
		if got := inv.Disks(); !slices.Equal(got.Serials, []string{want}) || got.Partly {
			t.Errorf("%q: got %+v, want %q", serial, got, want)
		}
	}
	if got := (&site.Inventory{DrivesUnread: true}).Disks(); !got.Partly {
		t.Errorf("some could not be read: %+v", got)
	}
}
