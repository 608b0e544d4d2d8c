package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// made is an inventory with so many drives.
func made(drives ...string) *site.Inventory {
	inv := &site.Inventory{Manufacturer: "Fake", Model: "Memory", Drives: []site.Drive{}}
	for _, serial := range drives {
		inv.Drives = append(inv.Drives, site.Drive{Part: site.Part{ID: serial, Name: "Bay " + serial, Serial: serial}, Bytes: 1e12})
	}
	return inv
}

func (w *world) inspections(name string) int { return w.fleet.Machine(name).Counts().Inspections }

// A machine is inspected when it is first met, once a day from then on, and at
// once when a person says so; what is not as designed is a finding with its
// place, and a part that was exchanged is told.
func TestInspectionIsDaily(t *testing.T) {
	lastsLong(t)
	inBubble(t, usual, func(w *world) {
		m := w.fleet.Machine("n1")
		m.Made(made("a", "b"))
		m.SetPower("on")
		s := w.design("n1")
		drives := 3
		s.Nodes["n1"].Hardware.Drives = &drives
		s.Nodes["n1"].Origins = site.OriginsByPath(map[string]site.Origin{"hardware.drives": site.At("profiles.cue", 4, 9, "profile/base")})
		w.commit(s)
		w.up()
		w.after(time.Minute)
		w.until("the first inspection", 2*time.Minute, func() bool { return len(w.node("n1").Findings) > 0 })
		f := w.node("n1").Findings[0]
		if n := w.node("n1"); n.State != site.InSync || f.Place() != "profiles.cue:4:9" || !strings.Contains(f.Message, "1 missing") {
			t.Errorf("got %s, %+v", n.State, f)
		}
		c, err := w.engine.Closeup(w.t.Context(), "n1")
		if err != nil || c.Inventory == nil || len(c.Inventory.Drives) != 2 || c.Observed.Inventory.Drives != nil {
			t.Errorf("got %+v, %v", c, err)
		}

		w.after(21 * time.Hour)
		if got := w.inspections("n1"); got != 1 {
			t.Errorf("got %d inspections in 21 hours", got)
		}
		m.Made(made("a", "c", "d"))
		w.after(6 * time.Hour)
		if got := w.inspections("n1"); got != 2 || len(w.node("n1").Findings) != 0 {
			t.Errorf("got %d inspections in 27 hours, findings %v", got, w.node("n1").Findings)
		}
		for _, text := range []string{"drive Bay b (serial b) is gone", "drive Bay c (serial c) is new"} {
			if !w.hasTold(site.EventMachine, text) {
				t.Errorf("not told: %s", text)
			}
		}

		w.do(site.Order{Verb: site.VerbRetry, Node: "n1"})
		w.after(time.Minute)
		if got := w.inspections("n1"); got != 3 {
			t.Errorf("got %d inspections after a retry", got)
		}

		// What was found is found again after a restart, without asking.
		w.down()
		four := 4
		s.Nodes["n1"].Hardware.Drives = &four
		w.commit(s)
		w.up()
		w.after(time.Minute)
		w.until("findings after a restart", 2*time.Minute, func() bool { return len(w.node("n1").Findings) == 1 })
		if got := w.inspections("n1"); got != 3 {
			t.Errorf("got %d inspections after a restart", got)
		}
	}, "n1")
}

// A node whose BMC takes harm from inspections is never inspected.
func TestInspectionNever(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.fleet.Machine("n1").Made(made("a"))
		s := w.design("n1")
		s.Nodes["n1"].Inspect = "never"
		w.commit(s)
		w.up()
		w.after(30 * time.Minute)
		w.do(site.Order{Verb: site.VerbRetry, Node: "n1"})
		w.after(30 * time.Minute)
		if got := w.inspections("n1"); got != 0 {
			t.Errorf("got %d inspections", got)
		}
	}, "n1")
}

