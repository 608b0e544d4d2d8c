package redfish

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Inspect implements driver.Inspector.
func (m *machine) Inspect(ctx context.Context, n *site.Node) (*site.Inventory, error) {
	s, err := m.system(ctx, n.Machine())
	if err != nil {
		return nil, err
	}
	i := &inspection{walk: newWalk(m.client.get), system: s, inv: s.inventory()}
	i.known[key(m.path)] = s.object
	err = i.all(ctx)
	if over(ctx, err) && !errors.Is(err, errEnough) {
		return nil, err
	}
	i.miss("the rest", err)
	i.inv.Missing = i.missing
	if !errors.Is(err, errEnough) {
		i.inv.Lacks = m.lacks(ctx, s, i.known)
	}
	return i.inv, nil
}

// inspection fills an inventory. A list stays nil when the BMC has none of its
// kind or it could not be read.
type inspection struct {
	*walk
	system  system
	root    object
	chassis []object
	inv     *site.Inventory
}

// all reads everything, what matters most first. Its error is one that ends
// the walk.
func (i *inspection) all(ctx context.Context) error {
	root, err := i.resource(ctx, schemas.DefaultServiceRoot)
	if over(ctx, err) {
		return err
	}
	i.root = root
	i.learn(root)
	i.inv.DrivesUnread = true // until they were
	for _, list := range []struct {
		what string
		read func(context.Context) error
	}{
		{"chassis", i.findChassis}, {"drives", i.drives}, {"memory modules", i.dimms}, {"processors", i.processors},
		{"power supplies", i.supplies}, {"network adapters", i.adapters},
		{"network interfaces", i.interfaces}, {"PCIe devices", i.devices}, {"manager", i.controller}, {"firmware", i.firmware},
	} {
		before := i.misses
		err := list.read(ctx)
		if over(ctx, err) {
			return err
		}
		i.miss(list.what, err)
		if list.what == "drives" {
			i.inv.DrivesUnread = i.misses > before
		}
	}
	return nil
}

// errOff is why a list that is empty is not believed: many BMCs know of the
// parts only from the last start of the machine.
var errOff = errors.New("the machine is off and its BMC lists none")

// filled gives a list that was read, with what kept it from being read whole.
// One of which nothing could be read is nil.
func filled[T any](i *inspection, all []T, err error) ([]T, error) {
	switch {
	case len(all) > 0:
		return all, err
	case err != nil:
		return nil, err
	case i.system.off():
		return nil, errOff
	}
	return []T{}, nil
}

func (i *inspection) dimms(ctx context.Context) error {
	members, err := i.members(ctx, link(i.system.object, "Memory"))
	var all []site.DIMM
	for _, o := range members {
		d := site.DIMM{
			Part:  part(o, name(o, "DeviceLocator"), label(o), name(o, "Name")),
			Bytes: number(o, "CapacityMiB") << 20, Kind: name(o, "MemoryDeviceType"), MHz: int(number(o, "OperatingSpeedMhz")),
		}
		if !absent(o) && (d.Bytes != 0 || d.Serial != "") {
			all = append(all, d)
		}
	}
	i.inv.DIMMs, err = filled(i, all, err)
	return err
}

func (i *inspection) processors(ctx context.Context) error {
	members, err := i.members(ctx, link(i.system.object, "Processors"))
	var cpus, gpus []site.Processor
	for _, o := range members {
		p := site.Processor{
			Part:         part(o, name(o, "Socket"), label(o), name(o, "Name")),
			Architecture: architecture(o), Cores: int(number(o, "TotalCores")), Threads: int(number(o, "TotalThreads")),
		}
		switch kind := name(o, "ProcessorType"); {
		case kind == string(schemas.CoreProcessorType), kind == string(schemas.ThreadProcessorType):
		case kind == "" || kind == string(schemas.CPUProcessorType):
			cpus = with(cpus, p, o)
		default: // an empty place for one tells that there is none
			gpus = with(gpus, p, o)
		}
	}
	i.inv.CPUs, err = filled(i, cpus, err)
	if err == nil && len(cpus) > 0 {
		i.inv.Processors = len(cpus) // the system's own summary may count accelerators, too
	}
	i.inv.GPUs = gpus // none says nothing: most BMCs list them as devices only, or not at all
	return err
}

// with adds a processor to a list, unless its place is empty.
func with(all []site.Processor, p site.Processor, o object) []site.Processor {
	if absent(o) {
		return append([]site.Processor{}, all...)
	}
	return append(all, p)
}

