package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/switches"
)

// onSwitch is a design whose machines start over the network by a port of leaf-1 that carries the
// network os afterwards.
func (w *world) onSwitch(names ...string) *site.Site {
	d := w.networked(names...)
	d.Networks["boot"].VLAN = 7
	d.Networks["os"] = &site.Network{CIDR: "10.1.0.0/24", VLAN: 20, Gateway: "10.1.0.1"}
	d.Networks["data"] = &site.Network{CIDR: "10.2.0.0/24", VLAN: 30}
	d.Links = map[string]*site.Link{"trunk": {Networks: []string{"os", "data"}, Trunk: true, Native: "os"}}
	for i, name := range names {
		n, address := d.Nodes[name], fmt.Sprintf("10.1.0.%d", 11+i)
		n.Interfaces = map[string]site.Interface{"eno1": {MAC: "02:00:5E:00:53:01", Boot: "boot", Link: "trunk", Networks: []string{"os"}, Switch: "leaf-1", Port: fmt.Sprintf("Ethernet1/%d", 1+i)}}
		n.Addresses = map[string]string{"os": address}
		n.References.Links = map[string]item.Link{"eno1": {Kind: "ethernet", Addresses: []string{address + "/24"}}}
	}
	return d
}

// plugged brings a daemon whose machine a is at a switch to where its installation waits for
// approval. The system of the machine reaches its gateway while the port is in production.
func (w *world) plugged() {
	w.t.Helper()
	w.segment, w.leaf, w.listens = newSegment(), switches.New(), true
	w.leaf.Watch(func(switches.Call) { w.wires() })
	w.commit(w.onSwitch("a"))
	w.up()
	w.until("the installation waits for approval", 5*time.Minute, func() bool { return w.engine.Report().Status.Approve != "" })
}

// wires has the system see what the switch carries now.
func (w *world) wires() {
	var silent []string
	if w.leaf.State("a", "eno1") != switches.Production {
		silent = []string{"10.1.0.1"}
	}
	w.fleet.Machine("a").SetLinks([]item.Port{{Name: "eno1", MAC: "02:00:5e:00:53:01", Carrier: "up", Speed: 25000, Duplex: "full", MTU: 1500}}, nil, silent...)
}

// turned are the states that the switch was told, in order.
func (w *world) turned() (all []switches.State) {
	for _, c := range w.leaf.Calls() {
		all = append(all, c.To)
	}
	return all
}

func (w *world) prepared() *site.PreparedPorts {
	return w.engine.Known().Nodes["a"].Recorded.Ports
}

const notProven = "port Ethernet1/1 of switch leaf-1 was prepared for the start over the network, and is not proven to be back on its networks: "

// The port is prepared before the machine is touched, put back before the machine starts from its
// disk, and the node is in-sync once its own system has seen that.
func TestPortsArePreparedAndProven(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.plugged()
		w.after(10 * time.Minute)
		if calls := w.leaf.Calls(); len(calls) > 0 {
			t.Fatalf("before anybody approved the switch was told %+v", calls)
		}
		w.leaf.Behave(switches.Provisioning, switches.Unkind{Takes: 90 * time.Second})
		w.leaf.Behave(switches.Production, switches.Unkind{Takes: 90 * time.Second})
		w.approve()
		w.until("it is in-sync", time.Hour, w.is(site.InSync, "a"))
		calls := w.leaf.Calls()
		if got := w.turned(); !slices.Equal(got, []switches.State{switches.Provisioning, switches.Production}) {
			t.Fatalf("the switch was told %v", got)
		}
		starts, ends := w.begun("a", site.ActionStartAgent, time.Time{}), w.begun("a", site.ActionFinishInstall, time.Time{})
		if starts.Before(calls[0].When) || ends.Before(calls[1].When) || calls[1].When.Before(w.begun("a", site.ActionInstall, time.Time{})) {
			t.Errorf("told at %s and %s, and the machine began at %s and %s", calls[0].When, calls[1].When, starts, ends)
		}
		want := site.SwitchedPort{Interface: "eno1", MAC: "02:00:5e:00:53:01", Switch: "leaf-1", Port: "Ethernet1/1", Boot: site.CarriedNetwork{Network: "boot", VLAN: 7},
			Networks: []site.CarriedNetwork{{Network: "data", VLAN: 30, Tagged: true}, {Network: "os", VLAN: 20}}}
		if got := calls[1].Port; fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("the port is\n%+v, want\n%+v", got, want)
		}
		if p := w.prepared(); p != nil {
			t.Errorf("on record is %+v", p)
		}
		w.after(3 * time.Hour)
		if got := len(w.leaf.Calls()); got != 2 {
			t.Errorf("told %d times", got)
		}
	}, "a")
}

