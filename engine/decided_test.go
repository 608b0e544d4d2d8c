package engine_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/review"
	"github.com/slipway-gitops/slipway/engine/site"
)

// vanish has the forge say that there is no such proposal, until it is back.
func (f *forge) vanish(number int) (back func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.proposals[number]
	delete(f.proposals, number)
	return func() { f.change(number, func(is *site.Proposal) { *is = p }) }
}

// wipes brings a daemon to where a proposal that wipes n1 was read.
func (w *world) wipes() (*forge, *review.Reviews) {
	w.t.Helper()
	f := w.inSync("n1")
	r := f.reviews()
	f.propose(7, w.wiping([]string{"n1"}, "n1"))
	f.round(r)
	f.show(r, 7)
	w.after(time.Minute)
	return f, r
}

// holds fails unless merging proposal 7 has approved nothing, for a reason, which
// people are told and called for, and a person can approve it all the same.
func (f *forge) holds(r *review.Reviews, why string) {
	w := f.w
	w.t.Helper()
	for range 5 {
		w.after(5 * time.Minute)
		f.round(r)
	}
	w.want("n1", site.Blocked)
	v := f.last(7)
	if len(v.Approved) > 0 || len(v.Held) != 1 || !strings.Contains(v.Comment, "The merge approved nothing") || !strings.Contains(v.Comment, why) {
		w.t.Errorf("approved %v, held %v, without %q\n%s", v.Approved, v.Held, why, v.Comment)
	}
	if v.Call == nil || !strings.Contains(v.Call.Text, why) || !strings.Contains(v.Call.Text, "/slipway approve "+v.Held.Digest()) {
		w.t.Errorf("people are called by %+v, without %q", v.Call, why)
	}
	if !w.hasTold(site.EventOrder, "merging pull request 7 approves nothing: ") {
		w.t.Error("history does not tell")
	}
	source := site.ApprovalSource{Kind: site.ByComment, By: "bob", Proposal: 7, Comment: 123, When: time.Now()}
	w.do(site.Order{Verb: site.VerbApprove, Digest: v.Held.Digest(), By: "bob", Source: &source})
	w.until("n1 is installed", time.Hour, w.is(site.InSync, "n1"))
	if !w.hasTold(site.EventOrder, "approved by bob, comment 123 on pull request 7") {
		w.t.Error("history does not say by which comment it was approved")
	}
}

// approves fails unless merging proposal 7 has approved what its comment named.
func (f *forge) approves(r *review.Reviews, by string) {
	w := f.w
	w.t.Helper()
	f.keep(r, "n1 is installed", time.Hour, func() bool {
		return w.is(site.InSync, "n1")() && !w.begun("n1", site.ActionInstall, time.Time{}).IsZero()
	})
	if want := "approved by " + by + ", pull request 7, merged as " + f.proposals[7].Merge; !w.hasTold(site.EventOrder, want) {
		w.t.Errorf("history does not tell %q", want)
	}
}

// Whatever others do to the comment before the merge counts is seen, and has the
// merge approve nothing: also an edit that was undone.
func TestChangedCommentApprovesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*site.Reading)
		why    string
	}{
		"edited": {func(is *site.Reading) { is.Text, is.Written = "nothing changes", time.Now() }, "it was edited at 00"},
		"edited in the second of our own writing": {func(is *site.Reading) { is.Text = "nothing changes" }, "it was edited at 00"},
		"put back": {func(is *site.Reading) { is.Written = time.Now() }, "and put back"},
		"deleted":  {func(is *site.Reading) { is.Comment = 0 }, "it was deleted"},
		"another":  {func(is *site.Reading) { is.Comment++ }, "it was deleted"},
		"hidden":   {func(is *site.Reading) { is.Hidden = "outdated" }, "it was hidden, as outdated"},
	} {
		for _, restarted := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				inBubble(t, usual, func(w *world) {
					f, r := w.wipes()
					f.edit(7, c.change)
					f.merge(7)
					if restarted {
						w.down()
						w.up()
						r = f.reviews()
					}
					f.holds(r, c.why)
				}, "n1")
			})
		}
	}
}

