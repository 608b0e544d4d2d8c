package site

import (
	"fmt"
	"time"
)

// State is the state of a node.
type State string

// The states. A blocked node waits for something that its reason names. A
// stalled node needs a new commit or a person.
const (
	InSync      State = "in-sync"
	Progressing State = "progressing"
	Blocked     State = "blocked"
	Retrying    State = "retrying"
	Stalled     State = "stalled"
	Paused      State = "paused"
	Unknown     State = "unknown"
	// Foreign is a machine whose system is not the one that was installed: it
	// claims to be another, or claims nothing. Only a person can tell why.
	Foreign State = "foreign"
)

// States lists the states in the order in which they are shown.
var States = []State{InSync, Progressing, Retrying, Blocked, Stalled, Foreign, Paused, Unknown}

// NodeStatus is the status of one node.
type NodeStatus struct {
	Name string `json:"name"`
	Role string `json:"role,omitempty"`
	Rack string `json:"rack,omitempty"`
	// Position is where in its rack the design has the machine.
	Position Position `json:"position,omitzero"`
	// Hypervisor is where a virtual machine is placed.
	Hypervisor string `json:"hypervisor,omitempty"`
	State      State  `json:"state"`
	// Reason is a sentence without a final stop. It stays the same as long as
	// the situation does.
	Reason string `json:"reason,omitempty"`
	// Detail adds to the reason and changes often. It is not worth a commit.
	Detail string `json:"detail,omitempty"`
	// Cause is the unedited error behind the reason. It is not worth a commit.
	Cause string `json:"cause,omitempty"`
	// Release says what would let a waiting node continue.
	Release string `json:"release,omitempty"`
	// Person means that a person has to act.
	Person bool `json:"person,omitempty"`
	// Approve says what `slipway approve` of the node would cause; empty if
	// Slipway would refuse it.
	Approve string `json:"approve,omitempty"`
	// Approval is the digest of what is approved so: the machine, the system on it, the steps and the
	// revision that Approve is about. An order to approve the node names it; any of these that changes
	// makes another one.
	Approval string `json:"approval,omitempty"`
	// Phase is the phase of its role that the node is in; empty when it has
	// gone through all.
	Phase string `json:"phase,omitempty"`
	// Model is the manufacturer and model of the machine.
	Model string `json:"model,omitempty"`
	// Since is when the node came into this state for this reason.
	Since time.Time `json:"since"`
	// Next is the planned step in one line, if there is one.
	Next string `json:"next,omitempty"`
	// Machine, Power, Generation and OS are what is known of the machine.
	Machine Identity `json:"machine,omitzero"`
	Power   string   `json:"power,omitempty"`
	Health  string   `json:"health,omitempty"`
	// AsOf is when Power and Health were seen if they are not known to be so now: the last look at the machine
	// failed, or is overdue. Zero otherwise.
	AsOf       time.Time `json:"asOf,omitzero"`
	OS         string    `json:"os,omitempty"`
	Generation int       `json:"generation,omitempty"`
	// Login is how Slipway last logged in to its system; nil where it did not.
	Login *Login `json:"login,omitempty"`
	// HostCertificates is how its system proves itself by certificate; nil where it has none that counts.
	HostCertificates *HostIdentity `json:"hostCertificates,omitempty"`
	// Passwords are the derived passwords of accounts of its BMC, by account.
	Passwords []AccountPasswordStatus `json:"passwords,omitempty"`
	// Certificates are the TLS certificates that were signed for its system and that others may still accept,
	// oldest first.
	Certificates []TLSState `json:"certificates,omitempty"`
	// Service is whether its system answered when it was last asked; empty without
	// a way into it.
	Service Service `json:"service,omitempty"`
	// SystemHealth is the system's health by the probes of its role; zero without
	// probes. Health above is that of the hardware.
	SystemHealth SystemHealth `json:"systemHealth,omitzero"`
	// Links is the state of the node's network links; zero if the design has none.
	// Differences are among the findings too.
	Links Links `json:"links,omitzero"`
	// Binding is how writes to the machine's controller are bound to the machine
	// that was looked at.
	Binding Binding `json:"binding,omitempty"`
	// Retry is when a retrying node is tried again, Seen when the machine was
	// last seen. Neither is worth a commit.
	Retry time.Time `json:"retry,omitzero"`
	Seen  time.Time `json:"seen,omitzero"`
	// NotActedOn are the parts of the design, by path, that no driver acts on.
	// The state does not reflect them.
	NotActedOn []string `json:"notActedOn,omitempty"`
	// Notes are worth knowing and block nothing.
	Notes []string `json:"notes,omitempty"`
	// Erased is the last report on erasing its disks.
	Erased *EraseReport `json:"erased,omitempty"`
	// Findings are differences between the machine and the designed hardware,
	// failing parts, and network links that are not as designed. They block
	// nothing.
	Findings []Finding `json:"findings,omitempty"`
	// Drafted is the outcome of drift that the design wants proposed, by facet.
	Drafted []Drafted `json:"drafted,omitempty"`
	// Stale has the overdue facets and when each was last seen. It is not worth
	// a commit.
	Stale map[Facet]time.Time `json:"stale,omitempty"`
	// Sealed is what others must be able to trust after this host is lost; nil
	// for nothing.
	Sealed *Sealed `json:"sealed,omitempty"`
	// Paused and Quarantined are a person's holds on the node.
	Paused      *Hold `json:"paused,omitempty"`
	Quarantined *Hold `json:"quarantined,omitempty"`
}

