package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// rows are the rows of the chart by node. What the chart says of itself must hold.
func (w *world) rows() (site.RolloutChart, map[string]site.ChartRow) {
	w.t.Helper()
	c, rows := w.engine.Chart(), map[string]site.ChartRow{}
	total := 0
	for _, n := range c.Counts {
		total += n
	}
	if total != len(c.Rows) {
		w.t.Errorf("counts are %v of %d rows", c.Counts, len(c.Rows))
	}
	for _, r := range c.Rows {
		rows[r.Node] = r
		for _, at := range []time.Time{r.Began, r.Ended, r.Expected.From, r.Expected.To} {
			if !at.IsZero() && (at.Before(c.From) || at.After(c.To)) {
				w.t.Errorf("%s has %s, which is not between %s and %s", r.Node, at, c.From, c.To)
			}
		}
		if r.State == site.MachineDone && !r.Expected.IsZero() {
			w.t.Errorf("%s is done and expected %v", r.Node, r.Expected)
		}
	}
	return c, rows
}

func order(c site.RolloutChart) (names []string) {
	for _, r := range c.Rows {
		names = append(names, r.Node)
	}
	return names
}

func TestChartOfARolloutWithCanaries(t *testing.T) {
	all := names(3)
	inBubble(t, patched, func(w *world) {
		d := w.serving(all...)
		w.patch(d, "2", func(d *site.Site) {
			d.Rollout.MaxUnavailable = "4"
			d.Rollout.Canaries = &site.Canaries{Count: 1, Soak: site.Duration(10 * time.Minute)}
		})
		began := w.until("n1 is worked on", time.Minute, w.is(site.Progressing, "n1"))
		w.after(time.Minute)
		c, rows := w.rows()
		n1, n2 := rows["n1"], rows["n2"]
		if n1.State != site.MachineRunning || !n1.Canary || !n1.Critical || n1.Began.IsZero() || !n1.Ended.IsZero() || n1.Work != "install-packages" {
			t.Errorf("the canary is %+v, begun after %s", n1, began)
		}
		if left := n1.Expected.To.Sub(c.Now); left <= 0 || left > time.Minute+lag {
			t.Errorf("the canary is expected to take %s more; a step that takes 2m began %s ago", left, c.Now.Sub(n1.Began))
		}
		if n2.State != site.MachineWaiting || !slices.Equal(n2.WaitsFor, []string{"n1"}) || !strings.Contains(n2.Sentence, "canaries (n1)") || n2.Release == "" || !n2.Began.IsZero() || n2.Canary {
			t.Errorf("who waits is %+v", n2)
		}
		if from := n1.Expected.To.Add(10 * time.Minute); !n2.Expected.From.Equal(from) || !n2.Expected.To.Equal(from.Add(2*time.Minute)) {
			t.Errorf("n2 is expected %v, want from %s", n2.Expected, from)
		}
		if was := n2.Forecast; was.From.Sub(c.Since) < 12*time.Minute || was.From.Sub(c.Since) > 12*time.Minute+lag || was.To.Sub(was.From) != 2*time.Minute {
			t.Errorf("n2 was forecast %v at the start, %s", was, c.Since)
		}
		if !c.Ends.Equal(n2.Expected.To) || !c.Soak.IsZero() || len(c.Path) == 0 || !slices.Equal(order(c), all) {
			t.Errorf("the chart is %+v", c)
		}

		w.until("n1 is done", 5*time.Minute, w.is(site.InSync, "n1"))
		c, rows = w.rows()
		if n1 = rows["n1"]; n1.State != site.MachineDone || c.Now.Sub(n1.Ended) > time.Second || !n1.Expected.IsZero() || n1.Sentence != "" {
			t.Errorf("the canary that is done is %+v", n1)
		}
		if c.Soak.To.Sub(c.Soak.From) != 10*time.Minute || !rows["n2"].Expected.From.Equal(c.Soak.To) {
			t.Errorf("the canaries soak %v, and n2 is expected %v", c.Soak, rows["n2"].Expected)
		}

		w.until("the rollout ends", 20*time.Minute, func() bool { return !w.rollout().Ended.IsZero() })
		c, rows = w.rows()
		before := n1
		if diff := cmp.Diff(rows["n1"].Ended, before.Ended); diff != "" || c.Counts[site.MachineDone] != 3 || c.Ended.IsZero() {
			t.Errorf("the chart of what has ended is %+v\n%s", c, diff)
		}
		w.down()
		w.up()
		w.after(3 * time.Minute)
		again := w.engine.Chart()
		again.Now = c.Now
		if diff := cmp.Diff(c, again); diff != "" {
			t.Errorf("after a restart the chart is another (-before +after):\n%s", diff)
		}
	}, all...)
}

