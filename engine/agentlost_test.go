package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// alone is an agent whose connection is lost in the middle of an installation, that ends it
// without the daemon, and that boots the machine into the new system.
func alone(u drivertest.Unkind) drivertest.Unkind {
	u.Vanishes, u.Times, u.Works, u.Leaves = 2*time.Minute, 1, 10*time.Minute, true
	return u
}

// installsAlone brings a node to where its agent is lost in the middle of an installation.
func (w *world) installsAlone(u drivertest.Unkind) *drivertest.FakeMachine {
	w.t.Helper()
	w.awaitsApproval("a")
	m := w.fleet.Machine("a")
	m.Misbehave(alone(u))
	w.approve()
	w.until("the agent installs", time.Hour, func() bool { return len(w.agents.Asked()) > 0 })
	w.after(3 * time.Minute)
	return m
}

// kept fails the test where the system that an agent has installed alone was switched off or
// written once more.
func (w *world) kept(m *drivertest.FakeMachine, before drivertest.Counts) {
	w.t.Helper()
	if now := m.Counts(); now.Installs != 1 || now.Resets != before.Resets || m.InMemory() || m.Power() != "on" {
		w.t.Errorf("it was erased %d times, reset %d times more, in memory %t, and is %s: %s", now.Installs, now.Resets-before.Resets, m.InMemory(), m.Power(), w.node("a").Reason)
	}
}

// A system that an agent has finished while nobody listened, and that runs by itself, is neither
// switched off nor written anew: it proves itself by the keys that were told when they were made.
func TestASystemThatWasFinishedAloneIsKept(t *testing.T) {
	for name, away := range map[string]time.Duration{"the daemon was away": 6 * time.Hour, "the network was cut": 0} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				m := w.installsAlone(drivertest.Unkind{Tells: true})
				before := m.Counts()
				if away > 0 {
					w.down()
					w.after(away)
					w.up()
					w.after(time.Second)
				}
				w.until("it is in-sync", 2*time.Hour, w.is(site.InSync, "a"))
				w.after(8 * time.Hour)
				w.want("a", site.InSync)
				w.kept(m, before)
				if i := w.installedBy("a"); i == nil || !i.Proven || !i.ByAgent || !slices.Equal(i.FirstBoot.HostKeys, []string{"ssh-ed25519 AAAA-a"}) {
					t.Errorf("recorded is %+v", i)
				}
			}, "a")
		})
	}
}

// Where the keys were not told before, a system answers that nobody can prove. It is left alone,
// and a person is asked, who can have the key believed.
func TestASystemThatNobodyCanProveIsLeftToAPerson(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		m := w.installsAlone(drivertest.Unkind{})
		before := m.Counts()
		w.down()
		w.after(6 * time.Hour)
		w.up()
		w.after(time.Second)
		asks := func() bool {
			n := w.node("a")
			return n.State == site.Stalled && n.Person && strings.Contains(n.Reason, "a system answers on the machine") && strings.Contains(n.Reason, "host key")
		}
		w.until("a person is asked", 2*time.Hour, asks)
		w.after(24 * time.Hour)
		if w.kept(m, before); !asks() {
			t.Errorf("it is %s: %s", w.node("a").State, w.node("a").Reason)
		}
		d := w.rooted("a")
		d.Nodes["a"].Endpoints[site.OS] = site.Endpoint{URL: "ssh://a", Credential: "os", Trust: site.Trust{HostKeys: []string{"ssh-ed25519 AAAA-a"}}}
		w.commit(d)
		w.until("it is in-sync", time.Hour, w.is(site.InSync, "a"))
		w.kept(m, before)
	}, "a")
}

// A person who switches such a machine off has the agent look: it finds the system there.
func TestAMachineThatAPersonSwitchesOffIsLookedAtByTheAgent(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		m := w.installsAlone(drivertest.Unkind{})
		w.until("a person is asked", 2*time.Hour, func() bool { return w.node("a").State == site.Stalled })
		m.Misbehave(drivertest.Unkind{})
		m.SetPower("off")
		w.until("it is in-sync", time.Hour, w.is(site.InSync, "a"))
		if n := m.Counts().Installs; n != 1 || w.started("a") != 2 {
			t.Errorf("it was erased %d times, and the agent started %d times", n, w.started("a"))
		}
	}, "a")
}

// An agent is started again only after the system was asked for a while: it may be starting.
func TestTheSystemIsAskedBeforeALostAgentIsStartedAgain(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		m := w.installsAlone(drivertest.Unkind{Tells: true})
		m.Configure(func(c *drivertest.Config) { c.OSTime = 8 * time.Minute })
		before := m.Counts()
		w.down()
		w.after(24*time.Minute + 20*time.Second) // it has just left memory
		w.up()
		w.after(time.Second)
		w.until("it is in-sync", 2*time.Hour, w.is(site.InSync, "a"))
		w.kept(m, before)
	}, "a")
}

