package github

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	gh "github.com/google/go-github/v60/github"

	"github.com/slipway-gitops/slipway/engine/forge"
)

// These are GitHub's limits for statuses and Check Runs, in characters and pieces.
const (
	maxDescription = 140
	maxTitle       = 255
	maxText        = 65_535
	notesAtOnce    = 50
	maxNotes       = 200
	maxStatusPages = 10
)

const (
	needStatuses = `"Commit statuses: write"`
	needChecks   = `"Checks: write"`
)

// state identifies a check of a commit by its name.
type state struct{ commit, name string }

// maxSaid is the number of checks whose last content is remembered.
const maxSaid = 4096

// Check reports the state of a commit: as a Check Run with an App, and as a commit status with a token. A token
// cannot make Check Runs.
func (r *Repository) Check(ctx context.Context, c forge.Check) error {
	if !commit.MatchString(c.Commit) {
		return fmt.Errorf("check %s: %w: %q is not a commit", c.Name, forge.ErrRefused, cut(c.Commit, 80))
	}
	if r.hasSaid(c) {
		return nil
	}
	say := r.status
	if r.app != nil {
		say = r.checkRun
	}
	if err := say(ctx, c); err != nil {
		return fmt.Errorf("check %s of %.7s: %w", c.Name, c.Commit, err)
	}
	r.remember(c)
	return nil
}

// digest identifies the content of a check.
func digest(c forge.Check) string {
	b, _ := json.Marshal(c)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func (r *Repository) hasSaid(c forge.Check) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said[state{c.Commit, c.Name}] == digest(c)
}

func (r *Repository) remember(c forge.Check) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.said) >= maxSaid {
		clear(r.said) // at worst something is looked up again
	}
	r.said[state{c.Commit, c.Name}] = digest(c)
}

var statusOf = map[forge.Verdict]string{
	forge.Pending: "pending", forge.Success: "success", forge.Failure: "failure", forge.Error: "error", forge.Superseded: "error",
}

// status writes a commit status, unless the latest one of its name is the same. GitHub accepts a thousand per name
// and commit.
func (r *Repository) status(ctx context.Context, c forge.Check) error {
	want := &gh.RepoStatus{State: gh.String(statusOf[c.Verdict]), Context: &c.Name, Description: gh.String(cut(line(c.Title), maxDescription))}
	if c.URL != "" {
		want.TargetURL = &c.URL
	}
	there, err := r.latestStatus(ctx, c)
	if err != nil || there != nil && sameStatus(there, want) {
		return explain(err, needStatuses)
	}
	_, _, err = r.api.Repositories.CreateStatus(ctx, r.owner, r.name, c.Commit, want)
	return explain(err, needStatuses)
}

func sameStatus(a, b *gh.RepoStatus) bool {
	return a.GetState() == b.GetState() && a.GetDescription() == b.GetDescription() && a.GetTargetURL() == b.GetTargetURL()
}

// latestStatus is the commit's status of that name; nil if it has none.
func (r *Repository) latestStatus(ctx context.Context, c forge.Check) (found *gh.RepoStatus, err error) {
	err = pages(maxStatusPages, func(page gh.ListOptions) (*gh.Response, error) {
		all, resp, err := r.api.Repositories.GetCombinedStatus(ctx, r.owner, r.name, c.Commit, &page)
		if err != nil {
			return resp, err
		}
		for _, s := range all.Statuses {
			if s.GetContext() == c.Name {
				found, resp.NextPage = s, 0
			}
		}
		return resp, nil
	})
	return found, err
}

var conclusionOf = map[forge.Verdict]string{
	forge.Success: "success", forge.Failure: "failure", forge.Error: "failure", forge.Superseded: "cancelled",
}

