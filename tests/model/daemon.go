package model

import (
	"slices"
	"strconv"
	"time"

	"github.com/slipway-gitops/slipway/engine/ledger"
	"github.com/slipway-gitops/slipway/engine/site"
)

// protection is something that keeps a loss from happening that nobody decided
// on. One can be left out, to see that it is needed.
type protection string

const (
	none             protection = ""
	recordsInLoss    protection = "a loss names the records that showed it"
	attempts         protection = "an approval that was used or has ended counts up the attempts"
	usedOnce         protection = "an approval is used once"
	recordedFirst    protection = "the use of an approval is recorded before the first write"
	expiry           protection = "approvals expire"
	lineGoes         protection = "an approval ends with its line in the design"
	nodeGoes         protection = "an approval ends when the node leaves the design"
	notPlanned       protection = "an approval ends when its loss is not planned any more"
	accountCloses    protection = "the removal of a node closes its account"
	claims           protection = "the published claim of another daemon bars this one"
	claimAgain       protection = "the published claim is read again before the disks are erased"
	comparesLedger   protection = "records that are older than the published ledger bar the daemon"
	beginsAnew       protection = "a take-over ends all approvals"
	endsSteps        protection = "a take-over ends an installation that was under way"
	permits          protection = "the approval is looked up again before the disks are erased"
	ordersClaimed    protection = "the published claim is read again before approvals are given or taken back"
	disksInLoss      protection = "a loss names the disks"
	looksBeforeAgain protection = "the machine is looked at before an installation is resumed"
)

// protections are those without each of which something goes wrong.
var protections = []protection{recordsInLoss, attempts, usedOnce, recordedFirst, expiry, lineGoes, nodeGoes, notPlanned,
	accountCloses, claims, claimAgain, comparesLedger, beginsAnew, endsSteps, ordersClaimed, permits, disksInLoss, looksBeforeAgain}

// assumption is something about the world that Slipway does not enforce.
type assumption string

const (
	publishedSoon assumption = "what was used or has ended is published before the records are set back, or a copy of them starts"
	personIsRight assumption = "no other daemon runs when a person says so by a take-over"
)

var assumptions = []assumption{publishedSoon, personIsRight}

// rules are the rules of one exploration.
type rules struct {
	without protection
	denied  assumption
	most    [kinds]uint8
}

const node = "n1"

// account is the node's account as the daemon sees it.
func (r *rules) account(s *records) site.Account {
	a := s.account
	a.Records = s.name
	if r.without == recordsInLoss {
		a.Records = ""
	}
	return a
}

// set takes over a changed account.
func (r *rules) set(s *records, a site.Account) {
	if r.without == attempts {
		a.Closed = 0
	}
	s.account = a
}

// planned is what the daemon plans to lose, none or one.
func (r *rules) planned(w *world, d *daemon) (site.Loss, bool) {
	if !w.design.has || w.design.generation <= d.installed || d.step.consumed {
		return site.Loss{}, false
	}
	l := site.Loss{Node: node, Action: "install generation " + strconv.Itoa(w.design.generation), Generation: w.design.generation, Disks: string(w.machine.disks)}
	if r.without == disksInLoss {
		l.Disks = site.DisksUnknown
	}
	return r.account(&d.records).Numbered(l), true
}

// situation decides whether the daemon's approvals go on.
func (r *rules) situation(w *world, d *daemon) ledger.Why {
	s := ledger.Situation{Now: w.now(), Line: func(set string) bool { return w.design.line == set || r.without == lineGoes }}
	if l, ok := r.planned(w, d); ok {
		s.Planned = site.Losses{l}
	}
	if !w.design.has && r.without != nodeGoes {
		s.Gone = "the node left the design"
	}
	return func(e site.LedgerEntry) string {
		s := s
		if r.without == expiry {
			s.Now = time.Time{}
		}
		if !w.design.has && r.without == nodeGoes || w.design.has && r.without == notPlanned {
			s.Planned = site.Losses{e.Loss}
		}
		return s.Ends(e)
	}
}

// reconcile is what a daemon does by itself, at once, whenever something has
// changed: it looks at the machine, ends approvals, shows what waits, opens what
// a line of the design approves, and publishes its ledger.
func (r *rules) reconcile(w *world, d *daemon) {
	r.observe(w, d)
	a, _ := ledger.End(r.account(&d.records), w.now(), r.situation(w, d))
	r.set(&d.records, a)
	if l, ok := r.planned(w, d); ok {
		if r.account(&d.records).Open(l) == nil {
			w.people.reads(r.asRead(w, l), w.acts(d))
		}
		if w.design.line == digest(l) {
			r.open(w, d, l, site.ByDesign)
		}
	}
	if r.denied != publishedSoon {
		w.publish(d)
	}
}

// asRead is a loss as a person understands it: of the machine with the disks that
// it has.
func (r *rules) asRead(w *world, l site.Loss) site.Loss {
	if r.without == disksInLoss {
		l.Disks = string(w.machine.disks)
	}
	return l
}

// observe looks at the machine's system. Its marker is signed.
func (r *rules) observe(w *world, d *daemon) {
	g := w.machine.generation
	if w.machine.erased > 0 || g == 0 {
		return
	}
	switch {
	case d.step.consumed && !d.permitted && g == d.step.loss.Generation && r.without != looksBeforeAgain:
		d.installed, d.step = g, step{}
	case g > max(d.installed, d.step.loss.Generation) && d.blank:
		d.installed, d.step = g, step{}
	case g > max(d.installed, d.step.loss.Generation):
		d.barred, d.permitted = true, false
	}
}

