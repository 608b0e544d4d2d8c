package rollout_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// An unhealthy hypervisor does not wait for itself: its virtual machines need no place beside the one that it has.
func TestUnhealthyHypervisorDoesNotWaitForItself(t *testing.T) {
	for _, majority := range []bool{false, true} {
		f, all := hosting()
		f.Site.Rollout.MaxUnavailable = "1"
		f.Site.Roles["etcd"].Majority, f.Site.Roles["etcd"].MaxUnavailable = majority, "1"
		hv := all["hv1"]
		hv.Design.Role = "etcd" // both bounds are those of its virtual machine too
		hv.Design.References.Health = &site.Health{Command: []string{"works"}}
		hv.WasHealthy, hv.Probes.State = true, site.Unhealthy
		got := said(f, f.Room(try(hv, reboots)))
		want := ""
		if majority { // a person is called, since nobody else coming back helps: its vote is missing already, and that of its virtual machine would be too
			want = "its virtual machine etcd1 goes down with it, and role etcd allows 1 of 4 nodes out of service (it decides by majority); 1 of them are on this hypervisor, which does not serve itself; one of them moved to another hypervisor, or a role without `majority`; a person"
		}
		if got != want {
			t.Errorf("majority %t:\n got %s\nwant %s", majority, got, want)
		}
		f.Change(all["b1"], func() {
			all["b1"].Design.References.Health, all["b1"].WasHealthy, all["b1"].Probes.State = hv.Design.References.Health, true, site.Unhealthy
		})
		if !majority {
			want = "its virtual machine etcd1 goes down with it, and the site allows 1 of 11 nodes out of service (maxUnavailable 1); 1 are: b1 (unhealthy); one of b1 coming back into service"
			if got := said(f, f.Room(try(hv, reboots))); got != want {
				t.Errorf("with another one:\n got %s\nwant %s", got, want)
			}
		}
	}
}

// hypervisorForecast is the forecast of a site of a hypervisor that is unhealthy, its virtual machine, and others, all of one
// role that allows one of them out of service.
func hypervisorForecast(t *testing.T, change func(*site.Site, *site.Plan, site.Known, func(string))) *site.Forecast {
	t.Helper()
	s, p := fleet(4)
	s.Rollout.MaxUnavailable = "3"
	s.Roles = map[string]*site.Role{"web": {Enabled: true, MaxUnavailable: "1"}}
	s.Hypervisors = map[string]*site.Hypervisor{"hv": {URL: "libvirt+tls://hv/system", Node: "n000"}}
	known := site.Known{Serves: map[site.Facet]bool{site.FacetProbes: true}, Nodes: map[string]site.Memory{}}
	for name, n := range s.Nodes {
		n.Role, n.Rack, n.Power = "web", "", "on"
		n.References.Health = &site.Health{Command: []string{"works"}}
		n.Endpoints = map[site.EndpointKind]site.Endpoint{site.OS: {URL: "ssh://192.0.2.1"}}
		known.Nodes[name] = probed(item.Passed)
	}
	s.Nodes["n001"].Style, s.Nodes["n001"].Virtual.Host.Hypervisor = site.StyleVirtual, "hv"
	change(s, p, known, func(name string) { known.Nodes[name] = probed("exit status 1") })
	done := make(chan *site.Forecast, 1)
	go func() { done <- rollout.Forecast(s, p, known, now) }()
	select {
	case f := <-done:
		return f
	case <-time.After(time.Minute):
		t.Fatal("the forecast does not end")
	}
	return nil
}

// probed is a machine that was in service, with what its probe said last.
func probed(said string) site.Memory {
	m := seen("on")
	m.Recorded.Healthy, m.Recorded.EverHealthy = now, now
	m.Observed.Facets[site.FacetProbes] = site.FacetState{Seen: now, Have: site.Values{item.CommandProbe([]string{"works"}).Key: said}}
	return m
}

// A hypervisor that has a place of its own waits while its virtual machine has none. The forecast ends, has it go on once there
// is a place, and lets others of its role go on meanwhile.
func TestForecastOfAHypervisorWhoseVirtualMachineHasNoPlace(t *testing.T) {
	order := func(f *site.Forecast) string {
		var all []string
		for _, o := range f.Order {
			all = append(all, fmt.Sprintf("%s %s", o.Node, time.Duration(o.From)))
		}
		return strings.Join(all, ", ")
	}
	f := hypervisorForecast(t, func(_ *site.Site, p *site.Plan, _ site.Known, fails func(string)) {
		fails("n000")
		p.Nodes = p.Nodes[:1]
	})
	if got := order(f); got != "n000 0s" || len(f.Warnings) > 0 {
		t.Errorf("alone: %s, %q", got, f.Warnings)
	}
	f = hypervisorForecast(t, func(_ *site.Site, p *site.Plan, _ site.Known, fails func(string)) {
		fails("n000")
		fails("n002") // which is planned, and unhealthy too: its place is no one's
		p.Nodes = []site.NodePlan{p.Nodes[0], p.Nodes[2]}
	})
	if got := order(f); got != "n002 0s, n000 10m0s" || len(f.Warnings) > 0 {
		t.Errorf("with another one that is repaired: %s, %q", got, f.Warnings)
	}
	f = hypervisorForecast(t, func(_ *site.Site, p *site.Plan, _ site.Known, fails func(string)) {
		fails("n000")
		fails("n002") // for which nothing is planned
		p.Nodes = p.Nodes[:1]
	})
	if got := order(f); got != "" || len(f.Warnings) != 1 || !strings.Contains(f.Warnings[0], "n000") {
		t.Errorf("with another one that is not: %s, %q", got, f.Warnings)
	}
}
