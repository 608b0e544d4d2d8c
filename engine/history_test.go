package engine

import (
	"fmt"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// What a person ordered is kept when more happens than can be written, and when
// what could not be written is put back.
func TestOrdersAreKeptInAFullJournal(t *testing.T) {
	var j journal
	change := func() {
		for i := range latestEvents {
			j.add(site.Event{Node: "n1", Kind: site.EventState, Text: fmt.Sprint(i)})
		}
	}
	order := func(text string) { j.add(site.Event{Kind: site.EventOrder, By: "ann", Text: text}) }
	order("first")
	change()
	order("second")
	change()
	j.take()
	change()
	order("third")
	j.putBack()
	var orders []string
	kept := j.take()
	for i, ev := range kept {
		if ev.Kind == site.EventOrder {
			orders = append(orders, ev.Text)
		}
		if i > 0 && ev.Seq <= kept[i-1].Seq {
			t.Errorf("event %d is after event %d", kept[i-1].Seq, ev.Seq)
		}
	}
	if got := fmt.Sprint(orders); got != "[first second third]" || len(kept) != latestEvents {
		t.Errorf("%d events are kept, with the orders %s", len(kept), got)
	}
}
