package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// unplaced says why a new machine found no hypervisor, with numbers.
func (f *fleet) unplaced(g *guest) site.Finding {
	if len(f.hosts) == 0 {
		return g.wrong("unplaced", "", whyUnplaced, "the design has no hypervisor to place it on", "Add an entry to `hypervisors`.")
	}
	if at := g.at; at != nil { // it was placed where it may not be
		f.put(g, at, -1)
		defer f.put(g, at, 1)
	}
	r := refusals{fleet: f, g: g}
	for _, h := range f.hosts {
		if g.pinned == "" || g.pinned == h.name {
			r.ask(h)
		}
	}
	return r.finding()
}

// refusals are the reasons why hypervisors do not take a machine. For each resource
// it keeps the hypervisor with the most free room among those with too little.
type refusals struct {
	*fleet
	g      *guest
	asked  int
	closed []string
	clash  []string
	far    []string
	unfit  []fault
	cpus   least[int]
	memory least[site.Size]
	pools  map[string]*least[site.Size]
}

// least is how many hypervisors have too little of something, and the most that
// one of them has.
type least[N int | site.Size] struct {
	hosts int
	free  N
	on    string
}

func (l *least[N]) note(free N, h *host) {
	if free = max(0, free); l.hosts == 0 || free > l.free {
		l.free, l.on = free, h.name
	}
	l.hosts++
}

// ask collects every reason of one hypervisor.
func (r *refusals) ask(h *host) {
	r.asked++
	if h.closed != "" {
		r.closed = append(r.closed, h.name+" takes no new machines: "+h.closed)
		return
	}
	if other := r.fleet.clash(r.g, h); other >= 0 {
		r.clash = append(r.clash, fmt.Sprintf("role %s is to be apart from role %s, which is on %s", r.roles[r.g.role].name, r.roles[other].name, h.name))
	}
	for _, other := range r.roles[r.g.role].near {
		if h.staying[other] == 0 {
			r.far = append(r.far, fmt.Sprintf("role %s has to be near role %s, of which no node is on %s", r.roles[r.g.role].name, r.roles[other].name, h.name))
			break
		}
	}
	if x := r.fleet.unfit(r.g, h); x.message != "" {
		r.unfit = append(r.unfit, x)
	}
	if over(h.used.cpus+r.g.takes.cpus, h.bound.cpus) {
		r.cpus.note(h.bound.cpus-h.used.cpus, h)
	}
	if over(h.used.memory+r.g.takes.memory, h.bound.memory) {
		r.memory.note(h.bound.memory-h.used.memory, h)
	}
	for pool, size := range r.g.takes.pools {
		if over(h.used.pools[pool]+size, h.bound.pools[pool]) {
			if r.pools == nil {
				r.pools = map[string]*least[site.Size]{}
			}
			if r.pools[pool] == nil {
				r.pools[pool] = &least[site.Size]{}
			}
			r.pools[pool].note(h.bound.pools[pool]-h.used.pools[pool], h)
		}
	}
}

func (r *refusals) finding() site.Finding {
	if r.asked == 0 {
		return r.g.wrong("unplaced", "virtual.hypervisor", whyUnplaced,
			fmt.Sprintf("virtual.hypervisor is %q, and there is no such hypervisor", r.g.pinned), "Name an entry of `hypervisors`, or leave it out.")
	}
	var because []string
	path := ""
	short := func(what, needs, free string, on string, hosts int, at string) {
		because = append(because, fmt.Sprintf("it needs %s of %s, and the most that is free%s is %s, on %s", needs, what, r.amongst(hosts), free, on))
		if path == "" && hosts == r.asked-len(r.closed) {
			path = at
		}
	}
	if l := r.memory; l.hosts > 0 {
		on := l.on
		if h := r.host(on); h.ofNode {
			on += fmt.Sprintf(" (its node %s has %s)", h.metal.Name, amount(h.bound.memory))
		}
		short("memory", amount(r.g.takes.memory), amount(l.free), on, l.hosts, "virtual.memory")
	}
	if l := r.cpus; l.hosts > 0 {
		short("the CPUs", fmt.Sprint(r.g.takes.cpus), fmt.Sprint(l.free), l.on, l.hosts, "virtual.cpus")
	}
	for _, pool := range slices.Sorted(maps.Keys(r.pools)) {
		l := r.pools[pool]
		short("pool "+pool, amount(r.g.takes.pools[pool]), amount(l.free), l.on, l.hosts, "virtual.disks")
	}
	var unfit []string
	for _, x := range r.unfit {
		if unfit = append(unfit, x.message); path == "" && len(r.unfit) == r.asked-len(r.closed) {
			path = x.path
		}
	}
	because = slices.Concat(because, some(unfit), some(r.clash), some(r.far), some(r.closed))
	message := "no hypervisor takes it: "
	if r.g.pinned != "" {
		message = fmt.Sprintf("hypervisor %s, which virtual.hypervisor asks for, does not take it: ", r.g.pinned)
		path = cmp.Or(path, "virtual.hypervisor")
	}
	if len(because) == 0 { // there is room, if others went elsewhere
		because = []string{"where there is room for it, Slipway keeps the room for another machine that fits nowhere else"}
	}
	return r.g.wrong("unplaced", path, whyUnplaced, message+strings.Join(because, "; "), r.fix())
}

// amongst says for how many hypervisors something holds, unless it is all.
func (r *refusals) amongst(hosts int) string {
	if hosts == r.asked-len(r.closed) {
		return ""
	}
	return fmt.Sprintf(" on the %d that have too little", hosts)
}

// some returns the first reasons of a kind, and how many more there are.
func some(all []string) []string {
	const most = 2
	if more := len(all) - most; more > 0 {
		last := fmt.Sprintf("the same holds for %d more", more)
		return []string{strings.Join(all[:most], "; ") + "; " + last}
	}
	return all
}

func (r *refusals) fix() string {
	var ways []string
	if r.memory.hosts+r.cpus.hosts+len(r.pools) > 0 {
		ways = append(ways, "let it have less", "let virtual machines have more of a hypervisor")
	}
	if len(r.unfit) > 0 {
		ways = append(ways, "name a bridge that carries the network", "declare it at the hypervisor's node")
	}
	if len(r.clash) > 0 {
		ways = append(ways, "take the role out of placement.apart")
	}
	if len(r.far) > 0 {
		ways = append(ways, "add a node that it may be near")
	}
	if len(r.closed) > 0 {
		ways = append(ways, "let a hypervisor that takes no new machines take this one")
	}
	ways = append(ways, "add a hypervisor")
	text := strings.Join(ways, ", or ") + "; machines that are placed are not moved."
	return strings.ToUpper(text[:1]) + text[1:]
}