// While the proposal is open a change is found by looking: the comment is restored,
// people are called, and it names something again from then on.
func TestChangedCommentIsRestored(t *testing.T) {
	for name, change := range map[string]func(*site.Reading){
		"edited":   func(is *site.Reading) { is.Text, is.Written = "nothing changes", time.Now() },
		"put back": func(is *site.Reading) { is.Written = time.Now() },
		"deleted":  func(is *site.Reading) { is.Comment = 0 },
	} {
		for _, merged := range []string{"after it was restored", "before", "in the same second"} {
			t.Run(name+", merged "+merged, func(t *testing.T) {
				inBubble(t, usual, func(w *world) {
					f, r := w.wipes()
					f.edit(7, change)
					tellings := f.tellings()
					f.round(r)
					v := f.last(7)
					if f.tellings() != tellings+1 || v.Call == nil || !strings.HasPrefix(v.Call.Key, "changed-") || !strings.Contains(v.Call.Text, "Read it again") || v.Set == "" {
						t.Errorf("told %d times, and people are called by %+v", f.tellings()-tellings, v.Call)
					}
					if !w.hasTold(site.EventOrder, "others have changed Slipway's comment on pull request 7") {
						t.Error("history does not tell")
					}
					if merged == "before" {
						f.merge(7)
						f.holds(r, "others had changed its comment")
						return
					}
					w.after(time.Minute)
					f.show(r, 7)
					if merged == "in the same second" {
						since := f.comments[7].Written
						f.merge(7)
						f.change(7, func(p *site.Proposal) { p.MergedAt = since })
						f.holds(r, "not after the comment named the set")
						return
					}
					f.round(r)
					if f.tellings() != tellings+1 {
						t.Error("what was restored is told again")
					}
					w.after(time.Minute)
					f.merge(7)
					f.approves(r, "ann")
				}, "n1")
			})
		}
	}
}

// What was done to the comment on a commit calls nobody once another was pushed.
func TestChangedCommentAndAPush(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		f, r := w.wipes()
		f.edit(7, func(is *site.Reading) { is.Text = "nothing changes" })
		f.round(r)
		f.propose(7, w.wiping([]string{"n1"}, "n1"))
		f.round(r)
		if v := f.last(7); v.Call != nil || v.Set == "" {
			t.Errorf("people are called by %+v", v.Call)
		}
		f.show(r, 7)
		w.after(time.Minute)
		f.merge(7)
		f.approves(r, "ann")
	}, "n1")
}

// A change that is found because a newer text takes its place counts like one that
// was looked for.
func TestChangeUnderANewerText(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		f, r := w.wipes()
		w.commit(w.wiping([]string{"n1"}))
		f.round(r) // a newer text is on its way
		f.edit(7, func(is *site.Reading) { is.Text, is.Written = "nothing changes", time.Now() })
		w.after(time.Minute)
		f.show(r, 7)
		f.round(r)
		if got := f.calls(7); len(got) != 1 || !strings.HasPrefix(got[0], "changed-") {
			t.Errorf("people are called for %q", got)
		}
		f.merge(7)
		f.change(7, func(p *site.Proposal) { p.MergedAt = time.Now().Add(-time.Minute) })
		f.holds(r, "not after the comment named the set")
	}, "n1")
}

// What we write ourselves is no change by others: not while it is being written, not
// when the answer to it was lost, and not when the merge comes in between. What the
// comment has named all along it goes on naming.
func TestOwnTextIsNoChange(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		f, r := w.wipes()
		since := f.comments[7].Written
		w.commit(w.wiping([]string{"n1"}))
		f.busy = true
		f.round(r)
		f.round(r)
		w.after(time.Minute)
		f.merge(7)
		f.round(r)
		w.after(time.Minute)
		f.round(r)
		w.want("n1", site.Blocked)
		f.busy = false
		f.show(r, 7) // the merge came while it was written
		if !f.comments[7].Written.After(since) {
			t.Fatal("no other text was written")
		}
		f.keep(r, "n1 is installed", time.Hour, w.is(site.InSync, "n1"))
		if calls := f.calls(7); slices.ContainsFunc(calls, func(key string) bool { return !strings.HasPrefix(key, "stuck-") }) {
			t.Errorf("people are called for %q", calls)
		}
	}, "n1")
	for _, early := range []bool{false, true} {
		inBubble(t, usual, func(w *world) {
			f, r := w.wipes()
			w.commit(w.wiping([]string{"n1"}))
			f.round(r)
			f.edit(7, func(is *site.Reading) { is.Text, is.Written = "ours, and nobody knows", time.Now() })
			w.down()
			w.up()
			w.after(time.Minute)
			r = f.reviews()
			f.busy = true // a text is to be written
			f.round(r)
			merged := time.Now().Add(-30 * time.Second)
			f.lost, f.busy = true, false
			f.show(r, 7)
			f.round(r)
			w.after(time.Minute)
			f.merge(7)
			if calls := f.calls(7); len(calls) > 0 {
				t.Errorf("people are called for %q", calls)
			}
			if early {
				f.change(7, func(p *site.Proposal) { p.MergedAt = merged })
				f.holds(r, "not after the comment named the set")
			} else {
				f.approves(r, "ann")
			}
		}, "n1")
	}
}

