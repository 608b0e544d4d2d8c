package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/tlsca"
)

// mostTLSCertificates bounds a node's record of TLS certificates. The oldest go first.
const mostTLSCertificates = 64

// tlsAuthorityLocked is the authority that signs TLS certificates, nil where the design names none. Its error says
// why none signs although the design names some.
func (e *Engine) tlsAuthorityLocked() (*tlsca.Authority, error) {
	if e.design == nil || len(e.design.TLS.Authorities) == 0 {
		return nil, nil
	}
	designed := e.design.TLS
	if len(e.TLSIntermediate) > 0 {
		a, err := tlsca.Intermediate(e.TLSIntermediate, designed.Authorities, time.Now())
		if err != nil {
			return nil, fmt.Errorf("the file of the TLS intermediate (--tls-intermediate): %w", err)
		}
		return a, nil
	}
	if e.Key == nil {
		return nil, errors.New("this daemon has no site key, and its TLS authority is derived from that key: restore the key with `slipway site import-key`")
	}
	a, err := tlsca.Derive(e.Key, e.Site, designed.Epoch)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(designed.Authorities, func(text string) bool { return tlsca.Fingerprint(text) == a.Fingerprint() }) {
		return nil, fmt.Errorf("the design names other TLS authorities than this daemon's, %s: correct site.tls (`slipway site tls-authority` shows it), put the right site key back, or name the file of the intermediate with --tls-intermediate", a.Fingerprint())
	}
	return a, nil
}

// tlsCertificates are the TLS certificates of a node's system, and how it gets others.
func (w *worker) tlsCertificates(n *site.Node) driver.TLSCertificates {
	w.e.mu.Lock()
	a, err := w.e.tlsAuthorityLocked()
	isEnded := w.leaving || w.memory.Recorded.Quarantined != nil
	w.e.mu.Unlock()
	switch {
	case err != nil:
		return driver.TLSCertificates{Why: err.Error()}
	case a == nil:
		return driver.TLSCertificates{}
	case w.e.ObserveOnly:
		return driver.TLSCertificates{Why: "this daemon only observes, and signs nothing"}
	case isEnded:
		return driver.TLSCertificates{Why: "Slipway signs no certificate of a node under quarantine, or of one that has left the design"}
	}
	return driver.TLSCertificates{
		Valid: func(name, digest string) (site.TLSCertificate, string, error) { return w.validTLS(n, a, name, digest) },
		Sign:  func(ctx context.Context, r driver.TLSRequest) (string, error) { return w.signTLS(ctx, n, a, r) },
	}
}

// countingTLS are the TLS certificates of a node that were not revoked.
func (w *worker) countingTLS() (counting []site.TLSCertificate) {
	for _, c := range w.job().memory.Recorded.TLS {
		if !c.Revoked {
			counting = append(counting, c)
		}
	}
	return counting
}

func (w *worker) validTLS(n *site.Node, a *tlsca.Authority, name, digest string) (is site.TLSCertificate, why string, err error) {
	counting, now := w.countingTLS(), time.Now()
	if err := tlsClockBehind(n.Name, counting, now); err != nil {
		return is, "", err
	}
	for _, c := range counting { // the newest is the last
		if c.Name == name && c.Digest == digest {
			is = c
		}
	}
	switch {
	case is.Serial == "":
	case !now.Before(is.Due()):
		why = "to be renewed since " + is.Due().UTC().Format(time.DateOnly)
	case is.Authority != a.Fingerprint():
		why = "signed by an earlier authority"
	}
	return is, why, nil
}

// tlsClockBehind says that certificates were signed long after the present time.
func tlsClockBehind(node string, counting []site.TLSCertificate, now time.Time) error {
	for _, c := range counting {
		if c.Since.Sub(now) > tlsca.Skew {
			return fmt.Errorf("the clock of this daemon is behind: it shows %s, and the TLS certificate %s of %s is of %s. Slipway signs none for it meanwhile: set the clock; if it was ahead then, quarantine the node and release it, which ends its certificates",
				now.UTC().Format(time.DateOnly), c.Name, node, c.Since.UTC().Format(time.DateOnly))
		}
	}
	return nil
}

// signTLS signs a request for the names that the design grants to this node. It records the certificate before it
// gives it.
func (w *worker) signTLS(ctx context.Context, n *site.Node, a *tlsca.Authority, r driver.TLSRequest) (string, error) {
	refuse := func(err error) (string, error) { return "", fmt.Errorf("%w: %w", driver.ErrRefused, err) }
	designed, is := n.CertificateIn(w.job().memory.Observed.Facets[site.FacetBase].System, r.Name)
	now := time.Now()
	switch off := r.Clock.Sub(now); {
	case !is:
		return refuse(fmt.Errorf("the design of %s has no certificate %s", n.Name, site.Printable(r.Name)))
	case off.Abs() > tlsca.Skew:
		return refuse(fmt.Errorf("the clock of %s shows %s, and that of this daemon %s: one of them would not accept the certificate. Set the clock that is wrong; for the node, see system.time.servers",
			n.Name, r.Clock.UTC().Format(time.DateTime), now.UTC().Format(time.DateTime)))
	}
	if err := tlsClockBehind(n.Name, w.countingTLS(), now); err != nil {
		return refuse(err)
	}
	signed, err := a.Sign(r.Request, tlsca.Grant{Node: n.Name, Names: designed.Names, Usage: designed.Usage, Life: time.Duration(designed.Life)}, now)
	if err != nil {
		return refuse(fmt.Errorf("sign the TLS certificate %s of %s: %w", r.Name, n.Name, err))
	}
	c := site.TLSCertificate{
		Name: r.Name, Serial: signed.Serial, Authority: a.Fingerprint(), Digest: item.Digest([]byte(signed.Chain)),
		Names: designed.Names, Usage: designed.Usage, Life: designed.Life, Since: now, Until: signed.Until,
	}
	if err := w.save(context.WithoutCancel(ctx), func(r *site.Recorded) { r.TLS = keepUntilOver(append(slices.Clone(r.TLS), c), now) }); err != nil {
		return "", fmt.Errorf("no TLS certificate was signed, because it could not be recorded: %w", err)
	}
	if !slices.ContainsFunc(w.countingTLS(), func(k site.TLSCertificate) bool { return k.Serial == c.Serial }) { // a quarantine came meanwhile
		return refuse(fmt.Errorf("no TLS certificate was given to %s, because its identity has ended meanwhile", n.Name))
	}
	w.e.Log.Info("TLS certificate signed", "node", n.Name, "name", c.Name, "serial", c.Serial, "names", item.List(c.Names), "until", c.Until)
	return signed.Chain, nil
}

// keepUntilOver are the certificates that somebody may still accept.
func keepUntilOver(all []site.TLSCertificate, now time.Time) []site.TLSCertificate {
	all = slices.DeleteFunc(all, func(c site.TLSCertificate) bool { return !now.Before(c.Until) })
	return all[max(0, len(all)-mostTLSCertificates):]
}
