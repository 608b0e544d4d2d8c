package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/firstboot"
	"github.com/slipway-gitops/slipway/engine/site"
)

// planVirtual plans a virtual machine: what it is made of, then the
// installation, then the rest.
func planVirtual(p *site.NodePlan, s *site.Site, n *site.Node, m site.Memory, serves map[site.Facet]bool) {
	if why := cmp.Or(foreign(n, m), lost(n, m)); why != "" {
		p.Blocked = append(p.Blocked, why)
		return
	}
	if planFirstBoot(p, n, m) {
		return
	}
	planSeed(p, n, m)
	for _, f := range staged(n) {
		planFacet(p, n, f, m)
	}
	if isDue(n, m) && (len(p.Blocked) > 0 || isBusy(n, m)) {
		return // it would not be the designed machine
	}
	if planGeneration(p, s, n, m) {
		return
	}
	planRest(p, s, n, m, serves)
}

// isBusy reports whether the machine's definition or disks are changing by themselves.
func isBusy(n *site.Node, m site.Memory) bool {
	return slices.ContainsFunc(staged(n), func(f site.Facet) bool { return m.Observed.Facets[f].Busy != "" })
}

// stateOf returns whether the machine exists, as last seen; empty if nobody
// ever looked.
func stateOf(o site.Observed) string {
	return o.Facets[site.FacetDefinition].Have[site.FieldState]
}

// Absent reports whether a virtual machine was seen not to exist.
func Absent(o site.Observed) bool { return stateOf(o) == site.StateAbsent }

// foreign says that another machine has the name.
func foreign(n *site.Node, m site.Memory) string {
	const f = site.FacetDefinition
	return strings.Join(wishFor(n, f, m.Observed.Facets[f]).unresolved(n, f), "; ")
}

// lost says that the machine, or the disk that it was installed on, no longer
// exists. Slipway does not recreate it by itself: it may still be elsewhere, or
// come back.
func lost(n *site.Node, m site.Memory) string {
	r := m.Recorded
	absent, home := Absent(m.Observed), n.Endpoints[site.Manager].URL
	have := max(r.Generation(), r.UnderWay())
	anew := fmt.Sprintf("raise the generation to %d to make it again", max(have, n.Generation)+1)
	switch a := r.Adopted; {
	case absent && SeenElsewhere(n, r):
		return fmt.Sprintf("the machine was last seen at %s, and is not at %s; Slipway neither moves a machine nor makes it a second time: go back to the earlier place, or decommission it there first", a.Manager, home)
	case absent && have == 0 && a != nil && !a.Settled.IsZero() && n.Generation == 0:
		return fmt.Sprintf("the machine is gone%s, and its disks with it; restore it, or remove the node from the design and add it again to make another one", on(n))
	case have == 0 || isDue(n, m) || r.InstallBegun():
		return ""
	case absent:
		return fmt.Sprintf("the machine is gone%s, and with it what generation %d had on its disks; bring it back, or %s", on(n), have, anew)
	case r.Installing == nil && imageDiskGone(n, m):
		return fmt.Sprintf("its disk %s is gone, and with it what generation %d had on it; bring it back, or %s", n.Virtual.ImageDisk(), have, anew)
	}
	return ""
}

// SeenElsewhere reports whether the machine was last seen at another place than
// the designed one. Its absence here proves nothing then.
func SeenElsewhere(n *site.Node, r site.Recorded) bool {
	a := r.Adopted
	return a != nil && a.Manager != "" && a.Manager != n.Endpoints[site.Manager].URL
}

// on names the hypervisor that the machine is placed on.
func on(n *site.Node) string {
	if n.Virtual.Host.Hypervisor == "" {
		return ""
	}
	return " from " + n.Virtual.Host.Hypervisor
}

func imageDiskGone(n *site.Node, m site.Memory) bool {
	disk, seen := n.Virtual.ImageDisk(), m.Observed.Facets[site.FacetDisks]
	return stateOf(m.Observed) == site.StateDefined && disk != "" && !seen.Seen.IsZero() && !has(seen, disk)
}

