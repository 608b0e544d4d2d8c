// Package libvirt is the driver for virtual machines on hypervisors that libvirt manages: their definition, disks,
// power, boot order, installation and removal.
//
// It touches only its own machines. A machine's metadata says which site and node it belongs to and which volumes
// were made for it. The driver reads the metadata again right before every write.
package libvirt

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Scheme is the URL scheme of this driver's endpoints, up to "+".
const Scheme = "libvirt"

// Options are the driver's time limits. The zero value suits real hypervisors; tests use shorter times.
type Options struct {
	// Grace is how long an operating system may take to shut down before the power is cut. Default: 120 s.
	Grace time.Duration
	// Start is how long QEMU may take to start, including libvirt's preparations. Default: 3 min.
	Start time.Duration
	// Answer is how long libvirt may take to answer a call before the connection counts as dead. Default: 60 s.
	Answer time.Duration
	// Poll is the pause between looks at a changing machine. Default: 0.5 s.
	Poll time.Duration
	// Believe is how long a definition is cached without an event. Default: 10 min.
	Believe time.Duration
	// Quiet is how long an image server may send nothing. Default: 30 s.
	Quiet time.Duration
	// Share is how long looks share one list of the hypervisor's machines. Default: 2 s.
	Share time.Duration
}

// Driver opens virtual machines.
type Driver struct {
	opts        Options
	hypervisors hypervisors
	fetches     *fetches
}

// New makes a driver.
func New(o Options) *Driver {
	return &Driver{fetches: newFetches(orDefault(o.Quiet, 30*time.Second)), opts: Options{
		Grace:   orDefault(o.Grace, 120*time.Second),
		Start:   orDefault(o.Start, 3*time.Minute),
		Answer:  orDefault(o.Answer, time.Minute),
		Poll:    orDefault(o.Poll, 500*time.Millisecond),
		Believe: orDefault(o.Believe, 10*time.Minute),
		Share:   orDefault(o.Share, 2*time.Second),
	}}
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

// Facets lists the facets that a hypervisor serves for a virtual machine.
func (*Driver) Facets() []site.Facet {
	return []site.Facet{site.FacetDefinition, site.FacetDisks, site.FacetSeed, site.FacetPower, site.FacetBoot}
}

// Open checks the endpoint. The connection is made at the first use, and the machines of a hypervisor share it.
func (d *Driver) Open(_ context.Context, e site.Endpoint, s secret.Value) (driver.Machine, error) {
	a, err := parse(e.URL)
	if err != nil {
		return nil, err
	}
	m := &machine{opts: d.opts, fetches: d.fetches, site: a.site, name: a.domain}
	m.hypervisor, m.leave, err = d.hypervisors.join(a, e, s, d.opts)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// machine is an open handle on one virtual machine, which need not exist yet.
type machine struct {
	opts       Options
	hypervisor *hypervisor // shared with its other machines
	leave      func() error
	fetches    *fetches
	seed       *driver.Seed  // for the next installation; nil for none
	may        driver.Permit // of the current step
	site       string        // the site that owns the machine
	name       string        // of the node, and of the domain
	host       string        // the hypervisor's name in the design; empty until a node is known
}

// called takes the hypervisor's name from the node.
func (m *machine) called(n *site.Node) { m.host = n.Virtual.Host.Hypervisor }

// where is the hypervisor, for people.
func (m *machine) where() string { return cmp.Or(m.host, m.hypervisor.address.String()) }

// Close closes the connection to the hypervisor when the last handle to it is closed.
func (m *machine) Close() error { return m.leave() }

// connection is a live connection to the hypervisor.
func (m *machine) connection(ctx context.Context) (*connection, error) {
	return m.hypervisor.connection(ctx)
}

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{driver.ErrRefused}, args...)...)
}
