package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// words is what is found on a medium at a URL: what is granted there.
func (s *shelf) words(url string) (token string, served bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.grants {
		if w, ok := g.Words.(*drivertest.FakeWords); ok && g.URL == url {
			return w.Token, true
		}
	}
	return "", false
}

// rooted is a design in which a machine with two disks is installed by the agent on one of
// them.
func (w *world) rooted(names ...string) *site.Site {
	d := w.design(names...)
	d.Images["debian"].Kind = site.KindRoot
	for _, name := range names {
		installedByAgent(d.Nodes[name], w.fleet.Machine(name))
	}
	return d
}

// installedByAgent gives a machine two disks, and has the design put an image on one of them.
func installedByAgent(n *site.Node, m *drivertest.FakeMachine) {
	n.Image, n.Generation = "debian", 1
	n.References.ByAgent = true
	rest, err := site.ParseExtent(">1GiB")
	if err != nil {
		panic(err)
	}
	n.Storage = site.Storage{BootDisk: "os", Disks: map[string]site.Disk{"os": {
		Match: &site.DiskMatch{Kind: "nvme"}, Table: "gpt",
		Partitions: map[string]site.Partition{"root": {Size: rest, Use: site.Use{Filesystem: &site.Filesystem{Type: "ext4", Mount: "/"}}}},
	}}}
	serial := func(k string) string { return k + "-SERIAL-" + n.Name }
	m.HasDisks(
		item.Disk{Name: "nvme0n1", Serial: serial("NVME"), Kind: "nvme", Bytes: 480e9 / 512 * 512, Sector: 512},
		item.Disk{Name: "sda", Serial: serial("DATA"), Kind: "hdd", Bytes: 8e12 / 512 * 512, Sector: 512})
	m.Made(&site.Inventory{Drives: []site.Drive{
		{Part: site.Part{Serial: serial("NVME"), Model: "N"}, Bytes: 480e9}, {Part: site.Part{Serial: serial("DATA"), Model: "D"}, Bytes: 8e12}}})
}

// awaitsApproval brings a daemon that listens to agents to where the installation of a node
// waits for approval.
func (w *world) awaitsApproval(names ...string) {
	w.t.Helper()
	w.listens = true
	w.commit(w.rooted(names...))
	w.up()
	w.until("the installation waits for approval", 5*time.Minute, func() bool { return w.engine.Report().Status.Approve != "" })
}

// steps are the actions that a machine accepted first requests of, in order.
func (w *world) steps(name string) (all []site.Action) {
	for _, c := range w.fleet.Calls() {
		if c.Machine == name && c.First {
			all = append(all, c.Step.Action)
		}
	}
	return all
}

// started is how often the agent was started on a machine.
func (w *world) started(name string) (n int) {
	for _, a := range w.steps(name) {
		if a == site.ActionStartAgent {
			n++
		}
	}
	return n
}

func (w *world) installedBy(name string) *site.Installation {
	return w.engine.Known().Nodes[name].Recorded.Installed
}

