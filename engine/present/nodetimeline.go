package present

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// NodeTimelineView is how the picture of a node over time is drawn.
type NodeTimelineView struct {
	// Width is its width in pixels, from 320 on.
	Width int
	// Link returns the address of an event in the history.
	Link func(seq uint64) string
}

// Measures of the picture in pixels.
const (
	nameWide  = 74 // of the names of lanes, where the picture is wide
	stateHigh = 24
	markApart = 24 // between two marks: those closer than that are one
	signWide  = 14
)

// StateSigns are the shapes of the states on pages, and eventSigns those of the kinds of events.
var (
	StateSigns = map[site.State]string{
		site.InSync: "✓", site.Progressing: "▶", site.Retrying: "↻", site.Blocked: "■", site.Stalled: "✕", site.Foreign: "◆", site.Paused: "‖", site.Unknown: "?",
	}
	eventSigns = map[site.EventKind]string{
		site.EventDesign: "□", site.EventState: "○", site.EventBegun: "▷", site.EventDone: "✓", site.EventFailed: "✕", site.EventDropped: "–",
		site.EventOrder: "☛", site.EventRollout: "≡", site.EventMachine: "△",
	}
)

// NodeTimelineSays is a timeline in a sentence: how the node is, and for how much of the time nothing is known.
func NodeTimelineSays(t *site.NodeTimeline) string {
	length := t.To.Sub(t.From)
	text := fmt.Sprintf("%s over %s until %s", brief(t.Node, 80), say.Rough(length), say.Clock(t.To.UTC()))
	if n := len(t.States); n > 0 {
		text += ": " + spanWord(&t.States[n-1]) + " at the end"
	}
	text += fmt.Sprintf(", %s, %s", say.Count(len(t.Steps), "step"), say.Count(len(t.Events)+t.Left, "event"))
	unknown := time.Duration(0)
	for i := range t.States {
		if t.States[i].State == "" {
			unknown += t.States[i].To.Sub(t.States[i].From)
		}
	}
	switch {
	case unknown >= length:
		text += "; nothing is known of its states in this time"
	case unknown > 0:
		text += "; its state is not known for " + say.Rough(unknown) + " of it"
	}
	return text
}

// spanWord is the state of a span in a word.
func spanWord(s *site.StateSpan) string {
	switch {
	case s.State == "":
		return "not known"
	case s.Quarantined:
		return string(s.State) + ", quarantined"
	}
	return string(s.State)
}

// DrawNodeTimeline draws what is recorded of a node over time as SVG: its states and steps as bars, and events as marks that
// lead to the history. A time of which nothing is known has a broken outline and a question mark. Its style is that of the
// page.
func DrawNodeTimeline(w io.Writer, t *site.NodeTimeline, v NodeTimelineView) {
	p := &lifePicture{t: t, v: v}
	width := float64(max(leastWidth, v.Width))
	p.left, p.right, p.y = margin, width-margin, 0
	if width >= wideFrom {
		p.left += nameWide
	}
	p.timeline = newTimeline(t.From, t.To, p.right-p.left)
	p.axis()
	top, head := p.y, p.body.String()
	p.body.Reset()
	p.states()
	p.steps()
	p.marks()
	lanes := p.body.String()
	p.body.Reset()
	p.grid(top)
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" class="life" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="group" aria-label="Timeline">`+"\n", width, p.y, width, p.y)
	fmt.Fprintf(w, "<desc>%s</desc>\n%s%s%s</svg>\n", inSVG(NodeTimelineSays(t)), head, p.body.String(), lanes)
}

// lifePicture is a picture of a node that is being drawn.
type lifePicture struct {
	t *site.NodeTimeline
	v NodeTimelineView
	canvas
}

// lane begins a lane of some height, and returns where its content begins.
func (p *lifePicture) lane(name string, high float64) (y float64) {
	if p.left > margin {
		p.text(margin, p.y+high/2+4, "dim", name)
	} else {
		p.y += lineHigh
		p.text(margin, p.y-3, "dim", name)
	}
	y = p.y
	p.y += high + 8
	return y
}

