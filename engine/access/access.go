// Package access says who may ask what of a daemon: callers, the verbs that they use, the roles that
// a file of the bootstrap host gives them and those that it lets the design give, and the tokens of
// programs. It decides and does not serve: package control asks it about every request.
package access

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is how a caller proved who it is.
type Kind string

// The kinds of caller.
const (
	// Nobody proved nothing.
	Nobody Kind = "nobody"
	// User is a user of the bootstrap host, as the kernel names the peer of the unix socket.
	User Kind = "user"
	// Person showed a certificate of the authority for clients.
	Person Kind = "person"
	// OIDC is a person whom an issuer of OpenID Connect has authenticated.
	OIDC Kind = "oidc"
	// Token is a program that showed a token.
	Token Kind = "token"
)

// Caller is who asks.
type Caller struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name,omitempty"`
	// From is the address that the request came from; empty on the unix socket.
	From string `json:"from,omitempty"`
	// Issuer is the URL of the issuer that authenticated the person, and Groups are those that the issuer
	// says the person is in. Both are empty for all kinds but OIDC.
	Issuer string   `json:"issuer,omitempty"`
	Groups []string `json:"groups,omitempty"`
}

// Is says whether two requests are of the same caller with the same rights, from the same address.
func (c Caller) Is(other Caller) bool { return c.From == other.From && c.Key() == other.Key() }

// Key tells callers apart by all that their rights depend on, and not by their address.
func (c Caller) Key() string {
	return strings.Join(append([]string{string(c.Kind), c.Name, c.Issuer}, c.Groups...), "\x00")
}

// String is the caller as records and people are told of it. A person and a token never read like a
// user of the host.
func (c Caller) String() string {
	switch c.Kind {
	case User:
		return c.Name
	case Person:
		return c.Name + " (certificate)"
	case OIDC:
		return c.Name + " (OIDC " + c.Issuer + ")"
	case Token:
		return "token " + c.Name
	}
	return "nobody"
}

// IsPerson says whether a person asks, as far as that can be known: not a program with a token.
func (c Caller) IsPerson() bool { return c.Kind == User || c.Kind == Person || c.Kind == OIDC }

// Verb is what a role may allow.
type Verb string

// The verbs. Those of orders have the names of the orders.
const (
	Read       Verb = "read"
	Records    Verb = "records"
	Logs       Verb = "logs"
	Files      Verb = "files"
	Audit      Verb = "audit"
	Artifacts  Verb = "artifacts"
	Export     Verb = "export"
	Approve    Verb = "approve"
	Disapprove Verb = "disapprove"
	TakeOver   Verb = "take-over"
	Pause      Verb = "pause"
	Resume     Verb = "resume"
	Retry      Verb = "retry"
	Verify     Verb = "verify"
	Quarantine Verb = "quarantine"
	SSH        Verb = "ssh"
	Release    Verb = "release"
	Incident   Verb = "incident"
	Grant      Verb = "grant"
)

// Meaning is what a verb allows, and to whom it may be given.
type Meaning struct {
	Verb Verb
	// ForPersons is set for what no token ever holds.
	ForPersons bool
	// Allows is what it allows, as a phrase.
	Allows string
}

// Verbs are all verbs, in the order in which they are shown.
var Verbs = []Meaning{
	{Read, false, "see the status, the plan, findings, the rollout, the design in force, inventories, the history and events"},
	{Records, false, "see everything that is recorded of nodes, slow digests of passwords among it; `slipway plan`, `why` and `inventory` need it"},
	{Logs, false, "read the serial consoles of machines, and what the agent says while it installs"},
	{Files, false, "read files of systems that the design names and does not keep secret"},
	{Audit, false, "read who tried to do what"},
	{Artifacts, false, "put images into the artifact store, verify them and remove unused ones"},
	{Pause, false, "pause a node or the site"},
	{Resume, false, "end a pause"},
	{Retry, false, "have a node tried again now; for the whole site also continue a halted rollout"},
	{Verify, false, "have nodes looked at now, without a retry of what has failed"},
	{Quarantine, false, "switch a machine off and keep it off"},
	{Disapprove, false, "take back an approval that was not used"},
	{Approve, true, "approve what erases data, a first disruption, a removal or a foreign system"},
	{Release, true, "end a quarantine"},
	{Incident, true, "act on a compromise: put the nodes of an incident under quarantine, also many of them and controllers"},
	{SSH, true, "log in to the accounts of a node's system that the design opens to certificates"},
	{Grant, true, "approve a change of who may do what by the design"},
	{TakeOver, true, "take the site over from another daemon"},
	{Export, true, "copy all records of the daemon"},
}

// meaningOf is the meaning of a verb; false for a word that is none.
func meaningOf(v Verb) (Meaning, bool) {
	i := slices.IndexFunc(Verbs, func(m Meaning) bool { return m.Verb == v })
	if i < 0 {
		return Meaning{}, false
	}
	return Verbs[i], true
}

// Target is what a caller wants to use a verb on.
type Target struct {
	Site string
	// Node is empty for the whole site; Rack and Role are those of the node, empty where the node is
	// not known or has none.
	Node, Rack, Role string
}

func (t Target) String() string {
	if t.Node == "" {
		return "site " + t.Site + " as a whole"
	}
	return fmt.Sprintf("node %s of site %s", t.Node, t.Site)
}
