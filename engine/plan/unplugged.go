package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Unplugged says which designed ports have no link, or another switch at the other end, as the agent in the machine's
// memory sees them. Slipway does not install a system that nobody could reach. It skips ports that the agent does not
// see, since the ramdisk may lack their driver, and ports without a designed MAC address.
func Unplugged(n *site.Node, m site.Memory) (why []string) {
	a := m.Observed.Agent
	if !a.IsConnected() || a.Inventory == nil || m.Recorded.Agent != nil && m.Recorded.Agent.Idle {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(n.Interfaces)) {
		mac := n.MACOf(name)
		if mac == "" || !n.Carries(name) {
			continue
		}
		p, ok := portWith(a.Inventory, mac)
		if !ok {
			continue
		}
		place, wrong := placed(n.Origins.Of("interfaces."+name)), ""
		switch other, designed := plugsElsewhere(p, n.Interfaces[name].Switch), n.Interfaces[name].Switch; {
		case p.Link == "down":
			wrong = "has no link: its cable is unplugged or broken, or the other end is off"
		case other != "":
			wrong = fmt.Sprintf("is plugged into %s, and is designed for switch %s", other, designed)
		default:
			continue
		}
		why = append(why, fmt.Sprintf("%sthe port %s (%s) %s. Nothing was erased. Correct the cabling, or the design of %s", place, name, mac, wrong, name))
	}
	return why
}

// portWith returns the port of a machine with a MAC address.
func portWith(i *site.Inventory, mac string) (site.Port, bool) {
	for _, nic := range i.NICs {
		for _, p := range nic.Ports {
			if slices.ContainsFunc(p.MACs, func(x string) bool { return strings.EqualFold(x, mac) }) {
				return p, true
			}
		}
	}
	return site.Port{}, false
}

// plugsElsewhere returns the port of another switch than the designed one that a port is plugged into; empty if
// unknown, or if no switch is designed.
func plugsElsewhere(p site.Port, designed string) string {
	if designed == "" {
		return ""
	}
	other := ""
	for _, x := range p.Neighbours {
		switch {
		case x.System == "" || sameSwitch(x.System, designed):
			return ""
		case other == "":
			other = fmt.Sprintf("port %s of %s", portOf(x), x.System)
		}
	}
	return other
}
