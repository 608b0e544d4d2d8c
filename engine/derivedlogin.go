package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Derived passwords of accounts of BMCs. A derived password goes to an address that a file of this host allows, and
// to the certificate that is proven for its machine: whoever merges a line with another address must not collect it.
//
// Slipway itself logs in with the password that was proven last, and where that was denied, with one that
// was offered since; never with another one. Where the daemon was killed while the offered one was being proven, that one
// comes first. Each is sent once, until a person has it tried again.

// derivedLogin says with which derived password Slipway logs in to a node's BMC, and the digest that it has to have;
// empty where none is recorded.
func (w *worker) derivedLogin(j job, ep site.Endpoint) (secret.Of, string, error) {
	n, d := j.node, j.node.References.Derived[ep.Credential]
	if err := w.mayReceive(j, strings.ToLower(ep.Trust.Fingerprint)); err != nil {
		return secret.Of{}, "", fmt.Errorf("%w: the derived credential %q is not sent: %w", driver.ErrRefused, ep.Credential, err)
	}
	use := j.memory.Recorded.Accounts[d.Account]
	if !use.IsOf(n.DerivedFrom()) {
		return secret.Of{}, "", fmt.Errorf("%w: the password of %s is derived from the UUID %s, and the design derives it from %s, so nothing is sent: if this is the same machine, or took the place of that one, write that UUID as identity.uuid, with the new machine in moved; if another machine is to have this name, give endpoints.manager another credential first",
			driver.ErrRefused, d.Account, use.From, n.DerivedFrom())
	}
	if err := w.triedOut(d.Account, use, time.Now()); err != nil {
		return secret.Of{}, "", err
	}
	// A node that left and returned: its machine has the password that it had, whatever the design says by now.
	last, had := w.e.lastPassword(n.DerivedFrom(), d)
	of := func(d site.Derived) secret.Of { return secret.Of{Derived: d, Machine: n.DerivedFrom()} }
	none := site.Derived{}
	// The daemon was killed while it proved a password that the BMC had accepted: it is the likely one.
	broken := use.Tries > 0 && use.Tried != "" && use.Tried == use.Offered
	switch {
	case broken && use.OfferedAs != none && !use.OfferedDenied:
		return of(use.OfferedAs), use.Offered, nil
	case use.ProvenAs != none && !use.ProvenDenied:
		return of(use.ProvenAs), use.Proven, nil
	case use.OfferedAs != none && !use.OfferedDenied:
		return of(use.OfferedAs), use.Offered, nil
	case nothingKnown(use) && use.Highest == 0 && !use.ProvenDenied && (had || provenBMC(n, j.memory.Recorded).By != ""):
		return of(last), "", nil
	case use.ProvenAs == none && use.OfferedAs == none:
		return secret.Of{}, "", fmt.Errorf("%w: no login as %s with the derived credential %q was ever accepted, so it is not sent: have Slipway set it first, with `bmc.accounts` and another credential in endpoints.manager", driver.ErrRefused, d.Account, ep.Credential)
	}
	return secret.Of{}, "", driver.Withhold("the BMC denied the password of %s that it accepted last%s. Slipway sends no other one, so that the account is not locked. Somebody has changed it there, or the BMC was reset: after a reset, give endpoints.manager the credential of the factory. Otherwise check the account on the BMC, then run `slipway retry %s`",
		d.Account, map[bool]string{true: ", and the one that was offered since"}[use.OfferedDenied], w.name)
}

// keyTo returns what opens an endpoint: its driver, the value of its credential, and which derived password that is.
func (w *worker) keyTo(ctx context.Context, n *site.Node, kind site.EndpointKind, ep site.Endpoint) (driver.Driver, secret.Value, secret.Of, error) {
	var unread error
	if kind == site.Manager {
		unread = w.recallPasswords(ctx, n)
	}
	if _, derived := n.References.Derived[ep.Credential]; kind != site.Manager || !derived {
		drv, value, err := driver.KeyTo(w.e.Drivers, w.loginsTo(ctx, n, kind), ep)
		return drv, value, secret.Of{}, err
	}
	if unread != nil {
		return nil, secret.Value{}, secret.Of{}, unread
	}
	j := w.job()
	j.node = n
	ep = withProvenBMC(n, ep, j.memory.Recorded)
	of, digest, err := w.derivedLogin(j, ep)
	if err != nil {
		return nil, secret.Value{}, secret.Of{}, err
	}
	drv, value, err := driver.KeyOf(w.e.Drivers, w.loginsTo(ctx, n, kind), ep, of)
	if err == nil && digest != "" && value.Digest(w.e.Site) != digest {
		err = fmt.Errorf("%w: the password of %s that the BMC accepted last was derived from another site key than the one of this daemon, so nothing is sent: put the right site key back, or write another credential into endpoints.manager", driver.ErrRefused, of.Account)
	}
	return drv, value, of, err
}

