package engine

import (
	"context"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Trusted is an endpoint of a node with what is recorded of the other side:
// the certificate that was shown at its first use, and the host keys that were
// made for an installed system. Whoever logs in without a daemon has to go by it
// too: what shows another may be somebody's in between.
func Trusted(n *site.Node, kind site.EndpointKind, r site.Recorded) site.Endpoint {
	ep := Pinned(n.Endpoints[kind], r.Certificate)
	if keys := r.HostKeys(); kind == site.OS && len(keys) > 0 {
		ep.Trust.HostKeys = slices.Concat(keys, ep.Trust.HostKeys)
	}
	return ep
}

// Pinned is an endpoint with the certificate that was recorded at its first use,
// nil for none, if the design trusts that.
func Pinned(ep site.Endpoint, seen *site.Certificate) site.Endpoint {
	if ep.Trust.OnFirstUse() && seen != nil && seen.Endpoint == ep.URL {
		ep.Trust.Fingerprint = seen.Fingerprint
	}
	return ep
}

// trust records the certificate that the machine has shown at the first use of
// an endpoint.
func (w *worker) trust(ctx context.Context, kind site.EndpointKind) error {
	d := w.doors[kind]
	if d == nil || !d.endpoint.Trust.OnFirstUse() {
		return nil
	}
	c, ok := driver.As[driver.Certifier](d.machine)
	if !ok || c.Certificate() == "" {
		return nil
	}
	seen := site.Certificate{Endpoint: d.endpoint.URL, Fingerprint: c.Certificate(), Since: time.Now()}
	err := w.save(ctx, func(r *site.Recorded) { r.Certificate = &seen })
	if err == nil {
		d.endpoint.Trust.Fingerprint = seen.Fingerprint // the handle holds to it by itself
	}
	return err
}
