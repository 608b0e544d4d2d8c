package record

import (
	"context"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Proposed is what was done about a proposal and must outlive a restart.
type Proposed struct {
	Number int `json:"number"`
	// Allowed is the commit of a fork that a person with write access allowed
	// to be planned, AllowedBy that person.
	Allowed   string `json:"allowed,omitempty"`
	AllowedBy string `json:"allowedBy,omitempty"`
	// Shown is what people read in its comment now. It is nil if the comment names no
	// set of destruction, and while a comment that others changed is not restored.
	Shown *Shown `json:"shown,omitempty"`
	// Comment is that comment as our last write left it, or as it was found
	// changed; nil before the first. Changed is what others did to it.
	Comment *site.Reading `json:"comment,omitempty"`
	Changed *Changed      `json:"changed,omitempty"`
	// Named is what its comment first named for a commit, or since somebody
	// asked for a new plan. No merge approves what was added later. It is nil
	// until there was a plan.
	Named *Named `json:"named,omitempty"`
	// Told means that people were told of the proposal, so they will also be
	// told its outcome after a merge.
	Told bool `json:"told,omitempty"`
	// Waiting is what the branch destroyed without the proposal when it was last planned.
	Waiting site.Losses `json:"waiting,omitempty"`
	// Landed is set once the proposal was merged and its approvals are recorded,
	// until people were told the final outcome.
	Landed *Landed `json:"landed,omitempty"`
}

// Empty reports whether there is nothing to remember.
func (p Proposed) Empty() bool {
	return p.Allowed == "" && p.Shown == nil && p.Named == nil && !p.Told && p.Landed == nil
}

// ChangedAt returns what others did to the comment while it was about a commit;
// nil for nothing.
func (p Proposed) ChangedAt(head string) *Changed {
	if p.Changed == nil || p.Changed.Head != head {
		return nil
	}
	return p.Changed
}

// Shown is a set of destruction as a proposal's comment names it.
type Shown struct {
	// Head is the planned commit, Base the commit that it was merged into.
	Head   string      `json:"head"`
	Base   string      `json:"base"`
	Digest string      `json:"digest"`
	Losses site.Losses `json:"losses"`
	// Waiting is what the branch destroyed without the proposal.
	Waiting site.Losses `json:"waiting,omitempty"`
	When    time.Time   `json:"when"`
	// Since is when, by the forge's clock, the comment that first named all of
	// it was written. It has named all of it ever since.
	Since time.Time `json:"since,omitzero"`
}

// Changed is what others did to a comment of ours.
type Changed struct {
	// Head is the commit that the comment was about. What is a clause such as "it
	// was edited at 14:02:03 UTC", and When is when that was noticed.
	Head string    `json:"head"`
	What string    `json:"what"`
	When time.Time `json:"when"`
}

// Named is what a proposal's comment named for its commit.
type Named struct {
	Head   string      `json:"head"`
	Losses site.Losses `json:"losses,omitempty"`
}

// Landed is a proposal that was merged.
type Landed struct {
	Proposal site.Proposal `json:"proposal"`
	// Set is the digest of what its comment named. Pending is the part that the merge
	// approves once the merge commit is in force, Approved the part that it has approved.
	Set      string      `json:"set,omitempty"`
	Pending  site.Losses `json:"pending,omitempty"`
	Approved site.Losses `json:"approved,omitempty"`
	// Unapproved says why nothing is approved although the comment named a set.
	Unapproved string `json:"unapproved,omitempty"`
	// Waiting is what the branch destroyed without the proposal, as far as known.
	Waiting site.Losses `json:"waiting,omitempty"`
	// Revision is the first commit in force that was seen to contain the
	// proposal, InForce when that was; zero before.
	Revision string    `json:"revision,omitempty"`
	InForce  time.Time `json:"inForce,omitzero"`
	// Held is what the proposal destroys beyond Approved.
	Held site.Losses `json:"held,omitempty"`
	// Rollout is the rollout that contains the proposal. Until it has ended, it
	// only identifies the rollout. Nil for none.
	Rollout *site.RolloutStatus `json:"rollout,omitempty"`
}

// PutProposed records what was done about a proposal. It deletes the record if
// there is nothing to remember.
func (s *Site) PutProposed(ctx context.Context, p Proposed) error {
	if p.Empty() {
		return s.commit(ctx, clientv3.OpDelete(s.prefix+proposalKey(p.Number)))
	}
	return s.put(ctx, proposalKey(p.Number), p)
}

func proposalKey(number int) string { return "proposals/" + strconv.Itoa(number) }

func (l *loader) proposal(_ string, value []byte) error {
	var p Proposed
	if err := l.decode(value, &p); err != nil {
		return err
	}
	l.snap.Proposed = append(l.snap.Proposed, p)
	return nil
}