// An inspection gives way to a step at once, and is made up for.
func TestInspectionGivesWay(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		m := w.fleet.Machine("n1")
		m.Made(made("a"))
		m.SetPower("on")
		s := w.design("n1")
		w.commit(s)
		w.up()
		w.until("an inspection", 2*time.Minute, func() bool { return w.inspections("n1") == 1 })
		began := time.Now()
		w.do(site.Order{Verb: site.VerbQuarantine, Node: "n1", Reason: "on fire"})
		w.until("power off", 5*time.Second, func() bool { return !w.begun("n1", site.ActionPowerOff, began).IsZero() })
		w.do(site.Order{Verb: site.VerbRelease, Node: "n1"})
		w.until("another inspection", 20*time.Minute, func() bool { return w.inspections("n1") >= 2 })
	}, "n1")
}

// A step that a commit asks for while the machine is inspected is taken at once.
func TestInspectionDelaysNoStep(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		w.fleet.Machine("n1").Made(made("a"))
		d := w.serving("n1")
		w.do(site.Order{Verb: site.VerbRetry, Node: "n1"})
		before := w.inspections("n1")
		w.until("an inspection", time.Minute, func() bool { return w.inspections("n1") > before })
		w.patch(d, "2", nil)
		w.until("the revision in force", 12*time.Second, func() bool { return w.engine.Report().Status.Applied.ID == "commit-2" })
		w.after(3 * time.Second)
		r := w.rollout()
		if at := w.begun("n1", site.ActionPackages, r.Since); at.IsZero() || at.Sub(r.Since) > 2*time.Second {
			t.Errorf("begun at %s, in a rollout since %s", at, r.Since)
		}
		w.until("another inspection", 20*time.Minute, func() bool { return w.inspections("n1") > before+1 })
	}, "n1")
}

// A node that waits for a time is not inspected until that has come, however
// much it is due.
func TestInspectionWaitsForATurnThatIsDue(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		w.fleet.Machine("n1").Made(made("a"))
		d := w.serving("n1")
		w.patch(d, "2", func(d *site.Site) { d.Windows, d.Nodes["n1"].Window = at("13 0 * * *"), "night" })
		w.after(time.Minute)
		w.want("n1", site.Blocked)
		opens := w.rollout().Since.Truncate(time.Hour).Add(13 * time.Minute)
		w.after(time.Until(opens) - 10*time.Second)
		before := w.inspections("n1")
		w.do(site.Order{Verb: site.VerbRetry, Node: "n1"})
		w.after(15 * time.Second)
		if at := w.begun("n1", site.ActionPackages, opens); at.IsZero() || at.Sub(opens) > 2*time.Second {
			t.Errorf("begun at %s, and the window opens at %s", at, opens)
		}
		if got := w.inspections("n1"); got != before {
			t.Errorf("inspected %d times while it waited", got-before)
		}
		w.until("an inspection", 20*time.Minute, func() bool { return w.inspections("n1") > before })
	}, "n1")
}

// Who is to approve what is lost on a blank machine is told what is in it.
func TestBlankMachineThatWaitsForApprovalIsInspected(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.fleet.Machine("n1").Made(made("a", "b"))
		w.waitsForApproval("n1")
		w.until("an inspection", 5*time.Minute, func() bool {
			c, err := w.engine.Closeup(w.t.Context(), "n1")
			return err == nil && c.Inventory != nil && len(c.Inventory.Drives) == 2
		})
		w.want("n1", site.Blocked)
		w.reason("n1", "waits for approval")
	}, "n1")
}

// Machines are not inspected all together.
func TestInspectionsAreBounded(t *testing.T) {
	var names []string
	for n := range 100 {
		names = append(names, "n"+string(rune('a'+n/10))+string(rune('a'+n%10)))
	}
	inBubble(t, usual, func(w *world) {
		for _, name := range names {
			w.fleet.Machine(name).Made(made("a"))
			w.fleet.Machine(name).SetPower("on")
		}
		w.commit(w.design(names...))
		w.up()
		count := func() (sum int) {
			for _, name := range names {
				sum += w.inspections(name)
			}
			return sum
		}
		w.until("the first inspections", time.Minute, func() bool { return count() > 0 })
		w.after(5 * time.Second)
		if got := count(); got > 40 {
			t.Errorf("got %d inspections in 5 seconds", got)
		}
		w.until("all inspections", 20*time.Minute, func() bool { return count() == len(names) })
	}, names...)
}

