package netboot

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/slipway-gitops/slipway/engine/site"
)

// served is a network on an interface, and the state of its service.
type served struct {
	iface, name string
	book        *book
	declines    *rate.Limiter
	newcomers   *rate.Limiter

	mu  sync.Mutex
	net *network // nil while the design or the interface prevents serving
	// why says why nothing is sent; empty while clients are answered.
	why string
	// checked says that no other server answered the last probes.
	checked bool
	// others are the other DHCP servers that were heard, by address or name, and when last.
	others map[string]time.Time
	// troubles are what people should know, by topic.
	troubles map[string]trouble
}

type trouble struct {
	text string
	last time.Time
}

const (
	// troubledFor is how long a trouble is reported after it was last seen.
	troubledFor = 10 * time.Minute
	// foreignFor is how long a network is left to another server after that server was last heard.
	foreignFor = 5 * time.Minute
)

func newServed(l Listen) *served {
	return &served{iface: l.Interface, name: l.Network, book: newBook(), why: "starting",
		declines: rate.NewLimiter(rate.Every(10*time.Second), 6), newcomers: rate.NewLimiter(50, 200),
		others: map[string]time.Time{}, troubles: map[string]trouble{}}
}

func (s *served) network() *network {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.net
}

// set applies the current design, or the reason why the network is not served.
func (s *served) set(n *network, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.net == nil || n == nil || s.net.mode != n.mode || s.net.server != n.server {
		s.checked, s.others = false, map[string]time.Time{}
	}
	s.net, s.why = n, ""
	if why != nil {
		s.net, s.why = nil, why.Error()
	}
}

// probes reports whether to probe for other servers: this host is in the network itself and should be its only
// server.
func (n *network) probes() bool { return n.mode == site.DHCPServe && !n.relay.IsValid() }

// whyNot says why nothing is sent; empty while clients are answered.
func (s *served) whyNot(now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.net == nil || s.why != "" {
		return cmp.Or(s.why, "starting")
	}
	if s.net.mode == site.DHCPProxy {
		return ""
	}
	var heard []string
	for _, other := range slices.Sorted(maps.Keys(s.others)) {
		if now.Sub(s.others[other]) < foreignFor {
			heard = append(heard, other)
		}
	}
	instead := `write boot: dhcp: "proxy"`
	if s.net.is6() {
		instead = "remove boot.dhcp"
	}
	switch {
	case len(heard) > 0:
		return fmt.Sprintf("another DHCP server answers in the network: %s. Two servers give one address to two machines. Stop the other server, or %s (slipway tries again %s after it was last heard)",
			strings.Join(heard, ", "), instead, foreignFor)
	case s.net.probes() && !s.checked:
		return "looking for another DHCP server first"
	}
	return ""
}

// foreign records that another DHCP server was heard. In mode proxy another server is expected.
func (s *served) foreign(server netip.Addr, now time.Time) (first bool) {
	n := s.network()
	return n != nil && !slices.Contains(n.own, server) && s.foreignNamed(server.String(), now)
}

// foreignNamed is foreign for a server that has a name, not an address.
func (s *served) foreignNamed(server string, now time.Time) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.net == nil || s.net.mode != site.DHCPServe {
		return false
	}
	last, known := s.others[server]
	for a, at := range s.others {
		if now.Sub(at) >= foreignFor {
			delete(s.others, a)
		}
	}
	if len(s.others) < 16 || known {
		s.others[server] = now
	}
	return !known || now.Sub(last) >= foreignFor
}

// probed records that probes were sent for the networks, and that the time for answers is over.
func (s *served) probed(asked []*network) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.net != nil && slices.ContainsFunc(asked, func(n *network) bool { return n.name == s.name && n.mode == s.net.mode && n.server == s.net.server }) {
		s.checked = true
	}
}

// unchecked reports whether probes must be sent before the network is served.
func (s *served) unchecked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.net != nil && s.net.probes() && !s.checked
}

// trouble records what people should know, until it is over or was not seen for a while.
func (s *served) trouble(about, text string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.troubles[about] = trouble{text, now}
}

func (s *served) over(about string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.troubles, about)
}

// problem is what is wrong with serving the network; nil for nothing.
func (s *served) problem(now time.Time) error {
	why := s.whyNot(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	if why != "" && !(s.net != nil && s.why == "" && !s.checked && len(s.others) == 0) {
		all = append(all, "DHCP is not served: "+why)
	}
	for _, about := range slices.Sorted(maps.Keys(s.troubles)) {
		if now.Sub(s.troubles[about].last) < troubledFor {
			all = append(all, s.troubles[about].text)
		} else {
			delete(s.troubles, about)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return errors.New(site.Printable(fmt.Sprintf("network %s on %s: %s", s.name, s.iface, strings.Join(all, "; "))))
}

// status says how the network is served.
func (s *served) status(a *arms, now time.Time) site.Served {
	st := site.Served{Network: s.name, Interface: s.iface, Why: site.Printable(s.whyNot(now))}
	n := s.network()
	if n == nil {
		return st
	}
	st.Mode, st.Range, st.Announces = n.mode, n.pool.size(), n.isAnnounced() && st.Why == ""
	st.Leases, st.Free = s.book.count(n, now)
	for node, macs := range a.nodes(now) {
		if slices.ContainsFunc(macs, func(mac string) bool { return n.hosts[mac].node == node }) {
			st.Armed = append(st.Armed, node)
		}
	}
	slices.Sort(st.Armed)
	return st
}
