package github

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/pullrequest"
	double "github.com/slipway-gitops/slipway/tests/github"
)

// teller is the reporter of a site that reviews are told by, with the test for
// the engine and the records.
type teller struct {
	*pullrequest.Reporter
	w      *world
	github *Repository
	stop   func()

	mu    sync.Mutex
	box   map[string][]byte
	shown int
	wrong error
}

func (w *world) teller(github *Repository) *teller {
	t := &teller{w: w, github: github, box: map[string][]byte{}}
	t.up()
	return t
}

func (t *teller) up() {
	t.mu.Lock()
	t.wrong = nil
	t.mu.Unlock()
	t.Reporter = pullrequest.New(pullrequest.Config{
		Site: "berlin", Checks: t.github, Talk: t.github, Outbox: t, Log: slog.New(slog.DiscardHandler),
		Shown: func(context.Context, int, string, string, string) error {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.shown++
			return nil
		},
		Problem: func(err error) {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.wrong = err
		},
	})
	ctx, cancel := context.WithCancel(t.w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- t.Run(ctx) }()
	t.stop = func() { cancel(); <-ended }
}

func (t *teller) PutMessage(_ context.Context, key string, value []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.box[key] = value; value == nil {
		delete(t.box, key)
	}
	return nil
}

func (t *teller) Messages(context.Context) (map[string][]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.box), nil
}

func (t *teller) problem() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.wrong
}

func (t *teller) timesShown() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.shown
}

// reviewed is a review of a pull request as it is now.
func (t *teller) reviewed(pull *double.Pull, comment string) site.Review {
	t.w.t.Helper()
	p := site.Proposal{Number: pull.Number(), State: site.ProposalOpen, Base: "main", Head: pull.HeadID()}
	return site.Review{Site: "berlin", Proposal: p, Base: t.w.repo.Head("main"), Comment: comment, Set: "0123456789abcdef"}
}

func (t *teller) begin(pull *double.Pull) {
	t.w.t.Helper()
	must(t.w.t, t.Begin(t.w.t.Context(), t.reviewed(pull, "").Proposal, t.w.repo.Head("main")))
}

func (t *teller) announce(v site.Review) {
	t.w.t.Helper()
	must(t.w.t, t.Announce(t.w.t.Context(), v))
}

// stands is how a commit stands for who reads it.
func (t *teller) stands(commit string) string {
	if t.github.app == nil {
		state, _ := t.w.repo.Status(commit, "slipway/berlin")
		return state
	}
	all := t.w.repo.Checks(commit)
	if len(all) == 0 {
		return ""
	}
	is := all[len(all)-1].State()
	if is.Status != "completed" {
		return "pending"
	}
	return is.Conclusion
}

// reads fails unless we wrote just these comments on a pull request.
func (t *teller) reads(pull *double.Pull, want ...string) {
	t.w.t.Helper()
	var got []string
	for _, c := range pull.Comments() {
		if strings.HasPrefix(c.Author(), "slipway") {
			_, text, _ := strings.Cut(c.Body(), "\n")
			got = append(got, text)
		}
	}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.w.t.Errorf("pull request %d reads %q, want %q", pull.Number(), got, want)
	}
}

// A review is told at GitHub as it goes, by either kind of us.
func TestReviewIsTold(t *testing.T) {
	for _, kind := range []string{"token", "App"} {
		t.Run(kind, func(t *testing.T) {
			inWorld(t, func(w *world) {
				r := w.withToken()
				superseded := "error"
				if kind == "App" {
					r, _ = w.withApp()
					superseded = "cancelled"
				}
				s := w.teller(r)
				defer func() { s.stop() }()
				pull := w.propose("n1")
				first := pull.HeadID()
				s.begin(pull)
				<-time.After(time.Minute)
				if got := s.stands(first); got != "pending" {
					w.t.Errorf("it is %q at once", got)
				}
				v := s.reviewed(pull, "first\n")
				for n := range 120 {
					v.Findings = append(v.Findings, site.Finding{File: "n1.cue", Line: n + 1, Severity: site.SeverityError, Code: "no-mac", Message: "there is none"})
				}
				s.announce(v)
				<-time.After(time.Minute)
				if got := s.stands(first); got != "failure" || s.timesShown() != 1 {
					w.t.Errorf("it is %q and %d times shown", got, s.timesShown())
				}
				s.reads(pull, "first\n")
				w.repo.Push("ada", "n1", "more", double.Files{"n1.cue": "x: 2\n"})
				s.begin(pull)
				s.announce(s.reviewed(pull, "second\n"))
				<-time.After(time.Minute)
				if old, is := s.stands(first), s.stands(pull.HeadID()); old != superseded || is != "success" {
					w.t.Errorf("the commit before is %q, the head %q", old, is)
				}
				pull.Comments()[0].Delete("acme")
				v = s.reviewed(pull, "waits for the branch\n")
				pull.Merge("ada")
				v.Proposal.State, v.Set = site.ProposalMerged, ""
				s.announce(v)
				<-time.After(time.Minute)
				v.Comment, v.Call = "halted\n", &site.Call{Key: "halted-1", Text: "A node has failed.\n"}
				s.announce(v)
				<-time.After(time.Minute)
				s.reads(pull, "halted\n", "A node has failed.\n") // the first was written anew
				v.Comment, v.Call = "done\n", nil
				s.announce(v)
				<-time.After(time.Minute)
				s.reads(pull, "done\n", "A node has failed.\n")
				if err := s.problem(); err != nil {
					w.t.Errorf("people were told %v", err)
				}
			})
		})
	}
}

