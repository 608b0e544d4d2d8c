// Package ssh is the driver for installed operating systems: it looks inside,
// over SSH, and changes nothing. One connection with one command tells which
// installation runs, since which boot, what it is and what it has.
package ssh

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/sshclient"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Scheme is what endpoint URLs of this driver begin with.
const Scheme = "ssh"

// lookTimeout bounds one look.
const lookTimeout = 30 * time.Second

// Driver opens installed systems.
type Driver struct{}

// New makes a driver.
func New() *Driver { return &Driver{} }

// Facets lists what the driver sees.
func (*Driver) Facets() []site.Facet { return []site.Facet{site.FacetOS} }

// Open checks the endpoint, ssh://[USER@]HOST[:PORT]; every look makes its own
// connection. What a credential may be is told in sshclient.Open.
func (*Driver) Open(_ context.Context, e site.Endpoint, s secret.Value) (driver.Machine, error) {
	u, err := url.Parse(e.URL)
	if err != nil || u.Scheme != Scheme || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" {
		return nil, refused("the endpoint %q is not of the form ssh://[USER@]HOST[:PORT]", e.URL)
	}
	client, err := sshclient.Open(e, s)
	if err != nil {
		return nil, err
	}
	return &machine{client}, nil
}

// machine is a handle on one installed system.
type machine struct{ client *sshclient.Client }

// Close has nothing to end: connections end with each look.
func (m *machine) Close() error { return nil }

// Apply takes no step: the driver only observes.
func (m *machine) Apply(_ context.Context, step site.Step, _ *site.Node, _ driver.Permit) error {
	return fmt.Errorf("%s: systems are only observed over SSH: %w", step.Action, errors.ErrUnsupported)
}

// Observe looks inside once. SSH tells nothing of the machine's own identity,
// since an installed system can be moved to another machine with its disk.
func (m *machine) Observe(ctx context.Context, _ *site.Node, facets []site.Facet) (site.Observed, error) {
	if !slices.Contains(facets, site.FacetOS) {
		return site.Observed{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	output, err := m.client.Run(ctx, command)
	if err != nil {
		return site.Observed{}, err
	}
	r, ok := parse(output)
	if !ok {
		return site.Observed{}, refused("the system at %s did not answer as a Linux shell does; it begins with %.80q", m.client.Address(), output)
	}
	have := site.Values{"bootID": r.bootID, "release": r.release, "kernel": r.kernel}
	return site.Observed{
		Facets:       map[site.Facet]site.FacetState{site.FacetOS: {Have: have, Seen: time.Now(), Driver: Scheme}},
		Marker:       r.marker,
		MarkerUnread: r.markerUnread,
		Inside:       r.inside,
	}, nil
}

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{driver.ErrRefused}, args...)...)
}
