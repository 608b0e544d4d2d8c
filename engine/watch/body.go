package watch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Bounds on what a page lists. What is left out is counted, and all of it is in the answers of the API.
const (
	mostTroubles = 12
	mostWaiting  = 5
	mostListed   = 1000
	mostNewest   = 8
)

// renewed is how often the ages on a page are told again.
const renewed = 5 * time.Second

// sheetOf is the lines of a page as they were made last. They are made again when something of theirs has changed.
type sheetOf struct {
	at      page
	node    string
	version int
	width   int
	when    time.Time
	lines   []string
}

// body is the lines of the page that is open.
func (m *model) body() []string {
	want := sheetOf{at: m.at, version: m.version, width: m.width, when: m.now.Truncate(renewed)}
	if m.node != nil {
		want.node = m.node.name
	}
	if m.made.lines != nil && m.made.same(want) {
		return m.made.lines
	}
	s := &sheet{ink: m.ink, width: m.width, lines: []string{}}
	switch {
	case m.node != nil:
		m.nodePage(s)
	case m.at == approvals:
		m.approvalsPage(s)
	case m.at == rollout:
		m.rolloutPage(s)
	case m.at == findings:
		m.findingsPage(s)
	case m.at == events:
		m.eventsPage(s)
	default:
		m.overviewPage(s)
	}
	want.lines = s.lines
	m.made = want
	return s.lines
}

func (a sheetOf) same(b sheetOf) bool {
	return a.at == b.at && a.node == b.node && a.version == b.version && a.width == b.width && a.when.Equal(b.when)
}

func (m *model) overviewPage(s *sheet) {
	r := &m.report.Status
	m.incidentRows(s)
	if len(s.lines) > 0 {
		s.add("")
	}
	s.add(m.bar())
	s.row("in force", "", present.RevisionLine(r.Applied))
	if r.Attempted.ID != r.Applied.ID && r.Attempted.ID != "" {
		s.row("attempted", red, present.RevisionLine(r.Attempted))
	}
	m.rolloutRows(s)
	for _, p := range r.Problems {
		s.row("problem", red, p.What+" (since "+present.Age(p.Since, m.now)+" ago)")
	}
	m.waitingRows(s)
	m.troubleRows(s)
	if len(m.events) > 0 {
		s.title("Newest")
		m.eventRows(s, mostNewest, false)
	}
	unacted := r.NotActedOn()
	if len(r.Notes)+len(unacted) > 0 {
		s.title("Notes")
	}
	for _, n := range r.Notes {
		s.item("-", n)
	}
	for _, u := range unacted {
		s.item("-", "in the design, but no driver acts on it: "+u.String())
	}
}

// waitingRows say what waits for a person: what is erased, and what else is to be approved.
func (m *model) waitingRows(s *sheet) {
	r := &m.report.Status
	if len(r.Waiting) > 0 {
		s.title("Waiting for approval: erases data (A approves all of it; see page 3)")
		for _, l := range r.Waiting[:min(len(r.Waiting), mostWaiting)] {
			s.item("!", present.LossLine(l))
		}
		s.more(len(r.Waiting)-mostWaiting, "on page 3")
	}
	var each []site.NodeStatus
	for _, n := range r.Nodes {
		if n.Approve != "" {
			each = append(each, n)
		}
	}
	if len(each) > 0 {
		s.title("Nodes that wait for their own approval (open the node, then press a)")
		for _, n := range each[:min(len(each), mostWaiting)] {
			s.item("!", n.Name+": "+n.Approve)
		}
		s.more(len(each)-mostWaiting, "on page 3")
	}
}

// more says how many entries were left out.
func (s *sheet) more(n int, where string) {
	if n > 0 {
		s.add(fmt.Sprintf("  … %d more %s", n, where))
	}
}

