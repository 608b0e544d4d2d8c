package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// wired has each node's port eth0 plugged into a port of leaf-1, as an evaluated design
// does.
func wired(d *site.Site) {
	d.Rollout.FirstContact = "repair" // the systems were met
	d.Links = map[string]*site.Link{"os": {Networks: []string{"os"}, Rate: 25000}}
	d.Networks = map[string]*site.Network{"os": {CIDR: "10.1.0.0/24", Gateway: "10.1.0.1"}}
	for i, name := range d.NodeNames() {
		n := d.Nodes[name]
		address := fmt.Sprintf("10.1.0.%d", 11+i)
		n.Interfaces = map[string]site.Interface{"eth0": {Link: "os", Networks: []string{"os"}, Switch: "leaf-1", Port: fmt.Sprintf("Ethernet1/%d", 1+i)}}
		n.Addresses = map[string]string{"os": address}
		n.References.Links = map[string]item.Link{"eth0": {Kind: "ethernet", MTU: 9000, Addresses: []string{address + "/24"}}}
		n.Origins = site.OriginsByPath(map[string]site.Origin{"interfaces.eth0.switch": site.At("nodes.cue", 7, 1, "node"), "interfaces.eth0.port": site.At("nodes.cue", 8, 1, "node"), "addresses.os": site.At("nodes.cue", 9, 1, "node")})
	}
}

// leaf is what port p of a switch tells.
func leaf(system, p string) map[string]item.Neighbour {
	return map[string]item.Neighbour{"eth0": {Chassis: "52:54:00:00:00:01", System: system, Port: p}}
}

func up(changes int64) []item.Port {
	return []item.Port{{Name: "eth0", MAC: "52:54:00:00:00:0a", Carrier: "up", Changes: changes, Speed: 25000, Duplex: "full", MTU: 9000}}
}

// servingWired brings a service up on a wired network.
func (w *world) servingWired(names ...string) *site.Site {
	w.t.Helper()
	for i, name := range names {
		w.fleet.Machine(name).SetLinks(up(1), leaf("leaf-1", fmt.Sprintf("Ethernet1/%d", 1+i)))
	}
	d := w.serving(names...)
	wired(d)
	w.commit(d)
	w.after(10 * time.Minute)
	return d
}

// links holds how the links of a node are.
func (w *world) links(name string, state site.LinksState, why string) {
	w.t.Helper()
	if l := w.node(name).Links; l.State != state || !strings.Contains(l.Why, why) {
		w.t.Errorf("the links of %s are %q: %q, want %q: %q", name, l.State, l.Why, state, why)
	}
}

// What a node is plugged into is listened for in the time in which nothing is done, and
// not again while the carrier stays. A cable that was moved is told with the place in the
// design, is no step, and stops nothing.
func TestLinksThatWereHeard(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.servingWired(names(3)...)
		for _, name := range names(3) {
			w.links(name, site.LinksAsDesigned, "")
			if n := w.fleet.Machine(name).Listens(); n != 1 {
				t.Errorf("%s was listened to %d times", name, n)
			}
		}
		w.after(80 * time.Minute)
		if n := w.fleet.Machine("n1").Listens(); n != 1 {
			t.Errorf("n1 was listened to %d times in 80 minutes", n)
		}
		w.fleet.Machine("n1").SetLinks(up(3), leaf("leaf-2", "Ethernet1/9"))
		w.after(10 * time.Minute)
		w.links("n1", site.LinksDiffer, `port eth0 is plugged into port Ethernet1/9 of leaf-2; it is designed for port Ethernet1/1 of switch leaf-1`)
		n := w.node("n1")
		if n.State != site.InSync || len(n.Findings) != 1 || n.Findings[0].Place() != "nodes.cue:7:1" || n.Findings[0].Code != "link-switch" {
			t.Errorf("n1 is %s with %+v", n.State, n.Findings)
		}
		w.patch(d, "2", wired)
		w.after(10 * time.Minute)
		if got := w.patchedNow(names(3)...); len(got) != 3 {
			t.Errorf("a cable held a rollout: patched %v", got)
		}
		w.fleet.Machine("n1").SetLinks(up(5), leaf("leaf-1", "Eth1/1"))
		w.after(10 * time.Minute)
		w.links("n1", site.LinksAsDesigned, "")
		if n := w.node("n1"); len(n.Findings) > 0 {
			t.Errorf("the cable is back, and n1 has %+v", n.Findings)
		}
	}, names(3)...)
}

