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
	// From is the UUID of the machine that derived passwords of the account are derived from; empty where it never had
	// one.
	From string `json:"from,omitempty"`
	// Highest is the highest epoch that was ever offered to the account, or proven. No lower one is.
	Highest int `json:"highest,omitempty"`
	// ProvenDenied and OfferedDenied say that the login of Slipway itself was denied with that password
	// since.
	ProvenDenied  bool `json:"provenDenied,omitempty"`
	OfferedDenied bool `json:"offeredDenied,omitempty"`
	// Tries is how often in a row a password was sent that was not accepted, or to which no
	// answer is known, TriedAt when that was last, and Tried the digest of the password of then.
	Tries   int       `json:"tries,omitempty"`
	TriedAt time.Time `json:"triedAt,omitzero"`
	Tried   string    `json:"tried,omitempty"`
	// Changing says that a change of the account was begun and has not come to its end: its
	// earlier sessions may be open.
	Changing bool `json:"changing,omitempty"`
}

// IsSent reports whether a derived password may have been set and no login has shown whether it was. One that only the
// design tells of, after the records were lost, was not sent by this daemon.
func (u AccountUse) IsSent() bool { return u.OfferedAs != Derived{} && u.Offered != "" }

// IsOf says whether it is of an account of the machine whose passwords are derived from a UUID: it is not
// where the design has another machine under the node's name since.
func (u AccountUse) IsOf(from string) bool { return u.From == "" || u.From == from }
