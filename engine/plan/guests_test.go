package plan_test

import (
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Whoever approves that a hypervisor is installed anew reads which virtual machines are on its disks.
func TestInstallationOfAHypervisorNamesItsGuests(t *testing.T) {
	hv := &site.Node{Name: "hv1", Power: "on", Image: "debian", Generation: 2, Inspect: "never", Identity: site.Identity{UUID: "5e1d0000-0000-4000-8000-000000000001"}}
	guest := &site.Node{Name: "web-1", Style: site.StyleVirtual, Power: "on", Virtual: site.Virtual{Host: site.Host{Hypervisor: "hv-1"},
		Disks: map[string]site.VirtualDisk{"root": {Size: 20 << 30, Image: "overlay"}}}}
	guest.Derive("s")
	s := &site.Site{Name: "s", Nodes: map[string]*site.Node{"hv1": hv, "web-1": guest}, Hypervisors: map[string]*site.Hypervisor{"hv-1": {URL: "libvirt+tls://hv1/system", Node: "hv1"}},
		Images: map[string]*site.Image{"debian": {URL: "http://images.example/d.iso", SHA256: "d2"}}}
	p := plan.Node(s, hv, site.Known{Records: "r", Nodes: map[string]site.Memory{
		"hv1": {Recorded: site.Recorded{Adopted: &site.Adoption{Machine: hv.Identity, Settled: now}, Installed: &site.Installation{Generation: 1, Proven: true, Since: now}},
			Observed: site.Observed{Identity: hv.Identity, Disks: &site.Disks{Serials: []string{"S1"}}}},
		"web-1": {Recorded: site.Recorded{Adopted: &site.Adoption{Machine: guest.Identity}, Installed: &site.Installation{Generation: 1, Proven: true, Since: now}}},
	}})
	all := site.Plan{Nodes: []site.NodePlan{p}}
	losses := all.Destroys()
	if len(losses) != 1 || !strings.Contains(losses[0].Lost, "web-1") && !strings.Contains(strings.Join(p.Notes, " "), "web-1") {
		t.Errorf("the loss is %+v, notes %q: it does not say that the virtual machine web-1 and its disks are lost too", losses, p.Notes)
	}
}
