package placement

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"

	"github.com/slipway-gitops/slipway/engine/site"
)

// fleet is the hypervisors of a site with the machines on them.
type fleet struct {
	site   *site.Site
	hosts  []*host // by name
	guests []*guest
	roles  []role
	number map[string]int // of a role
	// coming counts the new machines of each role that are still to be placed,
	// owed the hypervisors that still need a machine of the role; see owe.
	coming, owed []int
	// plugged are the interfaces of machines, keyed by what they need of a hypervisor.
	plugged map[string]*plugs
}

// host is a hypervisor with its machines.
type host struct {
	name        string
	design      *site.Hypervisor
	metal       *site.Node // the node that is the hypervisor; nil for none
	accelerator string
	rack        string
	closed      string // why no new machine is placed here
	hash        uint64

	bound, used room
	// ofNode means that the limit of memory is the memory of its node.
	ofNode   bool
	machines int
	// on counts the machines of each role, staying those of them that are not
	// leaving, and asking the machines that have to be near the role.
	on, staying, asking []int
	inRack, inDomain    *unit
}

// unit is a group of hypervisors that fail together.
type unit struct{ staying []int }

// guest is a virtual machine.
type guest struct {
	name    string
	node    *site.Node // nil if the node left the design
	role    int
	takes   room
	plugs   *plugs // nil if the node left the design
	hash    uint64
	leaving bool // its node is decommissioned, or gone
	// was is the place in force, at the new place; nil for none.
	was, at *host
	lost    string // its hypervisor, if that left the design
	pinned  string
}

// role is how the machines of a role are placed; apart and near are role numbers.
type role struct {
	name        string
	apart, near []int
	spread      string
}

func newFleet(s *site.Site, placed map[string]site.Placed) *fleet {
	f := &fleet{site: s, number: map[string]int{}}
	f.addRoles(placed)
	f.addHosts()
	f.addGuests(placed)
	return f
}

// addRoles numbers the roles and reads their rules. Being apart is mutual.
func (f *fleet) addRoles(placed map[string]site.Placed) {
	named := map[string]bool{}
	for name, r := range f.site.Roles {
		named[name] = true
		for _, other := range r.Placement.Near { // including one without nodes
			named[other] = true
		}
	}
	for _, n := range f.site.Nodes {
		named[n.Role] = true
	}
	for _, p := range placed {
		named[p.Role] = true
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		f.number[name] = len(f.roles)
		f.roles = append(f.roles, role{name: name})
	}
	for name, r := range f.site.Roles {
		i := f.number[name]
		f.roles[i].spread = cmp.Or(r.Placement.Spread, "hypervisor")
		for _, other := range r.Placement.Apart {
			if j, known := f.number[other]; known {
				f.roles[i].apart = append(f.roles[i].apart, j)
				f.roles[j].apart = append(f.roles[j].apart, i)
			}
		}
		for _, other := range r.Placement.Near {
			if j, known := f.number[other]; known && j != i {
				f.roles[i].near = append(f.roles[i].near, j)
			}
		}
	}
	for i := range f.roles {
		r := &f.roles[i]
		r.spread = cmp.Or(r.spread, "hypervisor")
		slices.Sort(r.apart)
		r.apart = slices.Compact(r.apart)
		slices.Sort(r.near)
		r.near = slices.Compact(r.near)
	}
	f.coming, f.owed = make([]int, len(f.roles)), make([]int, len(f.roles))
}

func (f *fleet) addHosts() {
	racks, domains := map[string]*unit{}, map[string]*unit{}
	in := func(units map[string]*unit, name string) *unit {
		if units[name] == nil {
			units[name] = &unit{staying: make([]int, len(f.roles))}
		}
		return units[name]
	}
	for _, name := range slices.Sorted(maps.Keys(f.site.Hypervisors)) {
		d := f.site.Hypervisors[name]
		h := &host{
			name: name, design: d, accelerator: cmp.Or(d.Accelerator, "kvm"), rack: f.rackOf(d), closed: f.closed(d), hash: hash(name),
			bound: room{d.CPUs, d.Memory, d.Pools}, used: room{pools: map[string]site.Size{}},
			on: make([]int, len(f.roles)), staying: make([]int, len(f.roles)), asking: make([]int, len(f.roles)),
		}
		if h.metal = f.site.Nodes[d.Node]; h.metal != nil && d.Memory == 0 && h.metal.Hardware.Memory > 0 {
			h.bound.memory, h.ofNode = h.metal.Hardware.Memory, true
		}
		// A hypervisor without a rack fails alone.
		rack := "hypervisor " + name
		if h.rack != "" {
			rack = "rack " + h.rack
		}
		domain := rack
		if r := f.site.Racks[h.rack]; r != nil && r.Domain != "" {
			domain = "domain " + r.Domain
		}
		h.inRack, h.inDomain = in(racks, rack), in(domains, domain)
		f.hosts = append(f.hosts, h)
	}
}

