package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sitekey"
)

// Derived passwords of accounts of BMCs. A derived password goes to an address that a file of this host allows, and
// to the certificate that is proven for its machine: whoever merges a line with another address must not collect it.
//
// Slipway itself logs in with the password that was proven last, and where that was denied, with one that
// was offered since; never with another one. Each is sent once, until a person has it tried again.

// unprovenBMC is why a derived password is not sent: nothing proves the BMC that answers.
type unprovenBMC struct{ error }

func (e unprovenBMC) Unwrap() error { return e.error }

// provenBMC returns what proves the BMC of a node's machine, or nil.
func provenBMC(n *site.Node, r site.Recorded) *site.ProvenBMC {
	if r.BMC == nil || n.DerivedFrom() == "" || r.BMC.From != n.DerivedFrom() || r.BMC.Machine != n.Machine().UUID {
		return nil
	}
	return r.BMC
}

// withProvenBMC returns the endpoint of a BMC to which derived passwords go, or may go: it accepts the proven
// certificate alone. A fingerprint in the design stays, since a person may have replaced the certificate.
func withProvenBMC(n *site.Node, ep site.Endpoint, r site.Recorded) site.Endpoint {
	if p := provenBMC(n, r); p != nil && len(n.References.Derived) > 0 && ep.Trust.Fingerprint == "" {
		ep.Trust.Fingerprint = p.Fingerprint
	}
	return ep
}

// certificateOf is the certificate that the BMC of a node shows, or else the one that the design says; empty
// where neither is known.
func (w *worker) certificateOf(n *site.Node) string {
	if c := w.connections[site.Manager]; c != nil {
		if s, ok := driver.As[driver.Shower](c.machine); ok && s.Shown() != "" {
			return s.Shown()
		}
	}
	return strings.ToLower(n.Endpoints[site.Manager].Trust.Fingerprint)
}

// mayReceive says why derived passwords do not go to a BMC with a certificate, or returns nil.
func (w *worker) mayReceive(j job, shown string) error {
	p, host := provenBMC(j.node, j.memory.Recorded), hostOf(j.node.Endpoints[site.Manager].URL)
	switch {
	case j.node.DerivedFrom() == "":
		return errors.New("the design does not have the UUID of the machine, which the password is derived from: add identity.uuid")
	case p != nil && p.Fingerprint == shown:
		return nil
	case p != nil && shown == "":
		return unprovenBMC{fmt.Errorf("nothing was seen of the BMC at %s yet", host)}
	case p != nil:
		return unprovenBMC{fmt.Errorf("the BMC at %s shows the certificate %s, and %s is proven for this machine: if it was replaced on purpose, run `slipway approve %s`; if not, somebody may be collecting passwords", host, shown, p.Fingerprint, w.name)}
	case shown == "":
		return unprovenBMC{fmt.Errorf("no certificate is proven for this machine yet: log in with another credential in endpoints.manager first, or compare the certificate on the BMC itself, write it as trust.fingerprint and run `slipway approve %s`", w.name)}
	}
	return unprovenBMC{fmt.Errorf("no certificate is proven for this machine yet, and the BMC at %s shows %s: compare it on the BMC itself, then run `slipway approve %s`", host, shown, w.name)}
}

func hostOf(endpoint string) string {
	if u, err := url.Parse(endpoint); err == nil {
		return u.Host
	}
	return ""
}

// asksCertificate is the question whether the BMC of a node is the right one; none where that is proven, or nobody
// can say which certificate it is.
func (w *worker) asksCertificate(j job) question {
	shown := w.certificateOf(j.node)
	var unproven unprovenBMC
	if len(j.node.References.Derived) == 0 || shown == "" || !errors.As(w.mayReceive(j, shown), &unproven) {
		return question{}
	}
	return question{kind: asksBMC, certificate: shown,
		text: fmt.Sprintf("derived passwords of this machine go to the BMC at %s, which has the certificate %s", hostOf(j.node.Endpoints[site.Manager].URL), shown)}
}

// acceptBMC has derived passwords go to the BMC with the certificate that a person has compared.
func (w *worker) acceptBMC(ctx context.Context, n *site.Node, certificate, by string) (string, error) {
	p := site.ProvenBMC{From: n.DerivedFrom(), Machine: n.Machine().UUID, Fingerprint: certificate, Since: time.Now(), By: by}
	return "derived passwords go to the BMC of " + w.name + " with the certificate " + certificate,
		w.save(ctx, func(r *site.Recorded) { r.BMC = &p })
}

