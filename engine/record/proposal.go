package record

import (
	"context"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Proposed is what was done about a proposal and has to outlive a restart.
type Proposed struct {
	Number int `json:"number"`
	// Allowed is the commit of a fork that a person with the right to write
	// allowed to be planned, AllowedBy who that was.
	Allowed   string `json:"allowed,omitempty"`
	AllowedBy string `json:"allowedBy,omitempty"`
	// Shown is what people read in its comment now; nil when that names no set
	// of destruction, and from when others have changed it until it is restored.
	Shown *Shown `json:"shown,omitempty"`
	// Comment is that comment as our own last write left it, or as it was found
	// changed; nil before the first. Changed is what others did to it.
	Comment *site.Reading `json:"comment,omitempty"`
	Changed *Changed      `json:"changed,omitempty"`
	// Named is what its comment named first for a commit, or since somebody
	// asked for another plan of it: what comes to it later is approved by no
	// merge. It is nil until there was a plan.
	Named *Named `json:"named,omitempty"`
	// Told says that people are told of it, so that they are told as well what
	// comes of it once it is merged.
	Told bool `json:"told,omitempty"`
	// Waiting is what the branch destroyed without it when it was last planned.
	Waiting site.Losses `json:"waiting,omitempty"`
	// Landed is set once it was merged and what that approves is approved, until
	// people were told the last of what came of it.
	Landed *Landed `json:"landed,omitempty"`
}

// Empty says whether nothing is to be remembered.
func (p Proposed) Empty() bool {
	return p.Allowed == "" && p.Shown == nil && p.Named == nil && !p.Told && p.Landed == nil
}

// ChangedAt is what others did to the comment while it was about a commit; nil for
// nothing.
func (p Proposed) ChangedAt(head string) *Changed {
	if p.Changed == nil || p.Changed.Head != head {
		return nil
	}
	return p.Changed
}

// Shown is a set of destruction as a proposal's comment names it.
type Shown struct {
	// Head is the commit that was planned, Base what it was merged into.
	Head   string      `json:"head"`
	Base   string      `json:"base"`
	Digest string      `json:"digest"`
	Losses site.Losses `json:"losses"`
	// Waiting is what the branch destroyed without the proposal.
	Waiting site.Losses `json:"waiting,omitempty"`
	When    time.Time   `json:"when"`
	// Since is when, by the forge's clock, the comment was written that first
	// named all of it: it has done so without a break.
	Since time.Time `json:"since,omitzero"`
}

// Changed is what others did to a comment of ours.
type Changed struct {
	// Head is the commit that the comment was about, What a clause such as "it was
	// edited at 14:02:03 UTC", When when that was noticed.
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
	// Set is the digest of what its comment named, Pending what of that the merge
	// approves once the merge commit is in force, Approved what it has approved.
	Set      string      `json:"set,omitempty"`
	Pending  site.Losses `json:"pending,omitempty"`
	Approved site.Losses `json:"approved,omitempty"`
	// Unapproved says why nothing is approved though its comment named a set.
	Unapproved string `json:"unapproved,omitempty"`
	// Waiting is what the branch destroyed without it, as far as that is known.
	Waiting site.Losses `json:"waiting,omitempty"`
	// Revision is the first commit in force that was seen to have it, InForce
	// when that was; zero before.
	Revision string    `json:"revision,omitempty"`
	InForce  time.Time `json:"inForce,omitzero"`
	// Held is what it destroys beside Approved.
	Held site.Losses `json:"held,omitempty"`
	// Rollout is the one that it is a part of; until that has ended only which one
	// it is. Nil for none.
	Rollout *site.RolloutStatus `json:"rollout,omitempty"`
}

// PutProposed records what was done about a proposal; when that is nothing, the
// record is removed.
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
