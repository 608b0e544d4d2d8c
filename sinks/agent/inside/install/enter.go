package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/disk"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// kernelMounts are the kernel file systems that programs in the new system need. Each is a new mount, not a bind
// mount, so that unmounting it affects nothing else.
var kernelMounts = []struct{ kind, at string }{
	{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"devpts", "/dev/pts"}, {"tmpfs", "/run"},
}

// descriptors are the links in /dev that programs expect, and that only udev or an init makes: bash opens /dev/fd for
// a substitution of processes, as the scripts of clevis do.
var descriptors = []struct{ name, to string }{
	{"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"},
}

// efiVariables is the kernel's folder of firmware variables.
const efiVariables = "/sys/firmware/efi/efivars"

// policyFile keeps Debian's packages from starting their services (invoke-rc.d(8)), which would run in the ramdisk.
const policyFile = "usr/sbin/policy-rc.d"

const policy = "#!/bin/sh\n# Slipway removes this file at the end of the installation.\nexit 101\n"

// enter prepares the new system for running programs.
func (w *work) enter() error {
	root, err := os.OpenRoot(w.target.Root)
	if err != nil {
		return err
	}
	defer root.Close()
	mounts := kernelMounts
	if entries, err := os.ReadDir(w.h.Path(efiVariables)); err == nil && len(entries) > 0 {
		mounts = append(mounts[:len(mounts):len(mounts)], struct{ kind, at string }{"efivarfs", efiVariables})
	}
	for _, m := range mounts {
		if m.at != efiVariables { // the kernel has this folder; that of devpts is created in memory
			if err := root.MkdirAll(strings.TrimPrefix(m.at, "/"), 0o755); err != nil {
				return fmt.Errorf("%s of the new system: %w", m.at, err)
			}
			// A link would lead out of the new system, so it must be a folder.
			if info, err := root.Lstat(strings.TrimPrefix(m.at, "/")); err != nil || !info.IsDir() {
				return refused("%s of the image is not a folder, so that the system cannot start: make the image again", m.at)
			}
		}
		o, err := w.h.Exec(w.ctx, inside.Command{Path: "mount", Args: []string{"-t", m.kind, m.kind, path.Join(disk.Target, m.at)}})
		if err != nil {
			return err
		}
		if o.Code != 0 {
			return &wire.Error{Class: wire.Failed, Text: fmt.Sprintf("mount %s at %s of the new system: %s", m.kind, m.at, o.LastLines(3))}
		}
	}
	for _, d := range descriptors { // in memory: all devtmpfs are one
		if err := root.Symlink(d.to, "dev/"+d.name); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("/dev/%s of the new system: %w", d.name, err)
		}
	}
	if _, err := root.Lstat(policyFile); errors.Is(err, fs.ErrNotExist) {
		if err := root.WriteFile(policyFile, []byte(policy), 0o755); err != nil {
			return err
		}
	}
	return w.lendNames(root)
}

// lendNames lets programs in the new system resolve host names if its resolv.conf links to a file of a service that
// does not run.
func (w *work) lendNames(root *os.Root) error {
	ours, err := os.ReadFile(w.h.Path("/etc/resolv.conf"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the ramdisk resolves no names either
	}
	if err != nil {
		return err
	}
	to, err := root.Readlink("etc/resolv.conf")
	if err != nil {
		return nil // it is the image's own file, or missing
	}
	if !path.IsAbs(to) {
		to = path.Join("/etc", to)
	}
	if to = strings.TrimPrefix(path.Clean(to), "/"); !strings.HasPrefix(to, "run/") {
		return nil
	}
	if err := root.MkdirAll(path.Dir(to), 0o755); err != nil {
		return err
	}
	return root.WriteFile(to, ours, 0o644) // in memory: it disappears with the mount
}

// leave removes what enter has put onto the disks.
func (w *work) leave() error {
	root, err := os.OpenRoot(w.target.Root)
	if err != nil {
		return err
	}
	defer root.Close()
	is, err := root.ReadFile(policyFile)
	if errors.Is(err, fs.ErrNotExist) || err == nil && string(is) != policy {
		return nil
	}
	if err != nil {
		return err
	}
	return root.Remove(policyFile)
}
