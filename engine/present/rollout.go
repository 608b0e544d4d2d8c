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

// RolloutView is how a rollout is written for a terminal.
type RolloutView struct {
	Paint Paint
	// Width is that of the terminal in characters; 100 if it is 0.
	Width int
	// Rows is how many nodes are written; 0 for all.
	Rows int
}

// Signs of a bar: what was done, what is expected, a wait, and what nobody knows.
const (
	signDone, signRunning, signFailed = '█', '▓', '▚'
	signExpected, signWaits, signNow  = '░', '·', '│'
	signUnknown                       = '?'
)

// signOf is the sign of what a node did, by its state.
var signOf = map[site.MachineState]rune{
	site.MachineDone: signDone, site.MachineRunning: signRunning, site.MachineWaiting: signWaits, site.MachineFailed: signFailed,
	site.MachineDropped: signWaits,
}

// RolloutText writes a rollout over time as text: one line with a bar for each node, and below it what a
// node that is not done does or waits for.
func RolloutText(w io.Writer, c *site.RolloutChart, v RolloutView) {
	if v.Width == 0 {
		v.Width = 100
	}
	if c.Since.IsZero() {
		fmt.Fprintf(w, "Site %s has had no rollout yet\n", site.Printable(c.Site))
		return
	}
	for i, line := range Headline(c) {
		if line = site.Printable(line); i == 0 {
			line = v.Paint.with(v.Paint.Bold, line)
		}
		fmt.Fprintln(w, line)
	}
	if len(c.Rows) == 0 {
		return
	}
	shown := c.Rows
	if v.Rows > 0 {
		shown = shown[:min(len(shown), v.Rows)]
	}
	t := newRolloutTable(c, shown, v.Width)
	fmt.Fprintln(w)
	t.writeScale(w)
	for i := range shown {
		t.writeRow(w, &shown[i], t.notes[i], v)
	}
	if more := len(c.Rows) - len(shown); more > 0 {
		fmt.Fprintf(w, "… %d more nodes: slipway rollout --all\n", more)
	}
	fmt.Fprintf(w, "\n%c done  %c in progress  %c failed  %c waiting  %c expected  %c not known  %c now   ◆ canary  ● critical path\n",
		signDone, signRunning, signFailed, signWaits, signExpected, signUnknown, signNow)
	for _, warning := range c.Warnings {
		fmt.Fprintf(w, "%s %s\n", v.Paint.with(v.Paint.Reboot, "warning:"), shorten(site.Printable(warning)))
	}
	if c.Basis != "" {
		fmt.Fprintln(w, v.Paint.with(v.Paint.Dim, "Forecast: "+site.Printable(c.Basis)))
	}
}

// rolloutTable has the widths of the columns in characters.
type rolloutTable struct {
	timeline
	c                  *site.RolloutChart
	name, state, cells int
	notes              []string // one for each row, behind its bar
}

func newRolloutTable(c *site.RolloutChart, rows []site.ChartRow, width int) *rolloutTable {
	t := &rolloutTable{c: c, state: 11}
	for _, r := range rows {
		t.name = max(t.name, min(24, utf8.RuneCountInString(brief(r.Node, 24)))+3)
	}
	wide := 0
	for _, r := range rows {
		t.notes = append(t.notes, noteOf(&r, c))
		wide = max(wide, utf8.RuneCountInString(t.notes[len(t.notes)-1]))
	}
	t.cells = max(20, width-t.name-t.state-wide-4)
	t.timeline = newTimeline(c.From, c.To, float64(t.cells))
	t.apart = 12
	return t
}

// noteOf compares a node with what was expected of it at first: how long it took, or when it ends.
func noteOf(r *site.ChartRow, c *site.RolloutChart) string {
	switch f := r.Forecast; {
	case r.State == site.MachineDone && !r.Began.IsZero() && !r.Ended.IsZero():
		note := "took " + say.Rough(r.Ended.Sub(r.Began))
		if !f.IsZero() {
			note += ", expected " + say.Rough(f.To.Sub(f.From))
		}
		return note
	case !r.Expected.IsZero():
		note := "until " + clockFrom(c.Now, r.Expected.To)
		if !f.IsZero() && !f.To.Truncate(time.Minute).Equal(r.Expected.To.Truncate(time.Minute)) { // times have minutes
			note += ", at first " + clockFrom(c.Now, f.To)
		}
		return note
	}
	return ""
}

