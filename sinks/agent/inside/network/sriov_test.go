package network

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The virtual functions of an adapter are made at once, through the kernel's file for them, and
// at each boot, by the files that udev and the network's manager read.
func TestVirtualFunctions(t *testing.T) {
	s := newSystem(t)
	const numbers = "/sys/class/net/eth0/device/sriov_numvfs"
	put(t, s.root, numbers, "0\n", 0o644)
	text := func(path string) string {
		content, err := os.ReadFile(filepath.Join(s.root, path))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	f := s.facet()
	var made []string
	s.onStep = func(what string) {
		if strings.Contains(what, "virtual functions") {
			made = append(made, what)
		}
	}
	for _, c := range []struct {
		functions int
		trusted   bool
		kernel    string
		made      string
	}{
		{2, false, "2", "eth0 has 2 virtual functions"},
		{4, false, "4", "eth0 has 0 virtual functions; eth0 has 4 virtual functions"}, // the kernel wants none in between
		{4, true, "4", ""},
		{0, false, "0", "eth0 has 0 virtual functions"},
	} {
		made = nil
		design := links{"eth0": {Kind: "ethernet", MAC: "52:54:00:aa:00:01", Addresses: []string{"10.1.0.11/24"}, Functions: c.functions, Trusted: c.trusted}}
		if err := f.Apply(t.Context(), s.host(), items(design), nil); err != nil {
			t.Fatal(err)
		}
		name, _ := f.Unconfirmed(s.host())
		if err := f.Confirm(t.Context(), s.host(), name); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(text(numbers)); got != c.kernel || strings.Join(made, "; ") != c.made {
			t.Errorf("%+v: the kernel has %s, by %q", c, got, made)
		}
		link, network := text("/etc/systemd/network/10-slipway-eth0.link"), text("/etc/systemd/network/10-slipway-eth0.network")
		if strings.Contains(link, "SR-IOVVirtualFunctions="+c.kernel+"\n") != (c.functions > 0) {
			t.Errorf("%+v: udev has\n%s", c, link)
		}
		if got := strings.Count(network, "[SR-IOV]\nVirtualFunction="); got != strings.Count(network, "Trust=yes") || got != map[bool]int{true: c.functions}[c.trusted] {
			t.Errorf("%+v: systemd-networkd has\n%s", c, network)
		}
		s.same(f, design)
	}
}
