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

// The bounds of a node's record of TLS certificates, and of how often one is signed in a day. None is dropped that
// somebody may still accept: Slipway signs no more instead.
const (
	mostTLSCertificates = 256
	mostTLSInADay       = 12
)

// tlsAgain is how long Slipway waits before it signs one again where the last two were not seen on the system. Each
// further one takes twice as long.
const tlsAgain = 15 * time.Minute

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
		Lists: func() (string, error) { return w.e.presentLists(a.Fingerprint()) },
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
	for _, c := range w.job().memory.Recorded.TLS {
		if c.Name == name && c.Digest == digest {
			is = c
		}
	}
	switch {
	case is.Serial == "":
	case is.Revoked:
		why = "revoked"
	case !now.Before(is.Due()) && is.Until.Before(a.Until()): // another one would end with the authority, as this one
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
	recorded, shown := w.job().memory.Recorded, w.job().memory.Observed.Facets[site.FacetConfig].Signed
	keys := r.HostKeys
	if len(keys) == 0 { // it is not OpenSSH, and proved itself by one of these
		for _, line := range slices.Concat(n.Endpoints[site.OS].Trust.HostKeys, recorded.HostKeys()) {
			keys = append(keys, bare(line))
		}
	}
	if other, key := w.e.sharesHostKey(n.Name, keys); other != nil {
		return refuse(sameHostKey(n.Name, other.name, key))
	}
	if err := w.e.ofKept(n.Name, designed.Names); err != nil {
		return "", err
	}
	if err := tlsClockBehind(n.Name, w.countingTLS(), now); err != nil {
		return refuse(err)
	}
	if err := tooOften(r.Name, recorded.TLS, shown[r.Name], now); err != nil {
		return "", err
	}
	signed, err := a.Sign(r.Request, tlsca.Grant{Node: n.Name, Names: designed.Names, Usage: designed.Usage, Life: time.Duration(designed.Life)}, now)
	if err != nil {
		return refuse(fmt.Errorf("sign the TLS certificate %s of %s: %w", r.Name, n.Name, err))
	}
	if why := w.e.usedKey(signed.Key, ""); why != nil {
		return refuse(why)
	}
	c := site.TLSCertificate{
		Name: r.Name, Serial: signed.Serial, Authority: a.Fingerprint(), Digest: item.Digest([]byte(signed.Chain)), Key: signed.Key,
		Names: designed.Names, Usage: designed.Usage, Life: designed.Life, Since: now, Until: signed.Until,
	}
	if err := w.save(context.WithoutCancel(ctx), func(r *site.Recorded) { r.TLS = keepUntilOver(r.TLS, c, shown, now) }); err != nil {
		return "", fmt.Errorf("no TLS certificate was signed, because it could not be recorded: %w", err)
	}
	if !slices.ContainsFunc(w.countingTLS(), func(k site.TLSCertificate) bool { return k.Serial == c.Serial }) { // a quarantine came meanwhile
		return refuse(fmt.Errorf("no TLS certificate was given to %s, because its identity has ended meanwhile", n.Name))
	}
	if why := w.e.usedKey(c.Key, c.Serial); why != nil { // it was signed at the same time
		return refuse(why)
	}
	w.e.Log.Info("TLS certificate signed", "node", n.Name, "name", c.Name, "serial", c.Serial, "names", item.List(c.Names), "until", c.Until)
	return signed.Chain, nil
}

// tooOften refuses to sign a certificate again that does not stay on the system, or for which there is no room in the
// record; nil where it may be signed. Shown is the serial number of the one that the system was seen to have.
func tooOften(name string, recorded []site.TLSCertificate, shown string, now time.Time) error {
	var counting, today []time.Time // when each is over, and when each was signed
	unseen := 0
	for _, c := range recorded {
		if now.Before(c.Until) {
			counting = append(counting, c.Until)
		}
		if c.Name != name || now.Sub(c.Since) >= 24*time.Hour {
			continue
		}
		today = append(today, c.Since)
		switch {
		case c.Serial == shown:
			unseen = 0
		case !c.Revoked:
			unseen++
		}
	}
	later := func(at time.Time, format string, args ...any) error {
		text := fmt.Sprintf(format, args...) + ". Slipway signs it again after " + at.UTC().Format(time.DateTime)
		return &signsLater{fmt.Errorf("%w: %s", driver.ErrBusy, text), at.Sub(now)}
	}
	switch {
	case len(counting) >= mostTLSCertificates:
		return later(slices.MinFunc(counting, time.Time.Compare), "%d TLS certificates of the node are not over yet, and Slipway records no more than %d", len(counting), mostTLSCertificates)
	case len(today) >= mostTLSInADay:
		return later(today[0].Add(24*time.Hour), "the TLS certificate %s was signed %d times in 24 hours: look at what removes it on the system", name, len(today))
	case unseen >= 2 && now.Before(today[len(today)-1].Add(tlsAgain<<(unseen-2))):
		return later(today[len(today)-1].Add(tlsAgain<<(unseen-2)), "the TLS certificate %s was signed %d times and was not seen on the system since: look at what keeps it from being written there, such as a full disk", name, unseen)
	}
	return nil
}

// signsLater is an error that says when a certificate may be signed again.
type signsLater struct {
	error
	wait time.Duration
}

func (s *signsLater) Unwrap() error { return s.error }

// RetryAfterSeconds implements driver.RetryAfter.
func (s *signsLater) RetryAfterSeconds() int { return int(s.wait/time.Second) + 1 }

// usedKey refuses a key that another certificate than the one of a serial number has: a system makes a new key for
// each, so this one is known to somebody else, or was taken from there.
func (e *Engine) usedKey(key, serial string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range e.namesLocked() {
		for _, c := range e.workers[name].memory.Recorded.TLS {
			if c.Key == key && c.Serial != serial {
				return fmt.Errorf("the system asks for a certificate of a key that the TLS certificate %s of %s already has: a system makes a new key for each certificate, so look at what its agent has become", c.Name, name)
			}
		}
	}
	return nil
}

// keepUntilOver adds a certificate to those of a record. It drops those that are over, since nobody accepts them any
// more, except the last ones of each name and those that the system was seen to have, by their serial numbers.
func keepUntilOver(all []site.TLSCertificate, made site.TLSCertificate, shown site.Values, now time.Time) (kept []site.TLSCertificate) {
	count := map[string]int{}
	for _, c := range slices.Backward(append(slices.Clone(all), made)) {
		if count[c.Name]++; count[c.Name] <= mostOfKey || now.Before(c.Until) || shown[c.Name] == c.Serial {
			kept = append(kept, c)
		}
	}
	slices.Reverse(kept)
	return kept
}
