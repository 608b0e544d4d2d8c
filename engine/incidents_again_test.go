package engine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/site"
)

// acted is an incident on which Slipway has acted.
func acted(name string, nodes map[string]site.IncidentNode) site.IncidentState {
	in := site.Incident{Since: time.Now().Add(-time.Hour), Reason: "a shell"}
	for node := range nodes {
		in.Nodes = append(in.Nodes, node)
	}
	return site.IncidentState{Name: name, ID: in.ID(name), Incident: in, By: "ann", Found: time.Now(), Acted: time.Now(), Nodes: nodes}
}

// whileDown changes the records while no daemon runs.
func (w *world) whileDown(change func(*record.Site) error) {
	w.t.Helper()
	store, err := record.Open(w.t.Context(), w.dir, record.Options{NoSync: true, Tick: time.Second})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := errors.Join(change(store.Site("test")), store.Close()); err != nil {
		w.t.Fatal(err)
	}
}

// with starts the daemon again with an incident in its records.
func (w *world) with(all ...site.IncidentState) {
	w.t.Helper()
	w.down()
	w.whileDown(func(s *record.Site) (err error) {
		for _, i := range all {
			err = errors.Join(err, s.PutIncident(w.t.Context(), i))
		}
		return err
	})
	w.up()
	w.after(time.Minute)
}

func (w *world) quarantines(node string) (n int) {
	for _, e := range w.engine.Events(0) {
		if e.Node == node && strings.HasPrefix(e.Text, "quarantined for incident") {
			n++
		}
	}
	return n
}

func TestIncidentNeverHoldsAReleasedNodeAgain(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.on(w.design(names(2)...), names(2)...)
		w.with(acted("shell", map[string]site.IncidentNode{"n1": {Released: time.Now(), ReleasedBy: "ann"}, "n2": {}}))
		w.powers("on", "n1")
		w.powers("off", "n2")
		if i := w.incident("shell"); i.Held.IsZero() {
			t.Errorf("not held: %+v", i)
		}
		if a, b := w.quarantines("n1"), w.quarantines("n2"); a != 0 || b != 1 {
			t.Errorf("events of quarantines: %d of n1, %d of n2", a, b)
		}
	}, names(2)...)
}

func TestIncidentHoldsANodeThatComesBack(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.on(w.design("n1"), "n1")
		i := acted("shell", map[string]site.IncidentNode{"n2": {}})
		i.Acted, i.Held = time.Now().Add(-time.Minute), time.Now()
		w.with(i)
		w.fleet.Machine("n2").SetPower("on")
		w.commit(w.design(names(2)...))
		w.after(5 * time.Minute)
		w.powers("on", "n1")
		w.powers("off", "n2")
		// It is recorded and told once.
		if n := w.quarantines("n2"); n != 1 {
			t.Errorf("told %d times", n)
		}
		w.down()
		w.whileDown(func(s *record.Site) error {
			snap, err := s.Load(w.t.Context())
			if q := snap.Nodes["n2"].Recorded.Quarantined; q == nil || !q.Since.Equal(i.Acted) {
				t.Errorf("recorded quarantine: %+v", q)
			}
			return err
		})
		w.up()
		w.after(5 * time.Minute)
		if n := w.quarantines("n2"); n != 0 {
			t.Errorf("told %d times after a restart", n)
		}
		w.do(site.Order{Verb: site.VerbRelease, Node: "n2", Incident: "shell"})
		w.after(5 * time.Minute)
		w.powers("on", "n2")
	}, names(2)...)
}

func TestConfirmSaysWhichNodesAreNotThere(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.on(w.design("n1"), "n1")
		some, none := acted("some", map[string]site.IncidentNode{"n1": {}, "n2": {}}), acted("none", map[string]site.IncidentNode{"n2": {}})
		for _, i := range []*site.IncidentState{&some, &none} {
			i.Acted, i.Nodes, i.Waits = time.Time{}, nil, []string{"many"}
		}
		w.with(some, none)
		w.refuses(site.Order{Verb: site.VerbIncident, Digest: none.ID}, "n2")
		done, err := w.engine.Do(w.t.Context(), site.Order{Verb: site.VerbIncident, Digest: some.ID, By: "tester"})
		if err != nil || !strings.Contains(done, "NOT held") || !strings.Contains(done, "1 node under quarantine") {
			t.Errorf("confirmed: %q, %v", done, err)
		}
		w.after(time.Minute)
		w.powers("off", "n1")
	}, names(2)...)
}