// An image of a root file system is installed in three steps: the agent is started from a
// medium, it installs, and the machine boots from its disk. What was approved is what the
// agent is asked for, and the keys that it made are those that are trusted.
func TestAnAgentInstalls(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.awaitsApproval("a")
		if got := w.fleet.Calls(); len(got) != 0 {
			t.Fatalf("something was sent before anybody approved: %+v", got)
		}
		w.approve()
		w.until("the node is in-sync", time.Hour, w.is(site.InSync, "a"))
		if got, want := w.steps("a"), []site.Action{site.ActionStartAgent, site.ActionInstall, site.ActionFinishInstall}; !slices.Equal(got, want) {
			t.Errorf("the steps were %v, want %v", got, want)
		}
		asked := w.agents.Asked()
		if len(asked) != 1 {
			t.Fatalf("the agent was asked %d times", len(asked))
		}
		a := asked[0]
		if len(a.Layout.Destroys) != 1 || a.Layout.Destroys[0].Serial != "NVME-SERIAL-a" {
			t.Errorf("it was to erase %+v", a.Layout.Destroys)
		}
		if !strings.Contains(a.URL, "192.0.2.77") || a.Step.Image.SHA256 != "d1" || !strings.Contains(a.Marker, `"generation":1`) {
			t.Errorf("it was asked for %+v", a)
		}
		i := w.installedBy("a")
		if i == nil || !i.Proven || !i.Signed || !i.ByAgent || !slices.Equal(i.FirstBoot.HostKeys, []string{"ssh-ed25519 AAAA-a"}) {
			t.Errorf("recorded is %+v", i)
		}
		if w.fleet.Machine("a").InMemory() || len(w.agents.Expected()) != 0 || len(w.files.served()) != 0 {
			t.Errorf("left is: in memory %t, expected %v, served %v", w.fleet.Machine("a").InMemory(), w.agents.Expected(), w.files.served())
		}
		installs := w.fleet.Machine("a").Counts().Installs
		w.after(3 * time.Hour)
		if w.want("a", site.InSync); w.fleet.Machine("a").Counts().Installs != installs {
			t.Error("it was installed once more")
		}
	}, "a")
}

// Without an open entry in the ledger nothing is sent, whatever else is there: not the start
// of the agent either, and nothing more once it is taken back.
func TestNoAgentIsStartedWithoutApproval(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.awaitsApproval("a")
		w.after(2 * time.Hour)
		if got := w.fleet.Calls(); len(got) != 0 || len(w.files.served()) != 0 {
			t.Fatalf("sent was %+v, served %v", got, w.files.served())
		}
		w.approve()
		w.until("the agent's machine is on", 10*time.Minute, w.fleet.Machine("a").InMemory)
		w.do(site.Order{Verb: site.VerbDisapprove, Node: "a"})
		w.after(10 * time.Minute)
		if n := w.fleet.Machine("a").Counts().Installs; n != 0 {
			t.Errorf("it was erased after the approval was taken back")
		}
		w.until("the machine boots from its disk again", 2*time.Hour, func() bool { return !w.fleet.Machine("a").InMemory() })
		w.after(2 * time.Hour)
		if asked := w.agents.Asked(); len(asked) != 0 || w.engine.Known().Nodes["a"].Recorded.Agent != nil {
			t.Errorf("the agent was asked %d times", len(asked))
		}
		if n := w.node("a"); n.State != site.Blocked || !n.Person {
			t.Errorf("it is %s: %s", n.State, n.Reason)
		}
	}, "a")
}

// A daemon without a listener says so, and begins nothing.
func TestWithoutAListenerTheNodeIsBlocked(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.commit(w.rooted("a"))
		w.up()
		w.until("it waits for approval", 5*time.Minute, func() bool { return w.engine.Report().Status.Approve != "" })
		w.approve()
		w.after(10 * time.Minute)
		if n := w.node("a"); n.State != site.Blocked || !strings.Contains(n.Reason, "--agent-listen") || len(w.fleet.Calls()) != 0 {
			t.Errorf("%s: %s; %d calls", n.State, n.Reason, len(w.fleet.Calls()))
		}
	}, "a")
}

