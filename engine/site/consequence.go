package site

import "time"

// Consequence is what merging a proposal does to a machine.
type Consequence string

// The consequences, the worst first.
const (
	// MergeErases: the machine loses data.
	MergeErases Consequence = "erased"
	// MergeRemoves: the node leaves the design. Slipway does not touch its machine.
	MergeRemoves Consequence = "removed"
	// MergeStops: the machine is out of service for a time, or stays off.
	MergeStops Consequence = "out-of-service"
	// MergeMayRestart: the machine restarts, unless that turns out not to be needed.
	MergeMayRestart Consequence = "may-restart"
	// MergeInterrupts: the machine stays on, and services on it stop or restart.
	MergeInterrupts Consequence = "interrupted"
	// MergeUnknown: Slipway cannot plan it: it has never seen the machine, or something blocks the plan.
	MergeUnknown Consequence = "unknown"
	// MergeChanges: the machine changes, and stays in service.
	MergeChanges Consequence = "changed"
	// MergeSpares: the branch has a change pending, and merging drops it.
	MergeSpares Consequence = "spared"
	// MergePending: the branch has a change pending, which happens with or without the proposal.
	MergePending Consequence = "pending-anyway"
	// MergeLeaves: merging does nothing to the machine.
	MergeLeaves Consequence = "untouched"
)

// Consequences are all of them, the worst first.
var Consequences = []Consequence{MergeErases, MergeRemoves, MergeStops, MergeMayRestart, MergeInterrupts, MergeUnknown, MergeChanges, MergeSpares, MergePending, MergeLeaves}

// NodeConsequence is what merging a proposal does to one node.
type NodeConsequence struct {
	Node string `json:"node"`
	Role string `json:"role,omitempty"`
	// New means that the design in force does not have the node, or the branch as long as none is in force.
	New bool `json:"new,omitempty"`
	// Rack, Position and Hypervisor are those of the proposal. A node that it removes has those of the design in force.
	Rack       string      `json:"rack,omitempty"`
	Position   Position    `json:"position,omitzero"`
	Hypervisor string      `json:"hypervisor,omitempty"`
	What       Consequence `json:"what"`
	// Does says in words what is done. It is empty where nothing is planned.
	Does string `json:"does,omitempty"`
	// Loses says what is destroyed.
	Loses string `json:"loses,omitempty"`
	// Away says for how long the machine is out of service.
	Away string `json:"away,omitempty"`
	// Why says why nothing, or not all of it, can be planned.
	Why string `json:"why,omitempty"`
}

// NodeProposal is an open proposal that does something to a node.
type NodeProposal struct {
	Number int         `json:"number"`
	Title  string      `json:"title,omitempty"`
	What   Consequence `json:"what"`
}

// ProposalBrief is a proposal in a list, with what people were last told of it.
type ProposalBrief struct {
	Proposal Proposal `json:"proposal"`
	// Verdict is the last comment in one line of plain text; empty before the first.
	Verdict string `json:"verdict,omitempty"`
	// Waits says what the proposal waits for; empty for nothing.
	Waits string `json:"waits,omitempty"`
	// Planning means that its commit is being planned, and that all else is about an earlier one.
	Planning bool `json:"planning,omitempty"`
	// Planned is when it was planned, and Shown when the forge last showed another comment, by the forge's clock. Both are
	// zero before, or where that is not known.
	Planned time.Time `json:"planned,omitzero"`
	Shown   time.Time `json:"shown,omitzero"`
	// Set is the digest of what merging approves, or has approved; empty for nothing. Erases is how many machines lose data, also
	// where that needs another approval.
	Set    string `json:"set,omitempty"`
	Erases int    `json:"erases,omitempty"`
	// ApprovedBy is who has approved the set by merging, and ApprovedAt when; empty and zero before.
	ApprovedBy string    `json:"approvedBy,omitempty"`
	ApprovedAt time.Time `json:"approvedAt,omitzero"`
	// Ended means that nothing further happens with the proposal, and Slipway forgets it some time later.
	Ended bool `json:"ended,omitempty"`
}

// ProposalDetail is a proposal with all that its comment says. Whoever gets one changes nothing in it. After a merge its Review
// has the plan of before and the news since. It has no plan if a commit was merged, or closed, that Slipway has not planned.
type ProposalDetail struct {
	ProposalBrief
	PlanDetail
}

// PlanDetail is the plan of a proposal or a commit with what it does to each machine, as far as it is kept.
type PlanDetail struct {
	// Review is what the comment is made of, with the comment itself as Markdown.
	Review Review `json:"review"`
	// StepsLeftOut is how many nodes of the plan are not in the review: steps are kept of the last small plans only. What
	// is done to each node is known all the same.
	StepsLeftOut int `json:"stepsLeftOut,omitempty"`
	// FindingsLeftOut is how many findings are not in the review.
	FindingsLeftOut int `json:"findingsLeftOut,omitempty"`
	// Losses are what is destroyed. Of a proposal they are what merging approves, or has approved; Set is their digest.
	Losses Losses `json:"losses,omitempty"`
	// NodesLeftOut is for how many nodes the consequences and the losses are not kept: those of the last plans are. The
	// comment has them, and a new plan.
	NodesLeftOut int `json:"nodesLeftOut,omitempty"`
	// Counts says how many nodes have which consequence, besides those that stay as they are. It is nil without a plan.
	Counts map[Consequence]int `json:"counts,omitzero"`
	// Nodes are the consequences for the nodes that do not stay as and where they are, by name. Racks are the racks of the
	// planned design, which nobody changes.
	Nodes []NodeConsequence `json:"-"`
	Racks map[string]*Rack  `json:"-"`
}
