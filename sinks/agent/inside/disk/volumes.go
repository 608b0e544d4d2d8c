package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// mapped escapes a name inside a mapped device's name, where "-" is the separator.
func mapped(name string) string { return strings.ReplaceAll(name, "-", "--") }

// freeName removes the folder of links that LVM left in /dev for an old group of the same name. LVM does not create
// a group if its folder exists.
func (m *maker) freeName(group string) error {
	folder := m.h.Path("/dev/" + group)
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	active := map[string]bool{}
	names, failed := blocks(m.h)
	for _, name := range names {
		active[say(m.h.Path("/sys/block/"+name), "dm/name")] = true
	}
	if err = errors.Join(err, failed); err == nil {
		for _, e := range entries {
			at := filepath.Join(folder, e.Name())
			// The target of a link may still exist: without udev the file of a mapped device outlives the device.
			if to, failed := os.Readlink(at); failed != nil || active[filepath.Base(to)] {
				err = fmt.Errorf("%s is in use", at)
				break
			}
			if err = os.Remove(at); err != nil {
				break
			}
		}
	}
	if err == nil {
		err = os.Remove(folder)
	}
	if err != nil {
		return fmt.Errorf("the volume group %s cannot be made, since the system has a /dev/%s: %w: choose another name; nothing was written", group, group, err)
	}
	return nil
}

// lvmConfig configures each run of LVM: it uses nothing of the system's configuration, and nothing waits for udev
// or a daemon.
const lvmConfig = `activation{udev_sync=0 udev_rules=0 monitoring=0} devices{obtain_device_list_from_udev=0 external_device_info_source="none" ` +
	`use_devicesfile=0 data_alignment_detection=0 data_alignment_offset_detection=0 md_chunk_alignment=0 multipath_component_detection=0} ` +
	`backup{backup=0 archive=0} global{event_activation=0 use_lvmlockd=0 use_lvmpolld=0}`

// groups makes the volume groups.
func (m *maker) groups(ctx context.Context) error {
	for _, g := range m.layout.Groups {
		m.h.Tell("making the volume group " + g.Name)
		var members []string
		for _, p := range g.Members {
			name, err := m.device(p.On)
			if err != nil {
				return err
			}
			members = append(members, "/dev/"+name)
		}
		lvm := func(command string, args ...string) error {
			all := append([]string{command, "--config", lvmConfig, "--devices", strings.Join(members, ","), "--yes"}, args...)
			return run(ctx, m.h, inside.Command{Path: "lvm", Args: all, Timeout: programWithin})
		}
		for i, p := range g.Members {
			if err := lvm("pvcreate", "--uuid", p.UUID, "--norestorefile", "--force", "--force", "--zero", "y", "--dataalignment", "1m", members[i]); err != nil {
				return err
			}
		}
		if err := lvm("vgcreate", append([]string{"--physicalextentsize", strconv.Itoa(item.ExtentBytes>>20) + "m", g.Name}, members...)...); err != nil {
			return err
		}
		for _, v := range g.Volumes {
			if err := lvm("lvcreate", "--zero", "y", "--wipesignatures", "y", "--extents", strconv.FormatInt(v.Extents, 10), "--name", v.Name, g.Name); err != nil {
				return err
			}
			name, err := m.device(item.Place{Group: g.Name, Volume: v.Name})
			if err != nil {
				return err
			}
			if err := m.wipeDevice(name, v.Extents*item.ExtentBytes); err != nil {
				return err
			}
		}
	}
	return nil
}
