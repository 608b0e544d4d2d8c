package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/review"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Merging approves what the comment named, for good and once, and nothing that
// grew beside it.
func TestMergeApprovesWhatWasShown(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		f := w.inSync("n1", "n2")
		r := f.reviews()
		f.propose(7, w.wiping([]string{"n1", "n2"}, "n1"))
		f.round(r)
		f.show(r, 7)
		shown := f.last(7).Set
		w.down() // it is remembered
		w.up()
		r = f.reviews()
		w.source.mu.Lock()
		w.source.designs["merged-"+f.last(7).Proposal.Head] = w.wiping([]string{"n1", "n2"}, "n1", "n2") // it grew
		w.source.mu.Unlock()
		f.merge(7)
		w.after(30 * time.Second)
		w.want("n1", site.Blocked)
		f.round(r)
		w.until("n1 is installed", 30*time.Minute, w.is(site.InSync, "n1"))
		if w.begun("n1", site.ActionInstall, time.Time{}).IsZero() || !w.hasTold(site.EventOrder, "set "+shown+" approved by ") {
			t.Error("n1 was not installed as approved")
		}
		w.want("n2", site.Blocked)
		if st := w.engine.Report().Status; len(st.Waiting) != 1 || st.Waiting[0].Node != "n2" {
			t.Errorf("what waits is %v", st.Waiting)
		}
		f.round(r)
		if v := f.last(7); len(v.Approved) != 1 || len(v.Held) != 1 || v.Held[0].Node != "n2" || v.Set != "" ||
			!strings.HasPrefix(v.Comment, "### Slipway, site <code>test</code>: 1 of 2 machines done; erasing 1 more machine needs a decision\n\n") ||
			!strings.Contains(v.Comment, "The merge approved erasing 1 machine (set `"+shown+"`).") {
			t.Errorf("approved %v, held %v\n%s", v.Approved, v.Held, v.Comment)
		}
		events := len(w.engine.Events(0))
		f.round(r)
		if now := w.engine.Events(0); len(now) != events {
			t.Errorf("a second look did something: %v", now[events:])
		}
	}, "n1", "n2")
}

