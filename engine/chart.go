package engine

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// remains is what is left of the rollout under way, as it was at one moment.
type remains struct {
	design *site.Site
	known  site.Known
	under  site.RolloutStatus
	// left has the plans of the nodes that can go on, and blocked ones of those that cannot.
	left site.Plan
	// awaited is how many nodes have to end before the rollout does.
	awaited int
}

// remains returns what is left of the rollout under way; nil without one.
func (e *Engine) remains(now time.Time) *remains {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.remainsLocked(now)
}

func (e *Engine) remainsLocked(now time.Time) *remains {
	r := e.rollout
	if !r.running() || e.design == nil {
		return nil
	}
	stands := e.paused.Holds(now) || e.whyNoWritesLocked(now) != ""
	l := &remains{design: e.design, known: e.allKnownLocked(), under: r.RolloutStatus}
	for _, name := range r.Nodes {
		w := e.workers[name]
		if w == nil || w.standing == aside || w.standing == done {
			continue
		}
		p := w.plan
		if halted := r.Halted != "" && !e.inHandLocked(w); halted || stands || w.standing != pending && !w.goesOnLocked() {
			p = site.NodePlan{Node: name, Phase: w.plan.Phase, Blocked: []string{w.status.Reason}}
		}
		if w.standing != failed {
			l.awaited++
		}
		l.left.Nodes = append(l.left.Nodes, p)
	}
	return l
}

// goesOnLocked reports whether the node is worked on again after a pause. Its part in the rollout says so
// only when the step in progress ends.
func (w *worker) goesOnLocked() bool {
	return w.standing == resting && (w.status.State == site.Progressing || w.status.State == site.Retrying)
}

// whyNoWritesLocked returns why nothing is sent to any machine now; empty if it may be.
func (e *Engine) whyNoWritesLocked(now time.Time) string {
	return cmp.Or(e.whyReadOnlyLocked(), e.mayWriteLocked(now, false, true))
}

func (l *remains) forecast(now time.Time) *site.Forecast {
	return rollout.Continue(l.design, &l.left, l.known, now, &l.under)
}

// ends returns when the rollout ends by a forecast; zero if the end of a node is not known.
func (l *remains) ends(f *site.Forecast, now time.Time) (at time.Time) {
	if l.awaited == 0 || len(f.Order) < l.awaited {
		return at
	}
	for _, o := range f.Order {
		at = later(at, spanOf(o, now).To)
	}
	return at
}

// Chart returns the last rollout over time, with the forecast of what is left of it.
func (e *Engine) Chart() site.RolloutChart {
	now := time.Now().UTC()
	c, l, facts := e.chartNow(now)
	if l != nil {
		l.drawInto(&c)
	}
	for _, r := range c.Rows {
		c.Counts[r.State]++
	}
	slices.SortStableFunc(c.Rows, byBeginning)
	if !c.Since.IsZero() {
		c.From, c.To = bounds(&c)
	}
	for i := range c.Windows {
		c.Windows[i] = facts.Openings(c.Windows[i].Name, c.From, c.To)
	}
	return c
}

// drawInto adds the forecast of what is left to a chart.
func (l *remains) drawInto(c *site.RolloutChart) {
	rows := make(map[string]*site.ChartRow, len(c.Rows))
	for i := range c.Rows {
		rows[c.Rows[i].Node] = &c.Rows[i]
	}
	f := l.forecast(c.Now)
	c.Ends, c.Basis, c.Warnings = l.ends(f, c.Now), f.Basis, f.Warnings
	for _, o := range f.Order {
		rows[o.Node].Expected = spanOf(o, c.Now)
	}
	for _, o := range f.Path {
		rows[o.Node].Critical = true
		c.Path = append(c.Path, site.TimedStretch{Node: o.Node, What: o.What, Span: spanOf(o, c.Now)})
	}
}

func spanOf(o site.Stretch, now time.Time) site.Span {
	return site.Span{From: now.Add(time.Duration(o.From)), To: now.Add(time.Duration(o.To))}
}

// byBeginning sorts rows by when they began or are expected to. Those of which neither is known come
// last.
func byBeginning(a, b site.ChartRow) int {
	x, y := beginning(a), beginning(b)
	switch {
	case x.IsZero() && !y.IsZero():
		return 1
	case y.IsZero() && !x.IsZero():
		return -1
	}
	return cmp.Or(x.Compare(y), cmp.Compare(a.Node, b.Node))
}

func beginning(r site.ChartRow) time.Time {
	switch {
	case !r.Began.IsZero():
		return r.Began
	case !r.Ended.IsZero():
		return r.Ended
	}
	return r.Expected.From
}

// shortestChart is how much time a chart shows at least.
const shortestChart = time.Minute

