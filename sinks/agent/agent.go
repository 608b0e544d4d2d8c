// Package agent is the driver for installed operating systems, over SSH. One connection with one command reports
// the installation, its boot, what the system is and has, and what is set inside it. A small program, the helper,
// reports the settings. The driver brings the helper to the machine once. The helper also applies the designed
// items of a facet.
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

// Scheme is the URL scheme of this driver's endpoints.
const Scheme = "ssh"

// lookTimeout bounds one look.
var lookTimeout = time.Minute

// surveyTimeout bounds listing the settings of a system, including bringing the helper.
const surveyTimeout = 3 * time.Minute

// byHelper lists the facets that the helper serves.
var byHelper = []site.Facet{site.FacetBase, site.FacetNetwork, site.FacetPackages, site.FacetConfig, site.FacetKernel, site.FacetActions}

// Options configure the driver.
type Options struct {
	// Folder holds the helpers: slipway-helper-linux-amd64 and slipway-helper-linux-arm64. Without a folder, the
	// driver sees only the facet os.
	Folder string
	// ObserveOnly installs the helper on no machine. A look lends it in memory instead.
	ObserveOnly bool
}

// Driver opens installed systems.
type Driver struct {
	helpers     *helpers
	observeOnly bool
}

// New makes a driver.
func New(o Options) *Driver { return &Driver{newHelpers(o.Folder), o.ObserveOnly} }

// Facets lists the facets that the driver sees. It acts on those that the helper serves. Without helpers it sees
// only the os and acts on nothing.
func (d *Driver) Facets() []site.Facet {
	if d.helpers.folder == "" {
		return []site.Facet{site.FacetOS}
	}
	return append([]site.Facet{site.FacetOS, site.FacetProbes, site.FacetLinks}, byHelper...)
}

// Open checks the endpoint, ssh://[USER@]HOST[:PORT]. Every look and every step makes its own connection.
// sshclient.Open documents the credentials.
func (d *Driver) Open(_ context.Context, e site.Endpoint, s secret.Value) (driver.Machine, error) {
	u, err := url.Parse(e.URL)
	if err != nil || u.Scheme != Scheme || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" {
		return nil, refused("the endpoint %q is not of the form ssh://HOST[:PORT]", e.URL)
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
	seenTerm uint64         // highest term that the system has reported
	system   *site.Platform // as last seen; nil before the first look
	// credentials returns the values of credentials. hashes holds the last password hash of each account, by key.
	credentials values
	hashes      map[string]hashed
	host        driver.HostCertificates
	tls         driver.TLSCertificates
	// supply opens artifacts; nil without an artifact store.
	supply func(sha256 string) (io.ReadCloser, int64, error)
	// targets returns the targets that a look at links and a change of the network try; nil for none.
	targets func(n *site.Node) []item.Target
}

// Close does nothing: connections end with each look and each step.
func (m *machine) Close() error { return nil }

// Name implements driver.Namer. The term goes with each write.
func (m *machine) Name(site string, term uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.site != site {
		m.seenTerm = 0
	}
	m.site, m.term = site, term
}

// Outranked implements driver.Namer by the term that the system reported at the last look. The helper also refuses
// an older term itself.
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

// named is a request with who asks, and what Slipway logs in with: the credential, and who
// signed the certificate of this connection. The helper takes none of these away.
func (m *machine) named(r wire.Request, by sshclient.Entry) wire.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.Version, r.Site, r.Term = wire.Version, m.site, m.term
	r.Key, r.Password, r.Authority = m.client.PublicKey(), m.client.ByPassword(), by.Authority
	return r
}

// learn keeps what later steps need from a result.
func (m *machine) learn(r *wire.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seenTerm = max(m.seenTerm, r.Term)
	system := platform(r.System)
	if m.system != nil && system.PCI == nil { // this request did not ask for the hardware
		system.Model, system.PCI = m.system.Model, m.system.PCI
	}
	m.system = system
}

// platform is the system as reported. It lists no individual PCI devices.
func platform(s wire.System) *site.Platform {
	return &site.Platform{
		Family: site.Printable(s.Family), ID: site.Printable(s.ID), Release: site.Printable(s.Release),
		Kernel: site.Printable(s.Kernel), Network: site.Printable(s.Network), Model: line(s.Model), PCI: pciIDs(s.PCI),
	}
}

// items are the designed items of a facet, for the system as seen. Before the first look, the image decides.
func (m *machine) items(n *site.Node, f site.Facet) []item.Item {
	return n.ItemsOn(f, m.seen())
}

// mayItems are the items, plus those of all drivers that the machine may need.
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
