package rule

import (
	"fmt"

	"github.com/slipway-gitops/slipway/engine/site"
)

// aNetworkStart is a site for examples whose agents start over the network. aStarted is a node
// that an agent starts on, without its port.
const (
	aNetworkStart = aRootImage + `networks: mgmt: boot: dhcp: "serve"
`
	aStarted = `nodes: "n1": {image: "root12", generation: 1, boot: mode: "uefi", storage: disks: os: {
	match: kind: "ssd"
	partitions: esp: {size: "512MiB", flag: "efi", filesystem: {type: "vfat", mount: "/boot/efi"}}
	partitions: root: {size: ">20GiB", filesystem: mount: "/"}
}}
`
)

// starting: can Slipway's agent start as the design says?
var starting = []Rule{
	{
		Code: "network-start", Severity: site.SeverityError, Firm: true,
		What:  "A node on which Slipway's agent starts over the network has a port with a MAC address that boots from a network with boot.dhcp, and gets an address there.",
		Why:   "The daemon tells what to boot in such networks alone, and knows the firmware by its MAC address: the machine would be taken out of service, and start from its disk again.",
		Wrong: aNetworkStart + `site: install: {start: "network", trust: "network"}` + "\n" + aStarted + `nodes: "n1": interfaces: eno1: {mac: "52:54:00:12:34:56", networks: ["mgmt"]}`,
		Right: aNetworkStart + `site: install: {start: "network", trust: "network"}` + "\n" + aStarted + `nodes: "n1": interfaces: eno1: {mac: "52:54:00:12:34:56", networks: ["mgmt"], boot: "mgmt"}`,
		Node:  networkStart,
	},
	{
		Code: "network-trust", Severity: site.SeverityError, Firm: true,
		What:  `A node on which Slipway's agent starts over the network is in a site whose install.trust is "network".`,
		Why:   "Over the network nothing proves the daemon to the machine, or the machine to the daemon: whoever owns the segment could be either, and get what the installed system is given.",
		Wrong: aNetworkStart + aStarted + `nodes: "n1": {boot: start: "network", interfaces: eno1: {mac: "52:54:00:12:34:56", networks: ["mgmt"], boot: "mgmt"}}`,
		Right: aNetworkStart + aStarted + `site: install: trust: "network"` + "\n" + `nodes: "n1": {boot: start: "network", interfaces: eno1: {mac: "52:54:00:12:34:56", networks: ["mgmt"], boot: "mgmt"}}`,
		Node: func(s *site.Site, n *site.Node) []site.Finding {
			if !startsOverNetwork(s, n) || s.Install.Allows(site.TrustNetwork) {
				return nil
			}
			return []site.Finding{also(s, "site.install.trust", wrong(startPath(n),
				fmt.Sprintf(`Slipway's agent starts over the network on %s, and the site installs at the trust "bmc"`, n.Name),
				`Write site: install: trust: "network" if you trust everybody in that network, or boot: start: "media".`))}
		},
	},
	{
		Code: "start-without-agent", Severity: site.SeverityNote,
		What:  "A node that says how Slipway's agent is started has an image that the agent installs.",
		Why:   "Other images bring an installer of their own, which comes as boot.installBy says: boot.start changes nothing.",
		Wrong: `nodes: "n1": boot: start: "media"`,
		Right: aRootImage + aStarted + `nodes: "n1": boot: start: "media"`,
		Node: func(s *site.Site, n *site.Node) []site.Finding {
			if i := s.Images[n.Image]; n.Boot.Start == "" || n.IsVirtual() || i == nil || i.ByAgent() || n.Retires() {
				return nil
			}
			return []site.Finding{beside(n, "image", wrong("boot.start", fmt.Sprintf("boot.start is set, and the image %s is not installed by Slipway's agent", n.Image),
				`Remove it, or use an image with kind: "root" or "disk".`))}
		},
	},
}

// startsOverNetwork reports whether the agent starts over the network on a node.
func startsOverNetwork(s *site.Site, n *site.Node) bool {
	return (s.Images[n.Image].ByAgent() && !n.IsVirtual() && n.Generation > 0 || n.Retires()) && s.StartOf(n) == site.StartNetwork
}

// startPath returns the path that causes the start.
func startPath(n *site.Node) string {
	switch {
	case n.Boot.Start != "":
		return "boot.start"
	case n.Retires():
		return "decommission.erase"
	}
	return "image"
}

func networkStart(s *site.Site, n *site.Node) []site.Finding {
	if !startsOverNetwork(s, n) {
		return nil
	}
	at := startPath(n)
	object := func(message, fix string) []site.Finding {
		return []site.Finding{also(s, "site.install.start", wrong(at, message, fix))}
	}
	var boots []string
	for _, name := range keys(n.Interfaces) {
		if boot := n.Interfaces[name].Boot; boot != "" {
			if boots = append(boots, boot); len(boots) == 1 {
				at = "interfaces." + name + ".boot"
			}
		}
	}
	networks, macs := s.NetworkStart(n)
	switch {
	case len(boots) == 0:
		return object(fmt.Sprintf("Slipway's agent starts over the network on %s, and no port of it boots from one", n.Name),
			`Write interfaces: NAME: boot: "NETWORK" for the port that does, or boot: start: "media".`)
	case len(networks) == 0:
		return object(fmt.Sprintf("Slipway's agent starts over the network on %s, and the daemon serves no DHCP in %s", n.Name, and(boots)),
			fmt.Sprintf(`Write networks: %s: boot: dhcp: "serve", or "proxy" beside another DHCP server.`, boots[0]))
	case len(macs) == 0:
		return object(fmt.Sprintf("Slipway's agent starts over the network on %s, and none of its ports on %s has a MAC address", n.Name, and(networks)),
			"Write interfaces: NAME: mac, or a device with one.")
	}
	for _, name := range networks {
		if getsAddress(s, n, name) {
			return nil
		}
	}
	return object(fmt.Sprintf("Slipway's agent starts over the network on %s, which gets no address in %s", n.Name, and(networks)),
		fmt.Sprintf(`Write addresses: %s, or give the network a range with use: "dhcp".`, networks[0]))
}

// getsAddress reports whether a node gets an address in a network.
func getsAddress(s *site.Site, n *site.Node, network string) bool {
	given := n.Addresses[network]
	if s.Networks[network].Boot.DHCP == site.DHCPProxy || given != "" && given != site.AddressDHCP {
		return true
	}
	for _, r := range s.Networks[network].Ranges {
		if r.Use == site.RangeDHCP {
			return true
		}
	}
	return false
}
