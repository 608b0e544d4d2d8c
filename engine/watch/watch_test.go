package watch

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/site"
)

var update = flag.Bool("update", false, "write the golden screens anew")

func TestMain(m *testing.M) {
	time.Local = time.UTC
	os.Exit(m.Run())
}

// noon is when all tests happen.
var noon = time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)

// hostile is text that forges a line, erases the screen, turns text round and hides some of it.
const hostile = "up\n\x1b[2J\r\u202eok\u200b\u009b8m"

const (
	setDigest  = "37dbd137b9121c1c97fc6229b18c21a2"
	nodeDigest = "0123456789abcdef0123456789abcdef"
)

// everything is all that orders need.
var everything = []access.Verb{access.Read, access.Approve, access.Pause, access.Resume, access.Retry, access.Quarantine, access.Release}

// berlin is a site with something of everything.
func berlin() site.Report {
	at := func(ago time.Duration) time.Time { return noon.Add(-ago) }
	machine := site.Identity{UUID: "5e1d1c5a-0000-4000-8000-000000000005", Serial: "EX105"}
	nodes := []site.NodeStatus{
		{Name: "compute-1", Role: "compute", Rack: "r1", State: site.InSync, Since: at(3 * time.Hour), Seen: at(time.Minute), Power: "on"},
		{Name: "compute-2", Role: "compute", Rack: "r1", State: site.Progressing, Reason: "install generation 2 is under way", Since: at(4 * time.Minute), Seen: at(time.Second), Next: "install: generation 2", Power: "on"},
		{Name: "compute-3", Role: "compute", Rack: "r2", State: site.Paused, Reason: "paused by ana: disk is being replaced", Since: at(2 * time.Minute), Paused: &site.Hold{By: "ana", Reason: "disk is being replaced", Since: at(2 * time.Minute)}},
		{Name: "compute-4", Role: "compute", Rack: "r2", State: site.Retrying, Reason: "the BMC does not answer", Cause: "dial tcp 10.0.0.14:443: i/o timeout", Since: at(90 * time.Second), Retry: noon.Add(time.Minute)},
		{Name: "compute-5", Role: "compute", Rack: "r2", State: site.Blocked, Reason: "install generation 2 erases its disks and waits for approval", Release: "`slipway approve " + setDigest + "`", Person: true, Since: at(10 * time.Minute), Machine: machine, Model: "Acme R1", Power: "on", Seen: at(30 * time.Second)},
		{Name: "storage-1", Role: "storage", Rack: "r1", State: site.Blocked, Reason: "first contact: its power would be switched off", Approve: "the machine UUID 77 is powered off and started again", Approval: nodeDigest, Person: true, Since: at(time.Hour), Machine: site.Identity{UUID: "77"}},
		{Name: "storage-2", Role: "storage", Rack: "r1", State: site.Stalled, Reason: "its serial number is EX999, and the design says EX107", Since: at(26 * time.Hour), Findings: []site.Finding{{Severity: site.SeverityWarning, Message: "16 GB of memory, 32 GB are designed"}}},
	}
	loss := site.Loss{Node: "compute-5", Machine: machine, Action: "install generation 2", Lost: "everything on 2 disks", Disks: "S1, S2"}
	return site.Report{
		Status: site.Status{
			Site: "berlin", Applied: site.Revision{ID: "4f2a51c09d3e77aa", Subject: "compute: generation 2"}, Attempted: site.Revision{ID: "4f2a51c09d3e77aa"},
			Nodes: nodes, Waiting: site.Losses{loss}, Approve: setDigest,
			Rollout:  &site.RolloutStatus{Revision: site.Revision{ID: "4f2a51c09d3e77aa"}, Since: at(20 * time.Minute), Nodes: []string{"compute-1", "compute-2", "compute-5", "gone-1"}, Done: 1, Canaries: []string{"compute-1"}, Proven: at(15 * time.Minute)},
			Ledger:   []site.LedgerEntry{{Loss: site.Loss{Node: "compute-1", Action: "install generation 2"}, Source: site.ApprovalSource{Kind: site.ByCommand, By: "bob"}, Consumed: at(19 * time.Minute)}},
			Problems: []site.Problem{{What: "the repository does not answer", Since: at(5 * time.Minute)}},
		},
		Plan: site.Plan{Nodes: []site.NodePlan{{Node: "compute-5", Steps: []site.Step{{Node: "compute-5", Facet: site.FacetPower, Action: site.ActionInstall, Impact: site.ImpactDestructive, Changes: []site.Change{{Field: "generation", Have: "1", Want: "2"}}, Loses: "everything on 2 disks"}}}}},
		Findings: []site.Finding{{Code: "unused-network", Severity: site.SeverityWarning, File: "sites/berlin/site.cue", Line: 12, Col: 3, Message: "network spare is not used",
			Why: "nothing is configured with it", Fix: "remove it"}},
	}
}

