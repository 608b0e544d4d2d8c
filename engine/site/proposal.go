package site

import (
	"errors"
	"time"
)

// ProposalState says what has become of a proposal.
type ProposalState string

// The states of a proposal.
const (
	ProposalOpen   ProposalState = "open"
	ProposalMerged ProposalState = "merged"
	ProposalClosed ProposalState = "closed" // and not merged
)

// Proposal is a request to merge a change into the branch that a site follows:
// a pull request, a merge request. It is as the forge tells it; Title and
// Author are as others wrote them.
type Proposal struct {
	// Number names it on the forge.
	Number int           `json:"number"`
	Title  string        `json:"title,omitempty"`
	Author string        `json:"author,omitempty"`
	State  ProposalState `json:"state,omitempty"`
	Draft  bool          `json:"draft,omitempty"`
	// Base is the branch that it is for, Head the commit that is proposed.
	Base string `json:"base,omitempty"`
	Head string `json:"head,omitempty"`
	// Fork says that Head comes from another repository, to which people may
	// push who may not push here.
	Fork bool `json:"fork,omitempty"`
	// Merge is the commit that it became, MergedBy the login of who merged it.
	Merge    string    `json:"merge,omitempty"`
	MergedBy string    `json:"mergedBy,omitempty"`
	MergedAt time.Time `json:"mergedAt,omitzero"`
	URL      string    `json:"url,omitempty"`
	Changed  time.Time `json:"changed,omitzero"`
}

// ErrMoved is wrapped where a proposal is at another commit than it was when it
// was listed.
var ErrMoved = errors.New("it is at another commit now")

// ErrNotYet is wrapped where an answer is not known yet and will be: ask again.
var ErrNotYet = errors.New("not known yet")

// Reading is the comment that is kept on a proposal, as the forge has it at one
// moment. Times are by the forge's clock.
type Reading struct {
	Comment int64 `json:"comment"`
	// Text is the SHA-256 digest of all that it says, in hex.
	Text string `json:"text"`
	// Written is when it was written, or edited last.
	Written time.Time `json:"written"`
	// Hidden says why people see it folded; empty when they do not.
	Hidden string `json:"hidden,omitempty"`
}

// Told is the comment that is kept on a proposal, right after it was made to say
// something.
type Told struct {
	Number int
	// Head and Base are what it is about, and Set the digest of what merging the
	// proposal approves; Set may be empty.
	Head, Base, Set string
	// Before is how it was found, nil when there was none; Is how it is now. Lost
	// says that what was found is a text of ours whose writing nobody knew of, as
	// after the answer to it was lost.
	Before *Reading
	Lost   bool
	Is     Reading
}

// Decision is how it came that a proposal was merged, as the forge tells it.
type Decision struct {
	// By is the login of who decided, empty when the forge does not say.
	By string
	// When is when the person decided, by the forge's clock: when it was merged,
	// or when they had it merged as soon as that is possible, which Auto says. It
	// is zero when the forge does not say.
	When time.Time
	Auto bool
	// Program names the program that merged, or that acted in somebody's name;
	// empty when a person did.
	Program string
}
