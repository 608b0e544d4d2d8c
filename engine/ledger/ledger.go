// Package ledger decides what approvals of destruction mean: which loss a person has
// approved, that each approval is used once, and when it ends. It is pure: accounts
// in, accounts out, no clock and no I/O.
//
// The life of an entry:
//
//	opened ──► consumed    the loss was about to happen
//	       └─► ended       time passed, a person took it back, its line in the
//	                       design went, or the loss is not planned any more
//
// Nothing leads back. A loss that comes again has a higher attempt, so it is another
// loss and needs another entry.
package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Lasts is how long an approval is valid.
const Lasts = 7 * 24 * time.Hour

// keep is how many closed entries an account keeps.
const keep = 8

// Approval is what a person approved.
type Approval struct {
	// Set is the digest of the set that the person read.
	Set    string
	Source site.ApprovalSource
	Note   string
	When   time.Time
}

// Open opens the entry for a loss. It refuses a loss that is not the account's next:
// one that was shown before an approval was used or ended, or by records that were
// lost. If the loss has an open entry already, that entry stays unchanged.
func Open(a site.Account, l site.Loss, by Approval) (site.Account, error) {
	switch {
	case a.Open(l) != nil:
		return a, nil
	case l.Records != a.Records:
		return a, fmt.Errorf("%w: the losses of %s were listed from other records than the present ones; see what waits now with `slipway approve`", site.ErrRefused, l.Node)
	case l.Attempt <= a.Closed:
		return a, fmt.Errorf("%w: the approval of this loss of %s was used, or has ended", site.ErrRefused, l.Node)
	case l.Disks == "":
		return a, fmt.Errorf("%w: the disks of %s were not read yet", site.ErrRefused, l.Node)
	}
	e := site.LedgerEntry{Loss: l, Set: by.Set, Source: by.Source, Note: by.Note, Opened: by.When, Expires: by.When.Add(Lasts)}
	a.Entries = append(slices.Clone(a.Entries), e)
	return a, nil
}

// Consume uses the open entry of a loss. Nothing is destroyed in any other way, and
// no entry is used twice.
func Consume(a site.Account, l site.Loss, now time.Time, term uint64) (site.Account, error) {
	i := slices.IndexFunc(a.Entries, func(e site.LedgerEntry) bool { return e.Loss == l && e.IsOpen() })
	switch {
	case i < 0:
		return a, fmt.Errorf("%w: nobody approved that %s of %s destroys %s", site.ErrRefused, l.Action, l.Node, l.Lost)
	case !now.Before(a.Entries[i].Expires):
		return a, fmt.Errorf("%w: the approval of %s of %s has ended", site.ErrRefused, l.Action, l.Node)
	}
	a.Entries = slices.Clone(a.Entries)
	e := &a.Entries[i]
	e.Consumed, e.Term = now, term
	return close(a, l.Attempt), nil
}

// Why returns why an open entry ends; empty if it does not.
type Why func(site.LedgerEntry) string

// End ends the open entries for which why gives a reason. It also returns these
// entries.
func End(a site.Account, now time.Time, why Why) (site.Account, []site.LedgerEntry) {
	var ended []site.LedgerEntry
	entries := slices.Clone(a.Entries)
	for i := range entries {
		e := &entries[i]
		if !e.IsOpen() {
			continue
		}
		if reason := why(*e); reason != "" {
			e.Ended, e.Why = now, reason
			ended = append(ended, *e)
		}
	}
	a.Entries = entries
	for _, e := range ended {
		a = close(a, e.Loss.Attempt)
	}
	return a, ended
}

// IsBehind reports whether an account lacks what was published of it: its records are
// then out of date, or a copy that took another course. Records that were set back
// may have caught up with the published Closed by now, since an approval that was
// really used has expired in them. So IsBehind compares the entries too.
func IsBehind(own, published site.Account) bool {
	if own.Records != published.Records {
		return false
	}
	if published.Closed > own.Closed {
		return true
	}
	return slices.ContainsFunc(published.Entries, func(e site.LedgerEntry) bool {
		i := slices.IndexFunc(own.Entries, func(o site.LedgerEntry) bool { return o.Loss == e.Loss })
		switch {
		case e.IsOpen():
			return false
		case i < 0:
			return own.Closed < e.Loss.Attempt+keep // by then the account has forgotten it
		}
		o := own.Entries[i]
		return !o.Consumed.Equal(e.Consumed) || !o.Ended.Equal(e.Ended)
	})
}

// Situation decides whether open entries of a node stay open.
type Situation struct {
	Now time.Time
	// Planned holds the losses that the design in force plans on the node, as the
	// machine was last seen. If its disks were not read, they are assumed unchanged.
	// Gone is why there are no losses, if the node is not in the design.
	Planned site.Losses
	Gone    string
	// Line reports whether the design has a line that approves a set.
	Line func(set string) bool
}

// Ends returns why an entry ends in this situation; empty if it does not.
func (s Situation) Ends(e site.LedgerEntry) string {
	switch {
	case !s.Now.Before(e.Expires):
		return fmt.Sprintf("it was not used within %d days", int(Lasts.Hours()/24))
	case e.Source.Kind == site.ByDesign && !s.Line(e.Set):
		return "its line in the design is gone"
	case s.Gone != "":
		return s.Gone
	case !slices.ContainsFunc(s.Planned, func(p site.Loss) bool {
		if p.Disks == "" {
			p.Disks = e.Loss.Disks
		}
		// Without its disks the loss has the next loss's number.
		p.Attempt = e.Loss.Attempt
		return p == e.Loss
	}):
		return differs(e.Loss, s.Planned)
	}
	return ""
}

// differs says which part of a loss is no longer planned.
func differs(l site.Loss, planned site.Losses) string {
	i := slices.IndexFunc(planned, func(p site.Loss) bool { return p.Action == l.Action })
	if i < 0 {
		return "the design in force no longer plans it"
	}
	switch p := planned[i]; {
	case p.Machine != l.Machine:
		return fmt.Sprintf("the machine is now %s and was %s", p.Machine, l.Machine)
	case p.Hypervisor != l.Hypervisor:
		return fmt.Sprintf("the machine is now on %s and was on %s", p.Hypervisor, cmp.Or(l.Hypervisor, "a hypervisor that the approval does not name"))
	case p.Image != l.Image:
		return "another image would be installed"
	case p.Disks != "" && p.Disks != l.Disks:
		return fmt.Sprintf("the disks of the machine are now %s and were %s", p.Disks, l.Disks)
	case p.Layout != l.Layout && l.Layout == "":
		return "it was given by a version of Slipway that named the layout of the disks by 8 digits alone"
	case p.Layout != l.Layout:
		return "the design asks for another layout of the disks"
	case p.Lost != l.Lost:
		return fmt.Sprintf("what would be lost is now %s", p.Lost)
	}
	return "the design in force plans it otherwise"
}

// close counts an attempt that is over, and drops the oldest closed entries.
func close(a site.Account, attempt int) site.Account {
	a.Closed = max(a.Closed, attempt)
	over := -keep
	for _, e := range a.Entries {
		if !e.IsOpen() {
			over++
		}
	}
	a.Entries = slices.DeleteFunc(slices.Clone(a.Entries), func(e site.LedgerEntry) bool {
		drop := over > 0 && !e.IsOpen()
		if drop {
			over--
		}
		return drop
	})
	return a
}
