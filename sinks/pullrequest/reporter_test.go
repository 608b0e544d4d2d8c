package pullrequest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/site"
)

func TestCheckThenCommentThenShown(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.begin(1, "head1", "base1")
		d.after(10 * time.Second)
		d.did("check head1 pending")
		v := review(1, "head1", "base1")
		v.Set = "0123456789abcdef"
		d.announce(v)
		d.after(1500 * time.Millisecond)
		d.did("comment 1 plan")
		d.after(10 * time.Second)
		d.did("check head1 success")
		if !slices.Equal(d.shown, []string{"1 head1 base1 0123456789abcdef"}) {
			t.Errorf("shown is %q", d.shown)
		}
		check := d.checks["head1"][1]
		if check.Name != "slipway/berlin" || check.Title != "1 node changes: 1 reboot, 0 wiped (head1 on base1)" {
			t.Errorf("the check is %+v", check)
		}
		d.after(48 * time.Hour)
		d.did()
	})
}

// What is destroyed is read before the check is good: the comment is there, and
// was read again.
func TestGreenComesAfterTheComment(t *testing.T) {
	const set, more = "0123456789abcdef", "fedcba9876543210"
	atDesk(t, func(d *desk) {
		d.begin(1, "head1", "base1")
		d.after(time.Minute)
		d.suffer(func(what string) error {
			if strings.HasPrefix(what, "comment") || what == "read" {
				return away(what)
			}
			return nil
		})
		v := review(1, "head1", "base1")
		v.Set = set
		d.announce(v)
		d.after(10 * time.Minute)
		d.did("check head1 pending")
		d.suffer(func(what string) error {
			if what == "read" {
				return away(what)
			}
			return nil
		})
		d.after(10 * time.Minute)
		if d.did("comment 1 plan"); len(d.shown) > 0 {
			t.Errorf("%q is shown before it was read", d.shown)
		}
		d.suffer(nil)
		d.after(10 * time.Minute)
		d.did("check head1 success")
		d.restart() // which has it told again
		d.begin(1, "head1", "base1")
		d.announce(v)
		d.after(time.Minute)
		d.did()

		v = review(1, "head1", "base2") // the branch has moved, and more is destroyed
		v.Set = more
		d.begin(1, "head1", "base2")
		d.announce(v)
		d.after(time.Minute)
		d.did("check head1 pending", "comment 1 plan", "check head1 success")
		v = review(1, "head1", "base3") // and as much as before
		v.Set = more
		d.begin(1, "head1", "base3")
		d.announce(v)
		d.after(time.Minute)
		d.did("check head1 success", "comment 1 plan")
	})
}

// A comment that reads otherwise right after it was written is written again before
// the check is good.
func TestCommentIsChangedAtOnce(t *testing.T) {
	atDesk(t, func(d *desk) {
		changed := false
		d.suffer(func(what string) error {
			if what == "read" && !changed {
				changed = true
				d.comments["1 plan"], d.edited["1 plan"] = append(d.comments["1 plan"], "nothing changes"), time.Now()
			}
			return nil
		})
		v := review(1, "head1", "base1")
		v.Set = "0123456789abcdef"
		d.announce(v)
		d.after(time.Minute)
		d.did("comment 1 plan", "comment 1 plan", "check head1 success")
		if d.reads("1 plan") != v.Comment || len(d.shown) != 1 {
			t.Errorf("it reads %q, and shown is %q", d.reads("1 plan"), d.shown)
		}
	})
}

// A commit that another proposal has too does not get good by that one's comment,
// nor when the other is pushed away before its comment is there.
func TestGreenOfASharedHead(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.suffer(func(what string) error {
			if strings.HasPrefix(what, "comment 2") {
				return away(what)
			}
			return nil
		})
		for n := 1; n <= 2; n++ {
			v := review(n, "head1", "base1")
			v.Set = "0123456789abcdef"
			d.begin(n, "head1", "base1")
			d.announce(v)
		}
		d.after(time.Minute)
		d.begin(1, "head2", "base1")
		d.after(10 * time.Minute)
		if got := d.verdicts("head1"); got[len(got)-1] == forge.Success {
			t.Errorf("the check of the one that is left is %q, and nobody can read its comment", got)
		}
		d.suffer(nil)
		d.after(10 * time.Minute)
		if got := d.verdicts("head1"); got[len(got)-1] != forge.Success {
			t.Errorf("the check of the one that is left is %q", got)
		}
	})
}