// A daemon that is stopped in the middle goes on with the times and forecasts of before.
func TestChartOutlivesARestart(t *testing.T) {
	all := names(3)
	inBubble(t, patched, func(w *world) {
		d := w.serving(all...)
		w.patch(d, "2", canary)
		w.until("n1 is done and n2 begun", 20*time.Minute, func() bool { return w.is(site.InSync, "n1")() && w.is(site.Progressing, "n2")() })
		_, before := w.rows()
		w.down()
		w.up()
		w.after(30 * time.Second)
		_, after := w.rows()
		for _, name := range all {
			x, y := before[name], after[name]
			if !x.Began.Equal(y.Began) || !x.Ended.Equal(y.Ended) || x.Forecast != y.Forecast {
				t.Errorf("%s was %+v, and is %+v after a restart", name, x, y)
			}
		}
		if before["n3"].Forecast.IsZero() || before["n1"].Ended.IsZero() || before["n2"].Began.IsZero() {
			t.Errorf("before the restart: %+v", before)
		}
	}, all...)
}

// A rollout that ends because its nodes need nothing any more has done none of them.
func TestChartOfWhatWasReverted(t *testing.T) {
	all := names(2)
	inBubble(t, patched, func(w *world) {
		d := w.serving(all...)
		night := func(d *site.Site) {
			d.Rollout.MaxUnavailable = "100%"
			d.Windows = at("0 4 * * *")
			for _, n := range d.Nodes {
				n.Windows.Online, n.Window = "night", "night"
			}
		}
		w.patch(d, "2", night)
		w.after(2 * time.Minute)
		w.commit(d)
		w.until("the rollout ends", 5*time.Minute, func() bool { return !w.rollout().Ended.IsZero() })
		w.after(time.Hour)
		c, rows := w.rows()
		if done := w.rollout().Done; c.Counts[site.MachineDone] != done || done != 0 || c.Counts[site.MachineDropped] != 2 {
			t.Errorf("%d are done, and the chart counts %v", done, c.Counts)
		}
		if n1 := rows["n1"]; n1.Sentence == "" || n1.Ended.After(c.Ended) {
			t.Errorf("what was not begun is %+v", n1)
		}
	}, all...)
}

func TestChartOfAWindow(t *testing.T) {
	all := names(2)
	inBubble(t, patched, func(w *world) {
		d := w.serving(all...)
		w.patch(d, "2", func(d *site.Site) {
			d.Rollout.MaxUnavailable = "100%"
			d.Windows = at("0 4 * * *")
			d.Nodes["n2"].Windows.Online, d.Nodes["n2"].Window = "night", "night"
		})
		w.after(2 * time.Minute)
		c, rows := w.rows()
		if len(c.Windows) != 1 || c.Windows[0].Name != "night" || len(c.Windows[0].Open) != 1 {
			t.Fatalf("windows are %+v", c.Windows)
		}
		opens, n2 := c.Windows[0].Open[0].From, rows["n2"]
		if n2.Window != "night" || !n2.Expected.From.Equal(opens) || n2.WaitsFor != nil || !strings.Contains(n2.Sentence, "window night") || rows["n1"].Window != "" {
			t.Errorf("n2 waits for %s: %+v", opens, n2)
		}
		if opens.Hour() != 4 || c.Windows[0].Open[0].To.After(c.To) {
			t.Errorf("the window opens %v in a chart to %s", c.Windows[0].Open, c.To)
		}
	}, all...)
}

// While an installer runs, what is left of its expected time counts, also for those that wait for its
// place.
func TestChartOfInstallations(t *testing.T) {
	all := names(2)
	inBubble(t, patched, func(w *world) {
		w.serving(all...)
		w.commit(w.reinstall(func(d *site.Site) { d.Rollout.MaxUnavailable = "1" }, all...))
		w.after(time.Minute)
		if c, rows := w.rows(); !c.Ends.IsZero() || !rows["n1"].Person || !rows["n1"].Forecast.IsZero() && rows["n1"].Forecast.From.Before(c.Since) {
			t.Errorf("before the approval: %+v", rows["n1"])
		}
		w.approve()
		runs := func(name string) bool { return strings.Contains(w.node(name).Reason, "installer") }
		w.until("an installer runs", 5*time.Minute, func() bool { return runs("n1") || runs("n2") })
		first, then := "n1", "n2" // whoever asks first
		if runs("n2") {
			first, then = "n2", "n1"
		}
		w.after(2 * time.Minute)
		c, rows := w.rows()
		n1, n2 := rows[first], rows[then]
		if left := n1.Expected.To.Sub(c.Now); n1.State != site.MachineRunning || left < 15*time.Minute || left > 18*time.Minute {
			t.Errorf("an installation of 15m and 4m is expected to take %s more after %s: %+v", left, c.Now.Sub(n1.Began), n1)
		}
		if n2.State != site.MachineWaiting || !n2.Expected.From.Equal(n1.Expected.To) || !slices.Equal(n2.WaitsFor, []string{first}) || !c.Ends.Equal(n2.Expected.To) {
			t.Errorf("who waits for its place is %+v, ends %s", n2, c.Ends)
		}
		w.until("the rollout ends", time.Hour, func() bool { return !w.rollout().Ended.IsZero() })
		if c, _ := w.rows(); c.To.Sub(c.From) > 2*c.Ended.Sub(c.Since) {
			t.Errorf("a rollout of %s is drawn over %s", c.Ended.Sub(c.Since), c.To.Sub(c.From))
		}
	}, all...)
}

