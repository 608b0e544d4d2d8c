package engine_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// board is a status branch that several daemons write to.
type board struct {
	mu     sync.Mutex
	claim  site.TermClaim
	sealed map[string]site.Sealed
	away   error
	onSeal func() // is called when one node is published
	lists  []string
	// reported are the lists of each report, in PEM.
	reported [][]string
}

func (b *board) RevocationLists(context.Context) ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lists, b.away
}

func (b *board) Term(context.Context) (site.TermClaim, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.claim, b.away
}

func (b *board) Claim(_ context.Context, c, before site.TermClaim) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.claim.Instance != before.Instance {
		return site.ErrClaimed
	}
	if b.away == nil {
		b.claim = c
	}
	return b.away
}

func (b *board) Sealed(context.Context) (all []site.Sealed, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.sealed {
		all = append(all, s)
	}
	return all, b.away
}

// Report keeps what a status branch has of each node.
func (b *board) Report(_ context.Context, r site.Report) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away != nil {
		return b.away
	}
	var lists []string
	for _, l := range r.RevocationLists {
		lists = append(lists, l.PEM)
	}
	if b.reported = append(b.reported, lists); len(lists) > 0 { // without one, those that are there stay
		b.lists = lists
	}
	b.sealed = map[string]site.Sealed{}
	for _, n := range r.Status.Nodes {
		if n.Sealed != nil {
			b.sealed[n.Name] = *n.Sealed
		}
	}
	return nil
}

func (b *board) Seal(_ context.Context, n site.NodeStatus) error {
	if b.onSeal != nil {
		b.onSeal()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away == nil && n.Sealed != nil {
		if b.sealed == nil {
			b.sealed = map[string]site.Sealed{}
		}
		b.sealed[n.Name] = *n.Sealed
	}
	return b.away
}

func (b *board) set(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = err
}

// copyOf is a copy of a directory, as somebody makes one.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// setBack goes on with older records, and the same site key, which is outside of
// them.
func (w *world) setBack(before string) {
	w.t.Helper()
	key := readFile(w.t, w.dir+".key")
	w.dir = before
	if err := os.WriteFile(w.dir+".key", key, 0o400); err != nil {
		w.t.Fatal(err)
	}
}

// lost takes all records away.
func (w *world) lost() {
	w.t.Helper()
	w.down()
	if err := os.RemoveAll(w.dir); err != nil {
		w.t.Fatal(err)
	}
}

// ledger is what the status tells of approvals for a node.
func (w *world) ledger(name string) (all []site.LedgerEntry) {
	for _, e := range w.engine.Report().Status.Ledger {
		if e.Loss.Node == name {
			all = append(all, e)
		}
	}
	return all
}

// withDisks are the parts of a machine with drives.
func withDisks(serials ...string) *site.Inventory {
	inv := &site.Inventory{Manufacturer: "Fake", Model: "Memory", Drives: []site.Drive{}}
	for _, s := range serials {
		inv.Drives = append(inv.Drives, site.Drive{Part: site.Part{ID: s, Serial: s}})
	}
	return inv
}

// A daemon without its records honours no approval of before, however the old
// line still stands in the design, and installs over no machine that it has not
// seen inside.
func TestLostRecordsAndALineInTheDesign(t *testing.T) {
	for name, lose := range map[string]func(*world, *site.Site){
		"its SSH is down":            func(w *world, _ *site.Site) { w.fleet.Machine("a").SetDisk(&site.Marker{}) },
		"it has no os endpoint":      func(_ *world, d *site.Site) { delete(d.Nodes["a"].Endpoints, site.OS) },
		"it is just being rebooted":  func(w *world, _ *site.Site) { w.fleet.Machine("a").SetPower("off") },
		"its installer did not sign": func(*world, *site.Site) {},
		"it shows the marker of other": func(w *world, _ *site.Site) {
			w.fleet.Machine("a").SetDisk(&site.Marker{Node: "b", Generation: 9, Image: "d1"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				w.fleet.Machine("a").Made(withDisks("S1"))
				d := w.installed(1)
				w.commit(d)
				w.up()
				w.after(time.Minute)
				approved := w.inDesign(d)
				w.commit(approved)
				w.after(15 * time.Minute)
				w.want("a", site.InSync)
				w.lost()
				after := clone(approved)
				lose(w, after)
				w.commit(after)
				w.up()
				w.after(time.Hour)
				if n := w.fleet.Machine("a").Counts().Installs; n != 1 {
					t.Errorf("%d installations: the production system was erased", n)
				}
				if n := w.node("a"); n.State != site.Blocked && n.State != site.Foreign || !n.Person {
					t.Errorf("a is %s (%s), and waits for no person", n.State, n.Reason)
				}
			}, "a")
		})
	}
}

