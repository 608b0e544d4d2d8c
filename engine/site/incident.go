package site

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"time"
)

// Incident says that the machines of some nodes were compromised.
type Incident struct {
	Nodes []string `json:"nodes"`
	// Since is the earliest time at which the machines can have been in other hands.
	Since  time.Time `json:"since,omitzero"`
	Reason string    `json:"reason"`
}

var incidentName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// IsIncidentName reports whether a text can be the name of an incident. It names a file too.
func IsIncidentName(name string) bool { return incidentName.MatchString(name) }

// ID identifies the incident under its name: what was done about it once is not done again. The
// reason is not part of it, so that a corrected text switches nothing off.
func (i Incident) ID(name string) string {
	nodes := slices.Compact(slices.Sorted(slices.Values(i.Nodes)))
	text, _ := json.Marshal([]any{"incident", name, nodes, i.Since.UTC().Format(time.RFC3339Nano)}) // texts alone
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:DigestDigits]
}

// IncidentState is what the daemon knows of an incident, and what it did about it.
type IncidentState struct {
	Name     string   `json:"name"`
	ID       string   `json:"id"`
	Incident Incident `json:"incident"`
	// By is the person who ordered it; empty if a commit did. Commit is the revision in
	// which it was first found.
	By     string    `json:"by,omitempty"`
	Commit string    `json:"commit,omitempty"`
	Found  time.Time `json:"found"`
	// Machines are those that the design gave its nodes when it was found.
	Machines map[string]Identity `json:"machines,omitempty"`
	// Waits says why a person has to confirm it before Slipway acts; empty if nobody has to.
	Waits []string `json:"waits,omitempty"`
	// Confirmed is who did.
	Confirmed string `json:"confirmed,omitempty"`
	// Acted is when Slipway began to act on it; zero while it waits. Held is when all of its
	// nodes were under quarantine.
	Acted time.Time `json:"acted,omitzero"`
	Held  time.Time `json:"held,omitzero"`
	// Nodes are its nodes by name, from Acted on.
	Nodes map[string]IncidentNode `json:"nodes,omitempty"`
	// Exposed are the secrets that the nodes could read, in the order in which to replace them,
	// by the design in force when Slipway acted; while it waits, by the design in force now.
	Exposed []Exposed `json:"exposed,omitempty"`
	// Follows says that Slipway follows whether the secrets are replaced. Incidents of older releases do not.
	Follows bool `json:"follows,omitempty"`
	// Clear is when all nodes were released and all secrets were first seen replaced. Ended is when a person
	// ended it although they were not, with the reason.
	Clear        time.Time `json:"clear,omitzero"`
	Ended        time.Time `json:"ended,omitzero"`
	EndedBy      string    `json:"endedBy,omitempty"`
	EndedBecause string    `json:"endedBecause,omitempty"`
	// Removed says that the design in force does not have it. It is in the status alone.
	Removed bool `json:"removed,omitempty"`
}

// IncidentNode is a node of an incident.
type IncidentNode struct {
	// Machine is the machine that the design gave the node when Slipway acted. Another node with
	// this machine is under the incident too.
	Machine Identity `json:"machine,omitzero"`
	// Generation is that of its system, or of the one that was being installed, when Slipway acted.
	Generation int `json:"generation,omitempty"`
	// Off is when its power was first seen off after the quarantine; zero while that is not proven.
	Off time.Time `json:"off,omitzero"`
	// Released is when a person ended its quarantine.
	Released   time.Time `json:"released,omitzero"`
	ReleasedBy string    `json:"releasedBy,omitempty"`
	// Power says in a sentence what is known of its power. It is in the status alone.
	Power string `json:"power,omitempty"`
	// StaysOff says that the machine was seen off after the quarantine and that the last look, which its BMC
	// answered, saw it off too. It is in the status alone.
	StaysOff bool `json:"staysOff,omitempty"`
}

// IsActive reports whether Slipway has acted on the incident and nobody has released all of its nodes.
func (s *IncidentState) IsActive() bool {
	return !s.Acted.IsZero() && len(s.Unreleased()) > 0
}

// IsReleased reports whether the quarantines of all its nodes were ended by people.
func (s *IncidentState) IsReleased() bool { return !s.Acted.IsZero() && len(s.Unreleased()) == 0 }

// IsOver reports whether nothing is left to do: all nodes are released, and all secrets that they could read are
// replaced, or a person has ended the incident without that.
func (s *IncidentState) IsOver() bool {
	return s.IsReleased() && (!s.Follows || !s.Clear.IsZero() || !s.Ended.IsZero())
}

// Unreleased are its nodes that nobody released, sorted.
func (s *IncidentState) Unreleased() (names []string) {
	for name, n := range s.Nodes {
		if n.Released.IsZero() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Verdict is the incident in a few words.
func (s *IncidentState) Verdict() string {
	off := 0
	for _, n := range s.Nodes {
		if !n.Off.IsZero() {
			off++
		}
	}
	switch {
	case s.Acted.IsZero():
		return "waits for a person: " + s.Confirm()
	case !s.Ended.IsZero():
		return "ended by " + s.EndedBy + ", " + s.secretsLeft()
	case !s.Clear.IsZero():
		return "all clear: all nodes released, all secrets replaced"
	case s.IsReleased() && s.Follows:
		return "NOT all clear: all nodes released, " + s.secretsLeft()
	case s.IsReleased():
		return "all nodes released by people"
	case s.Follows:
		return fmt.Sprintf("%d of %d seen off, %s", off, len(s.Nodes), s.secretsLeft())
	}
	return fmt.Sprintf("%d of %d seen off", off, len(s.Nodes))
}

// ToReplace is how many secrets are not known to be replaced, by the states of the status.
func (s *IncidentState) ToReplace() (n int) {
	for _, x := range s.Exposed {
		if !x.State.IsDone() {
			n++
		}
	}
	return n
}

// secretsLeft says how many secrets are replaced, by the states of the status.
func (s *IncidentState) secretsLeft() string {
	done, all := 0, 0
	for _, x := range s.Exposed {
		switch {
		case x.State == NeverSent:
			continue
		case x.State.IsDone():
			done++
		}
		all++
	}
	return fmt.Sprintf("secrets known to be replaced: %d of %d", done, all)
}

// Confirm is the command that has Slipway act on the incident. It names the ID: another incident of the
// same name can come by a commit before a person runs it.
func (s *IncidentState) Confirm() string { return "slipway compromise --confirm " + s.ID }

// End is the command that ends an incident of which secrets are not known to be replaced.
func (s *IncidentState) End() string { return "slipway compromise --end " + s.ID + " --reason TEXT" }

// IncidentLeftOver is what Slipway does not do about an incident: people have to.
var IncidentLeftOver = []string{
	"Slipway gives no secret a new value: do that for each one listed, or decide that you need not.",
	"Slipway ended no session of these nodes elsewhere, and others accept their certificates until these end.",
	"Slipway erased and rebuilt nothing: raise `generation` with `erase: \"secure\"`, and approve that.",
	"Slipway did not check the accounts and sessions of the BMCs for what an intruder made there: root on a machine can add users to its BMC.",
}
