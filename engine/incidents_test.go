package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/site"
)

// compromised is an order about an incident.
func compromised(name string, nodes ...string) site.Order {
	return site.Order{Verb: site.VerbIncident, Incident: name, Nodes: nodes, CompromisedSince: time.Now().Add(-time.Hour), Reason: "a shell that nobody opened"}
}

// incident returns the only incident of a name.
func (w *world) incident(name string) site.IncidentState {
	w.t.Helper()
	for _, i := range w.engine.Report().Status.Incidents {
		if i.Name == name {
			return i
		}
	}
	w.t.Fatalf("the status has no incident %s", name)
	return site.IncidentState{}
}

// powers fails the test unless each node's machine has the power.
func (w *world) powers(want string, names ...string) {
	w.t.Helper()
	for _, name := range names {
		if got := w.fleet.Machine(name).Power(); got != want {
			w.t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// refuses gives an order that must fail with a text.
func (w *world) refuses(o site.Order, part string) {
	w.t.Helper()
	o.By = "tester"
	if _, err := w.engine.Do(w.t.Context(), o); err == nil || !strings.Contains(err.Error(), part) {
		w.t.Errorf("%s: %v; want an error with %q", o.Verb, err, part)
	}
}

// on starts a daemon that has switched all machines on.
func (w *world) on(d *site.Site, names ...string) {
	w.t.Helper()
	for _, name := range names {
		w.fleet.Machine(name).SetPower("on")
	}
	w.commit(d)
	w.up()
	w.after(time.Minute)
	w.until("all are in-sync", 10*time.Minute, w.is(site.InSync, names...))
}

func TestIncidentIsPastEverything(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		d := w.design(names(20)...)
		d.Windows = map[string]*site.Window{"never": {Cron: "0 0 1 1 *", Length: site.Duration(time.Minute)}}
		for _, n := range d.Nodes {
			n.Window = "never"
		}
		w.on(d, names(20)...)
		w.source.vanish(errors.New("no route to host"))
		w.do(site.Order{Verb: site.VerbPause, Reason: "night"})
		bad := []string{"n3", "n7", "n20"}
		w.do(compromised("shell", bad...))
		w.after(30 * time.Second)
		w.powers("off", bad...)
		w.powers("on", "n1", "n2", "n19")
		i := w.incident("shell")
		for _, name := range bad {
			if p := i.Nodes[name].Power; !strings.HasPrefix(p, "power seen off at 2") {
				t.Errorf("%s: %s", name, p)
			}
		}
		w.refuses(compromised("shell", "n1"), "other nodes or another time")
		w.reason("n3", "incident shell: a shell that nobody opened")
	}, names(20)...)
}

func TestIncidentNamesASilentBMC(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.on(w.design(names(2)...), names(2)...)
		w.fleet.Machine("n1").SetFault(drivertest.Unreachable)
		w.do(compromised("shell", "n1", "n2"))
		w.after(time.Minute)
		i := w.incident("shell")
		if p := i.Nodes["n1"].Power; !strings.Contains(p, "not proven off: the BMC does not answer since 2") {
			t.Errorf("n1: %s", p)
		}
		w.powers("off", "n2")
		w.fleet.Machine("n1").SetFault(drivertest.Healthy)
		w.after(5 * time.Minute)
		w.powers("off", "n1")
		if n := w.incident("shell").Nodes["n1"]; !strings.HasPrefix(n.Power, "power seen off at") || !n.StaysOff {
			t.Errorf("n1: %+v", n)
		}
		w.fleet.Machine("n1").SetFault(drivertest.Unreachable)
		w.after(10 * time.Minute)
		if n := w.incident("shell").Nodes["n1"]; n.Off.IsZero() || n.StaysOff {
			t.Errorf("n1, which does not answer any more: %+v", n)
		}
	}, names(2)...)
}

