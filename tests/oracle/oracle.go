// Package oracle is the ledger of destruction as the people of a test keep it:
// which losses they were shown and approved, and which machine stands where. It
// is told of every request at a machine that leads to a loss, and of every loss,
// and says which of them no person approved.
//
// It knows nothing of the engine. What it is told comes from the simulated
// people, from the repository and from the machines themselves; the engine is
// believed in nothing but the text that it shows to people.
//
// The life of an entry, as people understand it:
//
//	opened ──► begun ──► lost
//	   └──────────► ended     its design left force, its line went, its time
//	                          passed, a person took it back, or the records
//	                          that it was written in were lost
//
// Nothing leads back, whoever approves the same line of a set again: a second
// loss has to be shown as another line.
package oracle

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Lasts is for how long people expect an approval to be usable.
const Lasts = 7 * 24 * time.Hour

// Action is how data is lost.
type Action string

// The actions.
const (
	Install Action = "install" // a machine boots an installer
	Erase   Action = "erase"   // a machine's disks are erased, or replaced
)

// Line is one loss of a set as a person read it.
type Line struct {
	// Text is all of it as it was printed. Two lines that differ in anything
	// differ in it.
	Text string
	Node string
	// Machine is the machine that has the printed identity on its plate; empty
	// when no machine has it.
	Machine string
	Action  Action
	// Generation and Image are what is installed; Image is a digest.
	Generation int
	Image      string
	// Disks are serial numbers, nil when the text says that they are unknown.
	Disks []string
}

// Set is what a person reads and approves, by its digest.
type Set struct {
	Digest string
	Lines  []Line
}

// Want is what a design asks of a node.
type Want struct {
	// Machine is the one that the design names for the node; empty for none.
	Machine string
	// Generation and Image are what is to be installed, 0 for nothing.
	Generation int
	Image      string
	// Erased says that the node is given up.
	Erased bool
}

// Design is a commit as people wrote it.
type Design struct {
	Commit string
	// Has are the commits that are in its history, itself among them.
	Has   map[string]bool
	Nodes map[string]Want
	// Approvals are the digests that its lines approve.
	Approvals []string
	// Beside says that another engine may still go by an earlier design. What that
	// plans goes on.
	Beside bool
}

// Loss is what a machine is asked for, or what happens to it.
type Loss struct {
	When    time.Time
	Machine string
	Action  Action
	// Node, Generation and Image are what the medium installs.
	Node       string
	Generation int
	Image      string
}

func (l Loss) String() string {
	if l.Action == Install {
		return fmt.Sprintf("install generation %d of %s (image %s) on machine %s", l.Generation, l.Node, l.Image, l.Machine)
	}
	return fmt.Sprintf("%s machine %s", l.Action, l.Machine)
}

// means are how people approve.
type means int

const (
	byCommand means = iota
	byLine
	byMerge
)

// Entry is the approval of one line.
type Entry struct {
	Line
	// By is who approved and how, Set the digest of what was approved.
	By, Set string
	Opened  time.Time
	// Begun is when the machine was made to lose its data, Lost when that was
	// lost; zero before.
	Begun, Lost time.Time
	// Ended is when the entry ended, Why the reason; zero before.
	Ended time.Time
	Why   string

	means   means
	expires time.Time // by the clock of the engine's host
	asked   bool      // a request of the loss was sent while it was open
}

func (e *Entry) isOpen() bool { return e.Begun.IsZero() && e.Ended.IsZero() }

// Ledger keeps the entries. Its methods may be called at the same time.
type Ledger struct {
	// Lag is how long before a request an engine may have looked at what people
	// approved last.
	Lag time.Duration
	// DisksLag is the same for the disks of a machine, of which nobody tells.
	DisksLag time.Duration

	mu      sync.Mutex
	latest  time.Time // that the clock has shown
	shown   map[string]Set
	entries []*Entry
	merges  []merge
	design  Design
	beside  []Design           // that other engines may go by
	disks   map[string][]disks // by machine, oldest first
}

// merge is an approval that counts once a commit is in force.
type merge struct {
	set, by, commit string
	without         []string // nodes for which it was taken back
}

// disks are those of a machine from a time on.
type disks struct {
	from    time.Time
	serials []string
}

// New makes a ledger without entries, of which nothing was ever shown.
func New(lag, disksLag time.Duration) *Ledger {
	return &Ledger{Lag: lag, DisksLag: disksLag, shown: map[string]Set{}, disks: map[string][]disks{}}
}

// Clock says what time the host of an engine has: a time that was there once has
// passed, even when the clock is set back afterwards.
func (l *Ledger) Clock(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clockLocked(now)
}

func (l *Ledger) clockLocked(now time.Time) {
	if now.After(l.latest) {
		l.latest = now
	}
	for _, e := range l.entries {
		if e.isOpen() && !l.latest.Before(e.expires) {
			e.Ended, e.Why = e.expires, fmt.Sprintf("%s have passed", Lasts)
		}
	}
}

