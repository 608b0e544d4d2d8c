package plan

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// planInstallation plans what the image facet needs. It says true when
// nothing else may be planned meanwhile, because an installation is under way.
func planInstallation(p *site.NodePlan, s *site.Site, n *site.Node, m site.Memory) bool {
	r := m.Recorded
	switch {
	case wanted(n) > max(underWay(r), r.Generation()) && underWay(r) > 0:
		// A higher generation takes the place of one that did not end.
		p.Steps = append(p.Steps, installStep(s, n, Generation(n, m)), finishStep(n, n.Generation))
		return true
	case installBegun(r):
		// Begun and not known to have ended: it is brought to its end as it
		// was begun, whatever the design says by now.
		p.Steps = append(p.Steps, r.InFlight.Step, finishStep(n, r.InFlight.Step.Generation))
		return true
	case r.Installing != nil:
		planFinish(p, n, m)
		return true
	}
	return planGeneration(p, s, n, m)
}

// planGeneration plans the installation of a generation that is higher than the
// one on the machine. It says true when nothing else may be planned meanwhile,
// because what was installed has not proven itself.
func planGeneration(p *site.NodePlan, s *site.Site, n *site.Node, m site.Memory) bool {
	r, have := m.Recorded, Generation(n, m)
	switch {
	case wanted(n) == 0:
		return false
	case have < n.Generation && n.IsVirtual():
		p.Waiting = "" // what was staged is taken over by its first boot
		p.Steps = append(p.Steps, diskInstallStep(s, n, m))
	case have < n.Generation:
		p.Steps = append(p.Steps, installStep(s, n, have), finishStep(n, n.Generation))
	case have > n.Generation:
		p.Blocked = append(p.Blocked, fmt.Sprintf("generation %d in the design is lower than the installed %d; a machine is never set back, raise it to %d to install anew",
			n.Generation, have, have+1))
	case r.Installed != nil && !r.Installed.Proven:
		p.Waiting = notReported(n, m, have)
		planFacet(p, n, site.FacetPower, m)
		return true
	}
	return false
}

// notReported says what is known of a system that was installed and has not
// proven it.
func notReported(n *site.Node, m site.Memory, generation int) string {
	if mk := m.Observed.Marker; mk != nil && mk.Node == n.Name && mk.Generation < generation {
		return fmt.Sprintf("generation %d was installed, and the system that answers says that it is generation %d", generation, mk.Generation)
	}
	return fmt.Sprintf("generation %d is installed and has not reported from inside yet", generation)
}

// wanted is the generation that the design asks to install, 0 for none.
func wanted(n *site.Node) int {
	if n.Image == "" {
		return 0
	}
	return n.Generation
}

// underWay is the generation whose installation was begun and not finished.
func underWay(r site.Recorded) int {
	if installBegun(r) {
		return r.InFlight.Step.Generation
	}
	if r.Installing != nil {
		return r.Installing.Generation
	}
	return 0
}

func installBegun(r site.Recorded) bool {
	return r.InFlight != nil && r.InFlight.Step.Action == site.ActionInstall
}

// planFinish waits for the installer to power the machine off, then boots the
// installed system. Once that was begun the power says nothing any more.
func planFinish(p *site.NodePlan, n *site.Node, m site.Memory) {
	i := m.Recorded.Installing
	if f := m.Recorded.InFlight; f != nil && f.Step.Action == site.ActionFinishInstall {
		p.Steps = append(p.Steps, f.Step)
		return
	}
	if !i.Ended.IsZero() {
		p.Steps = append(p.Steps, finishStep(n, i.Generation))
		return
	}
	if i.CutOff != "" {
		p.Blocked = append(p.Blocked, cutOff(i))
		return
	}
	power := m.Observed.Facets[site.FacetPower]
	if power.Have["state"] != "off" || power.Pending["state"] == "on" {
		p.Waiting = fmt.Sprintf("the installer of generation %d is running", i.Generation)
		return
	}
	p.Steps = append(p.Steps, finishStep(n, i.Generation))
}

func cutOff(i *site.Installation) string {
	return fmt.Sprintf("the installation of generation %d was cut off (%s), and what is on its disks may not be whole; raise the generation to install anew", i.Generation, i.CutOff)
}

// finishStep follows when the installer has powered the machine off.
func finishStep(n *site.Node, generation int) site.Step {
	return site.Step{
		Node: n.Name, Machine: n.Machine(), Facet: site.FacetImage, Action: finishKind.action,
		Changes: []site.Change{{Field: "image.medium", Have: "inserted", Want: "ejected"}},
		Impact:  finishKind.impact, Expect: finishKind.expect, Generation: generation, Undo: finishKind.undo,
		Reason: "the installer powers the machine off when it is done",
	}
}

func installStep(s *site.Site, n *site.Node, have int) site.Step {
	image := *s.Images[n.Image]
	image.URL = strings.NewReplacer("{node}", n.Name, "{generation}", strconv.Itoa(n.Generation)).Replace(image.URL)
	return site.Step{
		Node: n.Name, Machine: n.Machine(), Facet: site.FacetImage, Action: installKind.action,
		Changes: []site.Change{
			{Field: "image.generation", Have: strconv.Itoa(have), Want: strconv.Itoa(n.Generation), Origin: n.Origins.Of("generation")},
			{Field: "image.name", Want: n.Image, Origin: n.Origins.Of("image")},
		},
		Impact: installKind.impact, Expect: installKind.expect,
		Reason: fmt.Sprintf("generation %d of the design is not installed", n.Generation),
		Image:  &image, Generation: n.Generation, Loses: "everything on its disks", Undo: installKind.undo,
	}
}

// Generation is the generation that is on the machine: the highest of what was
// recorded, what the machine's own marker says and what its hypervisor has noted
// of it, so that neither a lost record nor an old marker can cause an
// installation. A virtual machine that is not there says nothing.
func Generation(n *site.Node, m site.Memory) int {
	have := m.Recorded.Generation()
	if mk := m.Observed.Marker; mk != nil && mk.Node == n.Name && !Absent(m.Observed) {
		have = max(have, mk.Generation)
	}
	if noted, err := strconv.Atoi(m.Observed.Facets[site.FacetDefinition].Have["generation"]); err == nil {
		have = max(have, noted)
	}
	return have
}
