package redfish_test

import (
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// settings looks at a machine's settings.
func (m machine) settings(t *testing.T, h driver.Machine) sight {
	t.Helper()
	seen, err := h.Observe(t.Context(), m.node, []site.Facet{site.FacetBIOS})
	if err != nil {
		t.Fatal(err)
	}
	st := seen.Facets[site.FacetBIOS]
	r := st.Resolve(m.node, site.FacetBIOS)
	return sight{st, r.Want, r.Unresolved}
}

// sight is what was seen of settings, and what the design means by it.
type sight struct {
	site.FacetState
	Want, Unresolved site.Values
}

// asDesigned says whether all that is wanted is, and nothing else waits.
func asDesigned(st sight) bool {
	for name, want := range st.Want {
		if next, waits := st.Pending[name]; st.Have[name] != want || waits && next != want {
			return false
		}
	}
	return len(st.Want) > 0 && len(st.Unresolved) == 0 && st.Busy == ""
}

// Each kind of machine takes its settings over with as few boots as they need,
// each step from a handle of its own, as after a restart of the daemon.
func TestSettingsOnTheLab(t *testing.T) {
	no, yes := false, true
	for name, c := range map[string]struct {
		personality string
		design      site.BIOS
		boots       int
	}{
		"plain":                 {"plain", site.BIOS{Attributes: map[string]any{"HyperThreading": "Disabled", "PatrolScrubHours": 12.0, "QuietBoot": false}}, 1},
		"plain, one by another": {"plain", site.BIOS{Attributes: map[string]any{"HttpBoot": "Enabled", "HttpBootDevice": "Nic2"}}, 2},
		"idrac9":                {"idrac9", site.BIOS{SMT: &no, SRIOV: &yes, Attributes: map[string]any{"PxeDev1VlanId": 7.0}}, 1},
		"idrac9, profile":       {"idrac9", site.BIOS{Profile: "performance", TPM: &no}, 1},
		"ilo5":                  {"ilo5", site.BIOS{SMT: &no, TPM: &no, Attributes: map[string]any{"PatrolScrubDuration": 12.0}}, 1},
		"xcc":                   {"xcc", site.BIOS{SMT: &no, Virtualization: &no}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			m := newRack(t, 1, func(mc *lab.MachineConfig) {
				mc.Personality, mc.Power, mc.Manufacturer, mc.Model = c.personality, "on", "", ""
			}).take()
			m.node.BIOS = c.design
			boots := 0
			for range 4 {
				st := m.settings(t, m.open(t))
				if len(st.Unresolved) > 0 || len(st.Want) == 0 {
					t.Fatalf("got %+v", st)
				}
				if asDesigned(st) {
					break
				}
				set, restart := m.step(site.ActionBIOS), m.step(site.ActionRestart)
				restart.Changes = []site.Change{{Field: "bios.any"}}
				if err := m.open(t).Apply(t.Context(), set, m.node, drivertest.Permitted); err != nil {
					t.Fatal(err)
				}
				if err := m.open(t).Apply(t.Context(), restart, m.node, drivertest.Permitted); err != nil {
					t.Fatal(err)
				}
				boots++
			}
			if st := m.settings(t, m.open(t)); !asDesigned(st) || boots > c.boots {
				t.Errorf("after %d boots: %+v", boots, st)
			}
		})
	}
}

// The faults that settings can have end in-sync, or say why not.
func TestSettingsUnderFaults(t *testing.T) {
	no := false
	for _, kind := range []lab.FaultKind{lab.FaultPendingShown} {
		for _, personality := range []string{"idrac9"} {
			m := newRack(t, 1, func(mc *lab.MachineConfig) {
				mc.Personality, mc.Power, mc.Manufacturer, mc.Model = personality, "on", "", ""
			}).take()
			m.node.BIOS = site.BIOS{SMT: &no}
			m.SetFault(lab.Fault{Kind: kind})
			h := m.open(t)
			if err := h.Apply(t.Context(), m.step(site.ActionBIOS), m.node, drivertest.Permitted); err != nil {
				t.Fatal(err)
			}
			if st := m.settings(t, h); asDesigned(st) || st.Pending["LogicalProc"] != "Disabled" {
				t.Errorf("%s, %s: what waits is taken for what is: %+v", personality, kind, st)
			}
		}
	}
}

// Settings that nothing shows while they wait are booted for by a handle that
// did not send them too, and once; also when that boot may have begun before.
func TestSettingsThatNothingShows(t *testing.T) {
	for name, resumed := range map[string]bool{"first": false, "resumed": true} {
		t.Run(name, func(t *testing.T) {
			m := newRack(t, 1, func(mc *lab.MachineConfig) { mc.Personality, mc.Power = "plain", "on" }).take()
			m.SetFault(lab.Fault{Kind: lab.FaultBIOSNowhere})
			m.node.BIOS = site.BIOS{Attributes: map[string]any{"HyperThreading": "Disabled"}}
			set, restart := m.step(site.ActionBIOS), m.step(site.ActionRestart)
			restart.Changes, restart.Resumed = []site.Change{{Field: "bios.any"}}, resumed
			boots := m.Counts().Boots
			for _, step := range []site.Step{set, restart, restart} {
				if err := m.open(t).Apply(t.Context(), step, m.node, drivertest.Permitted); err != nil {
					t.Fatal(err)
				}
			}
			if st := m.settings(t, m.open(t)); !asDesigned(st) || m.Counts().Boots != boots+1 {
				t.Errorf("after %d boots: %+v", m.Counts().Boots-boots, st)
			}
		})
	}
}
