package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// hosted is a hypervisor whose requests and guests take real ones' time.
var hosted = drivertest.Config{Latency: 50 * time.Millisecond, PowerTime: 2 * time.Second, OSTime: 40 * time.Second}

// guests is a site of virtual machines, each to be installed.
func (w *world) guests(names ...string) *site.Site {
	for _, name := range names {
		if w.fleet.Machine(name) == nil {
			w.fleet.AddVirtual("test", name)
		}
	}
	d := w.design()
	d.Images["debian"].Format = "qcow2"
	d.Hypervisors = map[string]*site.Hypervisor{"hv-1": {URL: "libvirt+tls://hv-1/system", Credential: "bmc"}}
	for _, name := range names {
		n := w.fleet.Machine(name).VirtualNode()
		n.Power, n.Image, n.Generation = "on", "debian", 1
		d.Nodes[name] = n
	}
	return d
}

// withGuest has a guest in-sync with its first generation.
func (w *world) withGuest(name string) *site.Site {
	w.t.Helper()
	d := w.guests(name)
	w.commit(d)
	w.up()
	w.inSyncSoon(name)
	return d
}

// inSyncSoon waits until a node is in-sync with the newest design.
func (w *world) inSyncSoon(name string) {
	w.t.Helper()
	head := w.source.newest()
	w.until(name+" is in-sync", 5*time.Minute, func() bool {
		s := w.engine.Report().Status
		return s.Applied.ID == head && slices.ContainsFunc(s.Nodes, func(n site.NodeStatus) bool { return n.Name == name && n.State == site.InSync })
	})
}

// recorded is what is recorded of a node.
func (w *world) recorded(name string) site.Recorded { return w.engine.Known().Nodes[name].Recorded }

// A machine that is not there is made, installed and booted without anybody's
// approval, since nothing can be lost; what its first boot was given is taken
// away once it has proven itself.
func TestNewGuest(t *testing.T) {
	inBubble(t, hosted, func(w *world) {
		w.withGuest("vm")
		m, r := w.fleet.Machine("vm"), w.recorded("vm")
		if !m.Defined() || m.Power() != "on" || m.Seeded() || m.Counts().Installs != 1 {
			t.Errorf("defined %t, %s, seed %t, %d installations", m.Defined(), m.Power(), m.Seeded(), m.Counts().Installs)
		}
		if i := r.Installed; i == nil || !i.Proven || i.Generation != 1 || len(i.FirstBoot.HostKeys) != 1 || len(i.FirstBoot.Tokens) != 0 {
			t.Errorf("recorded as installed: %+v", i)
		}
	})
}

// What only a first boot sets up, and was edited since, is not said to be as
// designed: until the next installation brings it about.
func TestEditsSinceTheFirstBootAreTold(t *testing.T) {
	const said = "system.users (edited since the first boot, which alone sets it)"
	inBubble(t, hosted, func(w *world) {
		w.systems = proving{w.fleet.OSDriver()}
		d := w.guests("vm")
		d.Nodes["vm"].System.Users = map[string]site.User{"ops": {Keys: []string{"ssh-ed25519 AAAA"}}}
		w.commit(d)
		w.up()
		w.inSyncSoon("vm")
		told := func() []string {
			for _, n := range w.engine.Report().Status.Nodes {
				if n.Name == "vm" {
					return n.NotActedOn
				}
			}
			return nil
		}
		if got := told(); len(got) > 0 {
			t.Errorf("as installed: %q", got)
		}
		for i, want := range [][]string{{said}, nil} {
			generation := i + 1
			d = w.guests("vm")
			d.Nodes["vm"].System.Users = map[string]site.User{"ops": {Keys: []string{"ssh-ed25519 BBBB"}}}
			d.Nodes["vm"].Generation = generation
			w.commit(d)
			w.after(time.Minute)
			if generation == 2 {
				w.approve()
			}
			w.inSyncSoon("vm")
			if got := told(); !slices.Equal(got, want) {
				t.Errorf("edited, at generation %d: %q, want %q", generation, got, want)
			}
		}
	})
}

