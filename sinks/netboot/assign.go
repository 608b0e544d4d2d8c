package netboot

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// asker is a client in a network. What it may have is decided here for DHCPv4 and DHCPv6.
type asker struct {
	at *served
	n  *network
	// mac is the client's MAC address. For a client of DHCPv6 whose address is unknown, it begins with byDUID.
	mac  string
	host host
	// designed says that the design has the client in this network.
	designed bool
	now      time.Time
}

// byDUID begins the key of a client without a known MAC address.
const byDUID = "duid:"

// leaseOf is the client's lease of an address.
func (q *asker) leaseOf(a netip.Addr, until time.Time) site.Lease {
	l := site.Lease{Network: q.n.name, Address: a.String(), MAC: q.mac, Node: q.host.node, Expires: until.UTC().Truncate(time.Second)}
	if strings.HasPrefix(q.mac, byDUID) {
		l.MAC, l.Client = "", q.mac
	}
	return l
}

// knows reports whether the server serves a client. A network without a dynamic range only serves designed nodes.
func (q *asker) knows() bool { return q.designed || len(q.n.pool) > 0 }

// offer holds an address for a client for a while: its designed one, or a dynamic one, if possible the one that it
// wants. It is invalid if there is none.
func (r *responder) offer(ctx context.Context, q *asker, want netip.Addr) netip.Addr {
	if !q.knows() {
		return netip.Addr{}
	}
	b := q.at.book
	if q.host.addr.IsValid() {
		if !b.hold(q.host.addr, entry{mac: q.mac, node: q.host.node, until: q.now.Add(offerFor)}, q.now) {
			q.at.trouble("conflict", fmt.Sprintf("%s is not given its address %s: another client has it until its lease ends", q.host.node, q.host.addr), q.now)
			return netip.Addr{}
		}
		return q.host.addr
	}
	if len(q.n.pool) == 0 {
		q.at.trouble("no range", fmt.Sprintf(`%s is designed with "dhcp" and gets no address: the network has no range with use: "dhcp"`, q.host.node), q.now)
		return netip.Addr{}
	}
	for range 4 {
		a, known, err := b.choose(q.n, q.mac, want, q.now)
		if err != nil {
			q.at.trouble("exhausted", fmt.Sprintf("all %d dynamic addresses are in use: widen the range, or wait for leases of %s to end", q.n.pool.size(), leaseFor), q.now)
			return netip.Addr{}
		}
		if !b.hold(a, entry{mac: q.mac, node: q.host.node, until: q.now.Add(offerFor)}, q.now) {
			continue // another client was faster
		}
		if !known && !q.designed && !q.at.newcomers.AllowN(q.now, 1) {
			q.at.book.release(a, q.now)
			return netip.Addr{} // somebody is inventing clients
		}
		if !known && r.inUse(ctx, q.n, a) {
			r.setAside(ctx, q, a, "a host answered when it was probed")
			continue
		}
		q.at.over("exhausted")
		return a
	}
	return netip.Addr{}
}

// takeBack ends what was offered to a client that has chosen another server.
func (q *asker) takeBack() {
	if a, ok := q.at.book.last(q.mac); ok {
		if e := q.at.book.holder(a, q.now); e != nil && !e.leased {
			q.at.book.release(a, q.now)
		}
	}
}

// right reports whether a client may have an address. If the server does not know the client and is not certain, it
// stays silent (RFC 2131, section 4.3.2). offered says that the client begins: it was offered the address by a server
// that it names, or waits for an offer.
func (q *asker) right(want netip.Addr, offered bool) (right, certain bool) {
	b := q.at.book
	if q.host.addr.IsValid() {
		e := b.holder(want, q.now)
		return want == q.host.addr && (e == nil || e.is(q.mac, q.host.node)), true
	}
	if !q.n.prefix.Contains(want) || q.n.closed[want] || q.n.owner[want] != "" {
		return false, true
	}
	if e := b.holder(want, q.now); e != nil {
		return e.is(q.mac, q.host.node), true
	}
	if last, ok := b.last(q.mac); ok {
		return last == want && q.n.pool.has(want), true
	}
	// Nobody has the address here: the records were lost, or another server assigned it.
	return q.n.pool.has(want) && !offered, false
}

// errNewcomers reports that more clients come than a network can have.
var errNewcomers = errors.New("too many new clients ask at once")

// record makes an address the client's, which is recorded when it returns. held is false if another client has the
// address. After an error nothing may be confirmed.
func (r *responder) record(ctx context.Context, q *asker, a netip.Addr) (held bool, err error) {
	if _, known := q.at.book.last(q.mac); !known && !q.designed && !q.at.newcomers.AllowN(q.now, 1) {
		return false, errNewcomers // it says that it had the address before, and may be invented
	}
	until := q.now.Add(leaseFor)
	if !q.at.book.hold(a, entry{mac: q.mac, node: q.host.node, until: until, leased: true}, q.now) {
		return false, nil
	}
	if err := r.records.PutLease(ctx, q.leaseOf(a, until)); err != nil {
		q.at.trouble("records", fmt.Sprintf("leases cannot be recorded, so none are given: %v", err), q.now)
		return true, err
	}
	q.at.over("records")
	r.log.Debug("dhcp lease", "network", q.n.name, "address", a.String(), "client", q.mac, "node", q.host.node)
	return true, nil
}

// declined handles a client's report that somebody else uses its address, and reports whether it was the client's.
func (r *responder) declined(ctx context.Context, q *asker, a netip.Addr) bool {
	if e := q.at.book.holder(a, q.now); e == nil || !e.is(q.mac, q.host.node) {
		return false
	}
	if q.host.addr == a {
		q.at.trouble("declined", fmt.Sprintf("%s declined its designed address %s, because another machine uses it: find that machine and change its address, or %s stays without one", q.host.node, a, q.host.node), q.now)
		q.at.book.release(a, q.now)
		return true
	}
	if q.at.declines.AllowN(q.now, 1) { // so that a client cannot empty the range this way
		r.setAside(ctx, q, a, "a client declined it")
	}
	return true
}

// setAside stops assigning an address for a while.
func (r *responder) setAside(ctx context.Context, q *asker, a netip.Addr, why string) {
	q.at.book.taken(a, q.now)
	r.log.Warn("dhcp address is used by a host without a lease, and is not given for a while", "network", q.n.name, "address", a.String(), "for", declinedFor, "why", why)
	err := r.records.PutLease(ctx, site.Lease{Network: q.n.name, Address: a.String(), Expires: q.now.Add(declinedFor).UTC().Truncate(time.Second)})
	if err != nil {
		r.log.Warn("dhcp address in use could not be recorded, and may be given to a client after a restart", "network", q.n.name, "address", a.String(), "err", err)
	}
}

// released ends the lease of a client, and reports whether it had it.
func (r *responder) released(ctx context.Context, q *asker, a netip.Addr) bool {
	if e := q.at.book.holder(a, q.now); e == nil || !e.leased || !e.is(q.mac, q.host.node) {
		return false
	}
	q.at.book.release(a, q.now)
	if err := r.records.PutLease(ctx, q.leaseOf(a, q.now)); err != nil {
		r.log.Warn("dhcp release could not be recorded, and after a restart the lease lasts until it expires", "network", q.n.name, "address", a.String(), "err", err)
	}
	return true
}