// Nothing but the merge of what was shown approves anything.
func TestWhatApprovesNothing(t *testing.T) {
	for name, do := range map[string]func(*testing.T, *forge, *review.Reviews){
		"never shown": func(_ *testing.T, f *forge, _ *review.Reviews) { f.merge(7) },
		"shown after the merge": func(_ *testing.T, f *forge, r *review.Reviews) {
			f.merge(7)
			f.show(r, 7)
		},
		"another set shown": func(_ *testing.T, f *forge, r *review.Reviews) {
			f.write(r, f.last(7), "0123456789abcdef")
			f.merge(7)
		},
		"shown of an older review": func(_ *testing.T, f *forge, r *review.Reviews) {
			v := f.last(7)
			f.propose(7, f.w.wiping([]string{"n1", "n2"}, "n1"))
			f.round(r)
			f.write(r, v, v.Set)
			f.merge(7)
		},
		"pushed after it was shown": func(_ *testing.T, f *forge, r *review.Reviews) {
			f.show(r, 7)
			f.propose(7, f.w.wiping([]string{"n1", "n2"}, "n1"))
			f.merge(7)
		},
		"a smaller set is about to be shown": func(_ *testing.T, f *forge, r *review.Reviews) {
			f.show(r, 7)
			f.w.source.mu.Lock()
			f.w.source.designs["merged-"+f.last(7).Proposal.Head] = f.w.wiping([]string{"n1", "n2"}, "n2")
			f.w.source.mu.Unlock()
			r.Again(7)
			f.round(r)
			f.w.source.mu.Lock()
			f.w.source.designs["merged-"+f.last(7).Proposal.Head] = f.w.wiping([]string{"n1", "n2"}, "n1")
			f.w.source.mu.Unlock()
			f.merge(7)
		},
		"closed": func(_ *testing.T, f *forge, r *review.Reviews) {
			f.show(r, 7)
			f.change(7, func(p *site.Proposal) { p.State = site.ProposalClosed })
			f.w.commit(f.w.wiping([]string{"n1", "n2"}, "n1"))
		},
		"merged into another branch": func(_ *testing.T, f *forge, r *review.Reviews) {
			f.show(r, 7)
			f.merge(7)
			f.change(7, func(p *site.Proposal) { p.Base = "old" })
		},
		"merged as a commit that is not there": func(_ *testing.T, f *forge, r *review.Reviews) {
			f.show(r, 7)
			f.merge(7)
			f.change(7, func(p *site.Proposal) { p.Merge = "elsewhere" })
		},
		"gone for a day, and merged after all": func(_ *testing.T, f *forge, r *review.Reviews) {
			f.show(r, 7)
			f.merge(7)
			back := f.vanish(7)
			for range 25 {
				f.round(r)
				f.w.after(time.Hour)
			}
			back()
		},
		"merged as a commit that comes a week later": func(t *testing.T, f *forge, r *review.Reviews) {
			f.show(r, 7)
			f.change(7, func(p *site.Proposal) {
				p.State, p.Merge, p.MergedBy, p.MergedAt = site.ProposalMerged, "commit-2", "ann", time.Now().Add(-8*24*time.Hour)
			})
			f.round(r)
			f.w.commit(f.w.wiping([]string{"n1", "n2"}, "n1"))
		},
		"merged by nobody": func(_ *testing.T, f *forge, r *review.Reviews) {
			f.show(r, 7)
			f.merge(7)
			f.change(7, func(p *site.Proposal) { p.MergedBy = "" })
		},
		"an approval in the proposal itself": func(_ *testing.T, f *forge, r *review.Reviews) {
			s := f.w.wiping([]string{"n1", "n2"}, "n1")
			s.Approvals = map[string]site.Approval{"ffffffffffffffff": {By: "the proposal"}}
			f.propose(7, s)
			f.round(r)
			if v := f.last(7); !slices.Contains(v.Rules, "approvals: ffffffffffffffff") {
				t.Errorf("rules: %q", v.Rules)
			}
			f.merge(7)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				f := w.inSync("n1", "n2")
				r := f.reviews()
				f.propose(7, w.wiping([]string{"n1", "n2"}, "n1"))
				f.round(r)
				if f.last(7).Set == "" {
					t.Fatal("it destroys nothing")
				}
				do(t, f, r)
				w.after(time.Minute)
				if _, err := r.Round(w.t.Context()); err != nil {
					t.Fatal(err)
				}
				w.after(20 * time.Minute)
				if !w.begun("n1", site.ActionInstall, time.Time{}).IsZero() || w.hasTold(site.EventOrder, "approved") {
					t.Error("n1 was installed")
				}
				w.want("n1", site.Blocked)
			}, "n1", "n2")
		})
	}
}

// While a set that has grown is being shown, what was shown before still
// counts: whichever is read names it.
func TestMergeBeforeTheGrownSetIsShown(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		f := w.inSync("n1", "n2")
		r := f.reviews()
		f.propose(7, w.wiping([]string{"n1", "n2"}, "n1"))
		f.round(r)
		f.show(r, 7)
		w.source.mu.Lock()
		w.source.designs["merged-"+f.last(7).Proposal.Head] = w.wiping([]string{"n1", "n2"}, "n1", "n2")
		w.source.mu.Unlock()
		r.Again(7)
		f.round(r)
		f.merge(7)
		w.after(time.Minute)
		f.round(r)
		w.until("n1 is installed", 30*time.Minute, w.is(site.InSync, "n1"))
		w.want("n2", site.Blocked)
	}, "n1", "n2")
}

// grow has a proposal destroy what is on n2 too.
func (f *forge) grow(number int) {
	head := f.last(number).Proposal.Head
	f.w.source.mu.Lock()
	defer f.w.source.mu.Unlock()
	f.w.source.designs["merged-"+head] = f.w.wiping([]string{"n1", "n2"}, "n1", "n2")
}

