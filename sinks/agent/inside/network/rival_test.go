package network

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

const ifupdownLink = "/etc/systemd/system/multi-user.target.wants/networking.service"

// withIfupdown is a system on which ifupdown is enabled beside systemd-networkd, for
// some interfaces.
func withIfupdown(t *testing.T, names ...string) *system {
	s := newSystem(t)
	text := "auto lo\niface lo inet loopback\n"
	for _, name := range names {
		text += "\nauto " + name + "\niface " + name + " inet dhcp\n"
	}
	put(t, s.root, interfacesFile, text, 0o644)
	if err := os.Symlink("/lib/systemd/system/networking.service", filepath.Join(s.root, ifupdownLink)); err != nil {
		t.Fatal(err)
	}
	s.ifupdown = true
	return s
}

// enabledAs says what starts ifupdown at boot; empty for nothing.
func (s *system) enabledAs() string {
	to, _ := os.Readlink(filepath.Join(s.root, ifupdownLink)) // which may be gone
	return to
}

// Another manager that sets up an interface of the design is seen, disabled within the
// guard, and enabled again when nobody confirms, and when the network leaves the design.
func TestOtherManagerIsDisabled(t *testing.T) {
	s := withIfupdown(t, "eth0")
	f, ctx, before := s.facet(), t.Context(), s.configuration()
	seen, err := f.Observe(ctx, s.host(), keysOf(wanted))
	if err != nil || !strings.Contains(seen.Have["links.eth0.kind"], "ifupdown is enabled and sets it up too") || strings.Contains(seen.Have["links.eth1.kind"], "ifupdown") {
		t.Errorf("seen %q and %q, %v", seen.Have["links.eth0.kind"], seen.Have["links.eth1.kind"], err)
	}
	if is := seen.Have["managers.ifupdown"]; is != "enabled, sets up eth0" {
		t.Errorf("the manager is told as %q", is)
	}
	if err := f.Apply(ctx, s.host(), items(wanted), nil); err != nil {
		t.Fatal(err)
	}
	if seen, err = f.Observe(ctx, s.host(), keysOf(wanted)); err != nil || seen.Have["managers.ifupdown"] != "" {
		t.Errorf("once it is disabled it is told as %q, %v", seen.Have["managers.ifupdown"], err)
	}
	if s.enabledAs() != "" || s.ifupdown {
		t.Errorf("it is enabled as %q, and runs: %v", s.enabledAs(), s.ifupdown)
	}
	s.same(f, wanted)
	name, _ := f.Unconfirmed(s.host())
	if err := f.revert(ctx, s.host(), name); err != nil {
		t.Fatal(err)
	}
	s.isBack(before)
	if s.enabledAs() != "/lib/systemd/system/networking.service" || !s.ifupdown {
		t.Errorf("set back, it is enabled as %q, and runs: %v", s.enabledAs(), s.ifupdown)
	}

	s = withIfupdown(t, "eth0")
	f = s.facet()
	if err := f.Apply(ctx, s.host(), items(wanted), nil); err != nil {
		t.Fatal(err)
	}
	name, _ = f.Unconfirmed(s.host())
	if err := f.Confirm(ctx, s.host(), name); err != nil || s.enabledAs() != "" {
		t.Fatalf("confirmed: %v, enabled as %q", err, s.enabledAs())
	}
	if err := f.Apply(ctx, s.host(), nil, keysOf(wanted)); err != nil {
		t.Fatal(err)
	}
	name, _ = f.Unconfirmed(s.host())
	if err := f.Confirm(ctx, s.host(), name); err != nil || s.enabledAs() != "/lib/systemd/system/networking.service" || !s.ifupdown {
		t.Errorf("given back: %v, enabled as %q, runs: %v", err, s.enabledAs(), s.ifupdown)
	}
	if got := s.configuration(); got != before {
		t.Errorf("after its removal\n%s\nwant\n%s", got, before)
	}
}

// One that sets up what nobody designed is not touched, and the change is refused. One that
// sets up nothing of the design is left alone.
func TestOtherManagerOfOtherInterfaces(t *testing.T) {
	s := withIfupdown(t, "eth0", "eth9")
	before := s.configuration()
	err := s.facet().Apply(t.Context(), s.host(), items(wanted), nil)
	if class(err) != wire.Refused || !strings.Contains(err.Error(), "ifupdown sets up eth9 besides") || s.enabledAs() == "" || s.configuration() != before {
		t.Errorf("it ended with %v", err)
	}
	s = withIfupdown(t, "eth9")
	f := s.facet()
	if err := f.Apply(t.Context(), s.host(), items(wanted), nil); err != nil || s.enabledAs() == "" || !s.ifupdown {
		t.Errorf("%v, enabled as %q", err, s.enabledAs())
	}
	s.same(f, wanted)
}

