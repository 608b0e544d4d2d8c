package placement

import (
	"cmp"
	"slices"

	"github.com/slipway-gitops/slipway/engine/site"
)

// settle puts every machine where it is, and places the new ones: spread as
// well as possible if all fit that way, or else packed. If neither way fits
// all, it places as many as possible.
func (f *fleet) settle() {
	for _, g := range f.guests {
		if g.was != nil {
			f.put(g, g.was, 1)
		}
	}
	coming := f.findHomes(slices.DeleteFunc(slices.Clone(f.guests), func(g *guest) bool { return !g.isNew() }))
	if len(coming) == 0 {
		return
	}
	ways := []*way{{fleet: f, order: f.hardestFirst(coming)}, {fleet: f, order: f.biggestFirst(coming), packed: true}}
	if f.mayFit(coming) {
		for _, w := range ways {
			if w.search() {
				return
			}
		}
	}
	best := ways[0]
	for _, w := range ways {
		w.placeSome()
		w.takeOff()
		if w.over < best.over {
			best = w
		}
	}
	best.placeSome()
}

// findHomes returns the new machines that some hypervisor could take now. The
// others would only take their places.
func (f *fleet) findHomes(coming []*guest) []*guest {
	for {
		f.expect(coming)
		w := way{fleet: f}
		some := slices.DeleteFunc(slices.Clone(coming), func(g *guest) bool {
			return !slices.ContainsFunc(f.hosts, func(h *host) bool { return w.takes(g, h) })
		})
		if len(some) == len(coming) {
			return some
		}
		coming = some
	}
}

// expect counts the machines to come. It does not wait for a machine that
// existing ones need and none of these can be.
func (f *fleet) expect(coming []*guest) {
	clear(f.coming)
	clear(f.owed)
	for _, g := range coming {
		if !g.leaving {
			f.coming[g.role]++
		}
	}
	for _, h := range f.hosts {
		for r := range f.roles {
			if h.misses(r) && slices.ContainsFunc(coming, func(g *guest) bool { return g.role == r && !g.leaving && f.fits(g, h) }) {
				f.owed[r] = min(f.owed[r]+1, f.coming[r])
			}
		}
	}
}

// fits reports whether a new machine may go on a hypervisor, apart from the
// rules on being near.
func (f *fleet) fits(g *guest, h *host) bool {
	return h.closed == "" && (g.pinned == "" || g.pinned == h.name) && h.holds(g.takes) && f.clash(g, h) < 0 && f.unfit(g, h).message == ""
}

// mayFit reports whether there is enough room for all new machines together.
func (f *fleet) mayFit(coming []*guest) bool {
	var takes room
	for _, g := range coming {
		takes.add(room{cpus: g.takes.cpus, memory: g.takes.memory}, 1)
	}
	var free room
	anyCPUs, anyMemory := false, false
	for _, h := range f.hosts {
		if h.closed != "" {
			continue
		}
		anyCPUs, anyMemory = anyCPUs || h.bound.cpus == 0, anyMemory || h.bound.memory == 0
		free.cpus += max(0, h.bound.cpus-h.used.cpus)
		free.memory += max(0, h.bound.memory-h.used.memory)
	}
	return (anyCPUs || takes.cpus <= free.cpus) && (anyMemory || takes.memory <= free.memory)
}

// hardestFirst puts machines with the least choice first: pinned ones, those
// that others have to be near, these others, those that keep apart, and then
// large ones.
func (f *fleet) hardestFirst(coming []*guest) []*guest {
	near := f.nearLevels()
	return f.ordered(coming, func(a, b *guest) int {
		return cmp.Or(class(a, near, f.roles)-class(b, near, f.roles), near[a.role]-near[b.role])
	})
}

// biggestFirst is hardestFirst without regard to keeping apart.
func (f *fleet) biggestFirst(coming []*guest) []*guest {
	near := f.nearLevels()
	return f.ordered(coming, func(a, b *guest) int {
		return cmp.Or(min(2, class(a, near, f.roles))-min(2, class(b, near, f.roles)), near[a.role]-near[b.role])
	})
}

func class(g *guest, near []int, roles []role) int {
	switch {
	case g.pinned != "":
		return 0
	case near[g.role] > 0:
		return 1
	case len(roles[g.role].apart) > 0:
		return 2
	}
	return 3
}

// nearLevels returns 0 for roles without rules on being near, 1 for roles that
// others have to be near, and more for those others.
func (f *fleet) nearLevels() []int {
	levels := make([]int, len(f.roles))
	for _, r := range f.roles {
		for _, other := range r.near {
			levels[other] = max(1, levels[other])
		}
	}
	for range f.roles { // bounded by the longest chain, which also ends cycles
		changed := false
		for i, r := range f.roles {
			for _, other := range r.near {
				if levels[i] <= levels[other] && levels[i] <= len(f.roles) {
					levels[i], changed = levels[other]+1, true
				}
			}
		}
		if !changed {
			break
		}
	}
	return levels
}

func (f *fleet) ordered(coming []*guest, harder func(a, b *guest) int) []*guest {
	largest := f.largest()
	size := make(map[*guest]float64, len(coming))
	for _, g := range coming {
		size[g] = max(share(g.takes.cpus, largest.cpus), share(g.takes.memory, largest.memory))
		for pool, x := range g.takes.pools {
			size[g] = max(size[g], share(x, largest.pools[pool]))
		}
	}
	return slices.SortedFunc(slices.Values(coming), func(a, b *guest) int {
		return cmp.Or(harder(a, b), cmp.Compare(size[b], size[a]), cmp.Compare(b.takes.memory, a.takes.memory), cmp.Compare(a.name, b.name))
	})
}

// largest returns the maximum of each resource over all hypervisors.
func (f *fleet) largest() room {
	r := room{pools: map[string]site.Size{}}
	for _, h := range f.hosts {
		r.cpus, r.memory = max(r.cpus, h.bound.cpus), max(r.memory, h.bound.memory)
		for pool, x := range h.bound.pools {
			r.pools[pool] = max(r.pools[pool], x)
		}
	}
	return r
}
