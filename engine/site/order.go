package site

import (
	"errors"
	"time"
)

// Verb is a command that a person gives a running daemon.
type Verb string

// The verbs.
const (
	VerbApprove Verb = "approve" // Digest, or Node for its first contact or removal
	// VerbDisapprove revokes unused approvals: Digest, or Node.
	VerbDisapprove Verb = "disapprove"
	// VerbTakeOver makes this daemon continue for the site although another one
	// acted for it later, as after restoring a backup.
	VerbTakeOver Verb = "take-over"
	VerbPause    Verb = "pause"  // Node, or the whole site if it is empty
	VerbResume   Verb = "resume" // Node, or the whole site if it is empty
	VerbRetry    Verb = "retry"  // Node, or every node if it is empty
	// VerbVerify has Nodes, or every node if there are none, looked at now.
	VerbVerify Verb = "verify"
	// VerbQuarantine has Node, or the whole site if it is empty, switched off
	// and kept off. VerbRelease ends that.
	VerbQuarantine Verb = "quarantine"
	VerbRelease    Verb = "release"
	// VerbIncident acts on the compromise of Nodes. With Digest it confirms the incident of that ID.
	VerbIncident Verb = "incident"
	// VerbGrant approves the access of the design in force that has this Digest.
	VerbGrant Verb = "grant"
)

// Order is one command from a person.
type Order struct {
	Verb Verb   `json:"verb"`
	Node string `json:"node,omitempty"`
	// Role is that of the Nodes of VerbVerify, where they are asked for by role.
	Role   string `json:"role,omitempty"`
	Digest string `json:"digest,omitempty"`
	// Shown is the Approval of Node that the person was shown with what is approved. An approval of
	// something else is refused.
	Shown string `json:"shown,omitempty"`
	// By and Reason are recorded and shown.
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
	Until  time.Time `json:"until,omitzero"`
	// Nodes are those of VerbVerify and of an incident. CompromisedSince is that of an incident, and
	// Incident its name; to release a node under one names it too. DryRun says only what the order
	// would do.
	Nodes            []string  `json:"nodes,omitempty"`
	CompromisedSince time.Time `json:"compromisedSince,omitzero"`
	Incident         string    `json:"incident,omitempty"`
	DryRun           bool      `json:"dryRun,omitempty"`
	// End ends the incident with the ID Digest, although secrets are not known to be replaced.
	End bool `json:"end,omitempty"`
	// Source says who approved and how; nil for an approval by command. It is not in the
	// JSON, so no client of the daemon can set it.
	Source *ApprovalSource `json:"-"`
}

// ErrNotFound is wrapped by errors about a site or node that does not exist,
// ErrRefused by errors about an order that makes no sense now. Both keep their
// meaning across the control socket.
var (
	ErrNotFound = errors.New("not found")
	ErrRefused  = errors.New("refused")
)
