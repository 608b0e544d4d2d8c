package model

import (
	"slices"

	"github.com/slipway-gitops/slipway/engine/site"
)

// people is the oracle: what people read and decided, and what has happened to it
// since. It knows nothing of accounts, attempts, terms or claims.
type people struct {
	read    []reading
	decided []decision
	// age goes up whenever what was read before must not be approved any more:
	// a decision was used or has ended, the node was removed, records were lost.
	age uint8
}

// reading is a loss that was shown to somebody.
type reading struct {
	loss site.Loss
	age  uint8
	// again is set when it counts anew once it is shown again.
	again bool
}

// decision is one decision of a person that one loss may happen.
type decision struct {
	generation int
	disks      byte
	line       string // the line of the design that says so; empty for a command
	late       bool   // when it was made
	// live is set while it may be used.
	live bool
	// stale is set when what was read was out of date: it allows nothing.
	stale bool
	// met is set once a daemon that acts for the site planned the loss.
	met bool
	// unsure is set when records were replaced since: the daemon that acts may know
	// nothing of it.
	unsure bool
	// used is set when its installation begins, done when that is over.
	used, done bool
}

// reads notes what a daemon shows. What one shows that does not act for the site
// counts from when the one that does shows it.
func (p *people) reads(l site.Loss, acts bool) {
	for i, r := range p.read {
		if r.loss != l {
			continue
		}
		if r.again && acts {
			p.read = slices.Clone(p.read)
			p.read[i] = reading{loss: l, age: p.age}
		}
		return
	}
	p.read = append(slices.Clip(p.read), reading{loss: l, age: p.age, again: !acts})
}

// decides notes a decision on what was read. One on what was read too long ago
// allows nothing.
func (p *people) decides(r reading, line string, late bool) {
	p.decided = append(slices.Clip(p.decided), decision{
		generation: r.loss.Generation, disks: r.loss.Disks[0], line: line, late: late, live: true, stale: r.age != p.age && !r.again, met: line == "",
	})
}

// endsDecisions ends the decisions for which it is so.
func (p *people) endsDecisions(so func(decision) bool) {
	for i, d := range p.decided {
		if !d.live || !so(d) {
			continue
		}
		p.own()
		p.decided[i].live = false
		// One that no daemon knew of has approved nothing.
		if d.met && !d.unsure && !d.stale {
			p.age++
		}
	}
}

// own has the decisions be of this world alone before one is changed.
func (p *people) own() { p.decided = slices.Clone(p.decided) }

// underWay says whether an installation has begun and is not over.
func (p *people) underWay() bool {
	return slices.ContainsFunc(p.decided, func(d decision) bool { return d.used && !d.done })
}

// acts says whether a daemon is the one that acts for the site.
func (w *world) acts(d *daemon) bool { return d.running && d.run == w.published.run }

// look has time, the design and the machine end decisions. The design and the
// machine do so only when a daemon that acts for the site looks at them.
func (w *world) look() {
	p := &w.people
	over := func(d decision) bool { return w.late && !d.late && d.met }
	p.endsDecisions(func(d decision) bool { return d.line == "" && over(d) })
	acting := false
	for i := range w.daemons {
		d := &w.daemons[i]
		acting = acting || w.acts(d)
	}
	if !acting {
		return
	}
	planned := func(d decision) bool {
		return w.design.has && d.generation == w.design.generation && d.disks == w.machine.disks
	}
	for i, d := range p.decided {
		// A line in the design counts from when a daemon sees it, and plans for a
		// machine that is not being installed.
		if !d.met && !p.underWay() && planned(d) && d.line == w.design.line {
			p.own()
			p.decided[i].met, p.decided[i].unsure, p.decided[i].late = true, false, w.late
		}
	}
	p.endsDecisions(func(d decision) bool {
		return over(d) || d.line != "" && d.line != w.design.line || d.met && !planned(d)
	})
}

// beginAnew has nothing count that was decided or read before: the daemon that
// acts from now on cannot know what of it was used.
func (p *people) beginAnew() {
	p.endsDecisions(func(decision) bool { return true })
	p.age++
	p.own()
	for i := range p.decided {
		p.decided[i].done = p.decided[i].done || p.decided[i].used
	}
	p.read = slices.Clone(p.read)
	for i := range p.read {
		p.read[i].again = false
	}
}

// known are the decisions that a daemon knows of, one bit each.
func (p *people) known() uint8 {
	var known uint8
	for i, d := range p.decided {
		if d.met {
			known |= 1 << i
		}
	}
	return known
}

// forget has a line that stands in the design count anew, and what is shown again:
// the daemon that acts from now on has older records, which know of some
// decisions only.
func (p *people) forget(known uint8) {
	p.own()
	p.read = slices.Clone(p.read)
	for i := range p.read {
		p.read[i].again = true
	}
	for i := range p.decided {
		d := &p.decided[i]
		if known&(1<<i) != 0 {
			continue
		}
		d.unsure = true
		if d.line != "" {
			d.met, d.stale = false, false
		}
	}
}

// allowed is the decision that allows an installation to begin, from 1; 0 for
// none. It is used by that.
func (w *world) allowed(l site.Loss) uint8 {
	p := &w.people
	for i, d := range p.decided {
		if d.live && !d.stale && d.generation == l.Generation && d.disks == w.machine.disks {
			p.own()
			p.decided[i].live, p.decided[i].used = false, true
			p.age++
			return uint8(i + 1)
		}
	}
	return 0
}

// erase erases the disks of the machine. All rules are about this moment.
func (w *world) erase(by step) {
	p := &w.people
	switch {
	case by.decision == 0:
		w.wrong = "the disks are erased, and no decision of a person allows it"
		return
	case p.decided[by.decision-1].done:
		w.wrong = "the disks are erased again by a decision whose installation is over"
		return
	}
	if before := w.machine.erased; before != by.decision {
		w.overWith(before)
	}
	w.machine.generation, w.machine.erased, w.machine.wanted = 0, by.decision, by.loss.Generation
}

// complete is the moment at which the new system runs.
func (w *world) complete() {
	w.overWith(w.machine.erased)
	w.machine.generation, w.machine.erased, w.machine.wanted = w.machine.wanted, 0, 0
}

// overWith notes that the installation of a decision is over.
func (w *world) overWith(decision uint8) {
	if decision > 0 {
		w.people.own()
		w.people.decided[decision-1].done = true
	}
}
