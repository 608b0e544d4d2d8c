package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// isTerminal says whether people look at a writer.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// coloured says whether to colour what goes to a writer (https://no-color.org).
func coloured(w io.Writer) bool { return isTerminal(w) && os.Getenv("NO_COLOR") == "" }

// paint gives a function that colours text when the writer shows colours.
func paint(w io.Writer, colours ...text.Color) func(string) string {
	if !coloured(w) {
		return func(s string) string { return s }
	}
	c := text.Colors(colours)
	return func(s string) string { return c.Sprint(s) }
}

// planPaint colours a plan.
func planPaint(w io.Writer) plan.Paint {
	return plan.Paint{
		Bold: paint(w, text.Bold), Dim: paint(w, text.Faint), Online: paint(w, text.FgGreen),
		Reboot: paint(w, text.FgYellow), Destructive: paint(w, text.FgRed, text.Bold),
	}
}

// stateColour is the colour of a node state.
func stateColour(s site.State) text.Color {
	switch s {
	case site.InSync:
		return text.FgGreen
	case site.Progressing:
		return text.FgCyan
	case site.Stalled:
		return text.FgRed
	case site.Blocked, site.Retrying, site.Paused:
		return text.FgYellow
	}
	return text.FgWhite
}

// printJSON writes one indented JSON value.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// age is how long ago a time was, in its largest unit.
func age(t time.Time) string {
	d := time.Since(t)
	switch {
	case t.IsZero():
		return "never"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
