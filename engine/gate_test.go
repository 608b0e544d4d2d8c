package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sitekey"
)

var (
	machineOne = site.Identity{UUID: "u1"}
	lossOne    = site.Loss{Node: "n1", Machine: machineOne, Action: "install generation 1", Generation: 1, Disks: "S1", Attempt: 1, Records: "r1"}
	installOne = site.Step{Node: "n1", Action: site.ActionInstall, Impact: site.ImpactDestructive, Machine: machineOne,
		Generation: 1, Disks: "S1", Attempt: 1, Records: "r1"}
	powerOn = site.Step{Node: "n1", Action: site.ActionPowerOn, Impact: site.ImpactReboot}
)

// gated is an engine with one node, whose installation is approved, and that may
// write: its term is held.
func gated(t *testing.T) (*Engine, *worker) {
	t.Helper()
	store, err := record.Open(t.Context(), t.TempDir(), record.Options{NoSync: true, Tick: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	e := New(Config{Site: "lab", Records: store.Site("lab")})
	if e.term.Term, err = e.Records.Acquire(t.Context(), "here", 0); err != nil {
		t.Fatal(err)
	}
	n := &site.Node{Name: "n1", Identity: machineOne, Image: "debian", Role: "plain", Generation: 1}
	e.design = &site.Site{Name: "lab", Images: map[string]*site.Image{"debian": {SHA256: "d1"}}, Roles: map[string]*site.Role{"plain": {}}, Nodes: map[string]*site.Node{"n1": n}}
	e.book = record.Book{Records: "r1"}
	account := site.Account{Records: "r1", Entries: []site.LedgerEntry{{Loss: lossOne, Expires: time.Now().Add(time.Hour)}}}
	e.accounts["n1"] = account
	w := newWorker(e, n, site.Memory{Account: account, Recorded: site.Recorded{Adopted: &site.Adoption{Machine: machineOne}}}, false, func() {})
	e.workers["n1"] = w
	return e, w
}

// jobOf is the job that a step was planned for.
func jobOf(e *Engine, w *worker) job {
	n := *w.node
	return job{site: e.design, node: &n, memory: w.memory}
}

// The last look before the disks are erased sees what has changed since the gates
// were passed.
func TestLastLookBeforeDestruction(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Engine, *worker, *site.Step)
		want   string // empty where it may go on
	}{
		"nothing":             {func(*Engine, *worker, *site.Step) {}, ""},
		"quarantined":         {func(_ *Engine, w *worker, _ *site.Step) { w.memory.Recorded.Quarantined = &site.Hold{} }, redesigned},
		"another design":      {func(_ *Engine, w *worker, _ *site.Step) { n := *w.node; n.Generation = 2; w.node = &n }, redesigned},
		"it leaves":           {func(_ *Engine, w *worker, _ *site.Step) { w.leaving = true }, redesigned},
		"another image":       {func(e *Engine, _ *worker, _ *site.Step) { e.design = withImage(e.design, "d2") }, redesigned},
		"another role":        {func(e *Engine, _ *worker, _ *site.Step) { e.design = withRole(e.design) }, redesigned},
		"only observing":      {func(e *Engine, _ *worker, _ *site.Step) { e.ObserveOnly = true }, "--observe"},
		"read only":           {func(e *Engine, _ *worker, _ *site.Step) { e.readOnly = "the disk is full" }, "the disk is full"},
		"another daemon acts": {func(e *Engine, _ *worker, _ *site.Step) { e.anchor.barred = "another daemon acts" }, "another daemon acts"},
		"no term":             {func(e *Engine, _ *worker, _ *site.Step) { e.term.Term = nil }, "has not begun yet"},
		"disapproved":         {func(_ *Engine, w *worker, _ *site.Step) { w.memory.Account.Entries = nil }, "waits for approval"},
		"expired":             {func(_ *Engine, w *worker, _ *site.Step) { w.memory.Account.Entries[0].Expires = time.Now() }, "waits for approval"},
		"other disks":         {func(_ *Engine, _ *worker, s *site.Step) { s.Disks = "S2" }, "waits for approval"},
		"disks not read":      {func(_ *Engine, _ *worker, s *site.Step) { s.Disks = "" }, "Slipway has read the disks of the machine"},
		"not met":             {func(_ *Engine, w *worker, _ *site.Step) { w.memory.Recorded.Adopted = nil }, "says that it is"},
		"another machine met": {func(_ *Engine, w *worker, _ *site.Step) {
			w.memory.Recorded.Adopted = &site.Adoption{Machine: site.Identity{UUID: "u2"}}
		}, "says that it is"},
		"it is gone":            {func(e *Engine, _ *worker, _ *site.Step) { delete(e.workers, "n1") }, "says that it is"},
		"nothing of it is lost": {func(_ *Engine, w *worker, s *site.Step) { *s = powerOn; w.memory.Account.Entries = nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e, w := gated(t)
			j, s := jobOf(e, w), installOne
			c.change(e, w, &s)
			e.mu.Lock()
			defer e.mu.Unlock()
			h := e.mayDestroyLocked(w, j, s, false)
			if c.want == "" {
				if h != nil {
					t.Errorf("held: %s", h.sentence)
				}
			} else if h == nil || !strings.Contains(h.sentence, c.want) {
				t.Errorf("got %+v, want %q", h, c.want)
			}
		})
	}
}

