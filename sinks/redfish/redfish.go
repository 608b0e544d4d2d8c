// Package redfish is the driver for management controllers that speak Redfish
// (DMTF DSP0266) over HTTPS: power, boot order, installation by virtual media,
// health and inventory of one ComputerSystem.
//
// It is careful by default: certificates are always verified, an accepted
// request proves nothing until the effect is read back, and a write goes only
// over the session or connection on which the machine's identity was read.
package redfish

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Scheme is what endpoint URLs of this driver begin with, up to "+".
const Scheme = "redfish"

// Options are the driver's patience. The zero value is right for real
// machines; tests shorten it.
type Options struct {
	// Grace is how long an operating system may take to shut down before the
	// power is cut: 180 s.
	Grace time.Duration
	// Settle is how long an accepted request may take to show its effect:
	// 10 min.
	Settle time.Duration
	// Poll is the pause between two looks at a machine that is to change, 1 s.
	Poll time.Duration
	// Answer is how long a write that was sent is given to be answered when
	// the context ends meanwhile: 15 s.
	Answer time.Duration
}

// Driver opens BMCs.
type Driver struct {
	opts    Options
	pools   pools
	clients clients
	// registries of settings, by kind of machine
	registries registries
}

// New makes a driver.
func New(o Options) *Driver {
	return &Driver{opts: Options{
		Grace:  orDefault(o.Grace, 180*time.Second),
		Settle: orDefault(o.Settle, 10*time.Minute),
		Poll:   orDefault(o.Poll, time.Second),
		Answer: orDefault(o.Answer, driver.LongestWrite),
	}}
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

// Facets lists what a BMC serves.
func (d *Driver) Facets() []site.Facet {
	return []site.Facet{site.FacetPower, site.FacetBoot, site.FacetImage, site.FacetHealth, site.FacetInventory, site.FacetSensors, site.FacetLog, site.FacetBIOS, site.FacetAccounts}
}

// Open checks the endpoint and connects at the first use. The endpoint's path
// names the ComputerSystem; without one the BMC must have a single system.
func (d *Driver) Open(_ context.Context, e site.Endpoint, s secret.Value) (driver.Machine, error) {
	u, err := parse(e.URL)
	if err != nil {
		return nil, err
	}
	if _, err := s.Password(); err != nil {
		return nil, fmt.Errorf("%w: the credential for %s: %w", driver.ErrDenied, u.Host, err)
	}
	m := &machine{opts: d.opts, registries: &d.registries, client: &line{}, unbound: e.Unbound == site.UnboundAccept}
	m.client.client, m.leave, err = d.clients.join(u, e.Trust, s, func(l lanes) (*client, error) {
		c := newClient(u, s, d.opts, l)
		t, err := d.pools.config(e.Trust, u, &c.shown)
		c.wire.next = newTransport(t)
		return c, err
	})
	if err != nil {
		return nil, err
	}
	if p := strings.TrimRight(u.EscapedPath(), "/"); p != "" && p != "/redfish" && p != "/redfish/v1" {
		m.path = p
	}
	return m, nil
}

// parse reads an endpoint's URL and returns what is to be dialled.
func parse(endpoint string) (*url.URL, error) {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil:
		return nil, refused("the endpoint %q is not a URL", endpoint)
	case u.User != nil:
		return nil, refused("the endpoint of %s holds a user name or password, which do not belong in Git; name a credential instead", u.Host)
	case u.Scheme == Scheme+"+http":
		return nil, refused("the endpoint %s has no TLS, and anybody on its network could read the password and switch the machine; use %s+https", endpoint, Scheme)
	case u.Scheme != Scheme+"+https" || u.Hostname() == "":
		return nil, refused("the endpoint %s is not of the form %s+https://HOST/redfish/v1/Systems/ID", endpoint, Scheme)
	}
	u.Scheme = "https"
	return u, nil
}

// machine is an open handle. Little is kept between two looks: thousands are
// open at once.
type machine struct {
	opts   Options
	client *line
	leave  func() error
	// unbound says whether the design accepts that nothing binds a write.
	unbound bool
	path    string // of the ComputerSystem; empty until it is looked up
	found   bool   // the path is not from the endpoint, but was found for sought
	lost    bool   // there was nothing at it any more
	sought  site.Identity
	slot    string // of the virtual media slot; empty until it is looked up
	boot    bootOptions
	resets  []schemas.ResetType // from the ActionInfo, once it was read
	habits  habits
	// noBootSettings is set when the system's settings object, if it has one,
	// turned out to hold no boot settings.
	noBootSettings bool
	last           glance
	// tagsStay is set when an ETag stayed as it was and its resource did not.
	tagsStay bool
	memory   biosMemory
	// alone is the login over which the BMC was seen to have no other machine.
	alone *login
	// known are resources that an inspection has just read, while it goes on.
	known map[string]object
	// lent gives the values of credentials for accounts of the BMC; nil where there are none.
	lent func(name string, use secret.Use) (secret.Value, error)
	// registries are shared with the driver's other machines.
	registries *registries
	// Where sensors and the log of the hardware are; nil until it is looked up.
	sensorPaths []string
	logPath     *string
}

// Close ends the session on the BMC, once no other handle is open to it.
func (m *machine) Close() error { return m.leave() }

// Session implements driver.Sessioner: the path of the session over which was
// read last (DSP0266 section 13.3.4), empty with basic authentication.
func (m *machine) Session() string { return m.client.session() }

// Certificate implements driver.Certifier.
func (m *machine) Certificate() string { return m.client.shown.seen() }

// Shown implements driver.Shower.
func (m *machine) Shown() string { return m.client.shown.shown() }

// Inherit implements driver.Heir.
func (m *machine) Inherit(sessions []string) { m.client.left.add(sessions) }

// End implements driver.Ender.
func (m *machine) End(ctx context.Context, session string) error { return m.client.end(ctx, session) }

// system reads the ComputerSystem, which is found by what is wanted where the
// endpoint does not name it.
func (m *machine) system(ctx context.Context, want site.Identity) (system, error) {
	if err := m.locate(ctx, want); err != nil {
		return system{}, err
	}
	return m.read(ctx)
}

// locate finds the path of the ComputerSystem.
func (m *machine) locate(ctx context.Context, want site.Identity) error {
	if m.path != "" && !m.lost && (!m.found || m.sought == want) {
		return nil
	}
	p, err := m.findSystem(ctx, want)
	if err == nil {
		m.forget()
		m.path, m.found, m.lost, m.sought = p, true, false, want
	}
	return err
}

// forget drops all that was looked up of a system, before another is looked at.
func (m *machine) forget() {
	m.slot, m.boot, m.resets, m.noBootSettings = "", bootOptions{}, nil, false
	m.last, m.memory, m.sensorPaths, m.logPath = glance{}, biosMemory{}, nil, nil
}

// read reads the ComputerSystem, once it is found.
func (m *machine) read(ctx context.Context) (system, error) {
	o, err := m.client.get(ctx, m.path)
	if err != nil {
		return system{}, m.missed(err)
	}
	s := system{o}
	m.learn(s)
	return s, nil
}

// missed takes in why a system cannot be read. One that was found and is not
// there any more is looked for again: an update of the BMC may have renamed it.
func (m *machine) missed(err error) error {
	m.lost = m.found && hasStatus(err, http.StatusNotFound)
	return err
}

// reread reads the ComputerSystem again, with the boot that is next.
func (m *machine) reread(ctx context.Context) (system, error) {
	s, err := m.read(ctx)
	if err != nil {
		return system{}, err
	}
	return m.future(ctx, s)
}

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{driver.ErrRefused}, args...)...)
}
