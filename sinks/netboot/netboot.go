// Package netboot serves DHCP in networks of the design, and the files that machines boot over the network. The
// design says which networks are served and with which addresses. It sends nothing in a network unless both the
// design and --netboot name it. It supports DHCPv4, DHCPv6 with router advertisements, TFTP and HTTP.
package netboot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Listen is an interface of this host and a network of the design. The interface has an address in the network, or
// a relay forwards requests to one of its addresses.
type Listen struct{ Interface, Network string }

var interfaceName = regexp.MustCompile(`^[^\s/:=,]{1,15}$`)

// ParseListen reads INTERFACE=NETWORK[,…].
func ParseListen(text string) ([]Listen, error) {
	var all []Listen
	for part := range strings.SplitSeq(text, ",") {
		iface, network, ok := strings.Cut(strings.TrimSpace(part), "=")
		switch {
		case !ok || !interfaceName.MatchString(iface) || network == "" || strings.ContainsAny(network, " /="):
			return nil, fmt.Errorf("%q is not INTERFACE=NETWORK, such as eth1=mgmt", part)
		case slices.ContainsFunc(all, func(l Listen) bool { return l.Network == network }):
			return nil, fmt.Errorf("the network %s is named twice: two servers would give its addresses", network)
		}
		all = append(all, Listen{iface, network})
	}
	return all, nil
}

// Leases stores which client has which address, so that a restart does not assign an address to another client.
type Leases interface {
	// Leases returns the recorded leases.
	Leases(context.Context) ([]site.Lease, error)
	// PutLease records a lease. The lease is durable when PutLease returns.
	PutLease(context.Context, site.Lease) error
	// DropLease removes the lease of an address.
	DropLease(context.Context, site.Lease) error
}

// Config configures a Service.
type Config struct {
	Listen []Listen
	// Design returns the design in force. The error says why nothing may be served.
	Design func() (*site.Site, error)
	// Leases is not read before Ready is closed.
	Leases Leases
	Ready  <-chan struct{}
	// Problem receives a network's problem, and nil when it is over.
	Problem func(about string, err error)
	// Changed is called when the text of Status changes.
	Changed func()
	Log     *slog.Logger
	// ProbeEvery is the interval between probes for other servers; a minute if zero.
	ProbeEvery time.Duration
	// NoConflictProbe assigns dynamic addresses without checking whether they are in use, like dnsmasq's --no-ping.
	NoConflictProbe bool
}

// These are the times of the service.
const (
	lookEvery   = 2 * time.Second // between looks at the design and the interfaces
	openEvery   = 15 * time.Second
	probeEvery  = time.Minute
	probeAnswer = 3 * time.Second        // for answers of other servers
	neighbour   = 400 * time.Millisecond // for the answer of a host
	recordLimit = 10 * time.Second
	forgetEvery = time.Hour
)

// These are the bounds on requests.
const (
	maxAtOnce    = 256
	maxClients   = 4096 // clients whose rates are remembered
	perClient    = 5    // requests per second
	burst        = 20
	perInterface = 20000 // requests per second
)

// Service serves DHCP and boot files. It is safe for concurrent use.
type Service struct {
	config Config
	arms   *arms
	faces  []*face
}

// New makes a service. Run starts it.
func New(c Config) *Service {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Problem == nil {
		c.Problem = func(string, error) {}
	}
	if c.Changed == nil {
		c.Changed = func() {}
	}
	if c.ProbeEvery == 0 {
		c.ProbeEvery = probeEvery
	}
	s := &Service{config: c, arms: newArms()}
	for _, l := range c.Listen {
		i := slices.IndexFunc(s.faces, func(f *face) bool { return f.name == l.Interface })
		if i < 0 {
			i = len(s.faces)
			s.faces = append(s.faces, &face{Service: s, name: l.Interface, kick: make(chan struct{}, 1), open: map[bool]opened{}, busy: map[string]bool{}, rates: map[string]*rate.Limiter{},
				all: rate.NewLimiter(perInterface, perInterface), pending: make(chan struct{}, maxAtOnce)})
		}
		s.faces[i].served = append(s.faces[i].served, newServed(l))
	}
	return s
}

