package site

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// State is the state of a node.
type State string

// The states. Blocked waits for something it names; stalled needs a new
// commit or a person.
const (
	InSync      State = "in-sync"
	Progressing State = "progressing"
	Blocked     State = "blocked"
	Retrying    State = "retrying"
	Stalled     State = "stalled"
	Paused      State = "paused"
	Unknown     State = "unknown"
	// Foreign is a machine whose system is not the one that was installed: it
	// says that it is another's, or nothing. Only a person can tell why.
	Foreign State = "foreign"
)

// States lists the states in the order in which they are shown.
var States = []State{InSync, Progressing, Retrying, Blocked, Stalled, Foreign, Paused, Unknown}

// NodeStatus is how one node is.
type NodeStatus struct {
	Name string `json:"name"`
	Role string `json:"role,omitempty"`
	Rack string `json:"rack,omitempty"`
	// Hypervisor is where a virtual machine is placed.
	Hypervisor string `json:"hypervisor,omitempty"`
	State      State  `json:"state"`
	// Reason is a sentence without a final stop; it is stable as long as the
	// situation is the same.
	Reason string `json:"reason,omitempty"`
	// Detail is what belongs to the reason and is often otherwise; it is not
	// worth a commit.
	Detail string `json:"detail,omitempty"`
	// Cause is the error that the reason comes of, as it came; it is not worth a
	// commit either.
	Cause string `json:"cause,omitempty"`
	// Release says what would let a node that waits go on.
	Release string `json:"release,omitempty"`
	// Person says that nothing goes on without a person.
	Person bool `json:"person,omitempty"`
	// Approve is what would happen by `slipway approve` of the node; empty where
	// that would be refused.
	Approve string `json:"approve,omitempty"`
	// Phase is the phase of its role that the node is in; empty when it has
	// gone through all.
	Phase string `json:"phase,omitempty"`
	// Model is the manufacturer and model of the machine.
	Model string `json:"model,omitempty"`
	// Since is when the node came into this state for this reason.
	Since time.Time `json:"since"`
	// Next is the planned step, if there is one, in one line.
	Next string `json:"next,omitempty"`
	// Machine, Power, Generation and OS are what is known of the machine.
	Machine    Identity `json:"machine,omitzero"`
	Power      string   `json:"power,omitempty"`
	Health     string   `json:"health,omitempty"`
	OS         string   `json:"os,omitempty"`
	Generation int      `json:"generation,omitempty"`
	// Login is how Slipway last logged in to its system; nil where it did not.
	Login *Login `json:"login,omitempty"`
	// Service is whether its system answered when it was last asked; empty without
	// a way into it.
	Service Service `json:"service,omitempty"`
	// SystemHealth is how the system is by the probes of its role; zero without any.
	// Health above is that of the hardware.
	SystemHealth SystemHealth `json:"systemHealth,omitzero"`
	// Links is how the network links of the node are; zero where the design says nothing of
	// them. What differs is among the findings too.
	Links Links `json:"links,omitzero"`
	// Binding is how writes to the machine's controller are bound to the machine
	// that was looked at.
	Binding Binding `json:"binding,omitempty"`
	// Retry is when a retrying node is tried again; Seen is when the machine
	// was last seen. Neither is worth a commit.
	Retry time.Time `json:"retry,omitzero"`
	Seen  time.Time `json:"seen,omitzero"`
	// NotActedOn are the parts of the design, by path, that no driver acts on; no
	// state speaks of them.
	NotActedOn []string `json:"notActedOn,omitempty"`
	// Notes are worth knowing and stop nothing.
	Notes []string `json:"notes,omitempty"`
	// Erased is the last report of what came of erasing its disks.
	Erased *EraseReport `json:"erased,omitempty"`
	// Findings are where the machine is not made of what the design expects, its
	// parts that are not well, and where its network links are not as designed.
	// They stop nothing.
	Findings []Finding `json:"findings,omitempty"`
	// Drafted is what became of drift that the design wants proposed, by facet.
	Drafted []Drafted `json:"drafted,omitempty"`
	// Stale is when facets were last seen that were due since; not worth a
	// commit.
	Stale map[Facet]time.Time `json:"stale,omitempty"`
	// Sealed is what others must be able to trust after the loss of this host;
	// nil for nothing.
	Sealed *Sealed `json:"sealed,omitempty"`
	// Paused and Quarantined are a person's holds on the node.
	Paused      *Hold `json:"paused,omitempty"`
	Quarantined *Hold `json:"quarantined,omitempty"`
}

