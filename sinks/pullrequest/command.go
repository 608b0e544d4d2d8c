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

// Orders are what people may ask for.
type Orders interface {
	// Plan has a proposal planned again.
	Plan(number int)
	// Approve approves the set of destruction with a digest, which somebody
	// asked for in a comment on a proposal, and Disapprove ends such an approval.
	// Their errors wrap site.ErrRefused when that makes no sense.
	Approve(ctx context.Context, digest string, by site.ApprovalSource) error
	Disapprove(ctx context.Context, digest string, by site.ApprovalSource) error
	// Allow lets one commit of a fork be planned.
	Allow(ctx context.Context, number int, head, by string) error
}

// answer is what is said to a comment: a reaction, none when it is not for us, and
// a reply in words where it was meant as a command and is none. A command that is
// refused gets no reply: where a repository has several sites, another one may
// have carried it out.
type answer struct {
	forge.Reaction
	reply string
}

// obey does what a comment asks for, and gives the answer. After an error it is
// asked for again.
func (l *Listener) obey(
	ctx context.Context, c forge.Comment, asked forge.Command, wrong *forge.NotACommand,
) (answer, error) {
	p, err := l.Proposals.Proposal(ctx, c.Number)
	switch {
	case errors.Is(err, forge.ErrGone):
		return answer{}, nil // it is on something else that has a number
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

// Bounds on what is said in an hour, as a forge takes so much of us and no more.
const (
	// maxRefused is how many of those who may not write are told so. There may
	// be any number of them.
	maxRefused = 5
	// maxReplies is how many comments that ask for nothing are answered in words.
	maxReplies = 5
)

// hourly counts what was done in the last hour.
type hourly []time.Time

// may says whether one more may be done, and counts it.
func (h *hourly) may(most int) bool {
	*h = slices.DeleteFunc(*h, func(t time.Time) bool { return time.Since(t) >= time.Hour })
	if len(*h) >= most {
		return false
	}
	*h = append(*h, time.Now())
	return true
}

// refuse is the answer to somebody who may not write: to some of them none.
func (l *Listener) refuse() answer {
	if !l.refused.may(maxRefused) {
		return answer{}
	}
	return answer{Reaction: forge.Refused}
}

// notUnderstood says why a comment was no command, and how to write one.
func notUnderstood(c forge.Comment, wrong *forge.NotACommand) string {
	return fmt.Sprintf("Nothing was done for %s: %s.\n\n"+
		"Write a new comment. Its first line is only the command, exactly like this:\n\n- `%s`\n",
		linked(c), wrong.Why, strings.Join(forge.Usage, "`\n- `"))
}

// linked is a comment as others speak of it.
func linked(c forge.Comment) string {
	if !strings.HasPrefix(c.URL, "https://") || strings.ContainsAny(c.URL, " ()<>\n") {
		return "a comment here"
	}
	return "[this comment](" + c.URL + ")"
}

// carryOut does what somebody who may asks for.
func (l *Listener) carryOut(
	ctx context.Context, p site.Proposal, c forge.Comment, asked forge.Command,
) (forge.Reaction, error) {
	by := site.ApprovalSource{Kind: site.ByComment, By: c.Author, Proposal: p.Number, Comment: c.ID, When: c.Written}
	switch open := p.State == site.ProposalOpen; {
	case asked.Commit != "" && open && p.Fork && p.Head == asked.Commit:
		return forge.Seen, l.Orders.Allow(ctx, p.Number, p.Head, c.Author) // it is going to be planned
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
