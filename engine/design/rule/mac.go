package rule

import (
	"fmt"
	"net"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// macFacts returns the MAC addresses of a node: each interface's own or that of
// its device, and those of devices that no interface names.
func macFacts(_ *site.Site, n *site.Node) []Fact {
	var facts []Fact
	used := map[string]bool{}
	for _, name := range keys(n.Virtual.Interfaces) {
		facts = append(facts, fact(n.Virtual.Interfaces[name].MAC, "virtual.interfaces."+name+".mac")...)
	}
	for _, name := range keys(n.Interfaces) {
		i := n.Interfaces[name]
		if i.MAC == n.Virtual.Interfaces[name].MAC && n.IsVirtual() {
			continue
		}
		used[i.MAC] = true
		facts = append(facts, fact(i.MAC, "interfaces."+name+".mac")...)
		if i.MAC == "" && !used[i.Device] {
			facts = append(facts, fact(n.Hardware.Devices[i.Device].MAC, "hardware.devices."+i.Device+".mac")...)
		}
		used[i.Device] = true
	}
	for _, name := range keys(n.Hardware.Devices) {
		if mac := n.Hardware.Devices[name].MAC; !used[name] && !used[mac] {
			facts = append(facts, fact(mac, "hardware.devices."+name+".mac")...)
		}
	}
	return append(facts, fact(n.Machine().MAC, machineAt(n)+".mac")...)
}

// ofOneMachine reports whether a node is identified by the address of one of
// its own interfaces.
func ofOneMachine(first, again Holder) bool {
	known := func(h Holder) bool { return h.Path == "identity.mac" || h.Path == "moved.mac" }
	return first.Node == again.Node && known(first) != known(again)
}

func macKind(_ *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	check := func(path, mac string) {
		if m, err := net.ParseMAC(mac); err == nil && (m[0]&1 == 1 || strings.Trim(mac, "0:") == "") {
			found = append(found, wrong(path, fmt.Sprintf("%s is the address of no single station", mac), "Copy it from the machine, or from what its BMC reports."))
		}
	}
	for _, name := range keys(n.Interfaces) {
		check("interfaces."+name+".mac", n.Interfaces[name].MAC)
	}
	for _, name := range keys(n.Hardware.Devices) {
		check("hardware.devices."+name+".mac", n.Hardware.Devices[name].MAC)
	}
	for _, name := range keys(n.Virtual.Interfaces) {
		check("virtual.interfaces."+name+".mac", n.Virtual.Interfaces[name].MAC)
	}
	check("identity.mac", n.Identity.MAC)
	check("moved.mac", n.Moved.MAC)
	return found
}