// Whoever is to approve many blank machines waits for the disks of all of them: they are read by
// the hundred, and one that finds no place takes the next that is free.
func TestManyBlankMachinesAreInspectedSoon(t *testing.T) {
	var names []string
	for n := range 300 {
		names = append(names, fmt.Sprintf("n%03d", n))
	}
	inBubble(t, usual, func(w *world) {
		d := w.design(names...)
		for _, name := range names {
			w.fleet.Machine(name).Made(made("a"))
			d.Nodes[name].Image, d.Nodes[name].Generation = "debian", 1
		}
		w.commit(d)
		w.up()
		w.until("the disks of all are known", 2*time.Minute, func() bool {
			known := w.engine.Known().Nodes
			return !slices.ContainsFunc(names, func(name string) bool { return known[name].Observed.Disks == nil })
		})
		for _, name := range names {
			if got := w.inspections(name); got != 1 {
				t.Errorf("%s was inspected %d times", name, got)
			}
		}
	}, names...)
}

// What is new in a machine's own log becomes history; what was there before
// the daemon does not, nor what is well.
func TestMachineLogIsTold(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		m := w.fleet.Machine("n1")
		m.SetPower("on")
		m.Logs(site.Entry{ID: "1", Severity: "Critical", Text: "old"})
		w.commit(w.design("n1"))
		w.up()
		w.after(2 * time.Hour)
		m.Logs(site.Entry{ID: "2", Severity: "OK", Text: "fan turns"})
		m.Logs(site.Entry{ID: "3", Severity: "Critical", Text: "fan 3 stands"})
		w.after(2 * time.Hour)
		if !w.hasTold(site.EventMachine, "critical: fan 3 stands") || w.hasTold(site.EventMachine, "old") || w.hasTold(site.EventMachine, "turns") {
			t.Errorf("got %+v", w.engine.Events(0))
		}
	}, "n1")
}

// A facet that is costly to read is read rarely while all is as designed, and
// with every look while it is on its way.
func TestPeriods(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		m := w.fleet.Machine("n1")
		m.SetPower("on")
		s := w.design("n1")
		s.Nodes["n1"].BIOS.Attributes = map[string]any{"a": "b"}
		w.commit(s)
		w.up()
		w.after(time.Minute)
		w.until("in-sync", time.Hour, func() bool { w.approveIfAsked(); return w.node("n1").State == site.InSync })
		seen := func() time.Time {
			c, _ := w.engine.Closeup(w.t.Context(), "n1")
			return c.Observed.Facets[site.FacetBIOS].Seen
		}
		first := seen()
		w.after(10 * time.Minute)
		if !seen().Equal(first) {
			t.Errorf("read again after %s", seen().Sub(first))
		}
		w.after(10 * time.Minute)
		if seen().Equal(first) {
			t.Error("not read again in 20 minutes")
		}
	}, "n1")
}

// approveIfAsked approves what waits, if something does.
func (w *world) approveIfAsked() {
	if n := w.node("n1"); n.State == site.Blocked && strings.Contains(n.Release, "approve") {
		w.engine.Do(w.t.Context(), site.Order{Verb: site.VerbApprove, Node: "n1", By: "tester", Shown: n.Approval})
	}
}

// A machine is taken away while its installer runs, and comes back to be installed
// as another generation. Its disks are read again for that although the
// installation before has not ended.
func TestDisksAreReadForTheInstallationAfterAnInterruptedOne(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.fleet.Machine("a").Made(withDisks("S1"))
		d := w.installed(1)
		d.Rollout.FirstContact = "repair"
		w.commit(clone(d))
		w.up()
		w.after(3 * time.Minute)
		w.approve()
		w.until("the installer runs", time.Hour, func() bool { return w.fleet.Machine("a").Counts().Installs == 1 })
		d.Nodes["a"].Away = "in repair"
		w.commit(clone(d))
		w.after(25 * time.Minute)
		d.Nodes["a"].Away, d.Nodes["a"].Generation = "", 2
		w.commit(clone(d))
		w.after(2 * time.Minute)
		w.approve()
		w.until("generation 2 is installed", time.Hour, w.is(site.InSync, "a"))
	}, "a")
}