// What has come to a set since it was read is not approved, though the comment
// names it by then: an edit notifies nobody. After somebody has asked for
// another plan it is, as it is of another commit.
func TestWhatHasComeToASetIsHeld(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*forge, *review.Reviews)
		held   bool
	}{
		"the branch moves": {func(*forge, *review.Reviews) {}, true},
		"it moves, and plain in between": {func(f *forge, r *review.Reviews) {
			f.show(r, 7)
			f.w.commit(f.w.wiping([]string{"n1", "n2"}))
			f.round(r)
		}, true},
		"somebody asks for a plan": {func(f *forge, r *review.Reviews) { r.Again(7); f.round(r) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				f := w.inSync("n1", "n2")
				r := f.reviews()
				f.propose(7, w.wiping([]string{"n1", "n2"}, "n1"))
				f.round(r)
				f.show(r, 7)
				w.commit(w.wiping([]string{"n1", "n2"}))
				f.grow(7)
				f.round(r)
				c.before(f, r)
				f.show(r, 7)
				v := f.last(7)
				if said := strings.Contains(v.Comment, "Merging does not approve this"); said != c.held || (len(v.Grown) > 0) != c.held {
					t.Errorf("grown %v; the comment says\n%s", v.Grown, v.Comment)
				}
				f.merge(7)
				w.after(time.Minute)
				f.round(r)
				w.until("n1 is installed", time.Hour, w.is(site.InSync, "n1"))
				f.round(r)
				if c.held {
					w.want("n2", site.Blocked)
				} else {
					w.until("n2 is installed", time.Hour, w.is(site.InSync, "n2"))
				}
			}, "n1", "n2")
		})
	}
}

// A comment that is not there any more has named nothing to whoever merges.
func TestMergeWithoutTheComment(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		f := w.inSync("n1")
		r := f.reviews()
		f.propose(7, w.wiping([]string{"n1"}, "n1"))
		f.round(r)
		f.show(r, 7)
		f.edit(7, func(is *site.Reading) { is.Comment = 0 })
		f.merge(7)
		w.after(time.Minute)
		f.round(r)
		w.after(20 * time.Minute)
		w.want("n1", site.Blocked)
		if v := f.last(7); len(v.Approved) > 0 || len(v.Held) != 1 || !strings.Contains(v.Comment, "it was deleted") {
			t.Errorf("approved %v, held %v\n%s", v.Approved, v.Held, v.Comment)
		}
	}, "n1")
}

// What waits for the approval that a merge has just given calls for nobody.
func TestApprovalByMergeCallsForNobody(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		f := w.inSync("n1", "n2")
		r := f.reviews()
		f.propose(7, w.wiping([]string{"n1", "n2"}, "n2"))
		f.round(r)
		f.show(r, 7)
		f.merge(7)
		for range 10 {
			w.after(20 * time.Second)
			f.round(r)
		}
		if got := f.calls(7); len(got) > 0 {
			t.Errorf("people are called for %q", got)
		}
	}, "n1", "n2")
}

// One that was merged while it was planned again is approved as it was read.
func TestMergeWhileItIsReviewed(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		f := w.inSync("n1")
		r := f.reviews()
		p := f.propose(7, w.wiping([]string{"n1"}, "n1"))
		f.round(r)
		f.show(r, 7)
		f.mu.Lock()
		f.merges[p.Head] = site.Merge{Result: site.Revision{ID: w.source.head()}} // as after a squash: nothing is left to merge
		f.asked = func(int) {
			f.mu.Lock()
			f.asked = nil
			f.mu.Unlock()
			f.merge(7)
		}
		f.mu.Unlock()
		r.Again(7)
		f.round(r)
		if f.tellings() != 1 {
			t.Error("it was told of what was merged")
		}
		f.keep(r, "n1 is installed", 30*time.Minute, func() bool { return !w.begun("n1", site.ActionInstall, time.Time{}).IsZero() })
	}, "n1")
}