// publish has the status branch say what the ledger says.
func (w *world) publish(d *daemon) {
	if d.claimed && !d.barred && d.run == w.published.run {
		w.published.account = d.account
		w.published.account.Records = d.name
	}
}

func (r *rules) open(w *world, d *daemon, l site.Loss, kind site.ApprovalKind) bool {
	by := ledger.Approval{Set: digest(l), Source: site.ApprovalSource{Kind: kind}, When: w.now()}
	a, err := ledger.Open(r.account(&d.records), l, by)
	if err == nil {
		r.set(&d.records, a)
	}
	return err == nil
}

// refuses says whether the daemon refuses orders, because another one acts for the
// site.
func (r *rules) refuses(w *world, d *daemon) bool {
	return d.barred || r.without != ordersClaimed && r.isOthers(w, d)
}

// approve is the command of a person who has read a loss.
func (r *rules) approve(w *world, d *daemon, read reading) bool {
	l := read.loss
	if r.without == disksInLoss {
		l.Disks = site.DisksUnknown
	}
	waits, ok := r.planned(w, d)
	return ok && waits == l && r.open(w, d, l, site.ByCommand)
}

// start starts the daemon, which claims the site unless something bars it.
func (r *rules) start(w *world, d *daemon) {
	d.running = true
	d.run = w.spent[starts]
	if d.name == "" {
		r.begin(w, &d.records)
	}
	d.barred = r.isOthers(w, d) || r.without != comparesLedger && ledger.IsBehind(r.account(&d.records), w.published.account)
	r.claim(w, d)
}

// begin begins records.
func (r *rules) begin(w *world, s *records) {
	w.named++
	s.name, s.blank = "r"+strconv.Itoa(int(w.named)), true
}

func (r *rules) isOthers(w *world, d *daemon) bool {
	is := w.published.run
	return r.without != claims && is != 0 && is != d.run && !slices.Contains(d.claims, is)
}

func (r *rules) claim(w *world, d *daemon) {
	if d.barred {
		return
	}
	w.published.run, d.claimed = d.run, true
	d.claims = []uint8{d.run}
}

// takeOver is the command of a person who says that no other daemon acts.
func (r *rules) takeOver(w *world, d *daemon) {
	if r.without != beginsAnew {
		a, _ := ledger.End(r.account(&d.records), w.now(), func(site.LedgerEntry) string { return "taken over" })
		r.set(&d.records, a)
		r.begin(w, &d.records)
	}
	if r.without != endsSteps {
		d.step = step{}
	}
	d.barred = false
	r.claim(w, d)
}

// beginStep passes the gates.
func (r *rules) beginStep(w *world, d *daemon) bool {
	if d.barred || !d.claimed || d.permitted || d.step.consumed {
		return false
	}
	l, ok := r.planned(w, d)
	if !ok || d.step.begun && d.step.loss == l || r.account(&d.records).Open(l) == nil {
		return false
	}
	d.step = step{begun: true, loss: l}
	return true
}

// permit is the last look before the disks are erased. It uses the approval,
// unless the installation has used it and goes on.
func (r *rules) permit(w *world, d *daemon) bool {
	if !d.step.begun || d.permitted {
		return false
	}
	if r.without != claimAgain && r.isOthers(w, d) {
		d.barred = true
	}
	if d.barred || !d.claimed {
		return d.barred
	}
	if !d.step.consumed && !r.consume(w, d) {
		return false
	}
	d.permitted = true
	return true
}

func (r *rules) consume(w *world, d *daemon) bool {
	l := d.step.loss
	a, err := ledger.Consume(r.account(&d.records), l, w.now(), uint64(d.run))
	switch {
	case r.without == permits:
		// The gates have looked it up.
	case err != nil || !w.design.has || w.design.generation != l.Generation:
		return false
	}
	d.step.decision = w.allowed(l)
	if r.without == recordedFirst {
		return true // see record
	}
	if r.without == usedOnce {
		for i := range a.Entries {
			a.Entries[i].Consumed = time.Time{} // Consume has made a copy
		}
	} else {
		d.step.consumed = true
	}
	r.set(&d.records, a)
	return true
}

// write is the first write of the installation.
func (r *rules) write(w *world, d *daemon) {
	w.erase(d.step)
	d.permitted = false
	if r.without == recordedFirst {
		// In the meantime the daemon may have died.
		a, _ := ledger.Consume(r.account(&d.records), d.step.loss, w.now(), uint64(d.run))
		r.set(&d.records, a)
		d.step.consumed = true
	}
}

// stop ends the daemon's process at any moment.
func (d *daemon) stop() {
	d.running, d.claimed, d.barred, d.permitted = false, false, false, false
	if !d.step.consumed {
		d.step = step{}
	}
}

// disapprove takes all approvals back.
func (r *rules) disapprove(w *world, d *daemon) {
	a, _ := ledger.End(r.account(&d.records), w.now(), func(site.LedgerEntry) string { return "taken back" })
	r.set(&d.records, a)
	w.people.endsDecisions(func(decision) bool { return true })
}

// remove ends the life of a node that has left the design.
func (r *rules) remove(w *world, d *daemon) {
	a, _ := ledger.End(r.account(&d.records), w.now(), func(site.LedgerEntry) string { return "removed" })
	if r.without != accountCloses {
		a.Closed++
	}
	r.set(&d.records, a)
	d.installed, d.step = 0, step{}
	w.people.endsDecisions(func(decision) bool { return true })
	w.people.age++
}