// What others did is told also when the forge fails right after a newer text has
// taken its place.
func TestChangeIsToldThoughTheForgeFails(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		f, r := w.wipes()
		w.commit(w.wiping([]string{"n1"}))
		f.round(r)
		f.edit(7, func(is *site.Reading) { is.Text, is.Written = "nothing changes", time.Now() })
		w.after(time.Minute)
		v := f.last(7)
		before := f.comments[7]
		is := site.Reading{Comment: before.Comment, Text: "ours", Written: time.Now()}
		told := site.Told{Number: 7, Head: v.Proposal.Head, Base: v.Base, Set: v.Set, Before: &before, Is: is}
		f.away = errors.New("connection reset by peer")
		if err := r.Told(w.t.Context(), told); err == nil {
			t.Error("it is said that the set counts as shown")
		}
		f.away = nil
		f.comments[7] = is
		told.Before, told.Lost = &is, true
		if err := r.Told(w.t.Context(), told); err != nil {
			t.Error(err)
		}
		f.round(r)
		if got := f.calls(7); len(got) != 1 || !strings.HasPrefix(got[0], "changed-") {
			t.Errorf("people are called for %q", got)
		}
	}, "n1")
}

// A comment that people see folded names nothing.
func TestHiddenCommentNamesNothing(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		f := w.inSync("n1")
		r := f.reviews()
		f.propose(7, w.wiping([]string{"n1"}, "n1"))
		f.round(r)
		f.show(r, 7)
		f.edit(7, func(is *site.Reading) { is.Hidden = "outdated" })
		f.round(r)
		f.show(r, 7) // hidden as it is
		w.after(time.Minute)
		f.merge(7)
		f.holds(r, "it was hidden, as outdated")
	}, "n1")
}

// A set that was recorded without a time, as by an older Slipway, counts from the
// next writing on.
func TestSetWithoutATime(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		f := w.inSync("n1")
		r := f.reviews()
		f.propose(7, w.wiping([]string{"n1"}, "n1"))
		f.round(r)
		v := f.last(7)
		f.comments[7] = site.Reading{Comment: 9, Text: "old"}
		if err := r.Told(w.t.Context(), site.Told{Number: 7, Head: v.Proposal.Head, Base: v.Base, Set: v.Set, Is: f.comments[7]}); err != nil {
			t.Fatal(err)
		}
		f.show(r, 7)
		w.after(time.Minute)
		f.merge(7)
		f.approves(r, "ann")
	}, "n1")
}

// Only a person's decision approves, made after the comment could be read.
func TestWhoDecides(t *testing.T) {
	for name, c := range map[string]struct {
		decide func(merged, since time.Time) site.Decision
		why    string // empty when it approves
		by     string
	}{
		"a bot": {func(m, _ time.Time) site.Decision {
			return site.Decision{By: "mergify[bot]", When: m, Program: "mergify[bot]"}
		}, "by a program (mergify", ""},
		"an App": {func(m, _ time.Time) site.Decision {
			return site.Decision{By: "ann", When: m, Program: "the App lander"}
		}, "by a program (the App lander)", ""},
		"the merge queue": {func(m, _ time.Time) site.Decision {
			return site.Decision{By: "ann", When: m, Program: "the merge queue"}
		}, "by a program (the merge queue)", ""},
		"auto-merge enabled before": {func(_, s time.Time) site.Decision {
			return site.Decision{By: "ann", When: s.Add(-time.Hour), Auto: true}
		},
			"it was merged automatically: ann asked for that at", ""},
		"auto-merge enabled in that second": {func(_, s time.Time) site.Decision { return site.Decision{By: "ann", When: s, Auto: true} }, "it was merged automatically", ""},
		"auto-merge, unknown since when":    {func(_, _ time.Time) site.Decision { return site.Decision{By: "ann", Auto: true} }, "the forge does not say whether ann", ""},
		"merged before it could be read":    {func(_, s time.Time) site.Decision { return site.Decision{By: "ann", When: s.Add(-time.Second)} }, "not after the comment named the set", ""},
		"nobody":                            {func(m, _ time.Time) site.Decision { return site.Decision{When: m} }, "does not say who decided", ""},
		"auto-merge enabled after": {func(_, s time.Time) site.Decision {
			return site.Decision{By: "bob", When: s.Add(time.Second), Auto: true}
		}, "", "bob"},
		"a person": {func(m, _ time.Time) site.Decision { return site.Decision{By: "ann", When: m} }, "", "ann"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				f, r := w.wipes()
				f.merge(7)
				f.decisions[7] = c.decide(f.proposals[7].MergedAt, f.comments[7].Written)
				if c.why != "" {
					f.holds(r, c.why)
				} else {
					f.approves(r, c.by)
				}
			}, "n1")
		})
	}
}

