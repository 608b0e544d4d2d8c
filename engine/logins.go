package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// login decides whether a password is sent to one endpoint, and records what
// became of it. The rules, for one password:
//
//   - A machine that has accepted it gets it at any time.
//   - A machine that has denied it does not get it again.
//   - After driver.MostDenied denials it goes to no machine that has not accepted it
//     before. Until some machine has accepted it, a login without an answer yet
//     counts as a denial.
//   - A person's quarantine, or `slipway retry` of the node, sends it once more.
//
// A denial counts until the credential's file or the endpoint in the design
// changes, or a person retries.
type login struct {
	e          *Engine
	w          *worker // nil for a machine that was met in a sweep
	kind       site.EndpointKind
	who        string // the node's name, or the address of a machine without one
	url        string
	credential string
	value      secret.Value
	as         secret.Of // which derived password it is; zero for another one
}

// guarded is a context for calls through an endpoint that is open.
func (w *worker) guarded(ctx context.Context, kind site.EndpointKind) context.Context {
	return driver.Guarded(ctx, guard{login: w.loginTo(kind)})
}

func (w *worker) loginTo(kind site.EndpointKind) login {
	d := w.connections[kind]
	return login{e: w.e, w: w, kind: kind, who: w.name, url: d.endpoint.URL, credential: d.endpoint.Credential, value: d.value, as: d.as}
}

// Login implements driver.Guard.
func (l login) Login(ctx context.Context, send func() error) error {
	digest := l.value.Digest(l.e.Site)
	if l.as != (secret.Of{}) {
		if err := l.w.mayLogIn(l.as.Machine, l.as.Derived, digest); err != nil {
			return err
		}
	}
	if err := l.admit(ctx, digest); err != nil {
		return err
	}
	defer l.e.loginEnded(digest)
	err := send()
	l.ended(digest, err)
	ctx = context.WithoutCancel(ctx)
	if l.as != (secret.Of{}) && (err == nil || isDenied(err)) {
		if rerr := l.w.derivedLoginEnded(ctx, l.as.Machine, l.as.Derived, digest, err == nil); rerr != nil {
			return errors.Join(err, rerr)
		}
	}
	switch {
	case err == nil:
		return l.note(ctx, func(u *site.CredentialUse) {
			u.Accepted, u.Denied, u.DeniedAt = digest, "", time.Time{}
		})
	case isDenied(err):
		return errors.Join(err, l.note(ctx, func(u *site.CredentialUse) { u.Denied, u.DeniedAt = digest, time.Now() }))
	}
	return err
}

// loginAt is a password at a host. All nodes of an enclosure log in at one.
type loginAt struct{ host, digest string }

// loginEnd is how the last login ended since the daemon started.
type loginEnd struct {
	accepted time.Time // when the password was last accepted; zero if it never was, or was denied since
	// unanswered is set if the password may have been sent, and nothing has accepted or denied it.
	unanswered bool
}

func (l login) at(digest string) loginAt {
	at := loginAt{l.url, digest}
	if u, err := url.Parse(l.url); err == nil {
		at.host = u.Host
	}
	return at
}

// ended notes how a login ended that may have sent the password.
func (l login) ended(digest string, err error) {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	end := l.e.answered[l.at(digest)]
	switch {
	case err == nil:
		end = loginEnd{accepted: time.Now()}
	case isDenied(err):
		end = loginEnd{}
	case errors.Is(err, driver.ErrNotAsked):
	default:
		end.unanswered = true
	}
	l.e.answered[l.at(digest)] = end
}

// lastLogin is how the last login ended with the present password of an endpoint; zero if there
// was none, or the endpoint was not opened yet.
func (w *worker) lastLogin(kind site.EndpointKind) loginEnd {
	if d := w.connections[kind]; d == nil || d.value.IsZero() {
		return loginEnd{}
	}
	l := w.loginTo(kind)
	digest := l.value.Digest(w.e.Site)
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	return w.e.answered[l.at(digest)]
}

// admit returns when the password may be sent, and counts it as under way until
// loginEnded.
func (l login) admit(ctx context.Context, digest string) error {
	quarantine := l.quarantine()
	if !quarantine.IsZero() {
		if err := l.note(ctx, func(u *site.CredentialUse) { u.TriedFor = quarantine }); err != nil {
			return err
		}
	}
	asked := !quarantine.IsZero() || l.w != nil && l.w.oneTry
	if l.w != nil {
		l.w.oneTry = false
	}
	for {
		l.e.mu.Lock()
		wait, err := l.mayLocked(digest, asked)
		if wait == nil && err == nil {
			l.e.underway[digest]++
		}
		l.e.mu.Unlock()
		if wait == nil {
			return err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w: waited for another machine's answer to the same password: %w", driver.ErrBusy, driver.ErrNotSent, ctx.Err())
		}
	}
}

