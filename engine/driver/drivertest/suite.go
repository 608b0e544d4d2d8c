package drivertest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Permitted permits whatever a step destroys, for tests of drivers alone.
func Permitted(context.Context) error { return nil }

// Suite is what a driver provides to be tested.
type Suite struct {
	Driver driver.Driver
	// Fresh returns a new machine: healthy, and off if the driver controls its
	// power. It is torn down with the test.
	Fresh func(t *testing.T) Subject
	// StartsAgent is set for a driver that starts Slipway's agent from a medium.
	StartsAgent bool
	// Patience limits each wait of the suite; 30 s if zero.
	Patience time.Duration
}

// Subject is one machine for the driver, with probes that look at the machine
// directly and not through the driver.
type Subject struct {
	Endpoint site.Endpoint
	Secret   secret.Value
	// Node is the machine in a design that asks nothing of it and has its
	// identity.
	Node *site.Node
	// Counts are the requests that the machine has received so far; a login is
	// not a write.
	Counts func() Counts
	// Power is "on" or "off". It is nil if the driver only observes.
	Power func() string
	// Image can be installed on the machine; nil if the driver does not
	// install.
	Image *site.Image
	// Swap makes another machine, alike and in the same state, answer at the
	// endpoint from the nth request on, the next being 1. It returns how many
	// changes that machine has carried out since. It is nil if no other machine
	// can appear at the endpoint.
	Swap func(n int) (strays func() int)
}

// Run checks a driver against the contract of package driver.
func Run(t *testing.T, s Suite) {
	if s.Patience == 0 {
		s.Patience = 30 * time.Second
	}
	tests := map[string]func(*testing.T, Suite, Subject){
		"observe changes nothing": observeChangesNothing,
		"foreseeable":             foreseeable,
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

// rarelyTold are facets that not every machine reports.
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
	case <-done: // an error, or a success that came first
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