// Auto-merge that a person enabled having read the set goes on when we write the
// comment anew, with the same set in it; of another set it approves nothing.
func TestAutoMergeAndANewerText(t *testing.T) {
	for name, grown := range map[string]bool{"the same set": false, "another set": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				f := w.inSync("n1", "n2")
				r := f.reviews()
				f.propose(7, w.wiping([]string{"n1", "n2"}, "n1"))
				f.round(r)
				f.show(r, 7)
				w.after(time.Minute)
				d := site.Decision{By: "bob", When: time.Now(), Auto: true}
				w.after(time.Minute)
				w.commit(w.wiping([]string{"n1", "n2"}))
				if grown {
					f.grow(7)
					r.Again(7) // somebody asks for another plan, which names all of it
				}
				f.round(r)
				f.show(r, 7)
				w.after(time.Minute)
				f.merge(7)
				f.decisions[7] = d
				for range 10 {
					w.after(time.Minute)
					f.round(r)
				}
				if n1 := !w.begun("n1", site.ActionInstall, time.Time{}).IsZero(); n1 == grown {
					t.Errorf("n1 was installed: %t", n1)
				}
			}, "n1", "n2")
		})
	}
}

// One wrong or late answer after a merge loses nothing: it is asked again, people
// are told when that lasts, and other proposals are planned meanwhile.
func TestOneBadAnswerLosesNothing(t *testing.T) {
	for name, spoil := range map[string]func(*forge) (back func()){
		"404":               func(f *forge) func() { return f.vanish(7) },
		"late":              func(f *forge) func() { f.late = true; return func() { f.late = false } },
		"a text on its way": func(f *forge) func() { f.busy = true; return func() { f.busy = false } },
		"nobody has merged": func(f *forge) func() { f.decisions[7] = site.Decision{}; return func() { delete(f.decisions, 7) } },
		"decision not told": func(f *forge) func() { f.mute = errors.New("403"); return func() { f.mute = nil } },
		"no merge commit": func(f *forge) func() {
			m := f.proposals[7].Merge
			f.change(7, func(p *site.Proposal) { p.Merge = "" })
			return func() { f.change(7, func(p *site.Proposal) { p.Merge = m }) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				f, r := w.wipes()
				f.merge(7)
				back := spoil(f)
				told := func() bool {
					return slices.ContainsFunc(w.engine.Report().Status.Problems, func(p site.Problem) bool { return p.About == "merges" })
				}
				f.round(r)
				if told() {
					t.Error("people are told of what may pass")
				}
				f.propose(8, w.wiping([]string{"n1"}, "n1"))
				for range 8 {
					w.after(time.Minute)
					f.round(r)
				}
				if !told() {
					t.Errorf("people are not told of it: %v", w.engine.Report().Status.Problems)
				}
				if f.last(8).Comment == "" {
					t.Error("nothing else is planned meanwhile")
				}
				w.want("n1", site.Blocked)
				back()
				f.approves(r, "ann")
				if told() {
					t.Error("people are told of it still")
				}
			}, "n1")
		})
	}
}

// What is wrong for good is said and held in the end.
func TestBadAnswersForGood(t *testing.T) {
	t.Run("late", func(t *testing.T) {
		inBubble(t, usual, func(w *world) {
			f, r := w.wipes()
			f.merge(7)
			f.late = true
			f.holds(r, "does not say who decided")
		}, "n1")
	})
	t.Run("gone", func(t *testing.T) {
		inBubble(t, usual, func(w *world) {
			f, r := w.wipes()
			f.merge(7)
			f.vanish(7)
			for range 23 {
				f.round(r)
				w.after(time.Hour)
			}
			if w.hasTold(site.EventOrder, "approves nothing") {
				t.Error("it is given up within a day")
			}
			for range 3 {
				f.round(r)
				w.after(time.Hour)
			}
			f.round(r)
			if !w.hasTold(site.EventOrder, "merging pull request 7 approves nothing: the forge no longer has it") {
				t.Error("history does not tell that it is given up")
			}
			if p := w.engine.Report().Status.Problems; len(p) > 0 {
				t.Errorf("people are told of %v still", p)
			}
			w.want("n1", site.Blocked)
		}, "n1")
	})
}
