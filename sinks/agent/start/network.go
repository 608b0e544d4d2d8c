package start

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// These are the times of the network.
const (
	portsEvery  = time.Second     // between looks at the ports
	dhcpTimeout = 4 * time.Second // of one request
	dhcpTries   = 3
	shortLease  = time.Minute // the minimum that a lease is assumed to last
)

// network is the machine's ports with their addresses.
type network struct {
	settings Settings
	console  *console
	resolv   string // the file resolv.conf(5)

	uuid string // of the machine, from SMBIOS; empty if there is none

	mu    sync.Mutex
	begun map[string]bool
	ready []string // links with an address
	dns   []string
	told  map[string]Settings // by link, if its network says where the daemon is
}

// run brings up all ports, including those that appear later, and gets addresses for those with a link. It runs
// until the context ends.
func (n *network) run(ctx context.Context) {
	for {
		for _, l := range ports() {
			if l.Flags&net.FlagUp == 0 {
				if err := up(l.Index); err != nil {
					n.console.say("The port %s cannot be switched on: %v.", l.Name, err)
				}
			}
			if n.begins(l) {
				go n.configure(ctx, l)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(portsEvery):
		}
	}
}

// ports are the machine's own network ports.
func ports() []net.Interface {
	all, _ := net.Interfaces()
	return slices.DeleteFunc(all, func(l net.Interface) bool {
		_, err := os.Stat("/sys/class/net/" + l.Name + "/device")
		return err != nil || len(l.HardwareAddr) != 6
	})
}

// begins reports whether to configure a port now: it has a link and is the designed one.
func (n *network) begins(l net.Interface) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	carrier, _ := os.ReadFile("/sys/class/net/" + l.Name + "/carrier")
	isOther := n.settings.MAC != "" && l.HardwareAddr.String() != n.settings.MAC ||
		n.settings.PCI != "" && inside.PCIAddress("/sys/class/net/"+l.Name) != n.settings.PCI
	isSecond := n.settings.Address.IsValid() && len(n.begun) > 0
	if n.begun[l.Name] || strings.TrimSpace(string(carrier)) != "1" || isOther || isSecond {
		return false
	}
	n.begun[l.Name] = true
	return true
}

// links are the links with an address.
func (n *network) links() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.ready)
}

func (n *network) configure(ctx context.Context, l net.Interface) {
	if !n.settings.Address.IsValid() {
		go n.byDHCP(ctx, l, &dhcp6{network: n, link: l}, true)
		n.byDHCP(ctx, l, &dhcp4{network: n, link: l}, false)
		return
	}
	if err := n.set(l, n.settings.Address, n.settings.Gateway, n.settings.DNS); err != nil {
		n.console.say("The port %s cannot have the address %s of the kernel's command line: %v.", l.Name, n.settings.Address, err)
	}
}

// set gives a port its address.
func (n *network) set(l net.Interface, a netip.Prefix, gateway netip.Addr, dns []netip.Addr) error {
	if err := address(l.Index, a); err != nil {
		return err
	}
	if gateway.IsValid() {
		if err := defaultRoute(l.Index, gateway); err != nil {
			return fmt.Errorf("the gateway %s: %w", gateway, err)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, server := range dns {
		if text := server.String(); !slices.Contains(n.dns, text) {
			n.dns = append(n.dns, text)
		}
	}
	if len(n.dns) > 0 {
		if err := os.WriteFile(n.resolv, []byte("nameserver "+strings.Join(n.dns, "\nnameserver ")+"\n"), 0o644); err != nil {
			return err
		}
	}
	if !slices.Contains(n.ready, l.Name) {
		n.ready = append(n.ready, l.Name)
		n.console.say("The port %s (%s) has the address %s.", l.Name, l.HardwareAddr, a)
	}
	return nil
}

// server gives a port addresses of one version of IP.
type server interface {
	// lease requests an address, or renews the last one, and returns for how long it lasts.
	lease(context.Context) (time.Duration, error)
	// ask asks where the daemon is.
	ask(context.Context) error
}

// byDHCP gets an address and renews it until the context ends. quiet says that a network without such a server is
// usual, so that only a server's refusal is shown.
func (n *network) byDHCP(ctx context.Context, l net.Interface, s server, quiet bool) {
	for ctx.Err() == nil {
		lasts, err := s.lease(ctx)
		wait := portsEvery
		var no *noLeaseError
		switch {
		case err == nil:
			wait = max(lasts, shortLease) / 2
		case !quiet || errors.As(err, &no):
			n.console.say("No DHCP server gives the port %s (%s) an address: %v. Trying again.", l.Name, l.HardwareAddr, err)
		}
		for renew, now := time.After(wait), false; !now; {
			if _, known := n.daemon(l.Name); err == nil && !known {
				if err := s.ask(ctx); err != nil {
					n.console.say("No DHCP server in the network of the port %s (%s) says where the daemon is: %v. Asking again.", l.Name, l.HardwareAddr, err)
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-renew:
				now = true
			case <-time.After(between):
			}
		}
	}
}

// dhcp4 is DHCPv4 on a port.
type dhcp4 struct {
	*network
	link net.Interface
	had  *nclient4.Lease
}

func (d *dhcp4) lease(ctx context.Context) (lasts time.Duration, err error) {
	if d.had, err = d.network.lease(ctx, d.link, d.had); err != nil {
		d.had = nil
		return 0, err
	}
	return d.had.ACK.IPAddressLeaseTime(0), nil
}

func (d *dhcp4) ask(ctx context.Context) error {
	return d.network.ask(ctx, d.link, d.had.ACK.YourIPAddr)
}

// lease requests an address, or renews a lease.
func (n *network) lease(ctx context.Context, l net.Interface, had *nclient4.Lease) (*nclient4.Lease, error) {
	client, err := nclient4.New(l.Name, nclient4.WithTimeout(dhcpTimeout), nclient4.WithRetry(dhcpTries))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var lease *nclient4.Lease
	if had != nil {
		lease, err = client.Renew(ctx, had)
	}
	if had == nil || err != nil {
		lease, err = client.Request(ctx, dhcpv4.WithOption(dhcpv4.OptClassIdentifier(class)))
	}
	if err != nil {
		return nil, err
	}
	a, gateway, dns, err := offered(lease.ACK)
	if err != nil {
		return nil, err
	}
	return lease, n.set(l, a, gateway, dns)
}

// offered parses the server's answer.
func offered(ack *dhcpv4.DHCPv4) (a netip.Prefix, gateway netip.Addr, dns []netip.Addr, err error) {
	own, ok := netip.AddrFromSlice(ack.YourIPAddr.To4())
	ones, bits := ack.SubnetMask().Size()
	if !ok || own.IsUnspecified() || bits != 32 || ones == 0 {
		return a, gateway, nil, fmt.Errorf("the server gave the address %v with the mask %v", ack.YourIPAddr, ack.SubnetMask())
	}
	for _, r := range ack.Router() {
		if gateway, ok = netip.AddrFromSlice(r.To4()); ok {
			break
		}
	}
	for _, server := range ack.DNS() {
		if s, ok := netip.AddrFromSlice(server.To4()); ok {
			dns = append(dns, s)
		}
	}
	return netip.PrefixFrom(own, ones), gateway, dns, nil
}
