package pullrequest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/site"
)

// What we may not do is tried slowly and said to people, and keeps nothing else
// from being told.
func TestDenied(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.suffer(func(what string) error {
			if strings.HasPrefix(what, "check") {
				return fmt.Errorf("%w: needed is statuses", forge.ErrDenied)
			}
			return nil
		})
		for n := range 20 {
			d.announce(review(n, fmt.Sprintf("head%d", n), "base1"))
		}
		d.after(3 * time.Hour)
		if len(d.comments) != 20 {
			t.Errorf("%d comments", len(d.comments))
		}
		if n := d.requests(); n > 20+3*60 {
			t.Errorf("%d requests", n)
		}
		if !strings.Contains(d.problems[len(d.problems)-1], "needed is statuses") {
			t.Errorf("people were told %q", d.problems)
		}
		d.suffer(nil)
		d.after(20 * time.Minute)
		if len(d.checks) != 20 || d.problems[len(d.problems)-1] != "" {
			t.Errorf("%d checks, and people hear %q", len(d.checks), d.problems[len(d.problems)-1])
		}
	})
}

func TestDeniedIsTriedSlowly(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.suffer(func(string) error { return forge.ErrDenied })
		d.announce(merged(1, "head1", "halted"))
		d.after(24 * time.Hour)
		if n := d.requests(); n < 90 || n > 97 {
			t.Errorf("%d requests in a day", n)
		}
	})
}

func TestSilence(t *testing.T) {
	atDesk(t, func(d *desk) {
		until := time.Now().Add(time.Hour)
		d.suffer(func(string) error { return fmt.Errorf("comment: %w", &forge.Limited{Until: until, Why: "used up"}) })
		d.announce(review(1, "head1", "base1"))
		d.after(30 * time.Minute)
		d.announce(review(2, "head2", "base1"))
		d.suffer(nil)
		d.after(29 * time.Minute)
		if n := d.requests(); n != 1 {
			t.Errorf("%d requests while the forge wants none", n)
		}
		d.after(2 * time.Minute)
		if len(d.done()) != 4 || !strings.Contains(d.problems[0], "used up") || d.problems[len(d.problems)-1] != "" {
			t.Errorf("people were told %q", d.problems)
		}
	})
}

// A problem ends with what it kept from being told.
func TestProblemEnds(t *testing.T) {
	for name, err := range map[string]error{
		"silence": &forge.Limited{Until: time.Now().Add(1000 * time.Hour), Why: "used up"},
		"denied":  fmt.Errorf("%w: needed is comments", forge.ErrDenied),
		"outage":  errors.New("connection reset by peer"),
	} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, func(d *desk) {
				d.suffer(func(string) error { return err })
				v := merged(1, "head1", "")
				v.Call = &site.Call{Key: "halted", Text: "The rollout has halted."}
				d.announce(v)
				d.after(time.Hour)
				if len(d.problems) == 0 || d.problems[len(d.problems)-1] != err.Error() {
					t.Errorf("people were told %q", d.problems)
				}
				v.Call = nil
				d.announce(v)
				d.after(time.Minute)
				if d.problems[len(d.problems)-1] != "" {
					t.Errorf("people still hear %q", d.problems)
				}
			})
		})
	}
}

// What is refused is said to people, and tried for a day: a check because another
// stands in its place, a comment because people read it.
func TestRefused(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.announce(review(1, "head1", "base1"))
		d.after(time.Hour)
		d.done()
		d.requests()
		d.suffer(func(what string) error {
			if what == "comment 2 plan" || strings.HasPrefix(what, "check head1") {
				return fmt.Errorf("%s: %w: too many", what, forge.ErrRefused)
			}
			return nil
		})
		d.announce(review(2, "head2", "base1"))
		v := review(1, "head1", "base2")
		v.Problem = "broken"
		d.announce(v)
		d.after(12 * time.Hour)
		d.did("check head2 success", "comment 1 plan", "check head2 success")
		const want = "no comment, see `slipway status`: 1 node changes: 1 reboot, 0 wiped (head2 on base1)"
		if is := d.checks["head2"][1]; is.Title != want || !strings.Contains(is.Summary, "too many") {
			t.Errorf("the check says %q, %q", is.Title, is.Summary)
		}
		if got := d.problems[len(d.problems)-1]; !strings.HasPrefix(got, "check head1 failure") || !strings.HasPrefix(d.problems[0], "comment 2 plan") {
			t.Errorf("people were told %q", d.problems)
		}
		d.after(13 * time.Hour)
		if n := d.requests(); n > 2*4*24+20 || d.problems[len(d.problems)-1] != "" {
			t.Errorf("%d requests, and people were told %q", n, d.problems)
		}
		d.after(48 * time.Hour)
		if n := d.requests(); n > 0 {
			t.Errorf("%d requests later", n)
		}
		if all := d.checks["head2"]; len(all) != 2 {
			t.Errorf("in the end the check says %q", all[len(all)-1].Title)
		}
	})
}