// has reports whether a disk exists.
func has(seen site.FacetState, disk string) bool { return seen.Have[disk+".size"] != "" }

// mayLose reports whether an installation may erase something. A disk that
// could not be looked at counts as existing. A disk that is not attached to the
// machine is deleted too.
func mayLose(n *site.Node, m site.Memory) bool {
	seen := site.VolumesIn(m.Observed.Facets[site.FacetDisks].Have)
	there := slices.ContainsFunc(seen, func(v site.Volume) bool { return v.Disk == n.Virtual.ImageDisk() })
	return stateOf(m.Observed) == site.StateDefined && (there || !imageDiskGone(n, m))
}

// isDue reports whether the design wants an installation that is neither done
// nor under way.
func isDue(n *site.Node, m site.Memory) bool {
	under := m.Recorded.UnderWay()
	if Absent(m.Observed) && m.Recorded.Installing == nil {
		under = 0 // what was begun cannot continue
	}
	return wanted(n) > max(under, Generation(n, m))
}

// planFirstBoot continues an installation that was begun, and waits for the
// system to prove itself: its marker ends the first boot. It returns true if
// nothing else may be planned meanwhile.
func planFirstBoot(p *site.NodePlan, n *site.Node, m site.Memory) bool {
	r := m.Recorded
	switch i := r.Installing; {
	case isDue(n, m):
		return false // a higher generation replaces it
	case r.InstallBegun() && !Absent(m.Observed):
		p.Steps = append(p.Steps, r.InFlight.Step)
	case i == nil:
		return false
	case i.CutOff != "":
		p.Blocked = append(p.Blocked, cutOff(i))
	default:
		p.Waiting = fmt.Sprintf("the first boot of generation %d is running", i.Generation)
		if n.Power != "off" { // that comes afterwards
			planFacet(p, n, site.FacetPower, m)
		}
	}
	return true
}

// editedSinceFirstBoot returns the parts of the design, by path, that only a first
// boot sets and that were edited since.
func editedSinceFirstBoot(s *site.Site, n *site.Node, m site.Memory, serves map[site.Facet]bool) []string {
	i := m.Recorded.Installed
	if n.References.ByAgent && i != nil && wanted(n) <= Generation(n, m) {
		return editedSinceLaidOut(n, i)
	}
	if !n.IsVirtual() || i == nil || isDue(n, m) {
		return nil
	}
	paths := firstboot.EditedSince(s, n, i.FirstBoot.Design)
	paths = slices.DeleteFunc(paths, func(path string) bool { return serves[site.FacetOf(path)] })
	for x, path := range paths {
		paths[x] = path + " (edited since the first boot, which alone sets it)"
	}
	return paths
}

// planSeed removes the seed once the first boot is over, because it contains
// secrets.
func planSeed(p *site.NodePlan, n *site.Node, m site.Memory) {
	i := m.Recorded.Installed
	if i == nil || !i.Proven || isDue(n, m) || m.Observed.Facets[site.FacetSeed].Have[site.FieldState] != site.SeedAttached {
		return
	}
	p.Steps = append(p.Steps, site.Step{
		Node: n.Name, Machine: n.Machine(), Facet: site.FacetSeed, Action: seedKind.Action,
		Changes: []site.Change{{Field: "seed.state", Have: site.SeedAttached, Want: site.SeedNone}},
		Impact:  seedKind.Impact, Expect: seedKind.Expect, Undo: seedKind.Undo,
		Reason: fmt.Sprintf("generation %d has proven itself, and its first-boot seed holds secrets", i.Generation),
	})
}

// diskInstallStep installs a virtual machine: it puts the image on a new disk,
// and keeps the other disks.
func diskInstallStep(s *site.Site, n *site.Node, m site.Memory) site.Step {
	step := installStep(s, n, m)
	step.Expect = takes(n, step.Action, step.Expect)
	isNew := !mayLose(n, m)
	switch {
	case isNew && !leaves(n, m):
		step.Impact, step.Undo = site.ImpactOnline, unmade
		return step
	case isNew:
		step.Loses = "the installed system: the machine is stopped, and then starts from a new disk " + n.Virtual.ImageDisk() + "; its disks are kept"
	default:
		step.Loses = "everything on its disk " + n.Virtual.ImageDisk()
		if len(n.Virtual.Disks) > 1 {
			step.Loses += "; its other disks are kept"
		}
	}
	step.Loses += whatRuns(s, n, m)
	return step
}

