package lab

import (
	"path"
	"slices"
	"strings"
)

// encloses says whether a machine shares its BMC with another.
func (c Config) encloses(m MachineConfig) bool {
	return m.Behind != "" || slices.ContainsFunc(c.Machines, func(other MachineConfig) bool { return other.Behind == m.Name })
}

// enclose puts machines behind the BMCs that they share, in the order in which
// they are configured.
func (f *Fleet) enclose() {
	for _, mc := range f.config.Machines {
		if mc.Behind != "" {
			m, head := f.machines[mc.Name], f.machines[mc.Behind]
			m.head = head
			head.blades = append(head.blades, m)
		}
	}
}

// owner is the machine behind the BMC whose resource is at a path; the BMC's
// own where it is nobody's.
func (m *Machine) owner(at string) *Machine {
	if m.head != m {
		return m
	}
	for _, b := range m.blades {
		if slices.ContainsFunc(b.kind.own(), func(dir string) bool { return under(at, dir) && !slices.Contains(m.kind.own(), dir) }) {
			return b
		}
	}
	return m
}

// own are the paths below which everything is a system's own, unless another system
// has the same: in a capture their chassis, managers and media may be shared.
func (p *personality) own() []string {
	if p.name != "capture" {
		return []string{p.system, p.chassis}
	}
	return p.places()
}

// under says whether a path is one, or leads on from it.
func under(at, dir string) bool { return at == dir || strings.HasPrefix(at, dir+"/") }

// liveEnclosure adds to a list of references what its first has a namesake of
// at each blade: their systems, or their chassis.
func (m *Machine) liveEnclosure(b body, at ...string) {
	for _, name := range at[:len(at)-1] {
		if b, _ = b[name].(body); b == nil {
			return
		}
	}
	list := at[len(at)-1]
	all := items(b[list])
	if len(m.blades) == 0 || len(all) == 0 || m.config.Capture != "" { // which has them
		return
	}
	first, _ := all[0].(body)
	for _, blade := range m.blades {
		all = append(all, ref(path.Dir(linkOf(first))+"/"+blade.config.SystemID))
	}
	b[list] = all
	if list == "Members" {
		b["Members@odata.count"] = len(all)
	}
}
