package site

import "time"

// CredentialUse is what became of the password that was sent to an endpoint of a
// node. It tells passwords apart by digests that are slow to compute, see package
// engine.
type CredentialUse struct {
	// URL is the endpoint's. With another one nothing of this counts.
	URL string `json:"url"`
	// Credential is the name of the credential that was sent last.
	Credential string `json:"credential"`
	// Accepted is the digest of the password that was accepted last.
	Accepted string `json:"accepted,omitempty"`
	// Denied is the digest of the password that was sent last, if it was denied,
	// and DeniedAt when.
	Denied   string    `json:"denied,omitempty"`
	DeniedAt time.Time `json:"deniedAt,omitzero"`
	// TriedFor is when the quarantine began for which a password was sent although
	// it was denied before, here or elsewhere. That is done once.
	TriedFor time.Time `json:"triedFor,omitzero"`
}
