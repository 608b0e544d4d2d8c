package design

import (
	"slices"
	"testing"

	"github.com/slipway-gitops/slipway/engine/design/rule"
	"github.com/slipway-gitops/slipway/engine/site"
)

// seeded are mistakes that designs for machine rooms had before, each with the
// code that tells of it. The patch is laid over the clean site; without one it
// is the rule's own example.
var seeded = []struct{ mistake, code, patch string }{
	{"a node without a role", "missing-field", `nodes: "n1": role: _ @unset()`},
	{"a size without its unit", "invalid-value", `nodes: "n1": hardware: memory: 65536`},
	{"a disk that no one selector means", "disk-selector", ""},
	{"a UUID twice", "duplicate-uuid", ""},
	{"a UUID twice, in two orders of bytes", "duplicate-uuid", `nodes: "n1": identity: uuid: "33221100-5544-7766-8899-aabbccddeeff"
nodes: "n2": identity: uuid: "00112233-4455-6677-8899-aabbccddeeff"`},
	{"a UUID that is nobody's", "placeholder-identity", `nodes: "n1": identity: uuid: "03000200-0400-0500-0006-000700080009"`},
	{"a MAC address twice", "duplicate-mac", ""},
	{"a BMC twice", "duplicate-endpoint", ""},
	{"a host name that is none", "node-name", ""},
	{"a bridge without what it bridges", "unknown-member", `nodes: "n4": bridges: br0: members: ["bond1"]`},
	{"an interface name that the kernel refuses", "interface-name", ""},
	{"two networks on one port without tags", "interface-networks-untrunked", ""},
	{"a bond of one", "bond-of-one", ""},
	{"a bonding mode that there is not", "invalid-value", `links: other: bonding: mode: "balanced-rr"`},
	{"a bond's member used by itself", "member-twice", `nodes: "n4": interfaces: eno1: networks: ["bmc"]`},
	{"networks that overlap", "network-overlap", ""},
	{"a pool with the gateway", "gateway-in-range", ""},
	{"a network with host bits", "invalid-cidr", ""},
	{"an address outside its network", "address-outside-network", ""},
	{"an address twice", "duplicate-address", ""},
	{"a given address in the pool of DHCP", "address-outside-ranges", `networks: mgmt: ranges: leases: {from: "10.1.0.10", to: "10.1.0.20", use: "dhcp"}`},
	{"roles that wait for each other", "needs-cycle", ""},
	{"a need of a disabled role", "needs-disabled", ""},
	{"a need of an unknown role", "unknown-needed-role", ""},
	{"a phase with a slip", "unknown-phase", ""},
	{"a need of a role without nodes", "needs-quorum", `roles: compute: needs: install: storage: {}
nodes: {"n2": role: "controller", "n3": role: "controller"}`},
	{"an even number that decides", "role-even", ""},
	{"an unknown image", "unknown-image", ""},
	{"an image without digest", "image-digest", `images: other: url: "https://images.example.org/other.iso"`},
	{"an image of another architecture", "image-architecture", ""},
	{"a boot interface without network", "boot-interface", ""},
	{"booting from a network without DHCP", "boot-order", ""},
	{"a selector that means no node", "selector-empty", ""},
	{"a secret in clear text", "clear-secret", ""},
	{"profiles in no order", "profile-order", ""},
	{"a role without phases", "role-without-phases", ""},
	{"a window without its end", "window-shape", `windows: night: from: "22:00"
nodes: "n1": window: "night"`},
	{"a day that does not come", "window-cron", ""},
	{"a window that is always open", "window-length", ""},
	{"one machine for two names, one of which moved", "duplicate-serial", `nodes: "n1": moved: serial: "SN2"`},
	{"a URL of an unknown scheme", "endpoint-scheme", `nodes: "n1": endpoints: manager: url: "ipmi://10.9.0.11"`},
	{"TLS that is not checked", "endpoint-scheme", `nodes: "n1": endpoints: manager: url: "redfish+http://10.9.0.11/redfish/v1/Systems/1"`},

	{"a root that is too small", "root-too-small", ""},
	{"no root", "root-missing", ""},
	{"a boot partition that is too small", "boot-too-small", ""},
	{"hugepages with half of what they need", "kernel-hugepages", ""},
	{"a route without gateway", "missing-field", `networks: mgmt: routes: far: destination: "10.77.0.0/16"`},
	{"a gateway outside its network", "route-gateway", ""},
	{"an unknown network", "unknown-network", ""},
	{"packets that are too small", "mtu-range", ""},
	{"packets larger than the link", "mtu-over-link", ""},
	{"several networks and no trunk", "trunk-needed", ""},
	{"a native network that is not carried", "native-not-allowed", ""},
	{"a tagged network without a number", "vlan-missing", ""},
	{"a VLAN number twice", "duplicate-vlan", ""},
	{"a VLAN number that there is not", "invalid-value", `networks: other: {cidr: "10.66.0.0/24", vlan: 9999}`},
	{"an option of another bonding mode", "bonding-options", ""},
	{"delays that the kernel rounds", "bonding-delays", ""},
	{"a disk with partitions and a volume group", "storage-use", ""},
	{"a volume group of nothing", "group-without-members", ""},
	{"shares over the whole", "sizes-over-whole", ""},
	{"two file systems in one place", "duplicate-mount", ""},
	{"a network on two links", "network-on-several-links", ""},
	{"a network that its link does not carry", "interface-network", ""},
	{"an unknown link", "unknown-link", ""},
	{"a full name that is too long", "fqdn-length", ""},
	{"a label that ends with a hyphen", "node-name", `nodes: "n5-": profiles: ["base", "machine1"]`},
	{"a BMC without URL", "missing-field", `nodes: "n1": endpoints: manager: url: _ @unset()`},
	{"packages without any", "action-empty", ""},
	{"a version that is none", "package-version", ""},

	{"an address outside the declared ranges", "address-outside-ranges", ""},
	{"a network without an address", "network-without-address", ""},
	{"packets that differ by node", "mtu-mismatch", ""},
	{"an address of no interface", "address-unattached", ""},
	{"ranges that overlap", "range-overlap", ""},
	{"a range that is turned round", "range-reversed", ""},
	{"a range outside its network", "range-outside-network", ""},
	{"DHCP without a range", "dhcp-without-range", ""},
	{"a relay of nothing", "dhcp-relay", ""},
	{"a primary network that is none", "primary-network", ""},
	{"an unknown profile", "unknown-profile", ""},
	{"profiles in a circle", "profile-cycle", ""},
	{"an unknown device", "unknown-device", ""},
	{"an unknown rack", "unknown-rack", ""},
	{"a device used twice", "device-used-twice", ""},
	{"a BMC outside the networks", "bmc-outside-networks", ""},
	{"a MAC address of a group", "mac-kind", ""},
	{"a bond's member in another bond", "member-twice", `nodes: "n4": bonds: bond1: {members: ["eno1", "eno2"], link: "uplink"}`},
	{"sizes over the disk", "size-over-disk", ""},
	{"a profile of nobody", "unused-profile", ""},
	{"a network of nobody", "unused-network", ""},
	{"what no node can be asked for", "invalid-value", `policies: on: {why: "x", require: power: "onn"}`},
	{"a field that there is not asked for", "unknown-field", `policies: on: {why: "x", require: powr?: "on"}`},
	{"a bridge of itself", "interface-cycle", ""},
	{"a bond of bonds", "unknown-member", `nodes: "n4": {interfaces: eno3: {}, bonds: bond1: {members: ["bond0", "eno3"], link: "uplink"}}`},
}

func TestSeededMistakes(t *testing.T) {
	rules := map[string]rule.Rule{}
	for _, r := range rule.All() {
		rules[r.Code] = r
	}
	clean := cleanSite(t)
	for _, m := range seeded {
		t.Run(m.mistake, func(t *testing.T) {
			t.Parallel()
			text := m.patch
			if text == "" {
				text = rules[m.code].Wrong
			}
			found := ruleCase{rules[m.code], clean}.findings(patch(text))
			told := slices.ContainsFunc(found, func(f site.Finding) bool { return f.Code == m.code && f.File != "" && f.Line > 0 })
			if text == "" || !told {
				t.Errorf("%s is not told at a place:\n%s\nfound:\n%s", m.code, text, describe(found))
			}
		})
	}
}
