package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// desk is a site whose reports the test writes, and a person who is told.
type desk struct {
	t    *testing.T
	dir  string
	n    *Notifier
	stop func()

	mu   sync.Mutex
	got  []Message
	away error
	held time.Duration // how long the channel takes for a message
}

// atDesk runs a test in virtual time.
func atDesk(t *testing.T, f func(*desk)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := &desk{t: t, dir: dir}
		d.up()
		defer func() { d.stop() }()
		f(d)
	})
}

// Send is the person's phone.
func (d *desk) Send(ctx context.Context, m Message) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-time.After(d.held):
	case <-ctx.Done():
		return ctx.Err()
	}
	if d.away == nil {
		d.got = append(d.got, m)
	}
	return d.away
}

// set makes the channel fail, or work again.
func (d *desk) set(away error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away = away
}

// messages are those since the last call.
func (d *desk) messages() []Message {
	d.mu.Lock()
	defer d.mu.Unlock()
	got := d.got
	d.got = nil
	return got
}

func (d *desk) up() {
	n, err := New(Config{Site: "example", Dir: d.dir, Channels: map[string]Channel{"phone": d}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		d.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(d.t.Context())
	ended := make(chan struct{})
	go func() { n.Run(ctx); close(ended) }()
	d.n, d.stop = n, func() { cancel(); <-ended }
}

// is reports a status, and lets time pass.
func (d *desk) is(st site.Status, after time.Duration) {
	d.t.Helper()
	if err := d.n.Report(d.t.Context(), site.Report{Status: st}); err != nil {
		d.t.Error(err)
	}
	d.after(after)
}

func (d *desk) after(after time.Duration) {
	time.Sleep(after) // of virtual time
	synctest.Wait()
}

// told holds the messages since the last call to these summaries.
func (d *desk) told(want ...string) {
	d.t.Helper()
	var got []string
	for _, m := range d.messages() {
		got = append(got, m.Summary)
	}
	if !slices.Equal(got, want) {
		d.t.Errorf("told\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// stalled is a site in which these nodes have the same cause, each in its own
// words.
func stalled(names ...string) site.Status {
	st := site.Status{Site: "example"}
	for i, name := range names {
		st.Nodes = append(st.Nodes, site.NodeStatus{Name: name, State: site.Stalled, Since: time.Now(),
			Reason: fmt.Sprintf("observe %s: denied: https://10.0.0.%d:443/redfish/v1 answers 401 after %ds", name, i+1, i+2)})
	}
	return st
}

func many(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("compute-%02d", i+1))
	}
	return names
}

const denied = "observe compute-01: denied: https://10.0.0.1:443/redfish/v1 answers 401 after 2s"

func TestSameCauseIsToldOnceWithItsNodes(t *testing.T) {
	atDesk(t, func(d *desk) {
		all := many(37)
		for i := 1; i <= len(all); i += 6 { // they fall one after the other
			d.is(stalled(all[:i]...), 3*time.Second)
		}
		d.told()
		d.is(stalled(all...), time.Minute)
		d.told("example: 37 nodes are stalled, same cause: " + denied + " (compute-01, compute-02, compute-03 and 34 more)")
		for range 20 {
			d.is(stalled(all...), time.Hour)
		}
		d.told()
	})
}

func TestMessageSaysWhatAndWhatToDo(t *testing.T) {
	atDesk(t, func(d *desk) {
		st := stalled(many(25)...)
		st.Applied.ID = "abcd"
		d.is(st, time.Minute)
		got := d.messages()
		if len(got) != 1 || len(got[0].Events) != 1 {
			t.Fatalf("got %+v", got)
		}
		m, e := got[0], got[0].Events[0]
		if m.Version != 1 || m.Site != "example" || m.Revision != "abcd" || len(m.ID) != 32 || m.When.IsZero() {
			t.Errorf("message %+v", m)
		}
		if e.Event != EventNew || e.Kind != Stalled || e.Count != 25 || len(e.Nodes) != maxNames || e.What != denied || e.Do != "slipway why compute-01" || e.Since.IsZero() || e.Cause == "" {
			t.Errorf("event %+v", e)
		}
	})
}

func TestMoreNodesComeInTheNextDigest(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.is(stalled(many(2)...), time.Minute)
		d.told("example: 2 nodes are stalled, same cause: " + denied + " (compute-01, compute-02)")
		d.is(stalled(many(3)...), 10*time.Minute)
		d.is(stalled(many(5)...), 45*time.Minute)
		d.told()
		d.after(10 * time.Minute)
		d.told("example: 3 more, 5 nodes are stalled, same cause: " + denied + " (compute-01, compute-02, compute-03 and 2 more)")
	})
}

func TestWhatIsOverIsToldAndToldAgainWhenItComesBack(t *testing.T) {
	atDesk(t, func(d *desk) {
		one := "compute-01 is stalled: " + denied
		d.is(stalled(many(1)...), time.Minute)
		d.told("example: " + one)
		for range 5 { // it comes and goes
			d.is(site.Status{}, 9*time.Minute)
			d.is(stalled(many(1)...), 9*time.Minute)
		}
		d.told()
		d.is(site.Status{}, 11*time.Minute)
		d.told("example: resolved: " + one)
		d.is(stalled(many(1)...), time.Minute)
		d.told("example: " + one)
	})
}

func TestWhatPassesQuicklyIsNotTold(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.is(stalled(many(1)...), 20*time.Second)
		d.is(site.Status{}, time.Hour)
		d.told()
	})
}