// proveBMC records the certificate of a BMC that was looked at over a login with another credential, as the machine
// that the design says. A machine in the place of another one, and one whose passwords
// another node has, waits for a person.
func (w *worker) proveBMC(ctx context.Context, j job, seen site.Identity) error {
	n, c := j.node, w.connections[site.Manager]
	if len(n.References.Derived) == 0 || n.DerivedFrom() == "" || provenBMC(n, j.memory.Recorded) != nil || c == nil || c.as != (site.Derived{}) ||
		c.value.IsZero() || n.Moved.Known() || !n.Machine().Matches(seen) || w.e.isProvenElsewhere(w, n.DerivedFrom()) {
		return nil
	}
	if j.memory.Recorded.BMC != nil && j.memory.Recorded.BMC.From == n.DerivedFrom() {
		return nil
	}
	s, ok := driver.As[driver.Shower](c.machine)
	if _, read := w.e.publishedOf(w.name); !ok || !read || s.Shown() == "" {
		return nil
	}
	p := site.ProvenBMC{From: n.DerivedFrom(), Machine: n.Machine().UUID, Fingerprint: s.Shown(), Since: time.Now()}
	w.anew = true // the accounts were read before they could be set
	return w.save(ctx, func(r *site.Recorded) { r.BMC = &p })
}

// isProvenElsewhere reports whether another node has, or had, derived passwords of a machine.
func (e *Engine) isProvenElsewhere(w *worker, from string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, other := range e.workers {
		if p := other.memory.Recorded.BMC; other != w && p != nil && p.From == from {
			return true
		}
	}
	return false
}

// derivedLogin says with which derived password Slipway logs in to a node's BMC, and the digest that it has to have;
// empty where none is recorded.
func (w *worker) derivedLogin(j job, ep site.Endpoint) (secret.Of, string, error) {
	n, d := j.node, j.node.References.Derived[ep.Credential]
	if err := w.mayReceive(j, strings.ToLower(ep.Trust.Fingerprint)); err != nil {
		return secret.Of{}, "", fmt.Errorf("%w: the derived credential %q is not sent: %w", driver.ErrRefused, ep.Credential, err)
	}
	use := j.memory.Recorded.Accounts[d.Account]
	of := func(d site.Derived) secret.Of { return secret.Of{Derived: d, Machine: n.DerivedFrom()} }
	none := site.Derived{}
	switch {
	case use.ProvenAs != none && !use.ProvenDenied:
		return of(use.ProvenAs), use.Proven, nil
	case use.OfferedAs != none && !use.OfferedDenied:
		return of(use.OfferedAs), use.Offered, nil
	case use.ProvenAs == none && use.OfferedAs == none && use.Highest == 0 && provenBMC(n, j.memory.Recorded).By != "" && !use.ProvenDenied:
		return of(d), "", nil
	case use.ProvenAs == none && use.OfferedAs == none:
		return secret.Of{}, "", fmt.Errorf("%w: no login as %s with the derived credential %q was ever accepted, so it is not sent: have Slipway set it first, with `bmc.accounts` and another credential in endpoints.manager", driver.ErrRefused, d.Account, ep.Credential)
	}
	return secret.Of{}, "", driver.Withhold("the BMC denied the password of %s that it accepted last%s. Slipway sends no other one, so that the account is not locked. Check the account on the BMC, then run `slipway retry %s`",
		d.Account, map[bool]string{true: ", and the one that was offered since"}[use.OfferedDenied], w.name)
}

// keyTo returns what opens an endpoint: its driver, the value of its credential, and which derived password that is.
func (w *worker) keyTo(ctx context.Context, n *site.Node, kind site.EndpointKind, ep site.Endpoint) (driver.Driver, secret.Value, site.Derived, error) {
	var unread error
	if kind == site.Manager {
		unread = w.recallPasswords(ctx, n)
	}
	if _, derived := n.References.Derived[ep.Credential]; kind != site.Manager || !derived {
		drv, value, err := driver.KeyTo(w.e.Drivers, w.e.Secrets, ep)
		return drv, value, site.Derived{}, err
	}
	if unread != nil {
		return nil, secret.Value{}, site.Derived{}, unread
	}
	j := w.job()
	j.node = n
	ep = withProvenBMC(n, ep, j.memory.Recorded)
	of, digest, err := w.derivedLogin(j, ep)
	if err != nil {
		return nil, secret.Value{}, site.Derived{}, err
	}
	drv, value, err := driver.KeyOf(w.e.Drivers, w.e.Secrets, ep, of)
	if err == nil && digest != "" && value.Digest(w.e.Site) != digest {
		err = fmt.Errorf("%w: the password of %s that the BMC accepted last was derived from another site key than the one of this daemon, so nothing is sent: put the right site key back, or write another credential into endpoints.manager", driver.ErrRefused, of.Account)
	}
	return drv, value, of.Derived, err
}

// errUnread is why nothing is known yet of derived passwords.
var errUnread = fmt.Errorf("%w: which derived passwords its BMC has stands on the status branch, which was not read yet", driver.ErrBusy)

