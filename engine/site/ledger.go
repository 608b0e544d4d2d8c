package site

import (
	"slices"
	"time"
)

// LedgerEntry is one line of the ledger of destruction: that a person approved one
// loss, and what became of that. It is open until it is consumed or has ended,
// and never opens again.
type LedgerEntry struct {
	Loss Loss `json:"loss"`
	// Set is the digest of the set that the person read.
	Set string `json:"set"`
	// Source says who approved it, and how.
	Source ApprovalSource `json:"source"`
	Note   string         `json:"note,omitempty"`
	// Opened is when it was opened, Expires until when it may be used.
	Opened  time.Time `json:"opened"`
	Expires time.Time `json:"expires"`
	// Consumed is when the loss was about to happen, by the controller of
	// Term; zero before.
	Consumed time.Time `json:"consumed,omitzero"`
	Term     uint64    `json:"term,omitempty"`
	// Ended is when the approval ended without being used, Why the reason; zero
	// before.
	Ended time.Time `json:"ended,omitzero"`
	Why   string    `json:"why,omitempty"`
}

// IsOpen says whether the entry may still be used.
func (e LedgerEntry) IsOpen() bool { return e.Consumed.IsZero() && e.Ended.IsZero() }

// Result says what became of an approval.
func (e LedgerEntry) Result() string {
	at := func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }
	switch {
	case !e.Consumed.IsZero():
		return "used at " + at(e.Consumed)
	case !e.Ended.IsZero():
		return "ended at " + at(e.Ended) + " without being used: " + e.Why
	}
	return "not used yet, expires at " + at(e.Expires)
}

// Account is the part of the ledger that is about one node. It outlives the
// node: a name that comes back to the design goes on counting.
type Account struct {
	// Records names the records that the account is in, and is a part of each
	// loss, so that an approval of lost records fits nothing.
	Records string `json:"records,omitempty"`
	// Closed is the highest attempt whose approval was used or has ended.
	Closed int `json:"closed,omitempty"`
	// Entries are the open ones, and the last that are not.
	Entries []LedgerEntry `json:"entries,omitempty"`
}

// Open is the open entry for a loss, nil for none.
func (a Account) Open(l Loss) *LedgerEntry {
	i := slices.IndexFunc(a.Entries, func(e LedgerEntry) bool { return e.Loss == l && e.IsOpen() })
	if i < 0 {
		return nil
	}
	return &a.Entries[i]
}

// HasOpen says whether any entry is open.
func (a Account) HasOpen() bool { return slices.ContainsFunc(a.Entries, LedgerEntry.IsOpen) }

// Numbered is a loss as it is shown and approved now: with the attempt of its
// open entry, or the next one.
func (a Account) Numbered(l Loss) Loss {
	l.Records, l.Attempt = a.Records, a.Closed+1
	for _, e := range a.Entries {
		if same := e.Loss; e.IsOpen() {
			same.Attempt = l.Attempt
			if same == l {
				return e.Loss
			}
		}
	}
	return l
}
