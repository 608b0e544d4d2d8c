package engine_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// wiping is a design in which some nodes are installed.
func (w *world) wiping(all []string, wiped ...string) *site.Site {
	s := w.design(all...)
	s.Rollout.FirstContact = "repair"
	for _, name := range wiped {
		s.Nodes[name].Image, s.Nodes[name].Generation = "debian", 1
	}
	return s
}

// inSync brings a daemon to where all is as designed.
func (w *world) inSync(names ...string) *forge {
	w.t.Helper()
	w.commit(w.wiping(names))
	w.up()
	w.after(time.Minute)
	w.until("in-sync", 10*time.Minute, w.is(site.InSync, names...))
	return w.forge()
}

func losses(r site.Review) (names []string) {
	for _, l := range r.Destroys() {
		names = append(names, l.Node)
	}
	return names
}

// A review is of what the proposal brings about, made without a request to a
// machine, and made again when it or the branch has moved.
func TestReview(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		f := w.inSync("n1", "n2", "n3")
		f.propose(7, w.wiping([]string{"n1", "n2", "n3"}, "n1"))
		r := f.reviews()
		calls := len(w.fleet.Calls())
		f.round(r)
		v := f.last(7)
		if len(w.fleet.Calls()) != calls {
			t.Error("machines were written to")
		}
		if got := losses(v); !slices.Equal(got, []string{"n1"}) || v.Set != v.Destroys().Digest() || !strings.HasPrefix(v.Verdict, "1 machine is erased") {
			t.Errorf("it destroys %v as set %q\n%s", got, v.Set, v.Comment)
		}
		if v.Base != w.source.head() || len(v.Plan.Nodes) != 1 || v.Plan.Nodes[0].Seen.IsZero() {
			t.Errorf("base %s, plan %+v", v.Base, v.Plan)
		}

		f.round(r)
		if n := f.tellings(); n != 1 {
			t.Errorf("told %d times of the same", n)
		}
		w.commit(w.wiping([]string{"n1", "n2", "n3"}, "n2"))
		f.merges[v.Proposal.Head] = site.Merge{Result: site.Revision{ID: "merged-both"}}
		w.source.designs["merged-both"] = w.wiping([]string{"n1", "n2", "n3"}, "n1", "n2")
		f.round(r)
		v = f.last(7)
		if got := losses(v); !slices.Equal(got, []string{"n1"}) || len(v.Waiting) != 1 || v.Waiting[0].Node != "n2" || len(v.Pending.Nodes) != 1 {
			t.Errorf("after the branch moved it destroys %v, waiting %v\n%s", got, v.Waiting, v.Comment)
		}
		f.propose(7, w.wiping([]string{"n1", "n2", "n3"}, "n2"))
		f.round(r)
		if v = f.last(7); len(v.Destroys()) != 0 || v.Set != "" || v.Verdict != "no machine changes" {
			t.Errorf("after a push it destroys %v\n%s", losses(v), v.Comment)
		}
	}, "n1", "n2", "n3")
}

// No machine is asked anything for a proposal and no secret is read, wherever it
// says that a machine is, and whatever it says of credentials.
func TestReviewTouchesNothing(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		f := w.inSync("n1", "n2")
		r := f.reviews()
		s := w.wiping([]string{"n1", "n2"}, "n1")
		for name, n := range s.Nodes {
			n.Endpoints = map[site.EndpointKind]site.Endpoint{site.Manager: {URL: "redfish+https://evil.example/redfish/v1/Systems/" + name, Credential: "root", Trust: site.Trust{FirstUse: true}}}
		}
		s.Credentials = map[string]*site.Credential{"root": {}}
		f.propose(7, s)
		p := f.propose(8, s)
		f.change(8, func(p *site.Proposal) { p.Fork = true })
		touched := func() (n int64) {
			for _, name := range []string{"n1", "n2"} {
				c := w.fleet.Machine(name).Counts()
				n += int64(c.Reads + c.Writes)
			}
			return n + w.secrets.read.Load()
		}
		before := touched()
		f.round(r)
		f.show(r, 7)
		if err := r.Allow(w.t.Context(), 8, p.Head, "ann"); err != nil {
			t.Fatal(err)
		}
		f.round(r)
		if n := touched() - before; n != 0 || before == 0 || f.tellings() != 3 {
			t.Errorf("%d requests and secrets for %d reviews, %d before", n, f.tellings(), before)
		}
	}, "n1", "n2")
}