// NeedsPerson reports whether a person has to act, be it only to approve what Approve says.
func (n *NodeStatus) NeedsPerson() bool { return n.Person || n.Approve != "" }

// Status is the status of a site.
type Status struct {
	Site string `json:"site"`
	// Applied is the revision in force. Attempted is the newest revision that
	// was looked at. They differ while the newest is broken.
	Applied   Revision `json:"applied,omitzero"`
	Attempted Revision `json:"attempted,omitzero"`
	// Files is the URL below which the forge shows the files of the applied revision, by their paths. Empty without a forge.
	Files string `json:"files,omitempty"`
	// Proposals says whether Slipway reviews pull requests for the site.
	Proposals bool `json:"proposals,omitempty"`
	// Commits says whether Slipway plans commits without a pull request: it follows a branch of a repository.
	Commits bool `json:"commits,omitempty"`
	// Leader says who leads the site, when the daemon that answers only follows.
	// It knows nothing else then.
	Leader string `json:"leader,omitempty"`
	// Problems are what is wrong with the site as a whole: the repository
	// cannot be reached, the newest design is broken.
	Problems []Problem `json:"problems,omitempty"`
	// Notes are worth knowing about the site as a whole and block nothing.
	Notes []string `json:"notes,omitempty"`
	// ObserveOnly says why Slipway writes to no machine.
	ObserveOnly string `json:"observeOnly,omitempty"`
	Paused      *Hold  `json:"paused,omitempty"`
	// Rollout is the last rollout, nil before the first.
	Rollout *RolloutStatus `json:"rollout,omitempty"`
	// Term is the term of the controller that acts.
	Term uint64 `json:"term,omitempty"`
	// Ledger has the open approvals and the most recent ones that were used or
	// have ended, oldest first.
	Ledger []LedgerEntry `json:"ledger,omitempty"`
	// Waiting is the set of destruction that waits for approval.
	Waiting Losses `json:"waiting,omitempty"`
	// Approve is the digest to approve the waiting set by.
	Approve string `json:"approve,omitempty"`
	// Swept is the result of the last sweep of the design's ranges. It is nil
	// before the first, and if the design has none.
	Swept *Swept `json:"swept,omitempty"`
	// Served lists the networks where the daemon serves DHCP, or should but does not.
	Served []Served     `json:"served,omitempty"`
	Nodes  []NodeStatus `json:"nodes"`
	// Incidents are those that people know of, latest first.
	Incidents []IncidentState `json:"incidents,omitempty"`
	// RevocationLists are the lists of revoked TLS certificates, by the authority.
	RevocationLists []RevocationListState `json:"revocationLists,omitempty"`
	// Unacted are the parts of the design outside the nodes, by path, that no
	// driver acts on.
	Unacted []string `json:"notActedOn,omitempty"`
}

