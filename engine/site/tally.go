package site

import (
	"fmt"
	"strings"
)

// Tally sums up nodes, one after the other: the verdict on a site is made in one look at each of them.
type Tally struct {
	all    int
	counts map[State]int
	// state is that of the last node, and alike how many with it came one after the other, which are not in counts yet: most
	// nodes beside each other are in the same state.
	state State
	alike int
	// What no state shows, see Caveat.
	silent, differ, unseen, unknown, unacted int
}

// Add looks at one more node.
func (t *Tally) Add(n *NodeStatus) {
	t.Count(n.State)
	count := func(sum *int, is bool) {
		if is {
			*sum++
		}
	}
	count(&t.silent, n.isSilent())
	count(&t.differ, n.isUnlinked(LinksDiffer))
	count(&t.unseen, n.isUnlinked(LinksUnknown))
	count(&t.unknown, n.SystemHealth.State == HealthUnknown)
	count(&t.unacted, len(n.NotActedOn) > 0)
}

// Count counts one more node by its state alone.
func (t *Tally) Count(s State) {
	if s != t.state {
		t.settle()
		t.state = s
	}
	t.all++
	t.alike++
}

func (t *Tally) settle() {
	if t.counts == nil {
		t.counts = map[State]int{}
	}
	if t.alike > 0 {
		t.counts[t.state] += t.alike
		t.alike = 0
	}
}

// Counts is how many nodes are in each state; no state has none.
func (t *Tally) Counts() map[State]int {
	t.settle()
	return t.counts
}

// StateCount is how many nodes are in a state, in words.
type StateCount struct {
	State State
	Text  string
}

// Verdict has one part per state with nodes: "11/12 in-sync", "1 progressing".
func (t *Tally) Verdict() []StateCount {
	counts := t.Counts()
	parts := []StateCount{{InSync, fmt.Sprintf("%d/%d %s", counts[InSync], t.all, InSync)}}
	for _, state := range States {
		if state != InSync && counts[state] > 0 {
			parts = append(parts, StateCount{state, fmt.Sprintf("%d %s", counts[state], state)})
		}
	}
	return parts
}

// Caveat is the end of a verdict with what no state shows. It counts the systems that do not answer, the nodes whose links
// differ or are unknown, those of unknown health, and those with parts of the design that no driver acts on. It is empty if
// there are none.
func (t *Tally) Caveat() (text string) {
	switch t.silent {
	case 0:
	case 1:
		text = ", 1 whose system does not answer"
	default:
		text = fmt.Sprintf(", %d whose systems do not answer", t.silent)
	}
	if t.differ > 0 {
		text += fmt.Sprintf(", %d whose links differ", t.differ)
	}
	if t.unseen > 0 {
		text += fmt.Sprintf(", %d of unknown links", t.unseen)
	}
	if t.unknown > 0 {
		text += fmt.Sprintf(", %d of unknown health", t.unknown)
	}
	if t.unacted > 0 {
		text += fmt.Sprintf(", %d with parts not acted on", t.unacted)
	}
	return text
}

// InWords is the verdict in one line: "11/12 in-sync, 1 progressing, 2 whose links differ".
func (t *Tally) InWords() string {
	var parts []string
	for _, c := range t.Verdict() {
		parts = append(parts, c.Text)
	}
	return strings.Join(parts, ", ") + t.Caveat()
}