// What cannot be planned is said, and what is ours is tried again.
func TestReviewThatCannotBe(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		f := w.inSync("n1")
		r := f.reviews()
		p := f.propose(1, w.wiping([]string{"n1"}))
		f.merges[p.Head] = site.Merge{Conflicts: []string{"nodes.cue: both sides changed it"}}
		p = f.propose(2, w.wiping([]string{"n1"}))
		f.merges[p.Head] = site.Merge{Problem: "they have no commit in common"}
		f.propose(3, nil, site.Finding{Code: "c", Severity: site.SeverityError, Message: "broken"})
		p = f.propose(4, w.wiping([]string{"n1"}))
		delete(f.merges, p.Head)
		f.round(r)
		for number, want := range map[int]string{1: "no plan, this conflicts with main in nodes.cue\n", 2: "no plan\n\nCannot plan: they have no commit in common\n", 3: "no plan, the design has 1 error\n"} {
			if v := f.last(number); !strings.HasPrefix(v.Comment, "### Slipway plan for site <code>test</code>: "+want) || v.Ours || v.Planned() {
				t.Errorf("%d: got %q, want %q", number, v.Comment, want)
			}
		}
		if f.tellings() != 3 {
			t.Error("a proposal that has moved was told of")
		}
		f.merges[p.Head] = site.Merge{Result: site.Revision{ID: "merged-" + p.Head}}
		w.after(time.Minute)
		f.round(r)
		if v := f.last(4); v.Problem != "" {
			t.Errorf("looked at again, it has a problem: %s", v.Problem)
		}
	}, "n1")
}

// The first pull request after a start is planned within seconds, and again when
// the machines are met, however rarely the design has the daemon look; none waits
// for longer than that.
func TestFirstProposalAfterAStart(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		d := w.wiping([]string{"n1"})
		d.Rollout.PollEvery = site.Duration(30 * time.Second)
		w.commit(d)
		w.up()
		f := w.forge()
		r := f.reviews()
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		defer func() {
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		w.after(2 * time.Second)
		for i, most := range []time.Duration{6 * time.Second, 31 * time.Second} {
			f.propose(7+i, w.wiping([]string{"n1"}, "n1"))
			w.after(most)
			if len(f.verdicts(7+i)) == 0 {
				t.Errorf("pull request %d is not told of within %s", 7+i, most)
			}
			w.after(10 * time.Minute)
		}
	}, "n1")
}

// What the branch warns of is nothing of a proposal that is broken; an error of the
// branch keeps it from being planned as well.
func TestWarningsOfTheBranchAreNotABrokenProposals(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		f := w.inSync("n1")
		r := f.reviews()
		finding := func(s site.Severity, text string) site.Finding {
			return site.Finding{Code: "c", Severity: s, Message: text}
		}
		old, former := finding(site.SeverityWarning, "old"), finding(site.SeverityError, "former")
		w.source.mu.Lock()
		w.source.broken[w.source.current.ID] = []site.Finding{old, former}
		w.source.mu.Unlock()
		f.propose(7, nil, finding(site.SeverityWarning, "own"), old, former, finding(site.SeverityError, "broken"))
		f.round(r)
		var told []string
		for _, x := range f.last(7).Findings {
			told = append(told, x.Message)
		}
		if v := f.last(7); !slices.Equal(told, []string{"former", "broken", "own"}) || v.Before != 1 {
			t.Errorf("told of %q, and %d before", told, v.Before)
		}
	}, "n1")
}

// What was planned before the machines were looked at, as when the daemon is
// started for the first time, is planned again once they were.
func TestReviewBeforeMachinesAreSeen(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.commit(w.wiping([]string{"n1", "n2"}))
		f := w.forge()
		f.propose(7, w.wiping([]string{"n1", "n2"}, "n1"))
		w.up()
		r := f.reviews()
		f.round(r)
		unseen := regexp.MustCompile(`Slipway has never seen [0-9]+ nodes? `)
		if !unseen.MatchString(f.last(7).Comment) {
			t.Fatalf("the comment says\n%s", f.last(7).Comment)
		}
		w.after(time.Minute)
		w.until("in-sync", 10*time.Minute, w.is(site.InSync, "n1", "n2"))
		for range 3 {
			f.round(r)
		}
		if n := f.tellings(); n != 2 || unseen.MatchString(f.last(7).Comment) {
			t.Errorf("told %d times; the comment says\n%s", n, f.last(7).Comment)
		}
	}, "n1", "n2")
}