// Agents are as unkind as real ones. Nothing is erased but by the one approval, and nothing is
// called done that was not seen.
func TestUnkindAgents(t *testing.T) {
	for name, c := range map[string]struct {
		u      drivertest.Unkind
		most   time.Duration
		done   bool
		erased int
		starts int // of the agent
		state  site.State
		says   string
	}{
		"late":                     {u: drivertest.Unkind{Late: 10 * time.Minute}, most: time.Hour, done: true, erased: 1, starts: 1},
		"silent":                   {u: drivertest.Unkind{Silent: true}, most: 2 * time.Hour, starts: 3, state: site.Stalled, says: "started 3 times, and no agent has called"},
		"too late each time":       {u: drivertest.Unkind{Late: 40 * time.Minute}, most: 2 * time.Hour, starts: 3, state: site.Stalled, says: "no agent has called"},
		"vanishes for good":        {u: drivertest.Unkind{Vanishes: 2 * time.Minute, Times: 1}, most: 2 * time.Hour, done: true, erased: 2, starts: 2},
		"goes on alone":            {u: drivertest.Unkind{Vanishes: 2 * time.Minute, Times: 1, Works: 25 * time.Minute}, most: 2 * time.Hour, done: true, erased: 1, starts: 1},
		"vanishes and comes back":  {u: drivertest.Unkind{Vanishes: 2 * time.Minute, Times: 1, Returns: true}, most: 2 * time.Hour, done: true, erased: 2, starts: 1},
		"another machine":          {u: drivertest.Unkind{Other: site.Identity{UUID: "ffffffff-1111-4000-8000-000000000000", Serial: "OTHER"}}, most: 2 * time.Hour, starts: 3, state: site.Stalled, says: "no agent that called was accepted: an agent at 192.0.2.77 was refused: The token is for a, and this is another machine: its UUID is ffffffff-1111-4000-8000-000000000000. Check the console"},
		"a used token":             {u: drivertest.Unkind{Denied: "The token for a was used before, by another agent."}, most: 2 * time.Hour, starts: 3, state: site.Stalled, says: "The token for a was used before, by another agent. Check the console"},
		"another node's token":     {u: drivertest.Unkind{Denied: "The token is for a, and this machine is b."}, most: 2 * time.Hour, starts: 3, state: site.Stalled, says: "The token is for a, and this machine is b. Check the console"},
		"an old protocol":          {u: drivertest.Unkind{Denied: "The agent speaks version 1 of the protocol, and the daemon speaks 2."}, most: 2 * time.Hour, starts: 3, state: site.Stalled, says: "no agent that called was accepted: an agent at 192.0.2.77 was refused: The agent speaks version 1 of the protocol"},
		"refuses":                  {u: drivertest.Unkind{Refuses: "a link is down; nothing was written"}, most: time.Hour, starts: 1, state: site.Stalled, says: "nothing was written"},
		"fails":                    {u: drivertest.Unkind{Fails: "mkfs.ext4 ended with 1"}, most: 2 * time.Hour, erased: 3, starts: 1, state: site.Stalled, says: "failed 3 times, and the data on the machine's disks may be incomplete"},
		"vanishes again and again": {u: drivertest.Unkind{Vanishes: 2 * time.Minute, Times: 99}, most: 3 * time.Hour, erased: 3, starts: 3, state: site.Stalled, says: "the connection to it was lost each time"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				w.awaitsApproval("a")
				m := w.fleet.Machine("a")
				m.Misbehave(c.u)
				w.approve()
				over := func() bool {
					if c.done {
						return w.node("a").State == site.InSync
					}
					return w.node("a").State == c.state && strings.Contains(w.node("a").Reason, c.says)
				}
				w.until("it has come to its end", c.most, over)
				w.after(20 * time.Minute)
				if !over() {
					t.Errorf("it did not stay so: %s: %s", w.node("a").State, w.node("a").Reason)
				}
				starts := w.started("a")
				if got := m.Counts().Installs; got != c.erased || starts != c.starts {
					t.Errorf("it was erased %d times and started %d times, want %d and %d", got, starts, c.erased, c.starts)
				}
				uses := 0
				for _, e := range w.engine.Report().Status.Ledger {
					if !e.Consumed.IsZero() {
						uses++
					}
				}
				if uses > 1 {
					t.Errorf("%d approvals were used, and one was given", uses)
				}
				if !c.done && w.installedBy("a") != nil {
					t.Errorf("recorded as installed is %+v", w.installedBy("a"))
				}
			}, "a")
		})
	}
}