// Problem is a problem of a site as a whole.
type Problem struct {
	// About is what has it: "source", "evaluation", "design", "records", "term",
	// "published term", "status branch", "sign of life", "discovery", "proposals", "merges",
	// "comment", "images", "access file", with a name "credential" or "dhcp", or with a number
	// "report".
	About string    `json:"about,omitempty"`
	What  string    `json:"what"`
	Since time.Time `json:"since"`
}

// Node returns the status of a node; nil for one that is not there.
func (s *Status) Node(name string) *NodeStatus {
	for i := range s.Nodes {
		if s.Nodes[i].Name == name {
			return &s.Nodes[i]
		}
	}
	return nil
}

// Counts returns how many nodes are in each state.
func (s *Status) Counts() map[State]int {
	var t Tally
	for i := range s.Nodes {
		t.Count(s.Nodes[i].State)
	}
	return t.Counts()
}

// NotActedOn returns the parts of the design that no driver acts on, of the site
// and of its nodes, grouped by GroupUnacted.
func (s *Status) NotActedOn() []Unacted {
	all := []Unacted{{Paths: s.Unacted}}
	for _, n := range s.Nodes {
		all = append(all, Unacted{n.NotActedOn, []string{n.Name}})
	}
	return GroupUnacted(all)
}

// Verdict summarizes the site, as Tally.Verdict.
func (s *Status) Verdict() []StateCount { return s.tally().Verdict() }

// Silent returns the nodes whose systems did not answer when they were last
// asked, although their machines are on.
func (s *Status) Silent() []string {
	var names []string
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.isSilent() {
			names = append(names, n.Name)
		}
	}
	return names
}

// Unfit returns the nodes whose systems are not healthy, or not known to be.
func (s *Status) Unfit() []NodeStatus {
	return s.those(func(n *NodeStatus) bool { return !n.SystemHealth.IsFit() })
}

// those returns copies of some nodes. It copies no other node: a status is large, and a site has many.
func (s *Status) those(are func(*NodeStatus) bool) (some []NodeStatus) {
	for i := range s.Nodes {
		if are(&s.Nodes[i]) {
			some = append(some, s.Nodes[i])
		}
	}
	return some
}

// Unlinked returns the nodes whose links are in a state. For unknown links it returns
// only in-sync nodes: the states of others say more.
func (s *Status) Unlinked(state LinksState) []NodeStatus {
	return s.those(func(n *NodeStatus) bool { return n.isUnlinked(state) })
}

func (n *NodeStatus) isUnlinked(state LinksState) bool {
	return n.Links.State == state && (state != LinksUnknown || n.State == InSync)
}

func (n *NodeStatus) isSilent() bool { return n.Service == ServiceSilent }

// Caveat returns the end of a verdict with what no state shows, as Tally.Caveat.
func (s *Status) Caveat() string { return s.tally().Caveat() }

// InWords is the verdict in one line, as Tally.InWords.
func (s *Status) InWords() string { return s.tally().InWords() }

func (s *Status) tally() *Tally {
	t := &Tally{}
	for i := range s.Nodes {
		t.Add(&s.Nodes[i])
	}
	return t
}

// Report is what reporters publish.
type Report struct {
	Status Status `json:"status"`
	Plan   Plan   `json:"plan"`
	// Findings are the findings of the attempted revision.
	Findings []Finding `json:"findings,omitempty"`
	// RevocationLists are the lists of revoked TLS certificates, by the authority. They are large, and get no API.
	RevocationLists []RevocationList `json:"-"`
}

