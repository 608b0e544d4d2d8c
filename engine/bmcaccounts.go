package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// accountPasswords keeps what is known of the passwords of accounts of a node's BMC in the
// node's records, see driver.Passwords. They tell passwords apart by digests that are slow to
// compute, see secret.Value.Digest.
type accountPasswords struct{ w *worker }

// mostAccountTries is how often a password is sent as an account that has not accepted it: BMCs
// lock an account, or block the sender, after three.
const mostAccountTries = 2

// accountTriesLast is how long such tries count, which is as long as the longest lock that is
// known: Lenovo's.
const accountTriesLast = time.Hour

func (p accountPasswords) digest(v secret.Value) string { return v.Digest(p.w.e.Site) }

// use is what is recorded of an account.
func (p accountPasswords) use(account string) site.AccountUse {
	return p.w.job().memory.Recorded.Accounts[account]
}

// Known implements driver.Passwords.
func (p accountPasswords) Known(account string, v secret.Value) driver.PasswordKnown {
	use, digest := p.use(account), p.digest(v)
	return driver.PasswordKnown{
		Proven:  use.Proven == digest && use.Offered == "",
		Other:   use.Proven != "" && use.Proven != digest,
		Offered: use.Offered == digest,
		Epoch:   use.ProvenAs.Epoch,
	}
}

// as says which derived password the design has for an account; zero for another one.
func (p accountPasswords) as(account string) site.Derived {
	n := p.w.job().node
	return n.References.Derived[n.BMC.Accounts[account].Credential]
}

// Derived implements driver.Passwords.
func (p accountPasswords) Derived(account, credential string) (secret.Value, error) {
	j := p.w.job()
	if _, read := p.w.e.publishedOf(p.w.name); !read {
		return secret.Value{}, errUnread
	}
	d, designed := j.node.References.Derived[credential]
	if !designed || d.Account != account {
		return secret.Value{}, fmt.Errorf("the credential %q is not the derived password of %s", credential, account)
	}
	if highest := p.use(account).Highest; d.Epoch < highest {
		return secret.Value{}, errors.New(site.LoweredEpoch(credential, d.Epoch, highest))
	}
	if err := p.w.mayReceive(j, p.w.certificateOf(j.node)); err != nil {
		return secret.Value{}, err
	}
	r, err := secret.ForEndpoint(credential, j.node.Endpoints[site.Manager].URL)
	if err != nil {
		return secret.Value{}, err
	}
	r.Of = secret.Of{Derived: d, Machine: j.node.DerivedFrom()}
	return p.w.e.Secrets.Get(r)
}

