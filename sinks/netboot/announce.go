package netboot

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/mdlayher/ndp"
	"golang.org/x/time/rate"
)

// These are the times of router advertisements (RFC 4861, sections 6.2.1, 6.2.4 and 10).
const (
	announceEvery  = 200 * time.Second
	announceFirst  = 16 * time.Second // between the first ones
	announceFirsts = 3
	announceLeast  = 3 * time.Second // between two to everybody
	routerFor      = 30 * time.Minute
	prefixFor      = 24 * time.Hour
	namesFor       = 30 * time.Minute
)

// advertisement is what the daemon announces in a network: its prefix, and that DHCPv6 gives addresses and settings.
// This host is a default router only if the design says that it is the network's gateway, and it forwards packets (RFC
// 4861, section 6.2.5).
func advertisement(n *network, mac net.HardwareAddr, forwards bool) *ndp.RouterAdvertisement {
	ra := &ndp.RouterAdvertisement{CurrentHopLimit: 64, ManagedConfiguration: true, OtherConfiguration: true, Options: []ndp.Option{
		&ndp.LinkLayerAddress{Direction: ndp.Source, Addr: mac},
		&ndp.PrefixInformation{PrefixLength: uint8(n.prefix.Bits()), Prefix: n.prefix.Addr(), OnLink: true,
			AutonomousAddressConfiguration: n.autonomous, ValidLifetime: prefixFor, PreferredLifetime: prefixFor},
	}}
	if n.isGateway() && forwards {
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

// isGateway reports whether this host is the network's gateway.
func (n *network) isGateway() bool { return n.gateway.IsValid() && slices.Contains(n.own, n.gateway) }

// farewell says that this host is no router any more (RFC 4861, section 6.2.5). What was said of the prefix lasts, and
// DHCPv6 is named as before: some hosts give up its addresses when a router names it no more. So a restart of the
// daemon takes no addresses away.
func farewell(mac net.HardwareAddr) *ndp.RouterAdvertisement {
	return &ndp.RouterAdvertisement{CurrentHopLimit: 64, ManagedConfiguration: true, OtherConfiguration: true, Options: []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Source, Addr: mac}}}
}

// asks is a host that asks for routers.
type asks struct {
	mac net.HardwareAddr
	at  netip.Addr
}

// everybody is who hears announcements that nobody asked for.
var everybody = asks{groupMAC(allNodes), allNodes}

// announced is the network of an interface whose prefix is announced now; nil for none. People are told why a gateway
// is not announced as one.
func (f *face) announced(now time.Time, forwards bool) *network {
	for _, one := range f.served {
		n := one.network()
		if n == nil || !n.isAnnounced() || one.whyNot(now) != "" {
			continue
		}
		if n.isGateway() && !forwards {
			one.trouble("forwarding", fmt.Sprintf("the gateway %s is this host, which forwards no packets of IPv6, so it is not announced as default router: let it forward (sysctl -w net.ipv6.conf.all.forwarding=1, and first accept_ra=2 on the interface on which it hears its own router, or it loses that default route), or correct the network's gateway", n.gateway), now)
		} else {
			one.over("forwarding")
		}
		return n
	}
	return nil
}

// announce announces while the design says so, and says goodbye when that or the context ends. It answers who asks, up
// to a rate. Who asks without an address hears the next announcement, which then comes soon.
func (f *face) announce(ctx context.Context, p *port, asked <-chan asks) {
	var said *network
	var last, next time.Time // of those to everybody
	var routes bool          // what was said of it
	count := 0
	send := func(ra *ndp.RouterAdvertisement, to asks) {
		b, err := ndp.MarshalMessageChecksum(ra, p.local, to.at)
		if err == nil {
			// Over the raw socket, this host does not hear it.
			err = p.write(frame6(to.mac, p.iface.HardwareAddr, p.local, to.at, protocolICMPv6, 255, b))
		}
		if err != nil {
			f.config.Log.Warn("router advertisement not sent", "interface", f.name, "err", err)
		}
	}
	goodbye := func() {
		if said != nil {
			send(farewell(p.iface.HardwareAddr), everybody)
			f.config.Log.Info("router advertisements end", "network", said.name, "interface", f.name)
		}
		said = nil
	}
	defer goodbye()
	limit := rate.NewLimiter(10, 20)
	for {
		now, forwards := time.Now(), p.forwards()
		switch n := f.announced(now, forwards); {
		case n == nil:
			goodbye()
		case n != said || routes != forwards || !now.Before(next):
			if said == nil {
				f.config.Log.Info("router advertisements begin", "network", n.name, "interface", f.name)
			}
			if n != said || routes != forwards {
				said, routes, count = n, forwards, 0
			}
			send(advertisement(n, p.iface.HardwareAddr, routes), everybody)
			count++
			last, next = now, now.Add(announceEvery*3/4+rand.N(announceEvery/4))
			if count < announceFirsts {
				next = now.Add(announceFirst)
			}
		}
		look := time.After(lookEvery)
		for waits := true; waits; {
			select {
			case <-ctx.Done():
				return
			case who := <-asked:
				if who.at == everybody.at {
					next = last.Add(announceLeast)
				} else if n := f.announced(time.Now(), routes); n != nil && n == said && limit.Allow() {
					send(advertisement(n, p.iface.HardwareAddr, routes), who)
				}
			case <-look:
				waits = false
			}
		}
	}
}
