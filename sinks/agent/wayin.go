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

// wayIn lists the addresses over which a change of the network can be confirmed: those where the daemon will find
// the system again. An answer from another of the node's networks does not prove that.
type wayIn struct {
	// addresses are those to try, with port. The endpoint's is first.
	addresses []string
	// host is the endpoint's host. means are the addresses that it resolves to.
	host  string
	means []netip.Addr
}

const (
	maxTried      = 8 // addresses at once
	resolveWithin = 5 * time.Second
)

// wayIn returns only the endpoint if its address is designed. Otherwise the endpoint may have moved. Then wayIn
// adds the designed addresses in the same network or, without any, all designed addresses. leadsElsewhere checks
// that the endpoint has really moved.
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
	if len(w.means) == 0 { // unknown whether it was moved
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

// leadsElsewhere reports whether the address is not the endpoint's while the system still has the endpoint's
// address. It uses the report over the other address. An interface outside the design may hold the endpoint's
// address.
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

// resolve returns the addresses of a host; none if it cannot be resolved.
func resolve(ctx context.Context, host string) []netip.Addr {
	ctx, cancel := context.WithTimeout(ctx, resolveWithin)
	defer cancel()
	all, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", host) // an address resolves to itself
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
