package rollout_test

import (
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A hypervisor is not restarted while that takes the majority from a role: its virtual machines go down with it.
func TestHypervisorTakesItsGuestsDown(t *testing.T) {
	f, all := world()
	f.Site.Roles["etcd"] = &site.Role{Enabled: true, Majority: true}
	f.Site.Roles["hv"] = &site.Role{Enabled: true}
	f.Site.Hypervisors = map[string]*site.Hypervisor{}
	for _, i := range []string{"1", "2", "3"} {
		hv, guest := serving("hv"+i, "hv"), serving("etcd"+i, "etcd")
		guest.Design.Style, guest.Design.Rack = site.StyleVirtual, ""
		guest.Design.Virtual.Host.Hypervisor = "hv-" + i
		f.Site.Hypervisors["hv-"+i] = &site.Hypervisor{URL: "libvirt+tls://hv" + i + "/system", Node: "hv" + i}
		all["hv"+i], f.Site.Nodes["hv"+i] = hv, hv.Design
		all["etcd"+i], f.Site.Nodes["etcd"+i] = guest, guest.Design
	}
	f.Site.Rollout.MaxUnavailable = "4"
	all["hv1"].Disrupts = true // it restarts, and etcd1 with it
	if r := f.Room(try(all["hv2"], reboots)); r == nil {
		t.Error("hv2 may restart while hv1 does: two of the three members of etcd, which decides by majority, are down then")
	}
	f.Change(all["hv1"], func() { all["hv1"].Disrupts = false })
	if r := f.Room(try(all["hv2"], reboots)); r != nil {
		t.Errorf("hv2 may not restart alone: %+v", r.Verdict(f))
	}
	all["etcd3"].Design.Virtual.Host.Hypervisor = "hv-2"
	again := rollout.Facts{Site: f.Site, Now: f.Now, Every: f.Every, EveryInside: f.EveryInside, Rollout: f.Rollout, Nodes: f.Nodes}
	r := again.Room(try(all["hv2"], reboots))
	if r == nil {
		t.Fatal("hv2 may restart with two of the three members of etcd")
	}
	if v := r.Verdict(&again); !v.Person || !strings.Contains(v.Sentence, "goes down with it, and role etcd allows 1 of 3") {
		t.Errorf("%+v", v)
	}
}

// Of the virtual machines that go down with a hypervisor each is counted as it changes, also after one that was out of
// service before.
func TestCountsFollowEachGuest(t *testing.T) {
	f, all := hosting()
	f.Site.Roles["etcd"].Majority, f.Site.Roles["etcd"].MaxUnavailable = false, "2"
	all["etcd2"].Design.Virtual.Host.Hypervisor = "hv-1"
	all["etcd1"].Quarantined = true
	if r := f.Room(try(all["etcd3"], reboots)); r != nil {
		t.Fatalf("with etcd1 alone out of service: %s", said(f, r))
	}
	f.Change(all["hv1"], func() { all["hv1"].Disrupts = true })
	want := "role etcd allows 2 of 3 nodes out of service (maxUnavailable 2); 2 are: etcd1, etcd2; one of etcd1, etcd2 coming back into service"
	if got := said(f, f.Room(try(all["etcd3"], reboots))); got != want {
		t.Errorf("with hv1 out of service too:\n got %s\nwant %s", got, want)
	}
}
