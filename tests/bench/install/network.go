package main

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/slipway-gitops/slipway/engine/site"
)

// lan is the network of the machines, and the name of the interface in it on both sides. The
// server is in it itself. It reaches the machines by one address, as if a router were between:
// the kernel's table of neighbours has a bound of its own that would be measured too.
const (
	lan         = "lan0"
	serverSide  = "ip link set lo up; ip addr add 10.99.0.1/16 dev lan0; ip link set lan0 up; ip route add 10.99.128.0/17 via 10.99.0.2"
	machineSide = "ip link set lo up; ip addr add 10.99.0.2/16 dev lan0; ip link set lan0 up; ip route add local 10.99.128.0/17 dev lo"
	prefix      = "10.99.0.0/16"
)

// machine is a simulated machine as the design has it.
type machine struct {
	name    string
	mac     net.HardwareAddr
	address netip.Addr
}

func machineOf(i int) machine {
	return machine{fmt.Sprintf("n%05d", i), net.HardwareAddr{2, 0x53, 0, 0, byte(i >> 8), byte(i)}, netip.AddrFrom4([4]byte{10, 99, byte(128 + i/250), byte(1 + i%250)})}
}

// designOf is a design with some machines in the network.
func designOf(count int) *site.Site {
	s := &site.Site{
		Networks: map[string]*site.Network{"lan": {CIDR: prefix, Boot: site.NetworkBoot{DHCP: site.DHCPServe}}},
		Nodes:    map[string]*site.Node{},
	}
	for i := range count {
		m := machineOf(i)
		s.Nodes[m.name] = &site.Node{
			Name: m.name, Addresses: map[string]string{"lan": m.address.String()},
			Interfaces: map[string]site.Interface{"eno1": {MAC: m.mac.String(), Boot: "lan"}},
		}
	}
	return s
}

// beginPair starts a server, and machines that wait to be told to go, each in a network
// namespace of its own with a cable between them.
func beginPair(server, machines []string) (s, m *process, err error) {
	if s, err = beginApart(serverSide, server); err != nil {
		return nil, nil, err
	}
	if m, err = beginApart(machineSide, machines); err != nil {
		s.end()
		return nil, nil, err
	}
	err = run("ip", "link", "add", "name", lan, "netns", strconv.Itoa(s.pid()), "type", "veth", "peer", "name", lan, "netns", strconv.Itoa(m.pid()))
	if err == nil {
		err = s.proceed()
	}
	if err != nil {
		s.end()
		m.end()
		return nil, nil, err
	}
	return s, m, nil
}