// A set stands while GitHub shows our comment that names it: not after it was
// deleted, or edited by another, or shown by another.
func TestSetStandsWhileItIsShown(t *testing.T) {
	const set = "0123456789abcdef"
	for name, c := range map[string]struct {
		spoil func(*double.Pull, *double.Comment)
		want  bool
	}{
		"left":    {func(*double.Pull, *double.Comment) {}, true},
		"deleted": {func(_ *double.Pull, c *double.Comment) { c.Delete("acme") }, false},
		"edited away": {func(_ *double.Pull, c *double.Comment) {
			c.Edit("acme", strings.ReplaceAll(c.Body(), set, "nothing"))
		}, false},
		"its marker taken off": {func(_ *double.Pull, c *double.Comment) { c.Edit("acme", "see `"+set+"`") }, false},
		"another's in its place": {func(p *double.Pull, c *double.Comment) {
			body := c.Body()
			c.Delete("acme")
			p.Comment("ada", body)
		}, false},
	} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarted %t", name, restarted), func(t *testing.T) {
				inWorld(t, func(w *world) {
					r := w.withToken()
					s := w.teller(r)
					defer func() { s.stop() }()
					pull := w.propose("n1")
					s.announce(s.reviewed(pull, "destroys disks, as set `"+set+"`\n"))
					<-time.After(time.Minute)
					if ok, err := s.Stands(w.t.Context(), pull.Number(), set); !ok || err != nil {
						w.t.Fatalf("it does not stand while it is shown: %v", err)
					}
					c.spoil(pull, pull.Comments()[0])
					if restarted {
						s.stop()
						s.github = w.withToken()
						s.up()
					}
					if ok, err := s.Stands(w.t.Context(), pull.Number(), set); ok != c.want || err != nil {
						w.t.Errorf("it stands: %t, %v, want %t", ok, err, c.want)
					}
				})
			})
		}
	}
}

// A branch that moves a thousand times leaves a commit with a check that nobody
// merges by, before GitHub takes no more; and where GitHub takes no more, people
// hear of the check that stays.
func TestThousandStatuses(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.teller(w.withToken())
		defer func() { s.stop() }()
		pull := w.propose("n1")
		for n := range 1100 {
			v := s.reviewed(pull, "")
			v.Base, v.Set = fmt.Sprintf("%040x", n+1), ""
			must(w.t, s.Begin(w.t.Context(), v.Proposal, v.Base))
			s.announce(v)
			<-time.After(time.Minute)
		}
		state, why := w.repo.Status(pull.HeadID(), "slipway/berlin")
		if n := len(w.repo.States(pull.HeadID(), "slipway/berlin")); n > 910 || state != "error" || !strings.Contains(why, "push a new commit") {
			w.t.Errorf("after %d statuses it is %s, %q", n, state, why)
		}
		full := w.propose("n2")
		w.repo.Fill(full.HeadID(), "slipway/berlin", 999)
		s.announce(s.reviewed(full, "green\n"))
		<-time.After(time.Minute)
		v := s.reviewed(full, "red\n")
		v.Problem = "broken"
		s.announce(v)
		<-time.After(time.Hour)
		if err := s.problem(); err == nil || !strings.Contains(err.Error(), "maximum number of statuses") {
			w.t.Errorf("people were told %v", err)
		}
	})
}