// Nothing is expected of nodes that a person holds: nobody knows when that ends.
func TestChartOfWhatWaitsForAPerson(t *testing.T) {
	all := names(3)
	t.Run("a failed canary", func(t *testing.T) {
		inBubble(t, patched, func(w *world) {
			d := w.serving(all...)
			w.fleet.Machine("n1").SetFault(drivertest.Lies)
			w.patch(d, "2", canary)
			w.until("the rollout is halted", 40*time.Minute, func() bool { return w.rollout().Halted != "" })
			w.after(3 * time.Minute)
			c, rows := w.rows()
			if n1 := rows["n1"]; n1.State != site.MachineFailed || n1.Ended.IsZero() || n1.Sentence == "" {
				t.Errorf("what has failed is %+v", n1)
			}
			if n2 := rows["n2"]; n2.State != site.MachineWaiting || !n2.Expected.IsZero() || !n2.Person || n2.Forecast.IsZero() {
				t.Errorf("who is held is %+v", n2)
			}
			if c.Halted == "" || !c.Ends.IsZero() {
				t.Errorf("a halted chart: %+v", c)
			}
		}, all...)
	})
	t.Run("a paused canary", func(t *testing.T) {
		inBubble(t, patched, func(w *world) {
			d := w.serving(all...)
			w.patch(d, "2", func(d *site.Site) {
				canary(d)
				for _, n := range d.Nodes {
					n.Paused = &site.Hold{By: "ann", Reason: "audit"}
				}
				d.Nodes["n3"].Paused = nil
				d.Rollout.Canaries.Nodes = &site.Selector{Match: site.Match{Names: []string{"n1"}}}
			})
			w.after(3 * time.Minute)
			c, rows := w.rows()
			if n3 := rows["n3"]; !n3.Expected.IsZero() || !c.Ends.IsZero() || !slices.Equal(n3.WaitsFor, []string{"n1"}) {
				t.Errorf("who waits for a paused canary is %+v; the rollout ends %s", n3, c.Ends)
			}
		}, all...)
	})
	t.Run("a paused site", func(t *testing.T) {
		inBubble(t, patched, func(w *world) {
			d := w.serving(all...)
			w.do(site.Order{Verb: site.VerbPause, By: "ann", Reason: "audit"})
			w.patch(d, "2", nil)
			w.after(3 * time.Minute)
			c, rows := w.rows()
			if n1 := rows["n1"]; c.Paused == nil || !n1.Expected.IsZero() || n1.State != site.MachineWaiting || !c.Ends.IsZero() {
				t.Errorf("of a paused site: %+v", n1)
			}
		}, all...)
	})
}

// A node that is worked on again after a pause is expected to end.
func TestChartAfterAPause(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving("n1")
		w.patch(d, "2", nil)
		w.until("n1 is worked on", time.Minute, w.is(site.Progressing, "n1"))
		w.do(site.Order{Verb: site.VerbPause, By: "ann", Reason: "audit"})
		w.after(20 * time.Second)
		w.do(site.Order{Verb: site.VerbResume, By: "ann"})
		w.until("n1 goes on", 5*time.Minute, func() bool { return w.is(site.Progressing, "n1")() || w.is(site.InSync, "n1")() })
		if w.is(site.InSync, "n1")() {
			return // its machine had finished during the pause
		}
		c, rows := w.rows()
		if n1 := rows["n1"]; n1.State != site.MachineRunning || n1.Expected.IsZero() || c.Ends.IsZero() {
			t.Errorf("after the pause: %+v, ends %s", n1, c.Ends)
		}
	}, "n1")
}

func TestChartOfADaemonThatOnlyObserves(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.serving("n1")
		w.down()
		w.observe = true
		w.patch(d, "2", nil)
		w.up()
		w.after(time.Minute)
		c, rows := w.rows()
		if n1 := rows["n1"]; c.ReadOnly == "" || !c.Ends.IsZero() || !n1.Expected.IsZero() || !strings.Contains(n1.Sentence, "observing only") {
			t.Errorf("the chart is %+v", c)
		}
	}, "n1")
}

func TestChartBeforeTheFirstRollout(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		w.up()
		w.after(time.Second)
		if c := w.engine.Chart(); !c.Since.IsZero() || len(c.Rows) != 0 || c.Now.IsZero() {
			t.Errorf("chart is %+v", c)
		}
	})
}