func TestIncidentFollowsTheMachine(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		d := w.design(names(2)...)
		w.on(d, names(2)...)
		i := acted("shell", map[string]site.IncidentNode{"old": {Machine: d.Nodes["n1"].Machine()}})
		i.Held = time.Now()
		w.with(i)
		w.powers("off", "n1")
		w.powers("on", "n2")
		w.refuses(site.Order{Verb: site.VerbRelease, Node: "n1"}, "--incident shell")
		w.do(site.Order{Verb: site.VerbRelease, Node: "n1", Incident: "shell"})
		w.after(5 * time.Minute)
		w.powers("on", "n1")
		if i := w.incident("shell"); !i.IsOver() {
			t.Errorf("released: %+v", i)
		}
	}, names(2)...)
}

func TestReleaseEndsOneIncidentOfSeveral(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.on(w.design(names(2)...), names(2)...)
		w.do(compromised("first", "n1"))
		w.do(compromised("second", "n1"))
		w.after(time.Minute)
		w.do(site.Order{Verb: site.VerbRelease, Node: "n1", Incident: "first"})
		w.after(5 * time.Minute)
		w.powers("off", "n1")
		if a, b := w.incident("first"), w.incident("second"); !a.IsReleased() || b.IsOver() {
			t.Errorf("first %+v, second %+v", a, b)
		}
		w.do(site.Order{Verb: site.VerbRelease, Node: "n1", Incident: "second"})
		w.after(5 * time.Minute)
		w.powers("on", "n1")
	}, names(2)...)
}

func TestReleaseOfADepartedNode(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.on(w.design("n1"), "n1")
		i := acted("shell", map[string]site.IncidentNode{"gone": {}})
		i.Held = time.Now()
		w.with(i)
		w.refuses(site.Order{Verb: site.VerbRelease}, "nothing was released")
		w.refuses(site.Order{Verb: site.VerbRelease, Node: "gone"}, "no node")
		w.refuses(site.Order{Verb: site.VerbRelease, Node: "gone", Incident: "other"}, "part of incident shell")
		w.do(site.Order{Verb: site.VerbRelease, Node: "gone", Incident: "shell"})
		if i := w.incident("shell"); !i.IsOver() {
			t.Errorf("released: %+v", i)
		}
		w.do(site.Order{Verb: site.VerbRelease})
	}, names(1)...)
}

func TestOrderedIncidentExpiresUnconfirmed(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.on(w.design("n1"), "n1")
		i := acted("shell", nil)
		i.Incident.Nodes = []string{"n1"}
		i.Acted, i.Waits, i.Found = time.Time{}, []string{"many"}, time.Now().Add(-23*time.Hour)
		w.with(i)
		w.incident("shell")
		w.after(3 * time.Hour)
		w.powers("on", "n1")
		if all := w.engine.Report().Status.Incidents; len(all) != 0 {
			t.Errorf("after a day nobody confirmed %+v", all)
		}
	}, names(1)...)
}

func TestIncidentOfTheDesignInForceIsNotedAtStart(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		d := w.design("n1")
		d.Incidents = map[string]site.Incident{"shell": {Nodes: []string{"n1"}, Since: time.Now().Add(-time.Hour), Reason: "a shell"}}
		w.on(d, "n1")
		id := w.incident("shell").ID
		w.down()
		w.whileDown(func(s *record.Site) error { return s.ForgetIncident(w.t.Context(), id) })
		w.up()
		w.after(time.Minute)
		if i := w.incident("shell"); len(i.Waits) == 0 {
			t.Errorf("noted: %+v", i)
		}
	}, names(1)...)
}

func TestIncidentsAddUp(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.on(w.design(names(8)...), names(8)...)
		w.do(compromised("three", "n1", "n2", "n3"))
		w.do(compromised("again", "n3", "n4"))
		w.do(compromised("more", "n5", "n6"))
		w.after(time.Minute)
		w.powers("off", "n1", "n2", "n3", "n4")
		w.powers("on", "n5", "n6")
		if i := w.incident("more"); len(i.Waits) != 1 || !strings.Contains(i.Waits[0], "last 24 h") {
			t.Errorf("waits because %q", i.Waits)
		}
	}, names(8)...)
}

