package libvirt

import (
	"cmp"
	"context"
	"encoding/xml"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"github.com/slipway-gitops/slipway/engine/site"
)

// sector is the unit to which the size of a disk is rounded up.
const sector = 512

// disks is the state of the machine's disks, by their names in the design. While the image's disk is missing, only
// an installation asks for it.
func (s *sighting) disks(ctx context.Context) (site.FacetState, error) {
	state := site.FacetState{Have: site.Values{}}
	why, err := s.look(ctx, &state)
	if len(why) > 0 {
		state.Unresolved = why
	}
	return state, err
}

// look fills in the existing disks, and says what is wrong with others.
func (s *sighting) look(ctx context.Context, state *site.FacetState) (site.Values, error) {
	wrong := site.Values{}
	o := owner{}
	if s.record != nil {
		o = s.record.domain.owner
		s.attached(state, wrong)
	}
	for name, d := range s.n.Virtual.Disks {
		if _, listed := o.disk(name); listed || s.foreign != "" {
			continue
		}
		why, err := s.strange(ctx, name, d)
		if err != nil {
			return nil, err
		}
		if why != "" {
			wrong[name+".size"] = why
		}
	}
	return wrong, nil
}

// attached fills in the machine's disks, and reports those that have lost their volumes or use another source.
func (s *sighting) attached(state *site.FacetState, wrong site.Values) {
	d, now := s.record.domain, s.record.domain.next
	state.Have = s.values(now)
	if d.active() {
		next := state.Have
		now = d.live
		state.Have = s.values(now)
		state.Pending = differing(state.Have, next)
	}
	if rest := s.unattached(now); len(rest) > 0 {
		state.Have[site.FieldUnattached] = rest.String()
	}
	for name, x := range d.displaced() {
		wrong[name+".size"] = s.m.unmerged(name, x)
	}
	for _, v := range d.owner.Volumes {
		reinstalled := d.owner.Installing > 0 && v.Disk == s.n.Virtual.ImageDisk()
		if s.record.volumes[v] == nil && attachedTo(d.next, v) >= 0 && !reinstalled {
			wrong[v.Disk+".size"] = fmt.Sprintf("the volume %s of the disk %s is gone from the pool %s; Slipway does not replace it: restore it",
				v.Name, v.Disk, v.Pool)
		}
	}
}

// values are the values of the disks in a definition.
func (s *sighting) values(d *libvirtxml.Domain) site.Values {
	v := site.Values{}
	for _, x := range d.Devices.Disks {
		vol, ok := s.record.domain.owner.volumeOf(x)
		if !ok || vol.Disk == "" {
			continue
		}
		if s.record.volumes[vol] == nil {
			continue
		}
		v[vol.Disk+".size"], v[vol.Disk+".pool"] = s.size(vol), vol.Pool
		if x.Driver != nil {
			v[vol.Disk+".format"] = x.Driver.Type
		}
		if x.Target != nil {
			v[vol.Disk+".bus"] = x.Target.Bus
		}
	}
	return v
}

// size is the size of an existing volume in the design's form.
func (s *sighting) size(v volume) string {
	return asDesigned(s.record.volumes[v].size, s.n.Virtual.Disks[v.Disk].Size, sector).String()
}

// unattached are the listed volumes that exist but are no disk of a definition: a person has detached them, or they
// wait for the next start. They are deleted with the machine, so people must see them.
func (s *sighting) unattached(d *libvirtxml.Domain) site.Volumes {
	o, shown := s.record.domain.owner, map[string]volume{}
	for _, x := range d.Devices.Disks {
		if v, ok := o.volumeOf(x); ok && v.Disk != "" {
			shown[v.Disk] = v
		}
	}
	var rest site.Volumes
	for _, v := range o.Volumes {
		if s.record.volumes[v] == nil || shown[v.Disk] == v {
			continue
		}
		named := v.named(s.size(v))
		named.Unattached = true
		rest = append(rest, named)
	}
	return rest
}

// volumeOf is the listed volume that a disk uses.
func (o owner) volumeOf(x libvirtxml.DomainDisk) (volume, bool) {
	if x.Source == nil || x.Source.Volume == nil {
		return volume{}, false
	}
	for _, v := range o.Volumes {
		if v.Pool == x.Source.Volume.Pool && v.Name == x.Source.Volume.Volume {
			return v, true
		}
	}
	return volume{}, false
}

// strange says why a missing disk cannot be made: a volume with its name exists that the machine does not list.
func (s *sighting) strange(ctx context.Context, name string, d site.VirtualDisk) (string, error) {
	c, err := s.m.connection(ctx)
	if err != nil {
		return "", err
	}
	v := s.m.volume(name, d)
	found, err := find(ctx, c, v.Pool, v.Name)
	if err != nil || found == nil {
		return "", err
	}
	return s.m.notOurs(v), nil
}

// volume is the volume for a disk.
func (m *machine) volume(name string, d site.VirtualDisk) volume {
	return volume{Disk: name, Pool: poolOf(d), Name: volumeName(m.name, m.identity().UUID, name, formatOf(d))}
}