// A comment that the forge does not take is tried again, people hear of it, and
// the check does not get good. One passing answer costs seconds.
func TestCommentIsRefused(t *testing.T) {
	for _, answer := range []error{forge.ErrRefused, forge.ErrGone} {
		atDesk(t, func(d *desk) {
			times := 1
			d.suffer(func(what string) error {
				if strings.HasPrefix(what, "comment") {
					if times--; times >= 0 {
						return fmt.Errorf("%s: %w", what, answer)
					}
				}
				return nil
			})
			v := review(1, "head1", "base1")
			v.Set = "0123456789abcdef"
			d.announce(v)
			d.after(time.Minute)
			d.did("comment 1 plan", "check head1 success")
			if len(d.problems) > 0 {
				t.Errorf("people are told %q of what has passed", d.problems)
			}
			times = 1 << 30
			v.Comment, v.Set = "another", "fedcba9876543210"
			d.announce(v)
			d.after(time.Hour)
			d.did("check head1 pending", "check head1 pending")
			if is := d.checks["head1"][2]; !strings.Contains(is.Title, "cannot be written") || !strings.Contains(is.Summary, "comment 1 plan") {
				t.Errorf("the check says %q, %q", is.Title, is.Summary)
			}
			if len(d.problems) == 0 || !strings.Contains(d.problems[len(d.problems)-1], "comment 1 plan") {
				t.Errorf("people are told %q", d.problems)
			}
			d.requests()
			d.after(22 * time.Hour)
			if n := d.requests(); n > 22*4+4 {
				t.Errorf("%d requests in 22 hours", n)
			}
			d.did()
			d.after(3 * time.Hour)
			d.did("check head1 error")
			if title := d.checks["head1"][3].Title; !strings.Contains(title, "cannot be written") {
				t.Errorf("the check says %q", title)
			}
		})
	}
}

// A text of ours that is there though nobody knew, since the answer to it was lost
// and a newer one took its place, is told to be ours; after what was told nothing
// of before counts any more.
func TestLostTextIsKnown(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		atDesk(t, func(d *desk) {
			lost := 0
			d.r.Told = func(ctx context.Context, t site.Told) error {
				if lost--; lost >= 0 {
					return errors.New("the records are away")
				}
				return d.tell(ctx, t)
			}
			last := func() site.Told { return d.tellings[len(d.tellings)-1] }
			v := review(1, "head1", "base1")
			d.announce(v)
			d.after(time.Minute)
			if first := last(); first.Lost || first.Before != nil {
				t.Errorf("at first %+v is told", first)
			}
			lost = 1
			v.Comment = "second"
			d.announce(v)
			d.after(1500 * time.Millisecond) // it is there, and was not told
			if restarted {
				tell := d.r.Told
				d.stop()
				v.Comment = "third"
				d.announce(v)
				d.up()
				d.r.Told = tell
			} else {
				v.Comment = "third"
				d.announce(v)
			}
			d.after(time.Minute)
			if third := last(); !third.Lost || third.Before == nil {
				t.Errorf("restarted %t: then %+v is told", restarted, third)
			}
			d.edit("1 plan", "evil")
			v.Comment = "fourth"
			d.announce(v)
			d.after(time.Minute)
			if fourth := last(); fourth.Lost {
				t.Errorf("restarted %t: %+v is told of an edit", restarted, fourth)
			}
			v.Comment = "second" // which was ours
			d.edit("1 plan", "second")
			v.Comment = "fifth"
			d.announce(v)
			d.after(time.Minute)
			if fifth := last(); fifth.Lost {
				t.Errorf("restarted %t: %+v is told of an old text of ours", restarted, fifth)
			}
		})
	}
}