// It is told also where no interface that it sets up is there yet.
func TestOtherManagerOfAbsentInterfaces(t *testing.T) {
	s := withIfupdown(t, "bond0")
	seen, err := s.facet().Observe(t.Context(), s.host(), []string{"links.bond0", "links.eth0"})
	if err != nil || seen.Have["managers.ifupdown"] != "enabled, sets up bond0" || seen.Have["links.bond0.kind"] != "" {
		t.Errorf("seen %v, %v", seen.Have, err)
	}
}

// What sets up whatever ports it finds is disabled too, unless its settings leave out those of the
// design, or it sets up others besides.
func TestManagersOfAllPorts(t *testing.T) {
	for name, c := range map[string]struct{ unit, settings, text, has, refused string }{
		"dhcpcd":                    {unit: "dhcpcd.service", has: "enabled, sets up eth0, eth1"},
		"dhcpcd leaves one out":     {unit: "dhcpcd.service", settings: "/etc/dhcpcd.conf", text: "hostname\ndenyinterfaces wlan0, eth1\n", has: "enabled, sets up eth0"},
		"dhcpcd has one alone":      {unit: "dhcpcd.service", settings: "/etc/dhcpcd.conf", text: "allowinterfaces *1\n", has: "enabled, sets up eth1"},
		"dhcpcd leaves all out":     {unit: "dhcpcd.service", settings: "/etc/dhcpcd.conf", text: "denyinterfaces eth*\n"},
		"connman":                   {unit: "connman.service", settings: "/etc/connman/main.conf", text: "[General]\nNetworkInterfaceBlacklist=eth1,vb-\n", has: "enabled, sets up eth0"},
		"dhcpcd has others as well": {unit: "dhcpcd.service", settings: "/sys/class/net/eth7/device/vendor", has: "enabled, sets up eth0, eth1", refused: "dhcpcd sets up eth7 besides"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t)
			link := filepath.Join(s.root, "/etc/systemd/system/multi-user.target.wants/"+c.unit)
			if err := os.Symlink("/lib/systemd/system/"+c.unit, link); err != nil {
				t.Fatal(err)
			}
			for _, port := range []string{"eth0", "eth1"} {
				put(t, s.root, "/sys/class/net/"+port+"/device/vendor", "0x8086\n", 0o644)
			}
			if c.settings != "" {
				put(t, s.root, c.settings, c.text, 0o644)
			}
			seen, err := s.facet().Observe(t.Context(), s.host(), keysOf(wanted))
			key := "managers." + strings.TrimSuffix(c.unit, ".service")
			if err != nil || seen.Have[key] != c.has {
				t.Errorf("seen %q, %v", seen.Have[key], err)
			}
			err = s.facet().Apply(t.Context(), s.host(), items(wanted), nil)
			_, there := os.Lstat(link)
			switch {
			case c.refused != "":
				if class(err) != wire.Refused || !strings.Contains(err.Error(), c.refused) || there != nil {
					t.Errorf("it ended with %v; %v", err, there)
				}
			case err != nil || (there == nil) != (c.has == ""):
				t.Errorf("%v; the link: %v", err, there)
			}
		})
	}
}

// A shared address is left on the interface that has it and is no difference, whichever
// machine has it; where nobody shares it, it is one. What is set back knows nothing of it.
func TestSharedAddressIsLeft(t *testing.T) {
	s := newSystem(t)
	f, ctx := s.facet(), t.Context()
	shares := links{"eth0": {Kind: "ethernet", Addresses: []string{"10.1.0.11/24"}, Routes: wanted["eth0"].Routes, Shared: []string{"10.1.0.5"}}}
	if err := f.Apply(ctx, s.host(), items(shares), nil); err != nil {
		t.Fatal(err)
	}
	name, _ := f.Unconfirmed(s.host())
	if err := f.Confirm(ctx, s.host(), name); err != nil {
		t.Fatal(err)
	}
	s.addresses["eth0"] = append(s.addresses["eth0"], "10.1.0.5/24", "10.1.0.6/24")
	seen, err := f.Observe(ctx, s.host(), keysOf(shares))
	if err != nil || seen.Have["links.eth0.addresses"] != "10.1.0.11/24, 10.1.0.6/24" || seen.Have["links.eth0.shared"] != "10.1.0.5" {
		t.Errorf("seen %v, %v", seen.Have, err)
	}
	s.addresses["eth0"] = []string{"10.1.0.11/24", "10.1.0.5/24"}
	moved := links{"eth0": shares["eth0"], "eth1": {Kind: "ethernet", Addresses: []string{"10.2.0.11/24"}}}
	if err := f.Apply(ctx, s.host(), items(moved), nil); err != nil {
		t.Fatal(err)
	}
	name, _ = f.Unconfirmed(s.host())
	s.addresses["eth0"] = []string{"10.1.0.11/24"} // it moved to another machine meanwhile
	s.ran = nil
	if err := f.revert(ctx, s.host(), name); err != nil {
		t.Fatal(err)
	}
	for _, ran := range s.ran {
		if strings.Contains(ran, "10.1.0.5") {
			t.Errorf("it is taken back from the other machine: %s", ran)
		}
	}
}
