package record

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

func TestRollout(t *testing.T) {
	s := open(t, t.TempDir())
	b, ctx := s.Site("berlin"), t.Context()
	r := &site.RolloutStatus{
		Revision: site.Revision{ID: "abc"}, Since: day, Canaries: []string{"n00000"}, Proven: day.Add(time.Hour),
		Failed: map[string]string{"n00002": "no effect"}, Halted: "one of one may fail", Queued: &site.Revision{ID: "def"},
	}
	for i := range 20_000 {
		r.Nodes = append(r.Nodes, fmt.Sprintf("n%05d", i))
	}
	written := func() (bytes int) {
		got, err := s.kv.Get(ctx, "/slipway/v1/berlin/rollout/nodes")
		must(t, err)
		return int(got.Kvs[0].Version)
	}
	for done := range 5 {
		r.Done = done
		must(t, b.PutRollout(ctx, r))
	}
	if n := written(); n != 1 {
		t.Errorf("the list of nodes was written %d times, want once", n)
	}
	r.Nodes = r.Nodes[1:]
	must(t, b.PutRollout(ctx, r))
	s, b, snap := reopen(t, s, "berlin")
	same(t, "rollout", snap.Rollout, r)
	must(t, b.PutRollout(ctx, nil))
	if s, b, snap = reopen(t, s, "berlin"); snap.Rollout != nil {
		t.Errorf("forgotten, and there is %v", snap.Rollout)
	}
	must(t, b.PutRollout(ctx, r))
	_, _, snap = reopen(t, s, "berlin")
	same(t, "rollout again", snap.Rollout, r)
}

// A forecast that is recorded again and again leaves no files behind.
func TestForecastLeavesNoFiles(t *testing.T) {
	s := open(t, t.TempDir())
	b := s.Site("berlin")
	f := &site.ForecastAtStart{Rollout: day, Nodes: map[string]site.Span{}}
	for try := range 4 {
		for i := range 20_000 {
			at := day.Add(time.Duration(rand.Int64N(1e15)))
			f.Nodes[fmt.Sprintf("n%05d", i)] = site.Span{From: at, To: at.Add(time.Duration(rand.Int64N(1e15)))}
		}
		must(t, b.PutForecast(t.Context(), f))
		must(t, b.PutForecast(t.Context(), f)) // the same
		files, err := filepath.Glob(filepath.Join(s.files(), "*"))
		if must(t, err); len(files) != 1 {
			t.Fatalf("after %d forecasts: %q", try+1, files)
		}
	}
	_, _, snap := reopen(t, s, "berlin")
	same(t, "forecast", snap.Forecast, f)
}

// What was expected at the start outlives a restart. It is only shown: one that is damaged, or whose
// file is gone, keeps no daemon from starting.
func TestForecastAtStart(t *testing.T) {
	s := open(t, t.TempDir())
	b, ctx := s.Site("berlin"), t.Context()
	f := &site.ForecastAtStart{Rollout: day, Nodes: map[string]site.Span{"n1": {}, "n2": {From: day, To: day.Add(time.Hour)}}}
	must(t, b.PutForecast(ctx, f))
	s, b, snap := reopen(t, s, "berlin")
	same(t, "forecast", snap.Forecast, f)
	for i := range 20_000 { // which is a file
		at := day.Add(time.Duration(rand.Int64N(1e15)))
		f.Nodes[fmt.Sprintf("n%05d", i)] = site.Span{From: at, To: at.Add(time.Duration(rand.Int64N(1e15)))}
	}
	must(t, b.PutForecast(ctx, f))
	s, b, snap = reopen(t, s, "berlin")
	same(t, "large forecast", snap.Forecast, f)
	must(t, b.put(ctx, "forecast", "no forecast"))
	s, b, snap = reopen(t, s, "berlin")
	if snap.Forecast != nil {
		t.Errorf("of what is damaged: %v", snap.Forecast)
	}
	must(t, b.PutForecast(ctx, f))
	files, err := filepath.Glob(filepath.Join(s.files(), "*"))
	if must(t, err); len(files) == 0 {
		t.Fatal("a large forecast has no file")
	}
	for _, file := range files {
		must(t, os.Remove(file))
	}
	if _, _, snap = reopen(t, s, "berlin"); snap.Forecast != nil {
		t.Errorf("of a file that is gone: %v", snap.Forecast)
	}
}

