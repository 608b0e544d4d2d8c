// Package model explores the life of an approval: every order of events in a
// small world of one node, two daemons and their records, people, a design and
// Git. It asks the rules of engine/ledger what the daemons do, and judges what
// happens to the machine by what the people decided, which the daemons do not
// know of.
package model

import (
	"encoding/binary"
	"strconv"
	"time"

	"github.com/slipway-gitops/slipway/engine/ledger"
	"github.com/slipway-gitops/slipway/engine/site"
)

// world is one state of everything. What its slices and pointers lead to is shared
// with other states, and never changed.
type world struct {
	daemons [2]daemon
	// backup is a copy of the first daemon's records.
	backup  *records
	design  design
	machine machine
	// published is what the status branch says.
	published published
	// late is set once the time of all approvals that were given before has
	// passed.
	late   bool
	people people
	// spent counts the events of each kind that are bounded.
	spent [kinds]uint8
	// named is how many records have got a name.
	named uint8
	// wrong is the first rule that was broken; empty for none.
	wrong string
}

// daemon is one host: its records, and its process if it runs.
type daemon struct {
	records
	running bool
	// run tells this start of the process from all others.
	run             uint8
	claimed, barred bool
	// permitted is set from the permission to destroy until the first write.
	permitted bool
	// older is set when the records were replaced by older ones since the daemon
	// ran last.
	older bool
}

// records are what a daemon finds again after a restart.
type records struct {
	name      string // site.Account.Records; empty before the first start
	account   site.Account
	blank     bool
	installed int
	step      step
	claims    []uint8
	// known are the decisions that were known when the records were backed up.
	known uint8
}

// step is the installation that was begun.
type step struct {
	begun, consumed bool
	loss            site.Loss
	// decision is which decision the oracle counts it to, from 1; 0 for none.
	decision uint8
}

type design struct {
	has        bool // the node
	generation int
	line       string // the set that its approvals name
}

// machine is what the hardware is in truth.
type machine struct {
	generation int
	disks      byte
	// erased is the decision to which the oracle counts the installation that
	// has erased the disks and is not complete, from 1; wanted its generation.
	erased uint8
	wanted int
}

type published struct {
	run     uint8
	account site.Account
}

// kinds of events that are bounded.
const (
	decisions = iota
	designs
	starts
	losses
	copies
	swaps
	removals
	kinds
)

var kindNames = [kinds]string{"decisions", "designs", "starts", "losses", "copies", "swaps", "removals"}

// beginning is when approvals are given, unless the time has passed.
var beginning = time.Unix(1_700_000_000, 0)

func (w *world) now() time.Time {
	if w.late {
		return beginning.Add(ledger.Lasts)
	}
	return beginning
}

// digest names a set of one loss.
func digest(l site.Loss) string {
	return l.Records + "/" + strconv.Itoa(l.Attempt) + "/" + strconv.Itoa(l.Generation) + "/" + l.Disks
}

// key tells a state from all others that go on in another way.
func (w *world) key() string {
	b := make([]byte, 0, 256)
	bit := func(all ...bool) {
		var x byte
		for i, is := range all {
			if is {
				x |= 1 << i
			}
		}
		b = append(b, x)
	}
	text := func(s string) { b = append(append(b, s...), 0) }
	number := func(n int) { b = binary.AppendUvarint(b, uint64(n)) }
	loss := func(l site.Loss) { text(digest(l)) }
	accounted := func(a site.Account) {
		text(a.Records)
		number(a.Closed)
		number(len(a.Entries))
		for _, e := range a.Entries {
			loss(e.Loss)
			bit(e.Consumed.IsZero(), e.Ended.IsZero(), e.Source.Kind == site.ByDesign, w.now().Before(e.Expires), e.Ended.After(beginning), e.Consumed.After(beginning))
			if e.IsOpen() {
				text(e.Set)
			}
		}
	}
	recorded := func(r *records) {
		text(r.name)
		accounted(r.account)
		bit(r.blank, r.step.begun, r.step.consumed)
		number(r.installed)
		if r.step.begun {
			loss(r.step.loss)
			number(int(r.step.decision))
		}
		b = append(append(b, r.claims...), 255, r.known)
	}
	for i := range w.daemons {
		d := &w.daemons[i]
		recorded(&d.records)
		bit(d.running, d.claimed, d.barred, d.permitted, d.older)
		number(int(d.run))
	}
	bit(w.backup != nil, w.late, w.design.has, w.wrong != "")
	if w.backup != nil {
		recorded(w.backup)
	}
	number(w.design.generation)
	text(w.design.line)
	b = append(b, byte(w.machine.generation), w.machine.disks, w.machine.erased, byte(w.machine.wanted))
	b = append(b, w.published.run)
	accounted(w.published.account)
	number(len(w.people.read))
	for _, r := range w.people.read {
		loss(r.loss)
		bit(r.age == w.people.age, r.again)
	}
	number(len(w.people.decided))
	for _, d := range w.people.decided {
		bit(d.live, d.stale, d.met, d.unsure, d.used, d.done, d.late)
		if d.live {
			number(d.generation)
			b = append(b, d.disks)
			text(d.line)
		}
	}
	b = append(b, w.spent[:]...)
	return string(append(b, w.named))
}
