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

// retiring is a design whose nodes are decommissioned, and whose disks are erased.
func (w *world) retiring(names ...string) *site.Site {
	d := w.rooted(names...)
	for _, name := range names {
		n := d.Nodes[name]
		n.Decommission, n.DecommissionErase = true, item.EraseSecure
	}
	return d
}

// awaitsErase brings a node that was installed to where its erase waits for approval.
func (w *world) awaitsErase(name string) {
	w.t.Helper()
	w.awaitsApproval(name)
	w.approve()
	w.until("it is in-sync", time.Hour, w.is(site.InSync, name))
	w.commit(w.retiring(name))
	w.until("the erase waits for approval", 10*time.Minute, func() bool { return w.engine.Report().Status.Approve != "" })
}

// A machine that is decommissioned with erase is started with the agent once a person has approved
// the destruction: its designed disks are erased, the report is kept, and the machine stays off.
func TestADecommissionedMachineIsErased(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.awaitsErase("a")
		m := w.fleet.Machine("a")
		if lost := w.engine.Report().Status.Waiting[0].Lost; !strings.Contains(lost, "everything on the design's disk os") || !strings.Contains(lost, "erased so that it cannot be read again") {
			t.Errorf("what is approved is %q", lost)
		}
		before, calls := m.Counts(), len(w.steps("a"))
		w.after(2 * time.Hour)
		if now := m.Counts(); now.Writes != before.Writes || m.Power() != "on" {
			t.Fatalf("before the approval %d requests changed the machine, which is %s", now.Writes-before.Writes, m.Power())
		}
		w.approve()
		w.until("it is done", 2*time.Hour, func() bool {
			return w.node("a").State == site.InSync && m.Power() == "off" && !w.engine.Known().Nodes["a"].Recorded.Retired.IsZero()
		})
		if got, want := w.steps("a")[calls:], []site.Action{site.ActionStartAgent, site.ActionZeroize, site.ActionFinishErase}; !slices.Equal(got, want) {
			t.Errorf("the steps were %v, want %v", got, want)
		}
		if got := w.agents.Erased(); !slices.Equal(got, []string{"NVME-SERIAL-a"}) {
			t.Errorf("erased was %q", got)
		}
		r := w.engine.Known().Nodes["a"].Recorded
		if report := w.node("a").Erased; report == nil || report.For() != "decommissioned" || len(report.Disks) != 1 || !report.Disks[0].Done {
			t.Errorf("the report is %+v", report)
		}
		if r.Installed != nil || r.Agent != nil || r.InFlight != nil || m.Media() != nil {
			t.Errorf("left is %+v, %+v, %+v", r.Installed, r.Agent, r.InFlight)
		}
		if notes := strings.Join(w.node("a").Notes, "\n"); !strings.Contains(notes, "its disks were erased at") || !strings.Contains(notes, "slipway erase-report a") {
			t.Errorf("the notes are %q", notes)
		}
		erased := m.Counts()
		w.down()
		w.up()
		w.after(24 * time.Hour)
		if now := m.Counts(); now.Resets != erased.Resets || now.Writes != erased.Writes || m.Power() != "off" {
			t.Errorf("later %d requests changed the machine, which is %s: %s", now.Writes-erased.Writes, m.Power(), w.node("a").Reason)
		}
		gone := w.rooted("a")
		delete(gone.Nodes, "a")
		w.commit(gone)
		w.until("it has left", time.Hour, func() bool { _, there := w.engine.Known().Nodes["a"]; return !there })
	}, "a")
}

// What keeps the erase from coming to its end is told, and goes on where it can; a machine whose
// erase nobody permits any more keeps its system.
func TestErasesOfLeavingMachinesThatGoWrong(t *testing.T) {
	for name, c := range map[string]struct {
		u      drivertest.Unkind
		done   bool
		erased int // disks
		says   string
	}{
		"the connection is lost": {u: drivertest.Unkind{Vanishes: 2 * time.Minute, Times: 1, Returns: true}, done: true, erased: 1},
		"the agent is lost":      {u: drivertest.Unkind{Vanishes: 2 * time.Minute, Times: 1}, done: true, erased: 1},
		"a disk resists":         {u: drivertest.Unkind{NotErased: map[string]string{"NVME-SERIAL-a": "byte 4096 cannot be written"}}, says: "erasing the disks has failed 3 times"},
		"it refuses":             {u: drivertest.Unkind{Refuses: "another disk is there; nothing was written"}, says: "nothing was written"},
		"no agent calls":         {u: drivertest.Unkind{Silent: true}, says: "no agent has called"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				w.awaitsErase("a")
				m := w.fleet.Machine("a")
				m.Misbehave(c.u)
				w.approve()
				w.until("it has come to its end", 6*time.Hour, func() bool {
					n := w.node("a")
					if c.done {
						return n.State == site.InSync && m.Power() == "off"
					}
					return n.State == site.Stalled && strings.Contains(n.Reason, c.says)
				})
				w.after(time.Hour)
				if got := w.agents.Erased(); len(got) != c.erased {
					t.Errorf("erased was %q", got)
				}
				if retired := w.engine.Known().Nodes["a"].Recorded.Retired; retired.IsZero() == c.done {
					t.Errorf("it is retired at %s", retired)
				}
			}, "a")
		})
	}
}

