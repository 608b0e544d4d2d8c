package drivertest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

func badCredential(t *testing.T, s Suite, sub Subject) {
	const wrong = "not-the-passw0rd"
	sub.Secret = secret.New(sub.Secret.Username(), wrong)
	m := s.open(t, sub)
	_, err := m.Observe(t.Context(), sub.Node, s.Driver.Facets())
	if !errors.Is(err, driver.ErrDenied) {
		t.Fatalf("got %v, want driver.ErrDenied", err)
	}
	if strings.Contains(err.Error(), wrong) {
		t.Errorf("the error tells the password: %v", err)
	}
	if err := m.Apply(t.Context(), step(sub, site.FacetPower, site.ActionPowerOn), sub.Node, Permitted); err == nil || sub.Counts().Writes != 0 {
		t.Errorf("apply gave %v and wrote %d times", err, sub.Counts().Writes)
	}
}

// gatekeeper is a driver.Guard that notes what it was asked, and the results.
type gatekeeper struct {
	noLogin, noInterruption error // the errors to refuse with, nil to allow
	logins, interruptions   []error
}

func (g *gatekeeper) Login(_ context.Context, send func() error) error {
	err := g.noLogin
	if err == nil {
		err = send()
	}
	g.logins = append(g.logins, err)
	return err
}

func (g *gatekeeper) Interrupt(_ context.Context, send func() error) error {
	err := g.noInterruption
	if err == nil {
		err = send()
	}
	g.interruptions = append(g.interruptions, err)
	return err
}

// asksBeforeLogin: a password is sent only with the guard's consent, and the
// guard learns whether it was accepted.
func asksBeforeLogin(t *testing.T, s Suite, sub Subject) {
	if sub.Secret.IsZero() || sub.Secret.IsPEM() {
		return // no password is sent
	}
	right, wrong := sub, sub
	wrong.Secret = secret.New(sub.Secret.Username(), "not-the-passw0rd")
	for _, c := range []struct {
		what string
		sub  Subject
		g    gatekeeper
		want error
	}{
		{"the right password", right, gatekeeper{}, nil},
		{"a wrong password", wrong, gatekeeper{}, driver.ErrDenied},
		{"a login that is not allowed", right, gatekeeper{noLogin: driver.ErrDenied}, driver.ErrDenied},
		{"a login that has to wait", right, gatekeeper{noLogin: driver.ErrBusy}, driver.ErrBusy},
	} {
		m := s.open(t, c.sub)
		_, err := m.Observe(driver.Guarded(t.Context(), &c.g), sub.Node, s.Driver.Facets())
		m.Close() // so that the next one logs in anew
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: got %v, want %v", c.what, err, c.want)
		}
		if len(c.g.logins) != 1 || !errors.Is(c.g.logins[0], c.want) {
			t.Errorf("%s: the guard was asked for logins that ended with %v, want one with %v", c.what, c.g.logins, c.want)
		}
		if len(c.g.interruptions) > 0 {
			t.Errorf("%s: a look interrupted the machine", c.what)
		}
	}
}

// asksBeforeInterruption: a machine is switched off only with the guard's consent.
func asksBeforeInterruption(t *testing.T, s Suite, sub Subject) {
	ctx := t.Context()
	on, off := step(sub, site.FacetPower, site.ActionPowerOn), step(sub, site.FacetPower, site.ActionPowerOff)
	refuses, allows := &gatekeeper{noInterruption: driver.ErrNotPermitted}, &gatekeeper{}
	if err := s.open(t, sub).Apply(driver.Guarded(ctx, refuses), on, sub.Node, Permitted); err != nil {
		t.Fatal("switching on a machine that is off interrupts nothing:", err)
	}
	resets := sub.Counts().Resets
	err := s.open(t, sub).Apply(driver.Guarded(ctx, refuses), off, sub.Node, Permitted)
	if !errors.Is(err, driver.ErrNotPermitted) || len(refuses.interruptions) != 1 {
		t.Errorf("the guard was asked %d times and refused, and the step ended with %v", len(refuses.interruptions), err)
	}
	if c := sub.Counts(); c.Resets != resets || sub.Power() != "on" {
		t.Errorf("refused: got %d resets and power %s, want %d and on", c.Resets, sub.Power(), resets)
	}
	if err := s.open(t, sub).Apply(driver.Guarded(ctx, allows), off, sub.Node, Permitted); err != nil {
		t.Fatal(err)
	}
	if sub.Power() != "off" || len(allows.interruptions) == 0 {
		t.Errorf("allowed: the machine is %s, and the guard was asked %d times", sub.Power(), len(allows.interruptions))
	}
}

// asksBeforeLoss: if an installation is not permitted, nothing is installed,
// even when the machine is switched on later.
func asksBeforeLoss(t *testing.T, s Suite, sub Subject) {
	m := s.open(t, sub)
	asked := 0
	for _, resumed := range []bool{false, true} {
		st := installs(sub)
		st.Resumed = resumed
		err := m.Apply(t.Context(), st, sub.Node, func(context.Context) error {
			asked++
			return driver.ErrNotPermitted
		})
		if !errors.Is(err, driver.ErrNotPermitted) {
			t.Errorf("resumed %t: got %v, want driver.ErrNotPermitted", resumed, err)
		}
	}
	if asked != 2 {
		t.Errorf("permission was asked for %d times, want 2", asked)
	}
	if err := m.Apply(t.Context(), installs(sub), sub.Node, nil); !errors.Is(err, driver.ErrNotPermitted) {
		t.Errorf("without a permit: got %v, want driver.ErrNotPermitted", err)
	}
	s.boots(t, sub)
}

// asksWhenResumed cuts an installation after each of its writes and does not
// permit the rest. The driver must revert what was prepared.
func asksWhenResumed(t *testing.T, s Suite, sub Subject) {
	for cut := 1; ; cut++ {
		sub := s.Fresh(t)
		before := sub.Counts()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		m := s.open(t, sub)
		go func() { done <- m.Apply(ctx, installs(sub), sub.Node, Permitted) }()
		err := s.cut(t, done, cancel, func() bool { return sub.Counts().Writes >= before.Writes+cut })
		cancel()
		if err == nil || sub.Counts().Resets > before.Resets {
			return // the installer has booted
		}
		st := installs(sub)
		st.Resumed = true
		err = s.open(t, sub).Apply(t.Context(), st, sub.Node, func(context.Context) error { return driver.ErrNotPermitted })
		if !errors.Is(err, driver.ErrNotPermitted) {
			t.Errorf("cut after %d writes: got %v, want driver.ErrNotPermitted", cut, err)
		}
		s.boots(t, sub)
	}
}
