package site

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
)

// EraseReport is the result of erasing the disks of one machine, for an installation or because its
// node left the design.
type EraseReport struct {
	// Generation is the generation of the installation, 0 for none.
	Generation int `json:"generation,omitempty"`
	// Attempt is the attempt of the approval.
	Attempt int      `json:"attempt,omitempty"`
	Machine Identity `json:"machine,omitzero"`
	// Began is when the agent was first asked.
	Began time.Time `json:"began"`
	// Disks are all disks that were to be erased, by their names in the design. For a disk without
	// a try, no result was reported.
	Disks []item.Erasure `json:"disks"`
	// Unseen are disks that the BMC listed and the agent did not see, for a machine that leaves the
	// design. Slipway does not know whether they are erased.
	Unseen []string `json:"unseen,omitempty"`
}

// mostReports is how many reports are kept per node.
const mostReports = 4

// NoteErasing begins the report of a step that erases disks first. A later try adds the disks that it erases and that no
// earlier one did, and those that are not seen any more.
func (r *Recorded) NoteErasing(s Step, l item.Layout, unseen []string, now time.Time) {
	if l.Erase == "" {
		return
	}
	at := r.reportOf(s)
	if at < 0 {
		r.Erased = append(slices.Clone(r.Erased[max(0, len(r.Erased)-mostReports+1):]), EraseReport{Generation: s.Generation, Attempt: s.Attempt, Machine: s.Machine, Began: now})
		at = len(r.Erased) - 1
	}
	is := r.Erased[at]
	is.Disks, is.Unseen = slices.Clone(is.Disks), slices.Clone(is.Unseen)
	for _, d := range l.Destroys {
		e := item.Erasure{Disk: d.Name, Serial: d.Serial, WWN: d.WWN, Model: d.Model, Bytes: d.Bytes}
		if !slices.ContainsFunc(is.Disks, func(there item.Erasure) bool { return there.ID() == e.ID() }) {
			is.Disks = append(is.Disks, e)
		}
	}
	for _, name := range unseen {
		if !slices.Contains(is.Unseen, name) {
			is.Unseen = append(is.Unseen, name)
		}
	}
	r.Erased = slices.Clone(r.Erased)
	r.Erased[at] = is
}

// NoteErased notes the result of erasing one disk. Repeated results change nothing.
func (r *Recorded) NoteErased(s Step, e item.Erasure, now time.Time) {
	i := r.reportOf(s)
	if i < 0 {
		return
	}
	disks := slices.Clone(r.Erased[i].Disks)
	at := slices.IndexFunc(disks, func(d item.Erasure) bool { return d.ID() == e.ID() })
	if at < 0 || disks[at].Done || disks[at].Done == e.Done && reflect.DeepEqual(disks[at].Tries, e.Tries) {
		return
	}
	e.Began, e.Ended = now.Add(-e.Took()), now
	disks[at] = e
	r.Erased = slices.Clone(r.Erased)
	r.Erased[i].Disks = disks
}

// LastErased returns the newest report, nil if there is none.
func (r *Recorded) LastErased() *EraseReport {
	if len(r.Erased) == 0 {
		return nil
	}
	return &r.Erased[len(r.Erased)-1]
}

// Erases reports whether a step has begun to erase disks, and some of them are not known to be done.
func (r *Recorded) Erases(s Step) bool {
	i := r.reportOf(s)
	return i >= 0 && slices.ContainsFunc(r.Erased[i].Disks, func(d item.Erasure) bool { return !d.Done })
}

// ErasedIn returns the IDs of the disks that a step has erased so far.
func (r *Recorded) ErasedIn(s Step) (ids []string) {
	if i := r.reportOf(s); i >= 0 {
		for _, d := range r.Erased[i].Disks {
			if d.Done {
				ids = append(ids, d.ID())
			}
		}
	}
	return ids
}

func (r *Recorded) reportOf(s Step) int {
	return slices.IndexFunc(r.Erased, func(e EraseReport) bool {
		return e.Generation == s.Generation && e.Attempt == s.Attempt && e.Machine == s.Machine
	})
}

// For says what the disks were erased for.
func (r EraseReport) For() string {
	if r.Generation == 0 {
		return "decommissioned"
	}
	return fmt.Sprintf("generation %d", r.Generation)
}

// Verdict is the report in one line.
func (r EraseReport) Verdict() string {
	done, not, unknown := 0, 0, 0
	for _, d := range r.Disks {
		switch {
		case d.Done:
			done++
		case len(d.Tries) > 0:
			not++
		default:
			unknown++
		}
	}
	text := fmt.Sprintf("%d of %d disks erased", done, len(r.Disks))
	if not > 0 {
		text += fmt.Sprintf(", %d could not be erased", not)
	}
	if unknown > 0 {
		text += fmt.Sprintf(", no report on %d from the agent", unknown)
	}
	if len(r.Unseen) > 0 {
		text += fmt.Sprintf(", %d more that only the BMC lists", len(r.Unseen))
	}
	return text
}
