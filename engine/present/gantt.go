package present

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// GanttView is how the picture of a rollout is drawn.
type GanttView struct {
	// Width is its width in pixels, from 320 on; 1280 if it is 0.
	Width int
	// StandAlone gives the picture a title, a background and its style, for a file of its own. A page
	// has GanttStyle in its style sheet instead: the picture itself has no style, as a strict policy
	// of the page would refuse it.
	StandAlone bool
	// Link returns the address of a node's page; nil for no links.
	Link func(node string) string
}

// Measures of the picture in pixels. Text is 12 pixels high, with glyphs of about glyph.
const (
	defaultWidth, leastWidth, wideFrom = 1280, 320, 720
	margin, gutter                     = 12, 236
	glyph                              = 6.4
	lineHigh, laneHigh, barHigh        = 16, 20, 14
)

// ganttRows bounds how many rows a picture has.
const ganttRows = 500

// Gantt draws a rollout over time as SVG: a row for each node of the chart, with what was done, what is
// expected, and as a thin outline what was expected when the node became part of the rollout. The
// caller chooses the rows; those behind the first 500 are only counted. It writes nothing for a chart
// without a rollout.
func Gantt(w io.Writer, c *site.RolloutChart, v GanttView) {
	if c.Since.IsZero() {
		return
	}
	g := &gantt{c: c, v: v, width: max(leastWidth, v.Width)}
	if v.Width == 0 {
		g.width = defaultWidth
	}
	g.left, g.right = margin, float64(g.width-margin)
	if g.width >= wideFrom {
		g.left += gutter
	}
	g.timeline = newTimeline(c.From, c.To, g.right-g.left)
	g.draw()
	g.wrap(w)
}

// gantt is a picture that is being drawn, from top to bottom.
type gantt struct {
	c     *site.RolloutChart
	v     GanttView
	width int
	canvas
}

// wrap writes the picture, whose height is known by now.
func (g *gantt) wrap(w io.Writer) {
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" class="gantt" viewBox="0 0 %d %.0f" width="%d" height="%.0f" role="group" aria-label="%s">`+"\n",
		g.width, g.y, g.width, g.y, inSVG(strings.Join(Headline(g.c), ". ")))
	if g.v.StandAlone {
		fmt.Fprintf(w, "<style>%s</style>\n<rect class=\"paper\" width=\"100%%\" height=\"100%%\"/>\n", GanttStyle)
	}
	io.WriteString(w, g.body.String())
	io.WriteString(w, "</svg>\n")
}

func (g *gantt) draw() {
	g.y = margin
	if g.v.StandAlone {
		for i, line := range Headline(g.c) {
			class, fits := "text", g.fits(float64(g.width-2*margin))
			if i == 0 {
				class, fits = "title", fits*3/4
			}
			for _, part := range broken(line, fits, 3) {
				g.y += lineHigh
				g.text(margin, g.y, class, part)
			}
		}
		g.y += margin
	}
	g.axis()
	top, before := g.y, g.body.String()
	g.body.Reset()
	for _, window := range g.c.Windows {
		g.lane("window "+window.Name, "window", window.Open)
		g.unsure(window)
	}
	if !g.c.Soak.IsZero() {
		g.lane("canaries soak", "soak", []site.Span{g.c.Soak})
	}
	shown := g.c.Rows[:min(len(g.c.Rows), ganttRows)]
	for i := range shown {
		g.row(&shown[i])
	}
	rows := g.body.String()
	g.body.Reset()
	g.lines(top)
	behind := g.body.String()
	g.body.Reset()
	g.put("%s%s%s", before, behind, rows)
	if more := len(g.c.Rows) - len(shown); more > 0 {
		g.y += lineHigh
		g.text(margin, g.y, "text", fmt.Sprintf("… %d more nodes", more))
	}
	g.legend()
	g.y += margin
}

// lines draws the ticks and the present over all rows.
func (g *gantt) lines(top float64) {
	g.grid(top)
	if !g.c.Ended.IsZero() {
		return
	}
	x := g.at(g.c.Now)
	g.put("<line class=\"now\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n", x, x, top, g.y)
	label := "now " + g.c.Now.UTC().Format("15:04")
	g.y += lineHigh
	g.text(min(max(g.left, x-float64(len(label))*glyph/2), g.right-float64(len(label))*glyph), g.y-3, "nowlabel", label)
}

// lane draws times that all nodes share.
func (g *gantt) lane(name, class string, open []site.Span) {
	y := g.y
	if g.left > gutter {
		g.text(margin, y+14, "dim", brief(name, g.fits(gutter)))
	} else {
		g.y += lineHigh
		g.text(margin, y+12, "dim", brief(name, g.fits(g.right-margin)))
		y = g.y
	}
	for _, s := range open {
		g.band(class, s, y+3, laneHigh-6)
	}
	g.y = y + laneHigh
}

