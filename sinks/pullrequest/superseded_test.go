package pullrequest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/forge"
)

func TestFormerHeadsAreSuperseded(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.begin(1, "head1", "base1")
		d.after(time.Minute)
		d.announce(review(1, "head1", "base1"))
		d.after(time.Minute)
		d.done()
		d.announce(review(1, "head2", "base1"))
		d.after(time.Minute)
		d.did("check head2 success", "comment 1 plan", "check head1 superseded")
		if got := d.checks["head1"][2].Title; got != "superseded by head2" {
			t.Errorf("the check says %q", got)
		}
		d.begin(1, "head1", "base1") // it was pushed back
		d.after(time.Minute)
		d.did("check head1 pending", "check head2 superseded")
		d.begin(1, "head2", "base1")
		d.begin(1, "head1", "base1")
		d.after(time.Minute)
		if got := d.verdicts("head1"); got[len(got)-1] != forge.Pending {
			t.Errorf("the head's check is %q", got)
		}
		d.suffer(away)
		d.begin(1, "head2", "base1")
		d.after(time.Minute)
		d.announce(review(1, "head1", "base1"))
		d.announce(merged(1, "head1", "waits for the branch"))
		d.suffer(nil)
		d.after(time.Hour)
		if got := d.verdicts("head1"); got[len(got)-1] != forge.Success {
			t.Errorf("what was merged is %q", got)
		}
	})
}

// While a head is being planned, its former commits do not take the turn from
// what comes of it.
func TestReviewComesBeforeFormerHeads(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.announce(review(1, "head1", "base1"))
		d.after(time.Minute)
		d.done()
		d.begin(1, "head2", "base1")
		d.after(5 * time.Second)
		d.did("check head2 pending")
		d.announce(review(1, "head2", "base1"))
		d.after(time.Minute)
		d.did("check head2 success", "comment 1 plan", "check head1 superseded")
	})
}

// A comment about a commit that was pushed away while it could not be written
// is not written later.
func TestOvertaken(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.suffer(away)
		d.announce(review(1, "head1", "base1"))
		d.after(time.Minute)
		d.begin(1, "head2", "base1")
		d.suffer(nil)
		d.after(time.Hour)
		d.did("check head2 pending", "check head1 superseded") // it may have been told something
	})
}

// A commit that another proposal has too is not superseded with one of them.
func TestHeadOfTwoProposals(t *testing.T) {
	atDesk(t, func(d *desk) {
		for n := 1; n <= 2; n++ {
			d.begin(n, "head1", "base1")
			d.announce(review(n, "head1", "base1"))
		}
		d.after(time.Minute)
		d.begin(1, "head2", "base1")
		d.after(time.Minute)
		if got := d.verdicts("head1"); got[len(got)-1] != forge.Success {
			t.Errorf("the check of both is %q", got)
		}
		d.begin(2, "head3", "base1")
		d.after(time.Minute)
		if got := d.verdicts("head1"); got[len(got)-1] != forge.Superseded {
			t.Errorf("the check of none is %q", got)
		}
	})
}

// What the branch does costs a commit one check for each verdict, and not more
// than a forge takes; a new commit has all of them again.
func TestChecksOfACommitAreCounted(t *testing.T) {
	atDesk(t, func(d *desk) {
		for n := range 1200 {
			if n == 700 {
				d.restart()
			}
			base := fmt.Sprintf("base%d", n)
			d.begin(1, "head1", base)
			d.announce(review(1, "head1", base))
			d.after(time.Minute)
		}
		all := d.checks["head1"]
		if last := all[len(all)-1]; len(all) != maxWritten+1 || last.Verdict != forge.Error || !strings.Contains(last.Title, "push a new commit") {
			t.Errorf("%d checks, the last is %+v", len(all), last)
		}
		if got := d.reads("1 plan"); !strings.Contains(got, "head1 on base1199") {
			t.Errorf("the comment reads %q", got)
		}
		d.begin(2, "head1", "base1") // which has the same checks
		d.after(time.Minute)
		if got := d.verdicts("head1"); len(got) != maxWritten+1 {
			t.Errorf("another proposal has the last checks be %q", got[maxWritten+1:])
		}
		d.announce(review(1, "head2", "base1"))
		d.after(time.Minute)
		if got := d.verdicts("head2"); len(got) != 1 || got[0] != forge.Success {
			t.Errorf("the next commit is %q", got)
		}
	})
}

