package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// fleet is a daemon of one site, "berlin", with a bit of everything that a page shows. Every text that
// comes from elsewhere is said.
type fleet struct {
	mu     sync.Mutex
	orders []site.Order
	events []site.Event
	audit  []site.AuditEntry
	reason string // of web-1
	// said is what machines, designs and people say.
	said string
	size int // nodes besides those that are named
	// many is how many findings, checks and lines of a log there are besides the usual ones.
	many int
	// more are sites besides berlin. unracked has neither racks nor nodes in them.
	more     []string
	unracked bool
	// racked has the nodes besides those that are named in racks of 40.
	racked bool
	// files is where the forge shows those of the revision.
	files string
	// crowded has several nodes in each unit of rack r1, the last ones by name in the lowest one.
	crowded bool
	design  sync.Once
	as      *site.Site // designed
	// links are what a node has seen of its own.
	links func(node string) *item.LinksSeen
	// pulled changes pull request 7. unpulled has no pull requests be reviewed.
	pulled   func(*site.ProposalDetail)
	unpulled bool
	// newer has a newer revision, which is not in force. committed changes the plan of a commit.
	newer     bool
	committed func(*site.CommitDetail)
	// removes are the nodes that leave the design.
	removes []site.Removal
	// waiting has the nodes besides those that are named wait for approval.
	waiting bool
	// broken has every report fail.
	broken bool
	// plans are those of nodes besides web-2.
	plans []site.NodePlan
	now   time.Time
	once  sync.Once
	named []string
	// places are their racks.
	places []string
	// obeys has orders change what is reported, of which it tells.
	obeys bool
	// storm counts how often the states of the nodes besides those that are named have changed.
	storm int
	// granted is what people have approved of the design's access, which is in force as it is.
	granted site.GrantedState
	// follows is what its listener on the network says until it leads; nil where it leads from the beginning. leads has it lead,
	// and ends has the listener end.
	follows func() error
	// behind has the sites be in a process behind the one on the network.
	behind      bool
	leads, ends func()
	// watched is when anybody looked at the machines, and past what happened to each node and to the site; nil for a bit of
	// everything.
	watched site.Watched
	past    []site.Event
	// consoles counts how often one was read; wrote is what the machine wrote to it.
	consoles int
	wrote    string
	// limits are those of the listener on the network, and log is what it logs to; nil for nothing.
	limits control.Limits
	log    slog.Handler
	// pages are those of the listener on the network.
	pages *Site
}

const digestOfIncident = "abcdef0123456789abcdef0123456789"

const digestOfSet = "0123456789abcdef0123456789abcdef"

func (f *fleet) Sites() []string { return append([]string{"berlin"}, f.more...) }

func (f *fleet) names() []string {
	f.once.Do(func() {
		f.named = f.allNames()
		for i := range f.named {
			f.places = append(f.places, f.rackOf(i))
		}
	})
	return f.named
}

func (f *fleet) allNames() []string {
	all := []string{"db-1", "db-2", "web-1", "web-2", "web-3", "web-4"}
	for i := range f.size {
		all = append(all, fmt.Sprintf("x-%05d", i))
	}
	return all
}

// rackOf is where the node is that comes at a place among all.
func (f *fleet) rackOf(i int) string {
	if f.racked {
		return fmt.Sprintf("r%d", i/40+1)
	}
	return "r1"
}

func (f *fleet) Design(string) (*site.Site, error) {
	f.design.Do(func() { f.as = f.designed() })
	return f.as, nil
}

