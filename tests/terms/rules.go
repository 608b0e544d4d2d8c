package terms

import "time"

// protection is something that keeps a property. One can be left out, to see that it is needed.
type protection string

// Those that keep time.
const (
	margin       protection = "a leader stops writing some time before its lease ends"
	countsBefore protection = "a lease counts from before its renewal was asked for"
	waitsLease   protection = "a follower waits as long as a lease lasts before it begins a term"
	unchanged    protection = "a term begins only if the last one was not renewed meanwhile"
	checks       protection = "the lease is checked again immediately before the write"
	waitsWrites  protection = "destructive steps wait for the longest write of the term before"
	releasesIdle protection = "a term is released only when nothing of it is under way"
	keepsUnclean protection = "a term is not released while requests of the one before may be under way"
	waitsAnswer  protection = "a daemon waits for an answer as long as a write may take"
)

// Those that hold whatever clocks say.
const (
	recordsFence  protection = "etcd refuses records of an earlier leader"
	linearizable  protection = "records are read from a majority"
	usesFirst     protection = "the use of an approval is recorded before the request"
	looksFirst    protection = "the machine is looked at before the request is sent again"
	endsSessions  protection = "sessions of earlier terms are ended before the first write"
	recordsLogin  protection = "a session is recorded before anything is written through it"
	keepsKnown    protection = "sessions that a released term has not ended are known to the next one"
	noLoginAgain  protection = "a 401 to a write is not answered by logging in and sending it again"
	helperRefuses protection = "the helper refuses a lower term"
	helperLooks   protection = "the helper looks whether it was done before, while it lets nobody else in"
)

// assumption is something about machines that Slipway does not enforce.
type assumption string

const (
	letsNothing assumption = "a BMC carries out nothing for a session after it has said that the session is over"
	breaksAfter assumption = "a request whose connection breaks has arrived by then, or never does"
)

// kind is what a machine knows about who writes to it.
type kind uint8

const (
	sessions kind = iota // a BMC with sessions
	basic                // a BMC with basic authentication only
	helper               // the helper, or the agent in memory
)

// stops says what processes and clocks may do. A process may stop at any moment and continue at any later one.
type stops uint8

const (
	// withoutClocks: clocks say anything. Each check of a lease may pass, and each wait be over at once.
	withoutClocks stops = iota
	// anywhere: clocks are good.
	anywhere
	// steadily: and between the check of the lease and the sending, a process stops for the margin at most.
	steadily
)

// times are those of the product, in units of the exploration.
type times struct {
	lease, margin, write uint8
	unit                 time.Duration
}

// rules are the rules of one exploration.
type rules struct {
	kind    kind
	stops   stops
	times   times
	most    [kinds]uint8
	without protection
	denied  assumption
	// judgesTerm is set where nothing destructive may be accepted after the next leader has written;
	// judgesLead where no daemon may write after the term of another one began. The other properties are
	// always judged.
	judgesTerm, judgesLead bool
}

func (r *rules) timed() bool { return r.stops != withoutClocks }

// lasts is how long a leader may write after it has asked for its lease.
func (r *rules) lasts() uint8 {
	if r.without == margin {
		return r.times.lease
	}
	return r.times.lease - r.times.margin
}

// mayWrite says whether the lease of a daemon lasts, by its own clock.
func (r *rules) mayWrite(d *daemon) bool { return !r.timed() || d.left > 0 }

// isOver says whether a follower finds that the last leader does not write any more.
func (r *rules) isOver(w *world, d *daemon) bool {
	switch {
	case d.current && w.etcd.released:
		return true
	case r.without == waitsLease || !r.timed():
		return true
	}
	return d.since >= r.times.lease
}

// mayDestroy says whether the gates let a destructive step pass.
func (r *rules) mayDestroy(d *daemon) bool {
	return r.mayWrite(d) && (d.settles == 0 || r.kind == sessions && d.over)
}

// isFenced says whether a daemon may write to the machine: its session is recorded, and it has ended those of
// others that it knows of.
func (r *rules) isFenced(d *daemon) bool {
	if r.kind != sessions {
		return true
	}
	return d.session > 0 && (d.recorded || r.without == recordsLogin) && (d.over || r.without == endsSessions)
}

// mayBegin says whether the step may be begun by what is recorded: its approval is unused, or its request may
// have been sent and the step goes on.
func (m memory) mayBegin() bool { return !m.used || m.sent }

// record writes records. One of an earlier leader ends with that.
func (r *rules) record(w *world, n int, change func(*memory)) bool {
	d := &w.daemons[n]
	if d.term != w.etcd.term && r.without != recordsFence {
		w.end(n)
		return false
	}
	change(&d.memory)
	w.etcd.memory = d.memory
	return true
}

// end ends a daemon's process. What it has sent stays on its way.
func (w *world) end(n int) {
	w.daemons[n] = daemon{}
	for i := range w.under {
		if w.under[i].from == uint8(n+1) {
			w.under[i].from = 0
		}
	}
	w.sort()
}

// begins begins the term of a daemon, which leads with what it then reads of the records. That an answer of etcd
// comes later changes nothing: it would be as if the daemon led and did nothing.
func (r *rules) begins(w *world, d *daemon) {
	age, clean := d.asked-1, w.etcd.released
	w.etcd.term++
	w.etcd.released = false
	*d = daemon{role: leads, term: w.etcd.term, left: less(r.lasts(), age), memory: w.etcd.memory}
	if !clean && r.timed() && r.without != waitsWrites {
		d.settles = less(r.times.lease+r.times.write, age)
	}
	if clean && r.without == keepsKnown {
		d.sessions = 0
	}
	if r.without == linearizable {
		d.memory = memory{} // a member that was stopped has no more
	}
}

func less(from, by uint8) uint8 {
	if by > from {
		return 0
	}
	return from - by
}
