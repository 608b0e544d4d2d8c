package watch

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

// small is a terminal that has no room for more than what is most important.
const small = 10 // lines

// View is the screen.
func (m *model) View() tea.View {
	v := tea.NewView(strings.Join(m.screen(), "\n"))
	v.AltScreen = true
	return v
}

// screen is the lines of the terminal, never more and never wider than it has room for.
func (m *model) screen() []string {
	lines := m.head()
	shown, first := m.shown()
	for i := range m.room() {
		if i < len(shown) {
			lines = append(lines, fit(shown[i], m.width))
		} else {
			lines = append(lines, "")
		}
	}
	lines = append(lines, m.foot(first)...)
	return lines[:min(len(lines), m.height)]
}

// room is how many lines the page has.
func (m *model) room() int { return max(1, m.height-len(m.head())-m.footHeight()) }

// footHeight is how many lines the foot has: the keys make room for what is said where the terminal is small.
func (m *model) footHeight() int {
	if m.height < small {
		return len(m.saidLines())
	}
	return len(m.saidLines()) + 1
}

// leastRoom is how many lines a question has, also under a long head and above a long answer.
const leastRoom = 3

// saidLines are what came of the last order, wrapped. What has no room is left out of the middle, with a sign: an
// answer begins with its verdict and ends with the command that helps.
func (m *model) saidLines() []string {
	lines := wrapped(clean(m.said), m.width)
	others := len(m.head()) + 1
	if m.height >= small {
		others++ // the keys
	}
	if m.ask != nil {
		others += leastRoom - 1
	}
	most := max(1, m.height-others)
	switch {
	case len(lines) <= most:
		return lines
	case most < 3:
		lines[most-1] += " …"
		return lines[:most]
	}
	first := max(1, (most-1)/3)
	return slices.Concat(lines[:first], []string{"…"}, lines[len(lines)-(most-1-first):])
}

// head is the verdict, the pages, and what keeps the view or Slipway from being what it seems.
func (m *model) head() []string {
	s := &m.report.Status
	lines := m.verdict()
	if m.height >= small {
		lines = append(lines, m.tabs())
	}
	if m.lost != nil {
		text := fmt.Sprintf("NO ANSWER for %s: what you see is as of %s. Trying again. (%s)", present.Age(m.since, m.now), m.heard.Local().Format(time.TimeOnly), clean(m.lost.Error()))
		lines = append(lines, m.in(red+";"+reverse, pad(text, m.width)))
	}
	lines = append(lines, m.incidentLines()...)
	if m.height < small {
		return lines
	}
	if s.ObserveOnly != "" {
		lines = append(lines, m.in(yellow, fit("NOT ACTING: "+clean(s.ObserveOnly), m.width)))
	}
	if s.Paused != nil {
		lines = append(lines, m.in(yellow, fit("PAUSED "+clean(present.HoldLine(*s.Paused, m.now)), m.width)))
	}
	return append(lines, "")
}

// mostVerdict is how many lines the verdict has at most.
const mostVerdict = 3

// verdict is the site with its nodes by state, in one line where that has room.
func (m *model) verdict() []string {
	s := &m.report.Status
	parts := []string{m.in(bold, "site "+clean(s.Site)) + " "}
	for i, c := range m.sum.verdict {
		part := m.in(colourOf(c.State), c.Text)
		if i < len(m.sum.verdict)-1 {
			part += ","
		}
		parts = append(parts, part)
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(m.sum.caveat, ", "), ", ") {
		if part != "" {
			parts[len(parts)-1] += ","
			parts = append(parts, part)
		}
	}
	lines, most := []string{""}, mostVerdict
	if m.height < small {
		most = 1
	}
	for i, part := range parts {
		last := len(lines) - 1
		if i > 0 && len(lines) < most && ansi.StringWidth(lines[last])+1+ansi.StringWidth(part) > m.width {
			lines = append(lines, "     "+part)
			continue
		}
		if i > 0 {
			part = " " + part
		}
		lines[last] += part
	}
	for i := range lines {
		lines[i] = fit(lines[i], m.width)
	}
	return lines
}

