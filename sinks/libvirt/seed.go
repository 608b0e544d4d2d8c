package libvirt

import (
	"bytes"
	"context"
	"fmt"
	"io"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Seed implements driver.Seeder.
func (m *machine) Seed(s driver.Seed) { m.seed = &s }

// removeSeed ejects the seed and deletes its volume.
func (m *machine) removeSeed(ctx context.Context, c *connection, _ site.Step, n *site.Node) error {
	d, err := m.existing(ctx, c)
	if err != nil {
		return err
	}
	return m.unseed(ctx, c, d, n)
}

// unseed removes the seed from a machine. The metadata lists the seed until its volume is deleted.
func (m *machine) unseed(ctx context.Context, c *connection, d *domain, n *site.Node) error {
	seed := d.owner.Seed
	if seed == nil {
		return nil
	}
	if err := m.eject(ctx, c, d, seed.Name); err != nil {
		return fmt.Errorf("eject the seed: %w", err)
	}
	s, err := m.storage(ctx, c, seed.Pool)
	if err != nil {
		return err
	}
	if err := s.remove(ctx, seed.Name); err != nil {
		return err
	}
	o := d.owner
	o.Seed = nil
	return m.setOwner(ctx, c, d, o)
}

// eject removes a volume from the machine's drives, now and from the next start. The drive stays.
func (m *machine) eject(ctx context.Context, c *connection, d *domain, name string) error {
	for _, as := range []struct {
		definition *libvirtxml.Domain
		flag       golibvirt.DomainDeviceModifyFlags
	}{{d.live, golibvirt.DomainDeviceModifyLive}, {d.next, golibvirt.DomainDeviceModifyConfig}} {
		drive := driveWith(as.definition, name)
		if drive == nil {
			continue
		}
		empty := *drive
		empty.Source, empty.BackingStore = nil, nil
		text, err := empty.Marshal()
		if err != nil {
			return err
		}
		err = tell(ctx, c, func(rpc *golibvirt.Libvirt) error {
			// Forced, because a guest that has mounted it would keep it forever.
			return rpc.DomainUpdateDeviceFlags(d.ref, text, as.flag|golibvirt.DomainDeviceModifyForce)
		})
		m.hypervisor.wrote(d.ref.UUID)
		if err != nil {
			return err
		}
		drive.Source = nil
	}
	return nil
}

// driveWith is the drive in a definition that holds a volume; nil for none.
func driveWith(d *libvirtxml.Domain, name string) *libvirtxml.DomainDisk {
	if d == nil || d.Devices == nil {
		return nil
	}
	for i := range d.Devices.Disks {
		if disk := &d.Devices.Disks[i]; disk.Device == "cdrom" && disk.Source != nil && disk.Source.Volume != nil && disk.Source.Volume.Volume == name {
			return disk
		}
	}
	return nil
}

// makeSeed puts the seed into a volume that only QEMU may read, and lists it.
func (m *machine) makeSeed(ctx context.Context, c *connection, s *storage, d *domain) (volume, error) {
	seed := volume{Pool: s.pool.Name, Name: volumeName(m.name, m.identity().UUID, "seed", "iso")}
	iso, err := seedISO(*m.seed)
	if err != nil {
		return seed, err
	}
	if err := m.list(ctx, c, s, d, seed, func(o *owner) { o.Seed = &seed }); err != nil {
		return seed, err
	}
	if err := s.remove(ctx, seed.Name); err != nil {
		return seed, err
	}
	v, err := s.create(ctx, plain(seed.Name, int64(len(iso)), "0600"))
	if err != nil {
		return seed, fmt.Errorf("make the volume of the seed: %w", err)
	}
	written, _, err := s.upload(ctx, v, bytes.NewReader(iso), 0, int64(len(iso)))
	if err == nil && written != int64(len(iso)) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return seed, fmt.Errorf("write the seed: %w", err)
	}
	return seed, nil
}

// list lists a volume as the machine's before it is made. An existing volume with its name is not ours.
func (m *machine) list(ctx context.Context, c *connection, s *storage, d *domain, v volume, note func(*owner)) error {
	if d.owner.lists(v.Pool, v.Name) {
		return nil
	}
	if _, there, err := s.find(ctx, v.Name); err != nil {
		return err
	} else if there {
		return refused("%s", m.notOurs(v))
	}
	o := d.owner
	note(&o)
	return m.setOwner(ctx, c, d, o)
}

// seed reports whether the machine still has its seed.
func (s *sighting) seed(context.Context) (site.FacetState, error) {
	state := site.SeedNone
	if s.record != nil && s.record.domain.owner.Seed != nil {
		state = site.SeedAttached
	}
	return site.FacetState{Have: site.Values{"state": state}}, nil
}
