package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"

	"github.com/slipway-gitops/slipway/engine/site"
)

// screen is where people look. Every line has the seconds since the start on
// its left; at the bottom of a terminal is the progress, drawn again and again.
type screen struct {
	out    *os.File
	start  time.Time
	live   bool // a terminal
	colour bool
	width  int

	drawn bool      // the progress is on the terminal
	told  string    // the progress last told elsewhere
	since time.Time // when that was
}

const (
	gutter    = 10 // columns left of every line
	beside    = "          "
	mostWidth = 110
	tellEvery = 3 * time.Second // progress where there is no terminal
)

func newScreen(out *os.File) *screen {
	s := &screen{out: out, start: time.Now(), width: 100}
	if s.live = term.IsTerminal(int(out.Fd())) && os.Getenv("TERM") != "dumb"; s.live {
		s.colour = os.Getenv("NO_COLOR") == "" // https://no-color.org
		if w, _, err := term.GetSize(int(out.Fd())); err == nil && w > 40 {
			s.width = min(w, mostWidth)
		}
	}
	return s
}

func (s *screen) paint(line string, colours ...text.Color) string {
	if !s.colour {
		return line
	}
	return text.Colors(colours).Sprint(line)
}

func (s *screen) elapsed() string {
	return s.paint(fmt.Sprintf("%6.1f s  ", time.Since(s.start).Seconds()), text.Faint)
}

// step prints a line that has a time, after a mark of two columns.
func (s *screen) step(mark, line string, colours ...text.Color) {
	s.wrap(s.elapsed()+mark, beside+"  ", line, colours...)
}

// aside prints a line that belongs to the step above it.
func (s *screen) aside(mark, line string, colours ...text.Color) {
	s.wrap(beside+mark, beside+mark, line, colours...)
}

// wrap prints a line as the lines that it takes, with what stands left of the
// first and of the others.
func (s *screen) wrap(first, others, line string, colours ...text.Color) {
	s.still()
	left := first
	for part := range strings.SplitSeq(text.WrapSoft(line, s.width-gutter-2), "\n") {
		fmt.Fprintln(s.out, strings.TrimRight(left+s.paint(strings.TrimRight(part, " "), colours...), " "))
		left = others
	}
}

func (s *screen) text(t string) {
	s.still()
	fmt.Fprint(s.out, t)
}

func (s *screen) title(n int, name, shows string) {
	s.text(fmt.Sprintf("\n%s%s  %s\n", beside[3:], s.paint(fmt.Sprintf("%d  %s", n, name), text.Bold), s.paint(shows, text.Faint)))
}

func (s *screen) command(c string) { s.step(s.paint("$ ", text.FgCyan), c, text.FgCyan) }
func (s *screen) proof(p string)   { s.step(s.paint("✓ ", text.FgGreen), p) }
func (s *screen) answer(a string)  { s.aside("  ", a) }
func (s *screen) quote(q string)   { s.aside(s.paint("│ ", text.Faint), q) }

// refusal shows what is wrong with a design.
func (s *screen) refusal(f site.Finding) {
	s.aside("  ", f.Place()+": "+f.Message, text.FgRed)
	if f.Fix != "" {
		s.answer("do: " + f.Fix)
	}
}

// diff shows what a commit changed.
func (s *screen) diff(diff string) {
	for _, line := range changes(diff) {
		colour := text.FgGreen
		if strings.Contains(line, "  - ") {
			colour = text.FgRed
		}
		s.aside("  ", line, colour)
	}
}

// progress shows how the nodes are now.
func (s *screen) progress(status *site.Status) {
	if !s.live {
		s.tell(status)
		return
	}
	line := text.Trim(s.elapsed()+"  "+s.bar(status)+"  "+describe(status), s.width-3) // room for the ^C of an interrupt
	fmt.Fprint(s.out, "\r\x1b[?25l"+line+"\x1b[K")                                     // cursor off; clear the rest
	s.drawn = true
}

// still takes the progress off the terminal.
func (s *screen) still() {
	if s.drawn {
		fmt.Fprint(s.out, "\r\x1b[K\x1b[?25h")
		s.drawn = false
	}
}

// tell says the progress where it cannot be drawn: when it changed, and not
// too often.
func (s *screen) tell(status *site.Status) {
	now := describe(status)
	if now == s.told || time.Since(s.since) < tellEvery {
		return
	}
	s.told, s.since = now, time.Now()
	s.step("· ", now)
}

// bar has one cell for each node, in the order of their names.
func (s *screen) bar(status *site.Status) string {
	var b strings.Builder
	for _, n := range status.Nodes {
		b.WriteString(s.paint(glyphs[n.State]+glyphs[n.State], stateColours[n.State]))
	}
	return b.String()
}

var glyphs = map[site.State]string{
	site.InSync: "█", site.Progressing: "▓", site.Retrying: "▒", site.Blocked: "▒", site.Stalled: "×", site.Foreign: "×", site.Paused: "▒", site.Unknown: "░",
}

var stateColours = map[site.State]text.Color{
	site.InSync: text.FgGreen, site.Progressing: text.FgCyan, site.Retrying: text.FgYellow, site.Blocked: text.FgYellow,
	site.Stalled: text.FgRed, site.Foreign: text.FgRed, site.Paused: text.FgYellow, site.Unknown: text.FgWhite,
}
