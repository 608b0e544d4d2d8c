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

// AccountUse is what is known of the password of one account of a BMC. It tells passwords apart by
// digests that are slow to compute, see package engine.
type AccountUse struct {
	// Proven is the digest of the password with which a fresh login was accepted last, at
	// ProvenAt.
	Proven   string    `json:"proven,omitempty"`
	ProvenAt time.Time `json:"provenAt,omitzero"`
	// Offered is the digest of a password that may have been set and is not proven.
	Offered string `json:"offered,omitempty"`
	// ProvenAs and OfferedAs say which derived passwords these are; their zero values are for others.
	ProvenAs  Derived `json:"provenAs,omitzero"`
	OfferedAs Derived `json:"offeredAs,omitzero"`
	// Highest is the highest epoch that was ever offered to the account, or proven. No lower one is.
	Highest int `json:"highest,omitempty"`
	// ProvenDenied and OfferedDenied say that the login of Slipway itself was denied with that password
	// since.
	ProvenDenied  bool `json:"provenDenied,omitempty"`
	OfferedDenied bool `json:"offeredDenied,omitempty"`
	// Tries is how often in a row a password was sent that was not accepted, or to which no
	// answer is known, and TriedAt when that was last.
	Tries   int       `json:"tries,omitempty"`
	TriedAt time.Time `json:"triedAt,omitzero"`
	// Changing says that a change of the account was begun and has not come to its end: its
	// earlier sessions may be open.
	Changing bool `json:"changing,omitempty"`
}
