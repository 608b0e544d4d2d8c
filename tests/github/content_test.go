package github_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	client "github.com/google/go-github/v60/github"

	"github.com/slipway-gitops/slipway/tests/github"
)

func TestStatuses(t *testing.T) {
	w := start(t)
	c := w.as(w.Token("ada", "repo"))
	head := w.repo.Head("main")
	set := func(state, why string) error {
		return failure(c.Repositories.CreateStatus(ctx, "acme", "site", head, &client.RepoStatus{
			State: &state, Description: &why, Context: client.String("slipway/site"),
		}))
	}
	want(t, "pending", status(set("pending", "planning")), 200)
	want(t, "140 characters", status(set("success", strings.Repeat("ü", 140))), 200)
	want(t, "141 characters", status(set("success", strings.Repeat("u", 141))), 422)
	combined := good(c.Repositories.GetCombinedStatus(ctx, "acme", "site", head, nil))(t)
	want(t, "the combined state", combined.GetState(), "success")
	want(t, "the statuses in it", combined.GetTotalCount(), 1)
	all := good(c.Repositories.ListStatuses(ctx, "acme", "site", head, nil))(t)
	want(t, "the newest status", all[0].GetState(), "success")
	state, _ := w.repo.Status(head, "slipway/site")
	want(t, "the state", state, "success")
	want(t, "of no commit", status(failure(c.Repositories.CreateStatus(ctx, "acme", "site", strings.Repeat("1", 40), &client.RepoStatus{State: client.String("error")}))), 422)
}

func TestAThousandStatuses(t *testing.T) {
	w := start(t)
	w.repo.Fill(w.repo.Head("main"), "slipway/site", 999)
	c := w.as(w.Token("ada", "repo"))
	set := func(context string) int {
		return status(failure(c.Repositories.CreateStatus(ctx, "acme", "site", w.repo.Head("main"), &client.RepoStatus{State: client.String("pending"), Context: &context})))
	}
	want(t, "the thousandth", set("slipway/site"), 200)
	want(t, "one more", set("slipway/site"), 422)
	want(t, "in another context", set("slipway/other"), 200)
}

func TestComments(t *testing.T) {
	w := start(t)
	p := w.propose("feature")
	c := w.as(w.Token("ben", "repo"))
	say := func(body string) (*client.IssueComment, error) {
		m, _, err := c.Issues.CreateComment(ctx, "acme", "site", p.Number(), &client.IssueComment{Body: &body})
		return m, err
	}
	m, err := say(strings.Repeat("é", 65_536))
	want(t, "65,536 characters", status(err), 200)
	_, err = say(strings.Repeat("e", 65_537))
	want(t, "65,537 characters", status(err), 422)
	_, err = say("  \n")
	want(t, "nothing", status(err), 422)

	w.Pass(1)
	edited := good(c.Issues.EditComment(ctx, "acme", "site", m.GetID(), &client.IssueComment{Body: client.String("better")}))(t)
	want(t, "the edited body", edited.GetBody(), "better")
	want(t, "the only comment's", p.Comments()[0].Body(), "better")
	ours := p.Comment("ada", "mine")
	want(t, "editing another's", status(failure(c.Issues.EditComment(ctx, "acme", "site", ours.ID(), &client.IssueComment{Body: client.String("no")}))), 403)

	p.Comments()[0].Delete("ada")
	want(t, "a deleted one", status(failure(c.Issues.GetComment(ctx, "acme", "site", m.GetID()))), 404)
	want(t, "editing a deleted one", status(failure(c.Issues.EditComment(ctx, "acme", "site", m.GetID(), &client.IssueComment{Body: client.String("still?")}))), 404)
	_, err = c.Issues.DeleteComment(ctx, "acme", "site", ours.ID())
	want(t, "deleting another's", status(err), 403)
	_, err = w.as(w.Token("ada", "repo")).Issues.DeleteComment(ctx, "acme", "site", ours.ID())
	want(t, "deleting one's own", status(err), 200)
}