// clockFrom is a time of the day, with the day where that is not today.
func clockFrom(now, t time.Time) string {
	if t = t.UTC(); t.Format(time.DateOnly) != now.UTC().Format(time.DateOnly) {
		return t.Format("2 Jan 15:04")
	}
	return t.Format("15:04")
}

// writeScale writes days and times above the bars.
func (t *rolloutTable) writeScale(w io.Writer) {
	days, times := []rune(strings.Repeat(" ", t.cells+12)), []rune(strings.Repeat(" ", t.cells+12))
	free := 0
	for _, tick := range t.ticks() {
		cell := t.cell(tick.at)
		copy(times[cell:], []rune(tick.label))
		if tick.day != "" && cell >= free {
			free = cell + copy(days[cell:], []rune(tick.day)) + 1
		}
	}
	before := strings.Repeat(" ", t.name+t.state+2)
	fmt.Fprintln(w, strings.TrimRight(before+string(days), " "))
	fmt.Fprintln(w, strings.TrimRight(before[4:]+"UTC "+string(times), " "))
}

func (t *rolloutTable) cell(at time.Time) int { return min(t.cells-1, int(t.timeline.at(at))) }

func (t *rolloutTable) writeRow(w io.Writer, r *site.ChartRow, note string, v RolloutView) {
	mark := []rune("  ")
	if r.Canary {
		mark[0] = '◆'
	}
	if r.Critical {
		mark[1] = '●'
	}
	paint := map[site.MachineState]func(string) string{
		site.MachineDone: v.Paint.Online, site.MachineRunning: v.Paint.Bold, site.MachineWaiting: v.Paint.Reboot, site.MachineFailed: v.Paint.Destructive, site.MachineDropped: v.Paint.Dim,
	}[r.State]
	name := brief(r.Node, t.name-3)
	line := v.Paint.with(paint, strings.TrimRight(t.bar(r), " "))
	if note != "" {
		line = v.Paint.with(paint, t.bar(r)) + " " + v.Paint.with(v.Paint.Dim, note)
	}
	fmt.Fprintf(w, "%s%s%s %s %s\n", name, strings.Repeat(" ", t.name-2-utf8.RuneCountInString(name)), string(mark),
		v.Paint.with(paint, fmt.Sprintf("%-*s", t.state, r.State)), line)
	if r.State == site.MachineDone {
		return
	}
	text := rowText(r)
	if len(r.WaitsFor) > 0 {
		text = stateLine(r, t.c.Now) + ": " + text
	}
	for _, line := range broken(text, v.Width-4, 3) {
		fmt.Fprintln(w, "    "+v.Paint.with(v.Paint.Dim, line))
	}
}

// bar draws a node in the cells of its row. A time that is not known is no guess: it has a question mark.
func (t *rolloutTable) bar(r *site.ChartRow) string {
	cells := []rune(strings.Repeat(" ", t.cells))
	fill := func(s site.Span, sign rune) {
		for i := t.cell(s.From); i <= t.cell(s.To); i++ {
			cells[i] = sign
		}
	}
	b := nodeBarOf(r, t.c.Now)
	if !b.waits.IsZero() {
		fill(b.waits, signWaits)
	}
	if !b.expected.IsZero() {
		fill(b.expected, signExpected)
	}
	now := t.cell(t.c.Now)
	if t.c.Ended.IsZero() {
		cells[now] = signNow
	}
	switch sign := signOf[r.State]; {
	case b.end.IsZero():
		cells[0] = signUnknown
	case !b.did.IsZero():
		fill(b.did, sign)
	case b.over:
		cells[t.cell(b.end)] = sign
	}
	if b.isEndless() {
		cells[min(t.cells-1, now+1)] = signUnknown
	}
	return string(cells)
}