// mayLocked says why the password is not sent, or what to wait for before it is.
func (l login) mayLocked(digest string, asked bool) (wait <-chan struct{}, why error) {
	use := l.useLocked()
	if asked || use.Accepted == digest && use.Denied != digest {
		return nil, nil
	}
	if use.Denied == digest {
		return nil, driver.Withhold("%s denied credential %q at %s, and Slipway does not send it there again until its file or the endpoint in the design changes. "+
			"Correct the file or the account on the machine, then run `slipway retry %s`", l.who, l.credential, say.Clock(use.DeniedAt.UTC()), l.who)
	}
	denied, accepted := l.e.verdictsLocked(digest)
	switch {
	case len(denied) >= driver.MostDenied:
		return nil, driver.Withhold("%s", deniedBy(l.credential, denied)+". This machine has not accepted it before, so Slipway does not send it there")
	case !accepted && len(denied)+l.e.underway[digest] >= driver.MostDenied:
		return l.e.loginDone, nil
	}
	return nil, nil
}

// deniedBy says that a password is withheld, and what to do.
func deniedBy(credential string, denied []string) string {
	return fmt.Sprintf("credential %q was denied by %s, and its account may be locked soon. Correct its file, or the accounts on these machines, then run `slipway retry`",
		credential, some(denied))
}

// quarantine is when the node's quarantine began, if no password was sent for it
// yet that would not be sent otherwise, and zero otherwise.
func (l login) quarantine() time.Time {
	if l.w == nil {
		return time.Time{}
	}
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	q := l.w.memory.Recorded.Quarantined
	if q == nil || l.useLocked().TriedFor.Equal(q.Since) {
		return time.Time{}
	}
	return q.Since
}

// useLocked is what became of passwords at the endpoint as it is designed now.
func (l login) useLocked() site.CredentialUse {
	use := l.e.met[l.who]
	if l.w != nil {
		use = l.w.memory.Recorded.Credentials[l.kind]
	}
	if use.URL != l.url {
		use = site.CredentialUse{}
	}
	use.URL, use.Credential = l.url, l.credential
	return use
}

// note records what became of the password.
func (l login) note(ctx context.Context, change func(*site.CredentialUse)) error {
	l.e.mu.Lock()
	use := l.useLocked()
	before := use
	change(&use)
	if l.w == nil {
		l.e.met[l.who] = use
	}
	l.e.mu.Unlock()
	if use == before || l.w == nil {
		return nil
	}
	return l.w.save(ctx, func(r *site.Recorded) {
		all := maps.Clone(r.Credentials)
		if all == nil {
			all = map[site.EndpointKind]site.CredentialUse{}
		}
		all[l.kind] = use
		r.Credentials = all
	})
}

// verdictsLocked are the machines that deny a password, and whether any has
// accepted it.
func (e *Engine) verdictsLocked(digest string) (denied []string, accepted bool) {
	for _, u := range e.usesLocked() {
		if u.Denied == digest {
			denied = append(denied, u.who)
		}
		accepted = accepted || u.Accepted == digest && u.Denied != digest
	}
	slices.Sort(denied)
	return slices.Compact(denied), accepted
}

// usedBy is what became of the password at one endpoint.
type usedBy struct {
	who string
	site.CredentialUse
}

// usesLocked is what became of passwords at all endpoints that the design has,
// and at machines that were met in sweeps.
func (e *Engine) usesLocked() []usedBy {
	var all []usedBy
	for name, w := range e.workers {
		for kind, u := range w.memory.Recorded.Credentials {
			if w.node.Endpoints[kind].URL == u.URL {
				all = append(all, usedBy{name, u})
			}
		}
	}
	for address, u := range e.met {
		all = append(all, usedBy{address, u})
	}
	return all
}

// withheldLocked are the problems of credentials that are sent only to machines
// that have accepted them before.
func (e *Engine) withheldLocked() []site.Problem {
	denied := map[[2]string][]usedBy{}
	for _, u := range e.usesLocked() {
		if key := [2]string{u.Credential, u.Denied}; u.Denied != "" {
			denied[key] = append(denied[key], u)
		}
	}
	var all []site.Problem
	for key, those := range denied {
		slices.SortFunc(those, func(a, b usedBy) int { return a.DeniedAt.Compare(b.DeniedAt) })
		var who []string
		for _, u := range those {
			if !slices.Contains(who, u.who) {
				who = append(who, u.who)
			}
		}
		if len(who) < driver.MostDenied {
			continue
		}
		slices.Sort(who)
		all = append(all, site.Problem{About: "credential " + key[0], Since: those[driver.MostDenied-1].DeniedAt,
			What: deniedBy(key[0], who) + ". Until then Slipway sends it only to machines that have accepted it before"})
	}
	slices.SortFunc(all, func(a, b site.Problem) int { return a.Since.Compare(b.Since) })
	return all
}

// loginEnded wakes those that wait for the answer to the same password.
func (e *Engine) loginEnded(digest string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.underway[digest]--; e.underway[digest] == 0 {
		delete(e.underway, digest)
	}
	close(e.loginDone)
	e.loginDone = make(chan struct{})
}

// retryLogins forgets that passwords were denied.
func retryLogins(r *site.Recorded) {
	all := maps.Clone(r.Credentials)
	for kind, u := range all {
		u.Denied, u.DeniedAt = "", time.Time{}
		all[kind] = u
	}
	r.Credentials = all
	retryAccounts(r)
}
