package placement

import "cmp"

// patience is how many hypervisors one search may look at beyond the direct
// way: enough to try every placement of a few machines.
const patience = 200_000

// way is one way to place new machines.
type way struct {
	*fleet
	order []*guest
	// packed fills one hypervisor after the other, and keeps the rest free for
	// large machines.
	packed bool
	// lenient lets a machine be without those that it has to be near.
	lenient bool
	over    int // how many got no place
	left    int // of the patience
}

// search places all machines, or none and returns false. It backtracks from
// dead ends as long as its patience lasts.
func (w *way) search() bool {
	w.left = patience + len(w.order)*len(w.hosts)
	tried := make([][]bool, len(w.order))
	for i := 0; i < len(w.order); {
		if tried[i] == nil {
			tried[i] = make([]bool, len(w.hosts))
		}
		if at := w.best(w.order[i], tried[i]); at >= 0 {
			tried[i][at] = true
			w.place(w.order[i], w.hosts[at])
			i++
			continue
		}
		if i == 0 || w.left <= 0 {
			w.takeOff()
			return false
		}
		clear(tried[i])
		i--
		w.unplace(w.order[i])
	}
	return true
}

// placeSome places the machines that fit, one after the other.
func (w *way) placeSome() {
	w.lenient, w.over = true, 0
	for _, g := range w.order {
		if at := w.best(g, nil); at >= 0 {
			w.place(g, w.hosts[at])
		} else {
			w.over++
		}
	}
}

func (w *way) takeOff() {
	for _, g := range w.order {
		if g.at != nil {
			w.unplace(g)
		}
	}
}

func (w *way) place(g *guest, h *host) {
	w.count(g, h, func() { w.put(g, h, 1) })
	if !g.leaving {
		w.coming[g.role]--
	}
}

func (w *way) unplace(g *guest) {
	h := g.at
	w.count(g, h, func() { w.put(g, h, -1) })
	if !g.leaving {
		w.coming[g.role]++
	}
}

// count updates what is owed while a machine is added to a hypervisor or removed.
func (w *way) count(g *guest, h *host, change func()) {
	near := w.roles[g.role].near
	w.owe(h, g.role, -1)
	for _, other := range near {
		w.owe(h, other, -1)
	}
	change()
	w.owe(h, g.role, 1)
	for _, other := range near {
		w.owe(h, other, 1)
	}
}

func (w *way) owe(h *host, role, sign int) {
	if h.misses(role) {
		w.owed[role] += sign
	}
}

// takes reports whether a new machine may go on a hypervisor now. The machines
// that it has to be near must be there, or still to come.
func (w *way) takes(g *guest, h *host) bool {
	if !w.fits(g, h) {
		return false
	}
	if w.lenient || g.leaving {
		return true
	}
	for _, other := range w.roles[g.role].near {
		if h.staying[other] == 0 && h.asking[other] == 0 && w.owed[other] >= w.coming[other] {
			return false
		}
	}
	return h.misses(g.role) || w.owed[g.role] < w.coming[g.role]
}

// best returns the index of the best hypervisor for a machine that was not tried, -1 for none.
func (w *way) best(g *guest, tried []bool) int {
	best := -1
	var merits merit
	for i, h := range w.hosts {
		if tried != nil && tried[i] {
			continue
		}
		w.left--
		if !w.takes(g, h) {
			continue
		}
		if m := w.merit(g, h); best < 0 || m.compare(merits) < 0 {
			best, merits = i, m
		}
	}
	return best
}

// merit ranks a hypervisor for a machine; less is better.
type merit struct {
	wanted, alone    int // whether others wait for it there, and whom it would wait for
	domain, rack, on int // machines of its role, as far as they are to be spread
	load             float64
	memory, machines int64
	lot              uint64
}

func (w *way) merit(g *guest, h *host) merit {
	m := merit{load: h.load(g.takes), memory: int64(h.used.memory), machines: int64(h.machines), lot: lot(g, h)}
	if h.misses(g.role) {
		m.wanted = -1
	}
	for _, other := range w.roles[g.role].near {
		if h.staying[other] == 0 {
			m.alone++
		}
	}
	if w.packed {
		m.load, m.memory, m.machines = -m.load, -m.memory, -m.machines
		return m
	}
	switch w.roles[g.role].spread {
	case "domain":
		m.domain = h.inDomain.staying[g.role]
		fallthrough
	case "rack":
		m.rack = h.inRack.staying[g.role]
		fallthrough
	case "hypervisor":
		m.on = h.staying[g.role]
	}
	return m
}

func (m merit) compare(o merit) int {
	return cmp.Or(m.wanted-o.wanted, m.alone-o.alone, m.domain-o.domain, m.rack-o.rack, m.on-o.on,
		cmp.Compare(m.load, o.load), cmp.Compare(m.memory, o.memory), cmp.Compare(m.machines, o.machines), cmp.Compare(m.lot, o.lot))
}
