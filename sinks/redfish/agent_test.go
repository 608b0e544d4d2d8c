package redfish

import (
	"testing"

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
