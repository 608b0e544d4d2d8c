package site

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// Amendment is a change of a node's design to what was observed of its machine: all that
// differs in one facet.
type Amendment struct {
	Node  string `json:"node"`
	Facet Facet  `json:"facet"`
	// Values are in the order of their paths.
	Values []AmendedValue `json:"values,omitempty"`
	// Why says why the design cannot say what was observed; then there are no values.
	Why string `json:"why,omitempty"`
}

// AmendedValue is one value of a node's design as it was observed.
type AmendedValue struct {
	// Path are the names that lead to the value in the node, which may have dots of their own.
	Path []string `json:"path"`
	// Value is JSON: a text, a number, a truth value, or a list of texts. It is nil for what
	// the machine does not have.
	Value json.RawMessage `json:"value,omitempty"`
}

// At is the path as people write it.
func (v AmendedValue) At() string { return strings.Join(v.Path, ".") }

// digestDigits is how many hexadecimal digits tell amendments apart.
const digestDigits = 12

// Digest names what is changed: the same values of the same facet and node have the same.
func (a Amendment) Digest() string {
	text, _ := json.Marshal(Amendment{Node: a.Node, Facet: a.Facet, Values: a.Values}) // texts
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:digestDigits]
}

// Amended is an amendment as a change of the design's files.
type Amended struct {
	// Files are the new texts of those that change, by their paths.
	Files map[string][]byte
	// Site is the design so changed.
	Site *Site
	// Why says why the design cannot be changed so; the others are empty then.
	Why string
}

// Drafted is what became of an amendment.
type Drafted struct {
	Facet Facet `json:"facet"`
	// Branch is the branch of the repository that has the change; empty where there is none.
	Branch string `json:"branch,omitempty"`
	// Number is that of the pull request; 0 for none. State and URL are its own.
	Number int           `json:"number,omitempty"`
	State  ProposalState `json:"state,omitempty"`
	URL    string        `json:"url,omitempty"`
	// Why says why it is not proposed, or not any further.
	Why string `json:"why,omitempty"`
}

// String is what people are told.
func (d Drafted) String() string {
	switch {
	case d.Number > 0 && d.State == ProposalClosed:
		return fmt.Sprintf("proposed in #%d, which was closed: Slipway does not propose it again", d.Number)
	case d.Number > 0 && d.State == ProposalMerged:
		return fmt.Sprintf("proposed in #%d, which is merged: delete the branch %s to have it proposed again", d.Number, d.Branch)
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