// A switch that says the port is back while it is not is told again; what it says counts for
// nothing. After the third time a person is asked, and whoever sets the port is right.
func TestASwitchThatSaysDoneAndIsNot(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.plugged()
		w.leaf.Behave(switches.Production, switches.Unkind{Lies: true}, switches.Unkind{})
		w.approve()
		w.until("its system runs", time.Hour, func() bool { return strings.HasPrefix(w.node("a").Reason, notProven) })
		if n := w.node("a"); n.State != site.Progressing || !strings.HasSuffix(n.Reason, "the gateway 10.1.0.1 of network os does not answer") && !strings.HasSuffix(n.Reason, "since") {
			t.Errorf("%s: %s", n.State, n.Reason)
		}
		w.until("it is in-sync", time.Hour, w.is(site.InSync, "a"))
		if got := w.turned(); !slices.Equal(got, []switches.State{switches.Provisioning, switches.Production, switches.Production}) || w.prepared() != nil {
			t.Errorf("told %v, on record %+v", got, w.prepared())
		}
	}, "a")
	inBubble(t, usual, func(w *world) {
		w.plugged()
		w.leaf.Behave(switches.Production, switches.Unkind{Lies: true})
		w.approve()
		w.until("a person is asked", 2*time.Hour, w.is(site.Stalled, "a"))
		if n := w.node("a"); !strings.HasPrefix(n.Reason, notProven+"the gateway 10.1.0.1 of network os does not answer") || !strings.HasSuffix(n.Reason, "Slipway configured the switch 3 times; check it, then run `slipway retry a`") {
			t.Errorf("%s: %s", n.State, n.Reason)
		}
		w.after(time.Hour)
		if got := len(w.leaf.Calls()); got != 4 {
			t.Errorf("told %d times", got)
		}
		w.down()
		w.up() // which knows it from the records alone
		w.after(5 * time.Minute)
		w.want("a", site.Stalled)
		w.do(site.Order{Verb: site.VerbRetry, Node: "a"})
		w.until("it is told again", 10*time.Minute, func() bool { return len(w.leaf.Calls()) == 5 })
		w.leaf.Set("a", "eno1", switches.Production) // a person, at the switch
		w.wires()
		w.until("it is in-sync", 20*time.Minute, w.is(site.InSync, "a"))
		if w.prepared() != nil {
			t.Errorf("on record is %+v", w.prepared())
		}
	}, "a")
}

// Before the port is prepared nothing is done to the machine; while it cannot be put back the
// machine stays in memory.
func TestASwitchThatFails(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.plugged()
		flaky := switches.Unkind{Fails: errors.New("TLS handshake timeout")}
		late := flaky
		late.Late = true
		w.leaf.Behave(switches.Provisioning, flaky, late, switches.Unkind{Takes: 5 * time.Minute}, switches.Unkind{})
		w.leaf.Behave(switches.Production, flaky, late, switches.Unkind{Takes: 5 * time.Minute}, switches.Unkind{})
		w.approve()
		w.until("the switch fails", 10*time.Minute, w.is(site.Retrying, "a"))
		if n := w.node("a"); !strings.Contains(n.Reason, "port Ethernet1/1 of switch leaf-1 could not be prepared for the start over the network: ") || w.started("a") != 0 {
			t.Errorf("%s: %s; the agent was started %d times", n.Reason, n.Cause, w.started("a"))
		}
		w.until("it can be put back", time.Hour, func() bool {
			return w.node("a").State == site.Retrying && strings.Contains(w.node("a").Reason, "could not be put back on their networks")
		})
		if ends := w.begun("a", site.ActionFinishInstall, time.Time{}); !ends.IsZero() || !w.fleet.Machine("a").InMemory() {
			t.Errorf("the machine is started from its disk at %s", ends)
		}
		w.until("it is in-sync", time.Hour, w.is(site.InSync, "a"))
		if n := w.fleet.Machine("a").Counts().Installs; n != 1 || w.started("a") != 1 {
			t.Errorf("installed %d times, started %d times", n, w.started("a"))
		}
	}, "a")
}