// Arm makes a node boot over the network at its next start.
func (s *Service) Arm(b Boot) error {
	switch err := s.arms.arm(b); {
	case errors.Is(err, errArmed):
		return nil
	case err != nil:
		return err
	}
	s.config.Log.Info("armed for network boot", "node", b.Node, "macs", strings.Join(b.MACs, ","))
	return nil
}

// Disarm makes a node boot from its disk again.
func (s *Service) Disarm(node string) {
	if s.arms.disarm(node) {
		s.config.Log.Info("no longer armed for network boot", "node", node)
	}
}

// Odd is the last refusal for a node's boot, because somebody else asked for it; empty for none.
func (s *Service) Odd(node string) string { return s.arms.odd(node) }

// Serving returns this host's address in the first of the networks where machines are told what to boot. The error
// says why there is none.
func (s *Service) Serving(networks []string) (netip.Addr, error) {
	now := time.Now()
	var why []string
	for _, name := range networks {
		err := fmt.Sprintf("--netboot does not name the network %s: start the daemon with --netboot INTERFACE=%s, beside what is there", name, name)
		for _, f := range s.faces {
			for _, one := range f.served {
				if one.name != name {
					continue
				}
				not, n := one.whyNot(now), one.network()
				if not == "" && n != nil {
					return n.server, nil
				}
				err = fmt.Sprintf("the network %s on %s is not served: %s", name, one.iface, not)
			}
		}
		why = append(why, err)
	}
	if len(why) == 0 {
		why = []string{"no port of the machine boots from a network with boot.dhcp"}
	}
	return netip.Addr{}, errors.New(site.Printable(strings.Join(why, "; ")))
}

// Status says how each network is served, in the order of --netboot. It is empty for a nil Service.
func (s *Service) Status() []site.Served {
	if s == nil {
		return nil
	}
	now := time.Now()
	var all []site.Served
	for _, l := range s.config.Listen {
		for _, f := range s.faces {
			for _, one := range f.served {
				if one.iface == l.Interface && one.name == l.Network {
					all = append(all, one.status(s.arms, now))
				}
			}
		}
	}
	return all
}

// Run serves until the context ends.
func (s *Service) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.config.Ready:
	}
	for !s.restore(ctx) {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(openEvery):
		}
	}
	var running sync.WaitGroup
	for _, f := range s.faces {
		running.Go(func() { f.run(ctx) })
		running.Go(func() { f.probe(ctx) })
	}
	running.Go(func() { s.forget(ctx) })
	running.Wait()
	return nil
}

// restore loads the recorded leases. Nothing is assigned before.
func (s *Service) restore(ctx context.Context) bool {
	all, err := s.config.Leases.Leases(ctx)
	if err != nil {
		err = fmt.Errorf("the leases that were given cannot be read: %w", err)
	}
	s.each(func(one *served) {
		if err != nil {
			one.set(nil, err)
			s.config.Problem("dhcp "+one.name, one.problem(time.Now()))
			return
		}
		for _, l := range all {
			if l.Network == one.name {
				one.book.restore(l)
			}
		}
	})
	return err == nil
}

// forget removes leases that expired long ago.
func (s *Service) forget(ctx context.Context) {
	for {
		s.each(func(one *served) {
			for _, a := range one.book.forget(time.Now()) {
				if err := s.config.Leases.DropLease(ctx, site.Lease{Network: one.name, Address: a.String()}); err != nil {
					s.config.Log.Warn("an old dhcp lease could not be forgotten", "network", one.name, "address", a.String(), "err", err)
				}
			}
		})
		select {
		case <-ctx.Done():
			return
		case <-time.After(forgetEvery):
		}
	}
}

// each calls f for every network in --netboot.
func (s *Service) each(f func(*served)) {
	for _, face := range s.faces {
		for _, one := range face.served {
			f(one)
		}
	}
}
