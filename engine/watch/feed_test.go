package watch

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/site"
)

// heardBy is what a feed has sent.
type heardBy struct {
	mu  sync.Mutex
	all []message
}

func (h *heardBy) send(m message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, m)
}

// take gives what was sent since it was called last.
func (h *heardBy) take() []message {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.all
	h.all = nil
	return all
}

// happen has the daemon tell an event, with another report after it.
func (f *fake) happen(text string) {
	f.mu.Lock()
	f.tag++
	e := site.Event{Seq: 1, Text: text}
	if n := len(f.events); n > 0 {
		e.Seq = f.events[n-1].Seq + 1
	}
	f.events = append(f.events, e)
	h := f.hearing
	f.mu.Unlock()
	if h != nil {
		h.Event(e)
	}
}

func (f *fake) set(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down = down; down {
		close(f.cut)
	}
}

func (f *fake) looks() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.looked
}

func TestFeedFollowsEventsAndAsksSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, h := &fake{report: berlin(), verbs: []access.Verb{access.Read}}, &heardBy{}
		ctx, cancel := context.WithCancel(t.Context())
		f := &feed{daemon: d, tag: "0", send: h.send}
		go f.run(ctx)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		h.take()
		before := d.looks()
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if got := d.looks() - before; got != 0 {
			t.Errorf("%d questions although nothing has happened", got)
		}

		d.happen("one")
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		var events, reports int
		for _, m := range h.take() {
			switch m.(type) {
			case happened:
				events++
			case reported:
				reports++
			}
		}
		if events != 1 || reports != 1 {
			t.Errorf("%d events and %d reports after an event", events, reports)
		}

		before = d.looks()
		for range 100 { // a storm of 10 seconds
			d.happen("storm")
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if got := d.looks() - before; got < 5 || got > 11 {
			t.Errorf("%d questions in a storm of 10 s", got)
		}
		before = d.looks()
		time.Sleep(time.Minute)
		if got := d.looks() - before; got < 1 || got > 3 {
			t.Errorf("%d questions in a quiet minute", got)
		}
		cancel()
	})
}

func TestFeedWaitsForADaemonThatIsRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, h := &fake{report: berlin()}, &heardBy{}
		ctx, cancel := context.WithCancel(t.Context())
		f := &feed{daemon: d, tag: "0", send: h.send}
		go f.run(ctx)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		h.take()
		d.set(true)
		synctest.Wait()
		if got := h.take(); len(got) != 1 || got[0].(lost).err == nil {
			t.Fatalf("got %v when the daemon was gone", got)
		}
		time.Sleep(10 * time.Second)
		d.happenedWhileDown()
		d.set(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		var back, report bool
		for _, m := range h.take() {
			switch m := m.(type) {
			case lost:
				back = m.err == nil
			case reported:
				report = true
			}
		}
		if !back || !report {
			t.Errorf("back %t, report %t after the daemon came back", back, report)
		}
		cancel()
	})
}

func (f *fake) happenedWhileDown() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tag++
}

// Events that are not kept any more are asked for again.
func TestFeedAsksAgainAfterAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, h := &fake{report: berlin()}, &heardBy{}
		ctx, cancel := context.WithCancel(t.Context())
		f := &feed{daemon: d, tag: "0", send: h.send}
		go f.run(ctx)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		h.take()
		d.mu.Lock()
		hearing := *d.hearing
		d.events = []site.Event{{Seq: 9, Text: "kept"}}
		d.mu.Unlock()
		hearing.Gap()
		synctest.Wait()
		all := false
		for _, m := range h.take() {
			if m, ok := m.(happened); ok && m.all && len(m.events) == 1 {
				all = true
			}
		}
		if !all {
			t.Error("the events were not asked for")
		}
		cancel()
	})
}

var _ Daemon = (*control.Client)(nil)
