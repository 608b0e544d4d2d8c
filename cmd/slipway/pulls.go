package main

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/slipway-gitops/slipway/engine"
	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/review"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/draft"
	"github.com/slipway-gitops/slipway/sinks/github"
	"github.com/slipway-gitops/slipway/sinks/metrics"
	"github.com/slipway-gitops/slipway/sinks/pullrequest"
	"github.com/slipway-gitops/slipway/sources/git"
)

// pullFlags say where changes of the site are proposed. As those of seenFlags
// they are never in the design.
type pullFlags struct {
	repository, api, credential, ca string
	hook                            hookFlags
}

func (f *pullFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.repository, "github", "", "comment on the pull requests of this repository on GitHub, `OWNER/NAME`")
	flags.StringVar(&f.api, "github-api", github.PublicAPI, "`URL` of GitHub's API; https://HOST/api/v3 for a GitHub Enterprise Server")
	flags.StringVar(&f.credential, "github-credential", "github", "`NAME` of the credential with a token, or with the key of a GitHub App")
	flags.StringVar(&f.ca, "github-ca", "", "PEM `FILE` with the certificate authority of GitHub's server, instead of the system's")
	f.hook.add(flags)
}

// check finds what makes no sense together.
func (f *pullFlags) check(repository string) error {
	if f.repository == "" {
		return f.unused()
	}
	if repository == "" {
		return usage("--github comments on pull requests for a branch of --repo: pass --repo too")
	}
	u, err := url.Parse(repository)
	if err != nil || u.Scheme != "ssh" && u.Scheme != "https" || sameName(u.Path, f.repository) {
		return f.hook.check()
	}
	return usage("--repo %s is not the repository %s of --github: its pull requests would get the plans of another site", u.Redacted(), f.repository)
}

// unused finds flags that say something about --github when there is none.
func (f *pullFlags) unused() error {
	flag := ""
	switch {
	case f.api != github.PublicAPI:
		flag = "--github-api"
	case f.ca != "":
		flag = "--github-ca"
	case f.hook != hookFlags{credential: f.hook.credential}:
		flag = "--webhook-listen"
	default:
		return nil
	}
	return usage("%s needs --github", flag)
}

func sameName(path, name string) bool {
	return strings.EqualFold(strings.TrimSuffix(strings.Trim(path, "/"), ".git"), name)
}

// pulls is what a daemon has to do with pull requests. Without a repository on
// GitHub it has nothing.
type pulls struct {
	github    *github.Repository // nil for none
	name      string             // of the repository
	branch    string             // that proposals are for
	hook      *webhook           // nil for none
	news      chan struct{}      // that the branch may be at another commit
	evaluator *design.Evaluator

	reviews  *review.Reviews
	reporter *pullrequest.Reporter
	listener *pullrequest.Listener
	again    *again // nil without a webhook
	log      *slog.Logger
}

// open checks what it can without reaching for GitHub, and listens for
// webhooks: what is wrong is found out before anything is begun.
func (f *pullFlags) open(ctx context.Context, branch string, secrets *secret.Store, log *slog.Logger) (*pulls, error) {
	p := &pulls{name: f.repository, branch: branch, news: make(chan struct{}, 1), log: log}
	if f.repository == "" {
		return p, nil
	}
	var err error
	p.github, err = github.Open(github.Config{
		API: f.api, Repository: f.repository, Credential: f.credential, Secrets: secrets, CA: f.ca, Log: log,
	})
	if err == nil && f.hook.listen != "" {
		p.hook, err = f.hook.open(ctx, f.api, secrets)
	}
	return p, err
}

func (p *pulls) close() {
	if p.hook != nil {
		p.hook.listener.Close()
	}
	if p.evaluator != nil {
		p.evaluator.Close()
	}
}

// source has a source looked at when there may be news of its branch.
func (p *pulls) source(s engine.Source) engine.Source {
	if p.github == nil {
		return s
	}
	return toldSource{s, p.news}
}

type toldSource struct {
	engine.Source
	news <-chan struct{}
}

func (s toldSource) Changes(context.Context) <-chan struct{} { return s.news }

