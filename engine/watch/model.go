package watch

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/site"
)

// page is one of the pages of a site.
type page int

// The pages, in the order of their keys.
const (
	overview page = iota
	nodes
	approvals
	rollout
	findings
	events
	pages
)

// Messages of the view to itself.
type (
	ticked time.Time
	// remembered is the history of a node.
	remembered struct {
		node   string
		events []site.Event
		err    error
	}
	// carried is what came of an order.
	carried struct {
		order site.Order
		text  string
		err   error
	}
)

// model is what the view knows and shows. Its methods are called by one goroutine.
type model struct {
	ctx    context.Context
	daemon Daemon
	site   string
	ink
	width, height int
	now           time.Time

	report  site.Report
	sum     summary
	version int       // counts the reports and the events
	heard   time.Time // when the report came
	events  []site.Event
	who     *control.Identity // nil until the daemon has said it
	lost    error             // why the daemon does not answer
	since   time.Time         // when it was lost

	at    page
	top   [pages]int // the first line that is shown
	list  list
	node  *detail   // that is open, or nil
	ask   *question // that is open, or nil
	help  bool
	said  string // what came of the last order
	wrong bool   // it failed

	made sheetOf
}

// detail is the page of one node.
type detail struct {
	name    string
	history []site.Event
	err     error
	loaded  bool
	top     int
}

// summary is what every page shows of a report. It is made once: a large site has many nodes to count.
type summary struct {
	verdict   []site.StateCount
	caveat    string
	waiting   int                  // losses and nodes
	incidents []site.IncidentState // that are not over
}

func summaryOf(s *site.Status) summary {
	sum := summary{s.Verdict(), s.Caveat(), len(s.Waiting), ongoing(s)}
	for i := range s.Nodes {
		if s.Nodes[i].Approve != "" {
			sum.waiting++
		}
	}
	return sum
}

func newModel(ctx context.Context, d Daemon, o Options) *model {
	return &model{ctx: ctx, daemon: d, site: o.Site, ink: ink(o.Colour), width: 80, height: 24, now: time.Now()}
}

// Init begins to tell the time.
func (m *model) Init() tea.Cmd { return tick() }

func tick() tea.Cmd { return tea.Tick(time.Second, func(t time.Time) tea.Msg { return ticked(t) }) }

// Update takes what has happened.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = cmp.Or(msg.Width, 80), cmp.Or(msg.Height, 24)
	case tea.KeyPressMsg:
		return m, m.press(msg.String(), msg.Text)
	case tea.PasteMsg:
		return m, m.press("", msg.Content)
	case ticked:
		m.now = time.Time(msg)
		return m, tick()
	case reported:
		m.report, m.heard = msg.Report, m.now
		m.sum = summaryOf(&m.report.Status)
		m.version++
		m.list.keep(m.report.Status.Nodes)
		return m, m.remember()
	case happened:
		m.hear(msg)
	case identified:
		m.who = &msg.Identity
	case lost:
		if m.lost == nil && msg.err != nil {
			m.since = m.now
		}
		m.lost = msg.err
	case remembered:
		if m.node != nil && m.node.name == msg.node {
			m.node.history, m.node.err, m.node.loaded = msg.events, msg.err, true
			m.version++
		}
	case carried:
		m.said, m.wrong = msg.text, msg.err != nil
		if msg.err != nil {
			m.said = failed(msg.order, msg.err)
		}
	}
	return m, nil
}

// hear adds events to those that are shown. After a gap the stream repeats some that were asked for.
func (m *model) hear(h happened) {
	if h.all {
		m.events = nil
	}
	for _, e := range h.events {
		if n := len(m.events); n == 0 || e.Seq > m.events[n-1].Seq {
			m.events = append(m.events, e)
		}
	}
	m.events = slices.Clone(m.events[max(0, len(m.events)-backlog):])
	m.version++
}

// remember asks for the history of the node that is open.
func (m *model) remember() tea.Cmd {
	if m.node == nil {
		return nil
	}
	name := m.node.name
	return func() tea.Msg {
		history, err := m.daemon.History(m.ctx, m.site, name)
		return remembered{name, history, err}
	}
}

// may says whether the user may use a verb on anything of the site. The daemon has the last word.
func (m *model) may(v site.Verb) bool {
	return m.who == nil || slices.Contains(m.who.Verbs[m.report.Status.Site], access.Verb(v))
}

// press takes a key, by its name, and the text that it writes.
func (m *model) press(key, text string) tea.Cmd {
	switch {
	case key == "ctrl+c":
		return tea.Quit
	case key == "ctrl+z":
		return tea.Suspend
	case m.ask != nil:
		return m.answer(key, text)
	case m.help:
		m.help = false
		return nil
	case m.list.typing:
		m.list.write(key, text, m.report.Status.Nodes)
		return nil
	}
	m.said = ""
	if verb, all, ok := ordered(key); ok {
		return m.begin(verb, all)
	}
	switch key {
	case "q":
		return tea.Quit
	case "?":
		m.help = true
	case "esc", "backspace", "left", "h":
		m.back()
	case "tab":
		m.turn((m.at + 1) % pages)
	case "shift+tab":
		m.turn((m.at + pages - 1) % pages)
	case "1", "2", "3", "4", "5", "6":
		m.turn(page(key[0] - '1'))
	case "/":
		m.turn(nodes)
		m.list.typing = true
	case "enter", "right":
		return m.open()
	default:
		m.move(key)
	}
	return nil
}

// turn shows a page.
func (m *model) turn(to page) { m.at, m.node = to, nil }