// What was found is told with what is there: whoever keeps the records sees that
// somebody has changed the comment.
func TestWhatWasFoundIsTold(t *testing.T) {
	atDesk(t, func(d *desk) {
		v := review(1, "head1", "base1")
		v.Set = "0123456789abcdef"
		d.announce(v)
		d.after(time.Minute)
		d.edit("1 plan", "nothing changes <!-- 0123456789abcdef -->")
		there, err := d.r.Reads(t.Context(), 1, 1)
		if err != nil || there == d.tellings[0].Is || there.Comment != 1 {
			t.Errorf("it reads %v, %v", there, err)
		}
		d.suffer(away)
		d.announce(v)
		if _, err := d.r.Reads(t.Context(), 1, 1); !errors.Is(err, site.ErrNotYet) {
			t.Errorf("while it is written anew it reads %v", err)
		}
		d.suffer(nil)
		d.after(time.Minute)
		first, last := d.tellings[0], d.tellings[len(d.tellings)-1]
		if first.Before != nil || last.Before == nil || *last.Before != there || last.Is.Text != first.Is.Text || !last.Is.Written.After(there.Written) {
			t.Errorf("told at first %+v, then %+v", first, last)
		}
		d.mu.Lock()
		delete(d.comments, "1 plan")
		d.mu.Unlock()
		if _, err := d.r.Reads(t.Context(), 1, 1); !errors.Is(err, site.ErrNotFound) {
			t.Errorf("deleted, it reads %v", err)
		}
		d.restart()
		d.suffer(away)
		if _, err := d.r.Reads(t.Context(), 1, 1); err == nil || errors.Is(err, site.ErrNotFound) {
			t.Errorf("with the forge away it reads %v", err)
		}
	})
}

func TestVerdicts(t *testing.T) {
	finding := site.Finding{Code: "no-mac", Severity: site.SeverityError, File: "n1.cue", Line: 3, Message: "there is none", Fix: "write one"}
	warning := finding
	warning.Severity, warning.File = site.SeverityWarning, "schema/node.cue"
	for name, c := range map[string]struct {
		change func(*site.Review)
		want   forge.Verdict
	}{
		"a plan":         {func(*site.Review) {}, forge.Success},
		"a warning":      {func(v *site.Review) { v.Findings = []site.Finding{warning} }, forge.Success},
		"an error":       {func(v *site.Review) { v.Findings = []site.Finding{warning, finding} }, forge.Failure},
		"conflicts":      {func(v *site.Review) { v.Conflicts = []string{"n1.cue: both"} }, forge.Failure},
		"a problem":      {func(v *site.Review) { v.Problem = "the two have no history in common" }, forge.Failure},
		"a fork":         {func(v *site.Review) { v.Problem, v.Allow = "it comes from a fork", "0123456789abcdef" }, forge.Pending},
		"one of our own": {func(v *site.Review) { v.Problem, v.Ours = "evaluate: killed", true }, forge.Error},
	} {
		t.Run(name, func(t *testing.T) {
			v := review(1, "head1", "base1")
			c.change(&v)
			got := verdictOf("slipway/berlin", &v)
			if got.Verdict != c.want || got.Commit != "head1" {
				t.Errorf("got %+v, want %s", got, c.want)
			}
			if v.Problem != "" && got.Title != "no plan: "+v.Problem+" (head1 on base1)" {
				t.Errorf("it says %q", got.Title)
			}
			if name != "an error" {
				return
			}
			note := forge.Note{File: "n1.cue", Line: 3, Level: forge.LevelFailure, Title: "no-mac", Text: "there is none; write one"}
			if len(got.Notes) != 1 || got.Notes[0] != note {
				t.Errorf("the notes are %+v", got.Notes)
			}
		})
	}
}

// What others wrote is plain text in a title, and cannot push out which commits
// it is about.
func TestTitleIsPlain(t *testing.T) {
	v := review(1, strings.Repeat("a", 40), strings.Repeat("b", 40))
	v.Verdict = "cannot plan: conflicts in a&#95;b &#64;&#8203;ada &lt;" + strings.Repeat("ü", 400)
	got := verdictOf("slipway/berlin", &v).Title
	if !strings.HasPrefix(got, "cannot plan: conflicts in a_b @ada <ü") || !strings.HasSuffix(got, "ü… (aaaaaaaaaaaa on bbbbbbbbbbbb)") || len([]rune(got)) > 140 {
		t.Errorf("the title is %q", got)
	}
}

