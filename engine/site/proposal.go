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
var ErrMoved = errors.New("it is at another commit by now")