// An approval ends when the design in force does not plan the loss any more. The
// same commit once more is another loss.
func TestRevertEndsAnApproval(t *testing.T) {
	for name, again := range map[string]func(*site.Site){
		"the same once more": func(*site.Site) {},
		"with another image": func(d *site.Site) { d.Images["debian"].SHA256 = "d2" },
		"with another image's URL": func(d *site.Site) {
			d.Images["debian"].URL = "http://evil.example/x.iso"
			d.Images["debian"].SHA256 = "d2"
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, patched, func(w *world) {
				closed := func(d *site.Site) { d.Windows, d.Nodes["n1"].Window = at("30 5 * * *"), "night" }
				d := w.reinstall(closed, "n1")
				w.commit(d)
				w.up()
				w.after(time.Minute)
				w.approve()
				w.after(time.Minute)
				w.reason("n1", "its window night opens at")
				w.commit(w.reinstall(func(d *site.Site) { closed(d); d.Nodes["n1"].Image, d.Nodes["n1"].Generation = "", 0 }, "n1"))
				w.after(time.Minute)
				if e := w.ledger("n1"); len(e) != 1 || e[0].IsOpen() || !strings.Contains(e[0].Why, "no longer plans it") {
					t.Errorf("the ledger has %+v", e)
				}
				next := clone(d)
				again(next)
				w.commit(next)
				w.after(12 * time.Hour)
				w.reason("n1", "waits for approval")
				w.installs("n1", 0)
			}, "n1")
		})
	}
}

// A name that leaves the design and returns is another life: neither a line nor
// a digest of before approves anything.
func TestNodeThatReturnsIsAnotherLoss(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		closed := func(d *site.Site) { d.Windows, d.Nodes["n1"].Window = at("0 5 * * *"), "night" }
		d := w.reinstall(closed, "n1", "n2")
		d.Nodes["n2"].Image, d.Nodes["n2"].Generation = "", 0
		w.commit(d)
		w.up()
		w.after(time.Minute)
		digest := w.engine.Report().Status.Approve
		gone := clone(d)
		delete(gone.Nodes, "n1")
		w.commit(gone)
		w.after(time.Minute)
		w.do(site.Order{Verb: site.VerbApprove, Node: "n1"}) // lets it go
		w.after(time.Minute)
		back := clone(d)
		back.Approvals = map[string]site.Approval{digest: {By: "ann"}}
		w.commit(back)
		w.after(time.Minute)
		if _, err := w.engine.Do(w.t.Context(), site.Order{Verb: site.VerbApprove, Digest: digest, By: "ann"}); err == nil {
			t.Error("the digest of the earlier life is approved")
		}
		w.after(12 * time.Hour)
		w.reason("n1", "waits for approval")
		w.installs("n1", 0)
	}, "n1", "n2")
}

// An approval whose time has passed does not come back when the clock is set
// back, while the daemon is down.
func TestClockSetBackRevivesNoApproval(t *testing.T) {
	dir := t.TempDir()
	bubble := func(later time.Duration, f func(*world)) {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(later)
			w := &world{t: t, fleet: drivertest.NewFleet(patched, "n1"), source: &commits{}, dir: dir, told: &teller{}}
			w.commit(w.reinstall(func(d *site.Site) { d.Windows, d.Nodes["n1"].Window = at("0 5 20 6 *"), "night" }, "n1"))
			w.up()
			f(w)
			w.down()
		})
	}
	bubble(0, func(w *world) {
		w.after(time.Minute)
		w.approve()
		w.down()
		w.after(8 * 24 * time.Hour)
		w.up()
		w.after(2 * time.Minute)
		w.reason("n1", "waits for approval")
	})
	bubble(time.Hour, func(w *world) { // a week earlier
		w.after(10 * time.Minute)
		w.reason("n1", "waits for approval")
		if e := w.ledger("n1"); len(e) != 1 || e[0].IsOpen() {
			t.Errorf("the ledger has %+v", e)
		}
	})
}