func (f *fleet) designed() *site.Site {
	s := &site.Site{Name: "berlin", SchemaVersion: site.SchemaVersion, Nodes: map[string]*site.Node{},
		Racks:    map[string]*site.Rack{"r1": {Location: f.said}, "r2": {}},
		Networks: map[string]*site.Network{"mgmt": {CIDR: "192.0.2.0/24", VLAN: 10, Description: f.said, Gateway: "192.0.2.1"}}}
	for i, name := range f.names() {
		if rack := f.rackOf(i); s.Racks[rack] == nil {
			s.Racks[rack] = &site.Rack{Units: 42}
		}
		s.Nodes[name] = &site.Node{Name: name, Role: "compute", Rack: f.rackOf(i), Labels: map[string]string{"note": f.said}, Power: "on", Endpoints: map[site.EndpointKind]site.Endpoint{site.OS: {URL: "ssh://192.0.2.1"}},
			Interfaces: map[string]site.Interface{"eno1": {MAC: fmt.Sprintf("02:00:00:00:00:%02x", i%256), Switch: "leaf-1", Port: fmt.Sprintf("Ethernet1/%d", i), Networks: []string{"mgmt"}}},
			Origins:    site.OriginsByPath(map[string]site.Origin{"power": site.At("sites/berlin/site.cue", 12, 3, "node/"+name), "labels.note": site.At("profiles/base.cue", 4, 1, "profile/base")})}
	}
	if f.unracked {
		s.Racks = nil
	}
	return s
}

func (f *fleet) Where(string, string) (rack, role string, known bool) { return "r1", "compute", true }

func (f *fleet) Access(string) (approved site.GrantedState, inForce site.Granted, err error) {
	return f.granted, f.granted.Granted, nil
}

func (f *fleet) AccessReport(string) (site.AccessReport, error) {
	return site.AccessReport{Design: f.granted.Granted, By: f.granted.By, When: f.granted.When}, nil
}

func (f *fleet) Verification(string) (site.Verification, error) {
	run := &site.VerificationRun{Since: f.now, Until: f.now.Add(3 * time.Minute), By: f.said, Nodes: 6, Looked: 2}
	checks := make([]site.Check, f.many)
	for i := range checks {
		checks[i] = site.Check{Subject: "manager", Outcome: site.CheckWrong, Sentence: "its BMC does not answer"}
	}
	return site.Verification{Site: "berlin", When: f.now, Run: run, Checks: append(checks, []site.Check{
		{Node: "db-1", Subject: f.said, Outcome: site.CheckWrong, Sentence: f.said, Release: f.said, Seen: f.now},
		{Node: "web-1", Subject: "manager", Outcome: site.CheckOK, Sentence: "its BMC answers", Seen: f.now},
		{Subject: "source", Outcome: site.CheckUnknown, Sentence: "not looked at"},
	}...)}, nil
}

func (f *fleet) RunVerification(_ context.Context, _ string, r site.VerificationRequest) (site.VerificationRun, error) {
	f.orders = append(f.orders, site.Order{Verb: site.VerbVerify, Nodes: r.Nodes})
	return site.VerificationRun{Since: f.now, Until: f.now.Add(3 * time.Minute), By: f.said, Nodes: 6, Looked: 2}, nil
}

func (f *fleet) AddAudit(_ context.Context, _ string, e site.AuditEntry) (site.AuditEntry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e.Seq = uint64(len(f.audit) + 1)
	f.audit = append(f.audit, e)
	return e, nil
}

func (f *fleet) EndAudit(_ context.Context, _ string, e site.AuditEntry) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.audit[e.Seq-1] = e
	return nil
}

func (f *fleet) Audit(_ context.Context, _ string, after uint64, most int) ([]site.AuditEntry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := append([]site.AuditEntry{{Seq: 1, When: f.now.Add(-time.Hour), By: "ana@example.org", Kind: "person", From: "192.0.2.7", Verb: "pause", Reason: f.said, Outcome: site.AuditDone, Text: "paused"}}, f.audit...)
	all = all[min(after, uint64(len(all))):]
	return all[:min(len(all), most)], nil
}

func (f *fleet) loss() site.Loss {
	return site.Loss{Node: "web-2", Machine: site.Identity{UUID: "5e1d3a6c-0000-4000-8000-000000000002", Serial: f.said}, Action: "install generation 2", Lost: "everything on 2 disks " + f.said, Generation: 2, Disks: "S1, S2", Attempt: 1}
}

