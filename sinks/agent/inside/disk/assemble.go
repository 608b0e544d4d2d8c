package disk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// Assemble starts the arrays and volume groups that are on a layout's disks, and opens its encrypted volumes, so that
// they can be read but not written. An earlier run may have made them, and after a restart the machine does not know them. Assemble skips an
// array, a group or a volume that is missing, belongs to another layout or cannot be started. It reports the reason, which is
// not an error. An encrypted volume of this layout with another passphrase is ErrOtherPassphrase: a system may be on it.
func Assemble(ctx context.Context, h *inside.Host, l item.Layout, passphrase string) error {
	m, err := places(ctx, h, l)
	if err != nil {
		return err
	}
	m.passphrase = passphrase
	open := func(onVolumes bool) error {
		for _, e := range l.Encrypted {
			if (e.On.Volume != "") != onVolumes {
				continue
			}
			err := m.openAgain(ctx, e)
			if errors.Is(err, ErrOtherPassphrase) {
				return fmt.Errorf("%s cannot be opened: %w", e.On, err)
			}
			if err != nil {
				h.Tell(fmt.Sprintf("%s cannot be opened to look for a system on it: %v", e.On, err))
			}
		}
		return nil
	}
	for _, a := range l.Arrays {
		if err := m.assemble(ctx, a); err != nil {
			h.Tell(fmt.Sprintf("the array %s cannot be started to look for a system on it: %v", a.Name, err))
		}
	}
	if err := open(false); err != nil {
		return err
	}
	for _, g := range l.Groups {
		if err := m.activate(ctx, g); err != nil {
			h.Tell(fmt.Sprintf("the volume group %s cannot be started to look for a system on it: %v", g.Name, err))
		}
	}
	return errors.Join(open(true), ctx.Err())
}

// assemble starts an array from its available members.
func (m *maker) assemble(ctx context.Context, a item.LayoutArray) error {
	var members []string
	for _, p := range a.Members {
		if p.Disk != "" && !m.holds(p, func(s item.Signature) bool { return s.Kind == "md" && strings.EqualFold(s.UUID, a.UUID) }) {
			continue
		}
		if name, err := m.device(p); err == nil {
			members = append(members, "/dev/"+name)
		}
	}
	if len(members) == 0 {
		return nil
	}
	if _, err := m.device(item.Place{Array: a.Name}); err == nil {
		return nil // it already runs
	}
	number, err := m.freeArray()
	if err != nil {
		return err
	}
	m.h.Tell("starting the array " + a.Name + " read-only, to look for a system on it")
	args := append([]string{"--assemble", "/dev/" + number, "--readonly", "--run", "--uuid=" + a.MdadmUUID()}, members...)
	return run(ctx, m.h, inside.Command{Path: "mdadm", Args: args, Env: noUdev, Timeout: programWithin})
}

// activate starts the volumes of a group if all its members are available.
func (m *maker) activate(ctx context.Context, g item.LayoutGroup) error {
	var members []string
	for _, p := range g.Members {
		if p.On.Disk != "" && !m.holds(p.On, func(s item.Signature) bool { return s.Kind == "lvm" && s.Name == g.Name }) {
			return nil
		}
		name, err := m.device(p.On)
		if err != nil {
			return nil // the reason was already reported for the array
		}
		members = append(members, "/dev/"+name)
	}
	if !slices.ContainsFunc(g.Volumes, func(v item.LayoutVolume) bool {
		_, err := m.device(item.Place{Group: g.Name, Volume: v.Name})
		return err != nil
	}) {
		return nil // all already run
	}
	m.h.Tell("starting the volume group " + g.Name + " read-only, to look for a system on it")
	config := strings.Replace(lvmConfig, "activation{", fmt.Sprintf("activation{read_only_volume_list=[%q] ", g.Name), 1)
	return run(ctx, m.h, inside.Command{Path: "lvm", Args: []string{"vgchange", "--config", config, "--devices", strings.Join(members, ","), "--activate", "y", g.Name}, Timeout: programWithin})
}

// holds reports whether a disk has a matching signature at a place.
func (m *maker) holds(p item.Place, is func(item.Signature) bool) bool {
	return slices.ContainsFunc(m.found[p.Disk].Holds, func(s item.Signature) bool { return s.Partition == p.Partition && is(s) })
}
