package watch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	tea "charm.land/bubbletea/v2"

	"github.com/slipway-gitops/slipway/engine/site"
)

// read is all that a view shows of its question.
func (v *view) read() string {
	var b strings.Builder
	for range 500 {
		text := v.text()
		b.WriteString(text)
		if v.ask == nil || v.ask.top+v.questionRoom() >= len(v.questionLines()) {
			break
		}
		v.keys("down")
	}
	return b.String()
}

// disks are the serial numbers of the disks of a machine, as a loss names them.
func disks(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("ZL%018d", i))
	}
	return all
}

// All that an approval erases is shown before it is sent, also on a machine with a shelf of 300 disks.
func TestWhatIsErasedIsNeverCut(t *testing.T) {
	r := berlin()
	serials := disks(300)
	r.Status.Waiting[0].Disks = strings.Join(serials, ", ")
	v := opened(t, r).keys("A")
	text := v.read()
	for _, serial := range serials {
		if !strings.Contains(text, serial) {
			t.Fatalf("disk %s is not shown", serial)
		}
	}
	v.keys("'yes", "enter")
	if want := []site.Order{{Verb: site.VerbApprove, Digest: setDigest}}; cmp.Diff(want, v.daemon.orders) != "" {
		t.Errorf("sent %v\n%s", v.daemon.orders, v.text())
	}
}

// What is longer than any person reads here is refused, and the refusal names the command that shows it.
func TestQuestionTooLong(t *testing.T) {
	r := berlin()
	r.Status.Waiting[0].Disks = strings.Join(disks(10_000), ", ")
	v := opened(t, r).keys("A")
	if v.ask != nil || !strings.Contains(v.text(), "`slipway approve`") {
		t.Errorf("asks:\n%s", v.text())
	}
	r.Status.Nodes[5].Approve = strings.Repeat("x", longestItem+1)
	v = opened(t, r).keys("/", "'storage-1", "enter", "a")
	if v.ask != nil || !strings.Contains(v.text(), "`slipway approve") {
		t.Errorf("asks:\n%s", v.text())
	}
}

// A terminal that has no room for the question sends nothing.
func TestQuestionWithoutRoom(t *testing.T) {
	for _, size := range [][2]int{{80, 4}, {12, 24}} {
		v := opened(t, berlin())
		v.tell(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		v.keys("A")
		v.read()
		v.keys("'yes", "enter")
		if len(v.daemon.orders) > 0 {
			t.Errorf("%v: sent %v", size, v.daemon.orders)
		}
	}
}

// An approval of a node shows every step that it lets happen, not only the first.
func TestApprovalOfNodeShowsItsSteps(t *testing.T) {
	r := berlin()
	plan := site.NodePlan{Node: "storage-1"}
	for i := range 60 {
		plan.Steps = append(plan.Steps, site.Step{Node: "storage-1", Action: site.ActionBIOS, Impact: site.ImpactReboot, Changes: []site.Change{{Field: fmt.Sprintf("setting-%d", i), Have: "a", Want: "b"}}})
	}
	r.Plan.Nodes = append(r.Plan.Nodes, plan)
	for _, keys := range [][]string{{"a"}, {"r"}} {
		v := opened(t, r).keys("/", "'storage-1", "enter").keys(keys...)
		text := v.read()
		for i := range 60 {
			if !strings.Contains(text, fmt.Sprintf("setting-%d", i)) {
				t.Fatalf("%v: step %d is not shown:\n%s", keys, i, text)
			}
		}
	}
}
