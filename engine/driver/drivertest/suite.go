package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Permitted permits whatever a step destroys, as tests of drivers alone want it.
func Permitted(context.Context) error { return nil }

// Suite is what a driver brings to be tested.
type Suite struct {
	Driver driver.Driver
	// Fresh makes a new machine: healthy, and off if the driver has power over
	// it. It is torn down with the test.
	Fresh func(t *testing.T) Subject
	// StartsAgent is set for a driver that starts Slipway's agent from a medium.
	StartsAgent bool
	// Patience bounds each wait of the suite; 30 s if zero.
	Patience time.Duration
}

// Subject is one machine to try the driver on, with probes that look at it
// from beside, not through the driver.
type Subject struct {
	Endpoint site.Endpoint
	Secret   secret.Value
	// Node is the machine in a design that asks nothing of it but has its
	// identity.
	Node *site.Node
	// Counts are the requests that the machine took so far; a login is not a
	// write.
	Counts func() Counts
	// Power is "on" or "off". It is nil when the driver only observes.
	Power func() string
	// Image can be installed on the machine; nil when the driver does not
	// install.
	Image *site.Image
	// Swap has another machine, alike and in the same state, answer at the
	// endpoint from the nth request on, the next being 1. It gives how many
	// changes that one has carried out since. nil where no other can come to
	// the endpoint.
	Swap func(n int) (strays func() int)
}

// Run holds a driver to the contract of package driver.
func Run(t *testing.T, s Suite) {
	if s.Patience == 0 {
		s.Patience = 30 * time.Second
	}
	tests := map[string]func(*testing.T, Suite, Subject){
		"observe changes nothing": observeChangesNothing,
		"unknown facet":           unknownFacet,
		"unknown action":          unknownAction,
		"bad credential":          badCredential,
		"asks before a login":     asksBeforeLogin,
		"cancelled observe":       cancelledObserve,
		"close ends":              closeEnds,
	}
	if s.Fresh(t).Power != nil {
		tests["converges"] = converges
		tests["apply twice"] = applyTwice
		tests["cancel"] = cancelApply
		tests["wrong machine"] = wrongMachine
		tests["wrong machine by serial"] = wrongSerial
		tests["no machine named"] = noMachineNamed
		tests["asks before it interrupts"] = asksBeforeInterruption
	}
	if s.Fresh(t).Swap != nil {
		tests["another machine in the middle of a step"] = anotherInTheMiddle
	}
	if s.Fresh(t).Image != nil {
		tests["installs once"] = installsOnce
		tests["asks before data is lost"] = asksBeforeLoss
		tests["asks again when resumed"] = asksWhenResumed
		if s.StartsAgent {
			tests["starts the agent"] = startsAgent
		}
		tests["restart in the middle"] = restartInTheMiddle
		tests["restart at any moment"] = restartAtAnyMoment
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(t, s, s.Fresh(t)) })
	}
}

// rarelyTold are facets that not every machine tells of.
var rarelyTold = []site.Facet{site.FacetSensors, site.FacetLog}

func observeChangesNothing(t *testing.T, s Suite, sub Subject) {
	m := s.open(t, sub)
	before := sub.Counts()
	for range 3 {
		seen, err := m.Observe(t.Context(), sub.Node, s.Driver.Facets())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range s.Driver.Facets() {
			if state, ok := seen.Facets[f]; !ok && slices.Contains(rarelyTold, f) {
				continue
			} else if !ok || state.Seen.IsZero() || state.Driver == "" {
				t.Errorf("facet %s was not seen: %+v", f, state)
			}
		}
		if sub.Power != nil && !sub.Node.Identity.Matches(seen.Identity) {
			t.Errorf("got identity %v, want %v", seen.Identity, sub.Node.Identity)
		}
	}
	if after := sub.Counts(); after.Writes != before.Writes || after.Resets != before.Resets {
		t.Errorf("got %+v after looking, had %+v", after, before)
	}
}

func unknownFacet(t *testing.T, s Suite, sub Subject) {
	seen, err := s.open(t, sub).Observe(t.Context(), sub.Node, []site.Facet{"no-such-facet"})
	if err != nil || len(seen.Facets) != 0 {
		t.Errorf("got %v, %v; want nothing seen and no error", seen.Facets, err)
	}
}

func unknownAction(t *testing.T, s Suite, sub Subject) {
	err := s.open(t, sub).Apply(t.Context(), step(sub, "no-such-facet", "no-such-action"), sub.Node, Permitted)
	if !errors.Is(err, errors.ErrUnsupported) || sub.Counts().Writes != 0 {
		t.Errorf("got %v and %d writes, want errors.ErrUnsupported and none", err, sub.Counts().Writes)
	}
}

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