func withImage(s *site.Site, digest string) *site.Site {
	other := *s
	other.Images = map[string]*site.Image{"debian": {SHA256: digest}}
	return &other
}

func withRole(s *site.Site) *site.Site {
	other := *s
	other.Roles = map[string]*site.Role{"plain": {Phases: []string{"x"}}}
	return &other
}

// A quarantine that is recorded after the gates were passed stops the step before
// it is recorded as begun.
func TestQuarantineBetweenGatesAndBegin(t *testing.T) {
	e, w := gated(t)
	j := jobOf(e, w)
	w.memory.Recorded.Quarantined = &site.Hold{}
	if _, err := w.noteBegun(t.Context(), j, installOne); !errors.Is(err, errHeld) {
		t.Errorf("got %v, want %v", err, errHeld)
	}
	if w.memory.Recorded.InFlight != nil {
		t.Errorf("the step is recorded as begun: %+v", w.memory.Recorded.InFlight)
	}
	w.memory.Recorded.Quarantined = nil
	if _, err := w.noteBegun(t.Context(), j, installOne); err != nil || w.memory.Recorded.InFlight == nil {
		t.Errorf("without a quarantine: %v, %+v", err, w.memory.Recorded.InFlight)
	}
}

// A step goes on without an approval only where this very step has used one.
func TestWhatHasUsedAnApproval(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*site.InFlight)
		want   bool
	}{
		"this step":          {func(*site.InFlight) {}, true},
		"not used":           {func(f *site.InFlight) { f.Consumed = false }, false},
		"another step":       {func(f *site.InFlight) { f.Step.Action = site.ActionZeroize }, false},
		"another machine":    {func(f *site.InFlight) { f.Step.Machine.UUID = "u2" }, false},
		"another attempt":    {func(f *site.InFlight) { f.Step.Attempt = 2 }, false},
		"of records of then": {func(f *site.InFlight) { f.Step.Records = "r0" }, false},
	} {
		f := site.InFlight{Step: installOne, Consumed: true}
		c.change(&f)
		if got := used(site.Recorded{InFlight: &f}, installOne); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
	if used(site.Recorded{}, installOne) {
		t.Error("used although nothing was begun")
	}
}

