package watch

import (
	"fmt"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/slipway-gitops/slipway/engine/site"
)

// No event is no proof that nothing has happened: a restart empties the daemon's memory.
func TestNoEvents(t *testing.T) {
	v := opened(t, berlin())
	v.tell(happened{nil, true})
	text := v.keys("6").oneLine()
	if !strings.Contains(text, "No event is in the daemon's memory, which a restart empties. Older events are on the pages of the nodes.") || strings.Contains(text, "Nothing has happened") {
		t.Errorf("the events:\n%s", v.text())
	}
}

// What the page of findings leaves out is counted, also of the findings of machines.
func TestFindingsThatAreCutAreCounted(t *testing.T) {
	for _, of := range []int{1, mostListed + 200} { // all at one node, and one at each
		r := berlin()
		r.Findings = make([]site.Finding, mostListed+7)
		r.Status.Nodes = make([]site.NodeStatus, of)
		for i := range mostListed + 200 {
			n := &r.Status.Nodes[i%of]
			n.Findings = append(n.Findings, site.Finding{Message: fmt.Sprintf("machine finding %d.", i)})
		}
		v := opened(t, r).keys("5")
		text := strings.Join(v.body(), "\n")
		if !strings.Contains(text, "… 7 more ") || !strings.Contains(text, "… 200 more ") {
			t.Errorf("%d nodes: not counted: %s", of, text[len(text)-300:])
		}
		if !strings.Contains(text, "finding 999.") || strings.Contains(text, "finding 1000.") {
			t.Errorf("%d nodes: not %d findings of machines", of, mostListed)
		}
	}
}

// The view says things in plain words.
func TestPlainWords(t *testing.T) {
	r := berlin()
	r.Status.Notes = []string{"a note"}
	r.Status.Rollout.Halted = "2 of 4 nodes failed"
	for _, keys := range [][]string{nil, {"2"}, {"3"}, {"4"}, {"5"}, {"6"}, {"?"}, {"2", "j", "j", "j", "j", "enter"}, {"A"}, {"A", "enter"}, {"P"}, {"U"}, {"2", "p"}, {"2", "u"}, {"2", "a"}} {
		v := opened(t, r).keys(keys...)
		if v.node != nil {
			v.node.loaded = false
			v.version++
		}
		v.tell(tea.WindowSizeMsg{Width: 100, Height: 60})
		text := v.oneLine()
		for _, word := range []string{"go on", "goes on", "being asked for", "Worth knowing", "releases ", "of its own waits", "and erases", "Orders"} {
			if strings.Contains(text, word) {
				t.Errorf("%v: %q in\n%s", keys, word, v.text())
			}
		}
		if v.node != nil && !strings.Contains(text, "Loading the history") {
			t.Errorf("the history is not said to be loading:\n%s", v.text())
		}
	}
}
