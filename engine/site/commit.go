package site

import "time"

// Commit is a commit whose plan people can ask for without a proposal: the head of a branch, or one of the followed branch that
// is newer than the design in force. Others wrote Subject, Author and the names of branches.
type Commit struct {
	Revision
	// Branches are those whose head it is, by name.
	Branches []string `json:"branches,omitempty"`
	// Followed means that the followed branch has it.
	Followed bool `json:"followed,omitempty"`
	// Lacks means that its history does not have the revision in force. So its plan also takes back what only that revision has.
	Lacks bool `json:"lacks,omitempty"`
	// Problem says why it cannot be planned, in a sentence; empty if it can.
	Problem string `json:"problem,omitempty"`
}

// CommitList is the commits that can be planned, as the repository was at one moment.
type CommitList struct {
	// Commits are those of the followed branch, newest first, and then the heads of other branches, newest first.
	Commits []Commit `json:"commits"`
	// Branch is the followed branch. InForce is the revision in force that the list is about; empty before the first.
	Branch  string `json:"branch"`
	InForce string `json:"inForce,omitempty"`
	// Looked is when the repository was listed; zero before the first time. Problem says why it could not be listed since.
	Looked  time.Time `json:"looked,omitzero"`
	Problem string    `json:"problem,omitempty"`
	// BranchesLeftOut and NewerLeftOut are how many branches, and commits of the followed branch, are beyond the bounds.
	BranchesLeftOut int `json:"branchesLeftOut,omitempty"`
	NewerLeftOut    int `json:"newerLeftOut,omitempty"`
}

// CommitDetail is a commit with what putting it in force would do. Whoever gets one changes nothing in it.
type CommitDetail struct {
	Commit Commit `json:"commit"`
	// Planning means that it is being planned, and that all else is of an earlier plan. Outdated means that a new plan is due:
	// there is none, it is old, or another design is in force since.
	Planning bool `json:"planning,omitempty"`
	Outdated bool `json:"outdated,omitempty"`
	// Planned is when it was planned; zero before. InForce is the revision that the plan is compared with.
	Planned time.Time `json:"planned,omitzero"`
	InForce Revision  `json:"inForce,omitzero"`
	// Verdict is the plan in one line of plain text. Erases is how many machines would lose data.
	Verdict string `json:"verdict,omitempty"`
	Erases  int    `json:"erases,omitempty"`
	PlanDetail
}