// view is a model that is driven by keys.
type view struct {
	t *testing.T
	*model
	daemon *fake
}

func opened(t *testing.T, r site.Report) *view {
	t.Helper()
	f := &fake{report: r, verbs: everything, events: []site.Event{
		{Seq: 1, When: noon.Add(-20 * time.Minute), Kind: site.EventRollout, Text: "the rollout of 4f2a51c09d3e began"},
		{Seq: 2, When: noon.Add(-4 * time.Minute), Node: "compute-2", Kind: site.EventBegun, Text: "install: generation 1 → 2", Took: site.Duration(3 * time.Second)},
	}}
	m := newModel(t.Context(), f, Options{})
	m.now = noon
	v := &view{t, m, f}
	v.tell(reported{r}, happened{f.events, true}, identified{control.Identity{Verbs: map[string][]access.Verb{"berlin": everything}}})
	return v
}

// reports has the daemon report something else, and tells the view.
func (v *view) reports(r site.Report) {
	v.daemon.report = r
	v.tell(reported{r})
}

func (v *view) tell(msgs ...tea.Msg) {
	for _, msg := range msgs {
		_, cmd := v.Update(msg)
		for cmd != nil {
			_, cmd = v.Update(cmd())
		}
	}
}

// keys presses keys by their names; "'text" is typed.
func (v *view) keys(all ...string) *view {
	codes := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "up": tea.KeyUp, "down": tea.KeyDown, "tab": tea.KeyTab, "backspace": tea.KeyBackspace, "pgdown": tea.KeyPgDown}
	for _, k := range all {
		if text, ok := strings.CutPrefix(k, "'"); ok {
			for _, r := range text {
				v.tell(tea.KeyPressMsg{Code: r, Text: string(r)})
			}
			continue
		}
		if code, ok := codes[k]; ok {
			v.tell(tea.KeyPressMsg{Code: code})
			continue
		}
		v.tell(tea.KeyPressMsg{Code: []rune(k)[0], Text: k})
	}
	return v
}

