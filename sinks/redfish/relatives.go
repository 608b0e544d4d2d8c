package redfish

import (
	"context"
	"slices"
)

// kin is a kind of resource that belongs to systems: the link of a system to
// its own, which BMCs need not have (DSP0268 6.30), where all of the kind are,
// and their links back.
type kin struct{ link, all, back string }

var (
	itsManagers = kin{"ManagedBy", "/redfish/v1/Managers", "ManagerForServers"}
	itsChassis  = kin{"Chassis", "/redfish/v1/Chassis", "ComputerSystems"}
)

// relatives are the paths of a system's own: those that it names, or else those
// that name it. None is guessed, for it may be the neighbour's.
func (m *machine) relatives(ctx context.Context, s system, k kin) ([]string, error) {
	if named := links(s.object, "Links", k.link); len(named) > 0 {
		return named, nil
	}
	var own []string
	err := m.client.members(ctx, k.all, maxLinks, func(path string, o object) {
		if slices.ContainsFunc(links(o, "Links", k.back), func(p string) bool { return key(p) == key(m.path) }) {
			own = append(own, path)
		}
	})
	if lasting(err) {
		err = nil // there are none
	}
	return own, err
}
