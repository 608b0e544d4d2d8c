package drivertest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

func installsOnce(t *testing.T, s Suite, sub Subject) {
	n := *sub.Node
	n.Power, n.Image, n.Generation = "on", "image", 1
	s.follow(t, s.open(t, sub), &n, sub.Image, &site.Memory{})
	if c := sub.Counts(); c.Installs != 1 || sub.Power() != "on" {
		t.Errorf("got %d installations and power %s, want 1 and on", c.Installs, sub.Power())
	}
}

// startsAgent: the agent starts only with permission. It erases nothing and runs from the given
// medium. Afterwards the machine boots from its disk without waiting for whatever runs from there.
func startsAgent(t *testing.T, s Suite, sub Subject) {
	m := s.open(t, sub)
	st := step(sub, site.FacetImage, site.ActionStartAgent)
	st.Image, st.Generation, st.Impact = sub.Image, 1, site.ImpactReboot
	for _, may := range []driver.Permit{nil, func(context.Context) error { return driver.ErrNotPermitted }} {
		if err := m.Apply(t.Context(), st, sub.Node, may); !errors.Is(err, driver.ErrNotPermitted) {
			t.Errorf("got %v, want driver.ErrNotPermitted", err)
		}
	}
	if got := sub.Power(); got != "off" {
		t.Errorf("the machine is %s without permission", got)
	}
	for _, resumed := range []bool{false, true} {
		st.Resumed = resumed
		if err := m.Apply(t.Context(), st, sub.Node, Permitted); err != nil {
			t.Fatalf("resumed %t: %v", resumed, err)
		}
	}
	end := step(sub, site.FacetImage, site.ActionFinishInstall)
	end.Generation, end.FromMemory, end.Unseen = 1, true, true
	if err := m.Apply(t.Context(), end, sub.Node, Permitted); err != nil {
		t.Fatal(err)
	}
	if got := sub.Power(); got != "on" {
		t.Errorf("the machine is %s after it was to boot from its disk", got)
	}
	end.Resumed = true
	before := sub.Counts().Resets
	if err := m.Apply(t.Context(), end, sub.Node, Permitted); err != nil || sub.Counts().Resets != before {
		t.Errorf("once more: %v, %d resets after %d", err, sub.Counts().Resets, before)
	}
}

// installs is a step that installs on the subject and destroys what it has.
func installs(sub Subject) site.Step {
	st := step(sub, site.FacetImage, site.ActionInstall)
	st.Image, st.Generation, st.Impact = sub.Image, 1, site.ImpactDestructive
	return st
}

// boots switches the machine on as somebody at its power button would, and fails the test if that
// installs something.
func (s Suite) boots(t *testing.T, sub Subject) {
	on := step(sub, site.FacetPower, site.ActionPowerOn)
	on.AsSet = true // as it was left
	if err := s.open(t, sub).Apply(t.Context(), on, sub.Node, nil); err != nil {
		t.Fatal(err)
	}
	if c := sub.Counts(); c.Installs != 0 || sub.Power() != "on" {
		t.Errorf("got %d installations and power %s, want none and on", c.Installs, sub.Power())
	}
}

// restartInTheMiddle cuts an installation after each of its writes, as if the daemon had been
// killed, and continues with a new handle.
func restartInTheMiddle(t *testing.T, s Suite, sub Subject) {
	st := step(sub, site.FacetImage, site.ActionInstall)
	st.Image, st.Generation = sub.Image, 1
	for cut := sub.Counts().Writes + 1; ; cut++ {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		m := s.open(t, sub)
		go func() { done <- m.Apply(ctx, st, sub.Node, Permitted) }()
		err := s.cut(t, done, cancel, func() bool { return sub.Counts().Writes >= cut })
		cancel()
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		st.Resumed = true
	}
	s.await(t, "the installer to power the machine off", func() bool { return sub.Power() == "off" && sub.Counts().Installs > 0 })
	if c := sub.Counts(); c.Installs != 1 || c.Resets != 1 {
		t.Errorf("got %+v, want one installation and one reset", c)
	}
}

// restartAtAnyMoment cuts the installation of a machine that is on at moments spread over its
// duration, and continues with a new handle.
func restartAtAnyMoment(t *testing.T, s Suite, sub Subject) {
	const cuts = 12
	took := s.installCutAt(t, sub, s.Patience)
	for i := range cuts {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			sub := s.Fresh(t)
			t.Parallel()
			s.installCutAt(t, sub, took*time.Duration(i)/cuts)
		})
	}
}

// installCutAt installs on a machine that is on, with one interruption, and returns how long it
// took.
func (s Suite) installCutAt(t *testing.T, sub Subject, after time.Duration) time.Duration {
	if err := s.open(t, sub).Apply(t.Context(), step(sub, site.FacetPower, site.ActionPowerOn), sub.Node, Permitted); err != nil {
		t.Fatal(err)
	}
	st := step(sub, site.FacetImage, site.ActionInstall)
	st.Image, st.Generation = sub.Image, 1
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), after)
	defer cancel()
	if err := s.open(t, sub).Apply(ctx, st, sub.Node, Permitted); err != nil {
		st.Resumed = true
		if err := s.open(t, sub).Apply(t.Context(), st, sub.Node, Permitted); err != nil {
			t.Fatal(err)
		}
	}
	took := time.Since(began)
	s.await(t, "the installer to power the machine off", func() bool { return sub.Power() == "off" && sub.Counts().Installs > 0 })
	if c := sub.Counts(); c.Installs != 1 || c.Resets != 3 {
		t.Errorf("cut after %s: got %+v, want one installation, and the resets on, off, on", after, c)
	}
	return took
}
