// Package agent is the driver for installed operating systems, over SSH. One
// connection with one command tells which installation runs, since which boot, what
// it is and what it has, and what is set inside it. The last is told by a small
// program, the helper, that the driver brings to the machine once; it also makes the
// items of a facet as they are designed.
package agent

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/sshclient"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// Scheme is what endpoint URLs of this driver begin with.
const Scheme = "ssh"

// lookTimeout bounds one look.
var lookTimeout = time.Minute

// surveyTimeout bounds listing what is set in a system, with bringing the helper.
const surveyTimeout = 3 * time.Minute

// byHelper are the facets that the helper serves.
var byHelper = []site.Facet{site.FacetBase, site.FacetNetwork, site.FacetPackages, site.FacetConfig, site.FacetKernel, site.FacetActions}

// Options say what the driver works with.
type Options struct {
	// Folder has the helpers: slipway-helper-linux-amd64 and slipway-helper-linux-arm64.
	// Without one only the facet os is seen.
	Folder string
	// ObserveOnly brings the helper to no machine for a look: inside a system where it
	// is not yet, nothing is seen.
	ObserveOnly bool
}

// Driver opens installed systems.
type Driver struct {
	helpers     *helpers
	observeOnly bool
}

// New makes a driver.
func New(o Options) *Driver { return &Driver{newHelpers(o.Folder), o.ObserveOnly} }

// Facets lists what the driver sees and, but for the os, acts on. Without helpers it
// acts on nothing.
func (d *Driver) Facets() []site.Facet {
	if d.helpers.folder == "" {
		return []site.Facet{site.FacetOS}
	}
	return append([]site.Facet{site.FacetOS, site.FacetProbes, site.FacetLinks}, byHelper...)
}

// Open checks the endpoint, ssh://[USER@]HOST[:PORT]; every look and every step makes
// its own connection. What a credential may be is told in sshclient.Open.
func (d *Driver) Open(_ context.Context, e site.Endpoint, s secret.Value) (driver.Machine, error) {
	u, err := url.Parse(e.URL)
	if err != nil || u.Scheme != Scheme || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" {
		return nil, refused("the endpoint %q is not of the form ssh://[USER@]HOST[:PORT]", e.URL)
	}
	client, err := sshclient.Open(e, s)
	if err != nil {
		return nil, err
	}
	return &machine{client: client, helpers: d.helpers, observeOnly: d.observeOnly}, nil
}

// machine is a handle on one installed system.
type machine struct {
	client      *sshclient.Client
	helpers     *helpers
	observeOnly bool

	mu       sync.Mutex
	site     string
	term     uint64
	seenTerm uint64         // the highest that the system has told of
	system   *site.Platform // what the system was seen to be, nil before
	// credentials gives the values of credentials; hashes are the last hash of the
	// password of each account, by key.
	credentials values
	hashes      map[string]hashed
	// supply opens artifacts; nil where there are none.
	supply func(sha256 string) (io.ReadCloser, int64, error)
	// targets gives what a look at links and a change of the network try; nil for nothing.
	targets func(n *site.Node) []item.Target
}

// Close has nothing to end: connections end with each look and each step.
func (m *machine) Close() error { return nil }

// Name implements driver.Namer: the term goes with each write.
func (m *machine) Name(site string, term uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.site != site {
		m.seenTerm = 0
	}
	m.site, m.term = site, term
}

// Outranked implements driver.Namer by what the system told at the last look. It
// refuses an older term by itself too.
func (m *machine) Outranked(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seenTerm > m.term {
		return &driver.LaterTermError{Term: m.seenTerm, Host: m.client.Address()}
	}
	return nil
}

// Certify implements driver.Certified.
func (m *machine) Certify(by driver.Certificates) { m.client.Certify(by) }

// named is a request with who asks, and how the connection logged in that it is for: what
// that took is not taken away.
func (m *machine) named(r wire.Request, by sshclient.Entry) wire.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.Version, r.Site, r.Term = wire.Version, m.site, m.term
	r.Key, r.Password, r.Authority = "", false, by.Authority
	switch by.By {
	case site.ByKey:
		r.Key = m.client.PublicKey()
	case site.ByPassword:
		r.Password = true
	}
	return r
}

// learn keeps what a step needs of an answer.
func (m *machine) learn(r *wire.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seenTerm = max(m.seenTerm, r.Term)
	system := platform(r.System)
	if m.system != nil && system.PCI == nil { // it was not asked for
		system.Model, system.PCI = m.system.Model, m.system.PCI
	}
	m.system = system
}

// platform is what a system was seen to be. Of its PCI devices none is told of by itself.
func platform(s wire.System) *site.Platform {
	return &site.Platform{
		Family: site.Printable(s.Family), ID: site.Printable(s.ID), Release: site.Printable(s.Release),
		Kernel: site.Printable(s.Kernel), Network: site.Printable(s.Network), Model: line(s.Model), PCI: pciIDs(s.PCI),
	}
}

// items are what the design asks of a facet, by what the system was seen to be, or by
// the image as long as that was not seen.
func (m *machine) items(n *site.Node, f site.Facet) []item.Item {
	return n.ItemsOn(f, m.seen())
}

// mayItems are those with what all drivers bring that may be for the machine.
func (m *machine) mayItems(n *site.Node, f site.Facet) []item.Item {
	return n.MayItems(f, m.seen())
}

func (m *machine) seen() *site.Platform {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.system
}

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{driver.ErrRefused}, args...)...)
}
