package site

import (
	"html"
	"slices"
	"strings"
	"time"
)

// Merge is the result of merging a proposal into a branch.
type Merge struct {
	// Result has the merged files. Its ID is a digest of them. It has no ID if
	// there are conflicts or a problem.
	Result Revision
	// Done means that the branch already has the proposal's commit.
	Done bool
	// Conflicts are files that both sides changed, each with what the sides
	// did. More is how many others there are.
	Conflicts []string
	More      int
	// Problem says why the two cannot be merged at all, in a sentence.
	Problem string
}

// Review is our assessment of a proposal: the plan of the site after a merge of
// the proposal, against what was last seen of the machines.
type Review struct {
	Site     string   `json:"site"`
	Proposal Proposal `json:"proposal"`
	// Commit is set for a commit that is planned without a proposal, as if it were in force. Proposal has its Head alone then,
	// and Base is the revision in force.
	Commit *Commit `json:"commit,omitempty"`
	// Base is the commit of the branch that the review is based on. Result is
	// the digest of the merged files.
	Base   string    `json:"base,omitempty"`
	Result string    `json:"result,omitempty"`
	When   time.Time `json:"when,omitzero"`
	// Problem says why there is no plan, in a sentence. Ours means that the
	// error is ours and the review is tried again.
	Problem string `json:"problem,omitempty"`
	Ours    bool   `json:"ours,omitempty"`
	// Allow is the abbreviated commit of a fork's proposal. It is planned only after
	// somebody with write access to the repository has allowed it. Empty otherwise.
	Allow string `json:"allow,omitempty"`
	// Conflicts are the files that prevent the merge. More is how many others
	// there are.
	Conflicts []string `json:"conflicts,omitempty"`
	More      int      `json:"more,omitempty"`
	// Findings are those of the merged design that the branch does not have.
	// Before is how many findings the branch has too.
	Findings []Finding `json:"findings,omitempty"`
	Before   int       `json:"before,omitempty"`
	// Rules says what the proposal changes in the rules that apply to other
	// proposals: rollouts, policies, suppressed findings, approvals.
	Rules []string `json:"rules,omitempty"`
	// Incidents says which compromises the proposal reports or changes, and which secrets people have
	// to replace for them.
	Incidents []string `json:"incidents,omitempty"`
	// Access says who may do more, and Restrictions who may do less, by site.access of the merged design.
	Access       []string `json:"access,omitempty"`
	Restrictions []string `json:"restrictions,omitempty"`
	// Plan is what merging the proposal would cause. Pending is what happens
	// without it too.
	Plan    Plan `json:"plan"`
	Pending Plan `json:"pending,omitzero"`
	// Waiting is what the branch destroys without the proposal.
	Waiting Losses `json:"waiting,omitempty"`
	// Spared are nodes with pending changes that the proposal cancels.
	Spared []string `json:"spared,omitempty"`
	// Grown is the destruction that was added since our comment first listed
	// what is destroyed at this commit. Whoever read that list may not have read
	// the addition, so merging does not approve it.
	Grown Losses `json:"grown,omitempty"`
	// Verdict is the review in one line of Markdown, without the site's name.
	Verdict string `json:"verdict,omitempty"`
	// Comment is the review for people, as Markdown. Whole means that it names
	// everything that is destroyed.
	Comment string `json:"comment,omitempty"`
	Whole   bool   `json:"whole,omitempty"`
	// Set is the digest of what merging the proposal approves; empty for
	// nothing.
	Set string `json:"set,omitempty"`
	// Approved is what merging the proposal has approved. Held is what it
	// destroys beyond that. Both are empty before the merge.
	Approved Losses `json:"approved,omitempty"`
	Held     Losses `json:"held,omitempty"`
	// Landing says how a merged proposal progresses; nil before.
	Landing *Landing `json:"landing,omitempty"`
	// Call is what a person is needed for; nil for nothing. Every review has it
	// for as long as the need exists.
	Call *Call `json:"call,omitempty"`
}

// Landing says how a merged proposal reaches the machines.
type Landing struct {
	// Unapproved says why merging has approved nothing of what the comment named,
	// in a sentence. It is empty if merging has, or if the comment named nothing.
	Unapproved string `json:"unapproved,omitempty"`
	// Waits says what prevents the merge from being in force, in a sentence.
	// Refused means that the reason is a mistake in the merged design.
	Waits   string `json:"waits,omitempty"`
	Refused bool   `json:"refused,omitempty"`
	// Revision is the first commit in force that was seen to contain the
	// proposal, InForce when that was; zero before.
	Revision string    `json:"revision,omitempty"`
	InForce  time.Time `json:"inForce,omitzero"`
	// Asked is everything that is held, including what was approved since.
	Asked Losses `json:"asked,omitempty"`
	// Rollout is the rollout that contains the proposal; nil if there was nothing to do.
	Rollout *RolloutStatus `json:"rollout,omitempty"`
	// Machines are what the machines of a rollout under way do now, in its order.
	// Expected is when the last one is expected to be done, zero if nobody can
	// tell.
	Machines []MachineNow `json:"machines,omitempty"`
	Expected time.Time    `json:"expected,omitzero"`
	// Lines are where the design asks for the pending erasures, by node.
	Lines map[string]Origin `json:"lines,omitempty"`
	// Stuck are nodes of the rollout that wait for a person, each with the reason.
	// Failed nodes and nodes that wait for an approval are not among them.
	Stuck map[string]string `json:"stuck,omitempty"`
	// ObserveOnly says why Slipway writes to no machine.
	ObserveOnly string `json:"observeOnly,omitempty"`
	// Done means that no more news will follow.
	Done bool `json:"done,omitempty"`
}

// MachineState is the progress of one machine of a rollout.
type MachineState string

// The states of machines in a rollout.
const (
	MachineFailed  MachineState = "failed"
	MachineRunning MachineState = "in progress"
	MachineWaiting MachineState = "waiting"
	MachineDone    MachineState = "done"
	// MachineDropped is of a machine that was not done when its rollout ended.
	MachineDropped MachineState = "dropped"
)

// MachineNow is what one machine of a rollout does now.
type MachineNow struct {
	Node  string       `json:"node"`
	State MachineState `json:"state"`
	// What the machine does or waits for, in a clause.
	What  string    `json:"what,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Change is the first remaining change; nil for none.
	Change *Change `json:"change,omitempty"`
}

// Call asks for a person, in a comment separate from the one that is kept up to date.
type Call struct {
	// Key identifies the need: people are called once for each. It consists of
	// a-z, 0-9 and "-".
	Key string `json:"key"`
	// Text says in Markdown what is needed, and why.
	Text string `json:"text"`
}

// Destroys returns the losses that the proposal causes and the branch alone does not.
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

// Approves returns the losses that merging the proposal approves, once people
// can read them.
func (r *Review) Approves() Losses {
	grown := make(map[Loss]bool, len(r.Grown))
	for _, l := range r.Grown {
		grown[l] = true
	}
	return slices.DeleteFunc(r.Destroys(), func(l Loss) bool { return grown[l] })
}

// Planned reports whether there is a plan.
func (r *Review) Planned() bool {
	return r.Problem == "" && len(r.Conflicts) == 0 && !HasErrors(r.Findings)
}

// PlainLine turns a line of Markdown of ours, such as a verdict, into the text that people see. In Markdown, others' text
// is escaped with entities and zero-width spaces.
func PlainLine(line string) string {
	return strings.ReplaceAll(html.UnescapeString(line), "\u200b", "")
}
