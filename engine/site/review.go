package site

import (
	"slices"
	"time"
)

// Merge is what a branch comes to when a proposal is merged into it.
type Merge struct {
	// Result are the files that it comes to. Its ID is a digest of them; it has
	// none when there are conflicts or a problem.
	Result Revision
	// Done says that the branch has the proposal's commit already.
	Done bool
	// Conflicts are files that both sides changed, each with what they did;
	// More is how many others there are.
	Conflicts []string
	More      int
	// Problem says why the two cannot be merged at all, in a sentence.
	Problem string
}

// Review is what is said of a proposal: the plan of the site as it would be
// once the proposal is merged, against what was last seen of the machines.
type Review struct {
	Site     string   `json:"site"`
	Proposal Proposal `json:"proposal"`
	// Base is the commit of the branch that the review stands for, and Result
	// the digest of the merged files.
	Base   string    `json:"base,omitempty"`
	Result string    `json:"result,omitempty"`
	When   time.Time `json:"when,omitzero"`
	// Problem says why there is no plan, in a sentence; the error is ours when
	// Ours is set, and the review is tried again.
	Problem string `json:"problem,omitempty"`
	Ours    bool   `json:"ours,omitempty"`
	// Allow is the beginning of the commit of a fork that is not planned before
	// somebody who may write to the repository has allowed it; empty otherwise.
	Allow string `json:"allow,omitempty"`
	// Conflicts are the files that keep it from being merged; More is how many
	// others there are.
	Conflicts []string `json:"conflicts,omitempty"`
	More      int      `json:"more,omitempty"`
	// Findings are those of the merged design that the branch does not have;
	// Before is how many it has as well.
	Findings []Finding `json:"findings,omitempty"`
	Before   int       `json:"before,omitempty"`
	// Rules says what the proposal changes of the rules that others are held
	// to: how rollouts go, policies, suppressed findings, approvals.
	Rules []string `json:"rules,omitempty"`
	// Plan is what merging the proposal would bring about, and Pending what is
	// to be done without it as well.
	Plan    Plan `json:"plan"`
	Pending Plan `json:"pending,omitzero"`
	// Waiting is what the branch destroys without the proposal.
	Waiting Losses `json:"waiting,omitempty"`
	// Spared are nodes that something was to be done to, and that the proposal
	// leaves as they are.
	Spared []string `json:"spared,omitempty"`
	// Grown is what of the destruction has come to it since its comment first
	// named what is destroyed at this commit: who has read that one may not have
	// read this, and merging does not approve it.
	Grown Losses `json:"grown,omitempty"`
	// Verdict is the review in one line of Markdown. It names no site.
	Verdict string `json:"verdict,omitempty"`
	// Comment is the review for people, as Markdown. Whole says that all of
	// what is destroyed is named in it.
	Comment string `json:"comment,omitempty"`
	Whole   bool   `json:"whole,omitempty"`
	// Set is the digest of what merging the proposal approves; empty when that
	// is nothing.
	Set string `json:"set,omitempty"`
	// Approved is what merging the proposal has approved, and Held what it
	// destroys beside that; both are empty before.
	Approved Losses `json:"approved,omitempty"`
	Held     Losses `json:"held,omitempty"`
	// Landing is how a proposal that was merged goes on; nil before.
	Landing *Landing `json:"landing,omitempty"`
	// Call is what a person is needed for; nil for nothing. It stands in every
	// review for as long as the need does.
	Call *Call `json:"call,omitempty"`
}

// Landing is how a proposal that was merged comes to the machines.
type Landing struct {
	// Unapproved says why merging it has approved nothing of what its comment
	// named, in a sentence; empty when it has, or when that named nothing.
	Unapproved string `json:"unapproved,omitempty"`
	// Waits says what keeps it from being in force, in a sentence; Refused that
	// this is a mistake in the design which has it.
	Waits   string `json:"waits,omitempty"`
	Refused bool   `json:"refused,omitempty"`
	// Revision is the first commit in force that was seen to have it, InForce
	// when that was; zero before.
	Revision string    `json:"revision,omitempty"`
	InForce  time.Time `json:"inForce,omitzero"`
	// Asked is all of what is held, also what was approved since.
	Asked Losses `json:"asked,omitempty"`
	// Rollout is the one that it is a part of; nil when nothing was to be done.
	Rollout *RolloutStatus `json:"rollout,omitempty"`
	// Machines are what the machines of a rollout under way do now, in its order;
	// Expected is when the last of them is expected to be done, zero where nobody
	// can tell.
	Machines []MachineNow `json:"machines,omitempty"`
	Expected time.Time    `json:"expected,omitzero"`
	// Lines are where the design asks for what is erased, by node, as far as it is
	// still to be done.
	Lines map[string]Origin `json:"lines,omitempty"`
	// Stuck are nodes of the rollout that wait for a person and neither have
	// failed nor wait for an approval, each with the reason.
	Stuck map[string]string `json:"stuck,omitempty"`
	// ObserveOnly says why nothing is written to any machine.
	ObserveOnly string `json:"observeOnly,omitempty"`
	// Done says that there will be no more news.
	Done bool `json:"done,omitempty"`
}

// MachineState is how far a machine of a rollout is.
type MachineState string

// The states of machines of a rollout.
const (
	MachineFailed  MachineState = "failed"
	MachineRunning MachineState = "in progress"
	MachineWaiting MachineState = "waiting"
	MachineDone    MachineState = "done"
)

// MachineNow is what one machine of a rollout does.
type MachineNow struct {
	Node  string       `json:"node"`
	State MachineState `json:"state"`
	// What it does, or waits for, in a clause.
	What  string    `json:"what,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Change is the first that is left to do; nil for none.
	Change *Change `json:"change,omitempty"`
}

// Call calls for a person, by a comment of its own beside the one that is kept.
type Call struct {
	// Key tells one need from another: people are called once for each. It is
	// made of a-z, 0-9 and "-".
	Key string `json:"key"`
	// Text says in Markdown what is needed, and why.
	Text string `json:"text"`
}

// Destroys is what the proposal destroys that is not destroyed without it.
func (r *Review) Destroys() Losses {
	waits := make(map[Loss]bool, len(r.Waiting))
	for _, l := range r.Waiting {
		waits[l] = true
	}
	var all Losses
	for _, l := range r.Plan.Destroys() {
		if !waits[l] {
			all = append(all, l)
		}
	}
	return all
}

// Approves is what of the destruction merging the proposal approves, once people
// can read it.
func (r *Review) Approves() Losses {
	grown := make(map[Loss]bool, len(r.Grown))
	for _, l := range r.Grown {
		grown[l] = true
	}
	return slices.DeleteFunc(r.Destroys(), func(l Loss) bool { return grown[l] })
}

// Planned says whether there is a plan.
func (r *Review) Planned() bool {
	return r.Problem == "" && len(r.Conflicts) == 0 && !HasErrors(r.Findings)
}
