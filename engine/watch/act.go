package watch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// orderTime is how long an order may take.
const orderTime = 40 * time.Second

// commands are the orders by their keys. In lower case they are for a node, in upper case for the whole site.
var commands = []struct {
	key  string
	verb site.Verb
	does string
}{
	{"a", site.VerbApprove, "approve"},
	{"p", site.VerbPause, "pause"},
	{"u", site.VerbResume, "resume"},
	{"r", site.VerbRetry, "retry"},
	{"x", site.VerbQuarantine, "quarantine"},
	{"l", site.VerbRelease, "release"},
}

// ordered is the order of a key, and whether it is for the whole site.
func ordered(key string) (v site.Verb, all, ok bool) {
	for _, c := range commands {
		if key == c.key || key == strings.ToUpper(c.key) {
			return c.verb, key != c.key, true
		}
	}
	return "", false, false
}

// question is what a person is shown before an order is sent, and what it takes to send it.
type question struct {
	order site.Order
	title string
	says  []string // sentences of ours
	loses []string // exactly what is lost, one item each, never cut
	plan  []string // the lines of what is planned, never cut
	asks  []string // what has to be typed, in this order
	input string
	top   int
}

// What a question asks for.
const (
	forReason = "reason"
	forYes    = "yes"
)

// begin opens the question of an order, or says why there is none.
func (m *model) begin(v site.Verb, all bool) tea.Cmd {
	n := m.subject()
	if v == site.VerbApprove && m.node == nil && m.at != nodes {
		all = true // the set is approved where it is shown
	}
	m.wrong = true
	switch {
	case m.lost != nil:
		m.said = "The daemon does not answer, so this screen may be out of date. Nothing was sent"
	case !m.may(v):
		m.said = fmt.Sprintf("Your role at this daemon does not allow %s", v)
	case !all && n == nil && m.pointed() != "":
		m.said = fmt.Sprintf("%s is no longer in the design. Nothing was sent. Choose another node", clean(m.pointed()))
	case !all && n == nil:
		m.said = fmt.Sprintf("Choose a node first (2 lists them), or press %s for the whole site", strings.ToUpper(keyOf(v)))
	case all && m.heldByIncident(site.Order{Verb: v}) != "":
		m.said = m.heldByIncident(site.Order{Verb: v})
	case all:
		m.ask, m.said = m.ofSite(v)
	case m.heldByIncident(site.Order{Verb: v, Node: n.Name}) != "":
		m.said = m.heldByIncident(site.Order{Verb: v, Node: n.Name})
	default:
		m.ask, m.said = m.ofNode(v, n)
	}
	if m.ask != nil && m.ask.tooLong() {
		m.ask, m.said = nil, "Too long to show here; nothing was sent. Run "+m.ask.command()
	}
	return nil
}

// longestItem is how many bytes an item of a question has at most: more than the disks of any machine take.
const longestItem = 64 << 10

// tooLong says whether an item of the question is longer than a person reads.
func (q *question) tooLong() bool {
	return slices.ContainsFunc(slices.Concat(q.says, q.loses, q.plan), func(text string) bool { return len(text) > longestItem })
}

// command is the command that shows and sends the order of the question.
func (q *question) command() string {
	switch o := q.order; {
	case o.Verb == site.VerbApprove && o.Node == "":
		return "`slipway approve`"
	case o.Node == "":
		return fmt.Sprintf("`slipway %s --all`", o.Verb)
	default:
		return fmt.Sprintf("`slipway %s %s`", o.Verb, clean(o.Node))
	}
}

func keyOf(v site.Verb) string {
	for _, c := range commands {
		if c.verb == v {
			return c.key
		}
	}
	return ""
}

