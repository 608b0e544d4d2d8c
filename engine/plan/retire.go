package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A physical machine whose node is decommissioned with `erase: "secure"` boots Slipway's agent, which erases the disks
// that the design names and leaves the machine off. An installation that was begun is finished first.

// retires reports whether the node's machine is to be erased and left off, or was.
func retires(s *site.Site, n *site.Node, m site.Memory) bool {
	return n.Retires() && n.Away == "" && s.Unused(n) == "" && m.Recorded.UnderWay() == 0
}

// HasRetired reports whether the disks that a node's design has erased before it leaves were erased: on this machine,
// and all that the design names now. Older records name no layout.
func HasRetired(n *site.Node, r site.Recorded) bool {
	return !r.Retired.IsZero() && (r.RetiredLayout == "" || r.RetiredLayout == LayoutDigest(n.Retiring()))
}

// planRetire plans the erasure, and then the end of the agent.
func planRetire(p *site.NodePlan, s *site.Site, n *site.Node, m site.Memory) {
	if HasRetired(n, m.Recorded) {
		if m.Recorded.Agent != nil {
			p.Steps = append(p.Steps, leaveStep(n))
		}
		return
	}
	if why := unfit(n.Retiring(), m); len(why) > 0 && !m.Recorded.EraseBegun() {
		p.Blocked = append(p.Blocked, why...)
		p.Release = "a commit that changes what the reason names, or the machine with these disks"
		return
	}
	if !m.Observed.Agent.IsConnected() && !m.Recorded.Agent.IsStarted() {
		start := startStep(n, m, 0)
		start.Reason = "Slipway's agent erases the disks from the memory of the machine; " + startedBy(n.References.Start)
		p.Steps = append(p.Steps, start)
	}
	p.Steps = append(p.Steps, retireStep(s, n, m), leaveStep(n))
}

func retireStep(s *site.Site, n *site.Node, m site.Memory) site.Step {
	return site.Step{
		Node: n.Name, Machine: n.Machine(), Facet: site.FacetStorage, Action: retireKind.Action,
		Changes: []site.Change{{Field: "storage.erase", Want: n.DecommissionErase, Origin: n.Origins.Of("decommission.erase")}},
		Impact:  retireKind.Impact, Expect: retireKind.Expect, Undo: retireKind.Undo,
		Reason: "the design decommissions the node and has its disks erased",
		Loses:  erases(n.Retiring()) + whatRuns(s, n, m) + guests(s, n), Layout: LayoutDigest(n.Retiring()),
		Makes: append(makes(n.Retiring(), m.Observed), notSeen(n, m)...), Unseen: unseen(m),
	}
}

// notSeen names the disks that the BMC lists and the agent does not see under that name. Nobody will know whether they
// are erased. The BMC may use another name than the agent, or see a disk behind a controller that the agent cannot see.
func notSeen(n *site.Node, m site.Memory) []string {
	if _, _, known := Layout(n.Retiring(), m.Observed); !known {
		return nil
	}
	if unseen := UnseenDisks(m.Observed); len(unseen) > 0 {
		return []string{"NOT KNOWN TO BE ERASED: " + strings.Join(unseen, ", ") + ", which the BMC lists, and the agent sees no disk of that name"}
	}
	return nil
}

// leaveStep ejects the agent's medium, and leaves the machine off.
func leaveStep(n *site.Node) site.Step {
	return site.Step{
		Node: n.Name, Machine: n.Machine(), Facet: site.FacetImage, Action: leaveKind.Action,
		Changes: []site.Change{{Field: "image.medium", Have: "inserted", Want: "ejected"}, {Field: "power.state", Have: "on", Want: "off"}},
		Impact:  leaveKind.Impact, Expect: leaveKind.Expect, Undo: leaveKind.Undo,
		Reason: "the agent says when the disks are erased", FromMemory: true, Unseen: true,
	}
}

// retireNote reports the progress of a decommissioned machine that is erased.
func retireNote(n *site.Node, m site.Memory) string {
	if at := m.Recorded.Retired; HasRetired(n, m.Recorded) {
		return fmt.Sprintf("decommissioned: its disks were erased at %s, as `slipway erase-report %s` shows%s; you may remove it from the design", at.UTC().Format(time.DateTime)+"Z", n.Name, NotErased(m))
	}
	return "decommissioned: Slipway erases the disks that its design names, and leaves the machine off"
}

// NotErased names the disks of a machine that its last erasure left alone, after a semicolon; empty if Slipway knows of
// none. The design kept them or did not name them, or the agent did not see them.
func NotErased(m site.Memory) string {
	report := m.Recorded.LastErased()
	if report == nil {
		return ""
	}
	var left []string
	note := func(name string) {
		same := func(other string) bool { return SameDisk(name, other) }
		isErased := slices.ContainsFunc(report.Disks, func(d item.Erasure) bool {
			return d.Done && (d.Serial != "" && same(site.DiskName(d.Serial)) || strings.EqualFold(name, site.DiskName(d.ID())))
		})
		if name != "" && name != site.DisksUnread && !isErased && !slices.ContainsFunc(left, same) {
			left = append(left, name)
		}
	}
	if a := m.Observed.Agent; a != nil {
		for _, d := range a.Disks {
			note(site.DiskName(cmp.Or(d.Serial, d.ID())))
		}
	}
	if d := m.Observed.Disks; d != nil {
		for _, name := range d.Serials {
			note(name)
		}
	}
	for _, name := range report.Unseen {
		note(name)
	}
	if len(left) == 0 {
		return ""
	}
	return "; NOT erased, or not known to be: " + say.Some(left, 10)
}

// notErased is why a node whose disks are still to be erased may not leave the design.
const notErased = "the design asked for its disks to be erased before it leaves, and they were not"
