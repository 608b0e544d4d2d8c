package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/site"
)

// fake is a daemon of one site. It answers and refuses as the engine and the API do.
type fake struct {
	mu      sync.Mutex
	report  site.Report
	tag     int
	events  []site.Event // oldest first
	down    bool
	orders  []site.Order // that were carried out
	refuses error        // in place of an answer
	looked  int
	verbs   []access.Verb
	hearing *control.Hearing // of the stream that is open
	cut     chan struct{}
	// connects is called before a stream is opened.
	connects func()
}

var errDown = errors.New("no daemon listens on /run/slipway/control.sock")

func (f *fake) Look(_ context.Context, _, tag string) (site.Report, string, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looked++
	now := fmt.Sprint(f.tag)
	if f.down {
		return site.Report{}, "", false, errDown
	}
	return f.report, now, tag != now, nil
}

// since are the events with a Seq above after.
func (f *fake) since(after uint64) (all []site.Event) {
	for _, e := range f.events {
		if e.Seq > after {
			all = append(all, e)
		}
	}
	return all
}

func (f *fake) Events(_ context.Context, _ string, after uint64) ([]site.Event, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return nil, errDown
	}
	return f.since(after), nil
}

// Stream goes on after an event as the API does: with a gap where that event is not kept any more, and with what
// happens from now on for 0.
func (f *fake) Stream(ctx context.Context, _ string, after uint64, h control.Hearing) error {
	if f.connects != nil {
		f.connects()
	}
	f.mu.Lock()
	if f.down {
		f.mu.Unlock()
		return errDown
	}
	var missed []site.Event
	isGap := false
	if after > 0 {
		missed = f.since(after)
		isGap = !slices.ContainsFunc(f.events, func(e site.Event) bool { return e.Seq == after })
	}
	cut := make(chan struct{})
	f.hearing, f.cut = &h, cut
	f.mu.Unlock()
	h.Opened()
	if isGap {
		h.Gap()
	}
	for _, e := range missed {
		h.Event(e)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-cut:
		return errDown
	}
}

func (f *fake) History(_ context.Context, _, node string) ([]site.Event, error) {
	return []site.Event{
		{When: noon.Add(-20 * time.Hour), Node: node, Kind: site.EventState, Text: "in-sync"},
		{When: noon.Add(-2 * time.Minute), Node: node, Kind: site.EventOrder, Text: "paused: power works", By: "ana"},
	}, nil
}

func (f *fake) WhoAmI(context.Context) (control.Identity, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return control.Identity{}, errDown
	}
	return control.Identity{Verbs: map[string][]access.Verb{"berlin": f.verbs}}, nil
}

func (f *fake) Do(_ context.Context, _ string, o site.Order) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch err := f.refusal(o); {
	case f.down:
		return "", errDown
	case f.refuses != nil:
		return "", f.refuses
	case err != nil:
		return "", err
	}
	f.orders = append(f.orders, o)
	return "done: " + string(o.Verb), nil
}

// refusal is why the daemon does not carry out an order.
func (f *fake) refusal(o site.Order) error {
	s := &f.report.Status
	i := slices.IndexFunc(s.Nodes, func(n site.NodeStatus) bool { return n.Name == o.Node })
	switch {
	case (o.Verb == site.VerbPause || o.Verb == site.VerbQuarantine) && o.Reason == "":
		return fmt.Errorf("%w: %s needs a \"reason\": others will want to know", control.ErrBadRequest, o.Verb)
	case o.Verb == site.VerbApprove && (o.Digest == "") == (o.Node == ""):
		return fmt.Errorf("%w: %s takes either \"digest\" or \"node\"", control.ErrBadRequest, o.Verb)
	case o.Verb != site.VerbApprove && o.Digest+o.Shown != "":
		return fmt.Errorf("%w: the daemon cannot read this order", control.ErrBadRequest)
	case o.Node != "" && i < 0 && (o.Verb != site.VerbRelease || o.Incident == ""):
		return fmt.Errorf("%w: site %s has no node %q", site.ErrNotFound, s.Site, o.Node)
	case o.Verb == site.VerbApprove && o.Node != "" && s.Nodes[i].Approval == "":
		return site.NothingToApprove(o.Node)
	case o.Verb == site.VerbApprove && o.Node != "" && s.Nodes[i].Approval != o.Shown:
		return fmt.Errorf("%w: what waits for approval of %s is not what you were shown; read it again: %s", site.ErrRefused, o.Node, s.Nodes[i].Approve)
	case o.Verb == site.VerbApprove && o.Node == "" && len(s.Waiting) == 0:
		return fmt.Errorf("%w: nothing waits for approval", site.ErrRefused)
	case o.Verb == site.VerbApprove && o.Node == "" && s.Approve != o.Digest:
		return fmt.Errorf("%w: nothing of a set %s waits for approval; what waits now is %s: read it with `slipway plan`", site.ErrRefused, o.Digest, s.Approve)
	case o.Verb == site.VerbRelease:
		return f.refusesRelease(o)
	}
	return nil
}