// ofSite is the question of an order for the whole site, or why there is none.
func (m *model) ofSite(v site.Verb) (*question, string) {
	s := &m.report.Status
	q := &question{order: site.Order{Verb: v}, title: fmt.Sprintf("%s: the whole site %s, %s", v, clean(s.Site), say.Count(len(s.Nodes), "node"))}
	switch v {
	case site.VerbApprove:
		if s.Approve == "" {
			if m.sum.waiting > 0 {
				return nil, "No destructive step waits for approval. Page 3 lists the nodes that need their own approval"
			}
			return nil, "Nothing waits for approval"
		}
		q.order.Digest = s.Approve
		q.title = "approve: what " + say.Count(len(s.Waiting), "destructive step") + " would erase"
		q.says = []string{"What is lost cannot be restored. You approve exactly this, once; anything added later needs its own approval. Digest " + s.Approve + "."}
		for _, l := range s.Waiting {
			q.loses = append(q.loses, present.LossLine(l))
		}
		q.asks = []string{forYes}
	case site.VerbPause:
		q.says = []string{"Slipway keeps observing every node and stops changing them. Work in progress on a machine stops before its next request.", "Nothing is lost."}
		q.asks = []string{forReason}
	case site.VerbQuarantine:
		q.says = []string{"EVERY MACHINE OF THE SITE is switched off at once, without asking its operating system, and stays off until it is released."}
		q.loses = []string{fmt.Sprintf("whatever runs on %s ends, and what is not written to disk is lost", say.Count(len(s.Nodes), "node"))}
		q.asks = []string{forReason, forYes}
	default:
		q.says = []string{sayOf(v, "")}
		q.loses = m.stepsOf("")
	}
	return q, ""
}

// ofNode is the question of an order for a node, or why there is none.
func (m *model) ofNode(v site.Verb, n *site.NodeStatus) (*question, string) {
	q := &question{order: site.Order{Verb: v, Node: n.Name}, title: fmt.Sprintf("%s: node %s, %s", v, clean(n.Name), clean(string(n.State)))}
	switch v {
	case site.VerbApprove:
		if n.Approval == "" {
			if m.report.Status.Approve != "" {
				return nil, fmt.Sprintf("%s needs no approval of its own. A approves the set on page 3", clean(n.Name))
			}
			return nil, fmt.Sprintf("Nothing waits for approval for %s", clean(n.Name))
		}
		q.order.Shown = n.Approval
		q.says = []string{"You approve exactly this, for the machine " + present.MachineOf(n.Machine) + ". Digest " + n.Approval + "."}
		q.loses = []string{n.Approve}
		q.plan = m.planOf(n.Name) // an approval is for all of it
		q.asks = []string{forYes}
	case site.VerbPause:
		q.says = []string{"Slipway keeps observing the node and stops changing it. Work in progress on its machine stops before the next request.", "Nothing is lost."}
		q.asks = []string{forReason}
	case site.VerbQuarantine:
		q.says = []string{"The machine is switched off at once, without asking its operating system, and stays off until it is released."}
		q.loses = []string{"whatever runs on " + n.Name + " ends, and what is not written to disk is lost"}
		q.asks = []string{forReason}
	default:
		q.says = []string{sayOf(v, n.Name)}
		q.loses = m.stepsOf(n.Name)
	}
	return q, ""
}

// sayOf is what an order does that ends a hold or a wait.
func sayOf(v site.Verb, node string) string {
	what := map[site.Verb]string{
		site.VerbResume:  "The pause ends, and Slipway continues with the plan.",
		site.VerbRetry:   "Slipway tries now instead of waiting, and tries a refused credential once more.",
		site.VerbRelease: "The quarantine ends. Slipway keeps the machine as designed: it powers it on if the design says on.",
	}[v]
	if v == site.VerbRetry && node == "" {
		what += " A halted rollout continues."
	}
	return what + " A destructive step still needs its approval."
}

// stepsOf are the steps that are planned for a node, or how many there are of each impact for the whole site.
func (m *model) stepsOf(node string) (all []string) {
	counts := map[site.Impact]int{}
	for _, p := range m.report.Plan.Nodes {
		for _, s := range p.Steps {
			counts[s.Impact]++
			if p.Node == node {
				all = append(all, fmt.Sprintf("planned, %s: %s", s.Impact, s.Summary()))
			}
		}
	}
	if node != "" {
		return all
	}
	for i := site.ImpactDestructive; i >= site.ImpactOnline; i-- {
		if counts[i] > 0 {
			all = append(all, fmt.Sprintf("planned, %s: %s", i, say.Count(counts[i], "step")))
		}
	}
	return all
}

