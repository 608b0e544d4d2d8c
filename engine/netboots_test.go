package engine_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/switches"
)

// segment is a network whose machines start over it: what is armed is read once.
type segment struct {
	mu    sync.Mutex
	off   error // why it is not served
	armed map[string]engine.NetBoot
	read  map[string]bool
	all   []engine.NetBoot // that were armed, in order
	odd   string
}

func newSegment() *segment {
	return &segment{armed: map[string]engine.NetBoot{}, read: map[string]bool{}}
}

func (s *segment) disarmAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.armed)
	clear(s.read)
}

func (s *segment) Serving(networks []string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(networks, "boot") {
		return "", errors.New("nobody asked about the network boot")
	}
	return "10.3.0.1", s.off
}

func (s *segment) Arm(b engine.NetBoot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if is, ok := s.armed[b.Node]; ok && is.ID == b.ID {
		return nil
	}
	s.armed[b.Node], s.all = b, append(s.all, b)
	delete(s.read, b.Node)
	return nil
}

func (s *segment) Disarm(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.armed, node)
}

func (s *segment) Odd(string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.odd
}

func (s *segment) set(off error, odd string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.off, s.odd = off, odd
}

// names are the nodes that are armed now.
func (s *segment) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.armed))
}

func (s *segment) armings() []engine.NetBoot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// boots is what a machine starts from a medium, or over the network.
func (w *world) boots(url string) (token string, served bool) {
	name, over := strings.CutPrefix(url, drivertest.OverNetwork)
	if !over {
		return w.files.words(url)
	}
	if w.leaf != nil && w.leaf.State(name, "eno1") != switches.Provisioning {
		return "", false // it asks in another network
	}
	s := w.segment
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, armed := s.armed[name]; !armed || s.read[name] {
		return "", false
	}
	s.read[name] = true
	return url, true
}

// networked is a design whose machines start the agent over the network.
func (w *world) networked(names ...string) *site.Site {
	d := w.rooted(names...)
	d.Install = site.Install{Start: site.StartNetwork, Trust: site.TrustNetwork}
	d.Networks = map[string]*site.Network{"boot": {CIDR: "10.3.0.0/24", Boot: site.NetworkBoot{DHCP: site.DHCPServe}}}
	for _, name := range names {
		n := d.Nodes[name]
		n.References.Start = site.StartNetwork
		n.Interfaces = map[string]site.Interface{"eno1": {MAC: "02:00:5E:00:53:01", Boot: "boot"}}
	}
	return d
}

// startsOverNetwork brings a daemon to where an installation over the network waits for approval.
func (w *world) startsOverNetwork() {
	w.t.Helper()
	w.listens = true
	w.commit(w.networked("a"))
	w.up()
	w.until("the installation waits for approval", 5*time.Minute, func() bool { return w.engine.Report().Status.Approve != "" })
}

// A node that starts over the network is armed for exactly the boot of its installation: after it
// was approved, until its agent has called. It is served no medium.
func TestAnAgentStartsOverTheNetwork(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.segment = newSegment()
		w.startsOverNetwork()
		if armed := w.segment.armings(); len(armed) != 0 {
			t.Fatalf("armed before anybody approved: %+v", armed)
		}
		w.approve()
		w.until("the agent was asked", time.Hour, func() bool {
			for _, url := range w.files.served() {
				if strings.Contains(url, "ramdisk") {
					t.Fatalf("a medium is served at %s", url)
				}
			}
			return len(w.agents.Asked()) > 0
		})
		if names := w.segment.names(); len(names) != 0 {
			t.Errorf("armed are %v after the agent has called", names)
		}
		w.until("the node is in-sync", time.Hour, w.is(site.InSync, "a"))
		if got, want := w.steps("a"), []site.Action{site.ActionStartAgent, site.ActionInstall, site.ActionFinishInstall}; !slices.Equal(got, want) {
			t.Errorf("the steps were %v, want %v", got, want)
		}
		armed := w.segment.armings()
		if len(armed) != 1 {
			t.Fatalf("it was armed %d times: %+v", len(armed), armed)
		}
		b := armed[0]
		if b.Node != "a" || !slices.Equal(b.MACs, []string{"02:00:5e:00:53:01"}) || b.UUID != w.fleet.Machine("a").Identity().UUID || b.Words != "slipway.daemon=10.3.0.1:9481" || b.ID == "" {
			t.Errorf("armed was %+v", b)
		}
		if asked := w.agents.Asked(); asked[0].Medium != "ramdisk" {
			t.Errorf("the agent was asked for %+v", asked[0])
		}
		w.after(3 * time.Hour)
		if len(w.segment.armings()) != 1 || w.fleet.Machine("a").Counts().Installs != 1 {
			t.Errorf("armed %d times, erased %d times", len(w.segment.armings()), w.fleet.Machine("a").Counts().Installs)
		}
	}, "a")
}

