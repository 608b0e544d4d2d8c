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
	// Removed says that the design in force does not have it. It is in the status alone.
	Removed bool `json:"removed,omitempty"`
}

// IncidentNode is a node of an incident.
type IncidentNode struct {
	// Machine is the machine that the design gave the node when Slipway acted. Another node with
	// this machine is under the incident too.
	Machine Identity `json:"machine,omitzero"`
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

// Exposed is a secret that nodes of an incident could read.
type Exposed struct {
	// Secret names it, such as "credential bmc" or "file /etc/app.key of n1".
	Secret string `json:"secret"`
	// Nodes are those of the incident that could read it. Holders are the other nodes, and other
	// users of it such as a hypervisor, that have the same one.
	Nodes   []string `json:"nodes"`
	Holders []string `json:"holders,omitempty"`
	// Do says what a person has to do about it.
	Do string `json:"do"`
}

// IsActive reports whether Slipway has acted on the incident and nobody has released all of its nodes.
func (s *IncidentState) IsActive() bool {
	return !s.Acted.IsZero() && len(s.Unreleased()) > 0
}

// IsOver reports whether the quarantines of all its nodes were ended by people.
func (s *IncidentState) IsOver() bool { return !s.Acted.IsZero() && len(s.Unreleased()) == 0 }

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
	case s.IsOver():
		return "all nodes released by people"
	}
	return fmt.Sprintf("%d of %d seen off", off, len(s.Nodes))
}

// Confirm is the command that has Slipway act on the incident. It names the ID: another incident of the
// same name can come by a commit before a person runs it.
func (s *IncidentState) Confirm() string { return "slipway compromise --confirm " + s.ID }

// IncidentLeftOver is what Slipway does not do about an incident: people have to.
var IncidentLeftOver = []string{
	"Slipway replaced no secret: replace each one listed, or decide that you need not.",
	"Slipway ended no session of these nodes elsewhere, and others accept their certificates until these end.",
	"Slipway erased and rebuilt nothing: raise `generation` with `erase: \"secure\"`, and approve that.",
	"Slipway did not check the accounts and sessions of the BMCs for what an intruder made there: root on a machine can add users to its BMC.",
}