// A verdict that nobody was told when the branch moves is not told any more.
func TestBaseMovesBeforeTheVerdictIsTold(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.begin(1, "head1", "base1")
		d.after(time.Minute)
		d.suffer(away)
		d.announce(review(1, "head1", "base1"))
		d.begin(1, "head1", "base2")
		d.suffer(nil)
		d.after(time.Hour)
		if got := d.verdicts("head1"); slices.Contains(got, forge.Success) {
			t.Errorf("it is %q", got)
		}
	})
}

// Anybody can propose another's commit from a fork: its check stays as it is.
// When the other goes, it is the fork's, which nobody has planned.
func TestForkOfTheSameHead(t *testing.T) {
	atDesk(t, func(d *desk) {
		stands := func(want ...forge.Verdict) {
			t.Helper()
			d.after(time.Minute)
			if got := d.verdicts("head1"); !slices.Equal(got, want) {
				t.Errorf("the check is %q, want %q", got, want)
			}
		}
		fork := func(base string) {
			v := review(2, "head1", base)
			v.Proposal.Fork, v.Allow, v.Problem = true, "head1", "it comes from a fork"
			if err := d.r.Begin(t.Context(), v.Proposal, base); err != nil {
				t.Fatal(err)
			}
			d.announce(v)
		}
		d.announce(review(1, "head1", "base1"))
		stands(forge.Success)
		fork("base1")
		stands(forge.Success)
		d.restart()
		d.begin(1, "head1", "base2")
		fork("base2")
		d.announce(review(1, "head1", "base2"))
		stands(forge.Success, forge.Success)
		for n := range maxWritten { // what is not said is not counted
			v := review(3+n, "head1", "base2")
			v.Proposal.Fork, v.Allow, v.Comment = true, "head1", ""
			d.announce(v)
		}
		stands(forge.Success, forge.Success)
		v := review(1, "head1", "base2")
		v.Problem = "broken"
		d.announce(v)
		stands(forge.Success, forge.Success, forge.Failure)
		d.begin(1, "head2", "base2")
		stands(forge.Success, forge.Success, forge.Failure, forge.Pending)
	})
}

// What one proposal says of a commit is not what stands when it goes and another
// has the commit, too.
func TestSharedHeadIsSaidAgain(t *testing.T) {
	for name, goes := range map[string]func(*desk){
		"pushed": func(d *desk) { d.announce(review(2, "head2", "base1")) },
		"merged before it was planned": func(d *desk) {
			d.begin(2, "head1", "base1")
			d.after(time.Second)
			d.announce(merged(2, "head1", "waits"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, func(d *desk) {
				d.announce(review(1, "head1", "base1"))
				d.after(time.Minute)
				v := review(2, "head1", "base0")
				v.Problem, v.Ours = "killed", true
				d.announce(v)
				d.after(time.Minute)
				if got := d.verdicts("head1"); got[len(got)-1] != forge.Error {
					t.Fatalf("the check is %q", got)
				}
				d.restart()
				goes(d)
				d.after(time.Hour)
				if got := d.verdicts("head1"); got[len(got)-1] != forge.Success {
					t.Errorf("the check of the one that is left is %q", got)
				}
			})
		})
	}
}

func TestBaseMoves(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.announce(review(1, "head1", "base1"))
		d.after(time.Minute)
		d.begin(1, "head1", "base2")
		d.after(time.Minute)
		d.announce(review(1, "head1", "base2"))
		d.after(time.Minute)
		d.did("check head1 success", "comment 1 plan", "check head1 success", "comment 1 plan")
		if got := d.checks["head1"][1].Title; !strings.HasSuffix(got, "(head1 on base2)") {
			t.Errorf("the check says %q", got)
		}
	})
}

// A restart, after which everything is planned again, does not take back what
// was said; who asks for a plan sees that it is made.
func TestPlannedAgain(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.begin(1, "head1", "base1")
		d.announce(review(1, "head1", "base1"))
		d.after(time.Minute)
		d.done()
		kept := string(d.box["wish/1"])
		d.restart()
		d.begin(1, "head1", "base1")
		d.after(time.Minute)
		if string(d.box["wish/1"]) != kept {
			t.Error("it is kept anew without news")
		}
		d.announce(review(1, "head1", "base1"))
		d.after(time.Minute)
		d.did()
		d.begin(1, "head1", "base1")
		d.after(time.Minute)
		d.announce(review(1, "head1", "base1"))
		d.after(time.Minute)
		d.did("check head1 pending", "check head1 success")
	})
}
