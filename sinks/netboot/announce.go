package netboot

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/mdlayher/ndp"
	"golang.org/x/net/ipv6"
	"golang.org/x/time/rate"
)

// These are the times of router advertisements (RFC 4861, sections 6.2.1, 6.2.4 and 10).
const (
	announceEvery  = 200 * time.Second
	announceFirst  = 16 * time.Second // between the first ones
	announceFirsts = 3
	routerFor      = 30 * time.Minute
	prefixFor      = 24 * time.Hour
	namesFor       = 30 * time.Minute
)

// advertisement is what the daemon announces in a network: its prefix, and that DHCPv6 gives addresses and settings.
// The daemon is a default router only if the design says that the network's gateway is this host.
func advertisement(n *network, mac net.HardwareAddr) *ndp.RouterAdvertisement {
	ra := &ndp.RouterAdvertisement{CurrentHopLimit: 64, ManagedConfiguration: true, OtherConfiguration: true, Options: []ndp.Option{
		&ndp.LinkLayerAddress{Direction: ndp.Source, Addr: mac},
		&ndp.PrefixInformation{PrefixLength: uint8(n.prefix.Bits()), Prefix: n.prefix.Addr(), OnLink: true,
			AutonomousAddressConfiguration: n.autonomous, ValidLifetime: prefixFor, PreferredLifetime: prefixFor},
	}}
	if n.gateway.IsValid() && slices.Contains(n.own, n.gateway) {
		ra.RouterLifetime = routerFor
	}
	if n.mtu >= 1280 { // RFC 8200, section 5
		ra.Options = append(ra.Options, ndp.NewMTU(uint32(n.mtu)))
	}
	if len(n.dns) > 0 {
		ra.Options = append(ra.Options, &ndp.RecursiveDNSServer{Lifetime: namesFor, Servers: n.dns})
	}
	if n.domain != "" {
		ra.Options = append(ra.Options, &ndp.DNSSearchList{Lifetime: namesFor, DomainNames: []string{n.domain}})
	}
	return ra
}

// farewell says that this host is no router any more (RFC 4861, section 6.2.5). What was said of the prefix lasts,
// so that a restart of the daemon takes no addresses away.
func farewell(mac net.HardwareAddr) *ndp.RouterAdvertisement {
	return &ndp.RouterAdvertisement{CurrentHopLimit: 64, Options: []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Source, Addr: mac}}}
}

// announcer sends router advertisements on an interface.
type announcer struct {
	conn *ndp.Conn
	mac  net.HardwareAddr
}

// openAnnouncer opens the socket for router advertisements.
func openAnnouncer(iface *net.Interface) (*announcer, error) {
	conn, _, err := ndp.Listen(iface, ndp.LinkLocal)
	if err != nil {
		return nil, missing("a socket for router advertisements on "+iface.Name, err)
	}
	var filter ipv6.ICMPFilter
	filter.SetAll(true)
	filter.Accept(ipv6.ICMPTypeRouterSolicitation)
	err = errors.Join(conn.SetICMPFilter(&filter), conn.SetControlMessage(ipv6.FlagHopLimit, true), conn.JoinGroup(allRouters))
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("hear questions for routers on %s: %w", iface.Name, err)
	}
	return &announcer{conn, iface.HardwareAddr}, nil
}

// announced is the network of an interface whose prefix is announced now; nil for none.
func (f *face) announced(now time.Time) *network {
	for _, one := range f.served {
		if n := one.network(); n != nil && n.isAnnounced() && one.whyNot(now) == "" {
			return n
		}
	}
	return nil
}

// run announces while the design says so, and says goodbye when that or the context ends.
func (a *announcer) run(ctx context.Context, f *face) {
	asked := make(chan netip.Addr)
	var listening sync.WaitGroup
	listening.Go(func() { a.listen(ctx, asked) })
	var said *network
	var next time.Time
	count := 0
	send := func(ra *ndp.RouterAdvertisement, to netip.Addr) {
		if err := a.conn.WriteTo(ra, nil, to); err != nil {
			f.config.Log.Debug("router advertisement not sent", "interface", f.name, "err", err)
		}
	}
	goodbye := func() {
		if said != nil {
			send(farewell(a.mac), allNodes)
			f.config.Log.Info("router advertisements end", "network", said.name, "interface", f.name)
		}
		said = nil
	}
	defer func() {
		goodbye()
		a.conn.Close()
		listening.Wait()
	}()
	for {
		now := time.Now()
		switch n := f.announced(now); {
		case n == nil:
			goodbye()
		case n != said || !now.Before(next):
			if said == nil {
				f.config.Log.Info("router advertisements begin", "network", n.name, "interface", f.name)
			}
			if n != said {
				said, count = n, 0
			}
			send(advertisement(n, a.mac), allNodes)
			count++
			next = now.Add(announceEvery*3/4 + rand.N(announceEvery/4))
			if count < announceFirsts {
				next = now.Add(announceFirst)
			}
		}
		select {
		case <-ctx.Done():
			return
		case to := <-asked:
			if n := f.announced(time.Now()); n != nil && n == said {
				send(advertisement(n, a.mac), to)
			}
		case <-time.After(lookEvery):
		}
	}
}

// listen passes on who asks for routers, up to a rate.
func (a *announcer) listen(ctx context.Context, asked chan<- netip.Addr) {
	limit := rate.NewLimiter(10, 20)
	for {
		_, cm, from, err := a.conn.ReadFrom()
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			continue // not a message
		}
		if cm == nil || cm.HopLimit != 255 || !limit.Allow() { // RFC 4861, section 6.1.1
			continue
		}
		if from.IsUnspecified() {
			from = allNodes
		}
		select {
		case <-ctx.Done():
			return
		case asked <- from:
		}
	}
}