// Step says that the clock was set to another time, by a step: what was at a time
// was at another one as the clock is now. When an approval expires does not move.
func (l *Ledger) Step(by time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		for _, at := range []*time.Time{&e.Opened, &e.Begun, &e.Lost, &e.Ended} {
			if !at.IsZero() {
				*at = at.Add(by)
			}
		}
	}
	for _, is := range l.disks {
		for i := range is {
			is[i].from = is[i].from.Add(by)
		}
	}
}

// Shown says that people can read a set.
func (l *Ledger) Shown(s Set) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shown[s.Digest] = s
}

// Approve is a person approving a set by its digest, with a command or a comment,
// and being told for which nodes. It counts for what the design in force plans:
// nobody can approve what does not wait.
func (l *Ledger) Approve(now time.Time, digest, by string, told func(node string) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clockLocked(now)
	l.openLocked(now, digest, by, byCommand, told)
}

// ApproveByMerge is a person merging, as a commit, a proposal whose comment they
// have read, which named a set. It counts once the commit is in force.
func (l *Ledger) ApproveByMerge(now time.Time, digest, by, commit string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clockLocked(now)
	l.merges = append(l.merges, merge{set: digest, by: by, commit: commit})
	l.openMergedLocked(now)
}

// InForce says that an engine keeps the machines by a design from now on.
func (l *Ledger) InForce(now time.Time, d Design) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clockLocked(now)
	if d.Beside {
		l.beside = append(l.beside, l.design)
	} else {
		l.beside = nil
		l.endLocked(now, fmt.Sprintf("%s, which is in force, does not plan it", d.Commit), func(e *Entry) bool { return !d.plans(e.Line) })
		l.endLocked(now, fmt.Sprintf("its line is not in %s, which is in force", d.Commit), func(e *Entry) bool {
			return e.means == byLine && !slices.Contains(d.Approvals, e.Set)
		})
	}
	l.design = d
	for _, digest := range d.Approvals {
		l.openLocked(now, digest, "a line of "+d.Commit, byLine, all)
	}
	l.openMergedLocked(now)
}

// plans says whether a design asks for a loss.
func (d Design) plans(l Line) bool {
	w, there := d.Nodes[l.Node]
	switch {
	case !there || w.Machine != "" && w.Machine != l.Machine:
		return false
	case l.Action == Erase:
		return w.Erased
	}
	return !w.Erased && w.Generation == l.Generation && w.Image == l.Image
}

// plannedLocked says whether an engine may plan a loss.
func (l *Ledger) plannedLocked(line Line) bool {
	return l.design.plans(line) || slices.ContainsFunc(l.beside, func(d Design) bool { return d.plans(line) })
}

// openMergedLocked opens what was approved by merges that are in force.
func (l *Ledger) openMergedLocked(now time.Time) {
	l.merges = slices.DeleteFunc(l.merges, func(m merge) bool {
		if !l.design.Has[m.commit] {
			return false
		}
		l.openLocked(now, m.set, m.by, byMerge, func(node string) bool { return !slices.Contains(m.without, node) })
		return true
	})
}

// openLocked opens an entry for each line of a set that the design in force plans
// and that was never approved before, or by another decision of which nothing came:
// an engine asks the forge about a merge some time later, and one that died has
// opened nothing. Until then the same line waits, and people decide on it anew. A line
// of a design counts for what that design plans, and not for what engines do that go
// by others.
func (l *Ledger) openLocked(now time.Time, digest, by string, how means, counts func(node string) bool) {
	for _, line := range l.shown[digest].Lines {
		planned := l.plannedLocked(line)
		if how == byLine {
			planned = l.design.plans(line) // by the design that has it
		}
		if !planned || !counts(line.Node) {
			continue
		}
		opened := &Entry{Line: line, By: by, Set: digest, Opened: now, means: how, expires: now.Add(Lasts)}
		switch i := slices.IndexFunc(l.entries, func(e *Entry) bool { return e.Text == line.Text }); {
		case i < 0:
			l.entries = append(l.entries, opened)
		case !l.entries[i].asked && l.entries[i].Begun.IsZero() && (l.entries[i].Set != digest || how == byCommand && l.entries[i].means != byCommand):
			l.entries[i] = opened
		}
	}
}

func all(string) bool { return true }

// Disapprove is a person taking back what was approved by a set's digest, or for
// a node where the digest is empty, and being told for which nodes that comes in
// time.
func (l *Ledger) Disapprove(now time.Time, digest, node string, told func(node string) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clockLocked(now)
	l.endLocked(now, "a person took it back", func(e *Entry) bool {
		return told(e.Node) && (digest != "" && e.Set == digest || digest == "" && e.Node == node)
	})
	if digest != "" {
		l.merges = slices.DeleteFunc(l.merges, func(m merge) bool { return m.set == digest })
		return
	}
	for i := range l.merges {
		l.merges[i].without = append(l.merges[i].without, node)
	}
}

