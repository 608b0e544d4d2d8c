package drivertest

import (
	"errors"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

func wrongMachine(t *testing.T, s Suite, sub Subject) {
	refusesFor(t, s, sub, site.Identity{UUID: "11111111-2222-4333-8444-555555555555"})
}

func wrongSerial(t *testing.T, s Suite, sub Subject) {
	refusesFor(t, s, sub, site.Identity{UUID: sub.Node.Identity.UUID, Serial: "ANOTHER"})
}

func noMachineNamed(t *testing.T, s Suite, sub Subject) {
	refusesFor(t, s, sub, site.Identity{})
}

// refusesFor tries every action on a machine that the step is not for.
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

// anotherInTheMiddle swaps in another machine before each request of each step.
// That machine must not change, and the step must not claim to be done on it.
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

// mostRequests is the maximum number of requests of a step in the suite.
const mostRequests = 500

// swapAt reports whether the other machine came before the step was done.
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