// bounds returns the times between which everything of a chart happens. What was expected at the start
// makes it twice as long at most.
func bounds(c *site.RolloutChart) (from, to time.Time) {
	from, to = c.Since, c.Since.Add(shortestChart)
	if c.Ended.IsZero() {
		to = later(to, c.Now)
	}
	to = later(later(to, c.Ended), c.Soak.To)
	for _, r := range c.Rows {
		to = later(later(to, r.Ended), r.Expected.To)
	}
	was := from
	for _, r := range c.Rows {
		was = later(was, r.Forecast.To)
	}
	if twice := to.Add(to.Sub(from)); was.After(twice) { // else what happens is too small to be seen
		was = twice
	}
	return from, later(to, was)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// chartNow returns the chart without what is forecast, what is left of the rollout, nil without one
// under way, and the facts that know the design's windows.
func (e *Engine) chartNow(now time.Time) (site.RolloutChart, *remains, *rollout.Facts) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := site.RolloutChart{Site: e.Site, Now: now, Counts: map[site.MachineState]int{}, Rows: []site.ChartRow{}}
	r := e.rolloutLocked()
	if r == nil || e.design == nil {
		return c, nil, nil
	}
	c.Revision, c.Since, c.Ended, c.Halted = r.Revision, r.Since.UTC(), utc(r.Ended), r.Halted
	if e.paused.Holds(now) {
		c.Paused = e.paused
	}
	c.ReadOnly = e.whyNoWritesLocked(now)
	if by := e.design.Rollout.Canaries; by != nil && !r.Proven.IsZero() {
		c.Soak = site.Span{From: r.Proven.UTC(), To: r.Proven.Add(time.Duration(by.Soak)).UTC()}
	}
	windows, canaries := map[string]bool{}, map[string]bool{}
	for _, name := range r.Canaries {
		canaries[name] = true
	}
	for _, name := range r.Nodes {
		if w := e.workers[name]; w != nil { // others have left the design
			row := w.rowLocked(r)
			row.Canary = canaries[name]
			c.Rows = append(c.Rows, row)
			windows[w.node.Windows.Online] = true
			windows[w.node.WindowFor(site.ImpactReboot)] = true
			windows[w.node.WindowFor(site.ImpactDestructive)] = true
		}
	}
	delete(windows, "")
	for _, name := range slices.Sorted(maps.Keys(windows)) {
		c.Windows = append(c.Windows, site.WindowTimes{Name: name})
	}
	return c, e.remainsLocked(now), &rollout.Facts{Site: e.design}
}

// utc is a time as charts have it; unknown stays unknown.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC()
}

// rowLocked returns the node's row without what is forecast now.
func (w *worker) rowLocked(r *site.RolloutStatus) site.ChartRow {
	s := w.refreshLocked()
	row := site.ChartRow{Node: w.name, Role: w.node.Role, Rack: w.node.Rack, State: site.MachineDone}
	if at := w.e.atStart; at.Rollout.Equal(r.Since) {
		row.Forecast = at.Nodes[w.name]
	}
	if b := w.memory.Recorded.Begun; b.In(r) {
		row.Began, row.Ended = utc(b.Since), utc(b.Ended)
	} else if s.State == site.InSync && !s.Since.Before(r.Since) && (r.Ended.IsZero() || !s.Since.After(r.Ended)) {
		row.Ended = utc(s.Since) // it needed no step
	}
	why, failed := r.Failed[w.name]
	if !r.Ended.IsZero() {
		switch {
		case failed:
			row.State, row.Sentence = site.MachineFailed, why
		case slices.Contains(r.Dropped, w.name):
			row.State, row.Ended, row.Sentence = site.MachineDropped, utc(r.Ended), "the rollout ended before this node was done"
		}
		return row
	}
	m := w.nowLocked()
	row.State = m.State
	if m.State == site.MachineDone {
		return row
	}
	row.Sentence, row.Since = m.What, utc(m.Since)
	if failed {
		row.Sentence = why
	}
	if !m.Since.IsZero() { // else nothing is known by the design in force
		row.Detail, row.Release, row.Person = s.Detail, s.Release, s.Person
	}
	if len(w.plan.Steps) > 0 {
		row.Work, row.Window = rollout.Actions(w.plan.Steps), rollout.WindowOf(w.node, &w.plan.Steps[0])
	}
	if m.State == site.MachineWaiting {
		row.WaitsFor = w.waitsFor
	}
	return row
}

// nowLocked returns what the machine of the rollout under way is doing now.
func (w *worker) nowLocked() site.MachineNow {
	m := site.MachineNow{Node: w.name, State: site.MachineWaiting, What: w.status.Reason, Since: w.status.Since}
	switch {
	case w.standing == done:
		m.State = site.MachineDone
	case w.standing == failed:
		m.State = site.MachineFailed
	case w.status.State == site.Progressing, w.status.State == site.Retrying:
		m.State = site.MachineRunning
	case w.status.State == site.InSync || m.What == "": // from the previous design
		m.What, m.Since = "not started yet", time.Time{}
	}
	if len(w.plan.Steps) > 0 && len(w.plan.Steps[0].Changes) > 0 {
		m.Change = &w.plan.Steps[0].Changes[0]
	}
	return m
}