// unsure says in the lane of a window why it is not known when it is open.
func (g *gantt) unsure(w site.WindowTimes) {
	if w.Unknown.IsZero() {
		return
	}
	text := brief("? "+w.Why, min(60, g.fits(g.right-g.left)))
	wide := float64(utf8.RuneCountInString(text)) * glyph
	g.text(max(g.left, min(g.at(w.Unknown.From)+4, g.right-wide)), g.y-laneHigh+14, "unknown", text)
}

// row draws one node.
func (g *gantt) row(r *site.ChartRow) {
	top, wide := g.y, g.left > gutter
	bar, lines := top+4, 2
	if !wide {
		bar, lines = top+2*lineHigh+6, 3
	}
	text := broken(rowText(r), g.fits(g.right-g.left), lines)
	high := max(2*lineHigh+6, bar-top+barHigh+10+float64(len(text))*lineHigh)
	g.put("<g class=\"row %s\">\n<title>%s</title>\n", class[r.State], inSVG(shorten(site.Printable(rowTitle(r, g.c.Now)))))
	for _, w := range g.c.Windows {
		if w.Name == r.Window {
			for _, s := range w.Open {
				g.band("window", s, top, high)
			}
		}
	}
	g.put("<line class=\"grid\" x1=\"%d\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n", margin, g.right, top, top)
	g.name(r, top+lineHigh-1)
	beside := g.fits(gutter - 8)
	if !wide {
		beside = g.fits(g.right - g.left)
	}
	g.text(margin, top+2*lineHigh-1, "dim", brief(stateLine(r, g.c.Now), beside))
	g.bars(r, bar)
	for i, line := range text {
		g.text(g.left, bar+barHigh+20+float64(i)*lineHigh, "text", line)
	}
	g.put("</g>\n")
	g.y = top + high
}

// name writes the node's name and its marks.
func (g *gantt) name(r *site.ChartRow, y float64) {
	marks := ""
	if r.Canary {
		marks += " ◆ canary"
	}
	if r.Critical {
		marks += " ● critical"
	}
	wide := float64(gutter - 8)
	if g.left < gutter {
		wide = g.right - g.left
	}
	name := brief(r.Node, g.fits(wide)-utf8.RuneCountInString(marks))
	open, end := "", ""
	if g.v.Link != nil {
		open, end = fmt.Sprintf("<a href=\"%s\">", inSVG(g.v.Link(r.Node))), "</a>"
	}
	g.put("%s<text class=\"node\" x=\"%d\" y=\"%.1f\">%s<tspan class=\"mark\">%s</tspan></text>%s\n", open, margin, y, inSVG(name), inSVG(marks), end)
}

// bars draws what a node did, does and is expected to do. What is not known has a question mark.
func (g *gantt) bars(r *site.ChartRow, y float64) {
	b, critical := nodeBarOf(r, g.c.Now), ""
	if r.Critical {
		critical = " critical"
	}
	if !r.Forecast.IsZero() {
		g.band("was", r.Forecast, y+barHigh+2, 4)
	}
	if !b.expected.IsZero() {
		g.band("expected"+critical, b.expected, y, barHigh)
	}
	if b.isEndless() {
		g.text(min(g.at(g.c.Now)+6, g.right-glyph), y+12, "unknown", "?")
	}
	if b.end.IsZero() {
		g.text(g.left, y+12, "unknown", "? time not known")
		return
	}
	if !b.waits.IsZero() {
		g.put("<line class=\"waits\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n", g.at(b.waits.From), g.at(b.waits.To), y+barHigh/2, y+barHigh/2)
	}
	if !b.did.IsZero() {
		g.band("bar "+class[r.State]+critical, b.did, y, barHigh)
	}
	g.sign(r.State, g.at(b.end), y+barHigh/2)
}

// sign draws the shape of a state where its bar ends: a tick, a cross, an arrow, or a circle.
func (g *gantt) sign(s site.MachineState, x, y float64) {
	shape := map[site.MachineState]string{
		site.MachineDone:    "m-4 0 l3 4 l6 -8",
		site.MachineFailed:  "m-4 -4 l8 8 m0 -8 l-8 8",
		site.MachineRunning: "m-4 -5 l8 5 l-8 5 z",
		site.MachineWaiting: "m-4 0 a4 4 0 1 0 8 0 a4 4 0 1 0 -8 0 z",
		site.MachineDropped: "m-4 0 h8",
	}[s]
	g.put("<path class=\"sign %s\" d=\"M%.1f %.1f %s\"/>\n", class[s], min(max(x, g.left+5), g.right-5), y, shape)
}