// A machine in service whose agent cannot call boots from its disk by itself. It is started
// three times at most, and left alone then, although its installation is approved.
func TestAMachineInServiceIsNotStartedWithoutEnd(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.awaitsApproval("a")
		w.approve()
		w.until("it is in-sync", time.Hour, w.is(site.InSync, "a"))
		w.again("a", drivertest.Unkind{Silent: true})
		w.approve()
		m := w.fleet.Machine("a")
		w.until("it was started three times", 4*time.Hour, func() bool { return w.started("a") == 4 })
		w.after(30 * time.Minute)
		resets := m.Counts().Resets
		w.after(24 * time.Hour)
		if n := w.started("a"); n != 4 || m.Counts().Resets != resets || m.InMemory() {
			t.Errorf("started %d times, reset %d times more, in memory %t: %s", n, m.Counts().Resets-resets, m.InMemory(), w.node("a").Reason)
		}
		if n := w.node("a"); n.State != site.Stalled || !strings.Contains(n.Reason, "no agent has called") {
			t.Errorf("%s: %s", n.State, n.Reason)
		}
	}, "a")
}

// A machine whose system answers again after its agent was lost stays on, whoever was to be
// installed there.
func TestASystemThatAnswersStaysOn(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.awaitsApproval("a")
		w.approve()
		w.until("it is in-sync", time.Hour, w.is(site.InSync, "a"))
		w.again("a", drivertest.Unkind{})
		m := w.fleet.Machine("a")
		m.HasDisks(item.Disk{Name: "nvme0n1", Serial: "NOBODY-KNOWS", Kind: "nvme", Bytes: 480e9 / 512 * 512, Sector: 512})
		w.approve()
		w.until("its agent waits", time.Hour, func() bool { return m.InMemory() && strings.Contains(w.node("a").Reason, "waits for approval") })
		w.agents.SetOff(errors.New("the network is cut"))
		m.Misbehave(drivertest.Unkind{Silent: true}) // until it gives up
		w.until("it boots from its disk by itself", time.Hour, func() bool { return !m.InMemory() })
		resets := m.Counts().Resets
		w.agents.SetOff(nil)
		w.after(24 * time.Hour)
		if m.Counts().Resets != resets || m.Counts().Installs != 1 {
			t.Errorf("it was reset %d times, and erased %d times: %s", m.Counts().Resets-resets, m.Counts().Installs, w.node("a").Reason)
		}
	}, "a")
}

// again has a machine that was installed be asked for the next generation.
func (w *world) again(name string, u drivertest.Unkind) {
	w.fleet.Machine(name).Misbehave(u)
	d := w.rooted(name)
	d.Nodes[name].Generation = 2
	w.commit(d)
	w.until("the next one waits for approval", 10*time.Minute, func() bool { return w.engine.Report().Status.Approve != "" })
}

// An agent that says that it has installed and has not is found out by the system's marker.
func TestALyingAgentProvesNothing(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.awaitsApproval("a")
		w.fleet.Machine("a").Misbehave(drivertest.Unkind{Lies: true})
		w.approve()
		w.after(3 * time.Hour)
		if i := w.installedBy("a"); i == nil || i.Proven {
			t.Errorf("recorded is %+v", i)
		}
		if n := w.node("a"); n.State == site.InSync || n.State == site.Progressing {
			t.Errorf("it is %s: %s", n.State, n.Reason)
		}
		if n := w.node("a"); !strings.Contains(n.Reason+n.Detail, "Slipway has not seen from inside yet that it runs") || w.fleet.Machine("a").Counts().Installs != 0 {
			t.Errorf("it says %q, %q", n.Reason, n.Detail)
		}
	}, "a")
}

// A daemon that is started again while the agent waits, installs, or has yet to call goes on
// with the same agent by what is recorded: the digest of the token, never the token.
func TestARestartKeepsTheAgent(t *testing.T) {
	for name, at := range map[string]func(w *world) bool{
		"while the machine starts": func(w *world) bool { return w.fleet.Machine("a").InMemory() },
		"while it installs":        func(w *world) bool { return len(w.agents.Asked()) > 0 },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				w.awaitsApproval("a")
				w.approve()
				w.until(name, time.Hour, func() bool { return at(w) })
				w.after(time.Minute)
				w.down()
				w.up()
				w.after(time.Second)
				w.until("it is in-sync", 3*time.Hour, w.is(site.InSync, "a"))
				if n := w.fleet.Machine("a").Counts().Installs; n > 2 {
					t.Errorf("it was erased %d times", n)
				}
				starts := w.started("a")
				if starts != 1 {
					t.Errorf("the agent was started %d times", starts)
				}
			}, "a")
		})
	}
}

