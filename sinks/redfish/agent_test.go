package redfish

import (
	"errors"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A start of the agent that is gone on with does not take a machine that is off for one that runs
// from the medium: an agent that reaches nobody has switched it off. Of an installer that is how it
// ends.
func TestStartOfTheAgentOnAMachineThatIsOff(t *testing.T) {
	for action, want := range map[site.Action]string{site.ActionStartAgent: "On", site.ActionInstall: "Off"} {
		t.Run(string(action), func(t *testing.T) {
			r := newRig(t, "Acme", newBay("/vm/1"))
			settings := r.system["Boot"].(map[string]any)
			m := open(t, r.endpoint())
			step := site.Step{Machine: site.Identity{UUID: uuid}, Action: action, Image: &site.Image{URL: "https://images/a.iso"}}
			if err := m.Apply(t.Context(), step, &site.Node{}, drivertest.Permitted); err != nil {
				t.Fatal(err)
			}
			if r.power != "On" {
				t.Fatalf("the power is %s", r.power)
			}
			r.power, settings["BootSourceOverrideEnabled"] = "Off", "Disabled"
			step.Resumed = true
			if err := m.Apply(t.Context(), step, &site.Node{}, drivertest.Permitted); err != nil {
				t.Fatal(err)
			}
			if r.power != want {
				t.Errorf("gone on with, the power is %s, want %s", r.power, want)
			}
		})
	}
}

// A machine that starts over the network is off, has the override of one boot by what its BMC
// offers and the design prefers, and is on. It gets no medium and no URL.
func TestStartOverTheNetwork(t *testing.T) {
	for name, c := range map[string]struct {
		allowed, order []string
		target         string
	}{
		"by PXE":                   {[]string{"None", "Pxe", "UefiHttp", "Cd", "Hdd"}, nil, "Pxe"},
		"by HTTP alone":            {[]string{"None", "UefiHttp", "Cd", "Hdd"}, nil, "UefiHttp"},
		"by HTTP, as designed":     {[]string{"None", "Pxe", "UefiHttp"}, []string{"Hdd", "UefiHttp", "Pxe"}, "UefiHttp"},
		"by PXE, as designed":      {[]string{"None", "UefiHttp", "Pxe"}, []string{"Pxe", "UefiHttp"}, "Pxe"},
		"designed and not offered": {[]string{"None", "Pxe"}, []string{"UefiHttp"}, "Pxe"},
		"not at all":               {[]string{"None", "Cd", "Hdd"}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "Acme", newBay("/vm/1"))
			settings := r.system["Boot"].(map[string]any)
			settings["BootSourceOverrideTarget@Redfish.AllowableValues"] = c.allowed
			settings["HttpBootUri"] = "http://images/left-over.iso"
			n := &site.Node{Boot: site.Boot{Order: c.order}, References: site.References{ByAgent: true, Start: site.StartNetwork}}
			step := site.Step{Machine: site.Identity{UUID: uuid}, Action: site.ActionStartAgent}
			m := open(t, r.endpoint())
			before := r.power
			err := m.Apply(t.Context(), step, n, nil)
			if !errors.Is(err, driver.ErrNotPermitted) && c.target != "" || r.power != before {
				t.Errorf("without permission: %v, the power is %s", err, r.power)
			}
			err = m.Apply(t.Context(), step, n, drivertest.Permitted)
			if c.target == "" {
				if !errors.Is(err, errors.ErrUnsupported) || r.power != before {
					t.Errorf("got %v, the power is %s", err, r.power)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.power != "On" || settings["BootSourceOverrideEnabled"] != "Once" || settings["BootSourceOverrideTarget"] != c.target {
				t.Errorf("the power is %s, and the boot is %v", r.power, settings)
			}
			if uri := settings["HttpBootUri"]; c.target == "UefiHttp" && uri != nil && uri != "" {
				t.Errorf("it boots from %v", uri)
			}
			if err := m.Apply(t.Context(), step, &site.Node{}, drivertest.Permitted); !errors.Is(err, driver.ErrRefused) {
				t.Errorf("of a node that starts from media: %v", err)
			}
		})
	}
}

// A machine on which the agent has erased the disks is off, without the agent's medium and with
// nothing that would boot it again; asked for once more nothing is sent.
func TestAMachineThatLeavesStaysOff(t *testing.T) {
	b := newBay("/vm/1")
	r := newRig(t, "Acme", b)
	settings := r.system["Boot"].(map[string]any)
	m := open(t, r.endpoint())
	start := site.Step{Machine: site.Identity{UUID: uuid}, Action: site.ActionStartAgent, Image: &site.Image{URL: "https://images/a.iso"}}
	if err := m.Apply(t.Context(), start, &site.Node{}, drivertest.Permitted); err != nil || r.power != "On" || b.shows["Inserted"] != true {
		t.Fatalf("%v, the power is %s, the drive %v", err, r.power, b.shows)
	}
	leave := site.Step{Machine: site.Identity{UUID: uuid}, Action: site.ActionFinishErase, FromMemory: true, Unseen: true}
	for range 2 {
		if err := m.Apply(t.Context(), leave, &site.Node{}, nil); err != nil {
			t.Fatal(err)
		}
		if r.power != "Off" || b.shows["Inserted"] != false || settings["BootSourceOverrideEnabled"] == "Once" {
			t.Errorf("the power is %s, the drive %v, the boot %v", r.power, b.shows, settings)
		}
	}
}