// gatekeeper is a driver.Guard that notes what it was asked, and what came of
// it.
type gatekeeper struct {
	noLogin, noInterruption error // what it refuses them with, nil to allow them
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

// asksBeforeLogin: a password goes out only with the guard's consent, and the
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
		m.Close() // the next one is logged in anew
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

func cancelledObserve(t *testing.T, s Suite, sub Subject) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	if _, err := s.open(t, sub).Observe(ctx, sub.Node, s.Driver.Facets()); err == nil {
		t.Error("a cancelled look succeeded")
	}
	if took := time.Since(began); took > s.Patience/4 {
		t.Errorf("a cancelled look took %s", took)
	}
}

func closeEnds(t *testing.T, s Suite, sub Subject) {
	m := s.open(t, sub)
	if _, err := m.Observe(t.Context(), sub.Node, s.Driver.Facets()); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
}

// converges follows the design as the engine does: look, plan, take the first
// step, look again.
func converges(t *testing.T, s Suite, sub Subject) {
	m := s.open(t, sub)
	orders := [][]string{nil}
	if seen, err := m.Observe(t.Context(), sub.Node, []site.Facet{site.FacetBoot}); err != nil {
		t.Fatal(err)
	} else if b, ok := seen.Facets[site.FacetBoot]; ok {
		order := strings.Split(b.Have["order"], ",")
		reversed := slices.Clone(order)
		slices.Reverse(reversed)
		orders = [][]string{reversed, order[:1], reversed[:1]}
	}
	for _, power := range []string{"on", "off", "on"} {
		for _, order := range orders {
			n := *sub.Node
			n.Power, n.Boot.Order = power, order
			s.follow(t, m, &n, nil, &site.Memory{})
			if sub.Power() != power {
				t.Errorf("the machine is %s, the design says %s", sub.Power(), power)
			}
		}
	}
}

func applyTwice(t *testing.T, s Suite, sub Subject) {
	m := s.open(t, sub)
	for _, a := range []site.Action{site.ActionPowerOn, site.ActionPowerOff} {
		var after Counts
		for i := range 2 {
			if err := m.Apply(t.Context(), step(sub, site.FacetPower, a), sub.Node, Permitted); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				after = sub.Counts()
			}
		}
		if twice := sub.Counts(); twice.Resets != after.Resets || twice.Writes != after.Writes {
			t.Errorf("%s: got %+v after the second time, had %+v", a, twice, after)
		}
		if want := strings.TrimPrefix(string(a), "power-"); sub.Power() != want {
			t.Errorf("the machine is %s, want %s", sub.Power(), want)
		}
	}
}

func cancelApply(t *testing.T, s Suite, sub Subject) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	on := step(sub, site.FacetPower, site.ActionPowerOn)
	done := make(chan error, 1)
	m := s.open(t, sub)
	go func() { done <- m.Apply(ctx, on, sub.Node, Permitted) }()
	s.await(t, "the first write", func() bool { return sub.Counts().Writes > 0 })
	cancel()
	select {
	case <-done: // an error, or success that came first
	case <-time.After(s.Patience):
		t.Fatal("apply goes on after its context has ended")
	}
	on.Resumed = true
	if err := s.open(t, sub).Apply(t.Context(), on, sub.Node, Permitted); err != nil {
		t.Fatal(err)
	}
	if c := sub.Counts(); sub.Power() != "on" || c.Resets != 1 {
		t.Errorf("the machine is %s after %d resets, want on after 1", sub.Power(), c.Resets)
	}
}

func wrongMachine(t *testing.T, s Suite, sub Subject) {
	refusesFor(t, s, sub, site.Identity{UUID: "11111111-2222-4333-8444-555555555555"})
}

func wrongSerial(t *testing.T, s Suite, sub Subject) {
	refusesFor(t, s, sub, site.Identity{UUID: sub.Node.Identity.UUID, Serial: "ANOTHER"})
}

func noMachineNamed(t *testing.T, s Suite, sub Subject) {
	refusesFor(t, s, sub, site.Identity{})
}

// refusesFor tries every action on a machine that it is not meant for.
func refusesFor(t *testing.T, s Suite, sub Subject, other site.Identity) {
	n := *sub.Node
	n.Identity, n.Boot.Order = other, []string{"Pxe"}
	m := s.open(t, sub)
	for _, a := range []site.Action{site.ActionPowerOn, site.ActionPowerOff, site.ActionBootOrder, site.ActionStartAgent, site.ActionInstall, site.ActionFinishInstall, site.ActionFinishErase} {
		st := step(sub, site.FacetPower, a)
		st.Machine, st.Image, st.Generation = other, sub.Image, 1
		if err := m.Apply(t.Context(), st, &n, Permitted); !errors.Is(err, driver.ErrRefused) {
			t.Errorf("%s: got %v, want driver.ErrRefused", a, err)
		} else if strings.HasPrefix(err.Error(), string(a)+":") {
			t.Errorf("%q names the step, which its reader does too", err)
		}
	}
	if c := sub.Counts(); c.Writes != 0 || sub.Power() != "off" {
		t.Errorf("got %+v and power %s, want no write and off", c, sub.Power())
	}
}

