package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// accountPasswords keeps what is known of the passwords of accounts of a node's BMC in the
// node's records, see driver.Passwords. They tell passwords apart by digests that are slow to
// compute, see secret.Value.Digest.
//
// They belong to one look or step, and to the design that it began with: whatever is merged meanwhile changes nothing
// of which password is sent, and of what is recorded of it.
type accountPasswords struct {
	w    *worker
	node *site.Node
}

// passwords are those of the accounts of a node's BMC, by the design that a look or step goes by.
func (w *worker) passwords(n *site.Node) accountPasswords { return accountPasswords{w, n} }

// mostAccountTries is how often a password is sent as an account that has not accepted it: BMCs
// lock an account, or block the sender, after three.
const mostAccountTries = 2

// accountTriesLast is how long such tries count, which is as long as the longest lock that is
// known: Lenovo's.
const accountTriesLast = time.Hour

func (p accountPasswords) digest(v secret.Value) string { return v.Digest(p.w.e.Site) }

// use is what is recorded of an account of this machine: of another one it says nothing.
func (p accountPasswords) use(account string) site.AccountUse {
	use := p.w.job().memory.Recorded.Accounts[account]
	if use.IsOf(p.node.DerivedFrom()) {
		return use
	}
	return site.AccountUse{}
}

// Known implements driver.Passwords.
func (p accountPasswords) Known(account string, v secret.Value) driver.PasswordKnown {
	use, digest := p.use(account), p.digest(v)
	return driver.PasswordKnown{
		Proven:  use.Proven == digest && use.Offered == "",
		Other:   use.Proven != "" && use.Proven != digest,
		Offered: use.Offered == digest,
		Denied:  use.Offered == digest && use.OfferedDenied,
		Open:    use.Offered != "" || use.OfferedAs != site.Derived{} || use.Tries > 0,
		As:      use.ProvenAs,
	}
}

// as says which derived password of an account a value is; zero for one that is not derived. One that should be derived
// and is none of which this is known is an error: nothing is recorded of it, and nothing sent.
func (p accountPasswords) as(account string, v secret.Value) (site.Derived, error) {
	use, digest := p.use(account), p.digest(v)
	designed, derived := p.node.References.Derived[p.node.BMC.Accounts[account].Credential]
	switch {
	case digest == use.Proven && use.ProvenAs != site.Derived{}:
		return use.ProvenAs, nil
	case digest == use.Offered && use.OfferedAs != site.Derived{}:
		return use.OfferedAs, nil
	case !derived:
		return site.Derived{}, nil
	}
	is, err := p.value(p.node.BMC.Accounts[account].Credential, designed)
	if err != nil {
		return site.Derived{}, err
	}
	if p.digest(is) != digest {
		return site.Derived{}, fmt.Errorf("%w: the password for %s is not the one that its design derives, so it is not sent", driver.ErrInterrupted, account)
	}
	return designed, nil
}

// value is a derived password of the machine.
func (p accountPasswords) value(credential string, d site.Derived) (secret.Value, error) {
	r, err := secret.ForEndpoint(credential, p.node.Endpoints[site.Manager].URL)
	if err != nil {
		return secret.Value{}, err
	}
	r.Of = secret.Of{Derived: d, Machine: p.node.DerivedFrom()}
	return p.w.e.Secrets.Get(r)
}

// mostRaised is by how much an epoch is raised at once: whoever raises it to the last one ends all rotations.
const mostRaised = 100

// Derived implements driver.Passwords.
func (p accountPasswords) Derived(account, credential string) (secret.Value, error) {
	j := p.w.job()
	j.node = p.node
	if _, read := p.w.e.publishedOf(p.w.name); !read {
		return secret.Value{}, errUnread
	}
	d, designed := j.node.References.Derived[credential]
	if !designed || d.Account != account {
		return secret.Value{}, fmt.Errorf("the credential %q is not the derived password of %s", credential, account)
	}
	// One that the account has, after the BMC refused a later one, is set no second time.
	use := p.use(account)
	has := d == use.ProvenAs && !use.ProvenDenied && use.Offered == "" && use.OfferedAs == site.Derived{}
	highest := max(use.Highest, p.w.e.highestOf(p.node.DerivedFrom(), account))
	switch {
	case d.Epoch < highest && !has:
		return secret.Value{}, errors.New(site.LoweredEpoch(credential, d.Epoch, highest))
	case highest > 0 && d.Epoch > highest+mostRaised:
		return secret.Value{}, fmt.Errorf("the epoch of the credential %s was raised from %d to %d, and Slipway raises it by %d at once at most, so that there are later ones: write %d", credential, highest, d.Epoch, mostRaised, highest+1)
	}
	if err := p.w.mayReceive(j, p.w.shownBy(site.Manager)); err != nil {
		return secret.Value{}, err
	}
	return p.value(credential, d)
}

