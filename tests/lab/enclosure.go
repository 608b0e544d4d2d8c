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
		if under(at, b.kind.system) || under(at, b.kind.chassis) {
			return b
		}
	}
	return m
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
	if len(m.blades) == 0 || len(all) == 0 {
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