// tabs are the pages with their keys, and how much waits there.
func (m *model) tabs() string {
	r := &m.report
	names := [pages]string{"overview", "nodes", "approvals", "rollout", "findings", "events"}
	counts := [pages]int{nodes: len(r.Status.Nodes), approvals: m.sum.waiting, findings: len(r.Findings)}
	var parts []string
	for p, name := range names {
		text := fmt.Sprintf("%d %s", p+1, name)
		if m.width < 72 {
			text = fmt.Sprintf("%d %.4s", p+1, name)
		}
		if counts[p] > 0 {
			text += fmt.Sprintf(" (%d)", counts[p])
		}
		if page(p) == m.at {
			text = m.in(reverse, "["+text+"]")
		} else {
			text = " " + text + " "
		}
		parts = append(parts, text)
	}
	return fit(strings.Join(parts, ""), m.width)
}

// shown is the part of what is open that there is room for, and where it begins, as text.
func (m *model) shown() (lines []string, place string) {
	var all []string
	top := 0
	switch {
	case m.ask != nil:
		all, top = m.questionLines(), m.ask.top
		room := m.questionRoom()
		lines, place = window(all, top, room)
		for len(lines) < room {
			lines = append(lines, "")
		}
		return append(lines, m.prompt()...), place
	case m.help:
		all = m.helpLines()
	case m.at == nodes && m.node == nil:
		return m.nodeRows()
	default:
		scroll := m.scroll()
		all = m.body()
		*scroll = max(0, min(*scroll, len(all)-m.room()))
		top = *scroll
	}
	return window(all, top, m.room())
}

// window is the lines from one on, and which these are where there are more.
func window(all []string, top, room int) ([]string, string) {
	top = max(0, min(top, len(all)-room))
	end := min(len(all), top+room)
	if len(all) <= room {
		return all[top:end], ""
	}
	return all[top:end], fmt.Sprintf("%d–%d of %d", top+1, end, len(all))
}

// foot is what came of the last order, and the keys.
func (m *model) foot(place string) []string {
	keys := m.keys()
	if place != "" {
		keys = place + "  " + keys
	}
	lines := m.saidLines()
	for i := range lines {
		if lines[i] = fit(lines[i], m.width); m.wrong {
			lines[i] = m.in(red, lines[i])
		}
	}
	switch {
	case m.height >= small:
		return append(lines, m.in(dim, fit(keys, m.width)))
	case m.said != "":
		return lines
	}
	return []string{m.in(dim, fit(keys, m.width))}
}

// keys are the keys that do something here, and that the user may use.
func (m *model) keys() string {
	switch {
	case m.ask != nil:
		return "enter: confirm  esc: send nothing  arrows: scroll"
	case m.help:
		return "any key: close"
	case m.list.typing:
		return "enter: keep the filter  esc: remove it"
	}
	var keys []string
	switch {
	case m.node != nil:
		keys = append(keys, "esc: back")
	case m.at == nodes:
		keys = append(keys, "enter: open", "/: filter")
	}
	if n := m.subject(); n != nil {
		keys = append(keys, m.keysOf(n)...)
	} else if m.report.Status.Approve != "" && m.may(site.VerbApprove) {
		keys = append(keys, "A: approve")
	}
	if m.node == nil && m.at != nodes && m.may(site.VerbPause) {
		keys = append(keys, "P: pause all")
	}
	return strings.Join(append(keys, "?: help", "q: quit"), "  ")
}

// keysOf are the orders that make sense for a node.
func (m *model) keysOf(n *site.NodeStatus) (keys []string) {
	fits := map[site.Verb]bool{
		site.VerbApprove: n.Approval != "", site.VerbPause: n.Paused == nil, site.VerbResume: n.Paused != nil,
		site.VerbRetry: n.State != site.InSync, site.VerbQuarantine: n.Quarantined == nil, site.VerbRelease: n.Quarantined != nil,
	}
	for _, c := range commands {
		if fits[c.verb] && m.may(c.verb) {
			keys = append(keys, c.key+": "+c.does)
		}
	}
	return keys
}