// The same, where nobody has noticed yet that its time has passed when the clock
// is set back.
func TestClockSetBackBeforeTheEndWasNoticed(t *testing.T) {
	dir := t.TempDir()
	bubble := func(later time.Duration, f func(*world)) {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(later)
			w := &world{t: t, fleet: drivertest.NewFleet(patched, "n1"), source: &commits{}, dir: dir, told: &teller{}}
			w.commit(w.reinstall(func(d *site.Site) { d.Windows, d.Nodes["n1"].Window = at("0 5 20 6 *"), "night" }, "n1"))
			w.up()
			f(w)
			w.crash()
		})
	}
	bubble(0, func(w *world) {
		w.after(time.Minute)
		w.approve()
		w.after(10 * time.Second)
	})
	// The term begins, and the daemon dies before it does anything else.
	bubble(8*24*time.Hour, func(w *world) { w.after(50 * time.Millisecond) })
	bubble(time.Hour, func(w *world) {
		w.after(10 * time.Minute)
		w.reason("n1", "waits for approval")
	})
}

// What is approved names the disks: with another disk it is another loss.
func TestNewDiskIsNotApproved(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		m := w.fleet.Machine("n1")
		m.Made(withDisks("S1", "S2"))
		w.commit(w.reinstall(func(d *site.Site) { d.Windows, d.Nodes["n1"].Window = at("0 5 * * *"), "night" }, "n1"))
		w.up()
		w.after(2 * time.Minute)
		if set := w.engine.Report().Status.Waiting; len(set) != 1 || set[0].Disks != "S1, S2" {
			t.Fatalf("%+v waits", set)
		}
		w.approve()
		m.Made(withDisks("S1", "S2", "S3"))
		w.do(site.Order{Verb: site.VerbRetry, Node: "n1"}) // inspects it
		w.after(12 * time.Hour)
		w.reason("n1", "waits for approval")
		w.installs("n1", 0)
		if e := w.ledger("n1"); len(e) != 1 || !strings.Contains(e[0].Why, "S1, S2, S3") {
			t.Errorf("the ledger has %+v", e)
		}
		w.approve()
		w.after(24 * time.Hour)
		w.installs("n1", 1)
		m.Made(withDisks()) // as many BMCs say while the machine is off
		w.do(site.Order{Verb: site.VerbRetry, Node: "n1"})
		w.after(time.Hour)
		w.want("n1", site.InSync)
	}, "n1")
}

// A set is approvable for as long as something of it waits.
func TestShownSetIsNotApprovableForEver(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.reinstall(nil, "n1", "n2")
		w.commit(d)
		w.up()
		w.after(time.Minute)
		shown := w.engine.Report().Status.Approve
		next := clone(d)
		next.Nodes["n1"].Generation, next.Nodes["n2"].Generation = 2, 2
		w.commit(next)
		w.after(time.Minute)
		if answer, err := w.engine.Do(w.t.Context(), site.Order{Verb: site.VerbApprove, Digest: shown, By: "ann"}); err == nil {
			t.Errorf("approved: %s", answer)
		}
		w.commit(d) // and what was shown is planned again
		w.after(time.Minute)
		w.do(site.Order{Verb: site.VerbApprove, Digest: shown})
		w.after(15 * time.Minute)
		w.installs("n1", 1)
		w.installs("n2", 1)
		if _, err := w.engine.Do(w.t.Context(), site.Order{Verb: site.VerbApprove, Digest: shown, By: "ann"}); err == nil {
			t.Error("approved a second time")
		}
	}, "n1", "n2")
}