// troubleRows are the nodes that need a look, those with the same trouble together.
func (m *model) troubleRows(s *sheet) {
	var unwell []site.NodeStatus
	for _, n := range m.report.Status.Nodes {
		if present.NeedsALook(n) {
			unwell = append(unwell, n)
		}
	}
	groups := present.Grouped(unwell, false)
	if len(groups) == 0 {
		return
	}
	s.title("Nodes that need a look")
	for _, g := range groups[:min(len(groups), mostTroubles)] {
		who, reason := g[0].Name, present.ReasonOf(g[0], m.now)
		if len(g) > 1 {
			who, reason = say.Count(len(g), "node"), present.GroupReason(g, m.now)+": "+say.Some(present.NamesOf(g), 4)
		}
		s.item("-", fmt.Sprintf("%s %s for %s: %s", who, g[0].State, present.Age(g[0].Since, m.now), reason))
	}
	s.more(len(groups)-mostTroubles, "on page 2")
}

// bar is the nodes by state as a picture.
func (m *model) bar() string {
	glyphs := map[site.State]string{site.InSync: "█", site.Progressing: "▓", site.Retrying: "▒", site.Blocked: "▒", site.Stalled: "×", site.Foreign: "×", site.Paused: "▒", site.Unknown: "░"}
	r := &m.report.Status
	n, all, drawn, sum, width := r.Counts(), len(r.Nodes), 0, 0, min(60, m.width-2)
	var b strings.Builder
	for _, state := range site.States {
		if all == 0 || width < 1 {
			return ""
		}
		sum += n[state]
		cells := sum*width/all - drawn
		drawn += cells
		b.WriteString(m.in(colourOf(state), strings.Repeat(glyphs[state], cells)))
	}
	return b.String()
}

// rolloutRows say how the rollout goes.
func (m *model) rolloutRows(s *sheet) {
	r := m.report.Status.Rollout
	if r == nil {
		return
	}
	line := present.RolloutLine(r, m.now)
	if len(r.Failed) > 0 {
		line += fmt.Sprintf(", %d failed", len(r.Failed))
	}
	s.row("rollout", "", line)
	if width := min(40, m.width-label-2); len(r.Nodes) > 0 && r.Ended.IsZero() && width > 0 {
		done := min(r.Done, len(r.Nodes)) * width / len(r.Nodes)
		s.add(pad("", label) + "[" + m.in(green, strings.Repeat("█", done)) + strings.Repeat("░", width-done) + "]")
	}
	if r.Ended.IsZero() && r.Halted != "" {
		s.row("halted", red, r.Halted+"; to continue, commit a change or press R")
	}
	if r.Ended.IsZero() {
		s.row("canaries", "", present.CanariesLine(r, m.report.Status.Nodes, m.now))
	}
	if r.Queued != nil {
		s.row("queued", yellow, present.RevisionLine(*r.Queued)+", until the rollout has ended or is halted")
	}
}

func (m *model) approvalsPage(s *sheet) {
	r := &m.report.Status
	if len(r.Waiting) > 0 {
		s.title("Waiting for approval: erases data (A approves all of it)")
		s.row("set", "", r.Approve)
	}
	for _, l := range r.Waiting {
		s.item("!", present.LossLine(l))
	}
	header := false
	for _, n := range r.Nodes {
		if n.Approve == "" {
			continue
		}
		if !header {
			s.title("Nodes that wait for their own approval (open the node, then press a)")
			header = true
		}
		s.item("!", n.Name+": "+n.Approve)
	}
	if len(s.lines) == 0 {
		s.add("Nothing waits for approval.")
	}
	if len(r.Ledger) > 0 {
		s.title("Approved")
	}
	for _, e := range slices.Backward(r.Ledger) {
		s.item("-", fmt.Sprintf("%s: %s, by %s; %s", e.Loss.Node, e.Loss.Action, e.Source, e.Result()))
	}
}