// Status is how a site is.
type Status struct {
	Site string `json:"site"`
	// Applied is the revision in force, Attempted the newest that was looked
	// at; they differ while the newest is broken.
	Applied   Revision `json:"applied,omitzero"`
	Attempted Revision `json:"attempted,omitzero"`
	// Problem says what is wrong with the site as a whole, in sentences: the
	// repository cannot be reached, the newest design is broken.
	Problems []Problem `json:"problems,omitempty"`
	// Notes are worth knowing of the site as a whole and stop nothing.
	Notes []string `json:"notes,omitempty"`
	// ObserveOnly says why nothing is written to any machine.
	ObserveOnly string `json:"observeOnly,omitempty"`
	Paused      *Hold  `json:"paused,omitempty"`
	// Rollout is the last rollout, nil before the first.
	Rollout *RolloutStatus `json:"rollout,omitempty"`
	// Term is the term of the controller that acts.
	Term uint64 `json:"term,omitempty"`
	// Ledger are the approvals that are open, and the last ones that were used
	// or have ended, oldest first.
	Ledger []LedgerEntry `json:"ledger,omitempty"`
	// Waiting is the set of destruction that waits for approval.
	Waiting Losses `json:"waiting,omitempty"`
	// Approve is the digest to approve the waiting set by.
	Approve string `json:"approve,omitempty"`
	// Swept is what the last sweep of the design's ranges came to; nil before
	// the first, and where the design has none.
	Swept *Swept `json:"swept,omitempty"`
	// Served is where the daemon serves DHCP, or should and does not.
	Served []Served     `json:"served,omitempty"`
	Nodes  []NodeStatus `json:"nodes"`
	// Unacted are the parts of the design outside the nodes, by path, that no
	// driver acts on.
	Unacted []string `json:"notActedOn,omitempty"`
}

// Problem is something that is wrong with a site as a whole.
type Problem struct {
	// About is what has it: "source", "evaluation", "design", "records", "term",
	// "published term", "status branch", "discovery", "proposals", "merges",
	// "comment", "images", with a name "credential" or "dhcp", or with a number
	// "report".
	About string    `json:"about,omitempty"`
	What  string    `json:"what"`
	Since time.Time `json:"since"`
}

// Counts are the nodes by state.
func (s *Status) Counts() map[State]int {
	counts := map[State]int{}
	for _, n := range s.Nodes {
		counts[n.State]++
	}
	return counts
}

// NotActedOn are the parts of the design that no driver acts on: the site's own,
// and those of nodes, as GroupUnacted puts them together.
func (s *Status) NotActedOn() []Unacted {
	all := []Unacted{{Paths: s.Unacted}}
	for _, n := range s.Nodes {
		all = append(all, Unacted{n.NotActedOn, []string{n.Name}})
	}
	return GroupUnacted(all)
}

// Verdict is the site in words, a part for each state that counts: "11/12 in-sync",
// "1 progressing".
func (s *Status) Verdict() []StateCount {
	counts := s.Counts()
	parts := []StateCount{{InSync, fmt.Sprintf("%d/%d %s", counts[InSync], len(s.Nodes), InSync)}}
	for _, state := range States {
		if state != InSync && counts[state] > 0 {
			parts = append(parts, StateCount{state, fmt.Sprintf("%d %s", counts[state], state)})
		}
	}
	return parts
}