// The approval is used with the step that was recorded as begun, and by no other.
func TestConsumptionNeedsTheStep(t *testing.T) {
	for name, c := range map[string]struct {
		flight *site.InFlight
		want   string
	}{
		"begun":        {&site.InFlight{Step: installOne}, ""},
		"nothing":      {nil, "not recorded as begun"},
		"another step": {&site.InFlight{Step: powerOn}, "not recorded as begun"},
	} {
		t.Run(name, func(t *testing.T) {
			e, w := gated(t)
			w.memory.Recorded.InFlight = c.flight
			used, err := w.consume(t.Context(), jobOf(e, w), installOne)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) || !e.accounts["n1"].HasOpen() {
					t.Errorf("got %v, want %q; the approval is open: %t", err, c.want, e.accounts["n1"].HasOpen())
				}
				return
			}
			if err != nil || !used {
				t.Fatal(used, err)
			}
			f := w.memory.Recorded.InFlight
			if !f.Consumed || c.flight.Consumed || e.accounts["n1"].HasOpen() || e.accounts["n1"].Closed != 1 || w.memory.Account.Closed != 1 {
				t.Errorf("in flight %+v, account %+v, as the worker knows it %+v", f, e.accounts["n1"], w.memory.Account)
			}
			if x := e.accounts["n1"].Entries[0]; x.Term != e.term.Number {
				t.Errorf("used by term %d, want %d", x.Term, e.term.Number)
			}
			// What was not sent yet may have been overtaken by another decision.
			if used, err := w.consume(t.Context(), jobOf(e, w), installOne); err == nil || used {
				t.Errorf("used twice: %v %v", used, err)
			}
			// What was begun goes on whatever the design says by now, and uses nothing.
			sent := *f
			sent.Sent = true
			w.memory.Recorded.InFlight = &sent
			w.node = &site.Node{Name: "n1"}
			if used, err := w.consume(t.Context(), jobOf(e, w), installOne); err != nil || used {
				t.Errorf("resumed: %v %v", used, err)
			}
			w.memory.Recorded.Quarantined = &site.Hold{}
			if _, err := w.consume(t.Context(), jobOf(e, w), installOne); !errors.Is(err, site.ErrRefused) {
				t.Errorf("resumed under quarantine: %v", err)
			}
		})
	}
}

// What is destroyed waits for the published term and the site key on every
// machine; for what the term before may have under way it does not where no
// session of an earlier term is left.
func TestFencedMachineWaitsForThePublishedTerm(t *testing.T) {
	key, err := sitekey.Create(t.TempDir() + "/key")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change           func(*Engine)
		fenced, unfenced bool // whether it may destroy
		reboot           bool
	}{
		"nothing":          {func(*Engine) {}, true, true, true},
		"not read":         {func(e *Engine) { e.Anchor = nowhere{} }, false, false, false},
		"not published":    {func(e *Engine) { e.Anchor = nowhere{}; e.anchor.tried = true }, false, false, true},
		"published":        {func(e *Engine) { e.Anchor = nowhere{}; e.anchor.tried, e.anchor.claimed = true, true }, true, true, true},
		"observing":        {func(e *Engine) { e.Anchor = nowhere{}; e.ObserveOnly = true }, true, true, true},
		"no key":           {func(e *Engine) { e.design.Keys = []string{key.Public()} }, false, false, true},
		"its key":          {func(e *Engine) { e.design.Keys, e.Key = []string{key.Public()}, key }, true, true, true},
		"another key":      {func(e *Engine) { e.design.Keys, e.Key = []string{"ed25519:x"}, key }, false, false, true},
		"not settled":      {func(e *Engine) { e.term.settled = time.Now().Add(time.Minute) }, true, false, true},
		"settled":          {func(e *Engine) { e.term.settled = time.Now().Add(-time.Minute) }, true, true, true},
		"lost":             {func(e *Engine) { e.term.trouble = fmt.Errorf("x: %w", record.ErrLost) }, false, false, false},
		"could not begin":  {func(e *Engine) { e.term.Term, e.term.trouble = nil, errors.New("no") }, false, false, false},
		"renewed too late": {func(e *Engine) { _ = e.term.Release(t.Context()) }, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			e, w := gated(t)
			c.change(e)
			for _, w.fenced = range []bool{true, false} {
				want := c.unfenced
				if w.fenced {
					want = c.fenced
				}
				if h := e.termGate(w, installOne); (h == nil) != want {
					t.Errorf("fenced %t: got %+v, want it to pass: %t", w.fenced, h, want)
				}
				if h := e.termGate(w, powerOn); (h == nil) != c.reboot {
					t.Errorf("a reboot: got %+v, want it to pass: %t", h, c.reboot)
				}
			}
		})
	}
}

type nowhere struct{ Anchor }

