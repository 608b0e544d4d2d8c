package site

import "time"

// Extension is a kind of item that the site defines. The constraints on its
// items are CUE and stay in the design.
type Extension struct {
	Description string `json:"description,omitempty"`
}

// Policy is a constraint that the site defines for its nodes. The constraint is
// CUE and stays in the design.
type Policy struct {
	Description string   `json:"description,omitempty"`
	Why         string   `json:"why"`
	Fix         string   `json:"fix,omitempty"`
	Severity    Severity `json:"severity"`
	// Nodes selects the nodes that the policy applies to; nil selects every node.
	Nodes *Selector `json:"nodes,omitempty"`
}

// Suppression silences findings that the site accepts.
type Suppression struct {
	// Code is the code of the findings.
	Code string `json:"code"`
	// Nodes are the nodes whose findings are silenced; all nodes if it is empty.
	Nodes  []string `json:"nodes,omitempty"`
	Reason string   `json:"reason"`
	// Until is when the suppression ends; zero means never.
	Until time.Time `json:"until,omitzero"`
}