// changed says whether what waits for approval is another thing than what the person was shown.
func (m *model) changed(o site.Order) bool {
	switch n := m.status(o.Node); {
	case o.Verb != site.VerbApprove:
		return false
	case o.Digest != "":
		return m.report.Status.Approve != o.Digest
	default:
		return n == nil || n.Approval != o.Shown
	}
}

// answer takes a key while a question is open.
func (m *model) answer(key, text string) tea.Cmd {
	q := m.ask
	switch key {
	case "esc":
		m.ask, m.said = nil, "Nothing was sent"
		m.wrong = false
	case "down", "pgdown", "up", "pgup":
		step := map[string]int{"down": 1, "up": -1, "pgdown": m.height / 2, "pgup": -m.height / 2}[key]
		q.top = max(0, min(q.top+step, len(m.questionLines())-m.questionRoom()))
	case "enter":
		return m.confirm()
	default:
		q.input = typed(q.input, key, text)
	}
	return nil
}

// leastWidth is the width of the least terminal in which a question can be read as a whole.
const leastWidth = 20

// confirm takes what was typed; after the last of it the order is sent as it was shown.
func (m *model) confirm() tea.Cmd {
	q := m.ask
	given := strings.TrimSpace(q.input)
	isCramped := m.width < leastWidth || m.height-len(m.head())-m.footHeight() < leastRoom
	isUnread := q.top+m.questionRoom() < len(m.questionLines())
	m.wrong, m.said = true, "" // from here on the foot may have another height
	switch {
	case m.lost != nil:
		m.said = "The daemon does not answer. Nothing was sent"
	case m.heldByIncident(q.order) != "":
		m.said = m.heldByIncident(q.order)
	case m.changed(q.order):
		m.said = "What waits for approval has changed. Press esc, and read it again"
	case isCramped:
		m.said = "Enlarge the terminal first: the question does not fit"
	case isUnread:
		m.said = "Read to the end first (down, page down)"
	case len(q.asks) > 0 && q.asks[0] == forReason && given == "":
		m.said = "Type a reason: others will want to know"
	case len(q.asks) > 0 && q.asks[0] == forYes && given != "yes":
		m.said = "Type yes to send it, or press esc"
	}
	if m.said != "" {
		return nil
	}
	if len(q.asks) > 0 {
		if q.asks[0] == forReason {
			q.order.Reason = given
		}
		q.asks, q.input = q.asks[1:], ""
		if len(q.asks) > 0 {
			return nil
		}
	}
	m.ask, m.said, m.wrong = nil, "Sent; waiting for the daemon", false
	order := q.order
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, orderTime)
		defer cancel()
		text, err := m.daemon.Do(ctx, m.site, order)
		return carried{order, text, err}
	}
}

// answers are the errors with which a daemon says that it did not carry out an order, and that of no daemon to send
// it to.
var answers = []error{site.ErrRefused, site.ErrNotFound, access.ErrDenied, control.ErrBadRequest, control.ErrWhoAreYou, control.ErrTooMany, control.ErrNoDaemon}

// failed says what an error means for an order. Without an answer that is known the order may have been carried out:
// a repetition without a look could switch a machine off twice.
func failed(o site.Order, err error) string {
	var broken *net.OpError
	isNotSent := errors.As(err, &broken) && broken.Op == "dial"
	if isNotSent || slices.ContainsFunc(answers, func(a error) bool { return errors.Is(err, a) }) {
		return err.Error()
	}
	whom, look := clean(o.Node), clean(o.Node)
	if o.Node == "" {
		whom, look = "the whole site", "its nodes"
	}
	return fmt.Sprintf("Slipway does not know whether %s of %s was carried out: %s. Before you repeat it, look at %s and at `slipway audit`", o.Verb, whom, clean(err.Error()), look)
}