// What the daemon does not serve holds the start, and nothing is sent to the machine before.
func TestANetworkThatIsNotServed(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.startsOverNetwork()
		w.approve()
		w.after(10 * time.Minute)
		if n := w.node("a"); n.State != site.Blocked || !strings.Contains(n.Reason, "--netboot INTERFACE=boot") || len(w.fleet.Calls()) != 0 {
			t.Errorf("without --netboot: %s: %s; %d calls", n.State, n.Reason, len(w.fleet.Calls()))
		}
		w.down()
		w.segment = newSegment()
		w.segment.set(errors.New("the network boot on eth1 is not served: another DHCP server answers"), "")
		w.up()
		w.after(10 * time.Minute)
		if n := w.node("a"); n.State != site.Blocked || !strings.Contains(n.Reason, "another DHCP server answers") || len(w.fleet.Calls()) != 0 {
			t.Errorf("beside another server: %s: %s; %d calls", n.State, n.Reason, len(w.fleet.Calls()))
		}
		w.segment.set(nil, "")
		w.until("it is in-sync", time.Hour, w.is(site.InSync, "a"))
	}, "a")
}

// A machine that is not told to start the agent goes on with its disk. It is started three times,
// each time armed anew, and a person is asked then.
func TestAMachineThatDoesNotStartOverTheNetwork(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.segment = newSegment()
		w.startsOverNetwork()
		w.fleet.Machine("a").Misbehave(drivertest.Unkind{Silent: true})
		w.approve()
		w.until("a person is asked", 3*time.Hour, func() bool { return w.node("a").State == site.Stalled })
		armed := w.segment.armings()
		if len(armed) != 3 || armed[0].ID == armed[1].ID || armed[1].ID == armed[2].ID || len(w.segment.names()) != 0 {
			t.Errorf("armed were %+v, and are %v", armed, w.segment.names())
		}
		if n := w.node("a"); !strings.Contains(n.Reason, "no agent has called") || w.fleet.Machine("a").Counts().Installs != 0 {
			t.Errorf("%s: %s", n.State, n.Reason)
		}
	}, "a")
}

// A daemon that is started again arms a boot that has not been used, and expects its agent by the
// key alone: there is no token to be lost.
func TestARestartKeepsTheBootOverTheNetwork(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.segment = newSegment()
		w.startsOverNetwork()
		w.fleet.Machine("a").Misbehave(drivertest.Unkind{Late: 4 * time.Minute})
		w.approve()
		w.until("the machine starts", time.Hour, w.fleet.Machine("a").InMemory)
		w.after(time.Minute)
		w.down()
		w.up()
		w.after(time.Minute)
		if names := w.segment.names(); !slices.Equal(names, []string{"a"}) {
			t.Errorf("armed are %v", names)
		}
		w.until("it is in-sync", 3*time.Hour, w.is(site.InSync, "a"))
		if n := w.started("a"); n != 1 || len(w.segment.names()) != 0 {
			t.Errorf("the agent was started %d times, and armed are %v", n, w.segment.names())
		}
	}, "a")
}

// An agent that was started over the network installs nothing once the site asks for more trust:
// it is started again, from the medium.
func TestTrustThatIsTakenBack(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.segment = newSegment()
		w.startsOverNetwork()
		disks := []item.Disk{{Name: "nvme0n1", Serial: "NOBODY-KNOWS", Kind: "nvme", Bytes: 480e9 / 512 * 512, Sector: 512}}
		w.fleet.Machine("a").HasDisks(disks...)
		w.approve()
		w.until("its agent waits", time.Hour, func() bool {
			return w.fleet.Machine("a").InMemory() && strings.Contains(w.node("a").Reason, "waits for approval")
		})
		d := w.networked("a")
		w.fleet.Machine("a").HasDisks(disks...)
		d.Install = site.Install{}
		d.Nodes["a"].References.Start = site.StartMedia
		w.commit(d)
		w.until("nobody expects the agent", 10*time.Minute, func() bool { return len(w.agents.Expected()) == 0 })
		if n := w.fleet.Machine("a").Counts().Installs; n != 0 {
			t.Errorf("it was erased %d times", n)
		}
		w.until("it is in-sync", 3*time.Hour, func() bool {
			if w.engine.Report().Status.Approve != "" { // the disks that the next agent tells
				w.approve()
			}
			return w.node("a").State == site.InSync
		})
		if n := w.started("a"); n != 2 || len(w.segment.armings()) != 1 {
			t.Errorf("the agent was started %d times, and armed %d times", n, len(w.segment.armings()))
		}
	}, "a")
}

// What somebody else asked for is told with the node.
func TestSomebodyElseAsksForTheBoot(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.segment = newSegment()
		w.startsOverNetwork()
		w.fleet.Machine("a").Misbehave(drivertest.Unkind{Late: 5 * time.Minute})
		w.approve()
		w.until("the machine starts", time.Hour, w.fleet.Machine("a").InMemory)
		w.segment.set(nil, "10.3.0.9 asked for its boot file after 10.3.0.5 had read it, and got nothing")
		w.until("people are told", 5*time.Minute, func() bool {
			return slices.ContainsFunc(w.node("a").Notes, func(n string) bool { return strings.Contains(n, "10.3.0.9 asked for its boot file") })
		})
	}, "a")
}
