package github_test

import (
	"net/http"
	"testing"
	"time"

	client "github.com/google/go-github/v60/github"

	"github.com/slipway-gitops/slipway/tests/github"
)

func TestAppTokens(t *testing.T) {
	w := start(t)
	a, in := w.app()
	now := w.Now()
	for _, c := range []struct {
		name            string
		issued, expires time.Duration
		status          int
	}{
		{"good", -time.Minute, 9 * time.Minute, 200},
		{"from the future", time.Minute, 9 * time.Minute, 401},
		{"for too long", -time.Minute, 11 * time.Minute, 401},
		{"over", -10 * time.Minute, -time.Second, 401},
	} {
		token := assertion(t, a, now.Add(c.issued), now.Add(c.expires))
		want(t, c.name, status(failure(w.as(token).Apps.Get(ctx, ""))), c.status)
	}
	stranger := w.App("stranger", github.Permissions{})
	forged := assertion(t, stranger, now.Add(-time.Minute), now.Add(time.Minute))
	want(t, "another App's installation", status(failure(w.as(forged).Apps.CreateInstallationToken(ctx, in.ID(), nil))), 404)
	want(t, "a token that is none", message(failure(w.as("a.b.c").Apps.Get(ctx, ""))), "A JSON web token could not be decoded")
	want(t, "an installation's token", status(failure(w.as(in.Token()).Apps.Get(ctx, ""))), 401)
}

func TestInstallationTokens(t *testing.T) {
	w := start(t)
	a, in := w.app()
	c := w.as(assertion(t, a, w.Now().Add(-time.Minute), w.Now().Add(9*time.Minute)))
	found := good(c.Apps.FindRepositoryInstallation(ctx, "acme", "site"))(t)
	want(t, "the repository's installation", found.GetID(), in.ID())
	want(t, "the organization's", good(c.Apps.FindOrganizationInstallation(ctx, "acme"))(t).GetID(), in.ID())
	token := good(c.Apps.CreateInstallationToken(ctx, in.ID(), nil))(t)
	bot := w.as(token.GetToken())
	get := func() int { return status(failure(bot.Repositories.Get(ctx, "acme", "site"))) }
	want(t, "at once", get(), 200)
	want(t, "it covers", good(bot.Apps.ListRepos(ctx, nil))(t).GetTotalCount(), 1)
	w.Pass(59 * time.Minute)
	want(t, "after 59 minutes", get(), 200)
	w.Pass(time.Minute)
	want(t, "after an hour", get(), 401)

	in.Suspend(true)
	want(t, "when suspended", status(failure(w.as(assertion(t, a, w.Now().Add(-time.Minute), w.Now().Add(time.Minute))).Apps.CreateInstallationToken(ctx, in.ID(), nil))), 403)
}

func TestNarrowedTokens(t *testing.T) {
	w := start(t)
	a, in := w.app()
	p := w.propose("feature")
	c := w.as(assertion(t, a, w.Now().Add(-time.Minute), w.Now().Add(9*time.Minute)))
	reading := &client.InstallationTokenOptions{Repositories: []string{"site"}, Permissions: &client.InstallationPermissions{PullRequests: client.String("read")}}
	token := good(c.Apps.CreateInstallationToken(ctx, in.ID(), reading))(t)
	want(t, "it is for", token.Repositories[0].GetFullName(), "acme/site")
	bot := w.as(token.GetToken())
	want(t, "reading", status(failure(bot.PullRequests.Get(ctx, "acme", "site", p.Number()))), 200)
	err := failure(bot.Issues.CreateComment(ctx, "acme", "site", p.Number(), &client.IssueComment{Body: client.String("x")}))
	want(t, "writing", message(err), "Resource not accessible by integration")
	more := &client.InstallationTokenOptions{Permissions: &client.InstallationPermissions{Contents: client.String("write")}}
	want(t, "more than was granted", status(failure(c.Apps.CreateInstallationToken(ctx, in.ID(), more))), 422)
	unknown := &client.InstallationTokenOptions{Repositories: []string{"other"}}
	want(t, "a repository that is not covered", status(failure(c.Apps.CreateInstallationToken(ctx, in.ID(), unknown))), 422)
}