// back leaves a node, or takes the filter away.
func (m *model) back() {
	if m.node == nil && m.at == nodes {
		m.list.filter = ""
		m.list.choose(m.report.Status.Nodes)
	}
	m.node = nil
}

// open shows the node under the cursor.
func (m *model) open() tea.Cmd {
	n := m.list.node(m.report.Status.Nodes)
	if m.at != nodes || m.node != nil || n == nil {
		return nil
	}
	m.node = &detail{name: n.Name}
	return m.remember()
}

// move moves the cursor of the list, or the lines of another page.
func (m *model) move(key string) {
	by, ok := map[string]int{
		"j": 1, "down": 1, "k": -1, "up": -1, "pgdown": m.room(), "space": m.room(), "ctrl+f": m.room(), "pgup": -m.room(), "ctrl+b": -m.room(),
		"g": -1 << 30, "home": -1 << 30, "G": 1 << 30, "end": 1 << 30,
	}[key]
	if !ok {
		return
	}
	if m.at == nodes && m.node == nil {
		m.list.move(by, m.report.Status.Nodes)
		return
	}
	top := m.scroll()
	*top = max(0, min(*top+by, len(m.body())-m.room()))
}

// scroll is the first line that is shown of the page that is open.
func (m *model) scroll() *int {
	if m.node != nil {
		return &m.node.top
	}
	return &m.top[m.at]
}

// subject is the node that an order is for: the one that is open or under the cursor; nil for none.
func (m *model) subject() *site.NodeStatus {
	if m.node != nil {
		return m.status(m.node.name)
	}
	if m.at == nodes {
		return m.list.node(m.report.Status.Nodes)
	}
	return nil
}

// pointed is the name of the node that an order would be for; empty for none. It may have left the design.
func (m *model) pointed() string {
	switch {
	case m.node != nil:
		return m.node.name
	case m.at == nodes:
		return m.list.chosen
	}
	return ""
}

// status is the status of a node; nil if there is no such node any more.
func (m *model) status(name string) *site.NodeStatus {
	all := m.report.Status.Nodes
	i := slices.IndexFunc(all, func(n site.NodeStatus) bool { return n.Name == name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// list is the nodes that the filter leaves, by their places in the report, and the one under the cursor.
type list struct {
	filter string
	typing bool
	rows   []int
	cursor int // a place in rows
	top    int
	chosen string // the node under the cursor, which may have left the design
}

// node is the one under the cursor; nil for none, or if the one that was there has left the design.
func (l *list) node(all []site.NodeStatus) *site.NodeStatus {
	if l.cursor >= len(l.rows) || all[l.rows[l.cursor]].Name != l.chosen {
		return nil
	}
	return &all[l.rows[l.cursor]]
}

// choose applies the filter to nodes. The cursor stays on its node if that fits.
func (l *list) choose(all []site.NodeStatus) {
	l.apply(all, false)
	l.move(0, all)
}

// keep applies the filter to the nodes of a new report. The cursor stays on its node until a person moves
// it, also if the node no longer fits: an order is for the node that was chosen.
func (l *list) keep(all []site.NodeStatus) {
	if l.chosen == "" {
		l.choose(all)
		return
	}
	l.apply(all, true)
	l.cursor = max(0, min(l.cursor, len(l.rows)-1))
}

// apply finds the nodes that fit the filter, with the chosen one in any case if that is to be kept.
func (l *list) apply(all []site.NodeStatus, kept bool) {
	words := strings.Fields(strings.ToLower(l.filter))
	l.rows = l.rows[:0]
	at := -1
	for i := range all {
		if !fits(&all[i], words) && !(kept && all[i].Name == l.chosen) {
			continue
		}
		if all[i].Name == l.chosen {
			at = len(l.rows)
		}
		l.rows = append(l.rows, i)
	}
	if at >= 0 {
		l.cursor = at
	}
}

// fits says whether a node has all the words in its name, role, rack, state or reason.
func fits(n *site.NodeStatus, words []string) bool {
	for _, w := range words {
		if !strings.Contains(strings.ToLower(n.Name), w) && !strings.Contains(strings.ToLower(n.Role), w) && !strings.Contains(strings.ToLower(n.Rack), w) &&
			!strings.Contains(string(n.State), w) && !strings.Contains(strings.ToLower(n.Reason), w) {
			return false
		}
	}
	return true
}

// move moves the cursor by so many nodes.
func (l *list) move(by int, all []site.NodeStatus) {
	l.cursor = max(0, min(l.cursor+by, len(l.rows)-1))
	if l.chosen = ""; l.cursor < len(l.rows) {
		l.chosen = all[l.rows[l.cursor]].Name
	}
}

// write takes a key of the filter.
func (l *list) write(key, text string, all []site.NodeStatus) {
	switch key {
	case "enter":
		l.typing = false
		return
	case "esc":
		l.typing, l.filter = false, ""
	case "down", "up":
		l.typing = false
		return
	default:
		l.filter = typed(l.filter, key, text)
	}
	l.choose(all)
}

// mostTyped is how many bytes of text are taken: as many as the API takes of a reason.
const mostTyped = 1000

// typed is a line of input after a key.
func typed(line, key, text string) string {
	switch key {
	case "backspace":
		runes := []rune(line)
		return string(runes[:max(0, len(runes)-1)])
	case "ctrl+u":
		return ""
	}
	if line += site.Printable(text); len(line) > mostTyped {
		return strings.ToValidUTF8(line[:mostTyped], "")
	}
	return line
}