// RolloutStatus is the progress of one revision's rollout. It is recorded.
type RolloutStatus struct {
	Revision Revision  `json:"revision"`
	Since    time.Time `json:"since"`
	// Nodes are the nodes that the revision changes, in order. Done is how many
	// of them are in-sync.
	Nodes []string `json:"nodes,omitempty"`
	Done  int      `json:"done"`
	// Canaries are those of Nodes that go first. Proven is when the last canary
	// became in-sync, zero before.
	Canaries []string  `json:"canaries,omitempty"`
	Proven   time.Time `json:"proven,omitzero"`
	// Failed are nodes that were begun and cannot be finished, each with the
	// reason.
	Failed map[string]string `json:"failed,omitempty"`
	// Left is how many nodes had failed and have left the design since. They are not in Failed.
	Left int `json:"left,omitempty"`
	// Failures is how often nodes have failed, including nodes that became
	// in-sync later.
	Failures int `json:"failures,omitempty"`
	// Halted says why no further node is begun; empty while the rollout continues.
	Halted string `json:"halted,omitempty"`
	// HaltedSince is when the rollout was halted. It identifies the halt.
	HaltedSince time.Time `json:"haltedSince,omitzero"`
	// HaltedBy are the nodes whose failures halted the rollout, each with the
	// digest of its design at that time.
	HaltedBy map[string]string `json:"haltedBy,omitempty"`
	// CanaryFailed means that a canary's failure halted the rollout, not that
	// more than maxFailures nodes failed.
	CanaryFailed bool `json:"canaryFailed,omitempty"`
	// Dropped are nodes that were neither in-sync nor failed when it ended: a newer revision needed
	// nothing of any node any more, or they were excluded.
	Dropped []string `json:"dropped,omitempty"`
	// Ended is when the last node was in-sync or had failed.
	Ended time.Time `json:"ended,omitzero"`
	// Queued is the newer revision that waits for the end; nil for none.
	Queued *Revision `json:"queued,omitempty"`
}

// Outcome says how many nodes are in-sync, how many have failed, how many of those have left the
// design, and how many failures were fixed later.
func (r *RolloutStatus) Outcome() string {
	text := fmt.Sprintf("%d of %d nodes in-sync, %d failed", r.Done, len(r.Nodes), len(r.Failed))
	switch {
	case r.Left == 1:
		text += ", 1 failed and has left the design"
	case r.Left > 1:
		text += fmt.Sprintf(", %d failed and have left the design", r.Left)
	}
	switch over := r.Failures - len(r.Failed) - r.Left; {
	case over == 1:
		text += " (1 failure before it was fixed)"
	case over > 1:
		text += fmt.Sprintf(" (%d failures before they were fixed)", over)
	}
	return text
}

// Event is one event of the history.
type Event struct {
	// Seq orders events, including those of earlier daemons.
	Seq  uint64    `json:"seq,omitempty"`
	When time.Time `json:"when"`
	// Node is empty for an event of the whole site.
	Node string    `json:"node,omitempty"`
	Kind EventKind `json:"kind"`
	// Text is a sentence without a final stop.
	Text string `json:"text"`
	// By is the person who ordered it.
	By       string   `json:"by,omitempty"`
	Revision string   `json:"revision,omitempty"`
	Took     Duration `json:"took,omitempty"`
	// State is what a node's state is since an EventState, and Quarantined is set while a person has its machine kept off.
	State       State `json:"state,omitempty"`
	Quarantined bool  `json:"quarantined,omitempty"`
}

// EventKind is a kind of event.
type EventKind string

// The kinds of event.
const (
	EventDesign  EventKind = "design"  // a revision was accepted, refused, queued
	EventState   EventKind = "state"   // a node's state changed
	EventBegun   EventKind = "begun"   // a step's first request is about to be sent
	EventDone    EventKind = "done"    // a step's effect was seen, in Took
	EventFailed  EventKind = "failed"  // a step failed
	EventDropped EventKind = "dropped" // the design no longer asks for a step whose effect was not seen
	EventOrder   EventKind = "order"   // a person's command; By names the person
	EventRollout EventKind = "rollout" // a rollout began, halted, ended
	EventMachine EventKind = "machine" // parts were replaced, or the machine's log has news
)

// History is how long steps took, latest last, by the machine's model and the
// action, see Like.
type History map[string][]Duration

// Like returns the key of History for steps that should take equally long.
func Like(model string, a Action) string { return model + "/" + string(a) }

// LikeStep returns the key of History for a step. Each boot action has its own.
func LikeStep(model string, s Step) string {
	if Facets[s.Facet].Once && len(s.Changes) == 1 {
		return Like(model, s.Action) + " " + s.Changes[0].Field
	}
	return Like(model, s.Action)
}