// Disks that do not fit the design, and disks that nobody approved, are erased by nobody. The
// machine boots from its disk again after an hour.
func TestOtherDisksThanApproved(t *testing.T) {
	for name, c := range map[string]struct {
		disks []item.Disk
		says  string
	}{
		"none fits": {[]item.Disk{{Name: "sda", Serial: "DATA-SERIAL-a", Kind: "hdd", Bytes: 8e12 / 512 * 512, Sector: 512}}, "no disk fits"},
		"two fit": {[]item.Disk{
			{Name: "nvme0n1", Serial: "NVME-SERIAL-a", Kind: "nvme", Bytes: 480e9 / 512 * 512, Sector: 512},
			{Name: "nvme1n1", Serial: "NVME-SECOND-a", Kind: "nvme", Bytes: 480e9 / 512 * 512, Sector: 512}}, "2 disks fit the rule for the disk os"},
		"another one fits": {[]item.Disk{{Name: "nvme0n1", Serial: "NOBODY-KNOWS", Kind: "nvme", Bytes: 480e9 / 512 * 512, Sector: 512}}, "waits for approval"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				w.awaitsApproval("a")
				m := w.fleet.Machine("a")
				m.HasDisks(c.disks...)
				w.approve()
				w.until("it says so", 30*time.Minute, func() bool { return m.InMemory() && strings.Contains(w.node("a").Reason, c.says) })
				w.after(20 * time.Minute)
				if !m.InMemory() {
					t.Error("the agent was not left to wait")
				}
				w.until("it boots from its disk", 2*time.Hour, func() bool { return !m.InMemory() })
				w.after(3 * time.Hour)
				if m.InMemory() || m.Counts().Installs != 0 || len(w.agents.Asked()) != 0 {
					t.Errorf("in memory %t, erased %d times", m.InMemory(), m.Counts().Installs)
				}
				if n := w.started("a"); n != 1 {
					t.Errorf("the agent was started %d times, for an installation that nobody approved", n)
				}
			}, "a")
		})
	}
}

// A port of the design that has no link, or another switch at its other end, keeps the machine as it
// is; once it is plugged in as designed the installation goes on.
func TestNothingIsInstalledOnAnUnpluggedMachine(t *testing.T) {
	const mac = "02:00:5e:00:53:01"
	cabled := func(link string, systems ...string) []site.NIC {
		p := site.Port{ID: "eth0", MACs: []string{mac}, Link: link}
		for _, s := range systems {
			p.Neighbours = append(p.Neighbours, item.Neighbour{System: s, Port: "7"})
		}
		return []site.NIC{{Ports: []site.Port{p}}}
	}
	for name, c := range map[string]struct {
		nics []site.NIC
		says string
	}{
		"no link":        {cabled("down"), "the port eno1 (" + mac + ") has no link: its cable is unplugged or broken, or the other end is off. Nothing was erased"},
		"another switch": {cabled("up", "tor-2.example.org"), "the port eno1 (" + mac + ") is plugged into port 7 of tor-2.example.org, and is designed for switch tor-1. Nothing was erased"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				w.listens = true
				d := w.rooted("a")
				d.Nodes["a"].Interfaces = map[string]site.Interface{"eno1": {MAC: mac, Networks: []string{"lan"}, Switch: "tor-1"}, "spare": {MAC: "02:00:5e:00:53:02"}}
				w.fleet.Machine("a").HasNICs(c.nics...)
				w.commit(d)
				w.up()
				w.until("it waits for approval", 5*time.Minute, func() bool { return w.engine.Report().Status.Approve != "" })
				w.approve()
				m := w.fleet.Machine("a")
				w.until("it says so", 30*time.Minute, func() bool { return m.InMemory() && strings.Contains(w.node("a").Reason, c.says) })
				w.after(10 * time.Minute)
				if n := w.node("a"); !n.Person || m.Counts().Installs != 0 || len(w.agents.Asked()) != 0 {
					t.Errorf("it is %s: %s; erased %d times", n.State, n.Reason, m.Counts().Installs)
				}
				m.HasNICs(cabled("up", "tor-1", "tor-1.example.org")...)
				w.until("it is installed", time.Minute, func() bool { return len(w.agents.Asked()) == 1 })
				w.until("it is in-sync", time.Hour, w.is(site.InSync, "a"))
			}, "a")
		})
	}
}