// mayLogIn says why a login of Slipway itself with a derived password is not sent, or returns nil. A driver that logs in
// anew by itself asks too: a handle that is open may hold a password that was replaced or denied meanwhile.
func (w *worker) mayLogIn(from string, as site.Derived, digest string) error {
	use := w.job().memory.Recorded.Accounts[as.Account]
	if !use.IsOf(from) {
		return driver.Withhold("the password of %s is that of another machine than the design has now, so it is not sent", as.Account)
	}
	if err := w.triedOut(as.Account, use, time.Now()); err != nil {
		return err
	}
	switch proven, offered := isProven(use, as, digest), isOffered(use, as, digest); {
	case proven && use.ProvenDenied && !offered, offered && use.OfferedDenied && !proven, proven && offered && use.ProvenDenied && use.OfferedDenied:
		return driver.Withhold("the BMC denied this password of %s, so it is not sent again. Check the account on the BMC, then run `slipway retry %s`", as.Account, w.name)
	case !proven && !offered && !nothingKnown(use):
		return driver.Withhold("%s already has another password than the one of epoch %d, so that one is not sent", as.Account, as.Epoch)
	}
	return nil
}

func isProven(u site.AccountUse, as site.Derived, digest string) bool {
	return u.ProvenAs != site.Derived{} && as == u.ProvenAs && (u.Proven == "" || u.Proven == digest)
}

func isOffered(u site.AccountUse, as site.Derived, digest string) bool {
	return u.OfferedAs != site.Derived{} && as == u.OfferedAs && (u.Offered == "" || u.Offered == digest)
}

// nothingKnown says whether no derived password of an account is known: then the designed one was tried.
func nothingKnown(u site.AccountUse) bool {
	return u.ProvenAs == site.Derived{} && u.OfferedAs == site.Derived{}
}

// derivedLoginEnded records how a login of Slipway itself with a derived password ended.
//
// It is of the machine that the endpoint was opened for, whatever the design names by then.
func (w *worker) derivedLoginEnded(ctx context.Context, from string, as site.Derived, digest string, accepted bool) error {
	if !w.job().memory.Recorded.Accounts[as.Account].IsOf(from) {
		return nil
	}
	alone := w.e.isAlone()
	return w.savePassword(ctx, from, as.Account, func(u *site.AccountUse) {
		proven, offered, nothing := isProven(*u, as, digest), isOffered(*u, as, digest), nothingKnown(*u)
		switch {
		case accepted && proven:
			// Another one may be offered all the same: a step may have logged in anew before it was set.
			u.Proven, u.ProvenDenied, u.Tries, u.TriedAt, u.Tried = digest, false, 0, time.Time{}, ""
			if alone && !u.IsSent() { // an earlier daemon named it, and did not set it
				u.OfferedAs, u.OfferedDenied = site.Derived{}, false
			}
		case accepted && (offered || nothing):
			u.Proven, u.ProvenAs, u.ProvenAt, u.Highest = digest, as, time.Now(), max(u.Highest, as.Epoch)
			u.Offered, u.OfferedAs, u.ProvenDenied, u.OfferedDenied, u.Tries, u.TriedAt, u.Tried = "", site.Derived{}, false, false, 0, time.Time{}, ""
			u.Changing = true // sessions of before may be open
		case !accepted:
			countTry(u, digest, time.Now())
			u.ProvenDenied = u.ProvenDenied || proven || nothing
			if offered {
				u.OfferedDenied, u.Offered = true, digest
			}
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
