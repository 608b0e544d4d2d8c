package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// planInstallation plans what the image facet needs. It returns true if nothing
// else may be planned meanwhile.
func planInstallation(p *site.NodePlan, s *site.Site, n *site.Node, m site.Memory) bool {
	r := m.Recorded
	switch {
	case wanted(n) > max(r.UnderWay(), r.Generation()) && r.UnderWay() > 0:
		// A higher generation replaces one that did not end.
		planSteps(p, n, m, installStep(s, n, m))
		return true
	case r.InstallBegun():
		// It was begun and is not known to have ended, so it is finished as it
		// was begun, whatever the design says now.
		planSteps(p, n, m, r.InFlight.Step)
		return true
	case r.Installing != nil:
		planFinish(p, n, m)
		return true
	case leavesMemory(s, n, m):
		step := finishStep(n, m, Generation(n, m))
		step.Reason, step.Impact = "the machine may run Slipway's agent, and there is nothing to install now", site.ImpactReboot
		p.Steps = append(p.Steps, step)
		return true
	}
	return planGeneration(p, s, n, m)
}

// planGeneration plans the installation of a generation that is higher than the
// machine's. It returns true if nothing else may be planned, because the disks
// do not fit or the installed system has not proven itself.
func planGeneration(p *site.NodePlan, s *site.Site, n *site.Node, m site.Memory) bool {
	r, have := m.Recorded, Generation(n, m)
	switch {
	case wanted(n) == 0:
		return false
	case unproven(n, m) != "":
		p.Unproven = unproven(n, m)
	case have < n.Generation && n.IsVirtual():
		p.Waiting = "" // the first boot takes over what was staged
		planBack(p, s, n, m)
		p.Steps = append(p.Steps, diskInstallStep(s, n, m))
	case have < n.Generation:
		if why := unfit(n, m); len(why) > 0 {
			p.Blocked = append(p.Blocked, why...)
			p.Release = "a commit that changes what the reason names, or the machine with these disks"
			return true
		}
		planBack(p, s, n, m)
		planSteps(p, n, m, installStep(s, n, m))
	case have > n.Generation:
		p.Blocked = append(p.Blocked, fmt.Sprintf("generation %d in the design is lower than the installed %d; Slipway never sets a machine back, raise it to %d to install it again",
			n.Generation, have, have+1))
	case r.Installed != nil && !r.Installed.Proven:
		p.Waiting = notReported(n, m, have)
		planFacet(p, n, site.FacetPower, m)
		return true
	}
	return false
}

// planSteps plans an installation. If the agent installs, it must be in the machine's
// memory first.
func planSteps(p *site.NodePlan, n *site.Node, m site.Memory, install site.Step) {
	if install.ByAgent() && !m.Observed.Agent.IsConnected() && !m.Recorded.Agent.IsStarted() {
		p.Steps = append(p.Steps, startStep(n, m, install.Generation))
	}
	p.Steps = append(p.Steps, install, finishStep(n, m, install.Generation))
}

// planBack switches a machine on again that was switched off for an installation
// that is no longer permitted. The machine runs until somebody permits it.
func planBack(p *site.NodePlan, s *site.Site, n *site.Node, m site.Memory) {
	if m.Recorded.Disrupted.IsZero() || m.Recorded.UnderWay() > 0 || m.Recorded.Installed == nil && m.Observed.Facets[site.FacetOS].Seen.IsZero() {
		return
	}
	step := installStep(s, n, m)
	if n.IsVirtual() {
		step = diskInstallStep(s, n, m)
	}
	if !permitted(step, n, m) {
		planFacet(p, n, site.FacetPower, m)
	}
}

// permitted reports whether an open approval covers what a step destroys, or none is needed.
func permitted(step site.Step, n *site.Node, m site.Memory) bool {
	complete(&step, n, m)
	loss, destroys := step.Destroys()
	return !destroys || m.Account.Open(loss) != nil
}

// notReported says what is known of an installed system that has not proven
// itself. A system that answered before the installation says nothing of it.
func notReported(n *site.Node, m site.Memory, generation int) string {
	mk, i := m.Observed.Marker, m.Recorded.Installed
	if mk != nil && mk.Node == n.Name && mk.Generation < generation && (i == nil || m.Observed.Facets[site.FacetOS].Seen.After(i.Since)) {
		return fmt.Sprintf("generation %d was installed, and the system that answers says that it is generation %d", generation, mk.Generation)
	}
	return fmt.Sprintf("generation %d is installed, and Slipway has not seen from inside yet that it runs", generation)
}

// wanted is the generation that the design asks to install, 0 for none.
func wanted(n *site.Node) int {
	if n.Image == "" {
		return 0
	}
	return n.Generation
}

