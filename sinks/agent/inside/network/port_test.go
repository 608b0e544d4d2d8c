package network

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// adapter puts an interface's adapter at a place on the PCI bus; behind is what is between.
func (s *system) adapter(name, pci, behind string) {
	s.t.Helper()
	put(s.t, s.root, "/sys/devices/pci0000:17/"+pci+behind+"/uevent", "", 0o644)
	at := filepath.Join(s.root, "sys/class/net", name, "device")
	_ = os.Remove(at)
	if err := os.Symlink("../../../devices/pci0000:17/"+pci+behind, at); err != nil {
		s.t.Fatal(err)
	}
}

// A port that is designed by its place on the PCI bus is the one there, whatever the
// system calls it: it gets the name of the design, by its MAC address.
func TestPortByItsPlace(t *testing.T) {
	s := newSystem(t)
	s.adapter("eth0", "0000:18:00.1", "")
	s.adapter("eth1", "0000:18:00.0", "/virtio1")
	f, design := s.facet(), links{"eth0": {Kind: "ethernet", PCI: "0000:18:00.0", Addresses: []string{"10.1.0.11/24"}}}
	h := s.host()
	h.Wants = item.Needing(items(design))
	seen, err := f.Observe(t.Context(), h, keysOf(design))
	if err != nil || seen.Have["links.eth0.pci"] != "0000:18:00.1" || seen.Have["links.eth0.mac"] != "" || len(seen.Cannot) > 0 {
		t.Fatalf("have %v, cannot %v, %v", seen.Have, seen.Cannot, err)
	}
	p, err := f.plan(h, items(design), nil)
	if err != nil || p.after["eth0"].MAC != "52:54:00:aa:00:02" {
		t.Fatalf("eth0 is to be %+v, %v", p, err)
	}

	// Another adapter in the same place, once it was set up.
	s = newSystem(t)
	s.adapter("eth0", "0000:18:00.0", "")
	f, h = s.facet(), s.host()
	h.Wants = item.Needing(items(design))
	if err := f.Apply(t.Context(), h, items(design), nil); err != nil {
		t.Fatal(err)
	}
	name, _ := f.Unconfirmed(s.host())
	if err := f.Confirm(t.Context(), s.host(), name); err != nil {
		t.Fatal(err)
	}
	if seen, err = f.Observe(t.Context(), h, keysOf(design)); err != nil || seen.Have["links.eth0.pci"] != "0000:18:00.0" {
		t.Errorf("have %v, %v", seen.Have, err)
	}
	for _, w := range f.mustPlan(t, s, design).writes {
		t.Errorf("a second pass writes %s", w.path)
	}
	put(t, s.root, "/sys/class/net/eth0/address", "52:54:00:aa:00:09\n", 0o644)
	if seen, err = f.Observe(t.Context(), h, keysOf(design)); err != nil || !strings.Contains(seen.Have["links.eth0.pci"], "another adapter is there") {
		t.Errorf("have %v, %v", seen.Have, err)
	}
}

func (f *Facet) mustPlan(t *testing.T, s *system, all links) *plan {
	t.Helper()
	p, err := f.plan(s.host(), items(all), nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Where no port, or more than one, is at the place of a design, no other one is set up by
// its name.
func TestNoPortAtItsPlace(t *testing.T) {
	for name, c := range map[string]struct {
		at   map[string]string
		says string
	}{
		"none":    {map[string]string{"eth0": "0000:18:00.1"}, "no network port is at the PCI address 0000:18:00.0; there are eth0 at 0000:18:00.1"},
		"no bus":  {nil, "no network port is at the PCI address 0000:18:00.0, nor at any other"},
		"several": {map[string]string{"eth0": "0000:18:00.0", "eth1": "0000:18:00.0"}, "the ports eth0, eth1 are all at the PCI address"},
	} {
		s := newSystem(t)
		for port, at := range c.at {
			s.adapter(port, at, "")
		}
		before := s.configuration()
		f, design := s.facet(), links{"eth0": {Kind: "ethernet", PCI: "0000:18:00.0", Addresses: []string{"10.1.0.11/24"}}}
		h := s.host()
		h.Wants = item.Needing(items(design))
		seen, err := f.Observe(t.Context(), h, keysOf(design))
		if err != nil || !strings.Contains(seen.Cannot["links.eth0"], c.says) {
			t.Errorf("%s: cannot %v, %v", name, seen.Cannot, err)
		}
		if err := f.Apply(t.Context(), h, items(design), nil); class(err) != wire.Refused || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if s.configuration() != before {
			t.Errorf("%s: something was written", name)
		}
	}
}
