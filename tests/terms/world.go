// Package terms explores the terms of two daemons that share their records: every order of events in a
// small world of two daemons, an etcd and one machine, with processes that stop anywhere and continue,
// requests that arrive late, and answers that are lost. It judges each destructive request in the moment
// in which the machine accepts it.
//
// A world has one machine. Several would share the lease, the fence and the number of the term, and what
// happens on one changes none of them: so each kind of machine is explored by itself.
package terms

// world is one state of everything. It has only bytes and bools, so that it can be compared.
type world struct {
	etcd    etcd
	daemons [2]daemon
	machine machine
	// under are the requests on their way to the machine, sorted. A request whose sender is gone is one too.
	under [4]request
	spent [kinds]uint8
	// wrong is the property that was broken; 0 for none.
	wrong property
}

// etcd holds the records. A write there happens at once, and everybody reads the last one.
type etcd struct {
	// term is the last one that began; the fence is the same write. released is set if its holder ended it.
	term     uint8
	released bool
	memory
}

// memory is what is recorded of the machine, and what a daemon knows of that.
type memory struct {
	used bool // the approval
	sent bool // the request that destroys may be on its way
	// sessions are those of daemons on the machine that may still exist, one bit each.
	sessions uint8
}

// role is what a daemon's process does.
type role uint8

const (
	gone role = iota
	follows
	leads // it believes so
)

// step is how far a daemon is with the destructive step.
type step uint8

const (
	idle    step = iota
	begun        // the gates were passed
	looked       // the machine was seen, and the step not done yet
	used         // the use of the approval is recorded
	ready        // it is recorded that the request may be on its way
	allowed      // the lease was checked
	waits        // for the answer to the request
	done         // the machine was seen to have done it, or the step was given up
)

// daemon is one host and its process. Times are in units of the exploration.
type daemon struct {
	role role
	term uint8
	// A follower has read the term that is in etcd now if current is set, and since is how long ago it read a
	// change last.
	current bool
	since   uint8
	// asked is 1 more than how long ago the write to etcd began that is under way, which renews the lease or begins
	// a term; 0 for none. written is set when etcd has it, and the answer is on its way.
	asked   uint8
	written bool
	// left is how long writes may be sent, settles how long nothing may be destroyed.
	left, settles uint8
	session       uint8 // 0 for none
	recorded      bool  // the session is
	over          bool  // the sessions of earlier terms are
	step          step
	// late is how long ago the lease was checked for the request that is to be sent.
	late   uint8
	memory // of the records, as it knows them
}

// machine is what a BMC, or the helper on a system, knows.
type machine struct {
	opened   uint8 // sessions so far
	sessions uint8 // that are good, one bit each
	// latest is the highest term of which a write was accepted.
	latest uint8
	// erased is how many destructive requests were accepted.
	erased uint8
}

// request is a destructive request on its way.
type request struct {
	left    uint8 // 1 more than how long it may still take; 0 if there is none
	term    uint8
	session uint8
	from    uint8 // 1 more than the daemon that waits for its answer; 0 if nobody does
}

// Events that are bounded.
const (
	starts   = iota // of daemons that were gone
	takes           // terms that begin
	expiries        // sessions that a BMC forgets
	kinds
)

// property is what must hold.
type property uint8

const (
	holds property = iota
	twice
	afterTerm
	unrecorded
	twoLead
	tooSmall
)

var broken = map[property]string{
	twice:      "a destructive request is accepted twice",
	afterTerm:  "a destructive request is accepted after the next leader has written",
	unrecorded: "a destructive request was sent, and the records do not have the use of its approval",
	twoLead:    "a daemon writes to a machine after another one's term began",
	tooSmall:   "the model is too small for the requests on their way",
}

// send puts a request on its way.
func (w *world) send(r request) {
	for i := range w.under {
		if w.under[i].left == 0 {
			w.under[i] = r
			w.sort()
			return
		}
	}
	w.wrong = tooSmall
}

// take takes a request from its way.
func (w *world) take(i int) request {
	r := w.under[i]
	w.under[i] = request{}
	w.sort()
	return r
}

// sort keeps worlds equal in which the same requests are on their way.
func (w *world) sort() {
	u := &w.under
	for i := range u {
		for j := i; j > 0 && u[j-1].less(u[j]); j-- {
			u[j-1], u[j] = u[j], u[j-1]
		}
	}
}

func (r request) number() uint32 {
	return uint32(r.left)<<24 | uint32(r.term)<<16 | uint32(r.session)<<8 | uint32(r.from)
}

func (r request) less(than request) bool { return r.number() < than.number() }

// isUnderWay says whether a request of a daemon is on its way whose answer it waits for.
func (w *world) isUnderWay(n int) bool {
	for _, r := range w.under {
		if r.left > 0 && r.from == uint8(n+1) {
			return true
		}
	}
	return false
}

// judge says what is wrong now. What was sent has used its approval.
func (w *world) judge() {
	if w.wrong == holds && (w.under[0].left > 0 || w.machine.erased > 0) && !w.etcd.used {
		w.wrong = unrecorded
	}
}

func bit(session uint8) uint8 {
	if session == 0 || session == inside {
		return 0
	}
	return 1 << (session - 1)
}