// Changing implements driver.Passwords.
func (p accountPasswords) Changing() []string {
	var names []string
	for name, use := range p.w.job().memory.Recorded.Accounts {
		if use.Changing {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Logins implements driver.Passwords.
func (p accountPasswords) Logins() (map[string]string, error) {
	j := p.w.job()
	url := j.node.Endpoints[site.Manager].URL
	own, logins := j.node.Endpoints[site.Manager].Credential, map[string]string{}
	for _, credential := range j.site.LoginsAt(url) {
		r, err := secret.ForEndpoint(credential, url)
		if err != nil || credential == own {
			continue
		}
		if d, derived := j.site.Credentials[credential].Derived(); derived {
			logins[d.Account] = credential
			continue
		}
		v, err := p.w.e.Secrets.Get(r)
		if errors.Is(err, secret.ErrUnavailable) {
			return nil, fmt.Errorf("the credential %q: %w", credential, err)
		}
		if err == nil && v.Username() != "" { // others are not for this address
			logins[v.Username()] = credential
		}
	}
	return logins, nil
}

// Begin implements driver.Passwords.
func (p accountPasswords) Begin(ctx context.Context, account string, v secret.Value) error {
	return p.save(ctx, account, func(u *site.AccountUse) {
		u.Changing = true
		if as := p.as(account); !v.IsZero() {
			u.Offered, u.OfferedAs, u.OfferedDenied = p.digest(v), as, false
			u.Highest = max(u.Highest, as.Epoch)
		}
	})
}

// Prove implements driver.Passwords.
func (p accountPasswords) Prove(ctx context.Context, account string, v secret.Value, login func() error) error {
	digest, now := p.digest(v), time.Now()
	use := p.use(account)
	if use.Tries >= mostAccountTries && now.Sub(use.TriedAt) < accountTriesLast {
		return driver.Withhold("Slipway tried to log in as the account %s %s without success. It does not try again before %s, so that the BMC does not lock the account. "+
			"Check the account on the BMC, then run `slipway retry %s`",
			account, say.Count(use.Tries, "time"), say.Clock(use.TriedAt.Add(accountTriesLast).UTC()), p.w.name)
	}
	err := p.save(ctx, account, func(u *site.AccountUse) {
		if now.Sub(u.TriedAt) >= accountTriesLast {
			u.Tries = 0
		}
		u.TriedAt = now
		u.Tries++
	})
	if err != nil {
		return err // what is not counted is not sent
	}
	err = login()
	ctx = context.WithoutCancel(ctx)
	switch {
	case err == nil:
		return p.save(ctx, account, func(u *site.AccountUse) {
			as := p.as(account)
			u.Proven, u.ProvenAs, u.ProvenAt, u.Highest = digest, as, time.Now(), max(u.Highest, as.Epoch)
			u.Offered, u.OfferedAs, u.ProvenDenied, u.OfferedDenied = "", site.Derived{}, false, false
			u.Tries, u.TriedAt = 0, time.Time{}
		})
	case errors.Is(err, driver.ErrNotSent):
		return errors.Join(err, p.save(ctx, account, func(u *site.AccountUse) { u.Tries-- }))
	}
	return err
}

// Withdraw implements driver.Passwords.
func (p accountPasswords) Withdraw(ctx context.Context, account string) error {
	return p.save(ctx, account, func(u *site.AccountUse) { u.Changing, u.Offered, u.OfferedAs = false, "", site.Derived{} })
}

// Done implements driver.Passwords.
func (p accountPasswords) Done(ctx context.Context, account string) error {
	return p.save(ctx, account, func(u *site.AccountUse) { u.Changing = false })
}

// save changes what is recorded of an account.
func (p accountPasswords) save(ctx context.Context, account string, change func(*site.AccountUse)) error {
	err := p.w.save(ctx, func(r *site.Recorded) {
		all := maps.Clone(r.Accounts)
		if all == nil {
			all = map[string]site.AccountUse{}
		}
		use := all[account]
		change(&use)
		all[account] = use
		if use == (site.AccountUse{}) {
			delete(all, account)
		}
		r.Accounts = all
	})
	if err != nil {
		return fmt.Errorf("the account %s: %w", account, err)
	}
	return nil
}

// forgetAccounts forgets passwords of accounts that a BMC was seen not to have: one of that name
// that comes later is another one.
func forgetAccounts(r *site.Recorded, seen site.FacetState) {
	if seen.Seen.IsZero() || len(r.Accounts) == 0 {
		return
	}
	names := seen.AccountNames()
	if len(names) == 0 {
		return // the BMC did not tell of them
	}
	all := maps.Clone(r.Accounts)
	for name, use := range all {
		switch gone := !use.Changing && !slices.Contains(names, name); {
		case gone && use.Highest > 0:
			all[name] = site.AccountUse{Highest: use.Highest} // an earlier password does not come back
		case gone:
			delete(all, name)
		}
	}
	r.Accounts = all
}

// retryAccounts has passwords of accounts sent again that were not accepted.
func retryAccounts(r *site.Recorded) {
	all := maps.Clone(r.Accounts)
	for name, use := range all {
		use.Tries, use.TriedAt = 0, time.Time{}
		use.ProvenDenied, use.OfferedDenied = false, false
		all[name] = use
	}
	r.Accounts = all
}

// hasOtherPassword says whether an account was seen to have the password that its credential
// had, and the credential has another value by now.
func (w *worker) hasOtherPassword(j job) bool {
	seen, uses := j.memory.Observed.Facets[site.FacetAccounts], j.memory.Recorded.Accounts
	for name, a := range j.node.BMC.Accounts {
		proven := uses[name].Proven
		if proven == "" || !a.IsEnabled() || seen.Have[name+"."+site.AccountPassword] != site.PasswordOf(a.Credential) {
			continue
		}
		r, err := secret.ForEndpoint(a.Credential, j.node.Endpoints[site.Manager].URL)
		if err != nil {
			continue // the step says so
		}
		v, err := w.e.Secrets.Get(r)
		if err != nil {
			continue
		}
		password, err := v.Password()
		if err == nil && (accountPasswords{w}).digest(secret.New(name, password)) != proven {
			return true
		}
	}
	return false
}
