package site

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// now is the present of these tests, and ago a time before it.
var now = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

func ago(minutes int) time.Time { return now.Add(-time.Duration(minutes) * time.Minute) }

// told is a timeline in words: minutes ago, state and text of each span, then the steps.
func told(t NodeTimeline) string {
	var all []string
	minutes := func(s Span) string {
		return fmt.Sprintf("%.0f-%.0f", now.Sub(s.From).Minutes(), now.Sub(s.To).Minutes())
	}
	for _, s := range t.States {
		text := minutes(s.Span) + " " + string(s.State)
		if s.State == "" {
			text += "? " + s.Text
		}
		if s.Quarantined {
			text += " quarantined"
		}
		all = append(all, text)
	}
	for _, s := range t.Steps {
		text := minutes(s.Span) + " step " + s.Text + " " + string(s.Ended)
		if s.Open {
			text += "open"
		}
		if s.Unknown {
			text += " since unknown"
		}
		all = append(all, text)
	}
	return strings.Join(all, "\n")
}

func TestNodeTimelineClaimsWhatWasObserved(t *testing.T) {
	seq := uint64(0)
	event := func(minutes int, kind EventKind, s State) Event {
		seq++
		return Event{Seq: seq, When: ago(minutes), Node: "n1", Kind: kind, State: s, Text: string(kind)}
	}
	took := func(e Event, minutes int) Event {
		e.Took = Duration(time.Duration(minutes) * time.Minute)
		return e
	}
	held := func(e Event) Event {
		e.Quarantined = true
		return e
	}
	old := Watched{Since: ago(10000)}
	for name, c := range map[string]struct {
		status  *NodeStatus
		events  []Event
		watched Watched
		from    time.Time
		want    string
	}{
		"nothing": {watched: old, from: ago(60), want: "60-0 ? no event of this time is kept"},
		"the state of now, without events": {status: &NodeStatus{State: InSync, Since: ago(90), Seen: ago(0)}, watched: old, from: ago(60),
			want: "60-0 in-sync"},
		"the state of now, known for part of the time": {status: &NodeStatus{State: Blocked, Since: ago(30)}, watched: old, from: ago(60),
			want: "60-30 ? no event of this time is kept\n30-0 blocked"},
		"states one after the other": {status: &NodeStatus{State: InSync, Since: ago(10), Seen: ago(0)}, watched: old, from: ago(60),
			events: []Event{event(100, EventState, Blocked), event(40, EventState, Progressing), event(10, EventState, InSync)},
			want:   "60-40 blocked\n40-10 progressing\n10-0 in-sync"},
		"a state that a later one without an event has ended": {status: &NodeStatus{State: Unknown, Since: ago(5)}, watched: old, from: ago(60),
			events: []Event{event(40, EventState, InSync)}, want: "60-40 ? no event of this time is kept\n40-5 in-sync\n5-0 unknown"},
		"no daemon": {status: &NodeStatus{State: InSync, Since: ago(100), Seen: ago(0)}, from: ago(60), events: []Event{event(100, EventState, InSync)},
			watched: Watched{Since: ago(10000), Absences: []Span{{From: ago(200), To: ago(180)}, {From: ago(50), To: ago(20)}}},
			want:    "60-50 in-sync\n50-20 ? no daemon acted for the site\n20-0 in-sync"},
		"no daemon where nothing is kept either": {status: &NodeStatus{State: InSync, Since: ago(10), Seen: ago(0)}, from: ago(60),
			watched: Watched{Since: ago(10000), Absences: []Span{{From: ago(50), To: ago(20)}}},
			want:    "60-50 ? no event of this time is kept\n50-20 ? no daemon acted for the site\n20-10 ? no event of this time is kept\n10-0 in-sync"},
		"a node that is gone": {from: ago(60), watched: old, events: []Event{event(100, EventState, InSync), event(30, EventOrder, "")},
			want: "60-30 in-sync\n30-0 ? the site no longer has this node"},
		"foreign, and not looked at any more": {status: &NodeStatus{State: Foreign, Since: ago(100), Seen: ago(25), Stale: map[Facet]time.Time{FacetPower: ago(25)}}, watched: old, from: ago(60),
			events: []Event{event(100, EventState, Foreign)}, want: "60-25 foreign\n25-0 ? the machine was not looked at since"},
		"no daemon now, and a node that is gone": {from: ago(60), events: []Event{event(100, EventState, InSync)},
			watched: Watched{Since: ago(10000), Absences: []Span{{From: ago(50), To: ago(0)}}},
			want:    "60-50 ? the site no longer has this node\n50-0 ? no daemon acted for the site"},
		"before it was recorded whether a daemon ran": {status: &NodeStatus{State: InSync, Since: ago(100), Seen: ago(0)}, from: ago(60),
			watched: Watched{Since: ago(30)}, events: []Event{event(100, EventState, InSync)},
			want: "60-30 ? not recorded: this is before Slipway recorded when it looks at machines\n30-0 in-sync"},
		"nothing recorded of when a daemon ran": {status: &NodeStatus{State: InSync, Since: ago(100), Seen: ago(0)}, from: ago(60), events: []Event{event(100, EventState, InSync)},
			want: "60-0 ? not recorded: this is before Slipway recorded when it looks at machines"},
		"not looked at any more": {status: &NodeStatus{State: InSync, Since: ago(100), Seen: ago(25), Stale: map[Facet]time.Time{FacetPower: ago(25)}}, watched: old, from: ago(60),
			events: []Event{event(100, EventState, InSync)}, want: "60-25 in-sync\n25-0 ? the machine was not looked at since"},
		"a machine that does not answer is in the state that says so": {status: &NodeStatus{State: Retrying, Since: ago(20), Seen: ago(25), Stale: map[Facet]time.Time{FacetPower: ago(25)}}, watched: old, from: ago(60),
			events: []Event{event(100, EventState, InSync), event(20, EventState, Retrying)}, want: "60-20 in-sync\n20-0 retrying"},
		"quarantine": {status: &NodeStatus{State: Blocked, Since: ago(10), Quarantined: &Hold{}}, watched: old, from: ago(60),
			events: []Event{event(100, EventState, InSync), held(event(10, EventState, Blocked))}, want: "60-10 in-sync\n10-0 blocked quarantined"},
		"steps": {watched: old, from: ago(60), events: []Event{
			took(event(50, EventDone, ""), 20), event(45, EventBegun, ""), event(40, EventFailed, ""), event(35, EventBegun, ""), event(30, EventBegun, ""), event(25, EventDropped, ""), event(20, EventFailed, ""), event(10, EventBegun, "")},
			want: "60-0 ? no event of this time is kept\n60-50 step done done\n45-40 step failed failed\n35-30 step begun open\n30-25 step dropped dropped\n20-20 step failed failed since unknown\n10-0 step begun open"},
		"a clock that was set back": {status: &NodeStatus{State: InSync, Since: ago(-30), Seen: ago(0)}, watched: old, from: ago(60),
			events: []Event{event(50, EventState, Blocked), event(-30, EventState, InSync)}, want: "60-50 ? no event of this time is kept\n50-0 blocked"},
	} {
		t.Run(name, func(t *testing.T) {
			got := TimelineOf("n1", c.status, c.events, c.watched, c.from, now)
			if told(got) != c.want {
				t.Errorf("got\n%s\nwant\n%s", told(got), c.want)
			}
			at := got.From
			for _, s := range got.States {
				if !s.From.Equal(at) || !s.To.After(s.From) {
					t.Errorf("%v begins where %v ends", s, at)
				}
				at = s.To
			}
			if !at.Equal(got.To) {
				t.Errorf("the states end at %v, not %v", at, got.To)
			}
		})
	}
}

