package github

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	double "github.com/slipway-gitops/slipway/tests/github"
)

// world is a GitHub that holds all that is said to it, and all that it says,
// against GitHub's own description. It is reached without a network, and its
// time is virtual.
type world struct {
	*double.Server
	t    *testing.T
	repo *double.Repository
	hook *post
}

// What the documentation says is needed, and nothing else.
var (
	tokenMay = double.Permissions{"metadata": "read", "pull_requests": "write", "statuses": "write"}
	appMay   = double.Permissions{"metadata": "read", "pull_requests": "write", "checks": "write", "contents": "read"}
)

func inWorld(t *testing.T, f func(*world)) {
	description := double.Describe(t)
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, hook: newPost()}
		w.Server = double.New(double.Config{Dir: dir, Description: description, Webhooks: direct{w.hook}})
		w.Organization("acme")
		w.repo = w.Repository("acme/site")
		w.repo.Grant("ada", double.Write)
		w.repo.Grant("ben", double.Read)
		w.repo.Push("ada", "main", "begin", double.Files{"site.cue": "package site\n"})
		f(w)
		w.Close()
		for _, v := range w.Violations() {
			t.Error(v)
		}
	})
}

// direct takes requests to a handler without a network.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	defer func() {
		if p := recover(); p != nil {
			resp, err = nil, errors.New("connection reset by peer")
		}
	}()
	in := r.Clone(r.Context())
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, in)
	if r.Context().Err() != nil {
		return nil, r.Context().Err()
	}
	resp = w.Result()
	resp.Request = r
	return resp, nil
}

func (w *world) propose(branch string) *double.Pull {
	w.repo.Push("ada", branch, "propose", double.Files{branch + ".cue": "x: 1\n"})
	return w.repo.Open(double.Proposal{Author: "ada", Head: branch, Title: "Add " + branch})
}

func (w *world) connect(value secret.Value) *Repository {
	w.t.Helper()
	c := Config{
		API: strings.TrimSuffix(w.API(), "/"), Repository: "acme/site", Credential: "github",
		Secrets: &safe{value: value, hosts: []string{"github.invalid"}}, Log: slog.New(slog.DiscardHandler),
	}
	r, err := open(c, direct{w.Server})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// withToken is us with a fine-grained token of a machine account.
func (w *world) withToken() *Repository {
	w.repo.Grant("slipway-machine", double.Write)
	return w.connect(secret.New("", w.FineGrained("slipway-machine", tokenMay, w.repo)))
}

func (w *world) withApp() (*Repository, *double.App) {
	app := w.App("slipway", appMay)
	app.Install("acme", w.repo)
	return w.connect(secret.New(fmt.Sprint(app.ID()), string(app.Key()))), app
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The whole of what is said about a pull request, by either kind of us, is as
// GitHub describes it.
func TestLifeOfAProposal(t *testing.T) {
	for _, kind := range []string{"token", "App"} {
		t.Run(kind, func(t *testing.T) {
			inWorld(t, func(w *world) {
				r := w.withToken()
				if kind == "App" {
					r, _ = w.withApp()
				}
				pull := w.propose("n1")
				open, err := r.Open(w.t.Context(), "main")
				if err != nil || len(open) != 1 || open[0].Head != pull.HeadID() || open[0].Fork {
					w.t.Fatalf("open are %v, %v", open, err)
				}
				sayAll(w, r, pull)
				pull.Merge("ada")
				p, err := r.Proposal(w.t.Context(), pull.Number())
				if err != nil || p.State != site.ProposalMerged || p.MergedBy != "ada" || p.Merge != w.repo.Head("main") {
					w.t.Errorf("got %+v, %v", p, err)
				}
			})
		})
	}
}

func sayAll(w *world, r *Repository, pull *double.Pull) {
	w.t.Helper()
	ctx := w.t.Context()
	c := forge.Check{Commit: pull.HeadID(), Name: "slipway/site1", Verdict: forge.Pending, Title: "is planned"}
	must(w.t, r.Check(ctx, c))
	c.Verdict, c.Title, c.Summary, c.URL = forge.Failure, strings.Repeat("wrong ", 50), "# no", "https://slipway.example.org/"
	for n := range 120 {
		c.Notes = append(c.Notes, forge.Note{File: "n1.cue", Line: n + 1, Level: forge.LevelWarning, Title: "no-mac", Text: "there is none"})
	}
	for range 2 {
		must(w.t, r.Check(ctx, c))
	}
	m := forge.Marker{Site: "site1", Kind: "plan"}
	pull.Comment("mallory", m.Mark("me"))
	for n := range 101 {
		pull.Comment("ben", fmt.Sprint(n))
	}
	for _, body := range []string{"one", "two", "two"} {
		_, _, err := r.Keep(ctx, pull.Number(), 0, m, body)
		must(w.t, err)
	}
	all := pull.Comments()
	if last := all[len(all)-1]; len(all) != 103 || last.Body() != m.Mark("two") {
		w.t.Errorf("%d comments, the last %q", len(all), last.Body())
	}
	said, err := r.CommentsSince(ctx, time.Now().Add(-time.Hour))
	if err != nil || len(said) != 103 || said[102].Number != pull.Number() || !said[102].Bot && r.app != nil {
		w.t.Errorf("%d comments, %v", len(said), err)
	}
	must(w.t, r.React(ctx, all[1].ID(), forge.Seen))
	must(w.t, r.React(ctx, all[1].ID(), forge.Seen))
	for who, want := range map[string]forge.Permission{"ada": forge.Write, "ben": forge.Read, "stranger": forge.None, "acme": forge.Admin} {
		if got, err := r.Permission(ctx, who); err != nil || got != want {
			w.t.Errorf("%s may %v, %v", who, got, err)
		}
	}
}

// A comment whose answer was lost is not written a second time.
func TestLostAnswer(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.withToken()
		pull := w.propose("n1")
		w.Suffer(double.Outage{Kind: double.Lost, Times: 1, For: func(r *http.Request) bool { return r.Method == http.MethodPost }})
		m := forge.Marker{Site: "site1", Kind: "plan"}
		if _, _, err := r.Keep(w.t.Context(), pull.Number(), 0, m, "plan"); err == nil {
			w.t.Fatal("the answer was not lost")
		}
		_, _, err := r.Keep(w.t.Context(), pull.Number(), 0, m, "plan")
		if n := len(pull.Comments()); err != nil || n != 1 {
			w.t.Errorf("%d comments, %v", n, err)
		}
	})
}

