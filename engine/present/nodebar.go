package present

import (
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// nodeBar is what a picture of a rollout shows of one node over time, in characters or in SVG. A span
// that is not there is zero.
type nodeBar struct {
	did      site.Span // from its first step to its last, or until now
	waits    site.Span // until now, or until it is expected to begin
	expected site.Span
	over     bool
	end      time.Time // where the sign of its state stands; zero if it is over and nobody knows since when
}

// isEndless reports whether the node is not over, and nobody knows when it will be.
func (b nodeBar) isEndless() bool { return !b.over && b.expected.IsZero() }

func nodeBarOf(r *site.ChartRow, now time.Time) nodeBar {
	b := nodeBar{expected: r.Expected, end: now}
	switch r.State {
	case site.MachineDone, site.MachineFailed, site.MachineDropped:
		b.over, b.end = true, r.Ended
	}
	if r.State == site.MachineWaiting && !r.Since.IsZero() {
		b.waits = site.Span{From: r.Since, To: now}
		if r.Expected.From.After(now) {
			b.waits.To = r.Expected.From
		}
	}
	if !r.Began.IsZero() && !b.end.IsZero() {
		b.did = site.Span{From: r.Began, To: b.end}
	}
	return b
}