func TestCredentials(t *testing.T) {
	w := start(t)
	token := w.Token("ada", "repo")
	want(t, "whose it is", good(w.as(token).Users.Get(ctx, ""))(t).GetLogin(), "ada")
	w.Revoke(token)
	want(t, "revoked", message(failure(w.as(token).Users.Get(ctx, ""))), "Bad credentials")
	want(t, "none", status(failure(w.as("").Users.Get(ctx, ""))), 401)

	r, err := http.NewRequest("GET", w.API()+"rate_limit", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("User-Agent", "")
	resp, err := w.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	want(t, "without a User-Agent", resp.StatusCode, http.StatusForbidden)
}

func TestPermissions(t *testing.T) {
	w := start(t)
	p := w.propose("feature")
	_, in := w.app()
	poor := w.App("poor", github.Permissions{"contents": "read"}).Install("acme")
	elsewhere := w.App("elsewhere", github.Permissions{"statuses": "write"}).Install("someone")
	tokens := map[string]string{
		"writer": w.Token("ada", "repo"), "reader": w.Token("ben", "repo"), "scopeless": w.Token("ada"), "statuses": w.Token("ada", "repo:status"),
		"stranger": w.Token("eve", "repo"), "app": in.Token(), "poor app": poor.Token(), "app elsewhere": elsewhere.Token(),
		"fine": w.FineGrained("ada", github.Permissions{"pull_requests": "read", "metadata": "read"}, w.repo), "nobody": "",
	}
	head := p.HeadID()
	does := map[string]func(*client.Client) error{
		"see": func(c *client.Client) error { return failure(c.PullRequests.Get(ctx, "acme", "site", p.Number())) },
		"status": func(c *client.Client) error {
			return failure(c.Repositories.CreateStatus(ctx, "acme", "site", head, &client.RepoStatus{State: client.String("pending")}))
		},
		"check": func(c *client.Client) error {
			return failure(c.Checks.CreateCheckRun(ctx, "acme", "site", client.CreateCheckRunOptions{Name: "n", HeadSHA: head}))
		},
		"ask": func(c *client.Client) error {
			return failure(c.Repositories.GetPermissionLevel(ctx, "acme", "site", "ben"))
		},
	}
	for _, c := range []struct {
		who                     string
		see, status, check, ask int
	}{
		{"writer", 200, 200, 403, 200},
		{"reader", 200, 404, 403, 403},
		{"scopeless", 404, 404, 404, 404},
		{"statuses", 404, 200, 404, 404},
		{"stranger", 404, 404, 404, 404},
		{"app", 200, 200, 200, 200},
		{"poor app", 403, 403, 403, 200},
		{"app elsewhere", 404, 404, 404, 404},
		{"fine", 200, 403, 403, 200},
		{"nobody", 404, 404, 404, 404},
	} {
		for what, expected := range map[string]int{"see": c.see, "status": c.status, "check": c.check, "ask": c.ask} {
			want(t, c.who+" to "+what, status(does[what](w.as(tokens[c.who]))), expected)
		}
	}
	w.repo.Publish()
	want(t, "nobody sees a public one", status(does["see"](w.as(""))), 200)
	want(t, "nobody writes to it", status(does["status"](w.as(""))), 401)
	want(t, "the poor app sees it", status(does["see"](w.as(tokens["poor app"]))), 200)
}

func TestCollaboratorPermission(t *testing.T) {
	w := start(t)
	c := w.as(w.Token("ada", "repo"))
	w.repo.Grant("max", github.Maintain)
	w.User("eve")
	for login, expected := range map[string]string{"ada": "write", "ben": "read", "max": "write", "eve": "none", "acme": "admin"} {
		want(t, login, good(c.Repositories.GetPermissionLevel(ctx, "acme", "site", login))(t).GetPermission(), expected)
	}
	want(t, "nobody", status(failure(c.Repositories.GetPermissionLevel(ctx, "acme", "site", "nobody"))), 404)
}
