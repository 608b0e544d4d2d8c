package redfish_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

func untold(string, int, int) {}

func TestGradeOfAPlainBMC(t *testing.T) {
	r := newRack(t, 1, nil)
	m := r.take()
	h := m.open(t)
	g, err := as[driver.Grader](t, h).Grade(t.Context(), untold)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.MarshalIndent(g, "", " ")
	t.Logf("%s", text)
	if g.Identity != m.node.Identity {
		t.Errorf("got %v", g.Identity)
	}
	verdicts := map[string]driver.Verdict{}
	for _, a := range g.Abilities {
		verdicts[a.Name] = a.Verdict
	}
	for _, name := range []string{"login", "identity", "power", "boot once", "boot order", "virtual media", "health"} {
		if verdicts[name] != driver.Works {
			t.Errorf("%s: %s", name, verdicts[name])
		}
	}
	if g.Requests == 0 || g.Bytes == 0 || len(g.Latency) < 3 {
		t.Errorf("%d requests, %d bytes, %v", g.Requests, g.Bytes, g.Latency)
	}
	if w := writes(r); len(w) > 0 {
		t.Errorf("a check wrote: %v", w)
	}
}

// writes are the requests of a fleet that asked for a change.
func writes(r *rack) []lab.Call {
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
	if err := h.BootOnce(t.Context(), other, "Pxe"); !errors.Is(err, driver.ErrRefused) || len(writes(r)) > 0 {
		t.Errorf("another machine is told where to boot from: %v, %v", err, writes(r))
	}
	if err := h.BootOnce(t.Context(), m.node.Identity, "Zip"); err == nil || !strings.Contains(err.Error(), "only from") {
		t.Errorf("got %v", err)
	}
	if err := h.BootOnce(t.Context(), m.node.Identity, "Pxe"); err != nil || len(writes(r)) != 1 {
		t.Errorf("got %v after %v", err, writes(r))
	}
	shown, err := as[driver.Reader](t, m.open(t)).Read(t.Context(), "/redfish/v1/Systems/1")
	if err != nil || !strings.Contains(string(shown), `"BootSourceOverrideTarget":"Pxe"`) {
		t.Errorf("got %v, %s", err, shown)
	}
}