// A broken GitHub is an error to try again after, of no kind that would end it.
func TestOutages(t *testing.T) {
	for name, kind := range map[string]double.Kind{"refused": double.Refuse, "502": double.Fail, "silent": double.Stall, "half": double.Half} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				r := w.withToken()
				pull := w.propose("n1")
				end := w.Suffer(double.Outage{Kind: kind})
				_, err := r.Proposal(w.t.Context(), pull.Number())
				if err == nil || errors.Is(err, forge.ErrDenied) || errors.Is(err, forge.ErrGone) || errors.Is(err, forge.ErrRefused) {
					w.t.Errorf("got %v", err)
				}
				end()
				_, err = r.Proposal(w.t.Context(), pull.Number())
				must(w.t, err)
			})
		})
	}
}

// An App's token that GitHub takes back in the middle is replaced.
func TestTokenTakenBack(t *testing.T) {
	inWorld(t, func(w *world) {
		r, _ := w.withApp()
		pull := w.propose("n1")
		for range 2 {
			_, _, err := r.Keep(w.t.Context(), pull.Number(), 0, forge.Marker{Site: "s", Kind: "plan"}, fmt.Sprint(time.Now()))
			must(w.t, err)
			w.Revoke(r.app.current.Reveal())
			<-time.After(time.Minute)
		}
		<-time.After(2 * time.Hour)
		_, err := r.Proposal(w.t.Context(), pull.Number())
		must(w.t, err)
	})
}

// A hundred pull requests at once: all is said in the end, and GitHub never has
// to say that it is too much.
func TestManyProposals(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.withToken()
		w.repo.Push("ada", "n1", "propose", double.Files{"n1.cue": "x: 1\n"})
		const many = 100
		for range many {
			w.repo.Open(double.Proposal{Author: "ada", Head: "n1", Title: "Add n1"})
		}
		all, err := r.Open(w.t.Context(), "main")
		if err != nil || len(all) != many {
			w.t.Fatalf("%d open, %v", len(all), err)
		}
		for _, p := range all {
			patient(w.t, func() error {
				_, _, err := r.Keep(w.t.Context(), p.Number, 0, forge.Marker{Site: "s", Kind: "plan"}, "plan")
				return err
			})
			patient(w.t, func() error {
				return r.Check(w.t.Context(), forge.Check{Commit: p.Head, Name: fmt.Sprint("slipway/", p.Number), Verdict: forge.Success, Title: "ok"})
			})
		}
		for _, c := range w.Calls() {
			if c.Limit != "" {
				w.t.Fatalf("GitHub had to limit %s %s (%s)", c.Method, c.Path, c.Limit)
			}
		}
	})
}

