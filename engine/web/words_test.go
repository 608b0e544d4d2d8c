package web

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/site"
)

// The title of the overview says no more than what is known: "as designed" is said only where no state hides
// anything, and of all nodes only to somebody who sees all.
func TestHeadline(t *testing.T) {
	node := func(change func(*site.NodeStatus)) site.Status {
		n := site.NodeStatus{Name: "n1", State: site.InSync, Health: "OK", Links: site.Links{State: site.LinksAsDesigned}}
		if change != nil {
			change(&n)
		}
		return site.Status{Site: "berlin", Nodes: []site.NodeStatus{n}}
	}
	incident := node(nil)
	incident.Incidents = []site.IncidentState{{Name: "shell"}}
	halted := node(nil)
	halted.Rollout = &site.RolloutStatus{Halted: "2 nodes failed", HaltedSince: time.Now()}
	acted := node(nil)
	acted.Incidents = []site.IncidentState{{Name: "shell", Acted: time.Now(), Nodes: map[string]site.IncidentNode{"n1": {StaysOff: true}}}}
	readOnly := node(func(n *site.NodeStatus) { n.State = site.Blocked })
	readOnly.ObserveOnly = "the repository names another daemon"
	readOnlyWell := node(nil)
	readOnlyWell.ObserveOnly = "the repository names another daemon"
	pausedSite := node(func(n *site.NodeStatus) { n.State = site.Paused })
	pausedSite.Paused = &site.Hold{By: "ana"}
	pausedNodes := node(func(n *site.NodeStatus) { n.State = site.Paused })
	pausedNodes.Nodes = append(pausedNodes.Nodes, node(func(n *site.NodeStatus) { n.State = site.Blocked }).Nodes[0])
	for name, c := range map[string]struct {
		status     site.Status
		some       bool
		says, tone string
		waits      bool
	}{
		"well":          {status: node(nil), says: "All nodes are as designed", tone: "good"},
		"well, as seen": {status: node(nil), some: true, says: "All nodes that you may see are in-sync", tone: "good"},
		"parts without a driver": {status: node(func(n *site.NodeStatus) { n.NotActedOn = []string{"storage"} }),
			says: "All nodes are in-sync, 1 with parts not acted on", tone: "unknown"},
		"links differ":        {status: node(func(n *site.NodeStatus) { n.Links.State = site.LinksDiffer }), says: "All nodes are in-sync, 1 whose links differ", tone: "unknown"},
		"silent":              {status: node(func(n *site.NodeStatus) { n.Service = site.ServiceSilent }), says: "All nodes are in-sync, 1 whose system does not answer", tone: "unknown"},
		"unseen":              {status: node(func(n *site.NodeStatus) { n.State = site.Unknown }), says: "1 node cannot be seen", tone: "unknown"},
		"person":              {status: node(func(n *site.NodeStatus) { n.State, n.Person = site.Blocked, true }), says: "1 node waits for a person", tone: "wait", waits: true},
		"approval":            {status: node(func(n *site.NodeStatus) { n.State, n.Approve = site.Blocked, "boots it again" }), says: "1 node waits for a person", tone: "wait", waits: true},
		"incident":            {status: incident, says: "1 incident waits for confirmation", tone: "bad", waits: true},
		"halted":              {status: halted, says: "The rollout is halted", tone: "bad", waits: true},
		"incident acted on":   {status: acted, says: "1 incident is not over", tone: "bad"},
		"read-only":           {status: readOnly, says: "Slipway writes to no machine: the repository names another daemon", tone: "wait"},
		"read-only, well":     {status: readOnlyWell, says: "Slipway writes to no machine: the repository names another daemon", tone: "wait"},
		"paused":              {status: pausedSite, says: "The site is paused", tone: "wait"},
		"some paused or wait": {status: pausedNodes, says: "1 node is paused, 1 node is blocked", tone: "wait"},
		"at work":             {status: node(func(n *site.NodeStatus) { n.State = site.Progressing }), says: "Slipway is at work, and nobody is needed", tone: "work"},
		"at work again":       {status: node(func(n *site.NodeStatus) { n.State = site.Retrying }), says: "Slipway is at work, and nobody is needed", tone: "work"},
		"nothing":             {status: site.Status{Site: "berlin"}, says: "No node is known", tone: "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			p := overviewPage{Overview: control.OverviewOf(site.Report{Status: c.status}), Some: c.some}
			if says := strings.Join(headline(p), ", "); says != c.says || tone(p) != c.tone || p.Waits() != c.waits {
				t.Errorf("%q, %s, waits %t; want %q, %s, %t", says, tone(p), p.Waits(), c.says, c.tone, c.waits)
			}
		})
	}
}

// After a restart the daemon has no events, and there were some before.
func TestMarked(t *testing.T) {
	for text, want := range map[string]string{
		"run `slipway retry n1` there": "run <code>slipway retry n1</code> there",
		"`<b>` and <i>":                "<code>&lt;b&gt;</code> and &lt;i&gt;",
		"one ` alone":                  "one ` alone",
	} {
		if got := string(marked(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestOverviewWithoutEvents(t *testing.T) {
	_, text := asked(opened(t, &fleet{said: "quiet"}), "GET", "/sites/berlin", "")
	if !strings.Contains(text, "Nothing has happened since the daemon was started.") || strings.Contains(text, "No event yet") {
		t.Error("the overview says something else of events that it does not have")
	}
}

// Somebody who may see some nodes is told nothing about the site: neither that it has no design, nor that
// nothing is found or waits in it.
func TestPartialOverviewSaysNothingOfTheSite(t *testing.T) {
	f := &fleet{said: "there"}
	address, as := onNetwork(t, f)
	_, text, _ := sends(t, as("carol@example.org"), "GET", address+"/sites/berlin", "")
	for _, part := range []string{"No design is in force", "about the design", "Nothing waits for a person", "Nothing has happened since the daemon"} {
		if strings.Contains(text, part) {
			t.Errorf("says %q", part)
		}
	}
	for _, part := range []string{"Of the nodes that you may see", "1 finding about machines"} {
		if !strings.Contains(text, part) {
			t.Errorf("does not say %q", part)
		}
	}
	for want, n := range map[string][]site.NodeStatus{"You may see no node": nil, "Slipway is at work on nodes that you may see": {{Name: "n1", State: site.Progressing}}} {
		p := overviewPage{Overview: control.OverviewOf(site.Report{Status: site.Status{Nodes: n}}), Some: true}
		if says := strings.Join(headline(p), ", "); says != want {
			t.Errorf("%q, want %q", says, want)
		}
	}
}
