package github

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	told  site.Told
	wrong error
	log   bytes.Buffer // what is logged as a warning
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
		Site: "berlin", Checks: t.github, Talk: t.github, Outbox: t, Log: t.logger(),
		Told: func(_ context.Context, told site.Told) error {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.told = told
			if told.Set != "" {
				t.shown++
			}
			return nil
		},
		Problem: func(err error) {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.wrong = err
			if err != nil { // as the engine does
				fmt.Fprintf(&t.log, "site has a problem: %v\n", err)
			}
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
				<-time.After(3 * time.Minute) // that it is gone is believed after one
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

// lastTold is how the comment was that was told of last.
func (t *teller) lastTold() site.Told {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.told
}

// Whatever somebody does to our comment, it does not read as we left it: also when
// it was undone, and after the daemon was started again.
func TestWhatIsDoneToAComment(t *testing.T) {
	const set = "0123456789abcdef"
	for name, c := range map[string]struct {
		spoil func(*world, *double.Pull, *double.Comment)
		want  string
	}{
		"left":         {func(*world, *double.Pull, *double.Comment) {}, "same"},
		"reacted to":   {func(_ *world, p *double.Pull, _ *double.Comment) { p.Comment("ada", "fine") }, "same"},
		"line ends":    {func(w *world, _ *double.Pull, _ *double.Comment) { w.CarriageReturns(true) }, "same"},
		"deleted":      {func(_ *world, _ *double.Pull, c *double.Comment) { c.Delete("acme") }, "gone"},
		"hidden":       {func(_ *world, _ *double.Pull, c *double.Comment) { c.Hide("outdated") }, "hidden"},
		"all but gone": {func(_ *world, _ *double.Pull, c *double.Comment) { c.Edit("acme", ".") }, "text"},
		"edited, with the set out of sight": {func(_ *world, _ *double.Pull, c *double.Comment) {
			c.Edit("acme", strings.ReplaceAll(c.Body(), "destroys disks, as set `"+set+"`", "nothing changes <!-- "+set+" -->"))
		}, "text"},
		"edited and put back": {func(_ *world, _ *double.Pull, c *double.Comment) {
			body := c.Body()
			c.Edit("acme", "nothing changes")
			c.Edit("acme", body)
		}, "time"},
		"its marker taken off": {func(_ *world, _ *double.Pull, c *double.Comment) {
			c.Edit("acme", "destroys disks, as set `"+set+"`\n")
		}, "time"},
		"another's in its place": {func(_ *world, p *double.Pull, c *double.Comment) {
			body := c.Body()
			c.Delete("acme")
			p.Comment("ada", body)
		}, "gone"},
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
					told := s.lastTold()
					if is, err := s.Reads(w.t.Context(), pull.Number(), told.Is.Comment); is != told.Is || err != nil || told.Before != nil || told.Set != set {
						w.t.Fatalf("it reads %+v, %v, and %+v was told", is, err, told)
					}
					c.spoil(w, pull, pull.Comments()[0])
					if restarted {
						s.stop()
						s.github = w.withToken()
						s.up()
					}
					is, err := s.Reads(w.t.Context(), pull.Number(), told.Is.Comment)
					if c.want == "gone" {
						if !errors.Is(err, site.ErrNotYet) {
							w.t.Errorf("at once it reads %v", err)
						}
						<-time.After(doubtMissing)
						_, err = s.Reads(w.t.Context(), pull.Number(), told.Is.Comment)
					}
					got := "same"
					switch {
					case errors.Is(err, site.ErrNotFound):
						got = "gone"
					case err != nil:
						got = err.Error()
					case is.Text != told.Is.Text:
						got = "text"
					case !is.Written.Equal(told.Is.Written):
						got = "time"
					case is.Hidden != "":
						got = "hidden"
					}
					if got != c.want {
						w.t.Errorf("it reads otherwise by %q, want %q: %+v, and %+v was told", got, c.want, is, told.Is)
					}
				})
			})
		}
	}
}

// A comment that somebody hid is not edited in its hiding place: another one takes
// its place.
func TestHiddenCommentIsWrittenAnew(t *testing.T) {
	for _, text := range []string{"first\n", "second\n"} {
		inWorld(t, func(w *world) {
			s := w.teller(w.withToken())
			defer func() { s.stop() }()
			pull := w.propose("n1")
			s.announce(s.reviewed(pull, "first\n"))
			<-time.After(time.Minute)
			first := s.lastTold().Is
			pull.Comments()[0].Hide("resolved")
			s.announce(s.reviewed(pull, text))
			<-time.After(time.Minute)
			s.reads(pull, text)
			told := s.lastTold()
			if told.Before == nil || told.Before.Hidden != "resolved" || told.Is.Hidden != "" || told.Is.Comment == first.Comment {
				w.t.Errorf("told is %+v, before %+v", told, told.Before)
			}
		})
	}
}

