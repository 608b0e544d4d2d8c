package site

import "time"

// TracePart is a part of the work on a revision that has ended, for traces. Its texts are those of
// events and statuses.
type TracePart struct {
	Kind TraceKind
	// Revision is the one that the work is for.
	Revision Revision
	// Rollout is when the rollout that it belongs to began, which identifies the rollout; zero
	// outside of one.
	Rollout time.Time
	// Node is empty for work on the site as a whole.
	Node string
	Span
	// Outcome is how it ended, in one word or a few of a fixed list. Failed means that it did not do
	// what it was for, and Why says the reason.
	Outcome string
	Failed  bool
	Why     string
	// Nodes is how many nodes were planned, or are part of a rollout. Done and Lost are those that a
	// rollout left in-sync and failed.
	Nodes, Done, Lost int
	// State is that of a node that waited, Gate the sentence that said for what, and Release what
	// would let it continue. Person means that a person had to act.
	State   State
	Gate    string
	Release string
	Person  bool
	// These are of a step. Driver is the one that took it. Attempt counts the tries of the step in
	// a row by this daemon, from 1. Resumed means that an earlier daemon began it.
	Action  Action
	Facet   Facet
	Impact  Impact
	Driver  string
	Attempt int
	Resumed bool
}

// TraceKind is a kind of part.
type TraceKind string

// The kinds of parts. A revision is looked at from its fetch until it is in force or refused: it is
// fetched, evaluated and planned meanwhile. A rollout follows. A node is part of it from its first
// wait or step until it is in-sync.
const (
	TraceRevision TraceKind = "revision"
	TraceFetch    TraceKind = "fetch"
	TraceEvaluate TraceKind = "evaluate" // rules included
	TracePlan     TraceKind = "plan"     // of all nodes
	TraceRollout  TraceKind = "rollout"
	TraceNode     TraceKind = "node"
	TraceWait     TraceKind = "wait"
	TraceStep     TraceKind = "step" // one try
)