// However many events there are, a timeline has some hundred of them, and says how many it leaves out.
func TestNodeTimelineIsBounded(t *testing.T) {
	var events []Event
	for i := range 100_000 {
		e := Event{Seq: uint64(i + 1), When: now.Add(time.Duration(i-100_000) * time.Second), Kind: EventState, State: States[i%len(States)]}
		events = append(events, e)
	}
	got := TimelineOf("n1", nil, events, Watched{Since: ago(1e6)}, now.Add(-1000*time.Second), now)
	if len(got.Events) != 500 || got.Left != 500 || len(got.States) > 502 {
		t.Errorf("%d events, %d left, %d states", len(got.Events), got.Left, len(got.States))
	}
	all := TimelineOf("n1", nil, events, Watched{Since: ago(1e6)}, time.Time{}, now)
	if len(all.Events) != 500 || all.Left != 3100 || now.Sub(all.From) != time.Hour {
		t.Errorf("all: %d events, %d left, from %v", len(all.Events), all.Left, all.From)
	}
	if got := TimelineOf("n1", nil, nil, Watched{}, time.Time{}, now); got.From != ago(60) || len(got.States) != 1 {
		t.Errorf("without events: %+v", got)
	}
}

// Absences are bounded: a list that forgets one knows nothing of the time before.
func TestWatched(t *testing.T) {
	w := Watched{}.With(Span{From: time.Time{}, To: ago(10_000)})
	if !w.Since.Equal(ago(10_000)) || len(w.Absences) > 0 {
		t.Errorf("at first %+v", w)
	}
	if w = w.With(Span{From: ago(9_000), To: ago(8_998)}); len(w.Absences) > 0 {
		t.Errorf("a short one: %+v", w)
	}
	for i := range 70 {
		w = w.With(Span{From: ago(8_000 - 100*i), To: ago(7_990 - 100*i)})
	}
	if len(w.Absences) != 64 || !w.Since.Equal(ago(7_990-500)) || !w.Absences[0].From.Equal(ago(8_000-600)) {
		t.Errorf("%d absences since %v", len(w.Absences), w.Since)
	}
	if w = w.With(Span{From: ago(0), To: ago(60)}); len(w.Absences) != 64 {
		t.Error("a clock that was set back is an absence")
	}
}