func (f *fleet) Report(string) (site.Report, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken {
		return site.Report{}, errors.New("the records cannot be read")
	}
	at := f.now.Add(-25 * time.Minute)
	rev := site.Revision{ID: "0123456789abcdef0123456789abcdef01234567", Subject: "install web-2 again " + f.said, Author: f.said, When: at}
	s := site.Status{Site: "berlin", Files: f.files, Proposals: !f.unpulled, Commits: !f.unpulled, Applied: rev, Attempted: rev, Waiting: site.Losses{f.loss()}, Approve: digestOfSet,
		Rollout: &site.RolloutStatus{Revision: rev, Since: at, Nodes: []string{"web-1", "web-2", "web-3"}, Done: 1},
		Ledger:  []site.LedgerEntry{{Loss: f.loss(), Set: digestOfSet, Source: site.ApprovalSource{By: f.said}, Note: f.said, Opened: at, Expires: f.now.Add(time.Hour)}},
		Notes:   []string{"a note " + f.said}}
	if f.newer {
		s.Attempted = site.Revision{ID: newRack, Subject: f.said}
		s.Rollout.Queued = &s.Attempted
	}
	judged := []site.Exposed{{Secret: "credential bmc " + f.said, Nodes: []string{"web-3", "web-4"}, Known: []string{"web-3"}, Holders: []string{f.said}, Do: "Change it. " + f.said, State: site.ReplacedPartly, Why: "its source has another value " + f.said},
		{Secret: "credential os", Nodes: []string{"web-3"}, Known: []string{"web-3"}, Do: "Change it", State: site.ReplacedAll, Why: "its source has another value"}}
	exposed := []site.Exposed{{Secret: "credential bmc " + f.said, Nodes: []string{"web-3"}, Holders: []string{"web-4", f.said}, Do: "Change it at the BMCs, then in the design. " + f.said}}
	s.Incidents = []site.IncidentState{
		{Name: "waiting-one", ID: digestOfIncident, Incident: site.Incident{Nodes: []string{"web-3", "web-4"}, Since: at, Reason: "a shell " + f.said}, Commit: rev.ID, Found: at, Waits: []string{"it came by a commit " + f.said}, Exposed: exposed},
		{Name: "shell-in-rack-2", ID: digestOfSet, Incident: site.Incident{Nodes: []string{"db-2", "web-4"}, Since: at.Add(-time.Hour), Reason: "a shell " + f.said}, By: f.said, Found: at, Acted: at, Held: at.Add(time.Second), Exposed: judged, Follows: true,
			Nodes: map[string]site.IncidentNode{"db-2": {Off: at.Add(8 * time.Second), StaysOff: true, Power: "power seen off at 18:00 " + f.said}, "db-3": {Off: at.Add(8 * time.Second), Power: "power seen off, and on again since " + f.said}, "web-4": {Power: "not proven off: the BMC does not answer " + f.said}}}}
	s.Nodes = make([]site.NodeStatus, 0, len(f.names())) // as an engine does
	model := "R750 " + f.said
	for i, name := range f.names() {
		n := site.NodeStatus{Name: name, Role: "compute", Rack: "r1", State: site.InSync, Since: at, Seen: f.now.Add(-time.Minute), Power: "on", Health: "OK", OS: "Debian 13", Model: model, Position: site.Position{Unit: i + 1, Height: 1},
			Links: site.Links{State: site.LinksAsDesigned}}
		if f.racked {
			n.Rack, n.Position.Unit = f.places[i], i%40+1
		}
		if f.unracked {
			n.Rack = ""
		}
		if f.crowded {
			n.Position.Unit = (len(f.names())-1-i)/15 + 1
		}
		if f.waiting && strings.HasPrefix(name, "x-") {
			n.State, n.Approve, n.Approval = site.Blocked, "boots it again", digestOfSet
		}
		if f.storm > 0 && strings.HasPrefix(name, "x-") {
			n.State, n.Since = stormy[(f.storm+i)%len(stormy)], f.now
			if n.State != site.InSync {
				n.Reason = fmt.Sprintf("Turn %d of the storm", f.storm)
			}
		}
		switch name {
		case "web-1":
			n.State, n.Reason = site.Progressing, f.reason
		case "web-2":
			n.State, n.Reason, n.Person, n.Release = site.Blocked, "The installation of generation 2 needs approval "+f.said, true, "approve the set, or remove the change"
		case "web-3":
			n.State, n.Reason, n.Cause = site.Stalled, "The BMC did not boot the medium "+f.said, f.said
			n.Findings = []site.Finding{{Code: "disk-failing", Severity: site.SeverityWarning, Message: "a disk fails " + f.said, Fix: "replace it"}}
		case "web-4":
			n.State, n.Seen, n.Power, n.Health = site.Unknown, time.Time{}, "", ""
		case "db-1":
			n.State, n.Reason, n.Approve, n.Approval, n.Person = site.Blocked, "First contact: Slipway has not changed this machine before", "powers off db-1 and boots it again "+f.said, digestOfSet, true
		case "db-2":
			n.State, n.Paused, n.Links = site.Paused, &site.Hold{By: f.said, Reason: f.said, Since: at}, site.Links{State: site.LinksDiffer, Why: "eno1 is on port Ethernet1/9"}
		}
		s.Nodes = append(s.Nodes, n)
	}
	if f.obeys {
		f.obey(&s)
	}
	step := site.Step{Node: "web-2", Action: site.ActionInstall, Impact: site.ImpactDestructive, Reason: "the design asks for generation 2 " + f.said, Loses: "everything on 2 disks", Expect: site.Duration(15 * time.Minute),
		Changes: []site.Change{{Field: "generation", Have: "1", Want: "2", Origin: site.At("sites/berlin/site.cue", 3, 4, "node/web-2")}}, Undo: "cannot be undone"}
	p := site.Plan{Version: 1, Site: "berlin", Revision: rev.ID, Nodes: []site.NodePlan{{Node: "web-2", Steps: []site.Step{step}, Blocked: []string{"needs approval " + f.said}, Seen: f.now}}}
	p.Nodes, p.Removes = append(p.Nodes, f.plans...), f.removes
	return site.Report{Status: s, Plan: p, Findings: append(make([]site.Finding, f.many), site.Finding{Code: "unused-profile", Severity: site.SeverityNote, Message: "nobody uses it " + f.said, File: "profiles/base.cue", Line: 3, Col: 1})}, nil
}

