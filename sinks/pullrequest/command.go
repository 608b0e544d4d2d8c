package pullrequest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Orders are what people may ask for.
type Orders interface {
	// Plan has a proposal planned again.
	Plan(number int)
	// Approve approves the set of destruction with a digest, which somebody
	// asked for in a comment on a proposal. Its error wraps site.ErrRefused when
	// that makes no sense.
	Approve(ctx context.Context, number int, digest, by string) error
	// Allow lets one commit of a fork be planned.
	Allow(ctx context.Context, number int, head, by string) error
}

// obey does what a comment asks for, and gives the answer; none when the comment
// is not for us. After an error it is asked for again.
func (l *Listener) obey(ctx context.Context, c forge.Comment, asked forge.Command, wrong error) (forge.Reaction, error) {
	p, err := l.Proposals.Proposal(ctx, c.Number)
	switch {
	case errors.Is(err, forge.ErrGone):
		return "", nil // it is on something else that has a number
	case err != nil:
		return "", err
	case p.Base != l.Base:
		return "", nil
	}
	may, err := l.People.Permission(ctx, c.Author)
	if err != nil {
		return "", err
	}
	log := l.Log.With("proposal", p.Number, "by", c.Author, "comment", c.ID)
	switch {
	case may < forge.Write:
		log.Info("command refused", "err", "who may not write to the repository gives no commands")
		return l.refuse(), nil
	case wrong != nil:
		log.Info("command not understood", "err", wrong)
		return forge.Confused, nil
	}
	answer, err := l.carryOut(ctx, p, c.Author, asked)
	switch {
	case errors.Is(err, site.ErrRefused), errors.Is(err, site.ErrNotFound):
		log.Info("command refused", "command", asked.Verb, "err", err)
		return forge.Refused, nil
	case err != nil:
		return "", err
	}
	log.Info("command carried out", "command", asked.Verb, "digest", asked.Digest, "revision", asked.Commit)
	return answer, nil
}

// maxRefused is how many of those who may not write are told so in an hour. There
// may be any number of them, and a forge takes so much of us and no more.
const maxRefused = 5

// refuse is the answer to somebody who may not write.
func (l *Listener) refuse() forge.Reaction {
	l.refused = slices.DeleteFunc(l.refused, func(t time.Time) bool { return time.Since(t) >= time.Hour })
	if len(l.refused) >= maxRefused {
		return ""
	}
	l.refused = append(l.refused, time.Now())
	return forge.Refused
}

// carryOut does what somebody who may asks for.
func (l *Listener) carryOut(ctx context.Context, p site.Proposal, by string, asked forge.Command) (forge.Reaction, error) {
	switch open := p.State == site.ProposalOpen; {
	case asked.Commit != "" && open && p.Fork && p.Head == asked.Commit:
		return forge.Seen, l.Orders.Allow(ctx, p.Number, p.Head, by) // it is going to be planned
	case asked.Commit != "":
		return "", fmt.Errorf("%w: the proposal is not an open one from a fork at commit %s", site.ErrRefused, asked.Commit)
	case asked.Verb == forge.VerbApprove:
		return forge.Done, l.Orders.Approve(ctx, p.Number, asked.Digest, by)
	case !open:
		return "", fmt.Errorf("%w: the proposal is %s, and only an open one is planned", site.ErrRefused, p.State)
	}
	l.Orders.Plan(p.Number)
	return forge.Seen, nil
}
