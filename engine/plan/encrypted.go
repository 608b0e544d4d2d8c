package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// startsSystem are the actions after which the system of a machine starts.
var startsSystem = []site.Action{site.ActionPowerOn, site.ActionRestart, site.ActionFinishInstall}

// clearsTPM are the actions that may change or clear the TPM of a machine.
var clearsTPM = []site.Action{site.ActionBIOS, site.ActionFirmware}

// consoleDesign is the key in FirstBoot.Design of disks that a person opens at each start.
const consoleDesign = "console"

// sayOpening adds to the reason of a step that starts the system of a machine that somebody has to type a passphrase,
// if a person opens its encrypted disks: by the design, or by what was installed. To that of a step that may
// clear a TPM it adds that somebody may have to.
func sayOpening(step *site.Step, n *site.Node, m site.Memory) {
	byInstalled := m.Recorded.Installed != nil && m.Recorded.Installed.FirstBoot.Design[consoleDesign] != "" && step.Action != site.ActionFinishInstall
	switch {
	case slices.Contains(startsSystem, step.Action) && (OpenedAtConsole(n) || byInstalled):
		step.Reason = strings.TrimPrefix(step.Reason+"; a person must type the passphrase of the disks at the console, and the machine waits until then", "; ")
	case slices.Contains(clearsTPM, step.Action) && opened(n, item.OpenedByTPM):
		step.Reason = strings.TrimPrefix(fmt.Sprintf("%s; the TPM opens the disks, and if this clears it, the machine waits at its console for their passphrase (`slipway secret derive %s \"disk encryption\"`)", step.Reason, n.Name), "; ")
	}
}

// OpenedAtConsole reports whether the design has a person open an encrypted disk at each start.
func OpenedAtConsole(n *site.Node) bool { return opened(n, item.OpenedAtConsole) }

// opened reports whether an encrypted disk of the design is opened in a given way.
func opened(n *site.Node, by string) bool {
	is := func(encrypt string) bool { return encrypt == by }
	for _, d := range n.Storage.Disks {
		if is(d.Encrypt) {
			return true
		}
		for _, p := range d.Partitions {
			if is(p.Encrypt) {
				return true
			}
		}
	}
	for _, a := range n.Storage.Arrays {
		if is(a.Encrypt) {
			return true
		}
	}
	for _, g := range n.Storage.Groups {
		for _, v := range g.Volumes {
			if is(v.Encrypt) {
				return true
			}
		}
	}
	return false
}