// anotherInTheMiddle has another machine come to the endpoint before each request
// of each step: it is not changed, and the step does not claim to be done on it.
func anotherInTheMiddle(t *testing.T, s Suite, _ Subject) {
	for _, a := range []site.Action{site.ActionPowerOn, site.ActionPowerOff, site.ActionBootOrder, site.ActionStartAgent, site.ActionInstall, site.ActionFinishInstall} {
		for n, more := 1, true; more; n++ {
			sub := s.Fresh(t)
			if starts := a == site.ActionStartAgent; a == site.ActionInstall && sub.Image == nil || starts && !s.StartsAgent {
				break
			}
			if more = s.swapAt(t, sub, a, n); n > mostRequests {
				t.Fatalf("%s: takes more than %d requests", a, mostRequests)
			}
		}
	}
}

// mostRequests is how many a step of the suite has at most.
const mostRequests = 500

// swapAt says whether another machine came before the step was done.
func (s Suite) swapAt(t *testing.T, sub Subject, a site.Action, n int) bool {
	m := s.open(t, sub)
	design := *sub.Node
	design.Boot.Order = []string{"Pxe"}
	prepare := map[site.Action][]site.Step{
		site.ActionPowerOff:  {step(sub, site.FacetPower, site.ActionPowerOn)},
		site.ActionBootOrder: {step(sub, site.FacetPower, site.ActionPowerOn)},
	}[a]
	for _, st := range prepare {
		if err := m.Apply(t.Context(), st, sub.Node, Permitted); err != nil {
			t.Fatal(err)
		}
	}
	st := step(sub, site.FacetPower, a)
	st.Image, st.Generation = sub.Image, 1
	if a == site.ActionInstall {
		st.Impact = site.ImpactDestructive
	}
	strays := sub.Swap(n)
	err := m.Apply(t.Context(), st, &design, Permitted)
	if changed := strays(); changed > 0 {
		t.Errorf("%s: another machine before request %d was changed %d times (%v)", a, n, changed, err)
		return false
	}
	switch want := map[site.Action]string{site.ActionPowerOn: "on", site.ActionPowerOff: "off"}[a]; {
	case err == nil && want != "" && sub.Power() != want:
		t.Errorf("%s: another machine before request %d: success is claimed, and the machine is %s", a, n, sub.Power())
	case err != nil && !errors.Is(err, driver.ErrRefused) && !errors.Is(err, driver.ErrInterrupted) && !errors.Is(err, driver.ErrUnreachable):
		t.Errorf("%s: another machine before request %d: got %v, want it to be refused, or to be tried again", a, n, err)
	}
	return err != nil
}

func installsOnce(t *testing.T, s Suite, sub Subject) {
	n := *sub.Node
	n.Power, n.Image, n.Generation = "on", "image", 1
	s.follow(t, s.open(t, sub), &n, sub.Image, &site.Memory{})
	if c := sub.Counts(); c.Installs != 1 || sub.Power() != "on" {
		t.Errorf("got %d installations and power %s, want 1 and on", c.Installs, sub.Power())
	}
}

// startsAgent has the agent started only where that is permitted. It erases nothing, runs from the
// medium that it was given, and the machine boots from its disk again without waiting for
// whatever runs from there.
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

// asksBeforeLoss has an installation not permitted: nothing is installed, also
// when the machine is switched on later.
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
// permit the rest: what was prepared is taken back.
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
			return // it has booted the installer
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

// installs is a step that installs on the subject and destroys what it has.
func installs(sub Subject) site.Step {
	st := step(sub, site.FacetImage, site.ActionInstall)
	st.Image, st.Generation, st.Impact = sub.Image, 1, site.ImpactDestructive
	return st
}

// boots switches the machine on as somebody at its power button would, and
// fails the test when that installs something.
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

// restartInTheMiddle cuts an installation after each of its writes, as if the
// daemon had been killed, and goes on with a new handle.
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

// restartAtAnyMoment cuts the installation of a machine that is on at moments
// all over its time, and goes on with a new handle.
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

// installCutAt installs on a machine that is on, cut off once, and returns how
// long it took.
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