// A switch that says nothing leaves the link unknown, and its port is listened to once an
// hour and no more. A system that does not answer tells nothing of its links.
func TestLinksThatNobodyKnows(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		w.fleet.Machine("n1").SetLinks(up(1), nil)
		d := w.serving("n1")
		wired(d)
		w.commit(d)
		w.after(2*time.Hour + 10*time.Minute)
		w.links("n1", site.LinksUnknown, "port eth0 has heard no LLDP from its other end, so Slipway does not know what it is plugged into; it is designed for port Ethernet1/1 of switch leaf-1")
		w.want("n1", site.InSync)
		if n := w.fleet.Machine("n1").Listens(); n < 2 || n > 4 {
			t.Errorf("listened %d times in two hours", n)
		}
		if n := w.node("n1"); len(n.Findings) > 0 {
			t.Errorf("what is unknown is told as %+v", n.Findings)
		}
		w.fleet.Machine("n1").SetLinks(up(1), leaf("leaf-1", "Ethernet1/1"))
		w.after(80 * time.Minute)
		w.links("n1", site.LinksAsDesigned, "")
		w.fleet.Machine("n1").SetFault(drivertest.Unreachable)
		w.after(10 * time.Minute)
		w.links("n1", site.LinksUnknown, "the machine does not answer")
	}, "n1")
}

// Gateways and the next nodes of the same network that are in service are tried, and no
// others.
func TestReachOfOthers(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		w.servingWired(names(6)...)
		tried := func(name string) (all []string) {
			for _, x := range w.fleet.Machine(name).Tried() {
				all = append(all, fmt.Sprintf("%s %s %d", x.Node, x.Address, x.MTU))
			}
			return all
		}
		want := []string{" 10.1.0.1 9000", "n6 10.1.0.16 9000", "n1 10.1.0.11 9000", "n2 10.1.0.12 9000"}
		if got := tried("n5"); !slices.Equal(got, want) {
			t.Errorf("n5 tried %q, want %q", got, want)
		}
		w.fleet.Machine("n6").SetFault(drivertest.Unreachable)
		w.after(10 * time.Minute)
		if got := tried("n5"); slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "n6 ") }) || len(got) != 4 {
			t.Errorf("n5 tried %q while n6 does not answer", got)
		}
		w.fleet.Machine("n5").SetLinks(up(1), leaf("leaf-1", "Ethernet1/5"), "10.1.0.1", "10.1.0.11")
		w.after(10 * time.Minute)
		w.links("n5", site.LinksDiffer, "the gateway 10.1.0.1 of network os does not answer")
		w.fleet.Machine("n5").SetLinks(up(1), leaf("leaf-1", "Ethernet1/5"), "10.1.0.11", "10.1.0.12", "10.1.0.13")
		w.after(10 * time.Minute)
		w.links("n5", site.LinksDiffer, "no other node answers in network os: tried n1 (10.1.0.11), n2 (10.1.0.12), n3 (10.1.0.13)")
		if n := w.node("n5"); len(n.Findings) != 1 || n.Findings[0].Place() != "nodes.cue:9:1" {
			t.Errorf("n5 has %+v", n.Findings)
		}
	}, names(6)...)
}

