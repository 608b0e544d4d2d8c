package engine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// seenDisks are the two disks of a machine as its agent sees them.
func seenDisks(nvme, wwn string) []item.Disk {
	return []item.Disk{
		{Name: "nvme0n1", Serial: nvme, WWN: wwn, Kind: "nvme", Bytes: 480e9 / 512 * 512, Sector: 512},
		{Name: "sda", Serial: "DATA-SERIAL-a", Kind: "hdd", Bytes: 8e12 / 512 * 512, Sector: 512}}
}

func listing(serials ...string) *site.Inventory {
	i := &site.Inventory{}
	for _, serial := range serials {
		i.Drives = append(i.Drives, site.Drive{Part: site.Part{Serial: serial}, Bytes: 480e9})
	}
	return i
}

// approvesLate approves whatever waits three hours after it began to wait, when an agent has left the memory of the machine,
// and returns how often it took that until something is so.
func (w *world) approvesLate(restarts bool, so func() bool) (times int) {
	w.t.Helper()
	for times = range 5 {
		w.until("it waits, or is done", 4*time.Hour, func() bool { return w.engine.Report().Status.Approve != "" || so() })
		if so() {
			return times
		}
		w.after(3 * time.Hour)
		w.approve()
		if restarts {
			w.after(10 * time.Second) // the agent is being started
			w.down()
			w.up()
		}
		w.after(time.Hour)
	}
	n := w.node("a")
	w.t.Fatalf("after %d approvals: %s: %s; the agent was started %d times; %+v", times+1, n.State, n.Reason, w.started("a"), w.ledger("a"))
	return times
}

// What only the agent sees of the disks is approved by what it saw, also by a person who comes when it has left the memory of
// the machine again: the agent is started once more, and the approval ends in an installation.
func TestALateApprovalOfWhatTheAgentSawEndsInAnInstallation(t *testing.T) {
	for name, c := range map[string]struct {
		keeps, restarts bool
		lists           *site.Inventory
		wwn             string
		most            int
	}{
		"kept, the BMC lists none":             {keeps: true, lists: listing(), most: 2},
		"kept, the BMC lists the kept one":     {keeps: true, lists: listing("DATA-SERIAL-a"), most: 2},
		"kept, the BMC lists both":             {keeps: true, lists: listing("DATA-SERIAL-a", "NVME-SERIAL-a"), most: 2},
		"kept, listed without its WWN":         {keeps: true, lists: listing("DATA-SERIAL-a", "NVME-SERIAL-a"), wwn: "eui.0025388b91d7d8aa", most: 2},
		"kept, and the daemon restarts":        {keeps: true, lists: listing(), restarts: true, most: 2},
		"not named, the BMC lists none":        {lists: listing(), most: 2},
		"not named, the BMC lists another one": {lists: listing("DATA-SERIAL-a"), most: 2},
		"not named, and the daemon restarts":   {lists: listing("DATA-SERIAL-a"), restarts: true, most: 2},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				w.listens = true
				d := w.rooted("a")
				if c.keeps {
					d.Nodes["a"].Storage.Disks["data"] = site.Disk{Match: &site.DiskMatch{Kind: "hdd"}, Keep: true}
				}
				m := w.fleet.Machine("a")
				m.Made(c.lists)
				m.HasDisks(seenDisks("NVME-SERIAL-a", c.wwn)...)
				w.commit(d)
				w.up()
				w.after(time.Minute)
				if times := w.approvesLate(c.restarts, w.is(site.InSync, "a")); times > c.most {
					t.Errorf("it took %d approvals", times)
				}
				if got := w.agents.Erased(); slices.Contains(got, "DATA-SERIAL-a") {
					t.Errorf("erased were %q", got)
				}
			}, "a")
		})
	}
}

// A disk that was put in since the agent looked is not one that was approved: the agent that is started for the approval sees
// it, and nothing is erased.
func TestALateApprovalDoesNotCoverAnotherDisk(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.listens = true
		m := w.fleet.Machine("a")
		d := w.rooted("a")
		m.Made(listing())
		w.commit(d)
		w.up()
		waits := func(disks string) func() bool {
			return func() bool {
				all := w.engine.Report().Status.Waiting
				return len(all) == 1 && all[0].Disks == disks
			}
		}
		w.until("it waits", time.Hour, waits("unknown"))
		w.approve()
		w.until("it waits for what the agent sees", time.Hour, waits("NVME-SERIAL-a"))
		w.after(3 * time.Hour)
		m.HasDisks(seenDisks("PRECIOUS-SERIAL", "")...)
		w.approve()
		w.until("it waits for what the next one sees", time.Hour, waits("PRECIOUS-SERIAL"))
		w.after(3 * time.Hour)
		if got := w.agents.Erased(); len(got) > 0 || len(w.agents.Asked()) > 0 {
			t.Errorf("erased were %q", got)
		}
	}, "a")
}
