package libvirt

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// define applies the designed definition. A running machine gets what can change while it runs.
func (m *machine) define(ctx context.Context, c *connection, step site.Step, n *site.Node) error {
	if err := checkNames(n); err != nil {
		return err
	}
	d, err := m.mine(ctx, c)
	if err != nil {
		return err
	}
	switch {
	case d == nil && makes(step):
		return m.make(ctx, c, n)
	case d == nil:
		return refused("the machine %s is no longer on %s, and the step was planned to change it, not to make it; nothing was written: find out who removed it, and look at it again", m.name, m.hypervisor.address)
	}
	before := marshalled(d.next)
	d.next = shape(d.next, n, m.kind())
	if marshalled(d.next) != before {
		if err := m.may.Ask(ctx, step); err != nil {
			return err
		}
		if err := m.redefine(ctx, c, d); err != nil {
			return err
		}
	}
	if err := m.setAutostart(ctx, c, d.ref, n.Virtual.Autostart == nil || *n.Virtual.Autostart); err != nil {
		return err
	}
	if d.active() {
		return m.plug(ctx, c, d, n)
	}
	return nil
}

// makes reports whether a step was planned for a missing machine.
func makes(step site.Step) bool {
	return slices.ContainsFunc(step.Changes, func(c site.Change) bool { return c.Field == string(site.FacetDefinition)+"."+site.FieldState })
}

// checkNames refuses values for which libvirt's own errors are unclear.
func checkNames(n *site.Node) error {
	for name := range n.Virtual.Interfaces {
		if len(alias(aliasInterface, name)) > 60 {
			return refused("the name of the interface %q is too long", name)
		}
	}
	if n.Virtual.CPUs < 1 || n.Virtual.Memory < 1 {
		return refused("virtual.cpus and virtual.memory of %s have to be set", n.Name)
	}
	return nil
}

// kind is the domain type on a hypervisor with only one type; otherwise empty.
func (m *machine) kind() string {
	if m.hypervisor.address.driver == drivers["/test/default"] {
		return "test"
	}
	return ""
}

// make creates the machine, off and without disks.
func (m *machine) make(ctx context.Context, c *connection, n *site.Node) error {
	d := shape(nil, n, m.kind())
	d.Name, d.UUID = m.name, m.identity().UUID
	o := owner{Site: m.site, Node: m.name}
	log, err := m.console(ctx, c, n)
	if err != nil {
		return err
	}
	if log != nil {
		o.Console = log.where
		d.Devices.Serials[0].Log = &libvirtxml.DomainChardevLog{File: log.file, Append: "on"}
	}
	withOwner(d, o)
	ref, err := m.send(ctx, c, d)
	if err != nil {
		return err
	}
	return m.setAutostart(ctx, c, ref, n.Virtual.Autostart == nil || *n.Virtual.Autostart)
}

type consoleFile struct {
	where *consoleLog
	file  string
}

// console is the machine's console file. It is in the pool of a disk, where it can be read as a volume. A machine
// without disks has none.
func (m *machine) console(ctx context.Context, c *connection, n *site.Node) (*consoleFile, error) {
	names := slices.Sorted(maps.Keys(n.Virtual.Disks))
	if len(names) == 0 {
		return nil, nil
	}
	name := names[0]
	if image := n.Virtual.ImageDisk(); image != "" {
		name = image
	}
	pool := poolOf(n.Virtual.Disks[name])
	folder, err := m.folder(ctx, c, pool)
	if err != nil || folder == "" {
		return nil, err
	}
	where := &consoleLog{Pool: pool, Name: consoleName(m.name, m.identity().UUID)}
	return &consoleFile{where, path.Join(folder, where.Name)}, nil
}

// redefine writes a domain's definition for its next start, with its owner.
func (m *machine) redefine(ctx context.Context, c *connection, d *domain) error {
	withOwner(d.next, d.owner)
	_, err := m.send(ctx, c, d.next)
	return err
}

func (m *machine) send(ctx context.Context, c *connection, d *libvirtxml.Domain) (golibvirt.Domain, error) {
	uuid, err := uuidOf(d.UUID)
	if err != nil {
		return golibvirt.Domain{}, err
	}
	defer m.hypervisor.wrote(uuid)
	ref, err := ask(ctx, c, func(rpc *golibvirt.Libvirt) (golibvirt.Domain, error) {
		return rpc.DomainDefineXMLFlags(marshalled(d), 0)
	})
	if errors.Is(err, errors.ErrUnsupported) && len(d.Devices.TPMs) > 0 && strings.Contains(err.Error(), "TPM") {
		err = fmt.Errorf("%w; %s needs swtpm for virtual.tpm", err, m.where())
	}
	return ref, err
}

