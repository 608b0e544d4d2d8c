package terms

import "slices"

// follow is what a daemon does that does not lead.
func (r *rules) follow() []move {
	return []move{
		{"%s starts", func(r *rules, w *world, n int) bool {
			d := &w.daemons[n]
			if d.role != gone || !w.spend(r, starts) {
				return false
			}
			*d = daemon{role: follows, current: true}
			return true
		}},
		{"%s sees that the leader has renewed", func(_ *rules, w *world, n int) bool {
			d := &w.daemons[n]
			if d.role != follows || d.current || d.asked > 0 {
				return false
			}
			d.current, d.since = true, 0
			return true
		}},
		{"%s finds the lease over, and asks for a term", func(r *rules, w *world, n int) bool {
			d := &w.daemons[n]
			if d.role != follows || !d.current || d.asked > 0 || !r.isOver(w, d) || !w.spend(r, takes) {
				return false
			}
			d.asked = 1
			return true
		}},
		{"etcd begins the term of %s, which leads", func(r *rules, w *world, n int) bool {
			d := &w.daemons[n]
			if d.role != follows || d.asked == 0 {
				return false
			}
			if !d.current && r.without != unchanged {
				d.asked = 0
				return true
			}
			r.begins(w, d)
			w.changed(n)
			return true
		}},
		{"etcd begins the term of %s, and the answer is lost", func(_ *rules, w *world, n int) bool {
			d := &w.daemons[n]
			if d.role != follows || d.asked == 0 || !d.current {
				return false
			}
			w.etcd.term++
			w.etcd.released = false
			*d = daemon{role: follows}
			w.changed(n)
			return true
		}},
	}
}

// changed has the record of the term be another than the followers have read.
func (w *world) changed(by int) {
	if d := &w.daemons[1-by]; d.role == follows {
		d.current = false
	}
}

// lead is what a daemon does that believes that it leads, and how it ends.
func (r *rules) lead() []move {
	return []move{
		{"%s asks for its lease to be renewed", func(r *rules, w *world, n int) bool {
			d := &w.daemons[n]
			// Where clocks say anything, no lease is ever over.
			if !r.timed() || d.role != leads || d.asked > 0 || d.left == r.lasts() {
				return false
			}
			d.asked = 1
			return true
		}},
		{"etcd renews the lease of %s", func(r *rules, w *world, n int) bool { return r.renews(w, n, true) }},
		{"etcd renews the lease of %s, and the answer is lost", func(r *rules, w *world, n int) bool { return r.renews(w, n, false) }},
		{"%s has the answer of etcd", func(r *rules, w *world, n int) bool {
			d := &w.daemons[n]
			if !d.written {
				return false
			}
			d.left, d.asked, d.written = r.lasts(), 0, false
			return true
		}},
		{"%s dies", func(_ *rules, w *world, n int) bool {
			if w.daemons[n].role == gone {
				return false
			}
			w.end(n)
			return true
		}},
		{"%s is stopped in order, and releases its term", func(r *rules, w *world, n int) bool {
			d := &w.daemons[n]
			switch {
			case d.role != leads || d.term != w.etcd.term || d.settles > 0 && r.without != keepsUnclean:
				return false
			case (d.step == allowed || d.step == waits) && r.without != releasesIdle:
				return false
			}
			w.machine.sessions &^= bit(d.session)
			w.etcd.released = true
			w.end(n)
			w.changed(n)
			return true
		}},
		{"%s records what it knows of the machine", func(r *rules, w *world, n int) bool {
			d := &w.daemons[n]
			// Of a leader, this changes nothing.
			if d.role != leads || d.term == w.etcd.term {
				return false
			}
			r.record(w, n, func(*memory) {})
			return true
		}},
	}
}

// renews has etcd renew a lease. An answer that comes later changes nothing: the lease counts from before the
// renewal was asked for, so that it would be as if the daemon had had the answer and done nothing. Only
// where it counts from the answer is this one awaited.
func (r *rules) renews(w *world, n int, answers bool) bool {
	d := &w.daemons[n]
	if d.role != leads || d.asked == 0 || d.written {
		return false
	}
	if d.term != w.etcd.term {
		w.end(n)
		return true
	}
	w.changed(n)
	switch {
	case answers && r.without == countsBefore:
		d.written = true
		return true
	case answers:
		d.left = max(d.left, less(r.lasts(), d.asked-1))
	}
	d.asked = 0
	return true
}

// work is what a leader does on the machine.
func (r *rules) work() []move {
	return slices.Concat(r.takesOver(), r.prepares(), r.destroys())
}

