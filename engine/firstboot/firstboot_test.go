package firstboot_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/slipway-gitops/slipway/engine/firstboot"
	"github.com/slipway-gitops/slipway/engine/site"
)

func guest() (*site.Site, *site.Node) {
	n := &site.Node{
		Name: "web-1", Style: site.StyleVirtual, PrimaryNetwork: "os", Addresses: map[string]string{"os": "10.1.0.11"},
		Interfaces: map[string]site.Interface{"eth0": {Networks: []string{"os"}}},
		Virtual:    site.Virtual{CPUs: 2, Interfaces: map[string]site.VirtualInterface{"eth0": {Bridge: "br0", MAC: "52:54:00:00:00:01"}}},
		System:     site.System{Users: map[string]site.User{"ops": {Keys: []string{"ssh-ed25519 AAAA"}}}, Time: site.Time{Zone: "UTC"}},
	}
	s := &site.Site{Name: "lab", Networks: map[string]*site.Network{"os": {CIDR: "10.1.0.0/24", Gateway: "10.1.0.1"}}}
	return s, n
}

// What only a first boot sets up is known to have been edited since, by the part
// of the design that says it; what it does not set up is not.
func TestEditedSince(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*site.Site, *site.Node)
		want []string
	}{
		"nothing": {func(*site.Site, *site.Node) {}, nil},
		"a key of a user": {func(_ *site.Site, n *site.Node) {
			n.System.Users = map[string]site.User{"ops": {Keys: []string{"ssh-ed25519 BBBB"}}}
		}, []string{"system.users"}},
		"the zone":              {func(_ *site.Site, n *site.Node) { n.System.Time.Zone = "Europe/Berlin" }, []string{"system.time.zone"}},
		"an address":            {func(_ *site.Site, n *site.Node) { n.Addresses = map[string]string{"os": "10.1.0.12"} }, []string{"interfaces"}},
		"the network's gateway": {func(s *site.Site, _ *site.Node) { s.Networks["os"].Gateway = "10.1.0.254" }, []string{"interfaces"}},
		"a VLAN and a bridge": {func(_ *site.Site, n *site.Node) {
			n.VLANs = map[string]site.VLAN{"eth0.30": {Parent: "eth0", Network: "os"}}
			n.Bridges = map[string]site.Bridge{"br0": {Members: []string{"eth0"}}}
		}, []string{"bridges", "interfaces", "vlans"}}, // a member has no address of its own
		"what the machine has":    {func(_ *site.Site, n *site.Node) { n.Virtual.CPUs = 4 }, nil},
		"what nothing acts on":    {func(_ *site.Site, n *site.Node) { n.System.Packages = map[string]site.Package{"nginx": {}} }, nil},
		"an address that is none": {func(_ *site.Site, n *site.Node) { n.Addresses["os"] = "allocate" }, nil},
	} {
		s, n := guest()
		given := firstboot.Given(s, n)
		c.edit(s, n)
		if got := firstboot.EditedSince(s, n, given); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		if got := firstboot.EditedSince(s, n, nil); got != nil {
			t.Errorf("%s: of a system of which nobody knows what it was given: %q", name, got)
		}
	}
}

// The first start sets interfaces up by the same rules as what changes them later: DHCPv6
// begins with an advertisement, and a member of a bridge has no address of its own.
func TestNetworkConfigIsNetplans(t *testing.T) {
	s, n := guest()
	s.Networks["six"] = &site.Network{CIDR: "fd00:1::/64", DNS: site.DNS{Domain: "example.org"}}
	n.Addresses["six"] = "fd00:1::11"
	n.Virtual.Interfaces["eth1"] = site.VirtualInterface{Bridge: "br0", MAC: "52:54:00:00:00:02"}
	s.Networks["leased"] = &site.Network{CIDR: "fd00:2::/64"}
	n.Addresses["leased"] = site.AddressDHCP
	n.Interfaces["eth1"] = site.Interface{Networks: []string{"leased"}}
	n.Interfaces["eth0"] = site.Interface{}
	n.Bridges = map[string]site.Bridge{"br0": {Members: []string{"eth0"}, Networks: []string{"os", "six"}}}
	config, err := firstboot.NetworkConfig(s, n)
	got, _ := json.Marshal(config)
	want := `{"bridges":{"br0":{"accept-ra":false,"addresses":["10.1.0.11/24","fd00:1::11/64"],"dhcp4":false,"dhcp6":false,"interfaces":["eth0"],` +
		`"nameservers":{"search":["example.org"]},"parameters":{"stp":false},"routes":[{"to":"0.0.0.0/0","via":"10.1.0.1"}]}},` +
		`"ethernets":{"eth0":{"accept-ra":false,"dhcp4":false,"dhcp6":false,"link-local":[],"match":{"macaddress":"52:54:00:00:00:01"},"set-name":"eth0"},` +
		`"eth1":{"accept-ra":true,"dhcp4":false,"dhcp6":true,"match":{"macaddress":"52:54:00:00:00:02"},"set-name":"eth1"}},"version":2}`
	if err != nil || string(got) != want {
		t.Errorf("%v, got\n%s\nwant\n%s", err, got, want)
	}
}