func (m *machine) notOurs(v volume) string {
	return fmt.Sprintf("in the pool %s of %s there is a volume %s that was not made for this machine; Slipway does not touch it: rename or remove it",
		v.Pool, m.where(), v.Name)
}

// setDisks adds missing data disks and grows disks. It never removes or shrinks a disk.
func (m *machine) setDisks(ctx context.Context, c *connection, _ site.Step, n *site.Node) error {
	d, err := m.existing(ctx, c)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(n.Virtual.Disks)) {
		if err := m.setDisk(ctx, c, d, n, name); err != nil {
			return fmt.Errorf("disk %s: %w", name, err)
		}
		if d, err = m.existing(ctx, c); err != nil { // its state after the change
			return err
		}
	}
	return nil
}

func (m *machine) setDisk(ctx context.Context, c *connection, d *domain, n *site.Node, name string) error {
	want := n.Virtual.Disks[name]
	v, listed := d.owner.disk(name)
	if !listed {
		if want.Image != "" {
			return nil // an installation makes it
		}
		v = m.volume(name, want)
	}
	if err := m.merged(d, name); err != nil {
		return err
	}
	s, err := m.storage(ctx, c, v.Pool)
	if err != nil {
		return err
	}
	if err := s.refresh(ctx); err != nil { // a person may have put a file there
		return err
	}
	there, err := find(ctx, c, v.Pool, v.Name)
	if err != nil {
		return err
	}
	attached := attachedTo(d.next, v) >= 0
	switch {
	case there != nil && !listed:
		return refused("%s", m.notOurs(v))
	case there == nil && attached:
		return refused("the volume %s is gone from the pool %s; Slipway does not replace it", v.Name, v.Pool)
	case there == nil && want.Image != "":
		return nil
	case there == nil:
		if err := m.makeVolume(ctx, c, d, v, want); err != nil {
			return err
		}
	case v.Pool != poolOf(want):
		return refused("it is in the pool %s, and a disk is not moved to another one", v.Pool)
	case there.size > roundUp(want.Size, sector):
		return refused("it has %s, and a disk is never made smaller", there.size)
	case there.size < roundUp(want.Size, sector):
		if err := m.grow(ctx, c, d, v, there, want.Size); err != nil {
			return err
		}
	}
	if want.Image != "" && !attached {
		return nil // an installation attaches it
	}
	return m.attach(ctx, c, d, n, v, want)
}

// attachedTo is the index of a volume among the disks of a definition; -1 for none.
func attachedTo(d *libvirtxml.Domain, v volume) int {
	return slices.IndexFunc(d.Devices.Disks, func(x libvirtxml.DomainDisk) bool {
		return x.Source != nil && x.Source.Volume != nil && x.Source.Volume.Pool == v.Pool && x.Source.Volume.Volume == v.Name
	})
}

// makeVolume lists a volume and makes it. If somebody else has made it meanwhile, the volume is not ours and is
// removed from the list.
func (m *machine) makeVolume(ctx context.Context, c *connection, d *domain, v volume, want site.VirtualDisk) error {
	before := d.owner
	if err := m.setOwner(ctx, c, d, before.with(v)); err != nil {
		return err
	}
	err := m.create(ctx, c, v, want)
	if !existsAlready(err) {
		return err
	}
	if err := m.setOwner(ctx, c, d, before.without(v)); err != nil {
		return err
	}
	return refused("%s", m.notOurs(v))
}

// existsAlready reports whether a volume could not be made because it exists, or because of a file that libvirt has
// not seen yet.
func existsAlready(err error) bool {
	return says(err, golibvirt.ErrStorageVolExist) ||
		says(err, golibvirt.ErrOperationInvalid) && strings.Contains(err.Error(), "already exists")
}

// create makes an empty volume.
func (m *machine) create(ctx context.Context, c *connection, v volume, want site.VirtualDisk) error {
	p, err := m.pool(ctx, c, v.Pool)
	if err != nil {
		return err
	}
	return tell(ctx, c.within(createTimeout), func(rpc *golibvirt.Libvirt) error {
		_, err := rpc.StorageVolCreateXML(p, describeVolume(v.Name, want), 0)
		return err
	})
}

// createTimeout bounds creating a volume. A pool that allocates all of its space at once needs long.
const createTimeout = 5 * time.Minute

// describeVolume is libvirt's description of an empty volume.
func describeVolume(name string, want site.VirtualDisk) string {
	type text struct {
		Unit  string `xml:"unit,attr"`
		Value int64  `xml:",chardata"`
	}
	type format struct {
		Type string `xml:"type,attr"`
	}
	return marshalXML(struct {
		XMLName    xml.Name `xml:"volume"`
		Name       string   `xml:"name"`
		Capacity   text     `xml:"capacity"`
		Allocation text     `xml:"allocation"`
		Format     format   `xml:"target>format"`
	}{Name: name, Capacity: text{"bytes", int64(roundUp(want.Size, sector))}, Allocation: text{"bytes", 0}, Format: format{formatOf(want)}})
}