// A design that asks for other disks than when it was approved erases none of them, before the
// agent was asked and after its connection was lost in the middle.
func TestOtherLayoutThanApproved(t *testing.T) {
	for name, when := range map[string]func(w *world) bool{
		"while the agent is started": func(w *world) bool { return w.fleet.Machine("a").InMemory() },
		"after the agent was lost":   func(w *world) bool { return len(w.agents.Asked()) > 0 && !w.fleet.Machine("a").InMemory() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				w.awaitsApproval("a")
				w.fleet.Machine("a").Misbehave(drivertest.Unkind{Late: 3 * time.Minute, Vanishes: 2 * time.Minute, Times: 1})
				w.approve()
				w.until(name, time.Hour, func() bool { return when(w) })
				before := len(w.agents.Asked())
				d := w.rooted("a")
				n := d.Nodes["a"]
				n.Storage.Disks["data"] = site.Disk{Match: &site.DiskMatch{Kind: "hdd"}, Use: site.Use{Filesystem: &site.Filesystem{Type: "xfs", Mount: "/srv"}}}
				w.commit(d)
				w.after(4 * time.Hour)
				if got := len(w.agents.Asked()); got != before {
					t.Errorf("the agent was asked %d times more: %+v", got-before, w.agents.Asked()[before:])
				}
				if n := w.node("a"); n.State == site.InSync || n.State == site.Progressing {
					t.Errorf("it is %s: %s", n.State, n.Reason)
				}
				i := w.engine.Known().Nodes["a"].Recorded.Installing
				if cut := i != nil && strings.Contains(i.CutOff, "other disks"); cut != (before > 0) {
					t.Errorf("asked %d times before, and recorded is %+v", before, i)
				}
			}, "a")
		})
	}
}

// A listener that cannot listen holds the start of the agent.
func TestAListenerThatCannotListen(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.awaitsApproval("a")
		w.agents.SetOff(errors.New("the port is taken"))
		w.approve()
		w.after(10 * time.Minute)
		if n := w.node("a"); n.State != site.Blocked || !strings.Contains(n.Reason, "the port is taken") || len(w.fleet.Calls()) != 0 {
			t.Errorf("%s: %s; %d calls", n.State, n.Reason, len(w.fleet.Calls()))
		}
		w.agents.SetOff(nil)
		w.until("it is in-sync", time.Hour, w.is(site.InSync, "a"))
	}, "a")
}

