package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// filesystems makes the file systems.
func (m *maker) filesystems(ctx context.Context) error {
	for _, f := range m.layout.Filesystems {
		if f.Keep {
			continue
		}
		m.h.Tell(fmt.Sprintf("making %s on %s", f.Type, f.On))
		name, err := m.device(f.On)
		if err != nil {
			return err
		}
		c, err := mkfs(f, "/dev/"+name)
		if err != nil {
			return err
		}
		if err := run(ctx, m.h, c); err != nil {
			return err
		}
		if err := m.reads(f, name); err != nil {
			return err
		}
	}
	return nil
}

// efiLarge is the minimum size of an EFI system partition for FAT32, which the UEFI specification asks for. Smaller
// partitions have too few clusters.
const efiLarge = 64 << 20

// mkfs is the command that makes a file system.
func mkfs(f item.LayoutFilesystem, device string) (inside.Command, error) {
	c := inside.Command{Path: "mkfs." + f.Type, Timeout: programWithin}
	label := func(option string) {
		if f.Label != "" {
			c.Args = append(c.Args, option, f.Label)
		}
	}
	switch f.Type {
	case "ext4":
		c.Args = []string{"-F", "-q", "-U", f.UUID, "-E", "nodiscard"}
		label("-L")
	case "xfs":
		c.Args = []string{"-f", "-q", "-K", "-m", "uuid=" + f.UUID}
		label("-L")
	case "btrfs":
		c.Args = []string{"-f", "-q", "-K", "-U", f.UUID}
		label("-L")
	case "vfat":
		c.Args = []string{"-I", "-i", strings.ReplaceAll(f.UUID, "-", "")}
		if f.EFI && f.Bytes >= efiLarge {
			c.Args = append(c.Args, "-F", "32")
		}
		label("-n")
	case "swap":
		c.Path, c.Args = "mkswap", []string{"-f", "-U", f.UUID}
		label("-L")
	default:
		return c, fmt.Errorf("%s must have the file system %q, which Slipway cannot make", f.On, f.Type)
	}
	c.Args = append(c.Args, device)
	return c, nil
}

// reads checks that a file system is on the device.
func (m *maker) reads(f item.LayoutFilesystem, name string) error {
	file, err := os.Open(node(m.h, name))
	if err != nil {
		return err
	}
	defer file.Close()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	p, err := openPart(file, size)
	if err != nil {
		return err
	}
	on, err := signatures(p)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(on, func(s item.Signature) bool { return s.Kind == f.Type && strings.EqualFold(s.UUID, f.UUID) }) {
		return fmt.Errorf("on %s there is %v, and was to be %s %s", f.On, on, f.Type, f.UUID)
	}
	return nil
}

// mounts mounts the file systems under Target, including those of kept disks.
func (m *maker) mounts(ctx context.Context) error {
	for _, f := range m.layout.Filesystems {
		if f.Mount == "" || f.Type == "swap" {
			continue
		}
		m.h.Tell("mounting " + f.Mount)
		if path.Clean(f.Mount) != f.Mount || !path.IsAbs(f.Mount) {
			return fmt.Errorf("%q is not a path in its shortest form", f.Mount)
		}
		name, err := m.device(f.On)
		if err != nil {
			return err
		}
		if err := m.folder(f.Mount); err != nil {
			return err
		}
		args := []string{"-t", f.Type, "-o", cmp.Or(f.Options, "defaults"), "/dev/" + name, path.Join(Target, f.Mount)}
		if err := run(ctx, m.h, inside.Command{Path: "mount", Args: args}); err != nil {
			return err
		}
	}
	return nil
}

// folder makes the mount point of a file system. An existing path may come from a kept disk, and a link there could
// lead out of the new system.
func (m *maker) folder(mount string) error {
	at := m.h.Path(Target)
	for _, word := range append([]string{""}, strings.Split(strings.Trim(mount, "/"), "/")...) {
		at = filepath.Join(at, word)
		info, err := os.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err := os.Mkdir(at, 0o755); err != nil {
				return err
			}
		case err != nil:
			return err
		case !info.IsDir():
			return fmt.Errorf("%s cannot be mounted: %s is not a folder", mount, at)
		}
	}
	return nil
}
