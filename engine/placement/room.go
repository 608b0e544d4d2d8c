package placement

import (
	"cmp"

	"github.com/slipway-gitops/slipway/engine/site"
)

// room is what machines take of a hypervisor, or what it has.
type room struct {
	cpus   int
	memory site.Size
	pools  map[string]site.Size
}

// taken returns what a machine takes.
func taken(v *site.Virtual) room {
	r := room{cpus: v.CPUs, memory: v.Memory}
	for _, d := range v.Disks {
		if r.pools == nil {
			r.pools = map[string]site.Size{}
		}
		r.pools[cmp.Or(d.Pool, "default")] += d.Size
	}
	return r
}

// add adds what a machine takes or, with sign -1, subtracts it.
func (r *room) add(x room, sign int) {
	r.cpus += sign * x.cpus
	r.memory += site.Size(sign) * x.memory
	for name, size := range x.pools {
		r.pools[name] += site.Size(sign) * size
	}
}

// holds reports whether one more machine fits. A limit of 0 means none.
func (h *host) holds(x room) bool {
	if over(h.used.cpus+x.cpus, h.bound.cpus) || over(h.used.memory+x.memory, h.bound.memory) {
		return false
	}
	for name, size := range x.pools {
		if over(h.used.pools[name]+size, h.bound.pools[name]) {
			return false
		}
	}
	return true
}

func over[N int | site.Size](used, bound N) bool { return bound > 0 && used > bound }

// load returns how full a hypervisor is with one more machine, by its scarcest resource.
func (h *host) load(x room) float64 {
	most := max(share(h.used.cpus+x.cpus, h.bound.cpus), share(h.used.memory+x.memory, h.bound.memory))
	for name, bound := range h.bound.pools {
		most = max(most, share(h.used.pools[name]+x.pools[name], bound))
	}
	return most
}

func share[N int | site.Size](used, bound N) float64 {
	if bound <= 0 {
		return 0
	}
	return float64(used) / float64(bound)
}