// planFinish waits for the installer to power the machine off, then boots the
// installed system. Once the finish has begun, the power state says nothing.
func planFinish(p *site.NodePlan, n *site.Node, m site.Memory) {
	i := m.Recorded.Installing
	if f := m.Recorded.InFlight; f != nil && f.Step.Action == site.ActionFinishInstall {
		p.Steps = append(p.Steps, f.Step)
		return
	}
	if !i.Ended.IsZero() {
		p.Steps = append(p.Steps, finishStep(n, m, i.Generation))
		return
	}
	if i.CutOff != "" || i.ByAgent { // the agent reports its end; the power does not show it
		p.Blocked = append(p.Blocked, cutOff(i))
		return
	}
	power := m.Observed.Facets[site.FacetPower]
	if power.Have["state"] != "off" || power.Pending["state"] == "on" {
		p.Waiting = fmt.Sprintf("the installer of generation %d is running", i.Generation)
		return
	}
	p.Steps = append(p.Steps, finishStep(n, m, i.Generation))
}

func cutOff(i *site.Installation) string {
	return fmt.Sprintf("the installation of generation %d was cut off (%s), and the data on the machine's disks may be incomplete; raise the generation to install it again", i.Generation, cmp.Or(i.CutOff, "the agent did not say that it had finished"))
}

// finishStep follows after the installer has powered the machine off, or the agent
// has installed.
func finishStep(n *site.Node, m site.Memory, generation int) site.Step {
	i := m.Recorded.Installing
	byAgent := m.Recorded.Agent != nil || i != nil && i.ByAgent || i == nil && n.References.ByAgent
	reason := "the installer powers the machine off when it is done"
	if byAgent {
		reason = "the agent says when it is done"
	}
	return site.Step{
		Node: n.Name, Machine: n.Machine(), Facet: site.FacetImage, Action: finishKind.Action,
		Changes: []site.Change{{Field: "image.medium", Have: "inserted", Want: "ejected"}},
		Impact:  finishKind.Impact, Expect: finishKind.Expect, Generation: generation, Undo: finishKind.Undo,
		Reason: reason, FromMemory: byAgent,
		Unseen: byAgent && (m.Observed.Agent.IsConnected() || i != nil),
	}
}

// Unfinished returns the step that finishes an installation whose installer is running. It takes what
// is left of the time that is expected of the installer, and its own.
func Unfinished(node, phase string, m site.Memory, h site.History, now time.Time) (step site.Step, is bool) {
	i := m.Recorded.Installing
	if i == nil || !i.Ended.IsZero() {
		return step, false
	}
	model := Model(m.Observed)
	step = site.Step{Node: node, Facet: site.FacetImage, Action: finishKind.Action, Impact: finishKind.Impact, Phase: phase, Expect: finishKind.Expect, Generation: i.Generation}
	installer := expected(h, model, site.Step{Action: site.ActionInstall, Facet: site.FacetImage, Expect: installKind.Expect})
	step.Expect = expected(h, model, step) + max(0, installer-site.Duration(max(0, now.Sub(i.Since))))
	return step, true
}

func installStep(s *site.Site, n *site.Node, m site.Memory) site.Step {
	have := Generation(n, m)
	image := s.Images[n.Image].For(n.Name, n.Generation)
	if n.IsVirtual() {
		image.Kind = "" // it applies to physical machines only
	}
	step := site.Step{
		Node: n.Name, Machine: n.Machine(), Facet: site.FacetImage, Action: installKind.Action,
		Changes: []site.Change{
			{Field: "image.generation", Have: strconv.Itoa(have), Want: strconv.Itoa(n.Generation), Origin: n.Origins.Of("generation")},
			{Field: "image.name", Want: n.Image, Origin: n.Origins.Of("image")},
		},
		Impact: installKind.Impact, Expect: installKind.Expect,
		Reason: fmt.Sprintf("generation %d of the design is not installed", n.Generation),
		Image:  image, Generation: n.Generation,
		Loses: "everything on its disks" + whatRuns(s, n, m) + guests(s, n), Undo: installKind.Undo,
		Unseen: unseen(m),
	}
	if step.ByAgent() {
		step.Expect = agentInstallKind.Expect
		step.Loses, step.Layout = erases(n)+whatRuns(s, n, m)+guests(s, n), LayoutDigest(n)
		step.Makes = makes(n, m.Observed)
	}
	return step
}

// guests names the virtual machines that the design places on a node's hypervisor: their disks may be on its disks. Whoever
// approves the loss reads all of them.
func guests(s *site.Site, n *site.Node) string {
	var names []string
	for _, x := range s.Nodes {
		if h := s.Hypervisors[x.Virtual.Host.Hypervisor]; x.IsVirtual() && h != nil && h.Node == n.Name {
			names = append(names, x.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return "; and what is on them of its virtual machines " + strings.Join(names, ", ")
}

// Generation returns the generation on the machine: the recorded one, or the
// one that its hypervisor noted. The system's own marker counts only if nothing
// was recorded. So a lost record causes no installation, and nobody on the
// machine can prevent one. A virtual machine that does not exist shows nothing.
func Generation(n *site.Node, m site.Memory) int {
	have := m.Recorded.Generation()
	if mk := m.Observed.Marker; claims(n, m) && m.Recorded.Installed == nil {
		have = mk.Generation
	}
	noted, err := strconv.Atoi(m.Observed.Facets[site.FacetDefinition].Have["generation"])
	if err == nil && noted <= site.MaxGeneration {
		have = max(have, noted)
	}
	return have
}
