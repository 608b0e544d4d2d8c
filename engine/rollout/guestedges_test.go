package rollout_test

import (
	"fmt"
	"testing"

	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// hosting is a site of three hypervisors, each with a member of etcd, which decides by majority.
func hosting() (*rollout.Facts, rollout.ByName) {
	f, all := world()
	f.Site.Roles["etcd"] = &site.Role{Enabled: true, Majority: true}
	f.Site.Roles["hv"] = &site.Role{Enabled: true}
	f.Site.Hypervisors = map[string]*site.Hypervisor{}
	f.Site.Rollout.MaxUnavailable = "6"
	for _, i := range []string{"1", "2", "3"} {
		hv, guest := serving("hv"+i, "hv"), serving("etcd"+i, "etcd")
		guest.Design.Style, guest.Design.Rack = site.StyleVirtual, ""
		guest.Design.Virtual.Host.Hypervisor = "hv-" + i
		f.Site.Hypervisors["hv-"+i] = &site.Hypervisor{URL: "libvirt+tls://hv" + i + "/system", Node: "hv" + i}
		all["hv"+i], f.Site.Nodes["hv"+i] = hv, hv.Design
		all["etcd"+i], f.Site.Nodes["etcd"+i] = guest, guest.Design
	}
	return f, all
}

// A hypervisor waits for the virtual machines whose majority it would take, and is asked again when one is back; where it has
// so many of them itself that nobody coming back lets it go on, a person is needed.
func TestWhatAHypervisorWaitsFor(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*rollout.Facts, rollout.ByName)
		want   string
		wakes  string
	}{
		"nothing": {func(*rollout.Facts, rollout.ByName) {}, "", ""},
		"another member": {func(_ *rollout.Facts, all rollout.ByName) { all["etcd1"].Disrupts = true },
			"its virtual machine etcd2 goes down with it, and role etcd allows 1 of 3 nodes out of service (it decides by majority); 1 are: etcd1; one of etcd1 coming back into service",
			fmt.Sprint([]rollout.Topic{rollout.Places}, []string{"etcd1"})},
		"another hypervisor": {func(_ *rollout.Facts, all rollout.ByName) { all["hv1"].Disrupts = true },
			"its virtual machine etcd2 goes down with it, and role etcd allows 1 of 3 nodes out of service (it decides by majority); 1 are: etcd1; one of etcd1 coming back into service",
			fmt.Sprint([]rollout.Topic{rollout.Places}, []string{"etcd1"})},
		"a person": {func(_ *rollout.Facts, all rollout.ByName) { all["etcd3"].Design.Virtual.Host.Hypervisor = "hv-2" },
			"its virtual machine etcd2 goes down with it, and role etcd allows 1 of 3 nodes out of service (it decides by majority); 2 of them are on this hypervisor; one of them moved to another hypervisor, or a role without `majority`; a person",
			fmt.Sprint([]rollout.Topic{rollout.Places}, []string(nil))},
		"of another role, or down already": {func(_ *rollout.Facts, all rollout.ByName) {
			for _, name := range []string{"a1", "a2"} {
				all[name].Design.Style, all[name].Design.Virtual.Host.Hypervisor = site.StyleVirtual, "hv-2"
			}
			all["etcd3"].Design.Virtual.Host.Hypervisor, all["etcd3"].Disrupts = "hv-2", true
		}, "its virtual machine etcd2 goes down with it, and role etcd allows 1 of 3 nodes out of service (it decides by majority); 1 are: etcd3; one of etcd3 coming back into service",
			fmt.Sprint([]rollout.Topic{rollout.Places}, []string{"etcd3"})},
	} {
		for range 24 { // in whatever order they are known
			f, all := hosting()
			c.change(f, all)
			r := f.Room(try(all["hv2"], reboots))
			if got := said(f, r); got != c.want {
				t.Fatalf("%s:\n got %s\nwant %s", name, got, c.want)
			}
			if r == nil {
				continue
			}
			if v := r.Verdict(f); fmt.Sprint(v.Waits, v.For) != c.wakes {
				t.Fatalf("%s: it is woken by %v for %v, want %s", name, v.Waits, v.For, c.wakes)
			}
		}
	}
}

