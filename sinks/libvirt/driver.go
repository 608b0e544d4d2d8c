// Package libvirt is the driver for virtual machines on hypervisors that
// libvirt manages: their definition, disks, power, boot order, installation
// and end.
//
// It touches nothing but its own: a machine carries in its metadata of which
// site and node it is and which volumes were made for it, and that is read
// again right before every write.
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

// Scheme is what endpoint URLs of this driver begin with, up to "+".
const Scheme = "libvirt"

// Options are the driver's patience. The zero value is right for real
// hypervisors; tests shorten it.
type Options struct {
	// Grace is how long an operating system may take to shut down before the
	// power is cut: 120 s.
	Grace time.Duration
	// Start is how long QEMU may take to start, with all that libvirt does before:
	// 3 min.
	Start time.Duration
	// Answer is how long libvirt may take to answer a call before the
	// connection counts as dead: 60 s.
	Answer time.Duration
	// Poll is the pause between two looks at a machine that is to change, 0.5 s.
	Poll time.Duration
	// Believe is how long a definition that was read is believed without being
	// told of a change: 10 min.
	Believe time.Duration
	// Quiet is how long the server of an image may send nothing: 30 s.
	Quiet time.Duration
	// Share is how long looks share one list of the hypervisor's machines: 2 s.
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

// Facets lists what a hypervisor serves of a virtual machine.
func (*Driver) Facets() []site.Facet {
	return []site.Facet{site.FacetDefinition, site.FacetDisks, site.FacetSeed, site.FacetPower, site.FacetBoot}
}

// Open checks the endpoint and connects at the first use. The machines of a
// hypervisor share one connection to it.
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
	may        driver.Permit // of the step under way
	site       string        // whose machine it is
	name       string        // of the node, and of the domain
	host       string        // the hypervisor's name in the design; empty until a node tells
}

// called takes the hypervisor's name from the node.
func (m *machine) called(n *site.Node) { m.host = n.Virtual.Host.Hypervisor }

// where is the hypervisor, for people.
func (m *machine) where() string { return cmp.Or(m.host, m.hypervisor.address.String()) }

// Close ends the connection to the hypervisor, once no other handle is open to
// it.
func (m *machine) Close() error { return m.leave() }

// connection is a connection to the hypervisor that was alive a moment ago.
func (m *machine) connection(ctx context.Context) (*connection, error) {
	return m.hypervisor.connection(ctx)
}

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{driver.ErrRefused}, args...)...)
}
