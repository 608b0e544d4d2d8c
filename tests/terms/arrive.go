package terms

// arrive is what becomes of requests on their way, and of sessions.
func (r *rules) arrive() []happening {
	var all []happening
	for i := range len(world{}.under) {
		all = append(all,
			happening{"the machine gets the request of term %d, and its answer arrives", i, func(r *rules, w *world) bool { return r.gets(w, i, true) }},
			happening{"the machine gets the request of term %d, and its answer is lost", i, func(r *rules, w *world) bool { return w.under[i].from > 0 && r.gets(w, i, false) }},
			happening{"the BMC lets the request of term %d in, and takes its time", i, func(r *rules, w *world) bool { return r.letsIn(w, i) }},
			happening{"the request of term %d is lost", i, func(_ *rules, w *world) bool {
				ok := w.under[i].left > 0
				w.take(i)
				return ok
			}})
	}
	for s := uint8(1); s <= 8; s++ {
		all = append(all, happening{"the BMC forgets a session", -1, func(r *rules, w *world) bool {
			ok := w.machine.sessions&bit(s) > 0 && w.spend(r, expiries)
			w.machine.sessions &^= bit(s)
			return ok
		}})
	}
	return all
}

// inside stands for the session of a request that a BMC has let in, and not carried out yet.
const inside = 255

func (r *rules) letsIn(w *world, i int) bool {
	q := w.take(i)
	if r.denied != letsNothing || q.left == 0 || w.machine.sessions&bit(q.session) == 0 {
		return false
	}
	q.session = inside
	w.send(q)
	return true
}

// gets has the machine take or refuse a request.
func (r *rules) gets(w *world, i int, answers bool) bool {
	if w.under[i].left == 0 {
		return false
	}
	q := w.take(i)
	var from *daemon
	if q.from > 0 && answers {
		from = &w.daemons[q.from-1]
	}
	switch {
	case r.kind == sessions && q.session != inside && w.machine.sessions&bit(q.session) == 0:
		if from != nil {
			r.refused(w, from, q)
		}
		return true
	case r.kind == helper && q.term < w.machine.latest && r.without != helperRefuses:
		if from != nil {
			from.step = idle
		}
		return true
	}
	if from != nil {
		from.step = done
	}
	r.accepts(w, q)
	return true
}

// refused is what a daemon does whose session was over.
func (r *rules) refused(w *world, d *daemon, q request) {
	d.session, d.recorded, d.step = 0, false, idle
	if r.without == noLoginAgain {
		w.login(d)
		q.session, q.left, d.step = d.session, r.times.write+1, waits
		w.send(q)
	}
}

// accepts is the moment that all is about: the machine carries out a destructive request.
func (r *rules) accepts(w *world, q request) {
	if w.wrong == holds && r.judgesTerm && q.term < w.machine.latest {
		w.wrong = afterTerm
	}
	if r.judgesTerm || r.judgesLead {
		w.machine.latest = max(w.machine.latest, q.term)
	}
	if r.kind == helper && w.machine.erased > 0 && r.without != helperLooks {
		return
	}
	if w.machine.erased++; w.machine.erased > 1 && w.wrong == holds {
		w.wrong = twice
	}
}