// An image of a whole disk is served in frames: the agent is asked for the file of these, and the
// new system gets what it is reached by alone before its first start. While the frames are made,
// the installation waits.
func TestAnAgentInstallsAWholeDisk(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.listens = true
		d := w.rooted("a")
		d.Images["debian"].Kind, d.Images["debian"].Format = site.KindDisk, "qcow2"
		n := d.Nodes["a"]
		n.References.WholeDisk = true
		n.Storage = site.Storage{BootDisk: "os", Disks: map[string]site.Disk{"os": {Match: &site.DiskMatch{Kind: "nvme"}}}}
		w.files.set("d1", artifact.State{Framing: true, Have: 5e6})
		w.commit(d)
		w.up()
		w.until("the installation waits for approval", 5*time.Minute, func() bool { return w.engine.Report().Status.Approve != "" })
		w.approve()
		w.after(10 * time.Minute)
		if n := w.node("a"); !strings.Contains(n.Reason, "image debian is being prepared for writing") || !strings.Contains(n.Detail, "5 MB written") || len(w.agents.Asked()) != 0 {
			t.Errorf("it is %s: %s (%s)", n.State, n.Reason, n.Detail)
		}
		if files := w.files.wanted; len(files) != 1 || files[0].Form != "qcow2" || files[0].SHA256 != "d1" {
			t.Errorf("wanted is %+v", files)
		}
		w.files.set("d1", artifact.State{Ready: true})
		w.until("the node is in-sync", time.Hour, w.is(site.InSync, "a"))
		if got, want := w.steps("a"), []site.Action{site.ActionStartAgent, site.ActionInstall, site.ActionFinishInstall}; !slices.Equal(got, want) {
			t.Errorf("the steps were %v, want %v", got, want)
		}
		asked := w.agents.Asked()
		if len(asked) != 1 {
			t.Fatalf("the agent was asked %d times", len(asked))
		}
		a := asked[0]
		if a.SHA256 != "d1-qcow2" || a.Step.Image.Kind != site.KindDisk || a.Step.Image.SHA256 != "d1" || !strings.Contains(a.Marker, `"image":"d1"`) {
			t.Errorf("it was asked for %+v", a)
		}
		if len(a.Layout.Disks) != 1 || a.Layout.Disks[0].Table != "" || len(a.Layout.Filesystems) != 0 || len(a.Layout.Destroys) != 1 || a.Layout.Destroys[0].Serial != "NVME-SERIAL-a" {
			t.Errorf("its disks are to become %+v", a.Layout)
		}
		for _, f := range a.Facets {
			if f != site.FacetBase && f != site.FacetNetwork {
				t.Errorf("%s is set before the first start", f)
			}
		}
		if i := w.installedBy("a"); i == nil || !i.Proven || !i.ByAgent || i.Image != "d1" {
			t.Errorf("recorded is %+v", i)
		}
	}, "a")
}

// erasing is a design in which the installation of each node erases the disks first.
func (w *world) erasing(names ...string) *site.Site {
	d := w.rooted(names...)
	for _, name := range names {
		d.Nodes[name].Storage.Erase = item.EraseSecure
	}
	return d
}

// Disks are erased before the installation, by its approval; what came of each is recorded and
// shown.
func TestDisksAreErasedFirst(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.listens = true
		w.commit(w.erasing("a"))
		w.up()
		w.until("the installation waits for approval", 5*time.Minute, func() bool { return w.engine.Report().Status.Approve != "" })
		if lost := w.engine.Report().Status.Waiting[0].Lost; !strings.Contains(lost, "erased so that it cannot be read again") {
			t.Errorf("what is approved is %q", lost)
		}
		w.approve()
		w.until("the node is in-sync", time.Hour, w.is(site.InSync, "a"))
		if got := w.agents.Erased(); !slices.Equal(got, []string{"NVME-SERIAL-a"}) {
			t.Errorf("erased was %q", got)
		}
		report := w.node("a").Erased
		if report == nil || report.Generation != 1 || len(report.Disks) != 1 || report.Machine.UUID == "" {
			t.Fatalf("the report is %+v", report)
		}
		d := report.Disks[0]
		if !d.Done || d.Serial != "NVME-SERIAL-a" || d.Last().Verified == "" || d.Ended.Sub(d.Began) != time.Minute || d.Ended.Before(report.Began) {
			t.Errorf("the report is %+v", d)
		}
		w.down()
		w.up()
		w.after(time.Second)
		w.until("it is in-sync again", time.Hour, w.is(site.InSync, "a"))
		if got := w.engine.Known().Nodes["a"].Recorded.Erased; len(got) != 1 || !got[0].Disks[0].Done {
			t.Errorf("after a restart it is %+v", got)
		}
	}, "a")
}

