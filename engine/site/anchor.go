package site

import (
	"errors"
	"time"
)

// TermClaim says who acts for a site, as it is published beside the status,
// signed with the site's key. Whoever finds a higher one than its own stops:
// its records are a copy, or older than what was done.
type TermClaim struct {
	Site string `json:"site"`
	Term uint64 `json:"term"`
	// Instance tells runs of daemons apart whose records are copies of each
	// other, Holder names the process for people.
	Instance string    `json:"instance"`
	Holder   string    `json:"holder"`
	Records  string    `json:"records"`
	Since    time.Time `json:"since"`
	// Signature is that of all the other fields.
	Signature string `json:"signature,omitempty"`
}

// Unsigned is the claim as it is signed.
func (c TermClaim) Unsigned() TermClaim {
	c.Signature = ""
	return c
}

// ErrClaimed says that another daemon has published its claim meanwhile.
var ErrClaimed = errors.New("another daemon has published meanwhile that it acts for the site")

// Sealed is what of a node others must be able to trust after the loss of this
// host, as it is published with the node's status.
type Sealed struct {
	Site    string `json:"site"`
	Node    string `json:"node"`
	Records string `json:"records"`
	// Closed is that of the node's account, see Account.
	Closed int `json:"closed,omitempty"`
	// Entries are the node's in the ledger.
	Entries []LedgerEntry `json:"entries,omitempty"`
	// Generation is the one that is recorded as installed, 0 for none.
	Generation int `json:"generation,omitempty"`
	// HostKeys are those that were made for the system on its machine.
	HostKeys []string `json:"hostKeys,omitempty"`
	// Signature is that of all the other fields.
	Signature string `json:"signature,omitempty"`
}

// Unsigned is the part as it is signed.
func (s Sealed) Unsigned() Sealed {
	s.Signature = ""
	return s
}