func TestTook(t *testing.T) {
	s := open(t, t.TempDir())
	b, ctx := s.Site("berlin"), t.Context()
	took := site.History{
		site.Like("Contoso 3500/RX ü", site.ActionInstall): {site.Duration(time.Minute), site.Duration(time.Hour)},
		site.Like("", site.ActionPowerOff):                 {site.Duration(time.Second)},
	}
	for like, all := range took {
		must(t, b.PutTook(ctx, like, all[:1]))
		must(t, b.PutTook(ctx, like, all))
	}
	_, _, snap := reopen(t, s, "berlin")
	same(t, "history", snap.History, took)
}

func event(node string, i int) site.Event {
	return site.Event{Seq: uint64(i), When: day.Add(time.Duration(i) * time.Second), Node: node, Kind: site.EventDone, Text: fmt.Sprintf("event %d", i)}
}

func TestEvents(t *testing.T) {
	s := open(t, t.TempDir())
	b, ctx := s.Site("berlin"), t.Context()
	const nodes = 300
	must(t, b.Accept(ctx, site.Revision{ID: "abc"}, designOf(nodes)))
	before := s.revision(t)
	for round := range 3 {
		var some []site.Event
		for i := range 100 {
			some = append(some, event("", 100*round+i))
		}
		for i := range 16 {
			for n := range nodes {
				some = append(some, event(nodeOfDesign(n).Name, 16*round+i))
			}
		}
		must(t, b.AppendEvents(ctx, some))
	}
	if n := s.revision(t) - before; n != 3*3 {
		t.Errorf("wrote %d transactions, want three for 301 keys each time", n)
	}
	must(t, b.AppendEvents(ctx, nil))
	must(t, b.AppendEvents(ctx, []site.Event{event("a/b ü", 1)})) // neither designed nor recorded
	_, b, _ = reopen(t, s, "berlin")
	for node, want := range map[string]struct{ first, last int }{"": {300 - siteEvents, 299}, "n00007": {48 - nodeEvents, 47}} {
		got, err := b.Events(ctx, node)
		must(t, err)
		var all []site.Event
		for i := want.first; i <= want.last; i++ {
			all = append(all, event(node, i))
		}
		same(t, "events of "+node, got, all)
	}
	must(t, b.DeleteNode(ctx, "n00007"))
	for _, node := range []string{"n00007", "a/b ü", "never"} {
		if got, err := b.Events(ctx, node); err != nil || got != nil {
			t.Errorf("events of %s: %v, %v; want none", node, got, err)
		}
	}
}

// TestLongEvents holds that what is kept of events stays small whatever their
// texts, and that the last one is kept in any case.
// What was ordered of a node is known when its history is gone with it.
func TestOrdersAreOfTheSiteToo(t *testing.T) {
	s := open(t, t.TempDir())
	b, ctx := s.Site("berlin"), t.Context()
	order := event("n1", 2)
	order.Kind, order.By = site.EventOrder, "ann"
	must(t, b.AppendEvents(ctx, []site.Event{event("", 1), order, event("n1", 3), event("", 4)}))
	must(t, b.DeleteNode(ctx, "n1"))
	_, b, _ = reopen(t, s, "berlin")
	got, err := b.Events(ctx, "")
	must(t, err)
	same(t, "events of the site", got, []site.Event{event("", 1), order, event("", 4)})
}

func TestLongEvents(t *testing.T) {
	s := open(t, t.TempDir())
	b, ctx, random := s.Site("berlin"), t.Context(), rand.New(rand.NewPCG(1, 2))
	long := func(i, size int) site.Event {
		e := event("", i)
		text := make([]rune, size)
		for i := range text {
			text[i] = rune(0x4e00 + random.IntN(20_000)) // hard to compress
		}
		e.Text = string(text)
		return e
	}
	for i := range 40 {
		must(t, b.AppendEvents(ctx, []site.Event{long(i, 1000)}))
	}
	got, err := b.Events(ctx, "")
	must(t, err)
	if len(got) < 8 || got[len(got)-1].Seq != 39 {
		t.Errorf("%d events are kept, the last of which is %d", len(got), got[len(got)-1].Seq)
	}
	if n := len(files(t, s)); n != 0 {
		t.Errorf("%d files for events", n)
	}
	must(t, b.AppendEvents(ctx, []site.Event{long(40, 100_000)}))
	_, b, _ = reopen(t, s, "berlin")
	got, err = b.Events(ctx, "")
	must(t, err)
	if len(got) != 1 || got[0].Seq != 40 {
		t.Errorf("%d events are kept, want the one that is too long for others", len(got))
	}
}