func TestFirstContactNeedsAPerson(t *testing.T) {
	settled := &site.Adoption{Settled: time.Now()}
	destroys := powerOn
	destroys.Impact = site.ImpactDestructive
	inside := site.Step{Facet: site.FacetConfig, Action: site.ActionConfig, Impact: site.ImpactOnline}
	restart := site.Step{Facet: site.FacetKernel, Action: site.ActionKernel, Impact: site.ImpactReboot}
	for name, c := range map[string]struct {
		adopted *site.Adoption
		step    site.Step
		policy  string
		holds   bool
	}{
		"never seen as designed": {&site.Adoption{}, powerOn, "hold", true},
		"never met":              {nil, powerOn, "hold", true},
		"seen as designed":       {settled, powerOn, "hold", false},
		"repair":                 {nil, powerOn, "repair", false},
		"it disrupts nothing":    {nil, site.Step{Action: site.ActionPowerOn}, "hold", false},
		"it has its own":         {nil, destroys, "hold", false},
		"inside, in service":     {settled, inside, "hold", true},
		"inside, seen before":    {&site.Adoption{Settled: time.Now(), Inside: time.Now()}, inside, "hold", false},
		"inside, with a restart": {settled, restart, "hold", true},
		"inside, repair":         {settled, inside, "repair", false},
	} {
		e, w := gated(t)
		e.design.Rollout.FirstContact = c.policy
		w.memory.Recorded.Adopted = c.adopted
		if h := firstContactGate(w, e.design, c.step); (h != nil) != c.holds || h != nil && !h.person {
			t.Errorf("%s: got %+v", name, h)
		}
	}
}

// First contact with what is inside a system ends once that was seen as designed by a
// daemon that sees it, not once the machine was: helpers may come long after it.
func TestFirstContactInsideEndsByALook(t *testing.T) {
	helpers, asks := map[site.Facet]bool{site.FacetOS: true, site.FacetConfig: true}, site.Scalars{"vm.swappiness": int64(10)}
	for name, c := range map[string]struct {
		serves map[site.Facet]bool
		looked time.Time
		blind  bool
		asks   site.Scalars
		ends   bool
	}{
		"as designed":         {helpers, time.Now(), false, asks, true},
		"nothing is designed": {helpers, time.Now(), false, nil, false},
		"nobody looked":       {helpers, time.Time{}, false, asks, false},
		"it does not answer":  {helpers, time.Now(), true, asks, false},
		"no helpers, only OS": {map[site.Facet]bool{site.FacetOS: true}, time.Now(), false, asks, false},
	} {
		e, w := gated(t)
		e.serves = c.serves
		w.node.Endpoints = map[site.EndpointKind]site.Endpoint{site.OS: {URL: "ssh://10.0.0.1"}}
		w.memory.Recorded.Adopted = &site.Adoption{Settled: time.Now()}
		w.lookedInside, w.blindInside = c.looked, c.blind
		w.node.System.Sysctl = c.asks
		w.inSync(t.Context(), jobOf(e, w))
		if got := !w.memory.Recorded.Adopted.Inside.IsZero(); got != c.ends {
			t.Errorf("%s: it ended: %t", name, got)
		}
	}
}