// Forty pushes in a minute come to what is said of the last, and to no verdict
// on a commit before it was planned.
func TestFortyPushesInAMinute(t *testing.T) {
	atDesk(t, func(d *desk) {
		for n := range 40 {
			head := fmt.Sprintf("head%d", n)
			d.begin(1, head, "base1")
			d.after(500 * time.Millisecond)
			d.announce(review(1, head, "base1"))
			d.after(time.Second)
		}
		d.after(2 * time.Minute)
		if got := d.verdicts("head39"); got[len(got)-1] != forge.Success {
			t.Errorf("the last head is %q", got)
		}
		if got := d.reads("1 plan"); !strings.Contains(got, "head39") || d.created["1 plan"] != 1 {
			t.Errorf("the comment was written %d times and reads %q", d.created["1 plan"], got)
		}
		for n := range 39 {
			head := fmt.Sprintf("head%d", n)
			for i, v := range d.verdicts(head) {
				last := i == len(d.checks[head])-1
				if last != (v == forge.Superseded) || v == forge.Success && i > 1 {
					t.Errorf("%s is %q", head, d.verdicts(head))
				}
			}
		}
		if n := len(d.done()); n > 120 {
			t.Errorf("%d writes", n)
		}
	})
}

// Three hundred proposals at once, as fast as GitHub takes what is new: who
// pushes meanwhile does not wait for them, nor does a call, and all are told.
func TestThreeHundredAtOnce(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.pace = 9 * time.Second
		const many = 300
		for n := range many {
			d.begin(n, fmt.Sprintf("head%d", n), "base1")
		}
		for n := range many {
			d.announce(review(n, fmt.Sprintf("head%d", n), "base1"))
		}
		d.after(time.Minute)
		d.begin(many, "late", "base1")
		d.announce(review(many, "late", "base1"))
		v := merged(many+1, "other", "halted")
		v.Call = &site.Call{Key: "halted", Text: "The rollout has halted."}
		d.announce(v)
		d.done()
		d.after(4 * d.pace)
		if got := strings.Join(d.done(), ", "); !strings.Contains(got, "call-halted, check late success, comment 300 plan") {
			t.Errorf("written is %s", got)
		}
		d.after(2 * many * d.pace)
		if got := d.reads("301 plan"); len(d.comments) != many+3 || len(d.checks) != many+1 || got != "halted" {
			t.Errorf("%d comments and %d checks, and what was merged reads %q", len(d.comments), len(d.checks), got)
		}
		if n := d.requests(); n > 2*many+10 {
			t.Errorf("%d requests", n)
		}
	})
}

// Six hours without a forge lose nothing, and cost it little.
func TestSixHoursAway(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.announce(review(1, "head0", "base1"))
		d.announce(review(2, "other", "base1"))
		d.after(time.Minute)
		d.done()
		d.requests()
		d.suffer(away)
		for n := 1; n <= 36; n++ {
			head := fmt.Sprintf("head%d", n)
			d.begin(1, head, "base1")
			d.after(time.Minute)
			d.announce(review(1, head, "base1"))
			v := merged(2, "other", fmt.Sprintf("rollout: %d of 36 done", n))
			if n > 20 {
				v.Call = &site.Call{Key: "halted-1", Text: "The rollout has halted."}
			}
			d.announce(v)
			d.after(9 * time.Minute)
			if n == 18 {
				d.restart()
			}
		}
		if n := d.requests(); n > 2*6*60 {
			t.Errorf("%d requests in six hours", n)
		}
		d.did()
		if len(d.problems) == 0 || !strings.Contains(d.problems[len(d.problems)-1], "connection reset") {
			t.Errorf("people were told %q", d.problems)
		}
		d.suffer(nil)
		d.after(3*time.Minute + 40*time.Second)
		if got := d.verdicts("head36"); !slices.Equal(got, []forge.Verdict{forge.Success}) {
			t.Errorf("the head is %q", got)
		}
		if got := d.reads("2 plan"); got != "rollout: 36 of 36 done" {
			t.Errorf("the comment of what was merged reads %q", got)
		}
		if d.created["1 plan"] != 1 || d.created["2 plan"] != 1 || d.created["2 call-halted-1"] != 1 {
			t.Errorf("written anew: %v", d.created)
		}
		if d.problems[len(d.problems)-1] != "" {
			t.Errorf("people still hear %q", d.problems)
		}
		if got := d.verdicts("head0"); got[len(got)-1] != forge.Superseded {
			t.Errorf("the head before is %q", got)
		}
	})
}