func TestReminderEveryDay(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.is(stalled(many(1)...), 50*time.Hour)
		one := "compute-01 is stalled: " + denied
		d.told("example: "+one, "example: still "+one, "example: still "+one)
	})
}

func TestRestartRepeatsNothing(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.is(stalled(many(2)...), time.Minute)
		d.told("example: 2 nodes are stalled, same cause: " + denied + " (compute-01, compute-02)")
		d.stop()
		d.after(20 * time.Minute)
		d.up()
		d.after(time.Minute) // nothing is over before the first report
		d.is(stalled(many(2)...), 2*time.Hour)
		d.told()
		d.stop()
		d.up()
		d.is(site.Status{}, 11*time.Minute)
		d.told("example: resolved: 2 nodes are stalled, same cause: " + denied + " (compute-01, compute-02)")
		d.stop()
		d.up()
		d.is(site.Status{}, time.Hour)
		d.told()
	})
}

func TestDamagedAccountTellsAgain(t *testing.T) {
	for name, text := range map[string]string{"half": `{"a":{"kind"`, "another form": `[1]`, "a hole": `{"a":null}`, "out of order": `{"a":{"nodes":["b","a"]}}`} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, func(d *desk) {
				d.stop()
				if err := os.WriteFile(filepath.Join(d.dir, "told-phone.json"), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				d.up()
				d.is(stalled(many(1)...), time.Minute)
				d.told("example: compute-01 is stalled: " + denied)
			})
		})
	}
}

// A channel that was away is told how things are now.
func TestChannelThatWasAway(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.set(errors.New("no route to host"))
		d.is(stalled(many(1)...), time.Hour)
		d.is(site.Status{}, time.Hour) // over before anybody knew
		d.is(stalled(many(3)...), 5*time.Hour)
		d.set(nil)
		d.after(20 * time.Minute)
		d.told("example: 3 nodes are stalled, same cause: " + denied + " (compute-01, compute-02, compute-03)")
	})
}

// A message that was sent again has the same ID.
func TestIDStaysTheSame(t *testing.T) {
	events := []Event{{Event: EventNew, Cause: "c", first: time.Unix(1, 0), all: []string{"a"}}}
	a, b := newMessage("s", "r", time.Unix(10, 0), events), newMessage("s", "r", time.Unix(99, 0), events)
	events[0].first = time.Unix(2, 0)
	if c := newMessage("s", "r", time.Unix(10, 0), events); a.ID != b.ID || a.ID == c.ID {
		t.Errorf("IDs %s %s %s", a.ID, b.ID, c.ID)
	}
}

func TestSlowChannelHoldsNobodyUp(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.mu.Lock()
		d.held = time.Hour // past every timeout
		d.mu.Unlock()
		d.is(stalled(many(1)...), 31*time.Second)
		begun := time.Now()
		d.is(stalled(many(2)...), 0)
		if took := time.Since(begun); took != 0 {
			t.Errorf("Report took %s", took)
		}
	})
}

func TestCausesOfEveryKind(t *testing.T) {
	atDesk(t, func(d *desk) {
		now := time.Now()
		d.is(site.Status{
			Nodes: []site.NodeStatus{
				{Name: "a", State: site.Blocked, Person: true, Reason: "first contact: never seen as designed", Release: "`slipway approve a`", Since: now},
				{Name: "b", State: site.Blocked, Reason: "2 of 10 nodes are out of service", Since: now},
				{Name: "c", State: site.Blocked, Person: true, Reason: "approval: install would lose data", Since: now},
				{Name: "e", State: site.Blocked, Person: true, Reason: "the rollout is halted: 2 of 10 nodes failed", Since: now},
				{Name: "d", State: site.Paused, Person: true, Reason: "paused by ann", Since: now},
			},
			Waiting: site.Losses{{Node: "c", Action: "install generation 2", Lost: "the disk"}}, Approve: "d1g",
			Rollout:  &site.RolloutStatus{Halted: "2 of 10 nodes failed", Failed: map[string]string{"x": "", "y": ""}},
			Problems: []site.Problem{{About: "design", What: "revision 12ab is broken", Since: now}, {About: "source", What: "away", Since: now}},
		}, time.Minute)
		messages := d.messages()
		if len(messages) != 1 {
			t.Fatalf("got %+v", messages)
		}
		got := map[Kind]string{}
		for _, e := range messages[0].Events {
			got[e.Kind] += e.line() + " → " + e.Do
		}
		for kind, want := range map[Kind]string{
			Held:     "a waits for a person: first contact: never seen as designed → `slipway approve a`",
			Approval: "c waits for approval: install generation 2 of c, where the disk would be lost → slipway plan, then slipway approve d1g",
			Halted:   "the rollout has halted: 2 of 10 nodes failed (x, y) → slipway status",
			Problem:  "the site has a problem: revision 12ab is broken → slipway status",
		} {
			if got[kind] != want {
				t.Errorf("%s: %q, want %q", kind, got[kind], want)
			}
		}
		if len(got) != 4 {
			t.Errorf("kinds %v", got)
		}
	})
}