// Silent are the nodes whose systems did not answer when they were last asked,
// although their machines are on.
func (s *Status) Silent() []string {
	var names []string
	for _, n := range s.Nodes {
		if n.Service == ServiceSilent {
			names = append(names, n.Name)
		}
	}
	return names
}

// Unfit are the nodes whose systems are not healthy, or not known to be.
func (s *Status) Unfit() []NodeStatus {
	return slices.DeleteFunc(slices.Clone(s.Nodes), func(n NodeStatus) bool { return n.SystemHealth.IsFit() })
}

// Unlinked are the nodes whose links are in a state. Unknown ones are those of nodes that
// are in-sync otherwise: of others the state says more.
func (s *Status) Unlinked(state LinksState) []NodeStatus {
	return slices.DeleteFunc(slices.Clone(s.Nodes), func(n NodeStatus) bool {
		return n.Links.State != state || state == LinksUnknown && n.State != InSync
	})
}

// Caveat is what a verdict on the site ends with, and no state says: how many
// systems do not answer, of how many the links differ or are unknown, of how many the
// health is unknown, and how many nodes have parts in their design that no driver acts
// on. It is empty for none.
func (s *Status) Caveat() (text string) {
	switch silent := len(s.Silent()); silent {
	case 0:
	case 1:
		text = ", 1 whose system does not answer"
	default:
		text = fmt.Sprintf(", %d whose systems do not answer", silent)
	}
	if differ := len(s.Unlinked(LinksDiffer)); differ > 0 {
		text += fmt.Sprintf(", %d whose links differ", differ)
	}
	if unseen := len(s.Unlinked(LinksUnknown)); unseen > 0 {
		text += fmt.Sprintf(", %d of unknown links", unseen)
	}
	not, unknown := 0, 0
	for _, n := range s.Nodes {
		if len(n.NotActedOn) > 0 {
			not++
		}
		if n.SystemHealth.State == HealthUnknown {
			unknown++
		}
	}
	if unknown > 0 {
		text += fmt.Sprintf(", %d of unknown health", unknown)
	}
	if not > 0 {
		text += fmt.Sprintf(", %d with parts not acted on", not)
	}
	return text
}

// StateCount is how many nodes are in a state, in words.
type StateCount struct {
	State State
	Text  string
}

// Report is what reporters tell people.
type Report struct {
	Status Status `json:"status"`
	Plan   Plan   `json:"plan"`
	// Findings are those of the attempted revision.
	Findings []Finding `json:"findings,omitempty"`
}

// RolloutStatus is how the rollout of one revision goes. It is recorded.
type RolloutStatus struct {
	Revision Revision  `json:"revision"`
	Since    time.Time `json:"since"`
	// Nodes are those that the revision changes, in order; Done how many of
	// them are in-sync.
	Nodes []string `json:"nodes,omitempty"`
	Done  int      `json:"done"`
	// Canaries are those of Nodes that go first; Proven is when the last of
	// them came in-sync, zero before.
	Canaries []string  `json:"canaries,omitempty"`
	Proven   time.Time `json:"proven,omitzero"`
	// Failed are nodes that were begun and cannot be brought to their end,
	// each with the reason.
	Failed map[string]string `json:"failed,omitempty"`
	// Failures is how often a node of it has failed, those also that came in-sync
	// later.
	Failures int `json:"failures,omitempty"`
	// Halted says why no further node is begun; empty while it goes on.
	Halted string `json:"halted,omitempty"`
	// HaltedSince is when it was halted; it tells one halt from the next.
	HaltedSince time.Time `json:"haltedSince,omitzero"`
	// HaltedBy are the nodes whose failures halted it, each with the digest of
	// what was designed for it then.
	HaltedBy map[string]string `json:"haltedBy,omitempty"`
	// CanaryFailed is set when it was halted because a canary has failed, not
	// because more nodes than maxFailures have.
	CanaryFailed bool `json:"canaryFailed,omitempty"`
	// Ended is when the last node was in-sync or had failed.
	Ended time.Time `json:"ended,omitzero"`
	// Queued is the newer revision that waits for the end; nil for none.
	Queued *Revision `json:"queued,omitempty"`
}

