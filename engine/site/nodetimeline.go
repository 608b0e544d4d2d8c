package site

import (
	"cmp"
	"slices"
	"time"
)

// Watched says when Slipway looked at the machines of a site at all.
type Watched struct {
	// Since is from when on this is known.
	Since time.Time `json:"since,omitzero"`
	// Absences are the times since then in which no daemon acted for the site, oldest first, without those that are
	// too short to be told from the time between two looks.
	Absences []Span `json:"absences,omitempty"`
}

// Bounds of Watched.
const (
	// LeastAbsence is as long as three looks at an in-sync machine take by default.
	LeastAbsence = 3 * time.Minute
	mostAbsences = 64
)

// With is Watched with one more absence. A longer list forgets its oldest one, and knows nothing of the time before.
func (w Watched) With(absence Span) Watched {
	if w.Since.IsZero() { // what was before is not known either
		return Watched{Since: absence.To}
	}
	absence.From = later(absence.From, w.Since)
	if absence.To.Sub(absence.From) < LeastAbsence {
		return w
	}
	w.Absences = append(slices.Clone(w.Absences), absence)
	if over := len(w.Absences) - mostAbsences; over > 0 {
		w.Since = w.Absences[over-1].To
		w.Absences = w.Absences[over:]
	}
	return w
}

// NodeTimeline is what is recorded of a node over time.
type NodeTimeline struct {
	Node string `json:"node"`
	// From and To are the time that it is about. To is now, as exactly as a picture of that time shows.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// States are the states of the node, oldest first. They cover the whole time; where nothing is known, one has no
	// state, and says why.
	States []StateSpan `json:"states"`
	// Steps are the steps that Slipway carried out, oldest first.
	Steps []StepSpan `json:"steps"`
	// Events are the last events of that time, oldest first, and Left is how many earlier ones are left out.
	Events []Event `json:"events"`
	Left   int     `json:"left,omitempty"`
}

// StateSpan is a time in which a node was in one state, or in which nothing is known of it.
type StateSpan struct {
	Span
	// State is empty where nothing is known; Text then says why. Otherwise Text is that of the event that began it.
	State State  `json:"state,omitempty"`
	Text  string `json:"text"`
	// Quarantined is set while a person had the machine kept off.
	Quarantined bool `json:"quarantined,omitempty"`
	// Seq is the event that began it; 0 where none is kept.
	Seq uint64 `json:"seq,omitempty"`
}

// StepSpan is a step over time.
type StepSpan struct {
	Span
	// Text is the step in one line.
	Text string `json:"text"`
	// Ended is how it ended: done, failed or dropped; empty while it is under way, or where that is not known.
	Ended EventKind `json:"ended,omitempty"`
	// Open is set for a step that was begun and whose end is not known, and Unknown for one whose beginning is not.
	Open    bool `json:"open,omitempty"`
	Unknown bool `json:"unknown,omitempty"`
	// Seq is the last of its events.
	Seq uint64 `json:"seq,omitempty"`
}

// mostOnTimeline bounds the events of a timeline, and so everything on it.
const mostOnTimeline = 500

// TimelineOf is the timeline of a node from a time on, by its events, oldest first. A zero from is the oldest of what is
// kept. status is the node as it is now; nil for one that is not known any more.
func TimelineOf(node string, status *NodeStatus, events []Event, w Watched, from, now time.Time) NodeTimeline {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Or(a.When.Compare(b.When), cmp.Compare(a.Seq, b.Seq)) })
	for i := range events {
		events[i].When = earlier(events[i].When, now) // a clock that was set back since
	}
	kept := len(events)
	all := events[max(0, kept-mostOnTimeline):]
	if from.IsZero() {
		from = now.Add(-time.Hour)
		if len(all) > 0 {
			from = earlier(from, all[0].When)
		}
		if status != nil && len(all) == 0 && !status.Since.IsZero() {
			from = earlier(from, status.Since)
		}
	}
	t := NodeTimeline{Node: node, From: from, To: now, States: []StateSpan{}, Steps: []StepSpan{}, Events: []Event{}}
	for i, e := range events {
		switch {
		case e.When.Before(from):
		case i < kept-len(all):
			t.Left++
		default:
			t.Events = append(t.Events, e)
		}
	}
	t.States = statesOf(status, all, w, from, now)
	t.Steps = stepsOf(all, from, now)
	return t
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Why nothing is known of a time.
const (
	notKept     = "no event of this time is kept"
	notWatched  = "no daemon acted for the site"
	notRecorded = "not recorded: this is before Slipway recorded when it looks at machines"
	notLooked   = "the machine was not looked at since"
	notThere    = "the site no longer has this node"
)