func TestHaltIsOverWhenItsRolloutHasEnded(t *testing.T) {
	atDesk(t, func(d *desk) {
		halted := site.RolloutStatus{Revision: site.Revision{ID: "r1"}, Since: time.Now(), Halted: "canary n1 has failed"}
		d.is(site.Status{Site: "example", Rollout: &halted}, time.Minute)
		d.told("example: the rollout has halted: canary n1 has failed")
		ended := halted
		ended.Ended = time.Now()
		d.is(site.Status{Site: "example", Rollout: &ended}, 50*time.Hour)
		d.told("example: resolved: the rollout has halted: canary n1 has failed")
	})
}

func TestRepositoryIsToldOfWhenItIsAwayForLong(t *testing.T) {
	atDesk(t, func(d *desk) {
		away := site.Status{Problems: []site.Problem{{About: "source", What: "no route to host", Since: time.Now()}}}
		d.is(away, 14*time.Minute)
		d.told()
		away.Problems[0].What = "i/o timeout" // in other words, still away
		d.is(away, 2*time.Minute)
		d.told("example: the site has a problem: i/o timeout")
	})
}

// Without records or a term nothing is done at all.
func TestRecordsAndTermAreToldOfAtOnce(t *testing.T) {
	for _, about := range []string{"records", "term"} {
		atDesk(t, func(d *desk) {
			d.is(site.Status{Problems: []site.Problem{{About: about, What: "no space left on device", Since: time.Now()}}}, time.Minute)
			d.told("example: the site has a problem: no space left on device")
		})
	}
}

// Whatever the clock was when something was recorded, people are told.
func TestClockThatWasSet(t *testing.T) {
	atDesk(t, func(d *desk) {
		later := time.Now().Add(1000 * time.Hour)
		st := stalled(many(1)...)
		st.Nodes[0].Since = later
		st.Problems = []site.Problem{{About: "source", What: "away", Since: later}}
		d.is(st, time.Minute)
		d.told("example: compute-01 is stalled: " + denied)
		d.after(15 * time.Minute)
		d.told("example: the site has a problem: away")
		d.stop()
		text := fmt.Sprintf(`{%q: {"kind": "stalled", "first": %[2]q, "told": %[2]q, "nodes": ["compute-01"]}}`,
			key(Stalled, steady("compute-01", st.Nodes[0].Reason)), later.Format(time.RFC3339))
		if err := os.WriteFile(filepath.Join(d.dir, "told-phone.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		d.up()
		st.Problems = nil
		d.is(st, 25*time.Hour)
		d.told("example: still compute-01 is stalled: " + denied)
	})
}

func TestAnotherBrokenDesignIsToldOf(t *testing.T) {
	atDesk(t, func(d *desk) {
		for _, what := range []string{"revision 1a2b3c4d5e6f is broken: a.cue:3: no such role", "revision ffb3c4d5e600 is broken: a.cue:3: no such role", "revision 77b3c4d5e600 is broken: no such image"} {
			d.is(site.Status{Problems: []site.Problem{{About: "design", What: what, Since: time.Now()}}}, time.Minute)
		}
		d.told("example: the site has a problem: revision 1a2b3c4d5e6f is broken: a.cue:3: no such role",
			"example: the site has a problem: revision 77b3c4d5e600 is broken: no such image")
	})
}

// Where each node has its own trouble, messages stay bounded.
func TestManyCausesAreBounded(t *testing.T) {
	atDesk(t, func(d *desk) {
		st := site.Status{}
		for i := range 2000 {
			word := strings.Repeat("x", i%40+1) + strings.Repeat("y", i/40+1)
			st.Nodes = append(st.Nodes, site.NodeStatus{Name: fmt.Sprintf("n%04d", i), State: site.Stalled, Reason: "says " + word, Since: time.Now()})
		}
		d.is(st, time.Minute)
		got := d.messages()
		if len(got) != 1 || len(got[0].Events) != maxCauses+1 || len(got[0].Summary) > maxSummary || len(got[0].body()) > 64<<10 {
			t.Fatalf("got %+v", got)
		}
		n := 0
		for _, e := range got[0].Events {
			n += e.Count
		}
		if n != 2000 {
			t.Errorf("%d nodes are told of", n)
		}
	})
}

// The message that docs/notifications.md shows has the fields of a message.
func TestDocumentedMessageIsOne(t *testing.T) {
	text, err := os.ReadFile("../../docs/notifications.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```json\n")
	shown, _, _ := strings.Cut(rest, "```")
	dec := json.NewDecoder(strings.NewReader(shown))
	dec.DisallowUnknownFields()
	var m Message
	if err := dec.Decode(&m); err != nil || m.Version != MessageVersion || len(m.Events) != 1 || m.Events[0].Count != 37 {
		t.Errorf("%v: %+v", err, m)
	}
}