// Changing implements driver.Passwords.
func (p accountPasswords) Changing() []string {
	var names []string
	for name, use := range p.w.job().memory.Recorded.Accounts {
		if use.Changing && use.IsOf(p.node.DerivedFrom()) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Logins implements driver.Passwords.
func (p accountPasswords) Logins() (map[string]string, error) {
	j := p.w.job()
	url := p.node.Endpoints[site.Manager].URL
	own, logins := p.node.Endpoints[site.Manager].Credential, map[string]string{}
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
	if v.IsZero() {
		return p.save(ctx, account, func(u *site.AccountUse) { u.Changing = true })
	}
	as, err := p.as(account, v)
	if err != nil {
		return err
	}
	digest, use := p.digest(v), p.use(account)
	if c := p.w.connections[site.Manager]; c != nil && c.as.Account == account && use.OfferedAs != (site.Derived{}) && !isOffered(use, as, digest) && !use.OfferedDenied {
		// It would be forgotten, and nobody could log in any more.
		return fmt.Errorf("%w: the password of epoch %d was offered to %s, and no login has shown whether the account has it", driver.ErrInterrupted, use.OfferedAs.Epoch, account)
	}
	if err := p.mayOffer(use, as); err != nil {
		return err
	}
	if err := p.deliver(ctx, account, v, time.Time{}); err != nil {
		return err
	}
	err = p.save(ctx, account, func(u *site.AccountUse) {
		u.Changing = true
		u.OfferedDenied = u.OfferedDenied && u.Offered == digest
		u.Offered, u.OfferedAs = digest, as
		u.Highest = max(u.Highest, as.Epoch)
	})
	if err != nil {
		return err
	}
	if err := p.mayOffer(use, as); err != nil { // asked again: reports that are built from now on name this password
		return errors.Join(err, p.save(ctx, account, func(u *site.AccountUse) { *u = use }))
	}
	return nil
}

// Prove implements driver.Passwords.
func (p accountPasswords) Prove(ctx context.Context, account string, v secret.Value, login func() error) error {
	as, err := p.as(account, v)
	if err != nil {
		return fmt.Errorf("%w: %w", driver.ErrNotSent, err)
	}
	digest, now := p.digest(v), time.Now()
	if err := p.w.triedOut(account, p.use(account), now); err != nil {
		return err
	}
	err = p.deliver(ctx, account, v, time.Time{})
	if err == nil {
		err = p.save(ctx, account, func(u *site.AccountUse) { countTry(u, digest, now) })
	}
	if err != nil {
		return err // what is not recorded and counted is not sent
	}
	err = login()
	ctx = context.WithoutCancel(ctx)
	switch {
	case err == nil:
		defer p.w.e.wake(rollout.PlaceTopic(p.w.name)) // others may wait for it, see rollout.Password
		return errors.Join(p.save(ctx, account, func(u *site.AccountUse) {
			u.Proven, u.ProvenAs, u.ProvenAt, u.Highest = digest, as, time.Now(), max(u.Highest, as.Epoch)
			u.Offered, u.OfferedAs, u.ProvenDenied, u.OfferedDenied = "", site.Derived{}, false, false
			u.Tries, u.TriedAt, u.Tried = 0, time.Time{}, ""
		}), p.deliver(ctx, account, v, time.Now()))
	case errors.Is(err, driver.ErrNotSent):
		return errors.Join(err, p.save(ctx, account, func(u *site.AccountUse) { u.Tries = max(0, u.Tries-1) }))
	case driver.WasDenied(err):
		return errors.Join(err, p.save(ctx, account, func(u *site.AccountUse) {
			u.OfferedDenied = u.OfferedDenied || u.Offered == digest
			u.ProvenDenied = u.ProvenDenied || u.Proven == digest
		}))
	}
	return err
}

// deliver records that the BMC is about to be given the password of an account, or with a time, that it was seen to have
// accepted it.
func (p accountPasswords) deliver(ctx context.Context, account string, v secret.Value, seen time.Time) error {
	credential := p.node.BMC.Accounts[account].Credential
	if credential == "" {
		return nil
	}
	is := site.Delivery{Secret: site.SecretOfCredential(credential), To: site.ToBMC, As: site.AsAccount(account), Seen: seen}
	return p.w.deliverTo(ctx, []string{p.w.name}, p.node, is, v)
}

// areRecent reports whether the tries of an account count. Where they were far in the future the clock was wrong.
func areRecent(u site.AccountUse, now time.Time) bool {
	since := now.Sub(u.TriedAt)
	return since < accountTriesLast && since > -accountTriesLast
}

// countTry counts a password that is sent, or was denied.
func countTry(u *site.AccountUse, digest string, now time.Time) {
	if !areRecent(*u, now) {
		u.Tries = 0
	}
	u.TriedAt, u.Tried = now, digest
	u.Tries++
}

// triedOut says why nothing is sent as an account: too many passwords in a row were not accepted. Whoever sent them counts:
// the BMC does not tell a login of Slipway itself from one that proves a password.
func (w *worker) triedOut(account string, use site.AccountUse, now time.Time) error {
	if use.Tries < mostAccountTries || !areRecent(use, now) {
		return nil
	}
	return driver.Withhold("Slipway tried to log in as the account %s %s without success. It does not try again before %s, so that the BMC does not lock the account. "+
		"Check the account on the BMC, then run `slipway retry %s`",
		account, say.Count(use.Tries, "time"), say.Clock(use.TriedAt.Add(accountTriesLast).UTC()), w.name)
}

// Withdraw implements driver.Passwords.
func (p accountPasswords) Withdraw(ctx context.Context, account string) error {
	return p.save(ctx, account, func(u *site.AccountUse) {
		u.Changing, u.Offered, u.OfferedAs, u.OfferedDenied = false, "", site.Derived{}, false
	})
}

// Done implements driver.Passwords.
func (p accountPasswords) Done(ctx context.Context, account string) error {
	return p.save(ctx, account, func(u *site.AccountUse) { u.Changing = false })
}

// save changes what is recorded of an account.
func (p accountPasswords) save(ctx context.Context, account string, change func(*site.AccountUse)) error {
	return p.w.savePassword(ctx, p.node.DerivedFrom(), account, change)
}

// savePassword changes what is recorded of an account of the machine with a UUID. The highest epoch, and the password that
// is proven, are recorded with the machine first.
func (w *worker) savePassword(ctx context.Context, from, account string, change func(*site.AccountUse)) error {
	is := useOf(w.job().memory.Recorded, account, from)
	change(&is)
	err := w.e.notePassword(ctx, from, account, is)
	if err != nil {
		return fmt.Errorf("the account %s: %w", account, err)
	}
	err = w.save(ctx, func(r *site.Recorded) {
		all := maps.Clone(r.Accounts)
		if all == nil {
			all = map[string]site.AccountUse{}
		}
		use := useOf(*r, account, from)
		change(&use)
		if use.From = ""; use.Highest > 0 {
			use.From = from
		}
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

// useOf is what is recorded of an account of the machine with a UUID. Of what is known of another machine only the tries
// count.
func useOf(r site.Recorded, account, from string) site.AccountUse {
	use := r.Accounts[account]
	if !use.IsOf(from) {
		use = site.AccountUse{Tries: use.Tries, TriedAt: use.TriedAt}
	}
	return use
}

// forgetAccounts forgets passwords of accounts that a BMC was seen not to have: one of that name
// that comes later is another one. It does not forget that of the own account, with which the BMC was looked at: a BMC
// that lets it in and does not list it, as some do while they start, has it.
func forgetAccounts(r *site.Recorded, seen site.FacetState, own string) {
	if seen.Seen.IsZero() || len(r.Accounts) == 0 {
		return
	}
	names := seen.AccountNames()
	if len(names) == 0 {
		return // the BMC did not tell of them
	}
	all := maps.Clone(r.Accounts)
	for name, use := range all {
		switch gone := !use.Changing && name != own && !slices.Contains(names, name); {
		case gone && use.Highest > 0:
			all[name] = site.AccountUse{Highest: use.Highest, From: use.From} // an earlier password does not come back
		case gone:
			delete(all, name)
		}
	}
	r.Accounts = all
}

// nextTry is the password that is sent when a person has one sent again of an account of which another one was offered: that
// which was not denied last, since a BMC may have taken one late. See derivedLogin for how Tried chooses.
func nextTry(u site.AccountUse) string {
	switch {
	case u.Tried == u.Offered && u.OfferedDenied:
		return u.Proven
	case u.Tried == u.Proven && u.ProvenDenied:
		return u.Offered
	}
	return u.Tried
}

// retryAccounts has passwords of accounts sent again that were not accepted: one only of an account of which two are
// known, since the next one could lock it.
func retryAccounts(r *site.Recorded) {
	all := maps.Clone(r.Accounts)
	for name, use := range all {
		if use.OfferedAs != (site.Derived{}) && use.Tried != "" {
			use.Tries, use.TriedAt, use.Tried = 1, time.Now(), nextTry(use)
		} else {
			use.Tries, use.TriedAt, use.Tried = 0, time.Time{}, ""
		}
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
		if err == nil && w.passwords(j.node).digest(secret.New(name, password)) != proven {
			return true
		}
	}
	return false
}
