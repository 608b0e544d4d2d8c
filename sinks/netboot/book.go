package netboot

import (
	"cmp"
	"errors"
	"hash/fnv"
	"net/netip"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// These are the times for which addresses are kept for clients.
const (
	leaseFor = time.Hour
	offerFor = time.Minute
	// declinedFor is how long an address is not assigned after it was found in use by a host that did not get it
	// here.
	declinedFor = 10 * time.Minute
	// keptFor is how long an expired lease is remembered, so that its client gets the same address again.
	keptFor = 7 * 24 * time.Hour
)

var errExhausted = errors.New("all dynamic addresses are in use")

// book records who has which address of a network. It does not decide about the designed addresses of nodes.
type book struct {
	mu     sync.Mutex
	byAddr map[netip.Addr]*entry
	byMAC  map[string]netip.Addr // each client's last address
	// fullUntil is the time until which searching for a free address is known to fail.
	fullUntil time.Time
}

// entry is the current or last user of an address.
type entry struct {
	mac, node string // of the asker; empty for an address that was not assigned here
	until     time.Time
	leased    bool // not only offered
	recorded  bool // there is a record of the address, maybe of an earlier user
}

func newBook() *book {
	return &book{byAddr: map[netip.Addr]*entry{}, byMAC: map[string]netip.Addr{}}
}

// restore adds a recorded lease.
func (b *book) restore(l site.Lease) {
	a, err := netip.ParseAddr(l.Address)
	if err != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	mac := cmp.Or(l.MAC, l.Client)
	b.byAddr[a] = &entry{mac: mac, node: l.Node, until: l.Expires, leased: true, recorded: true}
	if mac == "" {
		return
	}
	if before, ok := b.byMAC[mac]; !ok || b.byAddr[before].until.Before(l.Expires) {
		b.byMAC[mac] = a
	}
}

// holder is the current user of an address; nil for none.
func (b *book) holder(a netip.Addr, now time.Time) *entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.holderLocked(a, now)
}

func (b *book) holderLocked(a netip.Addr, now time.Time) *entry {
	if e := b.byAddr[a]; e != nil && now.Before(e.until) {
		held := *e
		return &held
	}
	return nil
}

// last is a client's last address, even if its lease has expired, unless somebody else got it.
func (b *book) last(mac string) (netip.Addr, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lastLocked(mac)
}

func (b *book) lastLocked(mac string) (netip.Addr, bool) {
	a, ok := b.byMAC[mac]
	return a, ok && b.byAddr[a] != nil && b.byAddr[a].mac == mac
}

// choose finds a dynamic address for a client: its last address, the requested one, one that nobody ever had, or
// the one that has been free for longest. known says that the client had the address before.
func (b *book) choose(n *network, mac string, want netip.Addr, now time.Time) (a netip.Addr, known bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	usable := func(a netip.Addr) bool {
		return n.pool.has(a) && !n.closed[a] && n.owner[a] == "" && (b.byAddr[a] == nil || b.byAddr[a].mac == mac || !now.Before(b.byAddr[a].until))
	}
	if a, ok := b.lastLocked(mac); ok && usable(a) {
		return a, b.byAddr[a].leased, nil
	}
	if usable(want) {
		return want, false, nil
	}
	if now.Before(b.fullUntil) {
		return netip.Addr{}, false, errExhausted
	}
	h := fnv.New32a()
	h.Write([]byte(mac))
	size := n.pool.size()
	var oldest netip.Addr
	var soonest time.Time // when the next address becomes free
	for i := range size {
		a := n.pool.at(int((uint64(h.Sum32()) + uint64(i)) % uint64(size)))
		e := b.byAddr[a]
		switch {
		case !usable(a):
			if e != nil && (soonest.IsZero() || e.until.Before(soonest)) {
				soonest = e.until
			}
		case e == nil:
			return a, false, nil
		case !oldest.IsValid() || e.until.Before(b.byAddr[oldest].until):
			oldest = a
		}
	}
	if !oldest.IsValid() {
		b.fullUntil = soonest
		return netip.Addr{}, false, errExhausted
	}
	return oldest, false, nil
}

// hold assigns an address to a client, unless somebody else has it.
func (b *book) hold(a netip.Addr, e entry, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if had := b.holderLocked(a, now); had != nil && !had.is(e.mac, e.node) {
		return false
	} else if had != nil && had.leased && !e.leased {
		return true // an offer of the client's current address
	}
	b.putLocked(a, e)
	return true
}

// putLocked replaces the entry of an address.
func (b *book) putLocked(a netip.Addr, e entry) {
	e.recorded = e.leased
	if old := b.byAddr[a]; old != nil {
		e.recorded = e.recorded || old.recorded
		if b.byMAC[old.mac] == a {
			delete(b.byMAC, old.mac)
		}
	}
	b.byAddr[a] = &e
	if e.mac != "" {
		b.byMAC[e.mac] = a
	}
}

// is reports whether an entry belongs to a client: it has the client's MAC address or node.
func (e *entry) is(mac, node string) bool {
	return e.mac == mac && mac != "" || e.node == node && node != ""
}

// release ends the use of an address.
func (b *book) release(a netip.Addr, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.byAddr[a]; e != nil {
		e.until = now
	}
	b.fullUntil = time.Time{}
}

// taken sets an address aside because a host that did not get it here uses it.
func (b *book) taken(a netip.Addr, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.putLocked(a, entry{until: now.Add(declinedFor), leased: true})
	b.fullUntil = time.Time{} // it becomes free before the lease that it had
}

// forget removes entries that expired long ago, and returns the recorded ones.
func (b *book) forget(now time.Time) (gone []netip.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for a, e := range b.byAddr {
		keep := keptFor
		if e.mac == "" || !e.leased {
			keep = 0
		}
		if now.Before(e.until.Add(keep)) {
			continue
		}
		if e.recorded {
			gone = append(gone, a)
		}
		delete(b.byAddr, a)
		if b.byMAC[e.mac] == a {
			delete(b.byMAC, e.mac)
		}
	}
	return gone
}

// count returns how many clients have an address, and how many dynamic addresses are free.
func (b *book) count(n *network, now time.Time) (leases, free int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	free = n.pool.size()
	for a := range n.closed {
		if n.pool.has(a) {
			free--
		}
	}
	for a := range n.owner {
		if n.pool.has(a) && !n.closed[a] {
			free--
		}
	}
	for a, e := range b.byAddr {
		if !now.Before(e.until) || !n.prefix.Contains(a) {
			continue
		}
		if e.leased && e.mac != "" {
			leases++
		}
		if n.pool.has(a) && !n.closed[a] && n.owner[a] == "" {
			free--
		}
	}
	return leases, max(free, 0)
}