// leaves reports whether an installation on a new disk replaces a system that was installed on another one: the design
// calls the disk of the image by another name than before.
func leaves(n *site.Node, m site.Memory) bool {
	return stateOf(m.Observed) == site.StateDefined && max(Generation(n, m), m.Recorded.Generation()) > 0 && len(site.VolumesIn(m.Observed.Facets[site.FacetDisks].Have)) > 0
}

// zeroizes reports whether the design wants the virtual machine deleted.
func zeroizes(s *site.Site, n *site.Node) bool {
	return n.IsVirtual() && n.Decommission && s.Unused(n) == ""
}

// planZeroize deletes a virtual machine with its disks.
func planZeroize(p *site.NodePlan, n *site.Node, m site.Memory) {
	state := stateOf(m.Observed)
	if isGone(m) && SeenElsewhere(n, m.Recorded) {
		p.Blocked = append(p.Blocked, fmt.Sprintf("the machine was last seen at %s, and is not at %s: Slipway can neither delete nor forget it there; go back to the earlier place first",
			m.Recorded.Adopted.Manager, n.Endpoints[site.Manager].URL))
		return
	}
	if isGone(m) {
		return
	}
	if state == site.StateForeign {
		p.Blocked = append(p.Blocked, foreign(n, m)+": it may be the node's own, which has lost what Slipway wrote into it, so Slipway neither deletes it nor says that it is gone")
		p.Release = "a person who looks at it" + on(n) + ", and removes it or gives it another name and UUID"
		return
	}
	k := zeroizeKind
	if n.Virtual.Erase == "wipe" {
		k = wipeKind
	}
	p.Steps = []site.Step{{
		Node: n.Name, Machine: n.Machine(), Facet: site.FacetDefinition, Action: k.Action,
		Changes: []site.Change{{Field: "definition.state", Have: cmp.Or(state, "?"), Want: site.StateAbsent, Origin: n.Origins.Of("decommission")}},
		Impact:  k.Impact, Expect: k.Expect, Undo: k.Undo, Reason: "the design decommissions it", Loses: whole(n),
	}}
}

// isGone reports whether nothing of ours exists there. A machine that is not ours by what is written into it may still be
// the one that Slipway made there once.
func isGone(m site.Memory) bool {
	state := stateOf(m.Observed)
	return state == site.StateAbsent || state == site.StateForeign && m.Recorded.Adopted == nil
}

// whole describes a virtual machine as designed. People approve its destruction
// in these words, so they contain nothing observed.
func whole(n *site.Node) string {
	var disks []string
	for _, name := range slices.Sorted(maps.Keys(n.Virtual.Disks)) {
		disks = append(disks, name+" "+n.Virtual.Disks[name].Size.String())
	}
	text := "the machine and all its disks"
	if len(disks) > 0 {
		text += " (" + strings.Join(disks, ", ") + ")"
	}
	if n.Virtual.Erase == "wipe" {
		text += ", which are overwritten"
	}
	return text
}

// StillThere says in a sentence why a node may not be forgotten yet: its
// virtual machine still exists, or nobody knows. It is empty if the machine is
// gone, and for physical machines, which stay. The node is nil if only the
// memory is known.
func StillThere(n *site.Node, m site.Memory) string {
	switch state := stateOf(m.Observed); {
	case state == site.StateDefined:
		return "its virtual machine still exists, with its disks: `decommission: true` in the design deletes it, and after that you may remove the node"
	case state == site.StateForeign && !isGone(m):
		return "a machine with its name or UUID exists, which may be its own"
	case n != nil && n.IsVirtual() && !isGone(m):
		return "Slipway has not seen yet that its virtual machine is gone"
	}
	return ""
}
