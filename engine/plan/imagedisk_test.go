package plan_test

import (
	"testing"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A virtual machine that runs an installed system is not installed anew without an approval because the design calls the disk of
// its image by another name.
func TestRenamedImageDiskStillNeedsApproval(t *testing.T) {
	n := &site.Node{
		Name: "v1", Style: site.StyleVirtual, Power: "on", Image: "debian", Generation: 2,
		Virtual: site.Virtual{CPUs: 1, Memory: 1 << 30, Host: site.Host{Hypervisor: "hv-1", Accelerator: "kvm"},
			Disks: map[string]site.VirtualDisk{"os": {Size: 20 << 30, Image: "overlay"}}},
		Endpoints: map[site.EndpointKind]site.Endpoint{site.Manager: {URL: "libvirt+tls://hv-1/system?domain=v1&site=s"}},
	}
	n.Derive("s")
	s := &site.Site{Name: "s", Nodes: map[string]*site.Node{"v1": n}, Hypervisors: map[string]*site.Hypervisor{"hv-1": {}},
		Images: map[string]*site.Image{"debian": {URL: "http://images.example/d.qcow2", SHA256: "d2"}}}
	m := site.Memory{
		Observed: site.Observed{Identity: n.Identity, Facets: map[site.Facet]site.FacetState{
			site.FacetPower:      {Have: site.Values{"state": "on"}, Seen: now},
			site.FacetDefinition: {Have: n.Want(site.FacetDefinition), Seen: now},
			// The system runs from the disk "root", as the design called it when generation 1 was installed.
			site.FacetDisks: {Have: site.Values{"root.size": "20GiB", "root.pool": "default", "root.format": "qcow2", "root.bus": "virtio"}, Seen: now},
			site.FacetSeed:  {Have: site.Values{"state": site.SeedNone}, Seen: now},
		}},
		Recorded: site.Recorded{
			Adopted:   &site.Adoption{Machine: n.Identity, When: now, Settled: now, Manager: n.Endpoints[site.Manager].URL},
			Installed: &site.Installation{Generation: 1, Image: "d1", Since: now, Proven: true, Reported: true},
		},
	}
	p := plan.Node(s, n, site.Known{Nodes: map[string]site.Memory{"v1": m}, Records: "r"})
	for _, step := range p.Steps {
		if _, destroys := step.Destroys(); step.Action == site.ActionInstall && !destroys {
			t.Errorf("the running system is switched off and replaced without approval: impact %s, loses %q, reason %q", step.Impact, step.Loses, step.Reason)
		}
	}
}