func (f *fleet) Chart(string) (site.RolloutChart, error) {
	at := f.now.Add(-25 * time.Minute)
	return site.RolloutChart{Site: "berlin", Revision: site.Revision{ID: "0123456789abcdef", Subject: f.said}, Now: f.now, From: at, To: f.now.Add(time.Hour), Since: at, Ends: f.now.Add(time.Hour),
		Counts: map[site.MachineState]int{}, Basis: "observations " + f.said,
		Rows: []site.ChartRow{{Node: "web-1", State: site.MachineRunning, Began: at, Expected: site.Span{From: f.now, To: f.now.Add(time.Hour)}, Sentence: "is installed " + f.said, Canary: true}, {Node: "web-2", State: site.MachineWaiting, Sentence: "waits for approval", Person: true}}}, nil
}

func (f *fleet) Known(string) (site.Known, error) { return site.Known{}, nil }

func (f *fleet) Events(_ string, after uint64) ([]site.Event, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, _ := slices.BinarySearchFunc(f.events, after+1, func(e site.Event, seq uint64) int { return cmp.Compare(e.Seq, seq) })
	return slices.Clone(f.events[i:]), nil
}

// happens changes the reason of web-1, and tells of it.
func (f *fleet) happens(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reason = text
	f.events = append(f.events, site.Event{Seq: uint64(len(f.events) + 1), When: f.now, Node: "web-1", Kind: site.EventState, Text: text})
}

// storms has all nodes change at once, and tells of as much of that as an engine keeps.
func (f *fleet) storms(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reason = text
	seq := uint64(0)
	if n := len(f.events); n > 0 {
		seq = f.events[n-1].Seq
	}
	f.events = nil
	names := f.names()
	for i, name := range names {
		seq++
		if i >= len(names)-4096 {
			f.events = append(f.events, site.Event{Seq: seq, When: f.now, Node: name, Kind: site.EventState, Text: text})
		}
	}
}

// breaks has every report fail from now on, and tells of it.
func (f *fleet) breaks() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = true
	f.events = append(f.events, site.Event{Seq: uint64(len(f.events) + 1), When: f.now, Kind: site.EventState, Text: "broken"})
}