// checkRun writes a Check Run, unless the latest one of its name is the same. An earlier run that was completed, or
// has notes, stays as it is, and a new run follows. Notes cannot be removed, and a green run must not turn red for
// somebody who is about to merge.
func (r *Repository) checkRun(ctx context.Context, c forge.Check) error {
	latest, err := r.latestRun(ctx, c)
	if err != nil {
		return explain(err, needChecks)
	}
	mark := digest(c)
	// If a person has asked to run it again, the run has no conclusion.
	if latest.GetExternalID() == mark && latest.GetConclusion() == conclusionOf[c.Verdict] {
		return nil
	}
	id := int64(0)
	if latest.GetStatus() == "in_progress" && latest.GetOutput().GetAnnotationsCount() == 0 {
		id = latest.GetID()
	}
	notes := c.Notes
	if len(notes) > maxNotes {
		notes = notes[:maxNotes]
	}
	batches := slices.Collect(slices.Chunk(notes, notesAtOnce))
	if len(batches) == 0 {
		batches = [][]forge.Note{nil}
	}
	// The verdict comes with the last notes. Until then the run is in progress.
	for i, batch := range batches {
		part := runPart{c, batch, "", ""}
		if i == len(batches)-1 {
			part.conclusion, part.mark = conclusionOf[c.Verdict], mark
		}
		if id, err = r.writeRun(ctx, id, part); err != nil {
			return explain(err, needChecks)
		}
	}
	return nil
}

// latestRun is our newest Check Run of that name on the commit; nil if it has none.
func (r *Repository) latestRun(ctx context.Context, c forge.Check) (latest *gh.CheckRun, err error) {
	me, err := r.whoami(ctx)
	if err != nil {
		return nil, err
	}
	err = pages(maxStatusPages, func(page gh.ListOptions) (*gh.Response, error) {
		all, resp, err := r.api.Checks.ListCheckRunsForRef(ctx, r.owner, r.name, c.Commit, &gh.ListCheckRunsOptions{
			CheckName: &c.Name, Filter: gh.String("latest"), AppID: &me.app, ListOptions: page,
		})
		if err != nil {
			return resp, err
		}
		for _, run := range all.CheckRuns {
			if run.GetName() == c.Name && run.GetApp().GetID() == me.app && run.GetID() > latest.GetID() {
				latest = run
			}
		}
		return resp, nil
	})
	return latest, err
}

// runPart is the content of one request for a Check Run.
type runPart struct {
	forge.Check
	notes            []forge.Note
	conclusion, mark string // set in the last request; without a conclusion the run is in progress
}

func (r *Repository) writeRun(ctx context.Context, id int64, p runPart) (int64, error) {
	status, conclusion, completed := gh.String("in_progress"), (*string)(nil), (*gh.Timestamp)(nil)
	if p.conclusion != "" {
		status, conclusion, completed = gh.String("completed"), &p.conclusion, &gh.Timestamp{Time: time.Now()}
	}
	if id != 0 {
		_, _, err := r.api.Checks.UpdateCheckRun(ctx, r.owner, r.name, id, gh.UpdateCheckRunOptions{
			Name: p.Name, DetailsURL: optional(p.URL), ExternalID: optional(p.mark), Status: status, Conclusion: conclusion, CompletedAt: completed, Output: p.output(),
		})
		return id, err
	}
	run, _, err := r.api.Checks.CreateCheckRun(ctx, r.owner, r.name, gh.CreateCheckRunOptions{
		Name: p.Name, HeadSHA: p.Commit, DetailsURL: optional(p.URL), ExternalID: optional(p.mark), Status: status, Conclusion: conclusion,
		StartedAt: &gh.Timestamp{Time: time.Now()}, CompletedAt: completed, Output: p.output(),
	})
	return run.GetID(), err
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func (p runPart) output() *gh.CheckRunOutput {
	title := cut(line(p.Title), maxTitle)
	summary := p.Summary
	if summary == "" {
		summary = title // GitHub requires one
	}
	if left := len(p.Check.Notes) - maxNotes; left > 0 {
		summary = cut(summary, maxText-100) + fmt.Sprintf("\n\n%d more notes are not shown at their lines.", left)
	}
	o := &gh.CheckRunOutput{Title: &title, Summary: gh.String(cut(summary, maxText))}
	for _, n := range p.notes {
		o.Annotations = append(o.Annotations, annotation(n))
	}
	return o
}

func annotation(n forge.Note) *gh.CheckRunAnnotation {
	at := max(n.Line, 1)
	a := &gh.CheckRunAnnotation{
		Path: gh.String(n.File), StartLine: &at, EndLine: &at,
		AnnotationLevel: gh.String(string(n.Level)), Message: gh.String(cut(n.Text, maxText)),
	}
	if n.Title != "" {
		a.Title = gh.String(cut(line(n.Title), maxTitle))
	}
	return a
}