// Until the first destructive request an approval can be taken back: while the
// system is shut down for it, too. The machine comes back as it was.
func TestTakenBackBeforeTheFirstDestructiveRequest(t *testing.T) {
	for name, stop := range map[string]func(*world, *site.Site){
		"disapproved": func(w *world, _ *site.Site) {
			w.do(site.Order{Verb: site.VerbDisapprove, Node: "n1", Reason: "wrong rack"})
		},
		"reverted": func(w *world, d *site.Site) { w.commit(d) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				m := w.fleet.Machine("n1")
				m.SetDisk(&site.Marker{})
				m.SetPower("on")
				before := w.service("n1")
				w.commit(before)
				w.up()
				w.after(5 * time.Minute)
				w.want("n1", site.InSync)
				w.commit(w.reinstall(nil, "n1"))
				w.after(time.Minute)
				w.approve()
				w.until("the system shuts down", time.Minute, func() bool { return !w.begun("n1", site.ActionInstall, time.Time{}).IsZero() })
				if w.used("n1") {
					t.Fatal("the approval is used before the machine is off")
				}
				stop(w, before)
				w.after(15 * time.Minute)
				w.installs("n1", 0)
				if m.Media() != nil || m.Power() != "on" {
					t.Errorf("the machine is %s with the medium %v", m.Power(), m.Media())
				}
			}, "n1")
		})
	}
}

// One approval is one installation, with all its resumptions; what fails after
// it was used needs another one.
func TestSecondInstallationNeedsASecondApproval(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.commit(w.installed(1))
		w.up()
		w.after(time.Minute)
		w.approve()
		for !w.used("a") {
			w.after(50 * time.Millisecond)
		}
		w.crash()
		w.up()
		w.after(15 * time.Minute)
		w.want("a", site.InSync)
		w.installs("a", 1)
		if e := w.ledger("a"); len(e) != 1 || e[0].Consumed.IsZero() {
			t.Errorf("the ledger has %+v", e)
		}
		w.commit(w.installed(2))
		w.after(2 * time.Minute)
		w.approve()
		for !w.used("a") {
			w.after(50 * time.Millisecond)
		}
		w.do(site.Order{Verb: site.VerbQuarantine, Node: "a", Reason: "drill"})
		w.after(2 * time.Minute)
		w.do(site.Order{Verb: site.VerbRelease, Node: "a"})
		w.commit(w.installed(3))
		w.after(time.Hour)
		w.reason("a", "install generation 3")
		w.reason("a", "waits for approval")
		w.installs("a", 1)
	}, "a")
}

// What the system says of itself keeps no installation away and causes none.
func TestMarkerThatClaimsMoreThanWasInstalled(t *testing.T) {
	for name, marker := range map[string]site.Marker{
		"a higher generation": {Node: "a", Generation: 7, Image: "d1"},
		"the highest number":  {Node: "a", Generation: math.MaxInt, Image: "d1"},
		"a negative one":      {Node: "a", Generation: -1, Image: "d1"},
		"another node":        {Node: "b", Generation: 1, Image: "d1"},
		"another site":        {Site: "elsewhere", Node: "a", Generation: 1, Image: "d1"},
		"nothing":             {},
		"another image":       {Node: "a", Generation: 1, Image: "d7"},
		"an older generation": {Node: "a", Generation: 0, Image: "d1"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				w.commit(w.installed(1))
				w.up()
				w.after(time.Minute)
				w.approve()
				w.after(15 * time.Minute)
				w.want("a", site.InSync)
				w.fleet.Machine("a").SetDisk(&marker)
				w.after(15 * time.Minute)
				w.want("a", site.Foreign)
				if n := w.node("a"); !n.Person || !strings.Contains(n.Release, "slipway approve a") || n.Generation != 1 {
					t.Errorf("a is %+v", n)
				}
				if s := w.engine.Report().Status; s.Counts()[site.InSync] != 0 || len(s.Waiting) != 0 {
					t.Errorf("got %+v", s)
				}
				w.commit(w.installed(2)) // is installed all the same, when it is approved
				w.after(2 * time.Minute)
				w.approve()
				w.after(20 * time.Minute)
				w.want("a", site.InSync)
				w.installs("a", 2)
			}, "a")
		})
	}
}

// A person can accept a system as it is, and it stays accepted until it says
// something else.
func TestSystemIsAccepted(t *testing.T) {
	for name, next := range map[string]site.Marker{
		"a later generation":    {Node: "a", Generation: 8, Image: "d1"},
		"an earlier generation": {Node: "a", Generation: 5, Image: "d1"},
		"another image":         {Node: "a", Generation: 7, Image: "d2"},
		"another node":          {Node: "b", Generation: 7, Image: "d1"},
		"nothing":               {},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				w.commit(w.installed(1))
				w.up()
				w.after(time.Minute)
				w.approve()
				w.after(15 * time.Minute)
				w.fleet.Machine("a").SetDisk(&site.Marker{Node: "a", Generation: 7, Image: "d9"})
				w.after(10 * time.Minute)
				w.want("a", site.Foreign)
				w.do(site.Order{Verb: site.VerbApprove, Node: "a"})
				d := w.installed(7)
				w.commit(d)
				w.after(10 * time.Minute)
				w.want("a", site.InSync)
				w.down()
				w.up()
				w.after(10 * time.Minute)
				w.want("a", site.InSync)
				w.fleet.Machine("a").SetDisk(&next)
				w.after(10 * time.Minute)
				w.want("a", site.Foreign)
			}, "a")
		})
	}
}