// refusesRelease is why an incident prevents a release.
func (f *fake) refusesRelease(o site.Order) error {
	var names []string
	for _, i := range f.report.Status.Incidents {
		if i.IsActive() && (o.Node == "" || slices.Contains(i.Unreleased(), o.Node)) {
			names = append(names, i.Name)
		}
	}
	switch {
	case o.Node == "" && len(names) > 0:
		return fmt.Errorf("%w: incident %s is not over, so nothing was released; release each node by its name, with `--incident NAME` where one has it", site.ErrRefused, names[0])
	case o.Incident != "" && len(names) == 0:
		return fmt.Errorf("%w: no incident %s holds this node", site.ErrRefused, o.Incident)
	case len(names) > 0 && !slices.Contains(names, o.Incident):
		return fmt.Errorf("%w: %s is part of incident %s, and what could be read there may still be known: %s If people have done what has to be done, run `slipway release %[2]s --incident %[3]s`",
			site.ErrRefused, o.Node, names[0], "1 secret to replace, and "+strings.Join(site.IncidentLeftOver, " "))
	}
	return nil
}

// What has changed at the daemon since the last report is refused there, and the view shows that.
func TestDaemonRefusesWhatHasChanged(t *testing.T) {
	for _, c := range []struct {
		what    string
		keys    []string
		change  func(*site.Status)
		refuses string
	}{
		{"another set", []string{"A", "'yes"}, func(s *site.Status) { s.Approve = nodeDigest }, "nothing of a set " + setDigest + " waits for approval; what waits now is " + nodeDigest},
		{"no set", []string{"A", "'yes"}, func(s *site.Status) { s.Approve, s.Waiting = "", nil }, "nothing waits for approval"},
		{"another question", []string{"/", "'storage-1", "enter", "a", "'yes"}, func(s *site.Status) { s.Nodes[5].Approval = setDigest }, "what waits for approval of storage-1 is not what you were shown"},
		{"no question", []string{"/", "'storage-1", "enter", "a", "'yes"}, func(s *site.Status) { s.Nodes[5].Approval = "" }, "nothing to approve for storage-1"},
		{"no node", []string{"2", "r"}, func(s *site.Status) { s.Nodes = s.Nodes[1:] }, `site berlin has no node "compute-1"`},
		{"an incident of the node", []string{"2", "l"}, func(s *site.Status) { hold(s, "compute-1") }, "run `slipway release compute-1 --incident new`"},
		{"an incident of the site", []string{"L"}, func(s *site.Status) { hold(s, "compute-1") }, "incident new is not over, so nothing was released"},
	} {
		v := opened(t, berlin())
		v.tell(tea.WindowSizeMsg{Width: 300, Height: 40})
		v.keys(c.keys...)
		now := berlin()
		c.change(&now.Status)
		v.daemon.report = now
		v.keys("enter")
		if len(v.daemon.orders) > 0 || !strings.Contains(v.oneLine(), c.refuses) {
			t.Errorf("%s: sent %v\n%s", c.what, v.daemon.orders, v.text())
		}
	}
}

// hold has an incident hold a node.
func hold(s *site.Status, node string) {
	s.Incidents = []site.IncidentState{{Name: "new", Acted: noon, Nodes: map[string]site.IncidentNode{node: {}}}}
}

// What happens while the feed connects is shown once.
func TestFeedMissesNothingWhileItConnects(t *testing.T) {
	for _, before := range [][]site.Event{nil, {{Seq: 6, Text: "five"}, {Seq: 7, Text: "six"}}} {
		synctest.Test(t, func(t *testing.T) {
			v := opened(t, berlin())
			d := v.daemon
			d.events = before
			d.connects = func() { d.happen("while it connects") }
			h := &heardBy{}
			f := &feed{daemon: d, tag: "0", send: h.send}
			go f.run(t.Context())
			time.Sleep(2 * time.Second)
			synctest.Wait()
			d.happen("later")
			synctest.Wait()
			for _, m := range h.take() {
				v.tell(m)
			}
			var shown []string
			for _, e := range v.events {
				shown = append(shown, e.Text)
			}
			if want := len(before) + 2; len(shown) != want || fmt.Sprint(shown[len(shown)-2:]) != "[while it connects later]" {
				t.Errorf("after %d events: shows %q", len(before), shown)
			}
		})
	}
}

// Events that come in the stream and in the list after a gap are shown once.
func TestEventsAreShownOnce(t *testing.T) {
	v := opened(t, berlin())
	three, four := site.Event{Seq: 3, Text: "three"}, site.Event{Seq: 4, Text: "four"}
	v.tell(happened{[]site.Event{three}, true}, happened{events: []site.Event{three, four}}, happened{events: []site.Event{four}})
	if len(v.events) != 2 || v.events[0].Seq != 3 || v.events[1].Seq != 4 {
		t.Errorf("shows %v", v.events)
	}
	v.tell(happened{[]site.Event{{Seq: 1}}, true}) // the daemon was restarted
	if len(v.events) != 1 {
		t.Errorf("shows %v", v.events)
	}
}
