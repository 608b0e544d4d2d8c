package pullrequest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Orders are the actions that people can request.
type Orders interface {
	// Plan plans a proposal again.
	Plan(number int)
	// Approve approves the set of destruction with a digest, which somebody requested in a comment on a proposal.
	// Disapprove ends such an approval. Their errors wrap site.ErrRefused if the request makes no sense.
	Approve(ctx context.Context, digest string, by site.ApprovalSource) error
	Disapprove(ctx context.Context, digest string, by site.ApprovalSource) error
	// Allow permits planning one commit of a fork.
	Allow(ctx context.Context, number int, head, by string) error
}

// answer is the answer to a comment. It has no reaction if the comment is not for us. It has a reply in words if
// the comment was meant as a command and is not one. A refused command gets no reply: if a repository has several
// sites, another site may have carried it out.
type answer struct {
	forge.Reaction
	reply string
}

// obey does what a comment requests, and returns the answer. After an error it is called again.
func (l *Listener) obey(
	ctx context.Context, c forge.Comment, asked forge.Command, wrong *forge.NotACommand,
) (answer, error) {
	p, err := l.Proposals.Proposal(ctx, c.Number)
	switch {
	case errors.Is(err, forge.ErrGone):
		return answer{}, nil // the comment is on something else that has a number
	case err != nil:
		return answer{}, err
	case p.Base != l.Base:
		return answer{}, nil
	}
	may, err := l.People.Permission(ctx, c.Author)
	if err != nil {
		return answer{}, err
	}
	log := l.Log.With("proposal", p.Number, "by", c.Author, "comment", c.ID)
	switch {
	case may < forge.Write:
		log.Info("command refused", "err", "only people who may write to the repository give commands")
		return l.refuse(), nil
	case wrong != nil:
		log.Info("command not understood", "err", wrong)
		return answer{forge.Confused, notUnderstood(c, wrong)}, nil
	}
	reaction, err := l.carryOut(ctx, p, c, asked)
	switch {
	case errors.Is(err, site.ErrRefused), errors.Is(err, site.ErrNotFound):
		log.Info("command refused", "command", asked.Verb, "err", err)
		return answer{Reaction: forge.Refused}, nil
	case err != nil:
		return answer{}, err
	}
	log.Info("command carried out", "command", asked.Verb, "digest", asked.Digest, "revision", asked.Commit)
	return answer{Reaction: reaction}, nil
}

// These are hourly limits on answers, because a forge limits our writes.
const (
	// maxRefused bounds how many people without write permission get an answer. There may be any number of them.
	maxRefused = 5
	// maxReplies bounds how many comments that are not commands get an answer in words.
	maxReplies = 5
)

// hourly holds the times of what was done in the last hour.
type hourly []time.Time

// may reports whether one more is allowed, and counts it.
func (h *hourly) may(most int) bool {
	*h = slices.DeleteFunc(*h, func(t time.Time) bool { return time.Since(t) >= time.Hour })
	if len(*h) >= most {
		return false
	}
	*h = append(*h, time.Now())
	return true
}

// refuse is the answer to somebody without write permission. Beyond maxRefused there is none.
func (l *Listener) refuse() answer {
	if !l.refused.may(maxRefused) {
		return answer{}
	}
	return answer{Reaction: forge.Refused}
}

// notUnderstood says why a comment was not a command, and how to write one.
func notUnderstood(c forge.Comment, wrong *forge.NotACommand) string {
	return fmt.Sprintf("Nothing was done for %s: %s.\n\n"+
		"Write a new comment. Its first line is only the command, exactly like this:\n\n- `%s`\n",
		linked(c), wrong.Why, strings.Join(forge.Usage, "`\n- `"))
}

// linked is a link to a comment.
func linked(c forge.Comment) string {
	if !strings.HasPrefix(c.URL, "https://") || strings.ContainsAny(c.URL, " ()<>\n") {
		return "a comment here"
	}
	return "[this comment](" + c.URL + ")"
}

// carryOut carries out the command of an authorized person.
func (l *Listener) carryOut(
	ctx context.Context, p site.Proposal, c forge.Comment, asked forge.Command,
) (forge.Reaction, error) {
	by := site.ApprovalSource{Kind: site.ByComment, By: c.Author, Proposal: p.Number, Comment: c.ID, When: c.Written}
	switch open := p.State == site.ProposalOpen; {
	case asked.Commit != "" && open && p.Fork && p.Head == asked.Commit:
		return forge.Seen, l.Orders.Allow(ctx, p.Number, p.Head, c.Author) // Slipway will plan it
	case asked.Commit != "":
		return "", fmt.Errorf("%w: the proposal is not an open one from a fork at commit %s", site.ErrRefused, asked.Commit)
	case asked.Verb == forge.VerbApprove:
		return forge.Done, l.Orders.Approve(ctx, asked.Digest, by)
	case asked.Verb == forge.VerbDisapprove:
		return forge.Done, l.Orders.Disapprove(ctx, asked.Digest, by)
	case !open:
		return "", fmt.Errorf("%w: the proposal is %s, and only an open one is planned", site.ErrRefused, p.State)
	}
	l.Orders.Plan(p.Number)
	return forge.Seen, nil
}
