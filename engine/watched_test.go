package engine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// timeline is what is known of n1 since a time.
func (w *world) timeline(from time.Time) site.NodeTimeline {
	w.t.Helper()
	events, err := w.engine.History(w.t.Context(), "n1")
	if err != nil {
		w.t.Fatal(err)
	}
	n := w.node("n1")
	return site.TimelineOf("n1", &n, events, w.engine.Watched(), from, time.Now())
}

// What was last read of the log of a machine is kept, bounded, until the node is removed; it is not known before.
func TestMachineLogIsKept(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		w.serving("n1")
		m := w.fleet.Machine("n1")
		m.Logs(site.Entry{ID: "7", Severity: "Critical", Text: strings.Repeat("fan ", 1000)})
		w.until("it is read again", 3*time.Hour, func() bool {
			log, err := w.engine.MachineLog("n1")
			return err == nil && len(log.Entries) > 0
		})
		log, _ := w.engine.MachineLog("n1")
		if e := log.Entries[len(log.Entries)-1]; e.ID != "7" || len(e.Text) > 210 || log.Read.IsZero() {
			t.Errorf("kept %+v", log)
		}
		if _, err := w.engine.MachineLog("n9"); !errors.Is(err, site.ErrNotFound) {
			t.Errorf("of a node that is not there: %v", err)
		}
	}, "n1")
}

// While no daemon runs nobody knows what a machine is in, also where its state was the same before and after. A
// restart is too short to be told from the time between two looks.
func TestTimelineHasNothingWhileNoDaemonRuns(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		w.serving("n1")
		began := time.Now()
		w.after(time.Hour)
		w.down()
		w.up()
		w.after(time.Hour)
		if got := w.engine.Watched(); got.Since.IsZero() || len(got.Absences) > 0 {
			t.Errorf("after a restart %+v", got)
		}
		w.down()
		left := time.Now()
		w.after(2 * time.Hour)
		back := time.Now()
		w.up()
		w.after(time.Hour)
		w.want("n1", site.InSync)
		got := w.timeline(began.Add(time.Minute))
		if n := len(got.States); n != 3 || got.States[0].State != site.InSync || got.States[1].State != "" || got.States[2].State != site.InSync {
			t.Fatalf("states %+v", got.States)
		}
		if gap := got.States[1]; gap.From.Sub(left).Abs() > 11*time.Second || gap.To.Sub(back).Abs() > 5*time.Second {
			t.Errorf("nothing is known from %s to %s; the daemon was gone from %s to %s", gap.From, gap.To, left, back)
		}
		w.do(site.Order{Verb: site.VerbQuarantine, Node: "n1", Reason: "drill"})
		w.after(5 * time.Minute)
		w.do(site.Order{Verb: site.VerbRelease, Node: "n1"})
		w.after(5 * time.Minute)
		var told []string
		for _, s := range w.timeline(time.Now().Add(-11 * time.Minute)).States {
			text := string(s.State)
			if s.Quarantined {
				text += " quarantined"
			}
			told = append(told, text)
		}
		if all := strings.Join(told, ", "); !strings.HasPrefix(all, "in-sync, ") || !strings.Contains(all, "paused quarantined") || strings.HasSuffix(all, "quarantined") {
			t.Errorf("through a quarantine: %s", all)
		}
	}, "n1")
}