// A change of the network that was set back is made once more when a person asks for
// the node, and not by the daemon alone.
func TestRetryMakesAChangeOfTheNetworkOnceMore(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.servingWired(names(1)...)
		r, reverted := &refusing{Driver: w.fleet.OSDriver()}, "it was reverted"
		w.down()
		w.systems = r
		w.up()
		r.why.Store(&reverted)
		d.Nodes["n1"].References.Links["eth0"] = item.Link{Kind: "ethernet", MTU: 1500, Addresses: []string{"10.1.0.11/24"}}
		w.commit(d)
		w.after(20 * time.Minute)
		w.want("n1", site.Stalled)
		if r.again.Load() {
			t.Error("the daemon made it once more on its own")
		}
		w.do(site.Order{Verb: site.VerbRetry, Node: "n1"})
		w.after(time.Minute)
		if !r.again.Load() {
			t.Error("it was not made once more for the person who asked")
		}
		r.why.Store(nil)
		w.do(site.Order{Verb: site.VerbRetry, Node: "n1"})
		w.after(5 * time.Minute)
		w.want("n1", site.InSync)
	}, "n1")
}

// unconfirmed ends the daemon while a change of n1's network waits to be confirmed, and starts it again.
func (w *world) unconfirmed() *cutOff {
	w.t.Helper()
	d := w.servingWired(names(1)...)
	c := &cutOff{Driver: w.fleet.OSDriver()}
	w.down()
	w.systems = c
	w.up()
	d.Nodes["n1"].References.Links["eth0"] = item.Link{Kind: "ethernet", MTU: 1500, Addresses: []string{"10.1.0.11/24"}}
	w.commit(d)
	w.until("changed", 5*time.Minute, c.waits.Load)
	w.down()
	w.up()
	return c
}

// A machine that says that a change of its network waits to be confirmed is switched off by a quarantine.
func TestQuarantineWhileAChangeOfTheNetworkWaits(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		w.unconfirmed()
		w.do(site.Order{Verb: site.VerbQuarantine, Node: "n1", Reason: "compromised"})
		w.after(30 * time.Minute)
		if p := w.fleet.Machine("n1").Power(); p != "off" {
			t.Errorf("n1 is %s 30 minutes after its quarantine; status %+v", p, w.node("n1"))
		}
	}, "n1")
}

// cutOff is a driver whose first change of a network is made, and not confirmed before the
// daemon ends.
type cutOff struct {
	driver.Driver
	waits   atomic.Bool
	applies atomic.Int32
}

func (c *cutOff) Open(ctx context.Context, e site.Endpoint, s secret.Value) (driver.Machine, error) {
	m, err := c.Driver.Open(ctx, e, s)
	return cutMachine{m, c}, err
}

type cutMachine struct {
	driver.Machine
	c *cutOff
}

func (m cutMachine) Observe(ctx context.Context, n *site.Node, facets []site.Facet) (site.Observed, error) {
	seen, err := m.Machine.Observe(ctx, n, facets)
	if m.c.waits.Load() {
		for f, s := range seen.Facets {
			if site.IsInside(f) {
				s.Busy, s.Unconfirmed = "a change of the network is reverted in 40 s unless it is confirmed", f == site.FacetNetwork
				seen.Facets[f] = s
			}
		}
	}
	return seen, err
}

func (m cutMachine) Apply(ctx context.Context, s site.Step, n *site.Node, may driver.Permit) error {
	if s.Facet != site.FacetNetwork {
		return m.Machine.Apply(ctx, s, n, may)
	}
	if m.c.applies.Add(1) > 1 {
		m.c.waits.Store(false)
		return may.Ask(ctx, s)
	}
	if err := m.Machine.Apply(ctx, s, n, may); err != nil {
		return err
	}
	m.c.waits.Store(true)
	<-ctx.Done()
	return ctx.Err()
}

// A daemon that was ended while a change of the network waited to be confirmed confirms it
// when it is there again, before it is set back.
func TestRestartConfirmsAChangeOfTheNetwork(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		c := w.unconfirmed()
		w.after(20 * time.Second)
		if c.waits.Load() || c.applies.Load() != 2 {
			t.Errorf("it waits %t, and was taken up %d times", c.waits.Load(), c.applies.Load())
		}
		w.after(2 * time.Minute)
		w.want("n1", site.InSync)
	}, "n1")
}
