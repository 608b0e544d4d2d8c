package redfish_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/redfish"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// enclosure is nodes behind one BMC, m0 as Node1, m1 as Node2 and so on, all on.
func enclosure(t *testing.T, size int, change func(i int, m *lab.MachineConfig)) *rack {
	t.Helper()
	i := -1
	return newRack(t, size, func(m *lab.MachineConfig) {
		i++
		m.SystemID, m.Power = fmt.Sprintf("Node%d", i+1), "on"
		m.Parts.MACs = []string{fmt.Sprintf("02:00:00:00:00:%02x", i+1)}
		if i > 0 {
			m.Behind, m.BMCAddr = "m0", ""
		}
		change(i, m)
	})
}

// sharing gives all the serial number of the enclosure, and no UUID.
func sharing(_ int, m *lab.MachineConfig) { m.Identity = site.Identity{Serial: "ENC1"} }

// at opens a machine of an enclosure by its path, or the BMC without one.
func (r *rack) at(t *testing.T, name string) driver.Machine {
	t.Helper()
	e := site.Endpoint{URL: r.BMCURL("m0"), Trust: site.Trust{CA: string(r.CA())}}
	if e.URL, _, _ = strings.Cut(e.URL, "/Systems/"); name != "" {
		e.URL = r.BMCURL(name)
	}
	h, err := redfish.New(patience).Open(t.Context(), e, secret.New("admin", "correct horse"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// switchedOff are the machines that have lost their power.
func (r *rack) switchedOff() (names []string) {
	for _, name := range r.Names() {
		if r.Machine(name).Power() != "On" {
			names = append(names, name)
		}
	}
	return names
}

// An identity that a sibling behind the same BMC has too names no machine, and
// nothing is written by it; with a slot, a port or a UUID it does, and the step
// goes to that machine alone.
func TestSiblingsOfOneIdentity(t *testing.T) {
	sharedUUID := func(_ int, m *lab.MachineConfig) {
		m.Identity = site.Identity{UUID: "3d1c0000-0000-4000-8000-0000000000aa"}
	}
	ownUUID := func(i int, m *lab.MachineConfig) {
		m.Identity = site.Identity{UUID: fmt.Sprintf("3d1c0000-0000-4000-8000-0000000000a%d", i), Serial: "ENC1"}
	}
	apart := "does not distinguish this machine from"
	for name, c := range map[string]struct {
		change func(int, *lab.MachineConfig)
		want   site.Identity
		path   string // the machine whose path the endpoint names, empty for none
		off    string // the machine that is switched off, empty for none
		says   string
	}{
		"serial":                            {sharing, site.Identity{Serial: "ENC1"}, "m1", "", apart},
		"serial, no path":                   {sharing, site.Identity{Serial: "ENC1"}, "", "", "several are meant"},
		"serial and slot":                   {sharing, site.Identity{Serial: "ENC1", Slot: "Node2"}, "m1", "m1", ""},
		"serial and slot, no path":          {sharing, site.Identity{Serial: "ENC1", Slot: "Node3"}, "", "m2", ""},
		"serial and another's slot":         {sharing, site.Identity{Serial: "ENC1", Slot: "Node1"}, "m1", "", "another machine answers"},
		"serial and port":                   {sharing, site.Identity{Serial: "ENC1", MAC: "02:00:00:00:00:02"}, "m1", "m1", ""},
		"serial and port, no path":          {sharing, site.Identity{Serial: "ENC1", MAC: "02:00:00:00:00:03"}, "", "m2", ""},
		"port alone":                        {sharing, site.Identity{MAC: "02:00:00:00:00:02"}, "m1", "m1", ""},
		"serial and another's port":         {sharing, site.Identity{Serial: "ENC1", MAC: "02:00:00:00:00:01"}, "m1", "", "another machine answers"},
		"another serial and its slot":       {sharing, site.Identity{Serial: "ENC2", Slot: "Node2"}, "m1", "", "another machine answers"},
		"shared UUID":                       {sharedUUID, site.Identity{UUID: "3d1c0000-0000-4000-8000-0000000000aa"}, "m1", "", apart},
		"shared UUID and slot":              {sharedUUID, site.Identity{UUID: "3d1c0000-0000-4000-8000-0000000000aa", Slot: "Node2"}, "m1", "m1", ""},
		"own UUID":                          {ownUUID, site.Identity{UUID: "3d1c0000-0000-4000-8000-0000000000a1"}, "m1", "m1", ""},
		"own UUID, shared serial":           {ownUUID, site.Identity{UUID: "3d1c0000-0000-4000-8000-0000000000a1", Serial: "ENC1"}, "m1", "m1", ""},
		"shared serial of those with UUIDs": {ownUUID, site.Identity{Serial: "ENC1"}, "m1", "", apart},
		"one's UUID at another's path":      {ownUUID, site.Identity{UUID: "3d1c0000-0000-4000-8000-0000000000a0"}, "m1", "", "another machine answers"},
	} {
		t.Run(name, func(t *testing.T) {
			r := enclosure(t, 3, c.change)
			step := site.Step{Machine: c.want, Facet: site.FacetPower, Action: site.ActionPowerOff, Force: true, Impact: site.ImpactReboot}
			err := r.at(t, c.path).Apply(t.Context(), step, &site.Node{Identity: c.want}, nil)
			off := strings.Join(r.switchedOff(), " ")
			if off != c.off || (err == nil) != (c.off != "") {
				t.Errorf("%q was switched off, want %q (%v)", off, c.off, err)
			}
			if err != nil && (!errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("got %v, want a refusal that says %q", err, c.says)
			}
			if n := writes(r, "/"); c.off == "" && n != 0 {
				t.Errorf("%d writes", n)
			}
		})
	}
}

// A sibling that cannot be read now may have the same serial number; a UUID or a
// slot does not depend on it.
func TestSiblingThatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct {
		want site.Identity
		is   error
	}{
		"serial": {site.Identity{Serial: "SN0"}, driver.ErrBusy},
		"UUID":   {site.Identity{UUID: "3d1c0000-0000-4000-8000-000000000000"}, nil},
		"slot":   {site.Identity{Serial: "SN0", Slot: "Node1"}, nil},
		"port":   {site.Identity{Serial: "SN0", MAC: "02:00:00:00:00:01"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := enclosure(t, 2, func(int, *lab.MachineConfig) {})
			r.Machine("m1").SetFault(lab.Fault{Kind: lab.FaultServerError})
			step := site.Step{Machine: c.want, Action: site.ActionPowerOff, Force: true}
			err := r.at(t, "m0").Apply(t.Context(), step, &site.Node{Identity: c.want}, nil)
			if !errors.Is(err, c.is) || (err == nil) != (c.is == nil) {
				t.Errorf("got %v, want %v", err, c.is)
			}
			if err != nil && (writes(r, "/") != 0 || !strings.Contains(err.Error(), "cannot be read, and may have the same serial number")) {
				t.Errorf("got %v and %d writes", err, writes(r, "/"))
			}
		})
	}
}

// All that a machine can be told by is read where it has siblings.
func TestIdentify(t *testing.T) {
	all := enclosure(t, 2, sharing)
	for name, want := range map[string]site.Identity{
		"m0": {Serial: "ENC1", Slot: "Node1", MAC: "02:00:00:00:00:01"}, "m1": {Serial: "ENC1", Slot: "Node2", MAC: "02:00:00:00:00:02"},
	} {
		got, err := all.at(t, name).(driver.Identifier).Identify(t.Context(), site.Identity{})
		if err != nil || got != want {
			t.Errorf("%s is %+v, want %+v (%v)", name, got, want, err)
		}
	}
	alone := newRack(t, 1, nil)
	got, err := alone.take().open(t).(driver.Identifier).Identify(t.Context(), site.Identity{})
	if want := (site.Identity{UUID: "3d1c0000-0000-4000-8000-000000000000", Serial: "SN0"}); err != nil || got != want {
		t.Errorf("one by itself is %+v, want %+v (%v)", got, want, err)
	}
}

// What the design asks of a slot and a port is looked at in every look.
func TestObserveSlotAndPort(t *testing.T) {
	r := enclosure(t, 2, sharing)
	for _, want := range []site.Identity{{Serial: "ENC1", Slot: "Node2"}, {MAC: "02:00:00:00:00:02"}, {Serial: "ENC1", Slot: "Node2", MAC: "02:00:00:00:00:02"}} {
		h := r.at(t, "m1")
		for range 3 { // the second goes by what the first has seen
			seen, err := h.Observe(t.Context(), &site.Node{Identity: want}, []site.Facet{site.FacetPower})
			if err != nil || !want.Matches(seen.Identity) {
				t.Errorf("%v: seen is %+v (%v)", want.Full(), seen.Identity, err)
			}
		}
	}
	other := site.Identity{Serial: "ENC1", MAC: "02:00:00:00:00:01"}
	if seen, err := r.at(t, "m1").Observe(t.Context(), &site.Node{Identity: other}, []site.Facet{site.FacetPower}); err != nil || other.Matches(seen.Identity) || seen.Identity.MAC == "" {
		t.Errorf("another's port: seen is %+v (%v)", seen.Identity, err)
	}
}

// What has neither a reset nor boot settings is a part of its host: it is not
// listed, and an endpoint without a path leads to the host, by whatever identity.
func TestBaseboardIsNoMachine(t *testing.T) {
	r := newRack(t, 1, func(m *lab.MachineConfig) { m.Power = "on" })
	r.Machine("m0").SetFault(lab.Fault{Kind: lab.FaultTwoSystems})
	h := r.at(t, "")
	urls, err := h.(driver.Lister).List(t.Context())
	if err != nil || len(urls) != 1 || !strings.HasSuffix(urls[0], "/Systems/1") {
		t.Errorf("listed are %v (%v)", urls, err)
	}
	for _, want := range []site.Identity{{}, {Serial: "SN0"}, {UUID: "3d1c0000-0000-4000-8000-000000000000"}} {
		seen, err := r.at(t, "").Observe(t.Context(), &site.Node{Identity: want}, []site.Facet{site.FacetPower})
		if err != nil || seen.Identity.Serial != "SN0" {
			t.Errorf("%v: seen is %+v (%v)", want, seen.Identity, err)
		}
	}
	if got, err := h.(driver.Identifier).Identify(t.Context(), site.Identity{}); err != nil || got.Slot != "" {
		t.Errorf("its host is %+v (%v)", got, err)
	}
	id := site.Identity{Serial: "SN0"}
	step := site.Step{Machine: id, Action: site.ActionPowerOff, Force: true}
	if err := h.Apply(t.Context(), step, &site.Node{Identity: id}, nil); err != nil || r.Machine("m0").Power() != "Off" {
		t.Errorf("got %v, the machine is %s", err, r.Machine("m0").Power())
	}
}

// A check of a BMC says whether the identity tells the machine from its siblings,
// and what binds a write.
func TestCheckOfAnEnclosure(t *testing.T) {
	uuids := func(int, *lab.MachineConfig) {}
	for name, c := range map[string]struct {
		change  func(int, *lab.MachineConfig)
		want    site.Identity
		verdict driver.Verdict
		says    string
	}{
		"own identities":          {uuids, site.Identity{}, driver.Works, "by its UUID and its serial number"},
		"one serial":              {sharing, site.Identity{}, driver.Partly, `Systems/Node1 behind the same BMC reports the same serial number: Slipway can distinguish them only with mac: "02:00:00:00:00:02" or slot: "Node2"`},
		"designed by that alone":  {sharing, site.Identity{Serial: "ENC1"}, driver.Fails, `the design names it by serial number ENC1, which does not distinguish it from /redfish/v1/Systems/Node1`},
		"designed with its slot":  {sharing, site.Identity{Serial: "ENC1", Slot: "Node2"}, driver.Works, "by its serial number and its slot, as the design names it"},
		"designed with its ports": {sharing, site.Identity{Serial: "ENC1", MAC: "02:00:00:00:00:02"}, driver.Works, "by its serial number and its MAC address"},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := enclosure(t, 2, c.change).at(t, "m1").(driver.Grader).Grade(t.Context(), c.want, func(string, int, int) {})
			if err != nil {
				t.Fatal(err)
			}
			if a := ability(t, g, "identity"); a.Verdict != c.verdict || !strings.Contains(a.Text, c.says) {
				t.Errorf("%s: %s, want %s that says %q", a.Verdict, a.Text, c.verdict, c.says)
			}
		})
	}
	for how, want := range map[string]driver.Verdict{"": driver.Works, lab.ClosesAnnounced: driver.Lacks, lab.ClosesSilently: driver.Lacks, lab.ClosesOld: driver.Lacks} {
		m := newRack(t, 1, func(m *lab.MachineConfig) { m.BasicOnly, m.Closes = true, how }).take()
		g, err := m.open(t).(driver.Grader).Grade(t.Context(), site.Identity{}, func(string, int, int) {})
		if err != nil {
			t.Fatal(err)
		}
		a := ability(t, g, "write binding")
		if a.Verdict != want || want == driver.Lacks && !strings.Contains(a.Text, `endpoints.manager.unbound: "accept"`) {
			t.Errorf("closing %q: %s: %s", how, a.Verdict, a.Text)
		}
	}
}

func ability(t *testing.T, g driver.Grade, name string) driver.Ability {
	t.Helper()
	for _, a := range g.Abilities {
		if a.Name == name {
			return a
		}
	}
	t.Fatalf("there is no ability %q", name)
	return driver.Ability{}
}

// An installation of one of an enclosure leaves its siblings alone, though all
// have the same state and serial number.
func TestInstallationInAnEnclosure(t *testing.T) {
	r := enclosure(t, 3, sharing)
	id := site.Identity{Serial: "ENC1", Slot: "Node2"}
	step := site.Step{Machine: id, Facet: site.FacetImage, Action: site.ActionInstall, Generation: 1, Impact: site.ImpactDestructive,
		Image: &site.Image{URL: strings.NewReplacer("{node}", "m1", "{generation}", "1").Replace(r.ImageURL("debian12")), SHA256: r.ImageSHA256("debian12", "m1", 1)}}
	if err := r.at(t, "m1").Apply(t.Context(), step, &site.Node{Name: "m1", Identity: id}, drivertest.Permitted); err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Calls() {
		if c.Write() && c.Machine != "m1" {
			t.Errorf("%s %s went to %s", c.Method, c.Path, c.Machine)
		}
	}
}