// A port that a switch refuses to prepare is for a person, the machine is not touched, and the
// port is put back.
func TestASwitchThatRefuses(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.plugged()
		w.leaf.Behave(switches.Provisioning, switches.Unkind{Fails: fmt.Errorf("%w: the port belongs to another team", driver.ErrRefused)}, switches.Unkind{})
		w.approve()
		w.until("a person is asked", 10*time.Minute, w.is(site.Stalled, "a"))
		w.after(30 * time.Minute)
		if n := w.node("a"); n.State != site.Stalled || !strings.Contains(n.Reason, "the port belongs to another team") || w.started("a") != 0 {
			t.Errorf("%s: %s; started %d times", n.State, n.Reason, w.started("a"))
		}
		// There is no system yet that could prove that it is back.
		if got := w.turned(); !slices.Equal(got, []switches.State{switches.Provisioning, switches.Production, switches.Production, switches.Production}) {
			t.Errorf("the switch was told %v", got)
		}
		w.do(site.Order{Verb: site.VerbRetry, Node: "a"})
		w.until("it is in-sync", time.Hour, w.is(site.InSync, "a"))
	}, "a")
}

// Where the port was not prepared although the switch says so the machine does not start over the
// network. When nobody tries any more the port is back, whatever the switch said.
func TestAPortThatIsNotPrepared(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.plugged()
		w.leaf.Behave(switches.Provisioning, switches.Unkind{Lies: true})
		w.approve()
		w.until("a person is asked", 3*time.Hour, w.is(site.Stalled, "a"))
		w.after(time.Hour)
		if n := w.node("a"); !strings.Contains(n.Reason, "no agent has called") || w.fleet.Machine("a").Counts().Installs != 0 {
			t.Errorf("%s: %s", n.State, n.Reason)
		}
		if got := w.turned(); got[len(got)-1] != switches.Production || len(got) < 4 {
			t.Errorf("the switch was told %v", got)
		}
	}, "a")
}

// A daemon that is started again puts the ports back that an earlier one has prepared.
func TestARestartKnowsOfPreparedPorts(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.plugged()
		w.approve()
		w.until("the machine starts", time.Hour, w.fleet.Machine("a").InMemory)
		w.down()
		w.up()
		w.after(time.Minute)
		w.until("it is in-sync", 3*time.Hour, w.is(site.InSync, "a"))
		if got := w.turned(); got[len(got)-1] != switches.Production || w.prepared() != nil || w.fleet.Machine("a").Counts().Installs != 1 {
			t.Errorf("told %v, on record %+v", got, w.prepared())
		}
	}, "a")
}