// What was changed is found when a newer text takes its place, also after the
// daemon was started again.
func TestForeignEditIsTold(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		inWorld(t, func(w *world) {
			s := w.teller(w.withToken())
			defer func() { s.stop() }()
			pull := w.propose("n1")
			s.announce(s.reviewed(pull, "first\n"))
			<-time.After(time.Minute)
			first := s.lastTold().Is
			pull.Comments()[0].Edit("acme", "nothing changes")
			if restarted {
				s.stop()
				s.github = w.withToken()
				s.up()
			}
			s.announce(s.reviewed(pull, "second\n"))
			<-time.After(time.Minute)
			told := s.lastTold()
			if told.Before == nil || told.Before.Comment != first.Comment || told.Before.Text == first.Text || !told.Before.Written.After(first.Written) || told.Is.Comment != first.Comment {
				w.t.Errorf("restarted %t: told is %+v, before %+v", restarted, told, told.Before)
			}
			s.reads(pull, "second\n")
		})
	}
}

// No passing answer, no lost one and no late list makes a second comment, or has
// one that is there be taken for deleted.
func TestOneCommentAlways(t *testing.T) {
	comments := func(method string) func(*http.Request) bool {
		return func(r *http.Request) bool { return r.Method == method && strings.Contains(r.URL.Path, "/comments") }
	}
	for name, o := range map[string]double.Outage{
		"404 to a read":   {Kind: double.Missing, Times: 2, For: comments("GET")},
		"404 to an edit":  {Kind: double.Missing, Times: 1, For: comments("PATCH")},
		"404 to a new":    {Kind: double.Missing, Times: 1, For: comments("POST")},
		"422 to a new":    {Kind: double.Invalid, Times: 1, For: comments("POST")},
		"422 to an edit":  {Kind: double.Speechless, Times: 1, For: comments("PATCH")},
		"a lost new":      {Kind: double.Lost, Times: 1, For: comments("POST")},
		"half a new":      {Kind: double.Half, Times: 1, For: comments("POST")},
		"a lost edit":     {Kind: double.Lost, Times: 1, For: comments("PATCH")},
		"a 502 to an new": {Kind: double.Fail, Times: 1, For: comments("POST")},
		"429":             {Kind: double.TooMany, Times: 1, For: comments("POST")},
		"abuse":           {Kind: double.Abuse, Times: 1, For: comments("PATCH")},
	} {
		for _, lag := range []int{0, 2} {
			t.Run(fmt.Sprintf("%s, lists %d late", name, lag), func(t *testing.T) {
				inWorld(t, func(w *world) {
					w.Lag(lag)
					s := w.teller(w.withToken())
					defer func() { s.stop() }()
					pull := w.propose("n1")
					end := w.Suffer(o)
					s.announce(s.reviewed(pull, "first\n"))
					<-time.After(10 * time.Minute)
					end()
					s.reads(pull, "first\n")
					end = w.Suffer(o)
					s.announce(s.reviewed(pull, "second\n"))
					<-time.After(10 * time.Minute)
					end()
					s.reads(pull, "second\n")
					if got := s.stands(pull.HeadID()); got != "success" || s.problem() != nil {
						w.t.Errorf("the check is %q, and people are told %v", got, s.problem())
					}
				})
			})
		}
	}
}

// Who has a pull request merged as soon as its check is good merges it in that
// very moment: by then the comment is there.
func TestAutoMergeComesAfterTheComment(t *testing.T) {
	for _, kind := range []string{"token", "App"} {
		t.Run(kind, func(t *testing.T) {
			inWorld(t, func(w *world) {
				r := w.withToken()
				if kind == "App" {
					r, _ = w.withApp()
				}
				s := w.teller(r)
				defer func() { s.stop() }()
				w.repo.Require("slipway/berlin")
				pull := w.propose("n1")
				pull.AutoMerge("ada", double.BySquash)
				w.Suffer(double.Outage{Kind: double.Fail, Times: 5, For: func(r *http.Request) bool { return r.Method == "POST" && strings.Contains(r.URL.Path, "/comments") }})
				s.begin(pull)
				s.announce(s.reviewed(pull, "destroys disks\n"))
				<-time.After(10 * time.Minute)
				p, err := r.Proposal(w.t.Context(), pull.Number())
				must(w.t, err)
				if told := s.lastTold(); p.State != site.ProposalMerged || told.Is.Comment == 0 || !p.MergedAt.After(told.Is.Written) {
					w.t.Errorf("%s at %s, and the comment can be read since %s", p.State, p.MergedAt, told.Is.Written)
				}
			})
		})
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
	for name, kind := range map[string]double.Kind{"refused": double.Refuse, "502": double.Fail, "silent": double.Stall, "answers are lost": double.Lost, "half": double.Half,
		"404": double.Missing, "422": double.Invalid, "422 without a word": double.Speechless, "429": double.TooMany, "abuse": double.Abuse} {
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
				<-time.After(20 * time.Minute) // what is refused is tried every 15 minutes at last
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