func (f *fleet) History(_ context.Context, _, node string) ([]site.Event, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.past != nil {
		return slices.Clone(f.past), nil
	}
	var all []site.Event
	for _, e := range []site.Event{
		{When: f.now.Add(-20 * time.Hour), Kind: site.EventState, State: site.InSync, Text: "in-sync"},
		{When: f.now.Add(-9 * time.Hour), Kind: site.EventMachine, Text: "critical: fan 3 fails " + f.said},
		{When: f.now.Add(-6 * time.Hour), Kind: site.EventState, State: site.Progressing, Text: "progressing: install-packages " + f.said},
		{When: f.now.Add(-6 * time.Hour), Kind: site.EventBegun, Text: "install-packages: nginx 1.26 → 1.28 " + f.said},
		{When: f.now.Add(-4 * time.Hour), Kind: site.EventFailed, Text: "install-packages: " + f.said},
		{When: f.now.Add(-4 * time.Hour), Kind: site.EventState, State: site.Stalled, Quarantined: true, Text: "stalled: install-packages " + f.said},
		{When: f.now.Add(-time.Hour), Kind: site.EventOrder, Text: "paused " + f.said, By: f.said},
		{When: f.now.Add(-25 * time.Minute), Kind: site.EventState, State: site.Blocked, Text: "blocked: " + f.said},
	} {
		e.Node, e.Seq = node, uint64(len(all)+1)
		all = append(all, e)
	}
	return all, nil
}

func (f *fleet) MachineLog(string, string) (site.MachineLog, error) {
	if f.past != nil {
		return site.MachineLog{Entries: []site.Entry{}}, nil
	}
	return site.MachineLog{Read: f.now.Add(-20 * time.Minute), Entries: []site.Entry{{ID: "1", Severity: "OK", Text: "power on"}, {ID: "2 " + f.said, When: f.now.Add(-time.Hour), Severity: "Critical", Text: "fan 3 fails " + f.said}}}, nil
}

func (f *fleet) Watched(string) (site.Watched, error) {
	if w := f.watched; !w.Since.IsZero() {
		return w, nil
	}
	return site.Watched{Since: f.now.Add(-22 * time.Hour), Absences: []site.Span{{From: f.now.Add(-15 * time.Hour), To: f.now.Add(-12 * time.Hour)}}}, nil
}

func (f *fleet) File(context.Context, string, string, string) (item.Content, error) {
	return item.Content{}, nil
}

func (f *fleet) Closeup(_ context.Context, _, node string) (site.Closeup, error) {
	if !slices.Contains(f.names(), node) {
		return site.Closeup{}, fmt.Errorf("%w: no node %q", site.ErrNotFound, node)
	}
	c := site.Closeup{Inventory: &site.Inventory{Manufacturer: f.said, Model: "R750", Drives: []site.Drive{{Part: site.Part{Name: "bay 1", Serial: f.said, Model: f.said}, Bytes: 1e12}}}}
	c.Observed.Facets = map[site.Facet]site.FacetState{site.FacetInventory: {Seen: f.now.Add(-time.Minute)}}
	if f.links != nil {
		c.Observed.Links = f.links(node)
		return c, nil
	}
	c.Observed.Links = &item.LinksSeen{Ports: []item.Port{{Name: "eno1", Carrier: "up", Neighbours: []item.Neighbour{{System: "leaf-1", Port: f.said}}}}}
	return c, nil
}

func (f *fleet) Console(context.Context, string, string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.consoles++
	return []byte("booting " + f.said + "\r\n" + f.wrote), nil
}

func (f *fleet) Said(context.Context, string, string) ([]site.Said, error) {
	return append(make([]site.Said, f.many), site.Said{Seq: 1, When: f.now, Text: "unpacking " + f.said}), nil
}

func (f *fleet) CertifyLogin(context.Context, string, site.SSHRequest) (site.SSHGrant, error) {
	return site.SSHGrant{}, nil
}

