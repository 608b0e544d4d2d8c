package engine

import (
	"context"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sitekey"
)

// Trusted is an endpoint of a node with what is recorded of the other side:
// the certificate that was shown at its first use, and the host keys that were
// made for an installed system. Whoever logs in without a daemon has to go by it
// too: what shows another may be somebody's in between.
func Trusted(n *site.Node, kind site.EndpointKind, r site.Recorded) site.Endpoint {
	ep := pinned(n.Endpoints[kind], r.Certificate)
	if keys := r.HostKeys(); kind == site.OS && len(keys) > 0 {
		ep = withHostKeys(n, ep, keys)
	}
	return ep
}

// withHostKeys is an endpoint of a system whose host keys are recorded. On a physical machine
// those that the design names take their place: the plan says so where they differ.
func withHostKeys(n *site.Node, ep site.Endpoint, keys []string) site.Endpoint {
	if n.IsVirtual() || len(ep.Trust.HostKeys) == 0 {
		ep.Trust.HostKeys = slices.Concat(keys, ep.Trust.HostKeys)
	}
	return ep
}

// trusted is Trusted, with the host keys that were published of a system whose
// record is lost.
func (e *Engine) trusted(n *site.Node, kind site.EndpointKind, r site.Recorded) site.Endpoint {
	ep := n.Endpoints[kind]
	if kind == site.Manager {
		ep = withProvenBMC(n, ep, r)
	}
	ep = pinned(ep, r.Certificate)
	if kind == site.OS {
		e.mu.Lock()
		defer e.mu.Unlock()
		ep = withHostKeys(n, ep, e.hostKeysLocked(n.Name, r))
	}
	return ep
}

// hostKeysLocked are the host keys of a node's system: those that are recorded, or,
// where no installation is, those that were published.
func (e *Engine) hostKeysLocked(node string, r site.Recorded) []string {
	if keys := r.HostKeys(); len(keys) > 0 || r.Installed != nil || r.UnderWay() > 0 {
		return keys
	}
	return e.publishedKeysLocked(node)
}

// publishedKeys are the host keys that were published of a node's system.
func (e *Engine) publishedKeys(node string) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.publishedKeysLocked(node)
}

func (e *Engine) publishedKeysLocked(node string) []string {
	s := e.published[node]
	if s.Site != e.Site || sitekey.Verify(e.keysLocked(), sitekey.ForStatus, s.Unsigned(), s.Signature) != nil {
		return nil
	}
	return s.HostKeys
}

// pinned is an endpoint with the certificate that was recorded at its first use,
// nil for none, if the design trusts that.
func pinned(ep site.Endpoint, seen *site.Certificate) site.Endpoint {
	if ep.Trust.OnFirstUse() && seen != nil && seen.Endpoint == ep.URL {
		ep.Trust.Fingerprint = seen.Fingerprint
	}
	return ep
}

// trust records the certificate that the machine has shown at the first use of
// an endpoint.
func (w *worker) trust(ctx context.Context, kind site.EndpointKind) error {
	d := w.connections[kind]
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