// legend says what the shapes mean.
func (g *gantt) legend() {
	g.y += margin
	x := float64(margin)
	put := func(draw func(x, y float64), word string) {
		wide := 40 + float64(utf8.RuneCountInString(word))*glyph + 14
		if x+wide > g.right && x > margin {
			x, g.y = margin, g.y+lineHigh+4
		}
		draw(x, g.y)
		g.text(x+40, g.y+12, "dim", word)
		x += wide
	}
	rect := func(class string, top, high float64) func(x, y float64) {
		return func(x, y float64) {
			g.put("<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"28\" height=\"%.1f\"/>\n", class, x, y+top, high)
		}
	}
	for _, s := range []site.MachineState{site.MachineDone, site.MachineRunning, site.MachineWaiting, site.MachineFailed, site.MachineDropped} {
		if s == site.MachineDropped && g.c.Counts[s] == 0 {
			continue // is rare
		}
		put(func(x, y float64) {
			rect("bar "+class[s], 1, barHigh)(x, y)
			x0 := g.left
			g.left = 0
			g.sign(s, x+28, y+1+barHigh/2)
			g.left = x0
		}, string(s))
	}
	put(rect("expected", 1, barHigh), "expected")
	put(rect("expected critical", 1, barHigh), "expected, on the critical path")
	put(rect("was", 6, 4), "expected when it became part of the rollout")
	if len(g.c.Windows) > 0 {
		put(rect("window", 1, barHigh), "its window is open")
	}
	put(func(x, y float64) { g.text(x+10, y+12, "unknown", "?") }, "not known")
	g.y += lineHigh + 4
}

// class is the style of a state.
var class = map[site.MachineState]string{
	site.MachineDone: "done", site.MachineRunning: "running", site.MachineWaiting: "waiting", site.MachineFailed: "failed",
	site.MachineDropped: "waiting",
}

// brief shortens a text to some characters.
func brief(text string, most int) string {
	return site.Shorten(site.Printable(text[:min(len(text), 4*longestText)]), max(2, most))
}

// broken breaks a text into lines of some characters, and shortens what does not fit into the last.
func broken(text string, most, lines int) (all []string) {
	most = max(2, most)
	rest := brief(text, longestText)
	for rest != "" && len(all) < lines-1 && utf8.RuneCountInString(rest) > most {
		runes := []rune(rest)
		cut := most
		for cut > most/2 && runes[cut] != ' ' {
			cut--
		}
		all = append(all, strings.TrimSpace(string(runes[:cut])))
		rest = strings.TrimSpace(string(runes[cut:]))
	}
	if rest != "" {
		all = append(all, brief(rest, most))
	}
	return all
}

// stateLine is a node's state in a few words, with its times.
func stateLine(r *site.ChartRow, now time.Time) string {
	clock := func(t time.Time) string { return clockFrom(now, t) }
	switch {
	case r.State == site.MachineDone && !r.Began.IsZero() && !r.Ended.IsZero():
		return fmt.Sprintf("done in %s, %s to %s", say.Rough(r.Ended.Sub(r.Began)), clock(r.Began), clock(r.Ended))
	case !r.Ended.IsZero():
		return fmt.Sprintf("%s %s", r.State, clock(r.Ended))
	case r.State == site.MachineWaiting && len(r.WaitsFor) > 0:
		return "waiting for " + say.Some(r.WaitsFor, 3)
	case r.State == site.MachineWaiting && r.Person:
		return "waiting for a person"
	case r.State == site.MachineRunning && !r.Began.IsZero():
		return "in progress since " + clock(r.Began)
	}
	return string(r.State)
}

// rowText is what a node does or waits for, and what would release it.
func rowText(r *site.ChartRow) string {
	text := r.Sentence
	if r.Detail != "" {
		text += ": " + r.Detail
	}
	if r.Release != "" && r.State == site.MachineWaiting {
		text += ". Released by: " + r.Release
	}
	return text
}

// rowTitle is all that is said of a node, for those who point at it or have it read aloud.
func rowTitle(r *site.ChartRow, now time.Time) string {
	parts := []string{r.Node + ": " + stateLine(r, now)}
	if text := rowText(r); text != "" {
		parts = append(parts, text)
	}
	if r.Work != "" {
		parts = append(parts, "left to do: "+r.Work)
	}
	if e := r.Expected; !e.IsZero() {
		parts = append(parts, "expected "+clockSpan(e))
	} else if r.State == site.MachineRunning || r.State == site.MachineWaiting {
		parts = append(parts, "its end is not known")
	}
	if f := r.Forecast; !f.IsZero() {
		parts = append(parts, "was expected "+clockSpan(f))
	}
	return strings.Join(parts, "; ")
}

// clockSpan is a span of time, with the day of its end where that is another one.
func clockSpan(s site.Span) string {
	const day, clock = "Mon 2006-01-02 ", "15:04"
	from, to := s.From.UTC(), s.To.UTC()
	end := clock
	if from.Format(day) != to.Format(day) {
		end = day + clock
	}
	return from.Format(day+clock) + " to " + to.Format(end) + " UTC"
}
