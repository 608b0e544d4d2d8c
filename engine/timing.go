package engine

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// timing measures how long a begun step takes on such a machine: until its effect is
// seen and the next step may follow. An installation takes until the installer is
// done.
type timing struct {
	step   site.Step
	since  time.Time
	model  string
	tried  bool   // a try has failed: the duration says little about other machines
	wanted string // what the design then asked of the step's items, see askedInside
}

// askedInside returns what a node's design asks of the items that a step changes
// inside the system; empty for other steps.
func askedInside(n *site.Node, s site.Step) string {
	if !site.IsInside(s.Facet) {
		return ""
	}
	items := slices.DeleteFunc(n.Items(s.Facet), func(i item.Item) bool {
		field := string(s.Facet) + "." + i.Key
		return !slices.ContainsFunc(s.Changes, func(c site.Change) bool { return c.Field == field || strings.HasPrefix(c.Field, field+".") })
	})
	values := item.Values(items)
	if len(s.Unlisted()) > 0 {
		values[item.KindUnlisted] = n.UnlistedIn(n.References.Family)
	}
	text, _ := json.Marshal(values)
	return string(text)
}

// goesOn reports whether the next step still has a part of this one to do: more may be
// known of the machine by now, or more may be designed.
func (t *timing) goesOn(next site.Step) bool {
	if next.Digest() == t.step.Digest() {
		return true
	}
	return site.IsInside(t.step.Facet) && next.Facet == t.step.Facet && next.Action == t.step.Action &&
		slices.ContainsFunc(next.Changes, func(c site.Change) bool {
			return slices.ContainsFunc(t.step.Changes, func(of site.Change) bool { return of.Field == c.Field && of.Want == c.Want })
		})
}

// longestMemory is how many durations are kept per kind of step.
const longestMemory = 16

// timed notes that the step under way has had its effect, once the plan no longer has
// the step and nothing is waited for. A step cut off by a quarantine had no effect. If
// the design no longer asks for the step, its effect is unknown.
func (w *worker) timed(j job, p site.NodePlan) {
	t := w.timing
	if t == nil || p.Waiting != "" || len(p.Steps) > 0 && t.goesOn(p.Steps[0]) {
		return
	}
	w.timing = nil
	if !plan.IsDoneOnce(t.step, j.memory) {
		if why := slices.Concat(p.Blocked, []string{"it was not done"})[0]; j.memory.Recorded.UnderWay() == 0 {
			w.warn(site.EventFailed, j.revision.ID, string(t.step.Action)+": "+why)
		}
		return
	}
	if askedInside(j.node, t.step) != t.wanted {
		w.note(site.EventDropped, j.revision.ID, t.step.Summary())
		return
	}
	if j.memory.Recorded.Quarantined != nil && !t.step.Force {
		return
	}
	took := site.Duration(time.Since(t.since))
	w.e.note(site.Event{Node: w.name, Kind: site.EventDone, Text: t.step.Summary(), Took: took})
	if t.model != "unknown" {
		w.e.learnTook(site.LikeStep(t.model, t.step), took, t.tried)
	}
}

// learnTook adds a duration to those of similar machines. The duration of a step with
// a failed try counts only if there is no other.
func (e *Engine) learnTook(like string, took site.Duration, tried bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	known := e.history[like]
	if tried && len(known) > 0 {
		return
	}
	if over := len(known) + 1 - longestMemory; over > 0 {
		known = known[over:]
	}
	learnt := make(site.History, len(e.history)+1)
	for k, v := range e.history {
		learnt[k] = v
	}
	learnt[like] = append(append([]site.Duration{}, known...), took)
	e.history = learnt
	e.learnt[like] = true
}