// A compromised machine is switched off, also while its node waits for an address that a paused node has.
func TestIncidentDoesNotWaitForWhatAPausedNodeHas(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		d := w.design(names(2)...)
		d.Nodes["n1"].Addresses = map[string]string{"os": "10.0.0.1"}
		d.Nodes["n2"].Addresses = map[string]string{"os": "10.0.0.2"}
		w.on(d, names(2)...)
		w.do(site.Order{Verb: site.VerbPause, Node: "n1", Reason: "a disk"})
		moved := clone(d)
		moved.Nodes["n1"].Addresses = map[string]string{"os": "10.0.0.3"}
		moved.Nodes["n2"].Addresses = map[string]string{"os": "10.0.0.1"}
		w.commit(moved)
		w.until("n2 waits", 10*time.Minute, w.is(site.Stalled, "n2"))
		w.do(compromised("shell", "n2"))
		w.after(time.Minute)
		w.powers("off", "n2")
		w.powers("on", "n1")
	}, names(2)...)
}

// The name of an incident's node can belong to another machine by now. Its release must not free the compromised one.
func TestReleaseOfTheOldNameKeepsTheMachine(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		d := w.design(names(2)...)
		w.on(d, names(2)...)
		of1 := site.IncidentNode{Machine: d.Nodes["n1"].Machine()}
		w.with(acted("shell", map[string]site.IncidentNode{"n2": of1}), acted("left", map[string]site.IncidentNode{"old": of1}))
		w.powers("off", "n1", "n2")
		w.refuses(site.Order{Verb: site.VerbRelease, Node: "n2", Incident: "shell"}, "run `slipway release n1 --incident shell`")
		w.refuses(site.Order{Verb: site.VerbRelease, Node: "old", Incident: "left"}, "run `slipway release n1 --incident left`")
		w.after(5 * time.Minute)
		w.powers("off", "n1", "n2")
		w.do(site.Order{Verb: site.VerbRelease, Node: "n1", Incident: "shell"})
		w.do(site.Order{Verb: site.VerbRelease, Node: "n1", Incident: "left"})
		w.do(site.Order{Verb: site.VerbRelease, Node: "n2"})
		w.after(5 * time.Minute)
		w.powers("on", "n1", "n2")
	}, names(2)...)
}

// Somebody else had a reason of their own, which the end of the incident does not answer.
func TestReleaseKeepsAQuarantineFromBeforeTheIncident(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.on(w.design(names(2)...), names(2)...)
		w.do(site.Order{Verb: site.VerbQuarantine, Node: "n1", Reason: "smoke"})
		w.do(compromised("shell", "n1", "n2"))
		w.do(compromised("more", "n2"))
		w.after(time.Minute)
		if got := w.node("n2").Release; got != "`slipway release n2 --incident shell`" {
			t.Errorf("n2 is released by %s", got)
		}
		w.do(site.Order{Verb: site.VerbRelease, Node: "n1", Incident: "shell"})
		w.do(site.Order{Verb: site.VerbRelease, Node: "n2", Incident: "shell"})
		w.after(5 * time.Minute)
		w.powers("off", "n1", "n2")
		if n := w.node("n1"); n.Quarantined == nil || n.Quarantined.Reason != "smoke" || n.Release != "`slipway release n1`" {
			t.Errorf("n1: %+v, %s", n.Quarantined, n.Release)
		}
		if got := w.node("n2").Release; got != "`slipway release n2 --incident more`" {
			t.Errorf("n2 is released by %s", got)
		}
		w.do(site.Order{Verb: site.VerbRelease, Node: "n1"})
		w.do(site.Order{Verb: site.VerbRelease, Node: "n2", Incident: "more"})
		w.after(5 * time.Minute)
		w.powers("on", "n1", "n2")
	}, names(2)...)
}

// Off is proven of the machine that the incident is about, and of no other.
func TestOffIsProvenOfTheMachineAlone(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		d := w.design(names(3)...)
		d.Nodes["n3"].Identity = site.Identity{}
		w.fleet.Machine("n1").SetPower("on")
		w.commit(d)
		w.up()
		w.after(time.Minute)
		of1 := site.IncidentNode{Machine: d.Nodes["n1"].Machine()}
		elsewhere := site.IncidentNode{Machine: site.Identity{UUID: "5e1d0000-0300-4000-8000-00000000ffff"}}
		w.with(acted("shell", map[string]site.IncidentNode{"old": of1, "n2": elsewhere, "n3": {}}))
		w.after(5 * time.Minute)
		i := w.incident("shell")
		for name, want := range map[string]string{"old": "power seen off at 2", "n2": "not proven off", "n3": "not proven off"} {
			if p := i.Nodes[name].Power; !strings.HasPrefix(p, want) || i.Nodes[name].Off.IsZero() != (want == "not proven off") {
				t.Errorf("%s: %s", name, p)
			}
		}
		if p := i.Nodes["old"].Power; !strings.Contains(p, "node n1 now") {
			t.Errorf("old: %s", p)
		}
		if p := i.Nodes["n2"].Power; !strings.Contains(p, "another machine") {
			t.Errorf("n2: %s", p)
		}
	}, names(3)...)
}

