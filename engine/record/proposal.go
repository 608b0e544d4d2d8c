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
	// of destruction.
	Shown *Shown `json:"shown,omitempty"`
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
}

// Named is what a proposal's comment named for its commit.
type Named struct {
	Head   string      `json:"head"`
	Losses site.Losses `json:"losses,omitempty"`
}

// Landed is a proposal that was merged.
type Landed struct {
	Proposal site.Proposal `json:"proposal"`
	Approved site.Losses   `json:"approved,omitempty"`
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