// What another system says is noticed although nobody has looked again since a
// person accepted the one before.
func TestSystemIsExchangedRightAfterItWasAccepted(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.commit(w.installed(1))
		w.up()
		w.after(time.Minute)
		w.approve()
		w.after(15 * time.Minute)
		w.fleet.Machine("a").SetDisk(&site.Marker{Node: "a", Generation: 7, Image: "d1"})
		w.after(10 * time.Minute)
		w.want("a", site.Foreign)
		w.do(site.Order{Verb: site.VerbApprove, Node: "a"})
		w.fleet.Machine("a").SetDisk(&site.Marker{Node: "a", Generation: 5, Image: "d1"})
		w.commit(w.installed(7))
		w.after(20 * time.Minute)
		w.want("a", site.Foreign)
	}, "a")
}

// What has left the design and is held still has its machine and addresses.
func TestNewcomerDoesNotTakeFromTheDeparted(t *testing.T) {
	for name, takes := range map[string]func(from, to *site.Node){
		"the machine":  func(from, to *site.Node) { to.Identity = from.Identity },
		"the endpoint": func(from, to *site.Node) { to.Endpoints = from.Endpoints },
		"the address":  func(from, to *site.Node) { to.Addresses = map[string]string{"os": "192.0.2.7"} },
		"the MAC address": func(from, to *site.Node) {
			to.Interfaces = map[string]site.Interface{"eth0": {MAC: "52:54:00:AA:00:01"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				w.fleet.Machine("a").SetDisk(&site.Marker{})
				w.fleet.Machine("a").SetPower("on")
				d := w.design("a")
				d.Nodes["a"].Addresses = map[string]string{"os": "192.0.2.7"}
				d.Nodes["a"].Interfaces = map[string]site.Interface{"eth0": {MAC: "52:54:00:aa:00:01"}}
				w.commit(d)
				w.up()
				w.after(3 * time.Minute)
				next := w.design("b")
				next.Nodes["b"].Image, next.Nodes["b"].Generation = "debian", 1
				takes(d.Nodes["a"], next.Nodes["b"])
				w.commit(next)
				w.after(10 * time.Minute)
				w.want("b", site.Stalled)
				w.reason("b", name)
				w.reason("b", "of a, which left the design")
				if c := w.fleet.Machine("b").Counts(); c.Writes != 0 {
					t.Errorf("b was written to: %+v", c)
				}
				w.do(site.Order{Verb: site.VerbApprove, Node: "a"}) // lets it go
				w.after(5 * time.Minute)
				if n := w.node("b"); strings.Contains(n.Reason, "has left the design") {
					t.Errorf("b is %s (%s)", n.State, n.Reason)
				}
			}, "a", "b")
		})
	}
}

// That an approval is used is published before the first request that destroys, so that records
// which are set back right after it are known to be older.
func TestUseIsPublishedBeforeAnythingIsDestroyed(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		sealed := 0
		b := &board{onSeal: func() {
			sealed++
			if m := w.fleet.Machine("a"); m.Media() != nil || m.Counts().Installs > 0 {
				t.Errorf("the installer was inserted before the use was published: %+v", w.fleet.Calls())
			}
		}}
		w.anchor = b
		w.commit(w.installed(1))
		w.up()
		w.after(2 * time.Minute)
		before := copyOf(t, w.dir)
		w.approve()
		for w.fleet.Machine("a").Media() == nil {
			w.after(10 * time.Millisecond)
		}
		if s := b.sealed["a"]; sealed != 1 || len(s.Entries) != 1 || s.Entries[0].Consumed.IsZero() {
			t.Fatalf("published %d times: %+v", sealed, s)
		}
		w.crash()
		w.setBack(before)
		w.up()
		w.after(time.Hour)
		w.reason("a", "this daemon's records are out of date")
	}, "a")
}

