package redfish_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

func untold(string, int, int) {}

// lesser are the abilities that a kind of BMC has in part, or not at all; all
// others work.
var lesser = map[string]map[string]driver.Verdict{
	"plain":  {"BIOS intents": driver.Lacks},
	"idrac9": {"HTTP boot": driver.Partly, "ETags": driver.Lacks},
	"ilo5":   {"HTTP boot": driver.Partly, "BIOS intents": driver.Partly},
	"xcc":    {"HTTP boot": driver.Lacks, "BIOS intents": driver.Partly},
}

func TestGradeOnTheLab(t *testing.T) {
	for _, name := range lab.Personalities {
		t.Run(name, func(t *testing.T) {
			r := newRack(t, 1, func(m *lab.MachineConfig) { m.Personality = name })
			m := r.take()
			g, err := as[driver.Grader](t, m.open(t)).Grade(t.Context(), m.node.Identity, untold)
			if err != nil {
				t.Fatal(err)
			}
			if !m.node.Identity.Matches(g.Identity) {
				t.Errorf("got %v, want %v", g.Identity, m.node.Identity)
			}
			for _, a := range g.Abilities {
				want := lesser[name][a.Name]
				if want == "" {
					want = driver.Works
				}
				if a.Verdict != want || a.Text == "" {
					t.Errorf("%s: %s, %q; want %s", a.Name, a.Verdict, a.Text, want)
				}
			}
			if g.Requests == 0 || g.Bytes == 0 || len(g.Latency) < 3 || len(g.Abilities) < 10 {
				t.Errorf("%d abilities by %d requests, %d bytes, %v", len(g.Abilities), g.Requests, g.Bytes, g.Latency)
			}
			if w := written(r); len(w) > 0 {
				t.Errorf("a check wrote: %v", w)
			}
		})
	}
}

// By a wrong clock no certificate of an image server is valid, which a machine
// that boots nothing does not tell.
func TestQuirkWrongClock(t *testing.T) {
	m := newRack(t, 1, nil).take()
	m.SetFault(lab.Fault{Kind: lab.FaultClock})
	g, err := as[driver.Grader](t, m.open(t)).Grade(t.Context(), m.node.Identity, untold)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(g.Abilities, func(a driver.Ability) bool { return a.Name == "clock" })
	if a := g.Abilities[i]; a.Verdict != driver.Partly || !strings.Contains(a.Text, "1970-01-01") {
		t.Errorf("got %+v", a)
	}
}

// written are the requests of a fleet that asked for a change.
func written(r *rack) []lab.Call {
	return slices.DeleteFunc(r.Calls(), func(c lab.Call) bool { return !c.Write() })
}

// as is an ability that a handle has.
func as[T any](t *testing.T, h driver.Machine) T {
	t.Helper()
	able, ok := driver.As[T](h)
	if !ok {
		t.Fatalf("%T has no such ability", h)
	}
	return able
}

func TestBootOnce(t *testing.T) {
	r := newRack(t, 1, nil)
	m := r.take()
	h := as[driver.Booter](t, m.open(t))
	other := site.Identity{UUID: "3d1c0000-0000-4000-8000-999999999999"}
	if err := h.BootOnce(t.Context(), other, "Pxe"); !errors.Is(err, driver.ErrRefused) || len(written(r)) > 0 {
		t.Errorf("another machine is told where to boot from: %v, %v", err, written(r))
	}
	if err := h.BootOnce(t.Context(), m.node.Identity, "Zip"); err == nil || !strings.Contains(err.Error(), "only from") {
		t.Errorf("got %v", err)
	}
	if err := h.BootOnce(t.Context(), m.node.Identity, "Pxe"); err != nil || len(written(r)) != 1 {
		t.Errorf("got %v after %v", err, written(r))
	}
	shown, err := as[driver.Reader](t, m.open(t)).Read(t.Context(), "/redfish/v1/Systems/1")
	if err != nil || !strings.Contains(string(shown), `"BootSourceOverrideTarget":"Pxe"`) {
		t.Errorf("got %v, %s", err, shown)
	}
}

// What is captured tells nothing of the machine, and nothing was written.
func TestCapture(t *testing.T) {
	r := newRack(t, 1, nil)
	m := r.take()
	c, err := as[driver.Capturer](t, m.open(t)).Capture(t.Context(), driver.Bounds{}, untold)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(c.Resources)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Resources) < 10 || c.Left > 0 || c.Resources["/redfish/v1/Systems/1"] == nil {
		t.Errorf("%d resources, %d left: %s", len(c.Resources), c.Left, c.Why)
	}
	telling := []string{m.node.Identity.UUID, m.secret.Reveal(), "127.66."}
	for _, word := range telling {
		if strings.Contains(strings.ToLower(string(text)), strings.ToLower(word)) {
			t.Errorf("it tells %q", word)
		}
	}
	if strings.Contains(string(text), fmt.Sprintf(`"SerialNumber":%q`, m.node.Identity.Serial)) {
		t.Error("it tells the serial number")
	}
	if w := written(r); len(w) > 0 {
		t.Errorf("a capture wrote: %v", w)
	}
}

func TestCaptureIsBounded(t *testing.T) {
	r := newRack(t, 1, nil)
	c, err := as[driver.Capturer](t, r.take().open(t)).Capture(t.Context(), driver.Bounds{Requests: 8}, untold)
	if err != nil || len(r.Calls()) > 10 || c.Left == 0 || c.Why == "" {
		t.Errorf("%d requests, %d left for %q: %v", len(r.Calls()), c.Left, c.Why, err)
	}
}

// A person who looks must not lose what an earlier term has begun: nothing but
// logging in is let through, whatever is asked for.
func TestNothingIsWrittenWhileGrading(t *testing.T) {
	r := newRack(t, 1, nil)
	m := r.take()
	h := m.open(t)
	var err error
	_, gradeErr := as[driver.Grader](t, h).Grade(t.Context(), m.node.Identity, func(_ string, done, _ int) {
		if done == 3 {
			err = h.Apply(t.Context(), m.step(site.ActionPowerOn), m.node, drivertest.Permitted)
		}
	})
	if gradeErr != nil || !errors.Is(err, driver.ErrRefused) || len(written(r)) > 0 {
		t.Errorf("got %v and %v after %v", gradeErr, err, written(r))
	}
}
