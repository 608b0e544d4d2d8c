package libvirt

import (
	"cmp"
	"context"

	"github.com/slipway-gitops/slipway/engine/site"
)

// named is a volume in the form in which people approve its loss. That text comes from a look, so a volume has the
// same name in both.
func (v volume) named(size string) site.Volume {
	return site.Volume{Disk: cmp.Or(v.Disk, v.Name), Pool: v.Pool, Size: size}
}

// there are those of the volumes that exist in their pools now. It returns an error if a pool cannot be read.
func (m *machine) there(ctx context.Context, c *connection, volumes []volume) ([]volume, error) {
	var there []volume
	for _, v := range volumes {
		s, err := m.storage(ctx, c, v.Pool)
		if err != nil {
			return nil, err
		}
		if err := s.refresh(ctx); err != nil { // a person may have restored it without libvirt
			return nil, err
		}
		_, found, err := s.find(ctx, v.Name)
		if err != nil {
			return nil, err
		}
		if found {
			there = append(there, v)
		}
	}
	return there, nil
}

// approved refuses to delete volumes that the step does not name, because the person who approved it has not seen
// them. The next look shows them, and the next approval names them.
func (m *machine) approved(d *domain, step site.Step, volumes []volume) error {
	var all site.Volumes
	for _, v := range volumes {
		all = append(all, v.named(""))
	}
	unnamed := all.Unnamed(site.ParseVolumes(step.Disks))
	if len(unnamed) == 0 {
		return nil
	}
	m.hypervisor.wrote(d.ref.UUID) // otherwise the next look would show the old state
	return refused("the approval does not name the disk %s in the pool %s of %s, so that disk is not deleted; it names %s. Read the plan again, which now shows the disk, and approve it",
		printable(unnamed[0].Disk), printable(unnamed[0].Pool), m.where(), cmp.Or(step.Disks, "no disks"))
}
