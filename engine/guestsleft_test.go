package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// hostsGuest is a design in which the machine a is the node of the hypervisor hv-1, with the virtual machine vm.
func (w *world) hostsGuest() *site.Site {
	if w.fleet.Machine("vm") == nil {
		w.fleet.AddVirtual("test", "vm")
	}
	d := w.rooted("a")
	d.Rollout.FirstContact, d.Rollout.MaxUnavailable = "repair", "5"
	d.Hypervisors = map[string]*site.Hypervisor{
		"hv-1": {URL: "libvirt+tls://vm/system", Credential: "bmc", Node: "a"},
	}
	n := w.fleet.Machine("vm").VirtualNode()
	n.Power = "on"
	d.Nodes["vm"] = n
	return d
}

// A virtual machine that a commit drops is still on its hypervisor until a person says otherwise: an approval of the
// hypervisor's node does not name it, and destroys nothing. Once a person has let it go, or it is back and named, the approval
// ends in an installation.
func TestHostOfAGuestThatLeftTheDesign(t *testing.T) {
	lets := func(w *world, _ *site.Site) {
		w.do(site.Order{Verb: site.VerbApprove, Node: "vm", Shown: w.node("vm").Approval})
	}
	for name, c := range map[string]struct {
		drops  func(d *site.Site)
		settle func(w *world, d *site.Site)
	}{
		"a person lets it go":        {func(*site.Site) {}, lets},
		"it is back":                 {func(*site.Site) {}, func(w *world, d *site.Site) { w.commit(d) }},
		"its hypervisor has no node": {func(d *site.Site) { d.Hypervisors["hv-1"].Node = "" }, lets},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				w.listens = true
				w.commit(w.hostsGuest())
				w.up()
				w.until("the installation waits", 10*time.Minute, func() bool { return w.engine.Report().Status.Approve != "" })
				w.approve()
				w.after(time.Minute)
				w.until("both are in-sync", 2*time.Hour, w.is(site.InSync, "a", "vm"))
				d := w.hostsGuest()
				d.Nodes["a"].Generation = 2
				delete(d.Nodes, "vm")
				c.drops(d)
				w.commit(d)
				w.until("it waits", 10*time.Minute, func() bool { return w.engine.Report().Status.Approve != "" })
				w.approve()
				w.after(2 * time.Hour)
				if n := w.node("a"); w.started("a") > 1 || len(w.agents.Asked()) > 1 || n.State != site.Blocked || !n.Person || !strings.Contains(n.Reason, "vm") {
					t.Fatalf("the agent was started %d times, and asked %d times; %s: %s", w.started("a"), len(w.agents.Asked()), n.State, n.Reason)
				}
				back := w.hostsGuest()
				back.Nodes["a"].Generation = 2
				c.settle(w, back)
				w.after(5 * time.Minute)
				if waits := w.engine.Report().Status.Waiting; len(waits) > 0 {
					if !strings.Contains(waits[0].Lost, "vm") {
						t.Errorf("what waits for another approval is %q", waits[0].Lost)
					}
					w.approve()
				}
				w.until("it is installed", 3*time.Hour, func() bool { return w.installedBy("a").Generation == 2 })
			}, "a")
		})
	}
}