// proving are systems that prove themselves, and that nothing else is asked of.
type proving struct{ driver.Driver }

func (proving) Facets() []site.Facet { return []site.Facet{site.FacetOS} }

// What is on a disk is lost only with an approval, and the new system has keys
// of its own.
func TestGuestIsInstalledAnew(t *testing.T) {
	inBubble(t, hosted, func(w *world) {
		w.withGuest("vm")
		key := w.recorded("vm").Installed.FirstBoot.HostKeys
		d := w.guests("vm")
		d.Nodes["vm"].Generation = 2
		w.commit(d)
		w.after(time.Minute)
		w.want("vm", site.Blocked)
		if n := w.fleet.Machine("vm").Counts().Installs; n != 1 {
			t.Fatalf("%d installations before the approval", n)
		}
		w.approve()
		w.inSyncSoon("vm")
		if i := w.recorded("vm").Installed; i.Generation != 2 || slices.Equal(i.FirstBoot.HostKeys, key) {
			t.Errorf("recorded as installed: %+v, the key before was %v", i, key)
		}
	})
}

// A marker with another token is another installation's, whatever it says.
func TestMarkerOfAnotherInstallation(t *testing.T) {
	inBubble(t, hosted, func(w *world) {
		w.fleet.AddVirtual("test", "vm").BreakFirstBoots()
		w.commit(w.guests("vm"))
		w.up()
		w.after(2 * time.Minute)
		w.fleet.Machine("vm").SetDisk(&site.Marker{Node: "vm", Generation: 1, Image: "d1", Token: "guessed"})
		w.after(5 * time.Minute)
		w.want("vm", site.Progressing)
		if r := w.recorded("vm"); r.Installing == nil || r.Installed != nil {
			t.Errorf("the marker was believed: %+v", r.Installed)
		}
		w.after(30 * time.Minute)
		w.want("vm", site.Stalled)
		if n := w.node("vm"); !strings.Contains(n.Reason, "console") {
			t.Errorf("it is stalled because %s", n.Reason)
		}
		if !w.fleet.Machine("vm").Seeded() {
			t.Error("the seed was taken away although nothing has proven itself")
		}
	})
}

// A system that shows another key than the one it was given is nobody to talk to,
// and its machine is left as it is until a person has looked.
func TestHostKeyThatChanges(t *testing.T) {
	inBubble(t, hosted, func(w *world) {
		w.withGuest("vm")
		m := w.fleet.Machine("vm")
		key, before := m.HostKey(), m.Counts()
		m.SetHostKey("ssh-ed25519 AAAAanother")
		w.after(10 * time.Minute) // it is asked every five
		w.want("vm", site.Stalled)
		if n := w.node("vm"); !strings.Contains(n.Reason, "host key") || !n.Person {
			t.Errorf("it is stalled because %s", n.Reason)
		}
		if i := w.recorded("vm").Installed; i == nil || !slices.Equal(i.FirstBoot.HostKeys, []string{key}) {
			t.Errorf("recorded as installed: %+v", i)
		}
		if now := m.Counts(); now.Installs != before.Installs || m.Power() != "on" {
			t.Errorf("%d installations after %d, and the machine is %s", now.Installs, before.Installs, m.Power())
		}
		m.SetHostKey(key)
		w.do(site.Order{Verb: site.VerbRetry, Node: "vm"})
		w.inSyncSoon("vm")
	})
}

// A daemon that dies over an installation at any moment goes on with it, and
// whichever of its seeds the machine has booted with proves it.
func TestDeathOverAnInstallation(t *testing.T) {
	for died := time.Duration(0); died < 8*time.Second; died += 300 * time.Millisecond {
		t.Run(died.String(), func(t *testing.T) {
			inBubble(t, hosted, func(w *world) {
				w.commit(w.guests("vm"))
				w.up()
				w.after(died)
				w.down()
				w.up()
				w.inSyncSoon("vm")
				if n := w.fleet.Machine("vm").Counts().Installs; n != 1 {
					t.Errorf("%d installations", n)
				}
			})
		})
	}
}