// What GitHub says of its limits is kept to, and ends.
func TestLimitsOfTheDouble(t *testing.T) {
	inWorld(t, func(w *world) {
		w.repo.Grant("slipway-machine", double.Write)
		token := w.FineGrained("slipway-machine", tokenMay, w.repo)
		r := w.connect(secret.New("", token))
		pull := w.propose("n1")
		for what, limit := range map[string]func(){
			"secondary": func() { w.Throttle(token, 3*time.Minute) },
			"primary":   func() { w.Spend(token, 5000) },
		} {
			limit()
			var limited *forge.Limited
			if _, err := r.Proposal(w.t.Context(), pull.Number()); !errors.As(err, &limited) {
				w.t.Fatalf("%s: got %v", what, err)
			}
			<-time.After(time.Until(limited.Until))
			if _, err := r.Proposal(w.t.Context(), pull.Number()); err != nil {
				w.t.Errorf("%s: got %v after it", what, err)
			}
		}
	})
}

// Webhooks of the double are taken, and those that were lost are delivered
// again.
func TestWebhooksOfTheDouble(t *testing.T) {
	inWorld(t, func(w *world) {
		r, app := w.withApp()
		hook := app.Hook("https://slipway.example.org/hook", hookSecret)
		pull := w.propose("n1")
		comment := pull.Comment("ada", "/slipway plan")
		w.Settle()
		got := fmt.Sprint(w.hook.waiting())
		for _, want := range []forge.Hint{
			{About: forge.AboutBranch, Branch: "n1"}, {About: forge.AboutProposal, Number: 1}, {About: forge.AboutComment, Number: 1, Comment: comment.ID()},
		} {
			if !strings.Contains(got, fmt.Sprint(want)) {
				w.t.Errorf("there is no hint %v in %s", want, got)
			}
		}
		hook.Hold()
		w.repo.Push("ada", "main", "later", double.Files{"b.cue": "b: 1\n"})
		for _, d := range hook.Deliveries() {
			if d.Code() == 0 {
				d.Lose()
			}
		}
		hook.Release()
		<-time.After(time.Minute)
		n, err := r.Sweep(w.t.Context(), time.Now().Add(-time.Hour))
		if err != nil || n == 0 {
			w.t.Fatalf("%d were missed, %v", n, err)
		}
		w.Settle()
		if got := fmt.Sprint(w.hook.waiting()); !strings.Contains(got, "branch main") {
			w.t.Errorf("the push is not among %s", got)
		}
		if n, err := r.Sweep(w.t.Context(), time.Now().Add(-time.Hour)); err != nil || n != 0 {
			w.t.Errorf("%d were missed still, %v", n, err)
		}
	})
}

// Git follows the repository with what the App logs in with.
func TestGitLogsInAsTheApp(t *testing.T) {
	w := double.Start(t)
	w.Organization("acme")
	site := w.Repository("acme/site")
	head := site.Push("ada", "main", "begin", double.Files{"site.cue": "package site\n"})
	app := w.App("slipway", appMay)
	app.Install("acme", site)
	ca := t.TempDir() + "/ca.pem"
	must(t, os.WriteFile(ca, w.CA(), 0o600))
	r, err := Open(Config{
		API: strings.TrimSuffix(w.API(), "/"), Repository: "acme/site", Credential: "github", CA: ca, Log: slog.New(slog.DiscardHandler),
		Secrets: &safe{value: secret.New(fmt.Sprint(app.ID()), string(app.Key())), hosts: []string{"127.0.0.1"}},
	})
	must(t, err)
	remote, err := repo.NewHTTPS(site.CloneURL(), r.Login(mustParse(site.CloneURL())), ca)
	must(t, err)
	if got, err := remote.Head(t.Context(), "main"); err != nil || got != head {
		t.Errorf("main is at %q, %v, want %q", got, err, head)
	}
}