func TestWhatGoesOnWithWhatWasBegun(t *testing.T) {
	wait := site.Step{Action: site.ActionFinishInstall}
	for name, c := range map[string]struct {
		r    site.Recorded
		step site.Step
		want bool
	}{
		"nothing was begun":          {site.Recorded{}, powerOn, false},
		"this step was":              {site.Recorded{InFlight: &site.InFlight{Step: powerOn}}, powerOn, true},
		"another was":                {site.Recorded{InFlight: &site.InFlight{Step: wait}}, powerOn, false},
		"an installation, its end":   {site.Recorded{Installing: &site.Installation{Generation: 1}}, wait, true},
		"an installation, once more": {site.Recorded{Installing: &site.Installation{Generation: 1}}, installOne, false},
	} {
		_, w := gated(t)
		w.memory.Recorded = c.r
		if got := w.continues(c.step); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

// What passed the gates disrupts its node if a reboot is worth it, until the node is
// as designed again.
func TestWhatPassesTheGates(t *testing.T) {
	online := site.Step{Node: "n1", Action: site.ActionBootOrder, Impact: site.ImpactOnline}
	for name, c := range map[string]struct {
		change   func(*Engine, *worker)
		step     site.Step
		wants    string
		disrupts bool
	}{
		"a reboot":              {func(*Engine, *worker) {}, powerOn, "", true},
		"nothing":               {func(*Engine, *worker) {}, online, "", false},
		"nothing, and one was":  {func(_ *Engine, w *worker) { w.disrupts = true }, online, "", true},
		"an approved loss":      {func(*Engine, *worker) {}, installOne, "", true},
		"one that is not":       {func(_ *Engine, w *worker) { w.memory.Account.Entries = nil }, installOne, "waits for approval", false},
		"a pause":               {func(e *Engine, _ *worker) { e.paused = &site.Hold{By: "bob"} }, powerOn, "paused", false},
		"a quarantine, from on": {func(_ *Engine, w *worker) { w.memory.Recorded.Quarantined = &site.Hold{} }, powerOn, redesigned, false},
		"only observing":        {func(e *Engine, _ *worker) { e.ObserveOnly = true }, powerOn, "observing only (--observe); would power-on", false},
	} {
		t.Run(name, func(t *testing.T) {
			e, w := gated(t)
			w.memory.Recorded.Adopted.Settled = time.Now()
			j := jobOf(e, w)
			c.change(e, w)
			h := e.gate(w, j, w.plan, c.step)
			if (h == nil) != (c.wants == "") || h != nil && !strings.Contains(h.sentence, c.wants) {
				t.Errorf("got %+v, want %q", h, c.wants)
			}
			if w.disrupts != c.disrupts {
				t.Errorf("it disrupts: %t", w.disrupts)
			}
		})
	}
	// Under a quarantine the machine is switched off whatever else holds it.
	e, w := gated(t)
	w.memory.Recorded.Quarantined = &site.Hold{}
	j := jobOf(e, w)
	e.paused = &site.Hold{By: "bob"}
	if h := e.gate(w, j, w.plan, powerOn); h != nil {
		t.Errorf("under quarantine: %+v", h)
	}
	w.memory.Recorded.Quarantined = nil
	if h := e.gate(w, j, w.plan, powerOn); h == nil || h.sentence != redesigned || h.state != site.Progressing {
		t.Errorf("planned under a quarantine that has ended: %+v", h)
	}
}

// The gates go by the design in force, whatever the step was planned for, and let
// pass what was begun. Who has passed waits for nobody any more.
func TestGatesGoByTheDesignInForce(t *testing.T) {
	e, w := gated(t)
	j := jobOf(e, w)
	before := *e.design
	before.Rollout.FirstContact = "repair"
	j.site = &before
	e.design.Rollout.FirstContact = "hold"
	if h := e.gate(w, j, w.plan, powerOn); h == nil || !strings.Contains(h.sentence, "first contact") {
		t.Errorf("under the rules of before: %+v", h)
	}

	e, w = gated(t)
	w.memory.Recorded.Adopted.Settled = time.Now()
	e.design.Roles["plain"].Needs = map[string]map[string]site.Need{"base": {"other": {Phase: "base", Quorum: "1"}}}
	step := powerOn
	step.Phase = "base"
	if h := e.gate(w, jobOf(e, w), w.plan, step); h == nil || !strings.Contains(h.sentence, "needs 1 nodes of role other") || len(w.waits) != 1 {
		t.Fatalf("nothing that it needs is there: %+v, it waits for %v", h, w.waits)
	}
	w.memory.Recorded.InFlight = &site.InFlight{Step: step}
	if h := e.gate(w, jobOf(e, w), w.plan, step); h != nil || len(w.waits) != 0 {
		t.Errorf("begun before: %+v, it waits for %v", h, w.waits)
	}
}

// A node that is held says so as a state, and when to look again.
func TestHowANodeIsHeld(t *testing.T) {
	e, w := gated(t)
	e.ObserveOnly = true
	if h := e.readOnlyGate(powerOn); h == nil || h.state != site.Blocked {
		t.Errorf("observing: %+v", h)
	}
	e.ObserveOnly = false
	if h := firstContactGate(w, e.design, powerOn); h == nil || h.state != site.Blocked || !h.person {
		t.Errorf("first contact: %+v", h)
	}
	w.memory.Recorded.Adopted.Settled = time.Now()
	for name, until := range map[string]time.Time{"for a time": time.Now().Add(time.Hour), "until it is lifted": {}} {
		e.paused = &site.Hold{By: "bob", Until: until}
		h := e.gate(w, jobOf(e, w), w.plan, powerOn)
		if h == nil || w.waitsForTime == h.until.IsZero() || w.waitsForTime == until.IsZero() {
			t.Errorf("paused %s: %+v, waits for time: %t", name, h, w.waitsForTime)
		}
	}
	for n, want := range map[int]string{4: "a, b, c, d", 5: "a, b, c, d and 1 more"} {
		if got := some([]string{"a", "b", "c", "d", "e"}[:n]); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