// A machine is taken away with an approval, and only then is its node forgotten.
func TestGuestLeaves(t *testing.T) {
	inBubble(t, hosted, func(w *world) {
		w.withGuest("vm")
		d := w.guests("vm")
		d.Nodes["vm"].Decommission = true
		w.commit(d)
		w.after(time.Minute)
		w.want("vm", site.Blocked)
		if !w.fleet.Machine("vm").Defined() {
			t.Fatal("the machine is gone before the approval")
		}
		w.approve()
		w.until("it is gone", time.Minute, func() bool { return !w.fleet.Machine("vm").Defined() })
		w.after(time.Minute)
		w.want("vm", site.InSync)
		if r := w.recorded("vm"); r.Installed != nil || r.Adopted != nil {
			t.Errorf("still recorded: %+v, %+v", r.Installed, r.Adopted)
		}
		w.commit(w.guests())
		w.until("the node is forgotten", time.Minute, func() bool { return len(w.engine.Report().Status.Nodes) == 0 })
		w.commit(w.guests("vm")) // another one of the same name
		w.inSyncSoon("vm")
		if n := w.fleet.Machine("vm").Counts().Installs; n != 2 {
			t.Errorf("%d installations of two machines", n)
		}
	})
}

// A node whose machine still runs is not forgotten, though it was announced.
func TestGuestThatIsStillThereIsNotForgotten(t *testing.T) {
	inBubble(t, hosted, func(w *world) {
		w.withGuest("vm")
		d := w.guests("vm")
		d.Nodes["vm"].Decommission = true
		w.commit(d)
		w.after(time.Minute)
		w.commit(w.guests())
		w.after(time.Minute)
		w.want("vm", site.Blocked)
		if n := w.node("vm"); !strings.Contains(n.Reason, "still on hv-1") {
			t.Errorf("it is held because %s", n.Reason)
		}
		w.do(site.Order{Verb: site.VerbApprove, Node: "vm"})
		w.until("the node is forgotten", time.Minute, func() bool { return len(w.engine.Report().Status.Nodes) == 0 })
		if !w.fleet.Machine("vm").Defined() {
			t.Error("the machine was taken away with its node")
		}
	})
}

// More memory is there after a boot, and nothing else is.
func TestGuestGetsMoreMemory(t *testing.T) {
	inBubble(t, hosted, func(w *world) {
		w.withGuest("vm")
		d := w.guests("vm")
		d.Nodes["vm"].Virtual.Memory = 2 << 30
		w.commit(d)
		w.inSyncSoon("vm")
		w.after(time.Minute)
		m := w.fleet.Machine("vm")
		if got := m.Have(site.FacetDefinition)["memory"]; got != "2GiB" || m.Counts().Installs != 1 {
			t.Errorf("it has %s, after %d installations", got, m.Counts().Installs)
		}
	})
}

func TestConsole(t *testing.T) {
	inBubble(t, hosted, func(w *world) {
		w.withGuest("vm")
		if text, err := w.engine.Console(w.t.Context(), "vm"); err != nil || string(text) != "booting\n" {
			t.Errorf("got %q, %v", text, err)
		}
		if _, err := w.engine.Console(w.t.Context(), "nobody"); err == nil || !strings.Contains(err.Error(), "nobody") {
			t.Errorf("got %v", err)
		}
	})
}

// A daemon without its records may place a machine where it is not. It is not
// made a second time, and the design can say where it is.
func TestGuestThatIsElsewhere(t *testing.T) {
	inBubble(t, hosted, func(w *world) {
		on := func(hypervisor string) *site.Site {
			d := w.guests("vm")
			d.Hypervisors["hv-2"] = &site.Hypervisor{URL: "libvirt+tls://hv-2/system", Credential: "bmc"}
			d.Nodes["vm"].Virtual.Hypervisor = hypervisor
			return d
		}
		d := on("hv-1")
		w.fleet.Machine("vm").MakeOn("hv-2", d.Nodes["vm"])
		w.commit(d)
		w.up()
		w.after(time.Minute)
		w.want("vm", site.Stalled)
		if n := w.node("vm"); !strings.Contains(n.Reason, "is on hv-2 already") || w.fleet.Machine("vm").Counts().Writes != 0 {
			t.Errorf("it is stalled because %s, after %d writes", n.Reason, w.fleet.Machine("vm").Counts().Writes)
		}
		w.commit(on("hv-2"))
		w.after(time.Minute)
		if s := w.engine.Report().Status; s.Applied.ID != w.source.newest() {
			t.Fatalf("the design that says where it is, is refused: %+v", w.engine.Report().Findings)
		}
	})
}