// A comment that names disks which nobody has read yet is written again once they are read:
// until then nobody can approve what it says.
func TestReviewBeforeDisksAreRead(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.fleet.Machine("n1").Made(withDisks("SERIAL-1"))
		w.commit(w.wiping([]string{"n1"}))
		w.up()
		w.inSyncSoon("n1")
		f := w.forge()
		f.propose(7, w.wiping([]string{"n1"}, "n1"))
		r := f.reviews()
		f.round(r)
		if !strings.Contains(f.last(7).Comment, "disks that Slipway has not read yet") {
			t.Fatalf("the disks were read before; the comment says\n%s", f.last(7).Comment)
		}
		f.round(r)
		w.after(6 * time.Second)
		f.round(r)
		if n := f.tellings(); n != 1 {
			t.Errorf("the same was told %d times", n)
		}
		w.until("an inspection", 10*time.Minute, func() bool { return w.engine.Known().Nodes["n1"].Observed.Disks != nil })
		w.after(time.Minute)
		for range 3 {
			f.round(r)
		}
		if n := f.tellings(); n != 2 || !strings.Contains(f.last(7).Comment, "SERIAL-1") {
			t.Errorf("told %d times; the comment says\n%s", n, f.last(7).Comment)
		}
	}, "n1")
}

// People know of every proposal that it is going to be planned before the first
// of them is, and of each only once.
func TestReviewIsBegun(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		f := w.inSync("n1")
		r := f.reviews()
		var want []string
		for i := range 40 {
			p := f.propose(i+1, w.wiping([]string{"n1"}))
			want = append(want, fmt.Sprintf("%d %s on %s", i+1, p.Head, w.source.head()))
		}
		if _, err := r.Round(w.t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(f.begun) != 40 || f.tellings() == 40 {
			t.Errorf("%d have begun and %d were planned", len(f.begun), f.tellings())
		}
		f.round(r)
		slices.Sort(want)
		if got := slices.Sorted(slices.Values(f.begun)); !slices.Equal(got, want) {
			t.Errorf("begun are %v", got)
		}
		f.begun = nil
		p := f.propose(3, w.wiping([]string{"n1"}))
		r.Again(5)
		f.round(r)
		if len(f.begun) != 2 || !slices.Contains(f.begun, fmt.Sprintf("3 %s on %s", p.Head, w.source.head())) {
			t.Errorf("after a push and another plan, begun are %v", f.begun)
		}
		f.begun = nil
		w.commit(w.wiping([]string{"n1"}))
		f.round(r)
		if len(f.begun) != 40 {
			t.Errorf("after the branch moved, %d have begun", len(f.begun))
		}
		f.begun = nil
		delete(f.merges, p.Head) // moved meanwhile
		r.Again(3)
		for range 5 {
			f.round(r)
			w.after(10 * time.Minute)
		}
		if len(f.begun) != 1 {
			t.Errorf("tried again and again, begun are %v", f.begun)
		}
	}, "n1")
}

// A proposal that changes policies or suppressions is held against those of the
// branch: it is not in order by the rules that it brings itself, and merging it
// approves nothing.
func TestProposalIsNotItsOwnJudge(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		governed := func(ruling string, wiped ...string) *site.Site {
			s := w.wiping([]string{"n1"}, wiped...)
			s.Policies, s.Ruling = map[string]*site.Policy{"floor": {Why: "people go there"}}, ruling
			return s
		}
		w.commit(governed("one"))
		w.up()
		w.after(time.Minute)
		f := w.forge()
		r := f.reviews()
		f.propose(7, governed("one", "n1"))
		f.round(r)
		if v := f.last(7); len(f.judged) > 0 || v.Set == "" {
			t.Errorf("judged %v, set %q", f.judged, v.Set)
		}
		f.judgement = []site.Finding{{Code: "policy/floor", Severity: site.SeverityError, Node: "n1", Message: "the floor is cellar"}}
		p := f.propose(7, governed("two", "n1"))
		f.round(r)
		v := f.last(7)
		if !slices.Equal(v.Rules, []string{"the text of policies or suppressions, or what they refer to"}) {
			t.Errorf("it changes the rules %q", v.Rules)
		}
		if want := "merged-" + p.Head + " by " + w.source.head(); !slices.Equal(f.judged, []string{want}) {
			t.Errorf("judged %v, want %s", f.judged, want)
		}
		if v.Planned() || v.Set != "" || len(v.Plan.Nodes) > 0 || v.Verdict != "no plan, the design has 1 error" ||
			!strings.Contains(v.Comment, "The floor is cellar; by the rules of branch main, which this changes") {
			t.Errorf("planned with set %q\n%s", v.Set, v.Comment)
		}
		lenient := f.judgement[0]
		lenient.Severity = site.SeverityWarning
		f.propose(7, governed("two", "n1"), lenient)
		f.round(r)
		if v := f.last(7); v.Planned() || v.Set != "" {
			t.Errorf("a policy that only warns is taken for the branch's: set %q\n%s", v.Set, v.Comment)
		}
		f.propose(7, governed("two", "n1"))
		w.source.mu.Lock()
		w.source.broken[w.source.current.ID], f.judgement = []site.Finding{lenient}, []site.Finding{lenient}
		w.source.mu.Unlock()
		f.round(f.reviews())
		if v := f.last(7); !v.Planned() || v.Set == "" || len(v.Findings) > 0 {
			t.Errorf("with a finding that the branch has too: %v\n%s", v.Findings, v.Comment)
		}
	}, "n1")
}

