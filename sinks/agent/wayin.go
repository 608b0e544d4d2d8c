package agent

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// wayIn is over which addresses a change of the network can be confirmed: those at which
// the daemon finds the system again. That a node answers in another of its networks
// says nothing about that.
type wayIn struct {
	// addresses are those to be tried, with their port; the endpoint's is the first.
	addresses []string
	// host is the endpoint's, and means what it stands for.
	host  string
	means []netip.Addr
}

const (
	maxTried      = 8 // addresses at once
	resolveWithin = 5 * time.Second
)

// wayIn is the endpoint alone as long as its address is designed. Where it is not, it may
// have been moved: then it is the endpoint or a designed address in the same network, and
// without one of these any designed address. leadsElsewhere holds that it was moved.
func (m *machine) wayIn(ctx context.Context, n *site.Node) wayIn {
	host, port, _ := net.SplitHostPort(m.client.Address())
	w := wayIn{addresses: []string{m.client.Address()}, host: host, means: resolve(ctx, host)}
	var all, near []string
	for _, p := range designedAddresses(n) {
		if slices.Contains(w.means, p.Addr()) {
			return w
		}
		if p.Addr().IsLinkLocalUnicast() {
			continue
		}
		address := net.JoinHostPort(p.Addr().String(), port)
		all = append(all, address)
		if slices.ContainsFunc(w.means, p.Contains) {
			near = append(near, address)
		}
	}
	if len(w.means) == 0 { // nobody knows whether it was moved
		return w
	}
	if len(near) > 0 {
		all = near
	}
	slices.Sort(all)
	all = slices.Compact(all)
	w.addresses = append(w.addresses, all[:min(len(all), maxTried-1)]...)
	return w
}

// leadsElsewhere says whether an address is not the endpoint's, and the system has that one
// still, by what it reported over the other: as of an interface that nobody designed.
func (w wayIn) leadsElsewhere(address string, report []byte) bool {
	if address == w.addresses[0] {
		return false
	}
	_, text, _ := strings.Cut(string(report), "--addresses\n")
	for _, has := range parseAddresses(text) {
		for _, h := range has {
			p, err := netip.ParsePrefix(h)
			if err == nil && slices.Contains(w.means, p.Addr()) {
				return true
			}
		}
	}
	return false
}

// resolve gives the addresses that a host stands for; none where nobody knows.
func resolve(ctx context.Context, host string) []netip.Addr {
	ctx, cancel := context.WithTimeout(ctx, resolveWithin)
	defer cancel()
	all, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", host) // an address stands for itself
	for i := range all {
		all[i] = all[i].Unmap().WithZone("")
	}
	return all
}

// designedAddresses are those of the node's interfaces.
func designedAddresses(n *site.Node) (all []netip.Prefix) {
	for _, i := range n.Items(site.FacetNetwork) {
		var l item.Link
		if item.Kind(i.Key) != item.KindLinks || json.Unmarshal(i.Body, &l) != nil {
			continue
		}
		for _, text := range l.Addresses {
			if p, err := netip.ParsePrefix(text); err == nil {
				all = append(all, p)
			}
		}
	}
	return all
}
