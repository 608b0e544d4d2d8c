package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// complete fills in the loss of a destructive step: the hypervisor, the disks as
// last seen, and the attempt. A step that has used its approval stays as approved,
// unless the records were started anew since. Then nobody knows how it went on,
// and it needs another approval.
func complete(step *site.Step, n *site.Node, m site.Memory) {
	if step.Impact < site.ImpactDestructive {
		return
	}
	n = step.Of(n)
	step.Hypervisor = n.Virtual.Host.Hypervisor
	if f := m.Recorded.InFlight; f != nil && f.Consumed && goesOn(f.Step, *step) && f.Step.Records == m.Account.Records {
		step.Loses, step.Breaks, step.Layout = f.Step.Loses, f.Step.Breaks, f.Step.Layout
		step.Disks, step.Attempt, step.Records = f.Step.Disks, f.Step.Attempt, f.Step.Records
		return
	}
	loss, _ := step.Destroys()
	loss.Disks = disksOf(step, n, m.Observed)
	if step.ByAgent() {
		loss.Lost = strings.TrimSuffix(loss.Lost, alsoLost(loss.Breaks)) // the step may have been completed before
		loss = asApproved(loss, n, m)
	}
	loss = m.Account.Numbered(loss)
	step.Loses, step.Breaks, step.Disks, step.Attempt, step.Records = loss.Lost, loss.Breaks, loss.Disks, loss.Attempt, loss.Records
}

// goesOn reports whether a planned step is the one that was begun, at the same place.
func goesOn(begun, planned site.Step) bool {
	return begun.Digest() == planned.Digest() && begun.Generation == planned.Generation && begun.Hypervisor == planned.Hypervisor
}

// Renumbered returns a node's plan with its losses as the ledger numbers them now.
func Renumbered(p site.NodePlan, n *site.Node, m site.Memory) site.NodePlan {
	p.Steps = slices.Clone(p.Steps)
	for i := range p.Steps {
		complete(&p.Steps[i], n, m)
	}
	return p
}

// Disks returns the disks that a destructive step erases, as last seen; empty
// until somebody has read them.
func Disks(s site.Step, n *site.Node, o site.Observed) string { return disksOf(&s, s.Of(n), o) }

// disksOf returns the disks of a node's machine as last seen: those that the
// agent erases if it has reported them, or else those of the BMC and of the
// system. It is empty until somebody has asked either.
func disksOf(step *site.Step, n *site.Node, o site.Observed) string {
	if n.IsVirtual() {
		return cmp.Or(lostVolumes(step, n, o).String(), site.DisksUnknown)
	}
	if step.ByAgent() {
		switch erased := erasedBy(n, o); {
		case approvedFor(step.Disks, n, o):
			return step.Disks // as approved
		case len(erased) > 0:
			var names []string
			for _, d := range erased {
				names = append(names, erasedName(d))
			}
			slices.Sort(names)
			return strings.Join(names, ", ")
		}
	}
	if o.Disks == nil && n.Inspect != inspectNever {
		return ""
	}
	var told site.Disks
	if o.Disks != nil {
		told = *o.Disks
	}
	untold := insideNames(o.Inside)
	for _, serial := range told.Serials {
		if i := whichDisk(untold, serial, told.Serials); i >= 0 {
			untold = slices.Delete(untold, i, i+1)
		}
	}
	all := append(slices.Clone(told.Serials), untold...)
	slices.Sort(all)
	if told.Partly && len(all) > 0 {
		all = append(all, site.DisksUnread)
	}
	return cmp.Or(strings.Join(all, ", "), site.DisksUnknown)
}

// leastSerial is the minimum length of a drive's serial number.
const leastSerial = 6

// SameDisk reports whether two non-empty serial numbers, from a BMC and a system,
// mean the same disk. Systems put the model before it, or blanks around it. A
// number shorter than leastSerial must be equal.
func SameDisk(a, b string) bool {
	a, b = strings.ToLower(strings.TrimSpace(a)), strings.ToLower(strings.TrimSpace(b))
	if len(a) > len(b) {
		a, b = b, a
	}
	return a == b || len(a) >= leastSerial && strings.Contains(b, a)
}

// whichDisk returns the index of a disk in a system's names, or -1. An equal name wins, then a
// name that contains the serial number and does not belong to another known disk.
func whichDisk(names []string, serial string, known []string) int {
	equal := func(a, b string) bool { return strings.EqualFold(strings.TrimSpace(a), strings.TrimSpace(b)) }
	if i := slices.IndexFunc(names, func(name string) bool { return equal(name, serial) }); i >= 0 {
		return i
	}
	return slices.IndexFunc(names, func(name string) bool {
		return SameDisk(name, serial) && !slices.ContainsFunc(known, func(k string) bool { return equal(name, k) })
	})
}

// inspectNever is Node.Inspect of a node whose BMC is never asked for its parts.
const inspectNever = "never"

// lostVolumes returns the volumes of a virtual machine that a step deletes.
// Zeroizing deletes all its volumes, including detached ones; an installation
// deletes those of the image's disk. The driver deletes no other volume.
func lostVolumes(step *site.Step, n *site.Node, o site.Observed) site.Volumes {
	all := site.VolumesIn(o.Facets[site.FacetDisks].Have)
	if step.Action == site.ActionZeroize {
		return all
	}
	return slices.DeleteFunc(all, func(v site.Volume) bool { return v.Disk != n.Virtual.ImageDisk() })
}

// insideNames returns the disks that an installed system sees, by serial number.
func insideNames(in *site.Inside) []string {
	if in == nil {
		return nil
	}
	var all []string
	for _, b := range in.Disks {
		if name := cmp.Or(site.DiskName(b.Serial), b.Name); b.Kind == "disk" && name != "" {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Unapproved returns the losses that wait for a person: nobody has approved
// them, and somebody could.
func Unapproved(set site.Losses, k site.Known) site.Losses {
	return slices.DeleteFunc(slices.Clone(set), func(l site.Loss) bool {
		f := k.Nodes[l.Node].Recorded.InFlight
		used := f != nil && f.Consumed && f.Step.Attempt == l.Attempt && f.Step.Records == l.Records
		return used || l.Disks == "" || k.Account(l.Node).Open(l) != nil
	})
}
