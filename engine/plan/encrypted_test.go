package plan

import (
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// The plan says what is encrypted, and which start waits for a person.
func TestEncryptedIsSaid(t *testing.T) {
	file := &site.Filesystem{Type: "xfs", Mount: "/srv"}
	for want, u := range map[string]site.Use{
		"xfs on /srv": {Filesystem: file},
		"xfs on /srv, encrypted (opened by the TPM)":                                                  {Filesystem: file, Encrypt: "tpm"},
		"in the volume group data, encrypted (opened by the TPM)":                                     {Group: "data", Encrypt: "tpm"},
		"xfs on /srv, encrypted (opened at the console: a person types the passphrase at each start)": {Filesystem: file, Encrypt: "console"},
	} {
		if got := used(u); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A step that starts the system of a machine says that a person must type the passphrase; one that does not, and a
// machine whose TPM opens the disks, say nothing.
func TestStepsSayWhoMustType(t *testing.T) {
	const says = "a person must type the passphrase of the disks at the console, and the machine waits until then"
	waits := map[string]site.Storage{
		"a disk":      {Disks: map[string]site.Disk{"a": {Use: site.Use{Encrypt: "console"}}}},
		"a partition": {Disks: map[string]site.Disk{"a": {Partitions: map[string]site.Partition{"p": {Use: site.Use{Encrypt: "console"}}}}}},
		"an array":    {Arrays: map[string]site.Array{"a": {Use: site.Use{Encrypt: "console"}}}},
		"a volume":    {Groups: map[string]site.VolumeGroup{"g": {Volumes: map[string]site.LogicalVolume{"v": {Encrypt: "console"}}}}},
	}
	for name, storage := range waits {
		for _, action := range []site.Action{site.ActionRestart, site.ActionPowerOn, site.ActionFinishInstall} {
			step := site.Step{Action: action, Reason: "bios.x is pending"}
			if sayOpening(&step, &site.Node{Storage: storage}, site.Memory{}); step.Reason != "bios.x is pending; "+says {
				t.Errorf("%s: %s says %q", name, action, step.Reason)
			}
		}
	}
	bare := site.Step{Action: site.ActionRestart}
	if sayOpening(&bare, &site.Node{Storage: waits["a disk"]}, site.Memory{}); bare.Reason != says {
		t.Errorf("without a reason it says %q", bare.Reason)
	}
	for name, c := range map[string]struct {
		action  site.Action
		storage site.Storage
	}{
		"power off":   {site.ActionPowerOff, waits["a disk"]},
		"start agent": {site.ActionStartAgent, waits["a disk"]},
		"by the TPM":  {site.ActionRestart, site.Storage{Disks: map[string]site.Disk{"a": {Use: site.Use{Encrypt: "tpm"}}}}},
	} {
		step := site.Step{Action: c.action, Reason: "so"}
		if sayOpening(&step, &site.Node{Storage: c.storage}, site.Memory{}); step.Reason != "so" {
			t.Errorf("%s: it says %q", name, step.Reason)
		}
	}
}

// A plan has it: a machine that is off, and is to be on.
func TestPlanSaysWhoMustType(t *testing.T) {
	n := &site.Node{Name: "n1", Identity: site.Identity{Serial: "S"}, Storage: site.Storage{Disks: map[string]site.Disk{"a": {Use: site.Use{Encrypt: "console"}}}}}
	p := site.NodePlan{Steps: []site.Step{{Action: site.ActionPowerOn}}}
	finish(&p, &site.Site{}, n, site.Memory{}, site.Known{})
	if !strings.Contains(p.Steps[0].Reason, "a person must type the passphrase") {
		t.Errorf("the step says %q", p.Steps[0].Reason)
	}
}

// A design that was edited from "console" to "tpm" changes nothing on the disks before the next installation: who
// restarts the machine is still told that a person must type.
func TestEditedEncryptStillWaitsAtTheConsole(t *testing.T) {
	of := func(encrypt string) *site.Node {
		return &site.Node{Name: "n1", Generation: 1, References: site.References{ByAgent: true}, Identity: site.Identity{Serial: "S"},
			Storage: site.Storage{Disks: map[string]site.Disk{"a": {Use: site.Use{Encrypt: encrypt}}}}}
	}
	m := site.Memory{Recorded: site.Recorded{Installed: &site.Installation{Generation: 1, ByAgent: true, FirstBoot: site.FirstBoot{Design: LaidOut(of("console"))}}}}
	p := site.NodePlan{Steps: []site.Step{{Action: site.ActionRestart, Reason: "the upgrade of linux-image needs a restart"}}}
	finish(&p, &site.Site{}, of("tpm"), m, site.Known{})
	if !strings.Contains(p.Steps[0].Reason, "passphrase") {
		t.Errorf("the step says only %q, and the machine will wait at its console", p.Steps[0].Reason)
	}
}

// A step that may clear the TPM that opens the disks says what follows.
func TestStepsSayThatTheTPMMayBeCleared(t *testing.T) {
	of := func(encrypt string) *site.Node {
		return &site.Node{Name: "n1", Storage: site.Storage{Disks: map[string]site.Disk{"a": {Use: site.Use{Encrypt: encrypt}}}}}
	}
	const says = "so; the TPM opens the disks, and if this clears it, the machine waits at its console for their passphrase (`slipway secret derive n1 \"disk encryption\"`)"
	for _, action := range []site.Action{site.ActionBIOS, site.ActionFirmware} {
		step := site.Step{Action: action, Reason: "so"}
		if sayOpening(&step, of("tpm"), site.Memory{}); step.Reason != says {
			t.Errorf("%s says %q", action, step.Reason)
		}
		step.Reason = "so"
		if sayOpening(&step, of(""), site.Memory{}); step.Reason != "so" {
			t.Errorf("%s of clear disks says %q", action, step.Reason)
		}
	}
}