// A bound that counts no votes gives a hypervisor and its virtual machines one place together. A virtual machine that is out of
// service needs none.
func TestWhatGoesDownTogetherTakesOnePlace(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*rollout.Facts, rollout.ByName)
		want   string
	}{
		"two of the role": {func(_ *rollout.Facts, all rollout.ByName) {
			all["etcd3"].Design.Virtual.Host.Hypervisor = "hv-2"
		}, ""},
		"one that is out of service": {func(_ *rollout.Facts, all rollout.ByName) { all["etcd2"].Disrupts = true }, ""},
		"one that is, and one that serves": {func(_ *rollout.Facts, all rollout.ByName) {
			all["etcd2"].Disrupts, all["etcd3"].Design.Virtual.Host.Hypervisor = true, "hv-2"
		}, "its virtual machine etcd3 goes down with it, and role etcd allows 1 of 3 nodes out of service (maxUnavailable 1); 1 are: etcd2; one of etcd2 coming back into service"},
		"an unhealthy hypervisor gives a place of its own groups alone": {func(_ *rollout.Facts, all rollout.ByName) {
			all["hv2"].WasHealthy, all["hv2"].Probes.State = true, site.Unhealthy
			all["etcd1"].Disrupts = true
		}, "its virtual machine etcd2 goes down with it, and role etcd allows 1 of 3 nodes out of service (maxUnavailable 1); 1 are: etcd1; one of etcd1 coming back into service"},
	} {
		f, all := hosting()
		f.Site.Roles["etcd"].Majority, f.Site.Roles["etcd"].MaxUnavailable = false, "1"
		c.change(f, all)
		if got := said(f, f.Room(try(all["hv2"], reboots))); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

// A role that decides by majority loses the vote of a hypervisor that is a member itself, besides those of its virtual machines.
func TestHypervisorThatVotesItself(t *testing.T) {
	ill := func(n *rollout.Node) { n.WasHealthy, n.Probes.State = true, site.Unhealthy }
	for name, c := range map[string]struct {
		change func(*rollout.Facts, rollout.ByName)
		want   string
	}{
		"it and one": {func(*rollout.Facts, rollout.ByName) {}, ""},
		"it and two": {func(_ *rollout.Facts, all rollout.ByName) { all["etcd3"].Design.Virtual.Host.Hypervisor = "hv-2" },
			"its virtual machine etcd2 goes down with it, and role etcd allows 2 of 5 nodes out of service (it decides by majority); 2 of them are on this hypervisor, which is one of them itself; one of them moved to another hypervisor, or a role without `majority`; a person"},
		"it and one, with another out": {func(_ *rollout.Facts, all rollout.ByName) { all["etcd1"].Disrupts = true },
			"its virtual machine etcd2 goes down with it, and role etcd allows 2 of 5 nodes out of service (it decides by majority); 1 are: etcd1; one of etcd1 coming back into service"},
		"one, while it does not serve": {func(_ *rollout.Facts, all rollout.ByName) { ill(all["hv2"]) }, ""},
		"one, while it does not serve, with another out": {func(_ *rollout.Facts, all rollout.ByName) { ill(all["hv2"]); all["etcd1"].Disrupts = true },
			"its virtual machine etcd2 goes down with it, and role etcd allows 2 of 5 nodes out of service (it decides by majority); 2 are: etcd1, hv2 (unhealthy); one of etcd1, hv2 coming back into service"},
		"two, while it does not serve": {func(_ *rollout.Facts, all rollout.ByName) {
			ill(all["hv2"])
			all["etcd3"].Design.Virtual.Host.Hypervisor = "hv-2"
		}, "its virtual machine etcd2 goes down with it, and role etcd allows 2 of 5 nodes out of service (it decides by majority); 2 of them are on this hypervisor, which does not serve itself; one of them moved to another hypervisor, or a role without `majority`; a person"},
		"two, while it is not used": {func(_ *rollout.Facts, all rollout.ByName) {
			no := false
			all["hv2"].Design.Enabled, all["etcd3"].Design.Virtual.Host.Hypervisor = &no, "hv-2"
		}, "its virtual machine etcd2 goes down with it, and role etcd allows 1 of 4 nodes out of service (it decides by majority); 2 of them are on this hypervisor; one of them moved to another hypervisor, or a role without `majority`; a person"},
		"one, while it is unhealthy in another role": {func(_ *rollout.Facts, all rollout.ByName) {
			ill(all["hv2"])
			all["hv1"].Design.Role, all["hv2"].Design.Role, all["etcd1"].Disrupts = "hv", "hv", true
		}, "its virtual machine etcd2 goes down with it, and role etcd allows 1 of 3 nodes out of service (it decides by majority); 1 are: etcd1; one of etcd1 coming back into service"},
	} {
		f, all := hosting()
		all["hv1"].Design.Role, all["hv2"].Design.Role = "etcd", "etcd"
		c.change(f, all)
		if got := said(f, f.Room(try(all["hv2"], reboots))); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

// Only a virtual machine goes down with a hypervisor: one whose hypervisor the design does not know, or of which it does not say
// which node it is, is placed on none.
func TestWhatIsPlacedOnNoNode(t *testing.T) {
	for name, change := range map[string]func(*rollout.Facts, rollout.ByName){
		"no virtual machine": func(_ *rollout.Facts, all rollout.ByName) {
			all["etcd1"].Design.Style = ""
		},
		"an unknown hypervisor": func(f *rollout.Facts, _ rollout.ByName) { delete(f.Site.Hypervisors, "hv-1") },
		"one that is no node": func(f *rollout.Facts, all rollout.ByName) {
			f.Site.Hypervisors["hv-1"].Node = ""
		},
		"one whose node is gone": func(_ *rollout.Facts, all rollout.ByName) { delete(all, "hv1") },
	} {
		f, all := hosting()
		all["hv1"].Disrupts = true
		change(f, all)
		if r := f.Room(try(all["hv2"], reboots)); r != nil {
			t.Errorf("%s: %s", name, said(f, r))
		}
	}
}
