package redfish

import (
	"cmp"
	"context"
	"errors"
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
func (m *machine) setOwn(ctx context.Context, k driver.Passwords, a accounts, w wantAccount) error {
	present := a.named(w.name)
	switch {
	case len(present) != 1 || w.name != m.client.value.Username():
		return refused("Slipway logs in with it, and the BMC does not list it once under this name; nothing was written")
	case w.state != site.AccountEnabled:
		return refused("Slipway logs in with it; nothing was written")
	}
	if k.Known(w.name, w.value).Offered {
		// A change that was broken off may have set it, while its session went on.
		switch err := m.proveOwn(ctx, k, w); {
		case err == nil:
			return k.Done(ctx, w.name)
		case !driver.WasDenied(err):
			return err
		}
	}
	if err := k.Begin(ctx, w.name, w.value); err != nil {
		return err
	}
	err := m.writeAccount(ctx, a, w, present)
	why := hidden(err, w.value)
	if notDone(why) {
		if err := k.Withdraw(ctx, w.name); err != nil {
			return err
		}
		return why
	}
	switch err := m.proveOwn(ctx, k, w); {
	case err == nil:
		return k.Done(ctx, w.name)
	case driver.WasDenied(err) && why != nil:
		return why
	case driver.WasDenied(err):
		return refused("the BMC accepted the password in credential %q, and denies a login with it: %s; check the account on the BMC, and its rules for passwords",
			w.credential, strings.TrimPrefix(printable(err.Error()), driver.ErrDenied.Error()+": "))
	default:
		return err
	}
}

// notDone says whether an error shows that a change was refused as a whole, or not sent at all.
func notDone(err error) bool {
	var answered *answerError
	if !errors.As(err, &answered) {
		return errors.Is(err, driver.ErrInterrupted)
	}
	return answered.status >= http.StatusBadRequest && answered.status < http.StatusInternalServerError && answered.status != http.StatusUnauthorized
}

// proveOwn is prove for the account that Slipway is logged in with. Over the fresh login it ends all other
// sessions of the account. Where one of them goes on the change has not come to its end.
func (m *machine) proveOwn(ctx context.Context, k driver.Passwords, w wantAccount) error {
	var ended error
	err := k.Prove(ctx, w.name, w.value, func() error {
		return m.client.loginWith(ctx, w.value, func(api *gofish.APIClient, session string) {
			ended = m.client.endOthers(api.WithContext(ctx), session, w.name)
		})
	})
	return cmp.Or(err, ended)
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
	list, err := get(c.sessions)
	if err != nil {
		return err
	}
	for _, path := range links(list, "Members") {
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