// Forget says that the records of all that was approved are gone, or are not to be
// trusted any more.
func (l *Ledger) Forget(now time.Time, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clockLocked(now)
	l.endLocked(now, why, func(*Entry) bool { return true })
	l.merges = nil
}

// endLocked ends the entries that are open.
func (l *Ledger) endLocked(now time.Time, why string, which func(*Entry) bool) {
	for _, e := range l.entries {
		if e.isOpen() && which(e) {
			e.Ended, e.Why = now, why
		}
	}
}

// Disks says which disks are in a machine from now on.
func (l *Ledger) Disks(now time.Time, machine string, serials []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.disks[machine] = append(l.disks[machine], disks{now, slices.Sorted(slices.Values(serials))})
}

// Asked says that the first of the requests was sent that lead to a loss on a
// machine, whether it came there or not: what was begun goes on.
func (l *Ledger) Asked(now time.Time, machine string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clockLocked(now)
	for _, e := range l.entries {
		if e.Machine == machine && l.usableLocked(e, now) && l.hadLocked(machine, e.Disks, now) {
			e.asked = true
		}
	}
}

// TakenBack says that what was prepared on a machine was taken back before
// anything was lost.
func (l *Ledger) TakenBack(machine string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if e.Machine == machine {
			e.asked = false
		}
	}
}

// Armed says that a machine is made to lose its data by whatever comes next: that
// its next boot is that of an installer. The error says why nobody wanted it.
func (l *Ledger) Armed(x Loss) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clockLocked(x.When)
	_, err := l.beginLocked(x, true)
	return err
}

// Lost says that a machine has lost its data. The error says why nobody wanted
// it.
func (l *Ledger) Lost(x Loss) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clockLocked(x.When)
	e, err := l.beginLocked(x, false)
	if err == nil {
		e.Lost = x.When
	}
	return err
}

const nobody = "nobody approved it"

// beginLocked uses the entry of a loss. One that was begun goes on until the data
// is lost, but over no other disks, nor for ever: a machine is armed anew for its
// own only, and what was armed before is lost with whatever was put in since.
func (l *Ledger) beginLocked(x Loss, arming bool) (*Entry, error) {
	why := nobody
	for _, e := range slices.Backward(l.entries) {
		reason := l.reasonLocked(e, x, arming)
		if reason == "" {
			if e.Begun.IsZero() {
				e.Begun = x.When
			}
			return e, nil
		}
		if why == nobody {
			why = reason
		}
	}
	return nil, fmt.Errorf("%s: %s", x, why)
}

// reasonLocked says why a loss is not that of an entry; empty when it is.
func (l *Ledger) reasonLocked(e *Entry, x Loss, arming bool) string {
	by := fmt.Sprintf("what %s approved at %s", e.By, e.Opened.UTC().Format("15:04:05"))
	switch {
	case e.Action != x.Action || e.Node != x.Node:
		return nobody
	case e.Machine != x.Machine:
		return fmt.Sprintf("%s is for machine %q", by, e.Machine)
	case e.Generation != x.Generation || e.Image != x.Image:
		return fmt.Sprintf("%s is generation %d of image %s", by, e.Generation, e.Image)
	case !e.Lost.IsZero():
		return fmt.Sprintf("%s was used at %s", by, e.Lost.UTC().Format("15:04:05"))
	case !e.Begun.IsZero() && !arming:
		return ""
	case !l.hadLocked(x.Machine, e.Disks, x.When):
		return fmt.Sprintf("%s are the disks %s, and the machine has others", by, strings.Join(e.Disks, ", "))
	case !e.Begun.IsZero() || e.asked:
		if x.When.Sub(e.Opened) > 2*Lasts+l.Lag {
			return by + " was begun too long ago to go on"
		}
		return ""
	case e.Opened.After(x.When):
		return by + " came later"
	case !l.usableLocked(e, x.When):
		return fmt.Sprintf("%s ended at %s: %s", by, e.Ended.UTC().Format("15:04:05"), e.Why)
	}
	return ""
}

// usableLocked says whether an engine could still use an entry at a time.
func (l *Ledger) usableLocked(e *Entry, at time.Time) bool {
	return !e.Opened.After(at) && (e.Ended.IsZero() || !e.Ended.Before(at.Add(-l.Lag)))
}

// hadLocked says whether a machine had the disks, nil for any, when they could be
// looked at last before a time.
func (l *Ledger) hadLocked(machine string, serials []string, at time.Time) bool {
	if serials == nil {
		return true
	}
	want := slices.Sorted(slices.Values(serials))
	is := l.disks[machine]
	for i, d := range is {
		over := i+1 < len(is) && is[i+1].from.Before(at.Add(-l.DisksLag))
		if !d.from.After(at) && !over && slices.Equal(d.serials, want) {
			return true
		}
	}
	return false
}

// Entries are all entries, oldest first.
func (l *Ledger) Entries() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []Entry
	for _, e := range l.entries {
		all = append(all, *e)
	}
	return all
}
