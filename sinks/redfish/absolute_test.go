package redfish_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/redfish"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// A BMC that names resources with its own scheme and host is one like others: what
// is seen of it, what is read of its parts, and an installation are the same.
func TestAbsoluteLinks(t *testing.T) {
	for _, personality := range lab.Personalities {
		t.Run(personality, func(t *testing.T) {
			t.Parallel() // they mostly wait
			m := newRack(t, 1, func(m *lab.MachineConfig) { m.Personality, m.Power = personality, "on" }).take()
			want := whole(t, m)
			m.SetFault(lab.Fault{Kind: lab.FaultAbsolute})
			if got := whole(t, m); got != want {
				t.Errorf("seen\n%s\nwhere it was\n%s", got, want)
			}
			// The system is looked for where the endpoint does not name it.
			e := m.node.Endpoints[site.Manager]
			e.URL, _, _ = strings.Cut(e.URL, "/redfish/")
			m.node.Endpoints[site.Manager] = e
			h := m.open(t)
			if err := h.Apply(t.Context(), m.step(site.ActionInstall), m.node, drivertest.Permitted); err != nil {
				t.Fatal(err)
			}
			await(t, "the installer to end", func() bool { return m.power() == "off" })
			if err := h.Apply(t.Context(), m.step(site.ActionFinishInstall), m.node, drivertest.Permitted); err != nil {
				t.Fatal(err)
			}
			if s := m.State(); s.Media != "" || s.Power != "On" || s.Counts.Installs != 1 {
				t.Errorf("the machine is %+v", s)
			}
			h.Close()
			if n := m.State().Sessions; n != 0 {
				t.Errorf("%d sessions are left", n)
			}
		})
	}
}

// whole is all that a machine shows and is made of, as a text.
func whole(t *testing.T, m machine) string {
	t.Helper()
	h := m.open(t)
	defer h.Close()
	seen, err := h.Observe(t.Context(), m.node, redfish.New(patience).Facets())
	if err != nil {
		t.Fatal(err)
	}
	for f, state := range seen.Facets {
		state.Seen = time.Time{}
		seen.Facets[f] = state
	}
	inv, err := h.(driver.Inspector).Inspect(t.Context(), m.node)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent([]any{seen, inv}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Links to another host are not followed, and not for want of an answer.
func TestLinksToAnotherHost(t *testing.T) {
	m := newRack(t, 1, nil).take()
	m.SetFault(lab.Fault{Kind: lab.FaultElsewhere})
	h := m.open(t)
	err := h.Apply(t.Context(), m.step(site.ActionInstall), m.node, drivertest.Permitted)
	if !errors.Is(err, driver.ErrRefused) || errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), "192.0.2.1") {
		t.Errorf("got %v", err)
	}
	if slices.ContainsFunc([]string{"no such host", "deadline"}, func(s string) bool { return strings.Contains(err.Error(), s) }) {
		t.Errorf("it was asked for: %v", err)
	}
	if n := m.Writes(); n != 0 {
		t.Errorf("%d writes", n)
	}
}
