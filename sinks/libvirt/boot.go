package libvirt

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"

	"github.com/slipway-gitops/slipway/engine/site"
)

// bootNames are the design's names of what libvirt boots from.
var bootNames = map[string]string{"hd": "Hdd", "network": "Pxe", "cdrom": "Cd", "fd": "Floppy"}

// bootDevice is libvirt's word for a name of the design; empty for none.
func bootDevice(name string) string {
	for dev, is := range bootNames {
		if is == name {
			return dev
		}
	}
	return ""
}

// bootOrder is the order in which a machine looks for what it boots from, as the
// design has it. A person may have ordered single devices instead.
func bootOrder(d *libvirtxml.Domain) string {
	var order []string
	for _, b := range d.OS.BootDevices {
		order = append(order, cmp.Or(bootNames[b.Dev], b.Dev))
	}
	if len(order) == 0 {
		order = byDevice(d.Devices)
	}
	return strings.Join(order, ",")
}

// byDevice are the kinds of devices in the order that they themselves have.
func byDevice(devices *libvirtxml.DomainDeviceList) []string {
	kinds := map[uint]string{}
	for _, x := range devices.Disks {
		if x.Boot != nil {
			kinds[x.Boot.Order] = map[string]string{"cdrom": "Cd", "floppy": "Floppy"}[x.Device]
			if kinds[x.Boot.Order] == "" {
				kinds[x.Boot.Order] = "Hdd"
			}
		}
	}
	for _, x := range devices.Interfaces {
		if x.Boot != nil {
			kinds[x.Boot.Order] = "Pxe"
		}
	}
	var order []string
	for _, n := range slices.Sorted(maps.Keys(kinds)) {
		if !slices.Contains(order, kinds[n]) {
			order = append(order, kinds[n])
		}
	}
	return order
}

// shapeBoot sets the order, which no device may have besides.
func shapeBoot(d *libvirtxml.Domain, order string) {
	d.OS.BootDevices = nil
	for name := range strings.SplitSeq(order, ",") {
		if dev := bootDevice(name); dev != "" {
			d.OS.BootDevices = append(d.OS.BootDevices, libvirtxml.DomainBootDevice{Dev: dev})
		}
	}
	for i := range d.Devices.Disks {
		d.Devices.Disks[i].Boot = nil
	}
	for i := range d.Devices.Interfaces {
		d.Devices.Interfaces[i].Boot = nil
	}
}

// setBoot sets the order that the machine boots by from its next start on.
func (m *machine) setBoot(ctx context.Context, c *connection, _ site.Step, n *site.Node) error {
	for _, name := range n.Boot.Order {
		if bootDevice(name) == "" {
			return refused("boot.order of %s has %q, which a virtual machine does not boot from; it can have %s", n.Name, name,
				strings.Join(slices.Sorted(maps.Values(bootNames)), ", "))
		}
	}
	d, err := m.existing(ctx, c)
	if err != nil {
		return err
	}
	want := strings.Join(n.Boot.Order, ",")
	if want == "" || bootOrder(d.next) == want {
		return nil
	}
	shapeBoot(d.next, want)
	return m.redefine(ctx, c, d)
}