// The answer to an order says what it does not do.
func TestIncidentSaysWhichMachinesStayOn(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		d := w.design(names(2)...)
		d.Nodes["n2"].Identity = site.Identity{}
		w.commit(d)
		w.up()
		w.after(time.Minute)
		o := compromised("shell", "n1", "n2")
		o.By = "tester"
		done, err := w.engine.Do(w.t.Context(), o)
		if err != nil || !strings.Contains(done, "being switched off: n1.") || !strings.Contains(done, "NOT switched off: n2, because the design names no machine") {
			t.Errorf("answer: %q, %v", done, err)
		}
		w.down()
		w.observe = true
		w.up()
		w.after(time.Minute)
		o = compromised("again", "n1", "n2")
		o.By = "tester"
		done, err = w.engine.Do(w.t.Context(), o)
		if err != nil || strings.Contains(done, "being switched off") || !strings.Contains(done, "NOT switched off: n1, because observing only (--observe)") {
			t.Errorf("answer of a daemon that observes: %q, %v", done, err)
		}
	}, names(2)...)
}

// An incident that was ordered, and committed then, is withdrawn by a commit that removes its lines.
func TestOrderedIncidentIsWithdrawnWithItsLines(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.on(w.design(names(7)...), names(7)...)
		o := compromised("six", names(6)...)
		w.do(o)
		d := w.design(names(7)...)
		d.Incidents = map[string]site.Incident{"six": {Nodes: o.Nodes, Since: o.CompromisedSince, Reason: o.Reason}}
		w.commit(d)
		w.after(time.Minute)
		i := w.incident("six")
		if len(i.Waits) != 1 || !strings.Contains(i.Waits[0], "it names 6 nodes") || i.By != "tester" {
			t.Errorf("committed: %+v", i)
		}
		w.commit(w.design(names(7)...))
		w.after(time.Minute)
		if all := w.engine.Report().Status.Incidents; len(all) != 0 {
			t.Errorf("withdrawn: %+v", all)
		}
		w.refuses(site.Order{Verb: site.VerbIncident, Digest: i.ID}, "no incident has the ID")
	}, names(7)...)
}

// Why an incident waits is said by what is known when it is read and confirmed.
func TestReasonsToAskFollowTheDesign(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		d := w.design(names(2)...)
		d.Incidents = map[string]site.Incident{"shell": {Nodes: []string{"n1"}, Since: time.Now().Add(-time.Hour), Reason: "a shell"}}
		w.on(d, names(2)...)
		with := clone(d)
		with.Roles = map[string]*site.Role{"control": {Majority: true}}
		with.Nodes["n1"].Role = "control"
		w.commit(with)
		w.after(time.Minute)
		if i := w.incident("shell"); len(i.Waits) != 2 || !strings.Contains(i.Waits[1], "n1 is a controller") {
			t.Errorf("waits because %q", i.Waits)
		}
	}, names(2)...)
}

// A confirmation switches off the machine that its person was shown, and no other one.
func TestConfirmedIncidentIsOfTheMachinesShown(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		d := w.design("a", "b")
		d.Incidents = map[string]site.Incident{"shell": {Nodes: []string{"a"}, Since: time.Now().Add(-time.Hour), Reason: "a shell"}}
		w.on(d, "a", "b")
		w.after(time.Minute)
		i := w.incident("shell")
		other := clone(d)
		a, b := other.Nodes["a"], other.Nodes["b"]
		a.Moved, b.Moved, a.Endpoints, b.Endpoints = b.Identity, a.Identity, b.Endpoints, a.Endpoints // see `moved` in the schema
		w.commit(other)
		w.after(time.Minute)
		done, err := w.engine.Do(w.t.Context(), site.Order{Verb: site.VerbIncident, Digest: i.ID, By: "ana"})
		w.after(10 * time.Minute)
		if !errors.Is(err, site.ErrRefused) || !strings.Contains(err.Error(), "is that of b now") {
			t.Errorf("done %q, %v", done, err)
		}
		if w.fleet.Machine("b").Power() != "on" {
			t.Error("the machine of b was switched off by the confirmation of an incident that was shown with the machine of a")
		}
	}, "a", "b")
}