// architectures are Redfish's instruction sets (DSP0268, Processor) as the
// design names them.
var architectures = map[string]string{"x86-64": "amd64", "arm-a64": "arm64"}

func architecture(o object) string {
	set := strings.ToLower(name(o, "InstructionSet"))
	return cmp.Or(architectures[set], set, strings.ToLower(name(o, "ProcessorArchitecture")))
}

// drives reads those of every storage subsystem, and where there is no such
// thing the simple kind, or those of the chassis.
func (i *inspection) drives(ctx context.Context) error {
	subsystems, err := i.storage(ctx)
	var all []site.Drive
	for _, s := range subsystems {
		drives, err := i.each(ctx, items(s, "Drives"), i.resource)
		if err != nil {
			return err
		}
		all = append(all, drivesOf(drives)...)
	}
	if len(all) == 0 && !over(ctx, err) {
		simple, simpleErr := i.members(ctx, link(i.system.object, "SimpleStorage"))
		for _, s := range simple {
			all = append(all, drivesOf(items(s, "Devices"))...)
		}
		if over(ctx, simpleErr) || len(all) > 0 {
			err = simpleErr
		}
	}
	if len(all) == 0 && !over(ctx, err) {
		caged, cageErr := i.caged(ctx)
		all = drivesOf(caged)
		if over(ctx, cageErr) || len(all) > 0 {
			err = cageErr
		}
	}
	i.inv.Drives, err = filled(i, distinct(all), err)
	return err
}

// caged are the drives of the chassis: linked, or in a collection (DSP0268,
// Chassis).
func (i *inspection) caged(ctx context.Context) ([]object, error) {
	var all []object
	for _, c := range i.chassis {
		drives, err := i.each(ctx, items(c, "Links", "Drives"), i.resource)
		if path := link(c, "Drives"); len(drives) == 0 && path != "" && err == nil {
			drives, err = i.members(ctx, path)
		}
		if err != nil {
			return all, err
		}
		all = append(all, drives...)
	}
	return all, nil
}

// storage are the storage subsystems. A BMC that gives two levels is asked for
// their drives with them; one that gives one of any resource, for each
// subsystem with its drives.
func (i *inspection) storage(ctx context.Context) ([]object, error) {
	path := link(i.system.object, "Storage")
	if i.deeper == "" && i.single != "" {
		return i.membersBy(ctx, path, "", i.full)
	}
	return i.membersBy(ctx, path, cmp.Or(i.deeper, i.expand), i.resource)
}

func drivesOf(objects []object) []site.Drive {
	var all []site.Drive
	for _, o := range objects {
		if absent(o) || isVirtualMedium(o) {
			continue
		}
		all = append(all, site.Drive{
			Part:  part(o, label(o), name(o, "Name")),
			Bytes: max(number(o, "CapacityBytes"), 0), Media: name(o, "MediaType"), Protocol: name(o, "Protocol"),
			Firmware: cmp.Or(name(o, "Revision"), name(o, "FirmwareVersion")), Failing: at[bool](o, "FailurePredicted"),
		})
	}
	return all
}

// isVirtualMedium says whether a drive is a medium that the BMC itself shows the
// machine by USB, as AMI's "Virtual HDISK0" and "Virtual CDROM1": no disk of the
// machine. A controller's virtual disks are none of these.
func isVirtualMedium(o object) bool {
	called := strings.ToLower(name(o, "Name") + " " + name(o, "Model") + " " + label(o))
	maker := strings.ToLower(name(o, "Manufacturer"))
	byUSB := strings.EqualFold(name(o, "Protocol"), "USB") || maker == "ami" || strings.Contains(maker, "american megatrends")
	return byUSB && strings.Contains(called, "virtual")
}

// distinct leaves out a drive that is told of twice: by two controllers that
// both reach it.
func distinct(all []site.Drive) []site.Drive {
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(d site.Drive) bool {
		same := d.Model + "\x00" + d.Serial
		again := d.Serial != "" && seen[same]
		seen[same] = true
		return again
	})
}

