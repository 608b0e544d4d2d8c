package site

import "time"

// AuditEntry is one attempt to have a daemon do something, also one that was refused.
type AuditEntry struct {
	// Seq orders the entries of a site.
	Seq  uint64    `json:"seq"`
	When time.Time `json:"when"`
	// By is who tried, and Kind how that was proven: "user" of the bootstrap host, "person" with a
	// certificate, person by "oidc", program with a "token", or "nobody". Issuer is the URL of the issuer
	// of OpenID Connect that authenticated the person; empty for other kinds.
	By     string `json:"by,omitempty"`
	Kind   string `json:"kind"`
	Issuer string `json:"issuer,omitempty"`
	// From is the address that it came from; empty for the unix socket.
	From string `json:"from,omitempty"`
	// Verb, Node, Digest and Reason are what was asked; Node is empty for the whole site.
	Verb   string `json:"verb"`
	Node   string `json:"node,omitempty"`
	Digest string `json:"digest,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Outcome is what came of it, and Text the answer in a sentence.
	Outcome AuditOutcome `json:"outcome"`
	Text    string       `json:"text,omitempty"`
	// Times is how often the same was denied in a row, where that was more than once. What was denied
	// to nobody in particular is not recorded each time.
	Times int `json:"times,omitempty"`
}

// AuditOutcome is what came of an attempt.
type AuditOutcome string

// The outcomes.
const (
	// AuditBegun is recorded before anything is done. It stays where the daemon ended meanwhile.
	AuditBegun   AuditOutcome = "begun"
	AuditDone    AuditOutcome = "done"
	AuditRefused AuditOutcome = "refused" // allowed to the caller, and made no sense
	AuditFailed  AuditOutcome = "failed"  // of an error of the daemon
	AuditDenied  AuditOutcome = "denied"  // not allowed to the caller
)

// IsDenied says whether it was denied to the caller: such entries are kept apart, so that nobody without
// rights can make the others be forgotten.
func (a *AuditEntry) IsDenied() bool { return a.Outcome == AuditDenied }

// SameAttempt says whether two entries are of the same attempt, made again.
func (a *AuditEntry) SameAttempt(b *AuditEntry) bool {
	return a.By == b.By && a.Kind == b.Kind && a.Issuer == b.Issuer && a.From == b.From && a.Verb == b.Verb && a.Node == b.Node && a.Digest == b.Digest && a.Outcome == b.Outcome
}
