package site

import (
	"fmt"
	"time"
)

// ApprovalSource says who approved something, and how.
type ApprovalSource struct {
	// Kind is one of the kinds below.
	Kind ApprovalKind `json:"kind"`
	// By is the person: a login on the forge, or a user of this host.
	By string `json:"by"`
	// Proposal is the number of the pull request that was merged or commented
	// on, and Comment the ID of the comment. Commit is the merge commit, or the
	// revision with the approving line in the design.
	Proposal int       `json:"proposal,omitempty"`
	Comment  int64     `json:"comment,omitempty"`
	Commit   string    `json:"commit,omitempty"`
	When     time.Time `json:"when,omitzero"`
}

// ApprovalKind is a way to approve.
type ApprovalKind string

// The ways to approve.
const (
	ByMerge   ApprovalKind = "merge"   // by merging a pull request
	ByComment ApprovalKind = "comment" // by a command in a comment
	ByCommand ApprovalKind = "command" // by slipway approve
	ByDesign  ApprovalKind = "design"  // by a line of the design
)

// String is a phrase such as "bob, pull request 7, merged as 4f2a51c09d3e".
func (s ApprovalSource) String() string {
	switch s.Kind {
	case ByMerge:
		return fmt.Sprintf("%s, pull request %d, merged as %s", s.By, s.Proposal, Revision{ID: s.Commit}.Short())
	case ByComment:
		return fmt.Sprintf("%s, comment %d on pull request %d", s.By, s.Comment, s.Proposal)
	case ByDesign:
		return fmt.Sprintf("%s, in the design at %s", s.By, Revision{ID: s.Commit}.Short())
	}
	return s.By + ", by `slipway approve`"
}

// NothingToApprove is the error for a node that waits for no approval. It wraps ErrRefused.
func NothingToApprove(node string) error {
	return fmt.Errorf("%w: nothing to approve for %s. To approve destructive steps, pass the digest that `slipway approve` shows", ErrRefused, node)
}