// join makes the parts that have to do with pull requests, for a site.
func (p *pulls) join(e *engine.Engine, remote *repo.Remote, state string, records *record.Site, out *outside) ([]func(context.Context) error, error) {
	if p.github == nil {
		return nil, nil
	}
	merger, err := git.NewProposals(git.ProposalsConfig{
		Remote: *remote, Branch: p.branch, Ref: github.HeadRef, Dir: filepath.Join(state, "proposals"),
	})
	if err != nil {
		return nil, err
	}
	// Anybody may propose: what is proposed is evaluated apart from the site.
	if p.evaluator, err = newEvaluator(p.log); err != nil {
		return nil, err
	}
	p.reporter = pullrequest.New(pullrequest.Config{
		Site: e.Site, Checks: p.github, Talk: p.github, Outbox: records, Log: p.log,
		Told:    p.told,
		Problem: func(err error) { e.Problem("pull requests", err) },
	})
	p.reviews = e.Reviews(review.Config{
		Branch: p.branch, Proposals: p.github, Merger: merger, Evaluate: evaluate(p.evaluator, e.Site, e.Serves(), out.metrics),
		Judge: judge(p.evaluator, e.Site, out.metrics), Announce: p.reporter, Pages: p.github.Pages,
	})
	p.listener = pullrequest.NewListener(pullrequest.ListenerConfig{
		Base: p.branch, Proposals: p.github, Comments: p.github, Talk: p.github, People: p.github,
		Orders: orders{e, p.reviews}, Outbox: records,
		Every:   func() time.Duration { return max(e.PollEvery(), leastEvery) },
		Problem: func(err error) { e.Problem("comments", err) }, Log: p.log,
	})
	parts := []func(context.Context) error{p.reviews.Run, p.reporter.Run, p.listener.Run}
	if p.hook != nil {
		p.hook.expect(p.name, records, p.log)
		p.again = &again{p.github, p.branch, pullrequest.CheckName(e.Site), p.reviews.Again, p.hook.hints, p.log}
		parts = append(parts, p.hook.answer, p.hook.sweep(p.github), p.heed)
	}
	return parts, nil
}

// proposer proposes drift: on branches of the remote, and as pull requests where there is GitHub. It
// has an evaluator of its own, whose workers start when there is something to propose.
func (p *pulls) proposer(remote repo.Remote, branch, name string, log *slog.Logger) (*draft.Proposer, func() error, error) {
	e, err := newEvaluator(log)
	if err != nil {
		return nil, nil, err
	}
	c := draft.Config{Remote: remote, Base: branch, Site: name, Log: log,
		Edit: func(ctx context.Context, files fs.FS, a site.Amendment) (site.Amended, error) {
			return e.Amend(ctx, files, name, a)
		}}
	if p.github != nil {
		c.Forge = p.github
	}
	return draft.New(c), e.Close, nil
}

// judge is the way to what a design is by the rules of another, measured.
func judge(e *design.Evaluator, name string, m *metrics.Metrics) func(ctx context.Context, revision, by site.Revision) ([]site.Finding, error) {
	return func(ctx context.Context, revision, by site.Revision) (found []site.Finding, err error) {
		err = m.Time("evaluate", func() error {
			found, err = e.Judge(ctx, revision.Files, by.Files, name)
			return err
		})
		return found, err
	}
}

// told is told of a comment that people can read.
func (p *pulls) told(ctx context.Context, t site.Told) error {
	if err := p.reviews.Told(ctx, t); err != nil {
		return err
	}
	if t.Set != "" {
		p.log.Debug("merging approves what the comment names", "proposal", t.Number, "revision", t.Head, "digest", t.Set)
	}
	return nil
}

// leastEvery is how often GitHub is asked for comments at most, whatever the
// design says of polling: it has limits.
const leastEvery = 2 * time.Second

// orders carry out what people ask for in comments.
type orders struct {
	engine  *engine.Engine
	reviews *review.Reviews
}

func (o orders) Plan(number int) { o.reviews.Again(number) }

func (o orders) Approve(ctx context.Context, digest string, by site.ApprovalSource) error {
	_, err := o.engine.Do(ctx, site.Order{Verb: site.VerbApprove, Digest: digest, By: by.By, Source: &by})
	return err
}

func (o orders) Disapprove(ctx context.Context, digest string, by site.ApprovalSource) error {
	_, err := o.engine.Do(ctx, site.Order{Verb: site.VerbDisapprove, Digest: digest, By: by.By, Source: &by,
		Reason: fmt.Sprintf("comment %d on pull request %d", by.Comment, by.Proposal)})
	return err
}

func (o orders) Allow(ctx context.Context, number int, head, by string) error {
	return o.reviews.Allow(ctx, number, head, by)
}

// files gives where the forge shows the files of a revision; nil without one.
func (p *pulls) files() func(revision string) string {
	if p == nil || p.github == nil {
		return nil
	}
	return p.github.Pages
}
