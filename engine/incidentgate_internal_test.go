package engine

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// One commit says that a machine was compromised, and raises the epoch of the passwords of its BMC. Until somebody confirms
// the incident, whoever has the machine is given none of the next passwords.
func TestNoNewPasswordBeforeAnIncidentIsConfirmed(t *testing.T) {
	r := newRotationRack(t, "plain", 1)
	b := owned(t, r)
	b.designs("bmc-own", 2, own)
	in := site.Incident{Nodes: []string{b.name}, Since: time.Now().Add(-time.Hour), Reason: "a shell that nobody opened"}
	b.design.Incidents = map[string]site.Incident{"shell": in}
	calls := r.CallCount()
	b.run(0)
	if s := b.status(); s.State != site.Blocked || !strings.Contains(s.Reason, "incident shell says that the machine was compromised, and waits for `slipway compromise --confirm "+in.ID("shell")+"`") {
		t.Errorf("%s: %s", s.State, s.Reason)
	}
	for _, c := range r.Calls()[calls:] {
		if strings.Contains(c.Path, "/AccountService/") && c.Write() {
			t.Errorf("the BMC was asked: %s %s", c.Method, c.Path)
		}
	}
	if b.has("slipway").Password != b.passwordOf("slipway", 1) {
		t.Error("the machine has another password than before")
	}
	for _, d := range b.e.deliveredLocked() {
		for _, g := range d.Given {
			if g.As != site.AsLogin {
				t.Errorf("it was given %+v", g)
			}
		}
	}
	// A step may have been under way when the commit came.
	b.start()
	p := b.w.passwords(b.design.Nodes[b.name])
	next := secret.New("slipway", b.passwordOf("slipway", 2))
	if err := p.Begin(t.Context(), "slipway", next); !errors.Is(err, driver.ErrInterrupted) || !strings.Contains(err.Error(), "credential bmc-own was not sent to "+b.name) {
		t.Errorf("the next password, in a step: %v", err)
	}
	if use := b.w.job().memory.Recorded.Accounts["slipway"]; use.Offered != "" || use.Highest != 1 {
		t.Errorf("recorded: %+v", use)
	}
	if err := b.w.deliver(t.Context(), b.design.Nodes[b.name], site.ToSystem, site.SecretDiskPassphrase, next); !errors.Is(err, driver.ErrInterrupted) {
		t.Errorf("a passphrase: %v", err)
	}
	b.design.Incidents = nil
	b.reaches("the lines are gone", 2, 0)
}

// An incident that waits holds a machine under another name, and the guests of its hypervisor; one that is no longer
// designed, was acted on or is about others does not.
func TestWhomAnIncidentThatWaitsHolds(t *testing.T) {
	machine := site.Identity{UUID: "3d1c0000-0000-4000-8000-000000000001"}
	at := time.Now()
	ordered := func(change func(*site.IncidentState)) *Engine {
		i := site.IncidentState{Name: "shell", ID: "1", By: "ann", Found: at, Incident: site.Incident{Nodes: []string{"n1"}}, Machines: map[string]site.Identity{"n1": machine}}
		change(&i)
		return &Engine{design: &site.Site{Hypervisors: map[string]*site.Hypervisor{"hv": {Node: "n1"}}}, incidents: map[string]site.IncidentState{"1": i}}
	}
	same := func(*site.IncidentState) {}
	guest := &site.Node{Name: "vm"}
	guest.Style, guest.Virtual.Host.Hypervisor = site.StyleVirtual, "hv"
	for what, c := range map[string]struct {
		e    *Engine
		n    *site.Node
		hold bool
	}{
		"its node":            {ordered(same), &site.Node{Name: "n1"}, true},
		"its machine":         {ordered(same), &site.Node{Name: "n9", Identity: machine}, true},
		"its guest":           {ordered(same), guest, true},
		"another":             {ordered(same), &site.Node{Name: "n2"}, false},
		"acted on":            {ordered(func(i *site.IncidentState) { i.Acted = at }), &site.Node{Name: "n1"}, false},
		"ordered long ago":    {ordered(func(i *site.IncidentState) { i.Found = at.Add(-25 * time.Hour) }), &site.Node{Name: "n1"}, false},
		"its lines have left": {ordered(func(i *site.IncidentState) { i.By, i.Commit = "", "c1" }), &site.Node{Name: "n1"}, false},
	} {
		if got := c.e.unconfirmedLocked(c.n) != nil; got != c.hold {
			t.Errorf("%s: %v", what, got)
		}
	}
	e := ordered(same)
	for _, s := range []site.Step{{Action: site.ActionInstall}, {Action: site.ActionAccounts}, {Facet: site.FacetConfig}} {
		if e.incidentGate(&worker{node: &site.Node{Name: "n1"}}, s) == nil {
			t.Errorf("%+v passes", s)
		}
	}
	if h := e.incidentGate(&worker{node: &site.Node{Name: "n1"}}, site.Step{Facet: site.FacetPower}); h != nil {
		t.Errorf("its power waits: %s", h.sentence)
	}
}
