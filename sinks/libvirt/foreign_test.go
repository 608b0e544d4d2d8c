package libvirt

import (
	"testing"
)

// What Slipway may not touch it does not call off: nobody has asked libvirt whether that machine runs.
func TestPowerOfAForeignMachineIsUnknown(t *testing.T) {
	s := &sighting{foreign: `on hv-1 there is a machine named vm-1 with the UUID of vm-1 that Slipway did not make`}
	state, err := s.power(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if is := state.Have["state"]; is == "off" {
		t.Errorf("the power of a machine that is there and that nobody looked at is %q", is)
	}
}
