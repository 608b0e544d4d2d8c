package site

import (
	"slices"
	"time"
)

// LedgerEntry is one line of the ledger of destruction: a person's approval of one
// loss, and its outcome. It is open until it is consumed or has ended, and never
// opens again.
type LedgerEntry struct {
	Loss Loss `json:"loss"`
	// Set is the digest of the set that the person read.
	Set string `json:"set"`
	// Source says who approved it, and how.
	Source ApprovalSource `json:"source"`
	Note   string         `json:"note,omitempty"`
	// Opened is when the entry was opened, Expires when it stops being usable.
	Opened  time.Time `json:"opened"`
	Expires time.Time `json:"expires"`
	// Consumed is when the loss was about to happen, carried out by the
	// controller of Term; zero before.
	Consumed time.Time `json:"consumed,omitzero"`
	Term     uint64    `json:"term,omitempty"`
	// Ended is when the approval ended unused, Why the reason; zero before.
	Ended time.Time `json:"ended,omitzero"`
	Why   string    `json:"why,omitempty"`
}

// ID names the entry in links.
func (e LedgerEntry) ID() string {
	return idOf(e.Loss.Node, string(e.Loss.Action), e.Set, e.Opened.UTC().Format(time.RFC3339Nano))
}

// IsOpen reports whether the entry may still be used.
func (e LedgerEntry) IsOpen() bool { return e.Consumed.IsZero() && e.Ended.IsZero() }

// Result describes the outcome of an approval.
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

// Account is the part of the ledger about one node. It outlives the node: if
// the name returns to the design, the counting continues.
type Account struct {
	// Records names the records that contain the account. It is part of each
	// loss, so an approval from lost records matches no loss.
	Records string `json:"records,omitempty"`
	// Closed is the highest attempt whose approval was used or has ended.
	Closed int `json:"closed,omitempty"`
	// Entries are the open entries and the most recent closed ones.
	Entries []LedgerEntry `json:"entries,omitempty"`
}

// Open returns the open entry for a loss, nil for none.
func (a Account) Open(l Loss) *LedgerEntry {
	i := slices.IndexFunc(a.Entries, func(e LedgerEntry) bool { return e.Loss == l && e.IsOpen() })
	if i < 0 {
		return nil
	}
	return &a.Entries[i]
}

// HasOpen reports whether any entry is open.
func (a Account) HasOpen() bool { return slices.ContainsFunc(a.Entries, LedgerEntry.IsOpen) }

// Numbered returns a loss as it is shown and approved now: with the attempt of
// its open entry, or with the next attempt.
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
