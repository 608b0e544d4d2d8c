package site

import (
	"errors"
	"time"
)

// TermClaim says who acts for a site. The daemon publishes it beside the
// status, signed with the site's key. A daemon that finds a claim with a higher
// term than its own stops: its records are a copy, or outdated.
type TermClaim struct {
	Site string `json:"site"`
	Term uint64 `json:"term"`
	// Instance distinguishes runs of daemons whose records are copies of each
	// other. Holder names the process for people.
	Instance string `json:"instance"`
	Holder   string `json:"holder"`
	Records  string `json:"records"`
	// Cluster is the ID of the etcd that the daemons of the site form, whose records these are; empty
	// for records of one host or in an etcd of others.
	Cluster string    `json:"cluster,omitempty"`
	Since   time.Time `json:"since"`
	// Signature covers all the other fields.
	Signature string `json:"signature,omitempty"`
}

// Unsigned returns the claim without its signature, which is what gets signed.
func (c TermClaim) Unsigned() TermClaim {
	c.Signature = ""
	return c
}

// ErrClaimed means that another daemon has published its claim in the meantime.
var ErrClaimed = errors.New("another daemon has published meanwhile that it acts for the site")

// Sealed is the part of a node's records that others must be able to trust
// after this host is lost. It is published with the node's status.
type Sealed struct {
	Site    string `json:"site"`
	Node    string `json:"node"`
	Records string `json:"records"`
	// Closed is Account.Closed of the node.
	Closed int `json:"closed,omitempty"`
	// Entries are the node's entries in the ledger.
	Entries []LedgerEntry `json:"entries,omitempty"`
	// Generation is the generation recorded as installed, 0 for none.
	Generation int `json:"generation,omitempty"`
	// HostKeys are the SSH host keys made for the system on the node's machine.
	HostKeys []string `json:"hostKeys,omitempty"`
	// Passwords say which derived passwords accounts of the node's BMC have, by account, and BMC to which
	// BMC they may go: a daemon that has lost its records logs in by them.
	Passwords map[string]SealedPassword `json:"passwords,omitempty"`
	BMC       *ProvenBMC                `json:"bmc,omitempty"`
	// Signature covers all the other fields.
	Signature string `json:"signature,omitempty"`
}

// SealedPassword says which derived password an account has.
type SealedPassword struct {
	// Proven is the one with which a login was accepted last, Offered one that may have been set since.
	// The digests are slow to compute, and the passwords too long to guess.
	Proven        Derived `json:"proven,omitzero"`
	ProvenDigest  string  `json:"provenDigest,omitempty"`
	Offered       Derived `json:"offered,omitzero"`
	OfferedDigest string  `json:"offeredDigest,omitempty"`
	// From is the UUID that they are derived from.
	From string `json:"from,omitempty"`
	// Highest is the highest epoch that was ever offered.
	Highest int `json:"highest,omitempty"`
}

// Unsigned returns s without its signature, which is what gets signed.
func (s Sealed) Unsigned() Sealed {
	s.Signature = ""
	return s
}
