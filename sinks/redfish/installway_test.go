package redfish_test

import (
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

// What holds of an installation by virtual media holds of one by HTTP: where the
// design asks for it, and where the BMC has no drive.
func TestConformanceByHTTP(t *testing.T) {
	for name, by := range map[string]string{"plain": "", "idrac9": "", "ilo5": "http", "xcc": "http"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they mostly wait
			r := newRack(t, 60, func(m *lab.MachineConfig) { m.Personality, m.HTTPBoot, m.NoMedia = name, true, by == "" })
			drivertest.Run(t, drivertest.Suite{StartsAgent: true, Driver: redfish.New(patience), Fresh: func(t *testing.T) drivertest.Subject {
				m := r.take()
				m.node.Boot.InstallBy = by
				return m.subject()
			}})
		})
	}
}

// An installation by HTTP ends with nothing left to boot from, and the drive is
// not touched.
func TestInstallationByHTTP(t *testing.T) {
	m := newRack(t, 1, func(m *lab.MachineConfig) { m.Power = "on" }).take()
	m.node.Boot.InstallBy = "http"
	h := m.open(t)
	if err := h.Apply(t.Context(), m.step(site.ActionInstall), m.node, drivertest.Permitted); err != nil {
		t.Fatal(err)
	}
	if s := m.State(); s.BootURL != m.image.URL || s.Media != "" {
		t.Errorf("the machine is to boot from %q, its drive holds %q", s.BootURL, s.Media)
	}
	finish := func() error {
		return h.Apply(t.Context(), m.step(site.ActionFinishInstall), m.node, drivertest.Permitted)
	}
	if err := finish(); m.power() != "off" && !errors.Is(err, driver.ErrBusy) {
		t.Errorf("finished while the installer runs: %v", err)
	}
	await(t, "the installer to end", func() bool { return m.power() == "off" })
	if err := finish(); err != nil {
		t.Fatal(err)
	}
	if s := m.State(); s.BootURL != "" || s.Power != "On" || s.DiskDigest != m.image.SHA256 || s.Counts.Installs != 1 {
		t.Errorf("the machine is %+v", s)
	}
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited for %s", what)
		}
	}
}

func TestInstallationByWhatTheMachineLacks(t *testing.T) {
	for name, c := range map[string]struct {
		by     string
		change func(*lab.MachineConfig)
		says   string
	}{
		"no HTTP boot":            {"http", func(m *lab.MachineConfig) { m.Personality = "xcc" }, "boot.installBy"},
		"no drive":                {"media", func(m *lab.MachineConfig) { m.NoMedia = true }, "no virtual media slot"},
		"neither":                 {"", func(m *lab.MachineConfig) { m.Personality, m.NoMedia = "ilo5", true }, "no virtual media slot"},
		"UefiHttp, without a URL": {"http", func(m *lab.MachineConfig) { m.Personality = "idrac9" }, "HttpBootUri"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newRack(t, 1, c.change).take()
			m.node.Boot.InstallBy = c.by
			h := m.open(t)
			err := h.Apply(t.Context(), m.step(site.ActionInstall), m.node, drivertest.Permitted)
			if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v", err)
			}
			// An inspection tells it before anybody tries.
			i, ok := driver.As[driver.Inspector](h)
			if !ok {
				t.Fatal("it cannot be inspected")
			}
			inv, err := i.Inspect(t.Context(), m.node)
			if err != nil || !strings.Contains(inv.Lacks.Why(m.node, site.ActionInstall), c.says) || inv.Lacks.Why(m.node, site.ActionRestart) != "" {
				t.Errorf("it lacks %+v (%v)", inv.Lacks, err)
			}
			// It tells it too of a machine whose design asks for another way.
			other := *m.node
			other.Boot.InstallBy = map[string]string{"": "http"}[c.by]
			inv, err = i.Inspect(t.Context(), &other)
			if err != nil || !strings.Contains(inv.Lacks.Why(m.node, site.ActionInstall), c.says) {
				t.Errorf("seen for another design it lacks %+v (%v)", inv.Lacks, err)
			}
			if n := m.Writes(); n != 0 {
				t.Errorf("%d writes", n)
			}
		})
	}
}

// The boot mode is set and seen, however the BMC wants to be told; where it
// cannot be, it is said why.
func TestBootMode(t *testing.T) {
	for name, c := range map[string]struct {
		personality string
		fault       lab.FaultKind
		says        string // "" sets it
	}{
		"idrac9":            {"idrac9", "", ""},
		"ilo5":              {"ilo5", "", ""},
		"xcc":               {"xcc", "", ""},
		"all three or none": {"idrac9", lab.FaultFullBoot, ""},
		"a settings object": {"idrac9", lab.FaultFutureState, ""},
		"UEFI only":         {"plain", "", "cannot be told to boot by bios"},
		"without a mode":    {"idrac9", lab.FaultModeUnknown, "cannot set how the firmware boots"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newRack(t, 1, func(m *lab.MachineConfig) { m.Personality = c.personality }).take()
			m.SetFault(lab.Fault{Kind: c.fault})
			h := m.open(t)
			for _, mode := range []string{"bios", "uefi"} {
				m.node.Boot = site.Boot{Mode: mode, Order: []string{"Hdd", "Pxe"}}
				before := bootSeen(t, h, m)
				if before.Resolve(m.node, site.FacetBoot).Want["mode"] != mode || c.says == "" && before.Have["mode"] == mode {
					t.Errorf("before: got %+v", before)
				}
				err := h.Apply(t.Context(), m.step(site.ActionBootOrder), m.node, drivertest.Permitted)
				if c.says != "" {
					if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), c.says) || m.Writes() != 0 {
						t.Errorf("got %v after %d writes", err, m.Writes())
					}
					return
				}
				if after := bootSeen(t, h, m); err != nil || after.Have["mode"] != mode {
					t.Errorf("after: got %+v, %v", after, err)
				}
				writes := m.Writes()
				if err := h.Apply(t.Context(), m.step(site.ActionBootOrder), m.node, drivertest.Permitted); err != nil || m.Writes() != writes {
					t.Errorf("again: %v, after %d writes", err, m.Writes()-writes)
				}
			}
		})
	}
}

func bootSeen(t *testing.T, h driver.Machine, m machine) site.FacetState {
	t.Helper()
	seen, err := h.Observe(t.Context(), m.node, []site.Facet{site.FacetBoot})
	if err != nil {
		t.Fatal(err)
	}
	return seen.Facets[site.FacetBoot]
}

// A boot option that is there and not in the machine's boot order is put into it when
// the design wants it.
func TestBootOptionOutsideTheOrder(t *testing.T) {
	for _, personality := range []string{"plain", "idrac9", "ilo5", "xcc"} {
		t.Run(personality, func(t *testing.T) {
			m := newRack(t, 1, func(m *lab.MachineConfig) { m.Personality, m.BootOrder = personality, []string{"Hdd"} }).take()
			h := m.open(t)
			m.node.Boot.Order = []string{"Pxe", "Hdd"}
			before := bootSeen(t, h, m)
			if before.Have["order"] != "Hdd" || !slices.Contains(before.Sources, "Pxe") {
				t.Errorf("before: got %+v", before)
			}
			if err := h.Apply(t.Context(), m.step(site.ActionBootOrder), m.node, drivertest.Permitted); err != nil {
				t.Fatal(err)
			}
			if after := bootSeen(t, m.open(t), m); after.Have["order"] != "Pxe,Hdd" {
				t.Errorf("after: got %+v", after)
			}
		})
	}
}