func (v *view) text() string {
	var b strings.Builder
	for _, line := range v.screen() {
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// golden holds the screen to a file.
func (v *view) golden(name string) {
	v.t.Helper()
	path := filepath.Join("testdata", name+".txt")
	got := v.text()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			v.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		v.t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		v.t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestGoldenScreens(t *testing.T) {
	for name, keys := range map[string][]string{
		"overview":        nil,
		"nodes":           {"2", "j", "j"},
		"filter":          {"/", "'r2 comp"},
		"approvals":       {"3"},
		"rollout":         {"4"},
		"findings":        {"5"},
		"events":          {"6"},
		"help":            {"?"},
		"node":            {"2", "j", "j", "j", "j", "enter"},
		"node-end":        {"2", "j", "j", "j", "j", "enter", "G"},
		"approve-set":     {"A"},
		"approve-node":    {"/", "'storage-1", "enter", "a"},
		"pause-site":      {"P"},
		"quarantine-node": {"2", "x"},
		"quarantine-site": {"X", "'flood", "enter"},
		"resume-node":     {"/", "'compute-5", "enter", "r"},
		"nothing-to-do":   {"2", "a"},
		"choose-first":    {"p"},
		"no-reason":       {"2", "p", "enter"},
	} {
		t.Run(name, func(t *testing.T) { opened(t, berlin()).keys(keys...).golden(name) })
	}
}

func TestSmallTerminals(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {60, 15}, {40, 9}, {20, 5}, {5, 2}, {1, 1}, {200, 60}} {
		for _, keys := range [][]string{nil, {"2"}, {"/", "'x"}, {"3"}, {"4"}, {"5"}, {"6"}, {"?"}, {"2", "enter"}, {"A"}, {"2", "x"}} {
			v := opened(t, compromised())
			v.tell(tea.WindowSizeMsg{Width: size[0], Height: size[1]}, lost{errDown})
			v.tell(lost{})
			v.keys(keys...)
			lines := v.screen()
			if len(lines) > size[1] {
				t.Errorf("%v %v: %d lines", size, keys, len(lines))
			}
			for _, line := range lines {
				if ansi.StringWidth(line) > size[0] {
					t.Errorf("%v %v: a line is %d wide: %q", size, keys, ansi.StringWidth(line), line)
				}
			}
		}
	}
	v := opened(t, berlin())
	v.tell(tea.WindowSizeMsg{Width: 50, Height: 9})
	v.golden("small")
}

// An approval that is sent is for what was shown, and for nothing that came later.
func TestApprovalsAreForWhatWasShown(t *testing.T) {
	v := opened(t, berlin()).keys("A")
	v.keys("enter")
	if len(v.daemon.orders) != 0 || !strings.Contains(v.text(), "Type yes") {
		t.Errorf("sent without a yes: %v\n%s", v.daemon.orders, v.text())
	}
	v.keys("'yes", "enter")
	want := []site.Order{{Verb: site.VerbApprove, Digest: setDigest}}
	if diff := cmp.Diff(want, v.daemon.orders); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(v.text(), "done: approve") {
		t.Errorf("the outcome is not shown:\n%s", v.text())
	}

	v = opened(t, berlin()).keys("A", "'yes")
	other := berlin()
	other.Status.Waiting = append(other.Status.Waiting, site.Loss{Node: "compute-1"})
	other.Status.Approve = nodeDigest
	v.reports(other)
	v.keys("enter")
	if len(v.daemon.orders) != 0 || !strings.Contains(v.text(), "has changed") {
		t.Errorf("what has changed was approved: %v\n%s", v.daemon.orders, v.text())
	}

	v = opened(t, berlin()).keys("/", "'storage-1", "enter", "enter", "a", "'yes", "enter")
	want = []site.Order{{Verb: site.VerbApprove, Node: "storage-1", Shown: nodeDigest}}
	if diff := cmp.Diff(want, v.daemon.orders); diff != "" {
		t.Error(diff)
	}
}

// A set that does not fit on the screen is read to its end before it can be approved.
func TestLongSetsAreReadToTheirEnd(t *testing.T) {
	r := berlin()
	for i := range 100 {
		r.Status.Waiting = append(r.Status.Waiting, site.Loss{Node: fmt.Sprintf("n%03d", i), Action: "install", Lost: "all"})
	}
	v := opened(t, r).keys("A", "'yes", "enter")
	if len(v.daemon.orders) != 0 || !strings.Contains(v.text(), "Read to the end") {
		t.Fatalf("approved unread: %v\n%s", v.daemon.orders, v.text())
	}
	for range 30 {
		v.keys("pgdown")
	}
	if !strings.Contains(v.text(), "n099") {
		t.Fatalf("the end is not shown:\n%s", v.text())
	}
	v.keys("enter")
	if len(v.daemon.orders) != 1 {
		t.Errorf("not sent:\n%s", v.text())
	}
}

func TestOrdersOnNodesAndTheSite(t *testing.T) {
	v := opened(t, berlin())
	v.keys("2", "p", "'why not", "enter", "u", "enter", "r", "enter", "x", "'smoke", "enter", "l", "enter")
	v.keys("P", "'storm", "enter", "U", "enter", "R", "enter", "X", "'fire", "enter", "'yes", "enter", "L", "enter")
	want := []site.Order{
		{Verb: site.VerbPause, Node: "compute-1", Reason: "why not"}, {Verb: site.VerbResume, Node: "compute-1"}, {Verb: site.VerbRetry, Node: "compute-1"},
		{Verb: site.VerbQuarantine, Node: "compute-1", Reason: "smoke"}, {Verb: site.VerbRelease, Node: "compute-1"},
		{Verb: site.VerbPause, Reason: "storm"}, {Verb: site.VerbResume}, {Verb: site.VerbRetry}, {Verb: site.VerbQuarantine, Reason: "fire"}, {Verb: site.VerbRelease},
	}
	if diff := cmp.Diff(want, v.daemon.orders); diff != "" {
		t.Error(diff)
	}
	v.daemon.refuses = fmt.Errorf("%w: %s", access.ErrDenied, hostile)
	v.keys("P", "'x", "enter")
	if !strings.Contains(v.text(), access.ErrDenied.Error()+": up") {
		t.Errorf("a refusal is not shown:\n%s", v.text())
	}
	n := len(v.daemon.orders)
	v.daemon.refuses = nil
	v.keys("P", "'x", "esc")
	if len(v.daemon.orders) != n {
		t.Error("esc sent an order")
	}
}

// What the role does not allow is not offered, and is not sent.
func TestRoles(t *testing.T) {
	v := opened(t, berlin())
	v.tell(identified{control.Identity{Verbs: map[string][]access.Verb{"berlin": {access.Read, access.Retry}}}})
	v.keys("2", "x")
	text := v.text()
	if v.ask != nil || !strings.Contains(text, "Your role at this daemon does not allow quarantine") {
		t.Errorf("offered:\n%s", text)
	}
	for _, key := range []string{"p: pause", "x: quarantine", "a: approve"} {
		if strings.Contains(text, key) {
			t.Errorf("offers %q", key)
		}
	}
	v.keys("?")
	if !strings.Contains(v.text(), "(your role does not allow it)") {
		t.Errorf("help:\n%s", v.text())
	}
}

// While the daemon does not answer the view says so, keeps what it has, and sends nothing.
func TestLostDaemon(t *testing.T) {
	v := opened(t, berlin())
	v.tell(lost{errDown})
	v.now = noon.Add(35 * time.Second)
	v.golden("lost")
	v.keys("P")
	if v.ask != nil || !strings.Contains(v.text(), "Nothing was sent") {
		t.Errorf("asks:\n%s", v.text())
	}
	v.tell(lost{})
	if strings.Contains(v.text(), "NO ANSWER") {
		t.Errorf("still lost:\n%s", v.text())
	}
}

// The cursor stays on its node when nodes come and go.
func TestCursorFollowsItsNode(t *testing.T) {
	v := opened(t, berlin()).keys("2", "j", "j")
	r := berlin()
	r.Status.Nodes = append([]site.NodeStatus{{Name: "aaa", State: site.Unknown}}, r.Status.Nodes...)
	v.reports(r)
	if n := v.subject(); n == nil || n.Name != "compute-3" {
		t.Errorf("the cursor is on %v", n)
	}
	v.keys("enter")
	r.Status.Nodes = r.Status.Nodes[:1]
	v.reports(r)
	if !strings.Contains(v.text(), "Node compute-3 is no longer in the design") {
		t.Error(v.text())
	}
	v.keys("a")
	if v.ask != nil || !strings.Contains(v.text(), "compute-3 is no longer in the design") {
		t.Errorf("asks for the approval of the site's set:\n%s", v.text())
	}
	v.keys("p", "esc", "p", "'x", "enter")
	if len(v.daemon.orders) != 0 {
		t.Errorf("an order for a node that has left went to another: %v", v.daemon.orders)
	}
	v.keys("k", "p", "'x", "enter")
	if len(v.daemon.orders) != 1 || v.daemon.orders[0].Node != "aaa" {
		t.Errorf("%v", v.daemon.orders)
	}
}

// A report that changes what the filter leaves does not put the cursor on another node.
func TestCursorStaysWhenItsNodeNoLongerFits(t *testing.T) {
	v := opened(t, berlin()).keys("/", "'blocked", "enter")
	if n := v.subject(); n == nil || n.Name != "compute-5" {
		t.Fatalf("the cursor is on %v", n)
	}
	r := berlin()
	r.Status.Nodes[4].State = site.InSync
	v.reports(r)
	v.keys("r", "enter")
	if want := []site.Order{{Verb: site.VerbRetry, Node: "compute-5"}}; cmp.Diff(want, v.daemon.orders) != "" {
		t.Errorf("sent %v\n%s", v.daemon.orders, v.text())
	}
	v.keys("j")
	v.reports(r)
	if n := v.subject(); n == nil || n.Name != "storage-1" || strings.Contains(v.text(), "> compute-5") || len(v.list.rows) != 1 {
		t.Errorf("after the cursor was moved:\n%s", v.text())
	}
	v.keys("/", "'x")
	v.reports(r)
	if v.subject() != nil {
		t.Errorf("a filter that nothing fits keeps %v", v.subject())
	}
}

// No text of others moves the cursor, forges a line or costs more than a bounded time.
func TestHostileText(t *testing.T) {
	evil := hostile + strings.Repeat("\u0301A\u202e", 50_000)
	r := berlin()
	for i := range r.Status.Nodes {
		n := &r.Status.Nodes[i]
		n.Name, n.Role, n.Rack, n.Reason, n.Cause, n.Detail, n.Release, n.Model = n.Name+evil, evil, evil, evil, evil, evil, evil, evil
		n.State = n.State + site.State(evil)
		n.Approve, n.Notes, n.NotActedOn, n.OS = evil, []string{evil}, []string{evil}, evil
		n.Findings = []site.Finding{{Message: evil, Fix: evil}}
		n.Paused, n.Quarantined = &site.Hold{By: evil, Reason: evil}, &site.Hold{By: evil, Reason: evil}
	}
	s := &r.Status
	s.Applied.Subject, s.ObserveOnly, s.Notes = evil, evil, []string{evil}
	s.Paused, s.Problems[0].What, s.Waiting[0].Lost, s.Waiting[0].Disks = &site.Hold{By: evil, Reason: evil}, evil, evil, evil
	s.Rollout.Halted, s.Rollout.Failed, s.Rollout.Nodes[0] = evil, map[string]string{evil: evil}, evil
	s.Ledger[0].Source.By, s.Ledger[0].Note = evil, evil
	s.Incidents = []site.IncidentState{{Name: evil, Waits: []string{evil}, Incident: site.Incident{Reason: evil, Nodes: []string{evil}}},
		{Name: evil, Acted: noon, Incident: site.Incident{Reason: evil}, Nodes: map[string]site.IncidentNode{evil: {Power: evil}, s.Nodes[0].Name: {Power: evil}}}}
	r.Plan.Nodes[0].Node = r.Status.Nodes[4].Name
	r.Plan.Nodes[0].Blocked, r.Plan.Nodes[0].Steps[0].Changes[0].Want = []string{evil}, evil
	r.Findings = []site.Finding{{Message: evil, Why: evil, Fix: evil, File: evil, Severity: site.Severity(evil)}}
	for _, keys := range [][]string{nil, {"2"}, {"3"}, {"4"}, {"5"}, {"6"}, {"?"}, {"2", "enter"}, {"2", "j", "j", "j", "j", "enter", "G"}, {"A"}, {"2", "a"}, {"2", "x", "'" + "\u202e"}, {"2", "l"}, {"L"}} {
		v := opened(t, r)
		v.tell(happened{[]site.Event{{Seq: 9, Node: evil, Text: evil, By: evil, Kind: site.EventKind(evil)}}, false}, identified{control.Identity{Caller: access.Caller{Name: evil}, Verbs: map[string][]access.Verb{"berlin": everything}}})
		v.keys(keys...)
		v.said = evil
		for _, line := range v.screen() {
			if ansi.StringWidth(line) > 80 {
				t.Errorf("%v: %d wide", keys, ansi.StringWidth(line))
			}
			for _, c := range line {
				if !unicode.IsPrint(c) {
					t.Errorf("%v: %U in %q", keys, c, line)
					break
				}
			}
		}
	}
}

// A view with colours writes only sequences that colour, and none without them.
func TestColours(t *testing.T) {
	v := opened(t, berlin())
	if strings.Contains(strings.Join(v.screen(), ""), "\x1b") {
		t.Error("colours although none are wanted")
	}
	v.ink = true
	coloured := strings.Join(v.screen(), "")
	if !strings.Contains(coloured, "\x1b[33m") {
		t.Error("no colours")
	}
	v.ink = false
	if ansi.Strip(coloured) != strings.Join(v.screen(), "") {
		t.Error("colours change the text")
	}
}

// fleet is a site of many nodes.
func fleet(n int) site.Report {
	r := berlin()
	r.Status.Nodes = nil
	for i := range n {
		s := site.NodeStatus{Name: fmt.Sprintf("compute-%05d", i), Role: "compute", Rack: fmt.Sprintf("r%d", i/40), State: site.States[i%len(site.States)], Reason: fmt.Sprintf("reason %d of it", i%7), Since: noon}
		r.Status.Nodes = append(r.Status.Nodes, s)
		r.Status.Waiting = append(r.Status.Waiting, site.Loss{Node: s.Name, Action: "install", Lost: "everything"})
	}
	return r
}

// A key is answered at once at a site of 10,000 nodes.
func BenchmarkKey10k(b *testing.B) {
	m := newModel(b.Context(), &fake{}, Options{Colour: true})
	m.now = noon
	m.Update(reported{fleet(10_000)})
	m.press("2", "2")
	for b.Loop() {
		m.press("j", "j")
		m.View()
	}
}

func BenchmarkReport10k(b *testing.B) {
	m := newModel(b.Context(), &fake{}, Options{Colour: true})
	m.now = noon
	r := fleet(10_000)
	for b.Loop() {
		m.Update(reported{r})
		m.View()
	}
}

func BenchmarkFilter10k(b *testing.B) {
	m := newModel(b.Context(), &fake{}, Options{Colour: true})
	m.now = noon
	m.Update(reported{fleet(10_000)})
	m.press("/", "/")
	for b.Loop() {
		m.press("1", "1")
		m.View()
		m.press("backspace", "")
		m.View()
	}
}

func BenchmarkApprovals10k(b *testing.B) {
	m := newModel(b.Context(), &fake{}, Options{Colour: true})
	m.now = noon
	r := fleet(10_000)
	for b.Loop() {
		m.Update(reported{r})
		m.at = approvals
		m.View()
	}
}