// story is what an engine says of two proposals, in order.
var story = []func(*Reporter, context.Context) error{
	func(r *Reporter, ctx context.Context) error { return r.Begin(ctx, proposal(1, "head1"), "base1") },
	func(r *Reporter, ctx context.Context) error { return r.Begin(ctx, proposal(2, "other"), "base1") },
	func(r *Reporter, ctx context.Context) error { return r.Announce(ctx, review(1, "head1", "base1")) },
	func(r *Reporter, ctx context.Context) error { return r.Announce(ctx, review(2, "other", "base1")) },
	func(r *Reporter, ctx context.Context) error { return r.Begin(ctx, proposal(1, "head2"), "base1") },
	func(r *Reporter, ctx context.Context) error {
		v := review(1, "head2", "base1")
		v.Set = "0123456789abcdef"
		return r.Announce(ctx, v)
	},
	func(r *Reporter, ctx context.Context) error {
		v := merged(2, "other", "halted")
		v.Call = &site.Call{Key: "halted-1", Text: "The rollout has halted."}
		return r.Announce(ctx, v)
	},
	func(r *Reporter, ctx context.Context) error { return r.Announce(ctx, merged(2, "other", "done")) },
}

// A daemon that dies after any of its effects, without knowing of it, tells the
// same in the end as one that lives; the engine says again what it was not sure
// of.
func TestDeathAfterEveryEffect(t *testing.T) {
	for _, hurry := range []time.Duration{0, 1500 * time.Millisecond, time.Minute} {
		for lives := 1; ; lives++ {
			died := false
			atDesk(t, func(d *desk) {
				d.lives = lives
				for i := 0; i < len(story); {
					if err := story[i](d.r, t.Context()); err == nil {
						i++
					}
					d.after(hurry)
					died = d.revive() || died
				}
				d.after(10 * time.Minute)
				died = d.revive() || died
				d.after(10 * time.Minute)
				d.isTold(fmt.Sprintf("with %v between, died after effect %d", hurry, lives), hurry == time.Minute)
			})
			if t.Failed() {
				return
			}
			if !died {
				if lives < 12 {
					t.Errorf("only %d effects", lives)
				}
				break
			}
		}
	}
}

// revive starts the daemon anew when it is dead.
func (d *desk) revive() bool {
	d.mu.Lock()
	dead := d.dead
	d.mu.Unlock()
	if dead {
		d.restart()
	}
	return dead
}

// isTold fails unless all of the story was told. A call is only told where
// there was time to while it was needed.
func (d *desk) isTold(when string, calls bool) {
	d.t.Helper()
	last := func(commit string) forge.Verdict {
		all := d.verdicts(commit)
		return append([]forge.Verdict{""}, all...)[len(all)]
	}
	if v := last("head1"); v != forge.Superseded && v != "" {
		d.t.Errorf("%s: the former head is %q", when, v)
	}
	if v := last("head2"); v != forge.Success {
		d.t.Errorf("%s: the head is %q", when, v)
	}
	if v := last("other"); v != forge.Success {
		d.t.Errorf("%s: what was merged is %q", when, v)
	}
	if !strings.Contains(d.reads("1 plan"), "head2") || d.reads("2 plan") != "done" {
		d.t.Errorf("%s: the comments read %q and %q", when, d.reads("1 plan"), d.reads("2 plan"))
	}
	for at, n := range d.created {
		if n != 1 {
			d.t.Errorf("%s: %s was written %d times", when, at, n)
		}
	}
	if calls && d.reads("2 call-halted-1") == "" {
		d.t.Errorf("%s: nobody was called", when)
	}
	if !slices.Contains(d.shown, "1 head2 base1 0123456789abcdef") {
		d.t.Errorf("%s: shown is only %q", when, d.shown)
	}
}

// Whatever happens in whatever order, what is true last is what is read last.
func TestAnyStory(t *testing.T) {
	for seed := range uint64(30) {
		atDesk(t, func(d *desk) {
			dice := rand.New(rand.NewPCG(seed, 6))
			last := map[int]site.Review{}
			for range 60 {
				n := 1 + dice.IntN(3)
				head, base := fmt.Sprintf("p%d-%d", n, dice.IntN(4)), fmt.Sprintf("base%d", dice.IntN(2))
				switch dice.IntN(6) {
				case 0:
					d.suffer(away)
				case 1:
					d.suffer(nil)
				case 2:
					d.restart()
				default:
					d.begin(n, head, base)
					d.after(time.Duration(dice.IntN(3)) * time.Second)
					last[n] = review(n, head, base)
					d.announce(last[n])
				}
				d.after(time.Duration(dice.IntN(5000)) * time.Millisecond)
			}
			d.suffer(nil)
			d.after(time.Hour)
			for n, v := range last {
				if d.reads(fmt.Sprintf("%d plan", n)) != v.Comment {
					t.Errorf("seed %d: comment %d reads %q, want %q", seed, n, d.reads(fmt.Sprintf("%d plan", n)), v.Comment)
				}
				for i := range 4 {
					commit := fmt.Sprintf("p%d-%d", n, i)
					all := d.verdicts(commit)
					if len(all) == 0 {
						continue
					}
					want := forge.Superseded
					if commit == v.Proposal.Head {
						want = forge.Success
					}
					if all[len(all)-1] != want {
						t.Errorf("seed %d: %s is %q, and the head is %s", seed, commit, all, v.Proposal.Head)
					}
				}
			}
		})
	}
}