// nodeRows are the rows of the nodes that are visible, and no others are made.
func (m *model) nodeRows() ([]string, string) {
	l, room := &m.list, m.room()
	var head []string
	if l.filter != "" || l.typing {
		cursor := ""
		if l.typing {
			cursor = "_"
		}
		head = append(head, "/"+clean(l.filter)+cursor+fmt.Sprintf("   %d of %d nodes", len(l.rows), len(m.report.Status.Nodes)))
	}
	room = max(1, room-len(head)-1)
	l.top = max(0, min(l.top, l.cursor, len(l.rows)-room))
	l.top = max(l.top, l.cursor-room+1)
	end := min(len(l.rows), l.top+room)
	wide := 4
	for _, i := range l.rows[l.top:end] {
		wide = max(wide, ansi.StringWidth(clean(m.report.Status.Nodes[i].Name)))
	}
	wide = min(wide, max(8, m.width/3))
	head = append(head, m.in(dim, "  "+pad("NODE", wide)+"  "+pad("STATE", 12)+pad("SINCE", 6)+"REASON"))
	for _, i := range l.rows[l.top:end] {
		head = append(head, m.nodeRow(&m.report.Status.Nodes[i], wide, m.report.Status.Nodes[i].Name == l.chosen))
	}
	if len(l.rows) == 0 {
		head = append(head, "  No node has this in its name, role, rack, state or reason")
	}
	if len(l.rows) <= room {
		return head, ""
	}
	return head, fmt.Sprintf("%d–%d of %d", l.top+1, end, len(l.rows))
}

func (m *model) nodeRow(n *site.NodeStatus, wide int, chosen bool) string {
	mark := "  "
	if chosen {
		mark = "> "
	}
	name := pad(clean(n.Name), wide)
	if chosen {
		name = m.in(reverse, name)
	}
	reason := clean(present.ReasonOf(*n, m.now))
	if n.Approve != "" || n.Person {
		reason = "[needs a person] " + reason
	}
	return fit(mark+name+"  "+m.in(colourOf(n.State), pad(clean(string(n.State)), 12))+pad(present.Age(n.Since, m.now), 6)+reason, m.width)
}

// questionRoom is how many lines of a question are shown at once.
func (m *model) questionRoom() int { return max(1, m.room()-len(m.prompt())) }

// questionLines is what a person is shown before an order is sent.
func (m *model) questionLines() []string {
	q := m.ask
	s := &sheet{ink: m.ink, width: m.width}
	for _, line := range wrapped(q.title, m.width) {
		s.add(m.in(bold+";"+yellow, line))
	}
	for _, text := range q.says {
		s.text(text)
	}
	if len(q.loses) > 0 {
		s.title("What happens to machines:")
	}
	for _, text := range q.loses {
		s.whole("-", text)
	}
	if len(q.plan) > 0 {
		s.title("The whole plan:")
	}
	for _, text := range q.plan {
		s.text(text)
	}
	return s.lines
}

// prompt is what has to be typed now.
func (m *model) prompt() []string {
	q := m.ask
	text := "Press enter to send it, esc to cancel"
	if len(q.asks) > 0 {
		text = map[string]string{forReason: "Reason (others will read it): ", forYes: "Type yes to send it: "}[q.asks[0]] + tail(clean(q.input), m.width-30) + "_"
	}
	if m.changed(q.order) {
		return []string{m.in(red, fit("What waits for approval has changed. Press esc, and read it again.", m.width))}
	}
	return []string{m.in(bold, fit(text, m.width))}
}

// tail is the end of a text that is being typed.
func tail(text string, width int) string {
	if over := ansi.StringWidth(text) - max(8, width); over > 0 {
		return "…" + ansi.TruncateLeft(text, over+1, "")
	}
	return text
}

// helpLines explain the keys.
func (m *model) helpLines() []string {
	s := &sheet{ink: m.ink, width: m.width}
	s.title("Keys")
	for _, k := range [][2]string{
		{"1 … 6, tab", "overview, nodes, approvals, rollout, findings, events"},
		{"j k ↓ ↑", "down and up; page up and down, g and G for the first and the last"},
		{"/", "filter nodes by name, role, rack, state or reason; several words must all fit; esc removes it"},
		{"enter, esc", "open the node under the cursor, go back"},
		{"?, q", "this help, quit"},
	} {
		s.row(k[0], "", k[1])
	}
	s.title("Commands: lower case for the node, capital letters for the whole site")
	for _, c := range commands {
		text := c.does
		if !m.may(c.verb) {
			text += " (your role does not allow it)"
		}
		s.row(c.key+" "+strings.ToUpper(c.key), "", text)
	}
	s.row("", "", "Each command first shows what it does and what is lost, and sends nothing before you confirm it.")
	if m.who != nil {
		s.title("You are " + clean(m.who.Caller.String()))
	}
	return s.lines
}