// marshalled is a definition as XML.
func marshalled(d *libvirtxml.Domain) string {
	text, err := d.Marshal()
	if err != nil { // no value in it can fail
		panic(err)
	}
	return text
}

func (m *machine) setAutostart(ctx context.Context, c *connection, ref golibvirt.Domain, want bool) error {
	is, err := ask(ctx, c, func(rpc *golibvirt.Libvirt) (int32, error) { return rpc.DomainGetAutostart(ref) })
	if err != nil || (is != 0) == want {
		return err
	}
	value := int32(0)
	if want {
		value = 1
	}
	defer m.hypervisor.wrote(ref.UUID)
	return tell(ctx, c, func(rpc *golibvirt.Libvirt) error { return rpc.DomainSetAutostart(ref, value) })
}

// plug changes the interfaces of a running machine to match the design, as far as this works while it runs. The
// rest waits for a restart.
func (m *machine) plug(ctx context.Context, c *connection, d *domain, n *site.Node) error {
	there := map[string]bool{}
	for _, i := range d.live.Devices.Interfaces {
		name := aliased(aliasInterface, i.Alias)
		want, ok := n.Virtual.Interfaces[name]
		there[name] = true
		switch {
		case name == "":
		case !ok:
			if err := m.unplug(ctx, c, d, i); err != nil {
				return err
			}
		case bridge(i) != want.Bridge:
			i.Source = source(want.Bridge)
			if err := m.device(ctx, c, d, &i, updateDevice); err != nil {
				return fmt.Errorf("plug %s into %s: %w", name, want.Bridge, err)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(n.Virtual.Interfaces)) {
		if there[name] {
			continue
		}
		i := newInterface(name, n.Virtual.Interfaces[name])
		if err := m.device(ctx, c, d, &i, attachDevice); err != nil && !laterThen(err) {
			return fmt.Errorf("plug in %s: %w", name, err)
		}
	}
	return nil
}

// laterThen reports whether libvirt refused to change a running machine. The machine then matches the design from
// its next start.
func laterThen(err error) bool {
	return errors.Is(err, driver.ErrRefused) || errors.Is(err, errors.ErrUnsupported)
}

// unplugTimeout bounds how long a guest may take to release a device.
const unplugTimeout = 20 * time.Second

func (m *machine) unplug(ctx context.Context, c *connection, d *domain, i libvirtxml.DomainInterface) error {
	name := aliased(aliasInterface, i.Alias)
	if err := m.device(ctx, c, d, &i, detachDevice); err != nil && !laterThen(err) {
		return fmt.Errorf("unplug %s: %w", name, err)
	}
	_, err := m.until(ctx, unplugTimeout, func() (bool, error) {
		live, err := describe(ctx, c, d.ref, 0)
		return err == nil && !slices.ContainsFunc(live.Devices.Interfaces, func(x libvirtxml.DomainInterface) bool {
			return aliased(aliasInterface, x.Alias) == name
		}), err
	})
	return err // a device that the guest keeps disappears after a restart
}

// deviceCall changes one device of a running machine.
type deviceCall func(*golibvirt.Libvirt, golibvirt.Domain, string) error

func attachDevice(rpc *golibvirt.Libvirt, d golibvirt.Domain, text string) error {
	return rpc.DomainAttachDeviceFlags(d, text, uint32(golibvirt.DomainDeviceModifyLive))
}

func detachDevice(rpc *golibvirt.Libvirt, d golibvirt.Domain, text string) error {
	return rpc.DomainDetachDeviceFlags(d, text, uint32(golibvirt.DomainDeviceModifyLive))
}

func updateDevice(rpc *golibvirt.Libvirt, d golibvirt.Domain, text string) error {
	return rpc.DomainUpdateDeviceFlags(d, text, golibvirt.DomainDeviceModifyLive)
}

// device changes one device of a running machine.
func (m *machine) device(ctx context.Context, c *connection, d *domain, dev interface{ Marshal() (string, error) }, call deviceCall) error {
	text, err := dev.Marshal()
	if err != nil {
		return refused("%v", err)
	}
	defer m.hypervisor.wrote(d.ref.UUID)
	return tell(ctx, c, func(rpc *golibvirt.Libvirt) error { return call(rpc, d.ref, text) })
}