// findChassis reads the chassis that are the machine's: those that do not
// belong to other systems only. All of them are asked for where that takes one
// request, otherwise those that the system names.
func (i *inspection) findChassis(ctx context.Context) error {
	var all []object
	var err error
	if refs := items(i.system.object, "Links", "Chassis"); i.expand == "" && len(refs) > 0 {
		all, err = i.each(ctx, refs, i.resource)
	} else {
		all, err = i.members(ctx, link(i.root, "Chassis"))
	}
	own := key(link(i.system.object))
	for _, c := range all {
		systems := items(c, "Links", itsChassis.back)
		if len(systems) == 0 || own == "" || i.named(systems) {
			i.chassis = append(i.chassis, c)
		}
	}
	return err
}

// named says whether the system is among those that references lead to.
func (i *inspection) named(systems []object) bool {
	own := key(link(i.system.object))
	return slices.ContainsFunc(systems, func(s object) bool { return own != "" && key(link(s)) == own })
}

// supplies reads Power, which has them all, and the newer PowerSubsystem where
// there is no such thing.
func (i *inspection) supplies(ctx context.Context) error {
	var all []site.PowerSupply
	var errs error
	for _, c := range i.chassis {
		objects, err := i.suppliesOf(ctx, c)
		if over(ctx, err) {
			return err
		}
		errs = cmp.Or(errs, err)
		for _, o := range objects {
			p := part(o, label(o), name(o, "Name"))
			p.ID = cmp.Or(p.ID, name(o, "MemberId"))
			if !absent(o) {
				all = append(all, site.PowerSupply{Part: p, Watts: int(number(o, "PowerCapacityWatts")), Firmware: name(o, "FirmwareVersion")})
			}
		}
	}
	if len(all) > 0 || len(i.chassis) > 0 && errs == nil {
		i.inv.Supplies = append([]site.PowerSupply{}, all...)
	}
	return errs
}

func (i *inspection) suppliesOf(ctx context.Context, chassis object) ([]object, error) {
	if path := link(chassis, "Power"); path != "" {
		if o, err := i.resource(ctx, path); err == nil && len(items(o, "PowerSupplies")) > 0 || over(ctx, err) {
			return items(o, "PowerSupplies"), err
		}
	}
	path := link(chassis, "PowerSubsystem")
	if path == "" {
		return nil, nil
	}
	o, err := i.resource(ctx, path)
	if err != nil || link(o, "PowerSupplies") == "" {
		return nil, err
	}
	return i.members(ctx, link(o, "PowerSupplies"))
}

// devices reads what is on the PCIe bus.
func (i *inspection) devices(ctx context.Context) error {
	var all []site.PCIeDevice
	seen := map[string]bool{}
	for _, c := range i.chassis {
		members, err := i.members(ctx, link(c, "PCIeDevices"))
		if over(ctx, err) {
			return err
		}
		i.miss("PCIe devices", err)
		for _, o := range members {
			if !absent(o) && !seen[key(link(o))] {
				seen[key(link(o))] = true
				all = append(all, site.PCIeDevice{Part: part(o, name(o, "Name"), label(o)), Firmware: name(o, "FirmwareVersion")})
			}
		}
	}
	i.inv.Devices = all
	return nil
}

// controller reads the manager.
func (i *inspection) controller(ctx context.Context) error {
	all, err := i.each(ctx, items(i.system.object, "Links", "ManagedBy"), i.resource)
	if len(all) == 0 && !over(ctx, err) {
		all, err = i.members(ctx, link(i.root, "Managers"))
		all = slices.DeleteFunc(all, func(o object) bool { return !i.named(items(o, "Links", itsManagers.back)) })
	}
	for _, o := range all[:min(len(all), 1)] {
		i.inv.BMC = &site.Controller{Model: name(o, "Model"), Version: name(o, "FirmwareVersion")}
	}
	return err
}

// firmware reads the versions of all components. Dell lists those that could
// be gone back to, or be installed, beside those that are; Lenovo has "-" for
// none.
func (i *inspection) firmware(ctx context.Context) error {
	path := link(i.root, "UpdateService")
	if path == "" {
		return nil
	}
	service, err := i.resource(ctx, path)
	if err != nil {
		return err
	}
	members, err := i.members(ctx, link(service, "FirmwareInventory"))
	var all []site.Component
	for _, o := range members {
		c := site.Component{ID: name(o, "Id"), Name: name(o, "Name"), Version: name(o, "Version")}
		if strings.Trim(c.Version, "-* ") != "" && !strings.HasPrefix(c.ID, "Previous-") && !strings.HasPrefix(c.ID, "Available-") {
			all = append(all, c)
		}
	}
	i.inv.Firmware = all
	return err
}