// rackOf returns the rack of a hypervisor.
func (f *fleet) rackOf(h *site.Hypervisor) string {
	if n := f.site.Nodes[h.Node]; h.Rack == "" && n != nil {
		return n.Rack
	}
	return h.Rack
}

// closed says why no new machine is placed on a hypervisor; empty if it accepts
// some.
func (f *fleet) closed(h *site.Hypervisor) string {
	n := f.site.Nodes[h.Node]
	switch {
	case h.Drained:
		return "its field drained is true"
	case n == nil:
		return ""
	case n.Decommission:
		return "its node " + h.Node + " is decommissioned"
	case f.site.Unused(n) != "":
		return "its node " + h.Node + " is not in use: " + f.site.Unused(n)
	}
	return ""
}

func (f *fleet) host(name string) *host {
	i, ok := slices.BinarySearchFunc(f.hosts, name, func(h *host, name string) int { return cmp.Compare(h.name, name) })
	if !ok {
		return nil
	}
	return f.hosts[i]
}

// addGuests adds the machines of the design, and machines whose nodes left the
// design.
func (f *fleet) addGuests(placed map[string]site.Placed) {
	for _, name := range f.site.NodeNames() {
		n := f.site.Nodes[name]
		if !n.IsVirtual() {
			continue
		}
		g := &guest{name: name, node: n, role: f.number[n.Role], takes: taken(&n.Virtual), hash: hash(name), leaving: n.Decommission, pinned: n.Virtual.Hypervisor, plugs: f.plugsOf(n)}
		f.guests = append(f.guests, g)
		if p, is := placed[name]; is && !(p.Unmade && f.asksElsewhere(g, p)) {
			g.was = f.host(p.Virtual.Host.Hypervisor)
			if g.was == nil {
				g.lost = p.Virtual.Host.Hypervisor
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(placed)) {
		p := placed[name]
		if n := f.site.Nodes[name]; n != nil && n.IsVirtual() {
			continue
		}
		if h := f.host(p.Virtual.Host.Hypervisor); h != nil {
			f.guests = append(f.guests, &guest{name: name, role: f.number[p.Role], takes: taken(&p.Virtual), leaving: true, was: h})
		}
	}
}

// asksElsewhere reports whether the design wants a machine on another
// hypervisor than it was placed on, or no longer has that one.
func (f *fleet) asksElsewhere(g *guest, p site.Placed) bool {
	at := p.Virtual.Host.Hypervisor
	return g.pinned != "" && g.pinned != at || f.host(at) == nil
}

// isNew reports whether a machine needs a place.
func (g *guest) isNew() bool { return g.was == nil && g.lost == "" }

// put adds a machine to a hypervisor or, with sign -1, removes it.
func (f *fleet) put(g *guest, h *host, sign int) {
	h.used.add(g.takes, sign)
	h.machines += sign
	h.on[g.role] += sign
	g.at = h
	if sign < 0 {
		g.at = nil
	}
	if g.leaving {
		return
	}
	h.staying[g.role] += sign
	h.inRack.staying[g.role] += sign
	h.inDomain.staying[g.role] += sign
	for _, other := range f.roles[g.role].near {
		h.asking[other] += sign
	}
}

// misses reports whether machines on a hypervisor have to be near a role that
// has none there.
func (h *host) misses(role int) bool { return h.asking[role] > 0 && h.staying[role] == 0 }

// clash returns a role on the hypervisor that a machine has to be apart from,
// -1 for none.
func (f *fleet) clash(g *guest, h *host) int {
	for _, other := range f.roles[g.role].apart {
		if h.on[other] > 0 {
			return other
		}
	}
	return -1
}

func hash(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// lot is a pseudo-random number from two names, which decides between equals.
func lot(g *guest, h *host) uint64 {
	x := g.hash ^ h.hash*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
