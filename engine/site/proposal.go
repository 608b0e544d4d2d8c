package site

import (
	"errors"
	"time"
)

// ProposalState is the state of a proposal.
type ProposalState string

// The states of a proposal.
const (
	ProposalOpen   ProposalState = "open"
	ProposalMerged ProposalState = "merged"
	ProposalClosed ProposalState = "closed" // without being merged
)

// Proposal is a request to merge a change into the branch that a site follows:
// a pull request, a merge request. Its fields come from the forge. Others wrote
// Title and Author.
type Proposal struct {
	// Number identifies the proposal on the forge.
	Number int           `json:"number"`
	Title  string        `json:"title,omitempty"`
	Author string        `json:"author,omitempty"`
	State  ProposalState `json:"state,omitempty"`
	Draft  bool          `json:"draft,omitempty"`
	// Base is the target branch, Head the proposed commit.
	Base string `json:"base,omitempty"`
	Head string `json:"head,omitempty"`
	// Fork means that Head comes from another repository, where people may push
	// who may not push here.
	Fork bool `json:"fork,omitempty"`
	// Merge is the resulting commit, MergedBy the login of whoever merged.
	Merge    string    `json:"merge,omitempty"`
	MergedBy string    `json:"mergedBy,omitempty"`
	MergedAt time.Time `json:"mergedAt,omitzero"`
	URL      string    `json:"url,omitempty"`
	Changed  time.Time `json:"changed,omitzero"`
}

// ErrMoved is wrapped if a proposal is no longer at the commit at which it was
// listed.
var ErrMoved = errors.New("it is at another commit now")

// ErrNotYet is wrapped if an answer is not known yet but will be: ask again.
var ErrNotYet = errors.New("not known yet")

// Reading is our comment on a proposal as the forge has it at one moment. Times
// are by the forge's clock.
type Reading struct {
	Comment int64 `json:"comment"`
	// Text is the SHA-256 digest of the comment's whole text, in hex.
	Text string `json:"text"`
	// Written is when it was written, or edited last.
	Written time.Time `json:"written"`
	// Hidden says why people see the comment folded; empty if they do not.
	Hidden string `json:"hidden,omitempty"`
}

// Told is our comment on a proposal, right after an update.
type Told struct {
	Number int
	// Head and Base are the commits that the comment is about. Set is the digest
	// of what merging the proposal approves, possibly empty.
	Head, Base, Set string
	// Before is the comment as it was found, nil if there was none; Is is the
	// comment now. Lost means that the comment found was ours, but its writing
	// was never confirmed, as when the forge's answer was lost.
	Before *Reading
	Lost   bool
	Is     Reading
}

// Decision is how a proposal came to be merged, according to the forge.
type Decision struct {
	// By is the login of whoever decided, empty if the forge does not say.
	By string
	// When is when the person decided, by the forge's clock: when they merged or,
	// if Auto, when they enabled automatic merging. It is zero if the forge does
	// not say.
	When time.Time
	Auto bool
	// Program names the program that merged, or that acted in somebody's name;
	// empty if a person merged.
	Program string
}
