package redfish

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
)

// prove logs in as an account, in a session of its own that is ended at once. Nothing but a
// fresh login tells whether a password is an account's.
func (m *machine) prove(ctx context.Context, k driver.Passwords, w wantAccount) error {
	return k.Prove(ctx, w.name, w.value, func() error {
		if _, err := m.client.get(ctx, m.path); err != nil { // what answers is still the machine of the step
			return fmt.Errorf("%w: %w", driver.ErrNotSent, err)
		}
		if err := m.client.loginAs(ctx, w.value); err != nil {
			return err
		}
		// And still is, as far as its session goes on: otherwise another BMC has judged the password.
		_, err := m.client.get(ctx, m.path)
		return err
	})
}

// loginAs logs in with another account than the client's, and out again.
func (c *client) loginAs(ctx context.Context, v secret.Value) error {
	return c.loginWith(ctx, v, nil)
}

// loginWith is loginAs. Between the two it calls a function with the login and the path of its session,
// unless that is nil, or the session has no name or the BMC no sessions.
func (c *client) loginWith(ctx context.Context, v secret.Value, meanwhile func(api *gofish.APIClient, session string)) error {
	sessions, err := c.sessionsPath(ctx)
	if err != nil {
		return err
	}
	if sessions == "" {
		return c.basicAs(ctx, v)
	}
	anonymous, err := c.offline(gofish.ClientConfig{})
	if err != nil {
		return err
	}
	if err := driver.MayWrite(ctx); err != nil { // said here, so that it counts as no login
		return fmt.Errorf("%w: %w", driver.ErrNotSent, err)
	}
	resp, err := anonymous.WithContext(ctx).Post(sessions, map[string]string{"UserName": v.Username(), "Password": passwordIn(v)})
	if err != nil {
		return deniedAs(err, v)
	}
	token := resp.Header.Get("X-Auth-Token")
	if token == "" {
		return refused("POST %s accepted the login and gave no X-Auth-Token", sessions)
	}
	var made object
	if o, err := decode(sessions, resp); err == nil { // some answer with nothing
		made = o
	}
	makeRelative(made, c.host)
	path := c.sessionPath(resp, link(made))
	own, err := c.offline(gofish.ClientConfig{Session: &gofish.Session{ID: path, Token: token}})
	if err != nil {
		return err
	}
	if meanwhile != nil {
		meanwhile(own, path)
	}
	if path == "" {
		return nil // it cannot be ended; the BMC forgets it by itself
	}
	// What becomes of it is no reason to doubt the password: sessions of the account are ended next.
	_, _ = own.WithContext(ctx).Delete(path)
	return nil
}

// basicAs is loginAs on a BMC without sessions. An account that may read nothing is known all
// the same.
func (c *client) basicAs(ctx context.Context, v secret.Value) error {
	api, err := c.offline(gofish.ClientConfig{Username: v.Username(), Password: passwordIn(v), BasicAuth: true})
	if err != nil {
		return err
	}
	_, err = api.WithContext(ctx).Get(systemsPath)
	if err == nil || hasStatus(err, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed) {
		return nil
	}
	return deniedAs(err, v)
}

// deniedAs is why a login was not accepted, without the password. Some BMCs answer 400 to a
// wrong one.
func deniedAs(err error, v secret.Value) error {
	err = hidden(classify(err), v)
	var e *answerError
	if errors.As(err, &e) && e.class == driver.ErrRefused && (e.status == http.StatusBadRequest || e.status == http.StatusForbidden) {
		e.class = driver.ErrDenied
	}
	return err
}

// hidden is an error of a request that carried a password, without the BMC's own text: BMCs
// repeat values that they refuse (DSP0268, Base.PropertyValueFormatError), as they are, cut or
// written in another way. What is shown are the ids of its messages that look like ids.
func hidden(err error, v secret.Value) error {
	var e *answerError
	if !errors.As(err, &e) || v.IsZero() {
		return err
	}
	e.ids = slices.DeleteFunc(e.ids, func(id string) bool {
		return !messageName.MatchString(id) || strings.Contains(id, passwordIn(v)) || strings.Contains(passwordIn(v), id)
	})
	e.said = ""
	if len(e.ids) > 0 {
		e.said = "its messages are " + strings.Join(e.ids, ", ")
	}
	return err
}

// messageName is what the key of a message of a registry looks like (DSP0266 section 9.5.11).
var messageName = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{2,63}$`)

// sessionsPath is where sessions are made; empty where the BMC has none.
func (c *client) sessionsPath(ctx context.Context) (string, error) {
	if err := c.gate.Acquire(ctx, 1); err != nil {
		return "", classify(err)
	}
	defer c.gate.Release(1)
	return c.sessions, nil
}

// passwordIn is the password that a value has, which was seen to be one when it was got.
func passwordIn(v secret.Value) string {
	password, _ := v.Password()
	return password
}
