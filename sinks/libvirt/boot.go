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

// bootNames maps libvirt's boot devices to the design's names.
var bootNames = map[string]string{"hd": "Hdd", "network": "Pxe", "cdrom": "Cd", "fd": "Floppy"}

// bootDevice is libvirt's word for a name in the design; empty for none.
func bootDevice(name string) string {
	for dev, is := range bootNames {
		if is == name {
			return dev
		}
	}
	return ""
}

// bootOrder is a machine's boot order in the design's words. A person may have set the order on single devices
// instead.
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

// byDevice are the kinds of devices in the order that is set on the devices themselves.
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

// shapeBoot sets the boot order, and removes the order on devices.
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

// setBoot sets the boot order from the machine's next start.
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
