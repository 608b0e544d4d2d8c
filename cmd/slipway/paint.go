package main

import (
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

// stateColour is the colour of a node state.
func stateColour(s site.State) text.Color {
	switch s {
	case site.InSync:
		return text.FgGreen
	case site.Progressing:
		return text.FgCyan
	case site.Stalled, site.Foreign:
		return text.FgRed
	case site.Blocked, site.Retrying, site.Paused:
		return text.FgYellow
	}
	return text.FgWhite
}

// age is how long ago a time was, in its largest unit.
func age(t time.Time) string { return present.Age(t, time.Now()) }