func (m *model) rolloutPage(s *sheet) {
	r := m.report.Status.Rollout
	if r == nil {
		s.add("There has been no rollout yet.")
		return
	}
	m.rolloutRows(s)
	if f := m.report.Plan.Forecast; f != nil && len(f.Order) > 0 {
		s.row("forecast", "", "about "+say.Rough(time.Duration(f.Makespan))+" for the current plan. "+f.Basis)
		for _, p := range f.Path[:min(len(f.Path), mostNewest)] {
			s.row("", "", fmt.Sprintf("critical path: %s to %s  %s: %s", say.Rough(time.Duration(p.From)), say.Rough(time.Duration(p.To)), p.Node, p.What))
		}
		for _, w := range f.Warnings {
			s.row("warning", yellow, w)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Failed)) {
		s.row("failed", red, name+": "+r.Failed[name])
	}
	if len(r.Nodes) > 0 {
		s.title("Nodes in rollout order")
	}
	now := make(map[string]*site.NodeStatus, len(m.report.Status.Nodes))
	for i := range m.report.Status.Nodes {
		now[m.report.Status.Nodes[i].Name] = &m.report.Status.Nodes[i]
	}
	for _, name := range r.Nodes[:min(len(r.Nodes), mostListed)] {
		if n := now[name]; n != nil {
			s.add(m.nodeRow(n, min(24, max(8, m.width/3)), false))
		} else {
			s.add("  " + clean(name) + "  is no longer in the design")
		}
	}
	s.more(len(r.Nodes)-mostListed, "on page 2")
}

func (m *model) findingsPage(s *sheet) {
	all := m.report.Findings
	for _, f := range all[:min(len(all), mostListed)] {
		colour := map[site.Severity]string{site.SeverityError: red, site.SeverityWarning: yellow}[f.Severity]
		s.row(string(f.Severity), colour, f.String())
		s.row("", "", f.Others())
		s.row("", "", f.Why)
		s.row("", "", f.Fix)
	}
	s.more(len(all)-mostListed, "in `slipway status --output json`")
	ofMachines := 0
	for _, n := range m.report.Status.Nodes {
		for _, f := range n.Findings[:min(len(n.Findings), max(0, mostListed-ofMachines))] {
			s.row("machine", yellow, n.Name+": "+f.String())
		}
		ofMachines += len(n.Findings)
	}
	s.more(ofMachines-mostListed, "findings of machines, on the pages of their nodes")
	if len(s.lines) == 0 {
		s.add("There are no findings.")
	}
}

func (m *model) eventsPage(s *sheet) {
	if len(m.events) == 0 {
		s.text("No event is in the daemon's memory, which a restart empties. Older events are on the pages of the nodes.")
	}
	m.eventRows(s, backlog, true)
}

// eventRows are the newest events, the newest first; whole, or in one line each.
func (m *model) eventRows(s *sheet, most int, whole bool) {
	for _, e := range slices.Backward(m.events[max(0, len(m.events)-most):]) {
		who := "site"
		if e.Node != "" {
			who = clean(e.Node)
		}
		m.eventRow(s, pad(who, 12)+" ", e, whole)
	}
}

// eventColours are those of slipway events.
var eventColours = map[site.EventKind]string{
	site.EventFailed: red, site.EventDone: green, site.EventOrder: magenta, site.EventRollout: cyan, site.EventDesign: cyan,
}

// eventRow is one event, with who it is about.
func (m *model) eventRow(s *sheet, who string, e site.Event, whole bool) {
	when := e.When.Local().Format(time.TimeOnly)
	if m.now.Sub(e.When) > 12*time.Hour {
		when = e.When.Local().Format("01-02 15:04")
	}
	text := clean(present.EventLine(e))
	if e.Took > 0 {
		text += " (" + say.Rough(time.Duration(e.Took)) + ")"
	}
	kind := clean(string(e.Kind))
	head := pad(when, 12) + who + m.in(eventColours[e.Kind], pad(kind, 8))
	wide := 12 + ansi.StringWidth(who) + 8
	if !whole || wide > s.width/2 {
		s.add(head + text)
		return
	}
	for i, line := range wrapped(text, s.width-wide) {
		if i > 0 {
			head = strings.Repeat(" ", wide)
		}
		s.add(head + line)
	}
}