// Outcome is how far the rollout is: how many nodes are in-sync, how many have
// failed, and how often one failed that did not stay so.
func (r *RolloutStatus) Outcome() string {
	text := fmt.Sprintf("%d of %d nodes in-sync, %d failed", r.Done, len(r.Nodes), len(r.Failed))
	switch over := r.Failures - len(r.Failed); {
	case over == 1:
		text += " (1 failure before it was fixed)"
	case over > 1:
		text += fmt.Sprintf(" (%d failures before they were fixed)", over)
	}
	return text
}

// Event is something that happened, as history tells it.
type Event struct {
	// Seq orders events, also those of a daemon before.
	Seq  uint64    `json:"seq,omitempty"`
	When time.Time `json:"when"`
	// Node is empty for what concerns the site.
	Node string    `json:"node,omitempty"`
	Kind EventKind `json:"kind"`
	// Text is a sentence without a final stop.
	Text string `json:"text"`
	// By is the person whose order it was.
	By       string   `json:"by,omitempty"`
	Revision string   `json:"revision,omitempty"`
	Took     Duration `json:"took,omitempty"`
}

// EventKind is what kind of thing happened.
type EventKind string

// The kinds of event.
const (
	EventDesign  EventKind = "design"  // a revision was accepted, refused, queued
	EventState   EventKind = "state"   // a node came into another state
	EventBegun   EventKind = "begun"   // a step's first request is about to be sent
	EventDone    EventKind = "done"    // a step's effect was seen, in Took
	EventFailed  EventKind = "failed"  // a step came to nothing
	EventDropped EventKind = "dropped" // the design does not ask for a step any more, whose effect was not seen
	EventOrder   EventKind = "order"   // a person's order, By
	EventRollout EventKind = "rollout" // a rollout began, halted, ended
	EventMachine EventKind = "machine" // parts were exchanged, or its log says something
)

// History is how long steps took, last ones last, by the machine's model and
// the action, see Like.
type History map[string][]Duration

// Like is the key of History for steps that are expected to take equally long.
func Like(model string, a Action) string { return model + "/" + string(a) }

// LikeStep is the key of History for a step. Each boot action takes its own time.
func LikeStep(model string, s Step) string {
	if Facets[s.Facet].Once && len(s.Changes) == 1 {
		return Like(model, s.Action) + " " + s.Changes[0].Field
	}
	return Like(model, s.Action)
}

// Verb is what a person asks of a running daemon.
type Verb string

// The verbs.
const (
	VerbApprove Verb = "approve" // Digest, or Node for its first contact or removal
	// VerbDisapprove ends what was approved and not used: Digest, or Node.
	VerbDisapprove Verb = "disapprove"
	// VerbTakeOver has this daemon go on for the site although another one acted
	// for it later, as after a restored backup.
	VerbTakeOver Verb = "take-over"
	VerbPause    Verb = "pause"  // Node, or all of the site without one
	VerbResume   Verb = "resume" // Node, or all of the site without one
	VerbRetry    Verb = "retry"  // Node, or every node without one
	// VerbQuarantine has Node, or all of the site without one, switched off
	// and kept off; VerbRelease ends that.
	VerbQuarantine Verb = "quarantine"
	VerbRelease    Verb = "release"
)

// Order is one request of a person.
type Order struct {
	Verb   Verb   `json:"verb"`
	Node   string `json:"node,omitempty"`
	Digest string `json:"digest,omitempty"`
	// By and Reason are recorded and shown.
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
	Until  time.Time `json:"until,omitzero"`
	// Source says how an approval came; nil for one by command. No client of the daemon can
	// say it: it is no part of the JSON.
	Source *ApprovalSource `json:"-"`
}

// ErrNotFound is wrapped by what is asked of a site or node that does not
// exist; ErrRefused by an order that makes no sense now. They keep their
// meaning across the control socket.
var (
	ErrNotFound = errors.New("not found")
	ErrRefused  = errors.New("refused")
)