func TestCommentsOfAllPullRequests(t *testing.T) {
	w := start(t)
	old := w.propose("one").Comment("ada", "first")
	w.Pass(time.Hour)
	since := w.Now().Add(-time.Minute)
	w.propose("two").Comment("ada", "second")
	old.Edit("ada", "first, edited")
	o := &client.IssueListCommentsOptions{Since: &since, Sort: client.String("updated"), Direction: client.String("desc")}
	c := w.as(w.Token("ada", "repo"))
	all := good(c.Issues.ListComments(ctx, "acme", "site", 0, o))(t)
	want(t, "comments", len(all), 2)
	want(t, "the last changed", all[0].GetBody(), "first, edited")
	since = since.Add(time.Hour)
	want(t, "since later", len(good(c.Issues.ListComments(ctx, "acme", "site", 0, o))(t)), 0)
}

func TestReactions(t *testing.T) {
	w := start(t)
	m := w.propose("feature").Comment("ada", "/slipway plan")
	c := w.as(w.Token("ben", "repo"))
	r := good(c.Reactions.CreateIssueCommentReaction(ctx, "acme", "site", m.ID(), "eyes"))(t)
	again := good(c.Reactions.CreateIssueCommentReaction(ctx, "acme", "site", m.ID(), "eyes"))(t)
	want(t, "the same reaction again", again.GetID(), r.GetID())
	want(t, "who reacted", strings.Join(m.Reactions(), ","), "ben eyes")
	got := good(c.Issues.GetComment(ctx, "acme", "site", m.ID()))(t)
	want(t, "the count", got.Reactions.GetEyes(), 1)
	want(t, "the list", len(good(c.Reactions.ListIssueCommentReactions(ctx, "acme", "site", m.ID(), nil))(t)), 1)
	if _, err := c.Reactions.DeleteIssueCommentReaction(ctx, "acme", "site", m.ID(), r.GetID()); err != nil {
		t.Error(err)
	}
	want(t, "who reacts after", len(m.Reactions()), 0)
}

func TestChecks(t *testing.T) {
	w := start(t)
	p := w.propose("feature")
	_, in := w.app()
	c := w.as(in.Token())
	k := good(c.Checks.CreateCheckRun(ctx, "acme", "site", client.CreateCheckRunOptions{Name: "slipway/site", HeadSHA: p.HeadID(), Status: client.String("in_progress")}))(t)
	want(t, "its pull request", k.PullRequests[0].GetNumber(), p.Number())

	update := func(n int, finished bool) error {
		o := client.UpdateCheckRunOptions{Name: "slipway/site", Output: &client.CheckRunOutput{Title: client.String("findings"), Summary: client.String("some"), Annotations: annotations(n)}}
		if finished {
			o.Conclusion = client.String("failure")
		}
		return failure(c.Checks.UpdateCheckRun(ctx, "acme", "site", k.GetID(), o))
	}
	want(t, "50 annotations", status(update(50, false)), 200)
	want(t, "10 more", status(update(10, true)), 200)
	state := w.repo.Checks(p.HeadID())[0].State()
	want(t, "annotations add up", state.Annotations, 60)
	want(t, "a conclusion completes", state.Status+" "+state.Conclusion, "completed failure")
	listed := good(c.Checks.ListCheckRunAnnotations(ctx, "acme", "site", k.GetID(), &client.ListOptions{PerPage: 100}))(t)
	want(t, "annotations listed", len(listed), 60)
	want(t, "runs listed", good(c.Checks.ListCheckRunsForRef(ctx, "acme", "site", p.HeadID(), nil))(t).GetTotal(), 1)

	want(t, "51 annotations", status(update(51, false)), 422)
	long := client.UpdateCheckRunOptions{Name: "slipway/site", Output: &client.CheckRunOutput{Title: client.String("t"), Summary: client.String(strings.Repeat("s", 65_536))}}
	want(t, "a summary of 65,536", status(failure(c.Checks.UpdateCheckRun(ctx, "acme", "site", k.GetID(), long))), 422)
	want(t, "violations", len(w.Violations()), 2)

	other := w.App("other", github.Permissions{"checks": "write"}).Install("acme")
	err := failure(w.as(other.Token()).Checks.UpdateCheckRun(ctx, "acme", "site", k.GetID(), client.UpdateCheckRunOptions{Name: "mine"}))
	want(t, "another App's update", status(err), 403)
}

func annotations(n int) (all []*client.CheckRunAnnotation) {
	for i := range n {
		all = append(all, &client.CheckRunAnnotation{
			Path: client.String("site.cue"), StartLine: client.Int(i + 1), EndLine: client.Int(i + 1),
			AnnotationLevel: client.String("failure"), Message: client.String(fmt.Sprint("finding ", i)),
		})
	}
	return all
}
