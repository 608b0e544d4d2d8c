package plan

import (
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// startsSystem are the actions after which the system of a machine starts.
var startsSystem = []site.Action{site.ActionPowerOn, site.ActionRestart, site.ActionFinishInstall}

// sayConsole adds to the reason of a step that starts the system of a machine that somebody has to type a passphrase,
// if the design has a person open its encrypted disks.
func sayConsole(step *site.Step, n *site.Node) {
	if slices.Contains(startsSystem, step.Action) && openedAtConsole(n) {
		step.Reason = strings.TrimPrefix(step.Reason+"; a person must type the passphrase of the disks at the console, and the machine waits until then", "; ")
	}
}

// openedAtConsole reports whether a person opens an encrypted disk at each start.
func openedAtConsole(n *site.Node) bool {
	is := func(encrypt string) bool { return encrypt == item.OpenedAtConsole }
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