// A daemon without its records makes no machine that a hypervisor which does not
// answer may have.
func TestGuestThatMayBeElsewhere(t *testing.T) {
	inBubble(t, hosted, func(w *world) {
		d := w.guests("vm")
		d.Hypervisors["hv-2"] = &site.Hypervisor{URL: "nothing+tls://hv-2/system"}
		d.Nodes["vm"].Virtual.Hypervisor = "hv-1"
		w.commit(d)
		w.up()
		w.after(time.Minute)
		w.want("vm", site.Retrying)
		if n := w.node("vm"); !strings.Contains(n.Reason, "hv-2 may have the machine already") || w.fleet.Machine("vm").Defined() {
			t.Errorf("it is retrying because %s, defined: %t", n.Reason, w.fleet.Machine("vm").Defined())
		}
		w.down()
		w.up() // it has records by now
		w.inSyncSoon("vm")
	})
}

// away is the site of a guest whose hypervisor is reached at another address, at
// which the guest is not.
func (w *world) away(change func(*site.Node)) *site.Site {
	d := w.guests("vm")
	d.Hypervisors["hv-1"].URL = "libvirt+tls://another/system"
	change(d.Nodes["vm"])
	return d
}

// A guest that is not where its hypervisor is said to be by now is neither made
// a second time nor forgotten.
func TestGuestOfAnotherAddress(t *testing.T) {
	for name, change := range map[string]func(*site.Node){
		"only the address":       func(*site.Node) {},
		"another generation":     func(n *site.Node) { n.Generation = 2 },
		"without a generation":   func(n *site.Node) { n.Generation = 0 },
		"it is to be taken away": func(n *site.Node) { n.Decommission = true },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, hosted, func(w *world) {
				w.withGuest("vm")
				before := w.fleet.Machine("vm").Counts().Writes
				w.commit(w.away(change))
				w.after(2 * time.Minute)
				w.want("vm", site.Stalled)
				if n := w.node("vm"); !strings.Contains(n.Reason, "last seen at libvirt+tls://hv-1") || w.fleet.Machine("vm").Counts().Writes != before {
					t.Errorf("it is stalled because %s", n.Reason)
				}
				if r := w.recorded("vm"); r.Adopted == nil || r.Installed == nil {
					t.Errorf("it was forgotten: %+v", r)
				}
			})
		})
	}
}

// A line of the design that approved the end of a machine does not approve that
// of the next one of its name.
func TestLineApprovesOneLife(t *testing.T) {
	inBubble(t, hosted, func(w *world) {
		w.withGuest("vm")
		d := w.guests("vm")
		d.Nodes["vm"].Decommission = true
		w.commit(d)
		w.after(time.Minute)
		line := map[string]site.Approval{w.engine.Report().Status.Approve: {By: "ada"}}
		leaves := w.guests("vm")
		leaves.Nodes["vm"].Decommission, leaves.Approvals = true, line
		w.commit(leaves)
		w.until("it is gone", 5*time.Minute, func() bool { return !w.fleet.Machine("vm").Defined() })
		w.after(time.Minute)
		again := w.guests("vm")
		again.Approvals = line
		w.commit(again)
		w.inSyncSoon("vm")
		w.commit(leaves)
		w.after(5 * time.Minute)
		w.want("vm", site.Blocked)
		if !w.fleet.Machine("vm").Defined() {
			t.Error("an old line took a new machine away")
		}
		w.approve()
		w.until("it is gone", 5*time.Minute, func() bool { return !w.fleet.Machine("vm").Defined() })
	})
}