// Six hours of every kind of trouble, with the daemon started anew in the
// middle, lose nothing and write no comment twice.
func TestReviewsThroughTrouble(t *testing.T) {
	for name, kind := range map[string]double.Kind{"refused": double.Refuse, "502": double.Fail, "silent": double.Stall, "answers are lost": double.Lost, "half": double.Half} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				s := w.teller(w.withToken())
				defer func() { s.stop() }()
				pulls := []*double.Pull{w.propose("n1"), w.propose("n2"), w.propose("n3")}
				end := w.Suffer(double.Outage{Kind: kind})
				for n := range 12 {
					for _, p := range pulls {
						s.begin(p)
						s.announce(s.reviewed(p, fmt.Sprintf("review %d of %d\n", n, p.Number())))
					}
					<-time.After(30 * time.Minute)
					if n == 3 || n == 7 {
						s.stop()
						s.github = w.withToken()
						s.up()
					}
				}
				if s.problem() == nil {
					w.t.Error("people were not told")
				}
				end()
				<-time.After(10 * time.Minute)
				for _, p := range pulls {
					s.reads(p, fmt.Sprintf("review 11 of %d\n", p.Number()))
					if got := s.stands(p.HeadID()); got != "success" {
						w.t.Errorf("%d is %q", p.Number(), got)
					}
				}
				if err := s.problem(); err != nil {
					w.t.Errorf("people still hear %v", err)
				}
			})
		})
	}
}

// A check that a person wants again has a verdict again.
func TestCheckIsWantedAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		r, _ := w.withApp()
		s := w.teller(r)
		defer func() { s.stop() }()
		pull := w.propose("n1")
		for range 2 {
			s.begin(pull)
			s.announce(s.reviewed(pull, "plan\n"))
			<-time.After(time.Minute)
			s.begin(pull)
			<-time.After(time.Minute)
			if got := s.stands(pull.HeadID()); got != "pending" {
				w.t.Errorf("it is %q while it is planned", got)
			}
			s.announce(s.reviewed(pull, "plan\n"))
			<-time.After(time.Minute)
			if got := s.stands(pull.HeadID()); got != "success" {
				w.t.Errorf("it is %q", got)
			}
		}
	})
}

// A token that expires in the middle is said to people, and what was not told
// is once there is another.
func TestTokenExpires(t *testing.T) {
	inWorld(t, func(w *world) {
		w.repo.Grant("slipway-machine", double.Write)
		token := w.FineGrained("slipway-machine", tokenMay, w.repo)
		s := w.teller(w.connect(secret.New("", token)))
		defer func() { s.stop() }()
		pull := w.propose("n1")
		s.announce(s.reviewed(pull, "first\n"))
		<-time.After(time.Minute)
		w.Revoke(token)
		w.Forget()
		s.announce(s.reviewed(pull, "second\n"))
		<-time.After(6 * time.Hour)
		if n := len(w.Calls()); n > 6*10 {
			w.t.Errorf("%d requests with a token that is refused", n)
		}
		if err := s.problem(); err == nil || !strings.Contains(err.Error(), "make a new one") {
			w.t.Errorf("people were told %v", err)
		}
		s.github.secrets.(*safe).set(secret.New("", w.FineGrained("slipway-machine", tokenMay, w.repo)))
		<-time.After(16 * time.Minute)
		s.reads(pull, "second\n")
		if err := s.problem(); err != nil {
			w.t.Errorf("people still hear %v", err)
		}
	})
}

// Sixty pull requests are opened at once, and the branch moves under all of
// them: all is told, what somebody waits for first, and GitHub never has to say
// that it is too much.
func TestManyReviews(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.teller(w.withToken())
		defer func() { s.stop() }()
		const many = 60
		var pulls []*double.Pull
		for n := range many {
			pulls = append(pulls, w.propose(fmt.Sprintf("n%d", n)))
			s.begin(pulls[n])
		}
		for _, p := range pulls {
			s.announce(s.reviewed(p, "plan\n"))
		}
		<-time.After(30 * time.Minute)
		w.repo.Push("ada", "main", "later", double.Files{"b.cue": "b: 1\n"})
		for _, p := range pulls {
			s.begin(p)
			s.announce(s.reviewed(p, "plan on another base\n"))
		}
		late := w.propose("late")
		s.announce(s.reviewed(late, "plan\n"))
		<-time.After(time.Minute)
		s.reads(late, "plan\n")
		<-time.After(time.Hour)
		for _, p := range pulls {
			s.reads(p, "plan on another base\n")
		}
		writes := 0
		for _, c := range w.Calls() {
			if c.Limit != "" {
				w.t.Fatalf("GitHub had to limit %s %s (%s)", c.Method, c.Path, c.Limit)
			}
			if c.Method != http.MethodGet {
				writes++
			}
		}
		if most := many*5 + 10; writes > most {
			w.t.Errorf("%d writes, want at most %d", writes, most)
		}
	})
}