// Without Git the records alone have it, and the approval counts.
func TestUseThatCannotBePublished(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		b := &board{}
		b.onSeal = func() { b.set(errors.New("no route to the forge")) }
		w.anchor = b
		w.commit(w.installed(1))
		w.up()
		w.after(2 * time.Minute)
		w.approve()
		w.after(20 * time.Minute)
		w.installs("a", 1)
	}, "a")
}

// A node that is quarantined while the use is being published is left alone.
func TestQuarantineWhileTheUseIsPublished(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		b := &board{}
		b.onSeal = func() { w.do(site.Order{Verb: site.VerbQuarantine, Node: "a", Reason: "smoke", By: "ann"}) }
		w.anchor = b
		w.commit(w.installed(1))
		w.up()
		w.after(2 * time.Minute)
		w.approve()
		w.after(20 * time.Minute)
		w.installs("a", 0)
	}, "a")
}

// Whoever cannot prove to be a daemon of this site stops it, and replaces it in
// nothing.
func TestForgedClaim(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		b := &board{}
		w.anchor = b
		w.commit(w.installed(1))
		w.up()
		w.after(2 * time.Minute)
		own := b.claim
		b.claim = site.TermClaim{Site: "test", Term: own.Term + 1, Instance: "x", Holder: "\x1b[2Jme", Records: own.Records, Signature: own.Signature}
		order := site.Order{Verb: site.VerbApprove, Digest: w.engine.Report().Status.Approve, By: "ann"}
		if _, err := w.engine.Do(w.t.Context(), order); !errors.Is(err, site.ErrRefused) {
			t.Errorf("approved although another daemon claims the site: %v", err)
		}
		w.after(20 * time.Minute)
		w.installs("a", 0)
		w.reason("a", "its signature is not from a key of this site")
		w.do(site.Order{Verb: site.VerbTakeOver, Reason: "a drill"})
		w.after(2 * time.Minute)
		w.approve()
		w.after(20 * time.Minute)
		w.want("a", site.InSync)
		if b.claim.Term <= own.Term+1 || b.claim.Instance != own.Instance {
			t.Errorf("the claim is %+v", b.claim)
		}
	}, "a")
}

// After a start nothing is destroyed until Git has answered once.
func TestGitIsAwayAtTheStart(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		b := &board{}
		w.anchor = b
		w.commit(w.installed(1))
		w.up()
		w.after(2 * time.Minute)
		w.down()
		b.set(context.DeadlineExceeded)
		w.up()
		w.after(2 * time.Minute)
		w.approve()
		w.after(20 * time.Minute)
		w.installs("a", 0)
		w.reason("a", "the daemon could not read and write the status branch")
		b.set(nil)
		w.after(20 * time.Minute)
		w.want("a", site.InSync)
	}, "a")
}

// While Git is away nothing is destroyed before it was asked once; then what it
// said last counts.
func TestNothingIsDestroyedBeforeTheTermWasPublished(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		b := &board{}
		w.anchor = b
		w.commit(w.installed(1))
		w.up()
		w.after(time.Minute)
		b.set(context.DeadlineExceeded)
		w.approve()
		w.after(20 * time.Minute)
		w.want("a", site.InSync)
		if p := w.engine.Report().Status.Problems; len(p) == 0 {
			t.Error("nobody is told that Git is away")
		}
	}, "a")
}

// What a merge approves opens when its commit is in force, and not before: a
// person can take it back until then.
func TestMergeOpensWhenItIsInForce(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		f := w.inSync("n1")
		r := f.reviews()
		f.propose(7, w.wiping([]string{"n1"}, "n1"))
		f.round(r)
		f.show(r, 7)
		set := f.last(7).Set
		f.merge(7)
		f.round(r) // before the daemon has fetched it
		if e := w.ledger("n1"); len(e) != 0 {
			t.Errorf("open before it is in force: %+v", e)
		}
		w.do(site.Order{Verb: site.VerbDisapprove, Digest: set, Reason: "not this one"})
		f.keep(r, "it is in force", 5*time.Minute, func() bool { return w.node("n1").State == site.Blocked })
		w.after(time.Hour)
		w.reason("n1", "waits for approval")
		w.installs("n1", 0)
	}, "n1")
}
