package site

import "time"

// Extension is a kind of item of the site's own. What an item must be is CUE,
// and stays with the design.
type Extension struct {
	Description string `json:"description,omitempty"`
}

// Policy is a constraint of the site's own on its nodes. What it requires is
// CUE, and stays with the design.
type Policy struct {
	Description string   `json:"description,omitempty"`
	Why         string   `json:"why"`
	Fix         string   `json:"fix,omitempty"`
	Severity    Severity `json:"severity"`
	// Nodes selects those that it is for; nil selects every node.
	Nodes *Selector `json:"nodes,omitempty"`
}

// Suppression silences findings that the site lives with.
type Suppression struct {
	// Code is the findings' code.
	Code string `json:"code"`
	// Nodes are those of which findings are silenced; all if it is empty.
	Nodes  []string `json:"nodes,omitempty"`
	Reason string   `json:"reason"`
	// Until ends the suppression by itself; zero never does.
	Until time.Time `json:"until,omitzero"`
}