// takesOver is what a leader does before it may destroy: it ends what an earlier one could still do.
func (r *rules) takesOver() []move {
	return []move{
		{"%s logs in", func(r *rules, w *world, n int) bool {
			d := &w.daemons[n]
			if r.kind != sessions || d.role != leads || d.session > 0 || d.isBusy() {
				return false
			}
			w.login(d)
			return true
		}},
		{"%s records its session", func(r *rules, w *world, n int) bool {
			d := &w.daemons[n]
			if d.role != leads || d.session == 0 || d.recorded || d.isBusy() || !r.mayWrite(d) {
				return false
			}
			if r.record(w, n, func(m *memory) { m.sessions |= bit(d.session) }) {
				d.recorded = true
			}
			return true
		}},
		{"%s ends the sessions of earlier terms", func(r *rules, w *world, n int) bool {
			d := &w.daemons[n]
			if d.role != leads || !d.recorded || d.over || d.isBusy() || r.without == endsSessions {
				return false
			}
			if !w.isLoggedIn(r, n) {
				return true
			}
			w.machine.sessions &^= d.sessions &^ bit(d.session)
			if r.record(w, n, func(m *memory) { m.sessions = bit(d.session) }) {
				d.over = true
			}
			return true
		}},
		{"%s writes what destroys nothing", func(r *rules, w *world, n int) bool {
			d := &w.daemons[n]
			if d.role != leads || !r.judgesTerm && !r.judgesLead || d.term <= w.machine.latest || d.isBusy() || !r.mayWrite(d) || !r.isFenced(d) {
				return false
			}
			if r.kind == sessions && !w.isLoggedIn(r, n) {
				return true
			}
			w.sends(r, d)
			w.machine.latest = d.term
			return true
		}},
	}
}

// prepares is what a leader does before the request that destroys: it looks, and records what is about to happen.
func (r *rules) prepares() []move {
	return []move{
		{"%s passes the gates for the step that destroys", func(r *rules, w *world, n int) bool {
			d := &w.daemons[n]
			if d.role != leads || d.step != idle || !r.mayDestroy(d) || !r.isFenced(d) || !d.mayBegin() {
				return false
			}
			d.step = begun
			return true
		}},
		{"%s looks at the machine", func(r *rules, w *world, n int) bool {
			d := &w.daemons[n]
			if d.step != begun {
				return false
			}
			if r.kind == sessions && !w.isLoggedIn(r, n) {
				return true
			}
			if d.step = looked; w.machine.erased > 0 && r.without != looksFirst {
				d.step = done
			}
			return true
		}},
		{"%s records that the approval is used", func(r *rules, w *world, n int) bool {
			d := &w.daemons[n]
			switch {
			case d.step != looked:
				return false
			case !r.mayDestroy(d):
				d.step = idle
			case d.used && d.sent:
				d.step = ready
			case r.without == usesFirst:
				d.step = ready
			case r.record(w, n, func(m *memory) { m.used = true }):
				d.step = used
			}
			return true
		}},
		{"%s records that the request may be on its way", func(r *rules, w *world, n int) bool {
			d := &w.daemons[n]
			if d.step != used {
				return false
			}
			if r.record(w, n, func(m *memory) { m.sent = true }) {
				d.step = ready
			}
			return true
		}},
	}
}

// destroys is the request that destroys, and its end.
func (r *rules) destroys() []move {
	return []move{
		{"%s checks its lease for the request that destroys", func(r *rules, w *world, n int) bool {
			d := &w.daemons[n]
			if d.step != ready {
				return false
			}
			if d.step = allowed; !r.mayWrite(d) && r.without != checks {
				d.step = idle
			}
			return true
		}},
		{"%s sends the request that destroys", func(r *rules, w *world, n int) bool {
			d := &w.daemons[n]
			if d.step != allowed {
				return false
			}
			w.sends(r, d)
			w.send(request{left: r.times.write + 1, term: d.term, session: d.session, from: uint8(n + 1)})
			d.step, d.late = waits, 0
			return true
		}},
		{"%s waits no longer for the answer", func(r *rules, w *world, n int) bool {
			d := &w.daemons[n]
			if d.step != waits || w.isUnderWay(n) && r.without != waitsAnswer && r.denied != breaksAfter {
				return false
			}
			for i := range w.under {
				if w.under[i].from == uint8(n+1) {
					w.under[i].from = 0
				}
			}
			w.sort()
			d.step = idle
			return true
		}},
	}
}

// sends notes when a daemon writes after another one's term began.
func (w *world) sends(r *rules, d *daemon) {
	if r.judgesLead && d.term < w.etcd.term {
		w.wrong = twoLead
	}
}

// login opens a session.
func (w *world) login(d *daemon) {
	w.machine.opened++
	d.session, d.recorded = w.machine.opened, false
	w.machine.sessions |= bit(d.session)
}

// isBusy says whether the step that destroys is under way: a daemon does one thing at a time on a machine.
func (d *daemon) isBusy() bool { return d.step != idle && d.step != done }

// isLoggedIn says whether a BMC knows the session of a daemon. If not, its step is over, and it logs in again
// when it looks at the machine the next time.
func (w *world) isLoggedIn(r *rules, n int) bool {
	d := &w.daemons[n]
	if w.machine.sessions&bit(d.session) > 0 {
		return true
	}
	d.session, d.recorded = 0, false
	if d.step != done {
		d.step = idle
	}
	return false
}