// Where nobody sets up switches, LLDP tells whether the port is plugged in as designed before the
// machine starts over the network. What nobody heard holds nothing.
func TestPortsAreCheckedWithoutADriver(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.segment, w.listens = newSegment(), true
		d := w.onSwitch("a")
		w.commit(d)
		w.up()
		w.until("the installation waits for approval", 5*time.Minute, func() bool { return w.engine.Report().Status.Approve != "" })
		w.approve()
		w.until("it is in-sync", time.Hour, w.is(site.InSync, "a"))
		if w.prepared() != nil {
			t.Errorf("on record is %+v", w.prepared())
		}
		hears := func(system string, changes int64) {
			w.fleet.Machine("a").SetLinks([]item.Port{{Name: "eno1", MAC: "02:00:5e:00:53:01", Carrier: "up", Changes: changes, Speed: 25000, Duplex: "full", MTU: 1500}},
				map[string]item.Neighbour{"eno1": {System: system, Port: "Ethernet1/1"}})
		}
		hears("leaf-2", 2)
		w.until("the cable is seen", 2*time.Hour, func() bool { return w.node("a").Links.State == site.LinksDiffer })
		d.Nodes["a"].Generation = 2
		w.commit(d)
		w.until("it waits for approval", 10*time.Minute, func() bool { return w.engine.Report().Status.Approve != "" })
		w.approve()
		w.until("a person is asked", 10*time.Minute, w.is(site.Stalled, "a"))
		if n := w.node("a"); !strings.Contains(n.Reason, "port eno1 is plugged into port Ethernet1/1 of leaf-2; it is designed for port Ethernet1/1 of switch leaf-1") || w.started("a") != 1 {
			t.Errorf("%s: %s; started %d times", n.State, n.Reason, w.started("a"))
		}
		hears("leaf-1", 4)
		w.until("the cable is seen", 2*time.Hour, func() bool { return w.node("a").Links.State == site.LinksAsDesigned })
		w.do(site.Order{Verb: site.VerbRetry, Node: "a"})
		w.until("it is in-sync", time.Hour, func() bool { return w.node("a").State == site.InSync && w.started("a") == 2 })
	}, "a")
}

// A cable that moves to another port between two starts leaves none behind in the network of the
// start: the port that was prepared first is put back too.
func TestAPortThatTheCableLeft(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.plugged()
		w.leaf.Behave(switches.Provisioning, switches.Unkind{Fails: errors.New("TLS handshake timeout"), Late: true})
		w.leaf.Behave(switches.Production, switches.Unkind{Fails: errors.New("no route to host")}, switches.Unkind{})
		w.approve()
		w.until("the first port is prepared", 10*time.Minute, func() bool { return len(w.leaf.Calls()) == 1 })
		d := w.onSwitch("a")
		i := d.Nodes["a"].Interfaces["eno1"]
		i.Port = "Ethernet1/9"
		d.Nodes["a"].Interfaces["eno1"] = i
		w.commit(d)
		w.until("the other one is tried", time.Hour, func() bool {
			return slices.ContainsFunc(w.leaf.Calls(), func(c switches.Call) bool { return c.Port.Port == "Ethernet1/9" })
		})
		w.leaf.Behave(switches.Provisioning, switches.Unkind{})
		w.until("it is in-sync", time.Hour, w.is(site.InSync, "a"))
		var back []string
		for _, c := range w.leaf.Calls() {
			if c.To == switches.Production && c.Failed == nil {
				back = append(back, c.Port.Port)
			}
		}
		slices.Sort(back)
		if back = slices.Compact(back); !slices.Equal(back, []string{"Ethernet1/1", "Ethernet1/9"}) || w.prepared() != nil {
			t.Errorf("back are %v, on record %+v", back, w.prepared())
		}
	}, "a")
}

// A daemon that cannot set up switches asks a person for ports that an earlier one has prepared, and
// believes the machine's system when they are back.
func TestPreparedPortsWithoutADriver(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.plugged()
		w.leaf.Behave(switches.Production, switches.Unkind{Lies: true})
		w.approve()
		w.until("its system runs", time.Hour, func() bool { return strings.HasPrefix(w.node("a").Reason, notProven) })
		leaf := w.leaf
		w.down()
		w.leaf = nil
		w.up()
		w.after(5 * time.Minute)
		w.until("a person is asked", 30*time.Minute, w.is(site.Stalled, "a"))
		if n := w.node("a"); !strings.HasPrefix(n.Reason, notProven) || !strings.HasSuffix(n.Reason, "This daemon cannot configure the switch; set the port there, then run `slipway retry a`") {
			t.Errorf("%s: %s", n.State, n.Reason)
		}
		leaf.Set("a", "eno1", switches.Production) // a person, at the switch
		w.leaf = leaf
		w.wires()
		w.leaf = nil
		w.until("it is in-sync", time.Hour, w.is(site.InSync, "a"))
		if w.prepared() != nil {
			t.Errorf("on record is %+v", w.prepared())
		}
	}, "a")
}
