package libvirt

import (
	"context"
	"fmt"
	"slices"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// farewell bounds the shutdown of a system that is being replaced.
const farewell = 20 * time.Second

// install puts the image on the machine's disk and starts the machine with its seed. After any interruption, the
// machine's metadata and state show how far it came:
//
//	installing   the disk        machine         what is left to do
//	no           as it was       as it was       everything
//	this one     detached        off             disk, seed, start
//	this one     new, attached   off             the same: it is made once more
//	this one     new, attached   on, with seed   note that it is installed
//	no           new, attached   on              nothing, if it was begun before
//
// What can fail without the machine, such as fetching the image, fails while the machine still runs. Data disks are
// not touched.
func (m *machine) install(ctx context.Context, c *connection, step site.Step, n *site.Node) error {
	i, err := m.installation(step, n)
	if err != nil {
		return err
	}
	d, err := m.existing(ctx, c)
	if err != nil {
		return err
	}
	if step.Resumed && joined(d, i) {
		if err := m.start(ctx, c, d); err != nil { // the start may not be complete
			return err
		}
		return m.finish(ctx, c, d, i)
	}
	s, err := m.mayInstall(ctx, c, d, step, i)
	if err != nil {
		return err
	}
	defer m.tidy(ctx, s) // after the image is released
	m.fetches.using.RLock()
	defer m.fetches.using.RUnlock()
	image, err := m.fetchImage(ctx, c, s, d, i)
	if err != nil {
		return err
	}
	if d, err = m.mayStillInstall(ctx, c, step, i); err != nil { // fetching took time
		return err
	}
	if err := m.replace(ctx, c, s, d, n, i, image); err != nil {
		return err
	}
	return m.finish(ctx, c, d, i)
}

// mayInstall checks what can be checked before the image is fetched, and returns the pool of the disk.
func (m *machine) mayInstall(ctx context.Context, c *connection, d *domain, step site.Step, i installation) (*storage, error) {
	if err := m.knows(d, step, i); err != nil {
		return nil, err
	}
	if err := m.merged(d, i.volume.Disk); err != nil {
		return nil, err
	}
	if m.seed == nil {
		return nil, refused("no seed was given for the first boot, and without one the system could not be reached")
	}
	s, err := m.storage(ctx, c, i.volume.Pool)
	if err != nil {
		return nil, err
	}
	if err := s.refresh(ctx); err != nil {
		return nil, err
	}
	return s, m.mayReplace(ctx, c, d, step, i)
}

// mayStillInstall reads the machine again and checks it right before the first change, while it still runs.
func (m *machine) mayStillInstall(ctx context.Context, c *connection, step site.Step, i installation) (*domain, error) {
	d, err := m.existing(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := m.mayReplace(ctx, c, d, step, i); err != nil {
		return nil, err
	}
	if err := m.mayDrop(ctx, c, d, i); err != nil {
		return nil, err
	}
	return d, m.may.Ask(ctx, step)
}

// replace makes the disk from the image, and starts the machine from it with its seed.
func (m *machine) replace(
	ctx context.Context, c *connection, s *storage, d *domain, n *site.Node, i installation, image golibvirt.StorageVol,
) error {
	if err := m.clear(ctx, c, d, n, i); err != nil {
		return err
	}
	if err := m.makeDisk(ctx, c, s, d, i, image); err != nil {
		return err
	}
	seed, err := m.makeSeed(ctx, c, s, d)
	if err != nil {
		return err
	}
	shapeDisk(d.next, n, i.volume, i.disk)
	insert(d.next, seed)
	if err := m.redefine(ctx, c, d); err != nil {
		return err
	}
	return m.startAfresh(ctx, c, d)
}

// installation says what is to be installed where.
type installation struct {
	image      *site.Image
	generation int
	disk       site.VirtualDisk
	volume     volume
}

func (m *machine) installation(step site.Step, n *site.Node) (installation, error) {
	name := n.Virtual.ImageDisk()
	switch {
	case step.Image == nil || step.Image.URL == "":
		return installation{}, refused("the step names no image")
	case step.Generation < 1:
		return installation{}, refused("the step names no generation")
	case name == "":
		return installation{}, refused("no disk of %s is for the image; give one \"image\" in the design: \"overlay\" or \"copy\"", n.Name)
	}
	disk := n.Virtual.Disks[name]
	if disk.Image == "overlay" && formatOf(disk) != "qcow2" {
		return installation{}, refused("the disk %s is an overlay, which only the format qcow2 can be, and the design says %s: make it a \"copy\"", name, formatOf(disk))
	}
	return installation{step.Image, step.Generation, disk, m.volume(name, disk)}, nil
}

// joined reports whether the machine has already been started from the new disk.
func joined(d *domain, i installation) bool {
	if !d.active() {
		return false
	}
	if d.owner.Installing == i.generation {
		return d.owner.Seed != nil && driveWith(d.live, d.owner.Seed.Name) != nil
	}
	return d.owner.Installing == 0 && d.owner.Generation == i.generation
}

// knows refuses to install over an installation in the machine's metadata that the step's records do not know.
func (m *machine) knows(d *domain, step site.Step, i installation) error {
	has := d.owner.Generation
	underWay := d.owner.Installing == i.generation || step.Resumed && has == i.generation
	if has < i.generation || underWay {
		return nil
	}
	return refused("the machine runs from generation %d by its own metadata, which is not in the daemon's records, and generation %d was to be installed over it; nothing was written: "+
		"restore the records, or raise the generation to %d to make it again", has, i.generation, has+1)
}

// mayReplace refuses to replace a disk that was not made by this installation, unless the step may destroy it and
// the approval names it.
func (m *machine) mayReplace(ctx context.Context, c *connection, d *domain, step site.Step, i installation) error {
	old, err := m.there(ctx, c, d.owner.volumesOf(i.volume.Disk))
	if err != nil {
		return err
	}
	if step.Resumed && d.owner.Installing == i.generation { // the step has already replaced the disk
		old = slices.DeleteFunc(old, func(v volume) bool { return v == i.volume })
	}
	if d.owner.Generation > 0 && len(old) == 0 && step.Impact < site.ImpactDestructive {
		switch others, err := m.there(ctx, c, d.owner.Volumes); {
		case err != nil:
			return err
		case len(others) > 0:
			return refused("the machine has a system of generation %d on another disk than %s, and the step was not planned to replace it; nothing was written: read the plan again", d.owner.Generation, i.volume.Disk)
		}
	}
	if len(old) > 0 && step.Impact < site.ImpactDestructive {
		return refused("the machine already has the disk %s with the data of generation %d, and the step was not planned to destroy data; nothing was written: read the plan again",
			i.volume.Disk, max(d.owner.Generation, d.owner.Installing))
	}
	return m.approved(d, step, old)
}

// fetchImage fetches the image to the pool, after noting that it is needed.
func (m *machine) fetchImage(ctx context.Context, c *connection, s *storage, d *domain, i installation) (golibvirt.StorageVol, error) {
	if d.owner.Pulling != i.image.SHA256 {
		o := d.owner
		o.Pulling = i.image.SHA256
		if err := m.setOwner(ctx, c, d, o); err != nil {
			return golibvirt.StorageVol{}, err
		}
	}
	v, err := m.fetches.image(ctx, s, i.image)
	if err != nil {
		return v, err
	}
	about, err := s.describe(ctx, v)
	if err != nil {
		return v, err
	}
	if size := amount(about.Capacity); size > int64(i.disk.Size) {
		return v, refused("the disk in the image has %s, the disk %s of the design %s; make that one larger", roughly(size), i.volume.Disk, i.disk.Size)
	}
	if i.disk.Image == "copy" {
		return v, s.room(ctx, "the copy of the image", amount(about.Allocation))
	}
	return v, nil
}

// clear stops the machine, removes an older seed, and then the disk. After that the metadata says that this
// installation is in progress.
func (m *machine) clear(ctx context.Context, c *connection, d *domain, n *site.Node, i installation) error {
	if err := m.stop(ctx, c, d, false, min(farewell, m.opts.Grace)); err != nil {
		return err
	}
	d.live = nil
	if err := m.unseed(ctx, c, d, n); err != nil {
		return err
	}
	d.next.Devices.Disks = slices.DeleteFunc(d.next.Devices.Disks, func(x libvirtxml.DomainDisk) bool {
		v, ok := d.owner.volumeOf(x)
		return ok && v.Disk == i.volume.Disk
	})
	d.owner.Installing = i.generation
	return m.redefine(ctx, c, d)
}

// makeDisk makes the disk anew from the image.
func (m *machine) makeDisk(ctx context.Context, c *connection, s *storage, d *domain, i installation, image golibvirt.StorageVol) error {
	if err := m.list(ctx, c, s, d, i.volume, func(o *owner) { *o = o.with(i.volume) }); err != nil {
		return err
	}
	if err := m.dropDisk(ctx, c, s, d, i.volume); err != nil {
		return err
	}
	if err := i.make(ctx, s, image); err != nil {
		return fmt.Errorf("make the disk %s from the image: %w", i.volume.Disk, err)
	}
	return nil
}

// mayDrop refuses to replace a disk that something else needs, while the machine still runs from it.
func (m *machine) mayDrop(ctx context.Context, c *connection, d *domain, i installation) error {
	for _, v := range d.owner.volumesOf(i.volume.Disk) {
		if err := m.unused(ctx, c, d, v); err != nil {
			return err
		}
	}
	return nil
}

// dropDisk deletes the disk's earlier volumes. A different pool or format means another volume.
func (m *machine) dropDisk(ctx context.Context, c *connection, s *storage, d *domain, keep volume) error {
	o := d.owner
	for _, v := range o.volumesOf(keep.Disk) {
		at, err := m.storage(ctx, c, v.Pool)
		if err != nil {
			return err
		}
		if err := at.remove(ctx, v.Name); err != nil {
			return err
		}
	}
	o.Volumes = slices.DeleteFunc(slices.Clone(o.Volumes), func(v volume) bool { return v.Disk == keep.Disk && v != keep })
	if len(o.Volumes) == len(d.owner.Volumes) {
		return nil
	}
	return m.setOwner(ctx, c, d, o)
}

// make makes the volume, based on the image or as a copy of it.
func (i installation) make(ctx context.Context, s *storage, image golibvirt.StorageVol) error {
	v := plain(i.volume.Name, int64(i.disk.Size), "0600")
	v.Target.Format.Type = formatOf(i.disk)
	if i.disk.Image != "copy" {
		at, err := s.path(ctx, image)
		if err != nil {
			return err
		}
		v.BackingStore = &libvirtxml.StorageVolumeBackingStore{
			Path:   at,
			Format: &libvirtxml.StorageVolumeTargetFormat{Type: i.image.Format},
		}
		_, err = s.create(ctx, v)
		return err
	}
	made, err := s.copy(ctx, v, image)
	if err != nil {
		return err
	}
	return s.grow(ctx, made, int64(i.disk.Size))
}

// grow enlarges a volume to a size.
func (s *storage) grow(ctx context.Context, v golibvirt.StorageVol, size int64) error {
	about, err := s.describe(ctx, v)
	if err != nil || amount(about.Capacity) >= size {
		return err
	}
	return tell(ctx, s.c.within(workTimeout), func(rpc *golibvirt.Libvirt) error { return rpc.StorageVolResize(v, uint64(size), 0) })
}

// freeDrive is a free device name. The first one is left to the image.
func freeDrive(d *libvirtxml.Domain, prefix string) string {
	for c := 'b'; c <= 'z'; c++ {
		name := prefix + string(c)
		if !slices.ContainsFunc(d.Devices.Disks, func(x libvirtxml.DomainDisk) bool { return x.Target != nil && x.Target.Dev == name }) {
			return name
		}
	}
	return prefix + "aa"
}

// insert puts the seed into the machine's drive. It adds a missing drive on virtio-scsi, because cloud kernels do
// not support SATA.
func insert(d *libvirtxml.Domain, seed volume) {
	source := &libvirtxml.DomainDiskSource{Volume: &libvirtxml.DomainDiskSourceVolume{Pool: seed.Pool, Volume: seed.Name}}
	for i := range d.Devices.Disks {
		if x := &d.Devices.Disks[i]; x.Alias != nil && x.Alias.Name == seedDrive {
			x.Source = source
			return
		}
	}
	needSCSI(d)
	d.Devices.Disks = append(d.Devices.Disks, libvirtxml.DomainDisk{
		Device:   "cdrom",
		Alias:    &libvirtxml.DomainAlias{Name: seedDrive},
		Driver:   &libvirtxml.DomainDiskDriver{Name: "qemu", Type: "raw"},
		Source:   source,
		Target:   &libvirtxml.DomainDiskTarget{Dev: freeDrive(d, "sd"), Bus: "scsi"},
		ReadOnly: &libvirtxml.DomainDiskReadOnly{},
	})
}

// seedDrive is the alias of the drive for the seed.
const seedDrive = "ua-seed"

// startAfresh starts the machine with empty firmware variables, because the stored ones are from another system.
func (m *machine) startAfresh(ctx context.Context, c *connection, d *domain) error {
	if firmware(d.next) != "uefi" {
		return m.start(ctx, c, d)
	}
	return m.startBy(ctx, c, d, func(rpc *golibvirt.Libvirt) error {
		_, err := rpc.DomainCreateWithFlags(d.ref, uint32(golibvirt.DomainStartResetNvram))
		return err
	})
}

// finish records what the machine runs from, once it runs.
func (m *machine) finish(ctx context.Context, c *connection, d *domain, i installation) error {
	s, err := state(ctx, c, d.ref)
	if err != nil {
		return err
	}
	if s != "on" {
		return fmt.Errorf("%w: the machine was started from its new disk and is %s now; its console may say why", driver.ErrBusy, s)
	}
	o := d.owner
	o.Generation, o.Image, o.Installing, o.Pulling = i.generation, i.image.SHA256, 0, ""
	if o.same(d.owner) {
		return nil
	}
	if d.live == nil { // it has been running since we started it
		again, err := read(ctx, c, d.ref, 0)
		if err != nil {
			return err
		}
		d = again
	}
	m.seed = nil
	return m.setOwner(ctx, c, d, o)
}

// same reports whether two owners record the same installation.
func (o owner) same(other owner) bool {
	return o.Generation == other.Generation && o.Image == other.Image && o.Installing == other.Installing && o.Pulling == other.Pulling
}

func (s *storage) path(ctx context.Context, v golibvirt.StorageVol) (string, error) {
	return ask(ctx, s.c, func(rpc *golibvirt.Libvirt) (string, error) { return rpc.StorageVolGetPath(v) })
}

// amount is the size of a volume in bytes.
func amount(s *libvirtxml.StorageVolumeSize) int64 {
	if s == nil {
		return 0
	}
	return int64(s.Value) * max(byteUnits[s.Unit], 1)
}
