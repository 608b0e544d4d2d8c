package site

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// Amendment is a change of a node's design to the values observed on its machine. It covers every
// difference in one facet.
type Amendment struct {
	Node  string `json:"node"`
	Facet Facet  `json:"facet"`
	// Values are sorted by path.
	Values []AmendedValue `json:"values,omitempty"`
	// Why says why the design cannot express what was observed. Values is empty then.
	Why string `json:"why,omitempty"`
}

// AmendedValue is one observed value to write into a node's design.
type AmendedValue struct {
	// Path is the list of names that lead to the value in the node. A name may contain dots.
	Path []string `json:"path"`
	// Value is JSON: a string, a number, a boolean or a list of strings. It is nil for a value that
	// the machine does not have.
	Value json.RawMessage `json:"value,omitempty"`
}

// At is the path as people write it.
func (v AmendedValue) At() string { return strings.Join(v.Path, ".") }

// digestDigits is how many hexadecimal digits tell amendments apart.
const digestDigits = 12

// Digest identifies the change: equal values of the same facet and node have equal digests.
func (a Amendment) Digest() string {
	text, _ := json.Marshal(Amendment{Node: a.Node, Facet: a.Facet, Values: a.Values}) // texts
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:digestDigits]
}

// Amended is an amendment applied to the files of the design.
type Amended struct {
	// Files are the new contents of the changed files, by path.
	Files map[string][]byte
	// Site is the amended design.
	Site *Site
	// Why says why the design cannot be changed this way. The other fields are empty then.
	Why string
}

// Drafted is the outcome of an amendment.
type Drafted struct {
	Facet Facet `json:"facet"`
	// Branch is the branch of the repository with the change; empty if there is none.
	Branch string `json:"branch,omitempty"`
	// Number, State and URL are those of the pull request; Number is 0 without one.
	Number int           `json:"number,omitempty"`
	State  ProposalState `json:"state,omitempty"`
	URL    string        `json:"url,omitempty"`
	// Why says why the amendment is not proposed, or no longer proposed; with an open pull request, why that need
	// not be what Slipway proposes.
	Why string `json:"why,omitempty"`
}

// String describes the outcome for people.
func (d Drafted) String() string {
	switch {
	case d.Number > 0 && d.State == ProposalClosed:
		return fmt.Sprintf("proposed in #%d, which was closed: Slipway does not propose it again", d.Number)
	case d.Number > 0 && d.State == ProposalMerged:
		return fmt.Sprintf("proposed in #%d, which is merged: delete the branch %s to have it proposed again", d.Number, d.Branch)
	case d.Number > 0 && d.Why != "":
		return fmt.Sprintf("there is a pull request for it, #%d, which may be somebody else's: %s", d.Number, d.Why)
	case d.Number > 0:
		return fmt.Sprintf("proposed in #%d", d.Number)
	case d.Branch != "" && d.Why != "":
		return fmt.Sprintf("proposed on the branch %s; no pull request could be opened: %s", d.Branch, d.Why)
	case d.Branch != "":
		return "proposed on the branch " + d.Branch
	case d.Why != "":
		return "not proposed: " + d.Why
	}
	return "Slipway will propose the change"
}
