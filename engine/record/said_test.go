package record

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// What an agent has said is read again after a restart, is bounded, and goes with its node.
func TestSaid(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	b := s.Site("berlin")
	load(t, b)
	ctx := t.Context()
	if lines, err := b.Said(ctx, "n1"); lines != nil || err != nil {
		t.Errorf("before: %v, %v", lines, err)
	}
	must(t, b.PutNode(ctx, "n1", recorded(1)))
	want := []site.Said{{Seq: 1, When: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Text: "unpacking"}, {Seq: 2, When: time.Date(2026, 3, 1, 12, 0, 1, 0, time.UTC), Text: "done"}}
	must(t, b.PutSaid(ctx, "n1", want))
	if got, err := b.Said(ctx, "n1"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	var long []site.Said // that nothing makes smaller
	dice := rand.New(rand.NewPCG(1, 2))
	for n := range 200 {
		text := ""
		for len(text) < 2000 {
			text += fmt.Sprintf("%x", dice.Uint64())
		}
		long = append(long, site.Said{Seq: uint64(n), Text: text})
	}
	must(t, b.PutSaid(ctx, "n1", long))
	got, err := b.Said(ctx, "n1")
	if err != nil || len(got) == 0 || len(got) > 100 || got[len(got)-1].Text != long[199].Text || len(filesOf(t, dir)) != 0 {
		t.Errorf("%d lines, %v, files %v", len(got), err, filesOf(t, dir))
	}
	must(t, b.DeleteNode(ctx, "n1"))
	must(t, b.PutSaid(ctx, "n1", want)) // while it was removed
	must(t, s.Close())
	s = open(t, dir)
	b = s.Site("berlin")
	load(t, b)
	if lines, err := b.Said(ctx, "n1"); lines != nil || err != nil {
		t.Errorf("of a node that is removed: %v, %v", lines, err)
	}
}