// grow makes a volume larger, through the machine if it runs.
func (m *machine) grow(ctx context.Context, c *connection, d *domain, v volume, there *content, size site.Size) error {
	defer m.hypervisor.wrote(d.ref.UUID)
	bytes := uint64(roundUp(size, sector))
	if d.active() {
		if i := attachedTo(d.live, v); i >= 0 && d.live.Devices.Disks[i].Target != nil {
			return tell(ctx, c, func(rpc *golibvirt.Libvirt) error {
				return rpc.DomainBlockResize(d.ref, d.live.Devices.Disks[i].Target.Dev, bytes, golibvirt.DomainBlockResizeBytes)
			})
		}
	}
	return tell(ctx, c, func(rpc *golibvirt.Libvirt) error { return rpc.StorageVolResize(there.ref, bytes, 0) })
}

// attach adds a disk to the machine, from its next start and, if it runs, now.
func (m *machine) attach(ctx context.Context, c *connection, d *domain, n *site.Node, v volume, want site.VirtualDisk) error {
	i := attachedTo(d.next, v)
	if i < 0 || d.next.Devices.Disks[i].Target == nil || d.next.Devices.Disks[i].Target.Bus != busOf(want) {
		shapeDisk(d.next, n, v, want)
		if err := m.redefine(ctx, c, d); err != nil {
			return err
		}
	}
	if !d.active() || attachedTo(d.live, v) >= 0 {
		return nil
	}
	x := d.next.Devices.Disks[attachedTo(d.next, v)]
	x.Address = nil
	if err := m.device(ctx, c, d, &x, attachDevice); err != nil && !laterThen(err) {
		return fmt.Errorf("plug it in: %w", err)
	}
	return nil
}

// shapeDisk puts a disk into a definition, and replaces an earlier entry.
func shapeDisk(d *libvirtxml.Domain, n *site.Node, v volume, want site.VirtualDisk) {
	if i := attachedTo(d, v); i >= 0 {
		d.Devices.Disks = slices.Delete(d.Devices.Disks, i, i+1)
	}
	x := libvirtxml.DomainDisk{
		Device: "disk",
		Driver: &libvirtxml.DomainDiskDriver{Name: "qemu", Type: formatOf(want), Discard: "unmap"},
		Source: &libvirtxml.DomainDiskSource{Volume: &libvirtxml.DomainDiskSourceVolume{Pool: v.Pool, Volume: v.Name}},
		Target: &libvirtxml.DomainDiskTarget{Dev: freeTarget(d, n, v.Disk, busOf(want)), Bus: busOf(want)},
		Serial: serial(v.Disk),
		Alias:  &libvirtxml.DomainAlias{Name: alias(aliasDisk, v.Disk)},
	}
	if busOf(want) == "scsi" {
		needSCSI(d)
	}
	d.Devices.Disks = append(d.Devices.Disks, x)
	slices.SortStableFunc(d.Devices.Disks, before(n.Virtual.ImageDisk()))
}

// needSCSI adds a SCSI controller to a definition without one.
func needSCSI(d *libvirtxml.Domain) {
	if !slices.ContainsFunc(d.Devices.Controllers, func(c libvirtxml.DomainController) bool { return c.Type == "scsi" }) {
		d.Devices.Controllers = append(d.Devices.Controllers, libvirtxml.DomainController{Type: "scsi", Model: "virtio-scsi"})
	}
}

// serial is the serial number by which the guest finds the disk. A virtio disk has only 20 bytes for it.
func serial(disk string) string { return disk[:min(len(disk), 20)] }

// freeTarget is a free device name in the definition. The first name of each bus is reserved for the image's disk,
// from which the firmware boots.
func freeTarget(d *libvirtxml.Domain, n *site.Node, disk, bus string) string {
	prefix := "sd"
	if bus == "virtio" {
		prefix = "vd"
	}
	taken := map[string]bool{}
	for _, x := range d.Devices.Disks {
		if x.Target != nil {
			taken[x.Target.Dev] = true
		}
	}
	image := n.Virtual.ImageDisk()
	for i := range 26 * 27 {
		name := prefix + letters(i)
		if !taken[name] && (i > 0 || image == "" || image == disk) {
			return name
		}
	}
	return prefix + "a" // taken; libvirt reports that
}

func letters(i int) string {
	if i < 26 {
		return string(rune('a' + i))
	}
	return letters(i/26-1) + letters(i%26)
}

// before sorts the image's disk first, because the firmware boots from it, and the others by name.
func before(image string) func(a, b libvirtxml.DomainDisk) int {
	isImage := func(x libvirtxml.DomainDisk) int {
		if image != "" && aliased(aliasDisk, x.Alias) == image {
			return 0
		}
		return 1
	}
	return func(a, b libvirtxml.DomainDisk) int {
		return cmp.Or(isImage(a)-isImage(b), compare(target(a), target(b)))
	}
}

func target(x libvirtxml.DomainDisk) string {
	if x.Target == nil {
		return ""
	}
	return x.Target.Dev
}

// compare sorts vdb before vdaa.
func compare(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return slices.Compare([]byte(a), []byte(b))
}