func (f *fleet) Do(_ context.Context, _ string, o site.Order) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if o.Reason == "refuse" {
		return "", fmt.Errorf("%w: not now", site.ErrRefused)
	}
	if o.Reason == "break" {
		return "", errors.New("the records cannot be written")
	}
	if o.DryRun {
		return "Slipway would put these under quarantine: " + strings.Join(o.Nodes, ", ") + "\n1. credential bmc " + f.said, nil
	}
	f.orders = append(f.orders, o)
	if f.obeys {
		f.events = append(f.events, site.Event{Seq: uint64(len(f.events) + 1), When: f.now, Node: o.Node, Kind: site.EventOrder, Text: string(o.Verb), By: o.By})
	}
	return string(o.Verb) + " is done " + f.said, nil
}

// ordered are the orders so far.
func (f *fleet) ordered() []site.Order {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.orders)
}

// obey changes a report by the orders so far.
func (f *fleet) obey(s *site.Status) {
	for _, o := range f.orders {
		switch {
		case o.Verb == site.VerbApprove && o.Digest == s.Approve:
			s.Waiting, s.Approve = nil, ""
		case o.Verb == site.VerbPause && o.Node != "":
			i := slices.IndexFunc(s.Nodes, func(n site.NodeStatus) bool { return n.Name == o.Node })
			s.Nodes[i].State, s.Nodes[i].Paused = site.Paused, &site.Hold{By: o.By, Reason: o.Reason, Since: f.now}
		}
	}
}

// stormy are the states that nodes take in a storm, one after the other.
var stormy = []site.State{site.InSync, site.Progressing, site.Retrying, site.InSync, site.Blocked, site.Stalled}

// turns changes the states of all nodes besides those that are named, and tells of some of them.
func (f *fleet) turns(told int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.storm++
	for i := range told {
		f.events = append(f.events, site.Event{Seq: uint64(len(f.events) + 1), When: time.Now(), Node: fmt.Sprintf("x-%05d", i%f.size), Kind: site.EventState, Text: fmt.Sprintf("turn %d", f.storm)})
	}
}

// opened serves the pages of a fleet, by the API on a socket.
func opened(t testing.TB, f *fleet) http.Handler {
	t.Helper()
	if f.now.IsZero() {
		f.now = time.Now()
	}
	socket := filepath.Join(t.TempDir(), "s")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- control.Serve(ctx, socket, "", f, slog.New(slog.DiscardHandler)) }()
	client := control.Dial(socket)
	t.Cleanup(func() {
		client.Close()
		cancel()
		<-ended
	})
	for {
		if _, err := client.WhoAmI(ctx); err == nil { // it listens
			break
		}
		select {
		case err := <-ended:
			ended <- err // for the end of the test
			t.Fatalf("the daemon ended: %v", err)
		default:
		}
	}
	return New(client.Handler())
}

// asked is the answer to one request.
func asked(h http.Handler, method, path, form string, headers ...string) (int, string) {
	r, _ := http.NewRequest(method, path, strings.NewReader(form))
	r.Host = "slipway.test"
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := &recorder{header: http.Header{}, status: http.StatusOK}
	h.ServeHTTP(w, r)
	text, _ := io.ReadAll(&w.body)
	return w.status, string(text)
}

// every is an address of each page, and of each question before an act.
func every() []string {
	var all []string
	for _, v := range views {
		all = append(all, strings.NewReplacer("{site}", "berlin", "{node}", "web-2", "{number}", "7", "{commit}", newRack).Replace(v.path))
	}
	for _, a := range Acts {
		if a.Site {
			all = append(all, "/sites/berlin/do/"+string(a.Verb)+"?digest="+digestOfSet)
		}
		if a.Node {
			all = append(all, "/sites/berlin/do/"+string(a.Verb)+"?node=db-1")
		}
	}
	return append(all, "/sites/berlin/incidents?name=shell-in-rack-2", "/sites/berlin/incidents?name=waiting-one", "/sites/berlin/do/incident?confirm="+digestOfIncident, "/sites/berlin/do/release?node=db-2",
		"/sites/berlin/nodes/db-2", "/sites/berlin/nodes/db-1", "/sites/berlin/nodes/web-3", "/sites/berlin/nodes/none", "/sites/paris", "/none",
		"/sites/berlin/nodes/web-2?range=all", "/sites/berlin/nodes/web-2/history?q=paused", "/sites/berlin/findings?q=nobody", "/sites/berlin/audit?q=in+vain")
}