// A fork is read only at the commit that somebody allowed.
func TestReviewOfAFork(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		f := w.inSync("n1")
		r := f.reviews()
		p := f.propose(7, w.wiping([]string{"n1"}, "n1"))
		f.change(7, func(p *site.Proposal) { p.Fork = true })
		f.round(r)
		if v := f.last(7); len(f.merged) > 0 || !strings.Contains(v.Comment, "it comes from a fork") || v.Set != "" || v.Allow == "" || !strings.HasPrefix(p.Head, v.Allow) ||
			!strings.Contains(v.Comment, "<code>/slipway approve "+v.Allow+"</code>") {
			t.Errorf("%v were read: %s", f.merged, v.Comment)
		}
		if err := r.Allow(w.t.Context(), 7, p.Head, "ann"); err != nil {
			t.Fatal(err)
		}
		f.round(r)
		if v := f.last(7); !slices.Equal(f.merged, []string{p.Head}) || v.Set == "" {
			t.Errorf("%v were read: %s", f.merged, v.Comment)
		}
		f.propose(7, w.wiping([]string{"n1"}, "n1"))
		f.round(r)
		f.change(7, func(x *site.Proposal) { x.Head = p.Head }) // and back
		f.round(r)
		if v := f.last(7); !slices.Equal(f.merged, []string{p.Head}) || v.Set != "" {
			t.Errorf("after a push %v were read: %s", f.merged, v.Comment)
		}
	}, "n1")
}

// Three hundred open proposals are planned a few at a time, and once.
func TestReviewOfManyProposals(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		f := w.inSync("n1")
		r := f.reviews()
		for i := range 300 {
			f.propose(i+1, w.wiping([]string{"n1"}))
		}
		if more, err := r.Round(w.t.Context()); err != nil || !more || f.tellings() > 20 {
			t.Errorf("one round told %d times, more: %t, %v", f.tellings(), more, err)
		}
		f.propose(301, w.wiping([]string{"n1"}, "n1"))
		f.change(301, func(p *site.Proposal) { p.Changed = time.Now() })
		if _, err := r.Round(w.t.Context()); err != nil || f.last(301).Set == "" {
			t.Errorf("a new one had to wait: %v", err)
		}
		f.round(r)
		f.round(r)
		if f.tellings() != 301 {
			t.Errorf("told %d times", f.tellings())
		}
	}, "n1")
}

// Who asks for a plan while one is made gets another.
func TestPlanAskedForMeanwhile(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		f := w.inSync("n1")
		r := f.reviews()
		asked := false
		f.propose(7, w.wiping([]string{"n1"}, "n1"))
		r.Evaluate = func(ctx context.Context, rev site.Revision) (*site.Site, []site.Finding, error) {
			if strings.HasPrefix(rev.ID, "merged") && !asked {
				asked = true
				r.Again(7)
			}
			return w.source.evaluate(ctx, rev)
		}
		f.round(r)
		f.round(r)
		if n := f.tellings(); n != 2 {
			t.Errorf("told %d times", n)
		}
	}, "n1")
}

// A forge or a repository that is away is a problem of the site, and no more.
func TestReviewsGoOnWhenTheForgeIsBack(t *testing.T) {
	inBubble(t, drivertest.Config{}, func(w *world) {
		f := w.inSync("n1")
		f.propose(7, w.wiping([]string{"n1"}))
		f.away = errors.New("the forge does not answer")
		ctx, cancel := context.WithCancel(w.t.Context())
		done := make(chan error)
		go func() { done <- f.reviews().Run(ctx) }()
		w.after(10 * time.Minute)
		problems := w.engine.Report().Status.Problems
		if len(problems) != 1 || problems[0].About != "proposals" || f.tellings() != 0 {
			t.Errorf("problems %v, told %d times", problems, f.tellings())
		}
		f.mu.Lock()
		f.away = nil
		f.mu.Unlock()
		w.until("the proposal is told of", 5*time.Minute, func() bool { return f.tellings() == 1 })
		if problems := w.engine.Report().Status.Problems; len(problems) > 0 {
			t.Errorf("problems %v", problems)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}, "n1")
}
