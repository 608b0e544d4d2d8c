package redfish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/stmcginnis/gofish"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// setOwn replaces the derived password of the account that Slipway is logged in with. After the request that
// sets it nothing is sent with the earlier one any more, not even where a session goes on: one login with
// the new password tells whether it was set, and over this login all other sessions of the account are
// ended, our own among them. The engine logs in anew after it. Every request may be the last:
//
//	| what was done               | what is found after a restart                                        |
//	|-----------------------------|----------------------------------------------------------------------|
//	| the change is recorded      | the engine logs in with the proven password, or else the offered one |
//	| the password was set        | the same                                                             |
//	| a fresh login was accepted  | the same; it is recorded as proven once it was accepted              |
//	| other sessions were ended   | the new password is proven, and the sessions are ended once more     |
//
// Each of the two passwords is denied once at most before a person says that it is sent again. One that was sent is
// offered until a login has disproven it: one with it that is denied, or one with the present password that is accepted.
func (m *machine) setOwn(ctx context.Context, k driver.Passwords, a accounts, w wantAccount) error {
	present, known := a.named(w.name), k.Known(w.name, w.value)
	switch {
	case len(present) != 1 || w.name != m.client.value.Username():
		return refused("Slipway logs in with it, and the BMC does not list it once under this name; nothing was written")
	case present[0].locked:
		return errLocked // a login would be denied whatever the password is
	case w.state != site.AccountEnabled:
		return refused("Slipway logs in with it; nothing was written")
	case known.Denied:
		return refused("the BMC denied a login with the password in credential %q after it was sent to set it, so Slipway neither sets nor sends it again; check the account on the BMC, and its rules for passwords, then run `slipway retry`", w.credential)
	case known.Open:
		// A change that was broken off may have set a password, while its session went on.
		set, err := m.presentIsOver(ctx, k, w)
		switch {
		case err != nil:
			return err
		case set && !known.Offered:
			return fmt.Errorf("%w: the account no longer has the password that Slipway logged in with, so Slipway logs in again with the one that was offered", driver.ErrInterrupted)
		case set:
			return m.endOwn(ctx, k, w)
		}
	}
	if err := k.Begin(ctx, w.name, w.value); err != nil {
		return err
	}
	why := hidden(m.writeAccount(ctx, a, w, present), w.value)
	status, answered := statusOf(why)
	if why != nil && (!answered || status == http.StatusUnauthorized || status >= http.StatusInternalServerError) {
		return why // nobody knows whether it was set: it stays offered, and the next step asks
	}
	if err := sleep(ctx, ownSettles*m.opts.Poll); err != nil {
		return err
	}
	if status >= http.StatusBadRequest {
		// Some refuse a password that they have taken: the present one tells.
		switch set, err := m.presentIsOver(ctx, k, w); {
		case err != nil:
			return errors.Join(why, err)
		case !set:
			return cmp.Or(k.Withdraw(ctx, w.name), why)
		}
	}
	return m.endOwn(ctx, k, w)
}

// statusOf is the HTTP status of an answer that is an error.
func statusOf(err error) (status int, answered bool) {
	var e *answerError
	if !errors.As(err, &e) {
		return 0, false
	}
	return e.status, true
}

// ownSettles is how long a BMC has to put a password into effect before it is asked for it, in polls: 3 s. One that
// still has the earlier one then would deny the new one, which counts towards a lock.
const ownSettles = 3

// endOwn proves the new password of the account that Slipway is logged in with, and records that its change has come
// to its end.
func (m *machine) endOwn(ctx context.Context, k driver.Passwords, w wantAccount) error {
	switch err := m.proveOwn(ctx, k, w); {
	case driver.WasDenied(err):
		return refused("the BMC accepted the password in credential %q, and denies a login with it: %s; check the account on the BMC, and its rules for passwords",
			w.credential, strings.TrimPrefix(printable(err.Error()), driver.ErrDenied.Error()+": "))
	case err != nil:
		return err
	}
	return k.Done(ctx, w.name)
}

// presentIsOver logs in afresh with the password that Slipway has logged in with, and reports whether the BMC denies it:
// then it has another one.
func (m *machine) presentIsOver(ctx context.Context, k driver.Passwords, w wantAccount) (bool, error) {
	err := k.Prove(ctx, w.name, m.client.value, func() error { return m.client.loginAs(ctx, m.client.value) })
	if driver.WasDenied(err) {
		return true, nil
	}
	return false, err
}

// proveOwn is prove for the account that Slipway is logged in with. Over the fresh login it ends all other
// sessions of the account. Where one of them goes on the change has not come to its end; that the BMC does not
// let the account see or end them says nothing about its password.
func (m *machine) proveOwn(ctx context.Context, k driver.Passwords, w wantAccount) error {
	var ended error
	err := k.Prove(ctx, w.name, w.value, func() error {
		return m.client.loginWith(ctx, w.value, func(api *gofish.APIClient, session string) {
			ended = m.client.endOthers(api.WithContext(ctx), session, w.name)
		})
	})
	if err == nil && ended != nil {
		return refused("its new password is proven, and its other sessions are not all ended: %s", strings.ReplaceAll(printable(ended.Error()), driver.ErrDenied.Error()+": ", ""))
	}
	return err
}

// endOthers ends all sessions of an account but one, over the login of that one.
func (c *client) endOthers(api *gofish.APIClient, own, account string) error {
	get := func(path string) (object, error) {
		resp, err := api.Get(path)
		if err != nil {
			return nil, classify(err)
		}
		defer resp.Body.Close()
		return decode(path, resp)
	}
	var open []string
	pages := map[string]bool{}
	for page := c.sessions; page != "" && !pages[page]; {
		if len(open) > mostSessions {
			return refused("the BMC lists more than the %d sessions that Slipway reads", mostSessions)
		}
		list, err := get(page)
		if err != nil {
			return err
		}
		pages[page] = true
		open = append(open, links(list, "Members")...)
		page = at[string](list, "Members@odata.nextLink")
	}
	for _, path := range open {
		if key(path) == key(own) {
			continue
		}
		o, err := get(path)
		if hasStatus(err, http.StatusNotFound) || err == nil && !strings.EqualFold(at[string](o, "UserName"), account) {
			continue
		}
		if err != nil {
			return err
		}
		if _, err := api.Delete(path); err != nil && !hasStatus(err, http.StatusNotFound) {
			return classify(err)
		}
	}
	return nil
}
