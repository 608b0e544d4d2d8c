package engine

import (
	"context"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// trusted is an endpoint with the certificate that was recorded at its first
// use, if the design trusts that: another one is then refused.
func (w *worker) trusted(ep site.Endpoint) site.Endpoint {
	return Pinned(ep, w.job().memory.Recorded.Certificate)
}

// Pinned is an endpoint with the certificate that was recorded at its first use,
// nil for none, if the design trusts that. Whoever logs in without a daemon has
// to go by it too: another certificate may be somebody's in between.
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