func TestIncidentByCommitWaitsAndActsOnce(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		d := w.design(names(2)...)
		w.on(d, names(2)...)
		with := w.design(names(2)...)
		with.Incidents = map[string]site.Incident{"shell": {Nodes: []string{"n1"}, Since: time.Now().Add(-time.Hour), Reason: "<b>\x1b[31m| evil"}}
		w.commit(with)
		w.after(time.Minute)
		w.powers("on", "n1", "n2")
		i := w.incident("shell")
		if len(i.Waits) != 1 || !strings.Contains(i.Waits[0], "came by a commit") {
			t.Errorf("waits because %q", i.Waits)
		}
		// Another daemon without records, and a restart, ask as well.
		w.down()
		w.up()
		w.after(time.Minute)
		w.powers("on", "n1")
		w.do(site.Order{Verb: site.VerbIncident, Digest: i.ID})
		w.down() // before anything was sent
		w.up()
		w.after(time.Minute)
		w.powers("off", "n1")
		w.powers("on", "n2")
		w.refuses(site.Order{Verb: site.VerbIncident, Digest: i.ID}, "already")
		// The removed lines release nothing.
		w.commit(w.design(names(2)...))
		w.after(5 * time.Minute)
		w.powers("off", "n1")
		if i := w.incident("shell"); !i.Removed || !i.IsActive() {
			t.Errorf("incident without its lines: %+v", i)
		}
		// The release takes the name, and the lines that return act no second time.
		w.refuses(site.Order{Verb: site.VerbRelease, Node: "n1"}, "--incident shell")
		w.refuses(site.Order{Verb: site.VerbRelease}, "nothing was released")
		w.refuses(site.Order{Verb: site.VerbRelease, Node: "n2", Incident: "shell"}, "holds this node")
		w.do(site.Order{Verb: site.VerbRelease, Node: "n1", Incident: "shell"})
		w.commit(with)
		w.after(5 * time.Minute)
		w.powers("on", "n1")
		if i := w.incident("shell"); !i.IsReleased() || i.IsOver() {
			t.Errorf("released incident whose secrets have their old values: %+v", i)
		}
	}, names(2)...)
}

func TestIncidentWithoutRecordsAsks(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		d := w.design(names(1)...)
		d.Incidents = map[string]site.Incident{"old": {Nodes: []string{"n1"}, Since: time.Now().Add(-time.Hour), Reason: "long ago"}}
		w.fleet.Machine("n1").SetPower("on")
		w.commit(d)
		w.up()
		w.after(2 * time.Minute)
		w.powers("on", "n1")
		if i := w.incident("old"); len(i.Waits) == 0 || !i.Acted.IsZero() {
			t.Errorf("incident of lost records: %+v", i)
		}
		w.commit(w.design(names(1)...)) // nobody confirmed it
		w.after(time.Minute)
		if all := w.engine.Report().Status.Incidents; len(all) != 0 {
			t.Errorf("after its lines are gone there are %+v", all)
		}
	}, names(1)...)
}

func TestIncidentOfManyWaits(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.on(w.design(names(7)...), names(7)...)
		w.do(compromised("six", names(6)...))
		w.after(time.Minute)
		w.powers("on", names(7)...)
		i := w.incident("six")
		if want := fmt.Sprint([]string{"it names 6 nodes of 7, more than 5"}); fmt.Sprint(i.Waits) != want {
			t.Errorf("waits because %q", i.Waits)
		}
		w.do(site.Order{Verb: site.VerbIncident, Digest: i.ID})
		w.after(time.Minute)
		w.powers("off", names(6)...)
		w.powers("on", "n7")
		if i := w.incident("six"); i.Confirmed != "tester" {
			t.Errorf("confirmed by %q", i.Confirmed)
		}
	}, names(7)...)
}

// A daemon that was killed between the record of an incident and its quarantines goes on with them.
func TestIncidentGoesOnAfterACrash(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.on(w.design(names(2)...), names(2)...)
		w.down()
		store, err := record.Open(w.t.Context(), w.dir, record.Options{NoSync: true, Tick: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		in := site.Incident{Nodes: []string{"n2"}, Since: time.Now().Add(-time.Hour), Reason: "a shell"}
		begun := site.IncidentState{Name: "shell", ID: in.ID("shell"), Incident: in, By: "ann", Found: time.Now(), Acted: time.Now(), Nodes: map[string]site.IncidentNode{"n2": {}}}
		if err := errors.Join(store.Site("test").PutIncident(w.t.Context(), begun), store.Close()); err != nil {
			t.Fatal(err)
		}
		w.up()
		w.after(time.Minute)
		w.powers("on", "n1")
		w.powers("off", "n2")
		if i := w.incident("shell"); i.Held.IsZero() || i.Nodes["n2"].Off.IsZero() {
			t.Errorf("incident after a crash: %+v", i)
		}
	}, names(2)...)
}