// People are called once for each need, whatever becomes of the comment.
func TestCalls(t *testing.T) {
	atDesk(t, func(d *desk) {
		v := merged(1, "head1", "halted")
		v.Call = &site.Call{Key: "halted-1", Text: "The rollout has halted."}
		d.announce(v)
		d.after(time.Minute)
		d.did("comment 1 call-halted-1", "comment 1 plan")
		delete(d.comments, "1 call-halted-1") // by a person
		for range 3 {
			v.Comment += "."
			d.announce(v)
			d.restart()
			d.after(time.Minute)
		}
		d.did("comment 1 plan", "comment 1 plan", "comment 1 plan")
		v.Call.Key = "halted-2"
		d.announce(v)
		d.after(time.Minute)
		d.did("comment 1 call-halted-2")
		d.suffer(away)
		v.Call = &site.Call{Key: "stalled", Text: "n1 is stalled."}
		d.announce(v)
		d.after(time.Minute)
		v.Call = nil // before anybody was told
		d.announce(v)
		d.suffer(nil)
		d.after(time.Hour)
		d.did()
	})
}

func TestMergedBeforeItWasPlanned(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.begin(1, "head1", "base1")
		d.after(time.Minute)
		d.announce(merged(1, "head1", "waiting for the branch"))
		d.after(time.Minute)
		d.did("check head1 pending", "check head1 superseded", "comment 1 plan")
	})
	var w wish
	w.begin("slipway/berlin", proposal(2, "head2"), "base1")
	v := merged(2, "head2", "waiting for the branch")
	if w.announce("slipway/berlin", &v); w.Check != nil {
		t.Errorf("of a commit of which nothing was said, it is said that it is %s", w.Check.Verdict)
	}
}

// Whoever waits for a word is told first, and what fails comes after what does
// not.
func TestOrder(t *testing.T) {
	atDesk(t, func(d *desk) {
		for n := 1; n <= 4; n++ {
			d.announce(review(n, fmt.Sprintf("head%d", n), "base1"))
		}
		d.after(time.Hour)
		d.done()
		d.suffer(away)
		d.after(time.Hour)
		d.announce(merged(4, "head4", "halted"))
		for _, n := range []int{3, 2, 1} {
			d.announce(moved(n, "base2"))
			d.after(time.Second)
		}
		d.announce(moved(2, "base3")) // which waits since the branch moved first
		d.begin(5, "head5", "base2")
		d.after(time.Second)
		d.begin(6, "head6", "base2")
		v := merged(4, "head4", "halted")
		v.Call = &site.Call{Key: "halted", Text: "The rollout has halted."}
		d.announce(v)
		d.begin(3, "head3b", "base2")
		d.suffer(nil)
		d.restart() // nobody remembers what failed
		d.after(time.Hour)
		d.did("comment 4 call-halted", "check head3b pending", "check head6 pending", "check head5 pending",
			"check head2 success", "check head1 success", "comment 4 plan", "check head3 superseded")
		d.suffer(func(what string) error {
			if what == "comment 1 plan" {
				return away(what)
			}
			return nil
		})
		for n := 1; n <= 3; n++ {
			d.announce(review(n, fmt.Sprintf("new%d", n), "base2"))
		}
		d.after(time.Minute)
		if d.reads("2 plan") == "" || !strings.Contains(d.reads("3 plan"), "new3") {
			t.Error("one comment that fails keeps others from being written")
		}
	})
}

// moved is a review of a proposal under which the branch has moved, without a
// comment.
func moved(number int, base string) site.Review {
	v := review(number, fmt.Sprintf("head%d", number), base)
	v.Comment = ""
	return v
}