// What was refused in passing is told within a minute of when it is taken.
func TestRefusedInPassing(t *testing.T) {
	for name, kind := range map[string]error{"422": forge.ErrRefused, "404": forge.ErrGone} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, func(d *desk) {
				d.suffer(func(what string) error {
					if strings.HasPrefix(what, "comment") {
						return fmt.Errorf("%s: %w", what, kind)
					}
					return nil
				})
				d.announce(review(1, "head1", "base1"))
				d.after(time.Minute)
				d.suffer(nil)
				d.after(time.Minute)
				if d.reads("1 plan") == "" || d.problems[len(d.problems)-1] != "" {
					t.Errorf("after a minute of it the comment is %q, and people were told %q", d.reads("1 plan"), d.problems)
				}
			})
		})
	}
}

// That something is not there is believed after a day.
func TestGone(t *testing.T) {
	atDesk(t, func(d *desk) {
		gone := func(what string) error {
			if strings.HasPrefix(what, "comment 1") {
				return fmt.Errorf("%w: 404", forge.ErrGone)
			}
			return nil
		}
		v := review(1, "head1", "base1")
		v.Set = "0123456789abcdef"
		d.suffer(gone)
		d.announce(v)
		d.after(6 * time.Hour)
		d.suffer(nil)
		d.after(16 * time.Minute)
		if d.reads("1 plan") == "" || len(d.shown) != 1 {
			t.Error("it is lost after six hours")
		}
		d.suffer(gone)
		v.Comment += "more"
		d.announce(v)
		d.after(20 * time.Hour)
		d.suffer(away)
		d.after(time.Hour)
		d.suffer(gone)
		d.after(20 * time.Hour)
		if d.requests(); len(d.problems) == 0 || d.problems[len(d.problems)-1] == "" {
			t.Error("people do not hear of it, or it is given up too early")
		}
		d.after(6 * time.Hour)
		d.requests()
		d.after(26 * time.Hour)
		if n := d.requests(); n > 0 || len(d.shown) != 1 {
			t.Errorf("%d requests after two days, and shown is %q", n, d.shown)
		}
	})
}

// A set does not count as shown before it is, and does once the records take it.
func TestShownIsTriedAgain(t *testing.T) {
	atDesk(t, func(d *desk) {
		fails := 3
		d.r.Told = func(ctx context.Context, t site.Told) error {
			if fails--; fails >= 0 {
				return errors.New("the records are away")
			}
			return d.tell(ctx, t)
		}
		v := review(1, "head1", "base1")
		v.Set = "0123456789abcdef"
		d.announce(v)
		d.after(10 * time.Minute)
		if len(d.shown) != 1 {
			t.Errorf("shown is %q", d.shown)
		}
	})
}

// Proposals that nobody hears of any more are forgotten, others not.
func TestForgotten(t *testing.T) {
	atDesk(t, func(d *desk) {
		for n := range 50 {
			d.announce(review(n, fmt.Sprintf("head%d", n), "base1"))
		}
		d.after(time.Hour)
		d.suffer(away)
		d.announce(merged(8, "head8", "done"))
		d.after(remembered - 2*time.Hour)
		d.announce(review(7, "head7", "base2"))
		d.after(3 * time.Hour)
		d.announce(review(50, "head50", "base2"))
		if len(d.box) != 3 || d.box["wish/7"] == nil || d.box["wish/8"] == nil || d.box["wish/50"] == nil {
			t.Errorf("%d are kept", len(d.box))
		}
	})
}