// statesOf are the states of a time. A state lasts until the next one, but for what nobody can know: the time before
// the first one, in which no daemon ran, and after the last look.
func statesOf(status *NodeStatus, events []Event, w Watched, from, now time.Time) []StateSpan {
	var known []StateSpan
	add := func(s StateSpan) {
		if n := len(known); n > 0 {
			known[n-1].To = s.From
		}
		known = append(known, s)
	}
	for _, e := range events {
		if e.Kind == EventState && e.State != "" {
			add(StateSpan{Span: Span{From: e.When, To: now}, State: e.State, Text: e.Text, Quarantined: e.Quarantined, Seq: e.Seq})
		}
	}
	if n := len(known); status != nil {
		known = withPresent(known, status, now)
	} else if n > 0 { // it was there when its last event happened, and left some time after
		gone := later(known[n-1].From, events[len(events)-1].When)
		known[n-1].To = gone
		known = append(known, StateSpan{Span: Span{From: gone, To: now}, Text: notThere})
	}
	gaps := gapsOf(status, w, now)
	all := []StateSpan{}
	at := from
	put := func(s StateSpan) {
		s.From, s.To = later(s.From, at), earlier(s.To, now)
		if s.To.After(s.From) {
			all = append(all, s)
			at = s.To
		}
	}
	for _, s := range known {
		if s.From.After(at) {
			for _, piece := range without(StateSpan{Span: Span{From: at, To: s.From}, Text: notKept}, gaps) {
				put(piece)
			}
		}
		for _, piece := range without(s, gaps) {
			put(piece)
		}
	}
	for _, piece := range without(StateSpan{Span: Span{From: at, To: now}, Text: notKept}, gaps) {
		put(piece)
	}
	return all
}

// withPresent adds the state of now where no event of it is kept.
func withPresent(known []StateSpan, s *NodeStatus, now time.Time) []StateSpan {
	text := string(s.State)
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	present := StateSpan{Span: Span{From: earlier(s.Since, now), To: now}, State: s.State, Text: text, Quarantined: s.Quarantined != nil}
	if n := len(known); n > 0 {
		last := &known[n-1]
		if last.State == s.State && last.Quarantined == present.Quarantined {
			return known
		}
		present.From = later(present.From, last.From)
		last.To = present.From
	}
	return append(known, present)
}

// gapsOf are the times of which nothing can be known, in the order in which they are told.
func gapsOf(status *NodeStatus, w Watched, now time.Time) []StateSpan {
	var gaps []StateSpan
	for _, a := range w.Absences {
		gaps = append(gaps, StateSpan{Span: a, Text: notWatched})
	}
	switch { // a state that comes of a look that failed is known, whenever the machine was seen
	case status == nil || status.State != InSync && status.State != Progressing && status.State != Foreign:
	case status.Seen.IsZero():
		gaps = append(gaps, StateSpan{Span: Span{From: status.Since, To: now}, Text: notLooked})
	case now.Sub(status.Seen) >= LeastAbsence && len(status.Stale) > 0:
		gaps = append(gaps, StateSpan{Span: Span{From: status.Seen, To: now}, Text: notLooked})
	}
	since := w.Since
	if since.IsZero() { // nothing is recorded yet, as before the first term of a daemon
		since = now
	}
	return append(gaps, StateSpan{Span: Span{To: since}, Text: notRecorded})
}

// without are the pieces of a span, those of which nothing is known in their places.
func without(s StateSpan, gaps []StateSpan) []StateSpan {
	pieces := []StateSpan{s}
	for _, g := range gaps {
		var next []StateSpan
		for _, p := range pieces {
			from, to := later(p.From, g.From), earlier(p.To, g.To)
			if p.State == "" && p.Text != notKept && p.Text != notThere || !to.After(from) {
				next = append(next, p)
				continue
			}
			before, hole, after := p, g, p
			before.To, after.From = from, to
			hole.From, hole.To = from, to
			for _, x := range []StateSpan{before, hole, after} {
				if x.To.After(x.From) {
					next = append(next, x)
				}
			}
		}
		pieces = next
	}
	return pieces
}

// stepsOf are the steps of a time. One step is under way at a time.
func stepsOf(events []Event, from, now time.Time) []StepSpan {
	steps := []StepSpan{}
	var open *StepSpan
	end := func(s StepSpan) {
		if s.To.After(from) {
			s.From = later(s.From, from)
			steps = append(steps, s)
		}
	}
	for _, e := range events {
		switch e.Kind {
		case EventBegun:
			if open != nil {
				open.To = e.When
				end(*open)
			}
			open = &StepSpan{Span: Span{From: e.When, To: now}, Text: e.Text, Open: true, Seq: e.Seq}
		case EventDone, EventFailed, EventDropped:
			s := StepSpan{Span: Span{From: e.When.Add(-time.Duration(e.Took)), To: e.When}, Text: e.Text, Ended: e.Kind, Unknown: e.Took == 0, Seq: e.Seq}
			if open != nil {
				s.From, s.Unknown = open.From, false
			}
			open = nil
			end(s)
		}
	}
	if open != nil {
		end(*open)
	}
	return steps
}
