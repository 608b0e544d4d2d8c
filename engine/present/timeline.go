package present

import (
	"fmt"
	"time"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// timeline is a stretch of time with a length on paper or on a terminal.
type timeline struct {
	from   time.Time
	length time.Duration
	wide   float64
	// apart is the least distance of two ticks.
	apart float64
}

func newTimeline(from, to time.Time, wide float64) timeline {
	return timeline{from: from.UTC(), length: max(time.Second, to.Sub(from)), wide: wide, apart: 76}
}

// at is where a time is, from 0 on.
func (l timeline) at(t time.Time) float64 {
	return l.wide * max(0, min(1, float64(t.Sub(l.from))/float64(l.length)))
}

// tick is a time on the scale. Only some have labels; day is set where one begins, and on the first.
type tick struct {
	at         time.Time
	day, label string
}

// steps are the distances of ticks, which divide an hour, a day or a week.
var steps = []time.Duration{
	5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, day, 2 * day, week, 2 * week, 4 * week, 13 * week, 52 * week, 520 * week,
}

const day, week = 24 * time.Hour, 7 * 24 * time.Hour

// ticks returns the scale: times in UTC, as close as there is room for their labels.
func (l timeline) ticks() (all []tick) {
	step := steps[len(steps)-1]
	for _, s := range steps {
		if l.wide*float64(s)/float64(l.length) >= l.apart {
			step = s
			break
		}
	}
	layout := "15:04"
	if step < time.Minute {
		layout = "15:04:05"
	}
	shown := ""
	for t := l.from.Truncate(step); !t.After(l.from.Add(l.length)); t = t.Add(step) {
		if t.Before(l.from) {
			continue
		}
		x := tick{at: t}
		if name := t.Format("Mon 2 Jan"); name != shown {
			x.day, shown = name, name
		}
		if step < day {
			x.label = t.Format(layout)
		}
		all = append(all, x)
	}
	return all
}

// Headline says how a rollout stands, in one sentence or two without full stops.
func Headline(c *site.RolloutChart) []string {
	name := c.Revision.Short()
	if c.Revision.Subject != "" {
		name += " (" + brief(c.Revision.Subject, 80) + ")"
	}
	total := 0
	for _, n := range c.Counts {
		total += n
	}
	stands := fmt.Sprintf("Rollout of %s at site %s: %d of %s done", name, c.Site, c.Counts[site.MachineDone], say.Count(total, "node"))
	for _, s := range []site.MachineState{site.MachineRunning, site.MachineWaiting, site.MachineFailed, site.MachineDropped} {
		if c.Counts[s] > 0 {
			stands += fmt.Sprintf(", %d %s", c.Counts[s], s)
		}
	}
	all := []string{stands}
	if c.Halted != "" && c.Ended.IsZero() {
		all = append(all, "Halted: "+brief(c.Halted, longestText))
	}
	if c.Paused != nil && c.Ended.IsZero() {
		all = append(all, fmt.Sprintf("The site is paused by %s: %s", brief(c.Paused.By, 80), brief(c.Paused.Reason, longestText)))
	}
	if c.ReadOnly != "" && c.Ended.IsZero() {
		all = append(all, "Nothing is changed now: "+brief(c.ReadOnly, longestText))
	}
	began := "Began " + say.Clock(c.Since.UTC())
	switch {
	case !c.Ended.IsZero():
		return append(all, fmt.Sprintf("%s, ended %s after %s", began, say.Clock(c.Ended.UTC()), say.Rough(c.Ended.Sub(c.Since))))
	case !c.Ends.IsZero():
		return append(all, fmt.Sprintf("%s, expected to end %s, in %s", began, say.Clock(c.Ends.UTC()), say.Rough(c.Ends.Sub(c.Now))))
	}
	return append(all, began+"; its end is not known")
}