// The end of an installation switches no machine off whose agent has left its memory since.
func TestTheEndOfAnInstallationCutsNoSystem(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.awaitsApproval("a")
		m := w.fleet.Machine("a")
		w.approve()
		w.until("the agent installs", time.Hour, func() bool { return len(w.agents.Asked()) > 0 })
		m.SetFault(drivertest.Unreachable) // its BMC too
		w.until("the agent has installed", time.Hour, func() bool {
			i := w.engine.Known().Nodes["a"].Recorded.Installing
			return i != nil && !i.Ended.IsZero()
		})
		w.down()
		before := m.Counts()
		m.Leave()
		m.SetFault(drivertest.Healthy)
		m.Configure(func(c *drivertest.Config) { c.OSTime = 8 * time.Minute })
		w.up()
		w.after(time.Second)
		w.until("it is in-sync", 2*time.Hour, w.is(site.InSync, "a"))
		w.kept(m, before)
	}, "a")
}

// A machine that booted its old system in the place of the agent is left alone when nobody wants
// the installation any more: no agent has called, so it is not in memory.
func TestAMachineThatNeverStartedTheAgentIsLeftAlone(t *testing.T) {
	for name, takesBack := range map[string]func(w *world){
		"the design": func(w *world) {
			d := w.rooted("a")
			d.Nodes["a"].Image, d.Nodes["a"].Generation = "", 0
			w.commit(d)
		},
		"the approval": func(w *world) { w.do(site.Order{Verb: site.VerbDisapprove, Node: "a"}) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				w.fleet.Machine("a").SetDisk(&site.Marker{})
				w.awaitsApproval("a")
				m := w.fleet.Machine("a")
				m.Misbehave(drivertest.Unkind{Silent: true})
				m.Configure(func(c *drivertest.Config) { c.OSTime = 1000 * time.Hour }) // Slipway cannot see it
				w.approve()
				w.until("the machine was started", time.Hour, func() bool { return w.started("a") == 1 })
				w.after(5 * time.Minute)
				m.Leave()
				before := m.Counts()
				takesBack(w)
				w.after(24 * time.Hour)
				if now := m.Counts(); now.Resets != before.Resets || now.Installs != 0 {
					t.Errorf("it was reset %d times more: %s: %s", now.Resets-before.Resets, w.node("a").State, w.node("a").Reason)
				}
				if notes := strings.Join(w.node("a").Notes, "\n"); name == "the design" && !strings.Contains(notes, "no agent has called") {
					t.Errorf("the notes are %q", notes)
				}
			}, "a")
		})
	}
}

// Disks that were approved by what the agent told of them are those of the installation in the
// next start as well, in which nobody has told them yet.
func TestACutInstallationOfTheAgentsDisksGoesOn(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.awaitsApproval("a")
		m := w.fleet.Machine("a")
		m.HasDisks(item.Disk{Name: "nvme0n1", Serial: "NOBODY-KNOWS", Kind: "nvme", Bytes: 480e9 / 512 * 512, Sector: 512})
		m.Misbehave(drivertest.Unkind{Vanishes: 2 * time.Minute, Times: 1})
		w.approve()
		w.until("its disks wait for approval", 30*time.Minute, func() bool {
			return m.InMemory() && strings.Contains(w.node("a").Reason, "waits for approval")
		})
		w.approve()
		w.until("it is in-sync", 4*time.Hour, w.is(site.InSync, "a"))
		if n := m.Counts().Installs; n != 2 || w.started("a") != 2 {
			t.Errorf("it was erased %d times, and the agent started %d times", n, w.started("a"))
		}
	}, "a")
}

// An erase takes hours, and the agent calls nobody meanwhile. Its machine is not started again
// because a connection was lost, or the daemon was started again.
func TestALongEraseIsNotCut(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.listens = true
		w.commit(w.erasing("a"))
		w.up()
		w.until("it waits for approval", 5*time.Minute, func() bool { return w.engine.Report().Status.Approve != "" })
		m := w.fleet.Machine("a")
		m.Misbehave(drivertest.Unkind{Vanishes: 2 * time.Minute, Times: 1, Works: 30 * time.Hour, Forgets: true})
		w.approve()
		w.until("it erases", time.Hour, func() bool { return len(w.agents.Asked()) > 0 })
		w.after(5 * time.Minute)
		w.down()
		w.up()
		w.after(time.Second)
		w.until("it is in-sync", 40*time.Hour, w.is(site.InSync, "a"))
		if n := w.started("a"); n != 1 || m.Counts().Installs != 1 {
			t.Errorf("the agent was started %d times, and it was erased %d times", n, m.Counts().Installs)
		}
	}, "a")
}