// An installation that is cut after its disks were erased does not erase them again, and one that
// cannot erase them is not an installation: the report names the disk and the reason.
func TestErasesThatAreCutAndThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		u      drivertest.Unkind
		erased []string
		state  site.State
		says   string // in the reason of the report
	}{
		"cut":       {drivertest.Unkind{Vanishes: 2 * time.Minute, Times: 1}, []string{"NVME-SERIAL-a"}, site.InSync, ""},
		"fails":     {drivertest.Unkind{NotErased: map[string]string{"NVME-SERIAL-a": "byte 4096 cannot be written"}}, nil, site.Stalled, "byte 4096 cannot be written"},
		"is silent": {drivertest.Unkind{Forgets: true}, []string{"NVME-SERIAL-a"}, site.InSync, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				w.listens = true
				w.commit(w.erasing("a"))
				w.up()
				w.until("it waits for approval", 5*time.Minute, func() bool { return w.engine.Report().Status.Approve != "" })
				w.fleet.Machine("a").Misbehave(c.u)
				w.approve()
				w.until("it has come to its end", 4*time.Hour, w.is(c.state, "a"))
				if got := w.agents.Erased(); !slices.Equal(got, c.erased) {
					t.Errorf("erased was %q, want %q", got, c.erased)
				}
				report := w.node("a").Erased
				if report == nil || len(report.Disks) != 1 {
					t.Fatalf("the report is %+v", report)
				}
				d := report.Disks[0]
				if known := name != "is silent"; d.Done != (c.state == site.InSync && known) || (len(d.Tries) > 0) != known || !strings.Contains(d.Last().Why, c.says) {
					t.Errorf("the report is %+v: %s", d, report.Verdict())
				}
			}, "a")
		})
	}
}

// What the agent says is kept after it has gone and after the daemon was started again: progress
// as its last line alone.
func TestWhatTheAgentSaysIsKept(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.awaitsApproval("a")
		w.approve()
		w.until("the node is in-sync", time.Hour, w.is(site.InSync, "a"))
		said := func() []string {
			lines, err := w.engine.Said(context.Background(), "a")
			if err != nil {
				t.Fatal(err)
			}
			var texts []string
			for i, l := range lines {
				if texts = append(texts, l.Text); i > 0 && l.Seq <= lines[i-1].Seq {
					t.Errorf("the lines are not in order: %+v", lines)
				}
			}
			return texts
		}
		want := []string{"erasing, 0 of 1 disks done: 12 %", "unpacking the image"}
		if got := said(); !slices.Equal(got, want) {
			t.Errorf("it said %q", got)
		}
		w.after(10 * time.Second)
		w.down()
		w.up()
		w.after(time.Second)
		if got := said(); !slices.Equal(got, want) {
			t.Errorf("after a restart it said %q", got)
		}
		for n := range 1000 {
			w.agents.Say("a", fmt.Sprintf("read %d of 1000 MB", n))
		}
		if got := said(); !slices.Equal(got, append(want, "read 999 of 1000 MB")) {
			t.Errorf("then it said %q", got)
		}
		for n := range 1000 {
			w.agents.Say("a", strings.Repeat("x", 1+n))
		}
		if got := said(); len(got) != 200 || len(got[199]) > 520 {
			t.Errorf("%d lines are kept, the last with %d bytes", len(got), len(got[199]))
		}
		if _, err := w.engine.Said(context.Background(), "nobody"); !errors.Is(err, site.ErrNotFound) {
			t.Errorf("of nobody: %v", err)
		}
	}, "a")
}

// What an agent saw of the machine stays known after it has gone, and so does that nobody knows
// the firmware's entries.
func TestWhatTheAgentSawStays(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.awaitsApproval("a")
		w.fleet.Machine("a").Misbehave(drivertest.Unkind{BootUnknown: "the firmware has no variables"})
		w.approve()
		w.until("the node is in-sync", time.Hour, w.is(site.InSync, "a"))
		w.after(time.Hour)
		a := w.engine.Known().Nodes["a"].Observed.Agent
		if a == nil || a.Inventory == nil || len(a.Inventory.Drives) != 2 || a.Seen.IsZero() || a.Connected {
			t.Errorf("seen was %+v", a)
		}
		if notes := strings.Join(w.node("a").Notes, "\n"); !strings.Contains(notes, "the firmware has no variables") {
			t.Errorf("the notes are %q", notes)
		}
	}, "a")
}