func (p *lifePicture) states() {
	y := p.lane("State", stateHigh)
	for i := range p.t.States {
		s := &p.t.States[i]
		class, sign := "gap", "?"
		if s.State != "" {
			class, sign = "is "+string(s.State), StateSigns[s.State]
		}
		if s.Quarantined {
			class, sign = class+" held", sign+"☛"
		}
		p.bar(class, s.Span, y, stateHigh, sign, spanWord(s), fmt.Sprintf("%s, %s. %s", spanWord(s), clockSpan(s.Span), s.Text), s.Seq)
	}
}

func (p *lifePicture) steps() {
	if len(p.t.Steps) == 0 {
		return
	}
	y := p.lane("Steps", stateHigh)
	for _, s := range p.t.Steps {
		sign, how := eventSigns[s.Ended], string(s.Ended)
		switch {
		case s.Open && s.To.Equal(p.t.To):
			sign, how = "▶", "under way, as far as is recorded"
		case s.Open:
			sign, how = "?", "its end is not recorded"
		case s.Unknown:
			how += ", since when is not recorded"
		}
		p.bar("step "+string(s.Ended), s.Span, y, stateHigh, sign, s.Text, fmt.Sprintf("%s: %s, %s", s.Text, how, clockSpan(s.Span)), s.Seq)
	}
}

// bar draws a span, with its sign and its word where there is room for them.
func (p *lifePicture) bar(class string, s site.Span, y, high float64, sign, word, title string, seq uint64) {
	p.put("<g class=\"%s\">", inSVG(class))
	end := "</g>\n"
	if seq > 0 {
		p.put("<a href=\"%s\">", inSVG(p.v.Link(seq)))
		end = "</a></g>\n"
	}
	p.put("<title>%s</title>", inSVG(shorten(site.Printable(title))))
	p.band("box", s, y, high)
	from, to := p.at(s.From), p.at(s.To)
	if room := to - from; room >= signWide {
		text := sign
		if letters := int((room - 2*signWide) / glyph); letters >= 4 {
			text += " " + brief(word, letters)
		}
		p.text(from+3, y+high/2+4, "label", text)
	}
	p.put("%s", end)
}

// marks draws the events. Those that are too close to each other are one mark, which says how many, and leads to the
// newest of them.
func (p *lifePicture) marks() {
	y := p.lane("Events", stateHigh)
	for i := 0; i < len(p.t.Events); {
		first := i
		x := p.at(p.t.Events[i].When)
		for i++; i < len(p.t.Events) && p.at(p.t.Events[i].When)-x < markApart; i++ {
		}
		p.mark(p.t.Events[first:i], x, y)
	}
	if p.t.Left > 0 {
		p.y += lineHigh
		p.text(p.left, p.y-8, "dim", fmt.Sprintf("%s of this time are not drawn", say.Count(p.t.Left, "earlier event")))
	}
}

const mostInTitle = 6

func (p *lifePicture) mark(events []site.Event, x, y float64) {
	last, sign := events[len(events)-1], ""
	var lines []string
	for i, e := range events {
		if i < mostInTitle {
			lines = append(lines, fmt.Sprintf("%s %s: %s", say.Clock(e.When.UTC()), e.Kind, brief(EventLine(e), 160)))
		}
	}
	if more := len(events) - mostInTitle; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	class := "mark " + string(last.Kind)
	if sign = eventSigns[last.Kind]; len(events) > 1 {
		sign, class = fmt.Sprint(len(events)), "mark many"
		for _, e := range events {
			if e.Kind == site.EventFailed {
				class = "mark many failed"
			}
		}
	}
	x = min(max(x, p.left), p.right-markApart+4)
	p.put("<a class=\"%s\" href=\"%s\"><title>%s</title>", inSVG(class), inSVG(p.v.Link(last.Seq)), inSVG(strings.Join(lines, "; ")))
	p.put("<rect class=\"box\" x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" rx=\"4\"/>", x, y+1, markApart-4, stateHigh-2)
	p.put("<text class=\"label\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text></a>\n", x+float64(markApart-4)/2, y+stateHigh/2+4, inSVG(sign))
}