// recallPasswords takes over what was published of the derived passwords of a node's BMC where the records have
// nothing: they were lost, with the host. Before that was read nobody knows which password an account has.
func (w *worker) recallPasswords(ctx context.Context, n *site.Node) error {
	r := w.job().memory.Recorded
	if r.BMC != nil || len(r.Accounts) > 0 || len(n.References.Derived) == 0 {
		return nil
	}
	s, read := w.e.publishedOf(w.name)
	if !read {
		return errUnread
	}
	if s.BMC == nil && len(s.Passwords) == 0 {
		return nil
	}
	return w.save(ctx, func(r *site.Recorded) {
		r.BMC = s.BMC
		all := maps.Clone(r.Accounts)
		if all == nil {
			all = map[string]site.AccountUse{}
		}
		for account, p := range s.Passwords {
			all[account] = recalled(p, n)
		}
		r.Accounts = all
	})
}

// recalled is what is known of a password by what was published of it. What was published may be older than the last
// change: then the account may have the password that the design says now.
func recalled(p site.SealedPassword, n *site.Node) site.AccountUse {
	use := site.AccountUse{Proven: p.ProvenDigest, ProvenAs: p.Proven, Offered: p.OfferedDigest, OfferedAs: p.Offered, Highest: p.Highest, Changing: p.Offered != site.Derived{}}
	for _, d := range n.References.Derived {
		if d.Account == p.Proven.Account && d.Epoch > p.Proven.Epoch && p.Offered == (site.Derived{}) {
			use.OfferedAs, use.Highest = d, max(use.Highest, d.Epoch)
		}
	}
	return use
}

// publishedOf is what was published of a node and has the signature of a site key; read is false while it may come
// yet.
func (e *Engine) publishedOf(node string) (s site.Sealed, read bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.Anchor != nil && e.anchor.compared != e.book.Records {
		return s, false
	}
	s = e.published[node]
	if s.Site != e.Site || sitekey.Verify(e.keysLocked(), sitekey.ForStatus, s.Unsigned(), s.Signature) != nil {
		return site.Sealed{}, true
	}
	return s, true
}

// sealedPasswords are the derived passwords of accounts by what is recorded.
func sealedPasswords(r site.Recorded) map[string]site.SealedPassword {
	var all map[string]site.SealedPassword
	for account, use := range r.Accounts {
		p := site.SealedPassword{Proven: use.ProvenAs, Offered: use.OfferedAs, Highest: use.Highest}
		if p.Proven != (site.Derived{}) {
			p.ProvenDigest = use.Proven
		}
		if p.Offered != (site.Derived{}) {
			p.OfferedDigest = use.Offered
		}
		if p == (site.SealedPassword{}) {
			continue
		}
		if all == nil {
			all = map[string]site.SealedPassword{}
		}
		all[account] = p
	}
	return all
}

// derivedLoginEnded records how a login of Slipway itself with a derived password ended.
func (w *worker) derivedLoginEnded(ctx context.Context, as site.Derived, digest string, accepted bool) error {
	return accountPasswords{w}.save(ctx, as.Account, func(u *site.AccountUse) {
		switch {
		case accepted && as == u.OfferedAs && u.OfferedAs != u.ProvenAs || accepted && u.ProvenAs == (site.Derived{}):
			u.Proven, u.ProvenAs, u.ProvenAt, u.Highest = digest, as, time.Now(), max(u.Highest, as.Epoch)
			u.Offered, u.OfferedAs, u.ProvenDenied, u.OfferedDenied, u.Tries, u.TriedAt = "", site.Derived{}, false, false, 0, time.Time{}
			u.Changing = true // sessions of before may be open
		case accepted && as == u.ProvenAs:
			u.Proven, u.ProvenDenied = digest, false // one may be offered all the same: a step may have logged in anew
		case accepted:
		case as == u.ProvenAs:
			u.ProvenDenied = true
		case as == u.OfferedAs:
			u.OfferedDenied = true
		default:
			u.ProvenDenied = true // the designed one, of which nothing was known
		}
	})
}

// passwordsStatus is what people are shown of the derived passwords of a node's BMC.
func passwordsStatus(n *site.Node, r site.Recorded) []site.AccountPasswordStatus {
	of := map[string]site.AccountPasswordStatus{}
	for account, use := range r.Accounts {
		if use.ProvenAs == (site.Derived{}) && use.OfferedAs == (site.Derived{}) {
			continue
		}
		s := site.AccountPasswordStatus{Account: account, Epoch: use.ProvenAs.Epoch, Form: use.ProvenAs.Form, Offered: use.OfferedAs.Epoch}
		if s.Epoch > 0 {
			s.Proven = use.ProvenAt
		}
		of[account] = s
	}
	for credential, d := range n.References.Derived {
		s := of[d.Account]
		s.Account, s.Credential, s.Designed = d.Account, credential, d.Epoch
		of[d.Account] = s
	}
	var all []site.AccountPasswordStatus
	for _, account := range slices.Sorted(maps.Keys(of)) {
		all = append(all, of[account])
	}
	return all
}