// An erase that the design takes back before it has begun is not done, and the machine boots into its
// system again. A node that leaves before its disks were erased is kept.
func TestAnEraseThatIsTakenBack(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.awaitsErase("a")
		m := w.fleet.Machine("a")
		gone := w.rooted("a")
		delete(gone.Nodes, "a")
		w.commit(gone)
		w.after(2 * time.Hour)
		if n := w.node("a"); n.State != site.Blocked || !strings.Contains(n.Reason, "its disks were not erased, as its design asked") {
			t.Errorf("it is %s: %s", n.State, n.Reason)
		}
		w.commit(w.retiring("a"))
		w.until("the erase waits for approval", 10*time.Minute, func() bool { return w.engine.Report().Status.Approve != "" })
		w.agents.SetOff(nil)
		m.Misbehave(drivertest.Unkind{Late: 5 * time.Minute})
		w.approve()
		w.until("the agent is started", time.Hour, m.InMemory)
		w.commit(w.rooted("a"))
		w.until("its system runs again", 6*time.Hour, func() bool { return w.node("a").State == site.InSync && m.Power() == "on" && !m.InMemory() })
		if got := w.agents.Erased(); len(got) != 0 || m.Counts().Installs != 1 {
			t.Errorf("erased was %q, and it was installed %d times", got, m.Counts().Installs)
		}
	}, "a")
}

// A disk that was approved and that the agent does not see is not erased, and does not count as
// erased: nothing is sent before a person agrees to go without it, and the report names it.
func TestAnApprovedDiskThatNobodySees(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.awaitsApproval("a")
		w.approve()
		w.until("it is in-sync", time.Hour, w.is(site.InSync, "a"))
		d := w.retiring("a")
		d.Nodes["a"].Storage.Disks = map[string]site.Disk{"every": {Match: &site.DiskMatch{MinSize: 1e9}, Count: "all"}}
		w.commit(d)
		w.until("the erase waits for approval", 10*time.Minute, func() bool { return w.engine.Report().Status.Approve != "" })
		if disks := w.engine.Report().Status.Waiting[0].Disks; disks != "DATA-SERIAL-a, NVME-SERIAL-a" {
			t.Fatalf("to be approved are %q", disks)
		}
		m := w.fleet.Machine("a")
		m.HasDisks(item.Disk{Name: "nvme0n1", Serial: "NVME-SERIAL-a", Kind: "nvme", Bytes: 480e9 / 512 * 512, Sector: 512}) // no driver for the controller of the other
		w.approve()
		w.until("it waits for another approval", 6*time.Hour, func() bool {
			waits := w.engine.Report().Status.Waiting
			return len(waits) == 1 && waits[0].Disks == "NVME-SERIAL-a"
		})
		if got := w.agents.Erased(); len(got) > 0 {
			t.Errorf("erased was %q", got)
		}
		w.approve()
		w.until("it is done", 6*time.Hour, func() bool { return w.node("a").State == site.InSync && m.Power() == "off" })
		if e := w.node("a").Erased; e == nil || !slices.Equal(e.Unseen, []string{"DATA-SERIAL-a"}) || e.Verdict() != "1 of 1 disks erased, 1 more that only the BMC lists" {
			t.Errorf("the report is %+v", e)
		}
	}, "a")
}

// That the disks of a node are to be erased is known although its machine was not seen since.
func TestAnEraseIsAskedForWhileNobodySeesTheMachine(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.awaitsApproval("a")
		w.approve()
		w.until("it is in-sync", time.Hour, w.is(site.InSync, "a"))
		d := w.rooted("a")
		d.Nodes["a"].Decommission = true
		w.commit(d)
		w.after(10 * time.Minute)
		w.fleet.Machine("a").SetFault(drivertest.Unreachable)
		w.after(time.Minute)
		w.commit(w.retiring("a"))
		w.after(time.Hour)
		gone := w.rooted("a")
		delete(gone.Nodes, "a")
		w.commit(gone)
		w.after(2 * time.Hour)
		if n := w.node("a"); n.State != site.Blocked || !strings.Contains(n.Reason, "its disks were not erased, as its design asked") {
			t.Errorf("it is %s: %s", n.State, n.Reason)
		}
	}, "a")
}

// A node that leaves the design while its disks are erased leaves when its machine is off.
func TestANodeThatLeavesWhileItIsErased(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.awaitsErase("a")
		m := w.fleet.Machine("a")
		asked := len(w.agents.Asked())
		w.approve()
		w.until("it erases", time.Hour, func() bool { return len(w.agents.Asked()) > asked })
		gone := w.rooted("a")
		delete(gone.Nodes, "a")
		w.commit(gone)
		w.until("it has left", 6*time.Hour, func() bool { _, there := w.engine.Known().Nodes["a"]; return !there })
		if m.Power() != "off" || m.Media() != nil || !slices.Equal(w.agents.Erased(), []string{"NVME-SERIAL-a"}) {
			t.Errorf("the machine is %s, with the medium %v, erased was %q", m.Power(), m.Media(), w.agents.Erased())
		}
	}, "a")
}

// The status calls the disks of a machine erased only if it knows of none that was not.
func TestErasedClaimsOnlyWhatWasErased(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.awaitsErase("a")
		w.approve()
		w.until("it is done", 2*time.Hour, func() bool {
			return w.node("a").State == site.InSync && w.fleet.Machine("a").Power() == "off" && !w.engine.Known().Nodes["a"].Recorded.Retired.IsZero()
		})
		n := w.node("a")
		if strings.Contains(n.Reason, "its disks are erased") && !strings.Contains(n.Reason, "DATA-SERIAL-a") {
			t.Errorf("erased were %q of the disks NVME-SERIAL-a and DATA-SERIAL-a (8 TB), and the status says %q, notes %q", w.agents.Erased(), n.Reason, n.Notes)
		}
	}, "a")
}
