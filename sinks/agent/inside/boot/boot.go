// Package boot makes an installed system bootable: its initramfs, its boot loader on each boot disk, and the
// firmware's boot entries. It uses the system's own programs, in chroot, and its own reader for the firmware's
// variables. It supports Debian-family systems with GRUB.
package boot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// Mode is how firmware starts a system.
type Mode string

// The modes.
const (
	UEFI Mode = "uefi"
	BIOS Mode = "bios"
)

// Plan says where a system boots from.
type Plan struct {
	Mode Mode
	// ESPs are the EFI system partitions. UEFI needs at least one. A partition that is mounted in the system comes
	// first.
	ESPs []ESP
	// Disks are the devices that a BIOS boots from, such as "/dev/sda".
	Disks []string
	// Name is the name of the firmware's entries, as people see it there.
	Name string
}

// ESP is an EFI system partition.
type ESP struct {
	Device string // "/dev/sda1"
	Disk   string // "/dev/sda"
	Number int
	GUID   string // of the partition, in lower case
	Mount  string // in the system; empty if it is not mounted
}

// Result says what was made.
type Result struct {
	// Kernels are the versions that the system can boot.
	Kernels []string
	// Entries are the entries made in the firmware. Unknown says why they are unknown; the firmware then starts the
	// file at the fallback path.
	Entries []Entry
	Unknown string
}

// These are the bounds on programs. Packing an initramfs uses one processor.
const (
	initramfsWithin = 15 * time.Minute
	programWithin   = 5 * time.Minute
	maxConfig       = 4 << 20
)

// arches holds the names that GRUB and the firmware use for processors.
var arches = map[string]struct{ efi, bios, fallback, suffix string }{
	"amd64": {"x86_64-efi", "i386-pc", "BOOTX64.EFI", "x64.efi"},
	"arm64": {"arm64-efi", "", "BOOTAA64.EFI", "aa64.efi"},
}

// LoaderFolder is the folder of an image, without a leading slash, with the GRUB platform files. It is empty if the
// processor does not support the mode.
func LoaderFolder(m Mode) string {
	platform := map[Mode]string{UEFI: arches[runtime.GOARCH].efi, BIOS: arches[runtime.GOARCH].bios}[m]
	if platform == "" {
		return ""
	}
	return "usr/lib/grub/" + platform
}

// work is one call.
type work struct {
	ctx    context.Context
	h      *inside.Host // the running system
	target *inside.Host
	tree   *tree.Tree // of the target
	plan   Plan
	result Result
}

// refused is an error that a person must decide about.
func refused(format string, args ...any) error {
	return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf(format, args...)}
}

// Prepare creates the folder in the target that update-grub writes to. The kernel's parameters can then be set
// before the boot loader is there. Until Install is done, update-grub looks into no other file system.
func Prepare(target *inside.Host) error {
	folder, err := os.OpenRoot(target.Root)
	if err != nil {
		return err
	}
	defer folder.Close()
	if err := folder.MkdirAll("boot/grub", 0o755); err != nil {
		return err
	}
	t, err := tree.Open(target.Root)
	if err != nil {
		return err
	}
	defer t.Close()
	return keepToItself(t)
}

// proberFile keeps update-grub from running os-prober, which mounts the file systems of all disks to find other
// systems. The kernel writes to file systems whose journal is not empty, even if it mounts them read-only. GRUB
// reads this file after the image's own settings.
const proberFile = "/etc/default/grub.d/zz-slipway-installation.cfg"

func keepToItself(t *tree.Tree) error {
	return t.Put(proberFile, []byte("# Slipway removes this file at the end of the installation.\nGRUB_DISABLE_OS_PROBER=true\n"), 0o644, 0, 0)
}

// Install makes the target boot as the plan says. The target has /dev, /proc and /sys of the running system, and
// its file systems are mounted. Install reads every boot file back.
func Install(ctx context.Context, h, target *inside.Host, p Plan) (Result, error) {
	t, err := tree.Open(target.Root)
	if err != nil {
		return Result{}, err
	}
	defer t.Close()
	w := &work{ctx: ctx, h: h, target: target, tree: t, plan: p}
	for _, step := range []func() error{w.initramfs, w.loader, w.config} {
		if err := step(); err != nil {
			return Result{}, err
		}
	}
	if p.Mode == UEFI {
		err = w.entries()
	}
	return w.result, err
}

// initramfs makes an initramfs for each kernel of the target.
func (w *work) initramfs() error {
	names, err := w.tree.Names("/boot")
	if err != nil {
		return err
	}
	for _, n := range names {
		if version, ok := strings.CutPrefix(n, "vmlinuz-"); ok && version != "" {
			w.result.Kernels = append(w.result.Kernels, version)
		}
	}
	if len(w.result.Kernels) == 0 {
		return refused("the image has no kernel: there is no /boot/vmlinuz-VERSION. Add one to the image, or design `kernel: package`")
	}
	for _, version := range w.result.Kernels {
		file := "/boot/initrd.img-" + version
		w.target.Tell("making the initramfs of Linux " + version)
		switch {
		case w.tree.Exists("/usr/sbin/update-initramfs"):
			what := "-c"
			if w.tree.Exists(file) {
				what = "-u"
			}
			err = w.run(initramfsWithin, "update-initramfs", what, "-k", version)
		case w.tree.Exists("/usr/bin/dracut"):
			err = w.run(initramfsWithin, "dracut", "--force", "--kver", version, file)
		default:
			return refused("the image can make no initramfs: it has neither update-initramfs nor dracut. Add the package initramfs-tools to it")
		}
		if err != nil {
			return err
		}
		if e, err := w.tree.Look(file); err != nil || e.Kind != tree.File || e.Size == 0 {
			return &wire.Error{Class: wire.Failed, Text: fmt.Sprintf("there is no initramfs %s after it was made", file)}
		}
	}
	return nil
}

// loader puts GRUB where the firmware looks for it.
func (w *work) loader() error {
	arch := arches[runtime.GOARCH]
	has := func() bool {
		folder := LoaderFolder(w.plan.Mode)
		return folder != "" && w.tree.Exists("/"+folder) && (w.tree.Exists("/usr/sbin/grub-install") || w.tree.Exists("/sbin/grub-install"))
	}
	switch w.plan.Mode {
	case UEFI:
		if !has() {
			return refused("the image has no boot loader for UEFI that Slipway can install: /usr/lib/grub/%s or grub-install is missing. Add the package grub-efi-%s to it", arch.efi, runtime.GOARCH)
		}
		return w.uefi()
	case BIOS:
		if !has() {
			return refused("the image has no boot loader for a BIOS that Slipway can install: /usr/lib/grub/%s or grub-install is missing. Add the package grub-pc-bin and grub2-common to it", arch.bios)
		}
		for _, d := range w.plan.Disks {
			w.target.Tell("installing GRUB on " + d)
			if err := w.run(programWithin, "grub-install", "--target="+arch.bios, d); err != nil {
				return err
			}
		}
		if len(w.plan.Disks) == 0 {
			return refused("the design has no disk that a BIOS could start")
		}
		return nil
	}
	return refused("the system must be started by %q, which is neither uefi nor bios", w.plan.Mode)
}

// id is the boot loader's folder on an ESP. Debian's signed GRUB looks for its configuration only in its
// distribution's folder.
func (w *work) id() string {
	text, err := w.tree.Read("/etc/os-release", maxConfig)
	if err != nil {
		text, err = w.tree.Read("/usr/lib/os-release", maxConfig)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "ID="); ok && err == nil {
			if value = strings.Trim(value, `"'`); value == "ubuntu" {
				return value
			}
		}
	}
	return "debian"
}

// espAt is where the first ESP is mounted in the target.
func (w *work) espAt() string {
	if m := w.plan.ESPs[0].Mount; m != "" {
		return m
	}
	return "/boot/efi"
}

// uefi installs GRUB on the first ESP, with grub-install and at the fallback path. It copies everything to the
// other ESPs.
func (w *work) uefi() (err error) {
	if len(w.plan.ESPs) == 0 {
		return refused("no EFI system partition is designed: give a partition of a boot disk flag: \"efi\" and filesystem: type: \"vfat\"")
	}
	first := w.plan.ESPs[0]
	if first.Mount == "" {
		if err := os.MkdirAll(w.target.Path("/boot/efi"), 0o755); err != nil {
			return err
		}
		unmount, err := w.mount(first.Device, w.target.Path("/boot/efi"))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, unmount()) }()
	}
	at, id := w.espAt(), w.id()
	w.target.Tell("installing GRUB on " + first.Device)
	if err := w.run(programWithin, "grub-install", "--target="+arches[runtime.GOARCH].efi, "--efi-directory="+at, "--bootloader-id="+id, "--no-nvram"); err != nil {
		return err
	}
	if err := w.fallback(w.target.Path(at), id); err != nil {
		return err
	}
	for _, other := range w.plan.ESPs[1:] {
		if err := w.copyTo(other, w.target.Path(at)); err != nil {
			return fmt.Errorf("copy the boot loader to %s: %w", other.Device, err)
		}
	}
	return w.keepCopies()
}

// fallback puts the boot loader where firmware without an entry looks for it (UEFI specification 2.10, section
// 3.5.1.1). Debian's shim starts grubx64.efi beside itself. fallback leaves out fbx64.efi, which would make entries
// itself and restart the machine.
func (w *work) fallback(esp, id string) error {
	arch := arches[runtime.GOARCH]
	there := inFolder(filepath.Join(esp, "EFI", id))
	grub, shim := there["grub"+arch.suffix], there["shim"+arch.suffix]
	if grub == "" {
		return &wire.Error{Class: wire.Failed, Text: fmt.Sprintf("grub-install has put no grub%s into EFI/%s of the EFI system partition", arch.suffix, id)}
	}
	to := filepath.Join(esp, "EFI", "BOOT")
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	files := map[string]string{arch.fallback: grub}
	if shim != "" {
		files = map[string]string{"grub" + arch.suffix: grub}
		if mm := there["mm"+arch.suffix]; mm != "" {
			files["mm"+arch.suffix] = mm
		}
	}
	for name, from := range files {
		if err := copyFile(from, filepath.Join(to, name)); err != nil {
			return err
		}
	}
	if shim != "" { // last, because the firmware starts this file
		return copyFile(shim, filepath.Join(to, arch.fallback))
	}
	return nil
}

// started is the file that a firmware entry names.
func (w *work) started() string {
	arch, id := arches[runtime.GOARCH], w.id()
	there := inFolder(filepath.Join(w.target.Path(w.espAt()), "EFI", id))
	for _, name := range []string{"shim" + arch.suffix, "grub" + arch.suffix} {
		if file := there[name]; file != "" {
			return firmwarePath("EFI", id, filepath.Base(file))
		}
	}
	return firmwarePath("EFI", "BOOT", arch.fallback)
}

// mount mounts an ESP somewhere.
func (w *work) mount(device, at string) (unmount func() error, err error) {
	command := func(program string, args ...string) error {
		o, err := w.h.Exec(w.ctx, inside.Command{Path: program, Args: args})
		if err == nil && o.Code != 0 {
			err = fmt.Errorf("%s %s ended with %d: %s", program, strings.Join(args, " "), o.Code, o.LastLines(3))
		}
		return err
	}
	if err := command("mount", "-t", "vfat", device, at); err != nil {
		return nil, err
	}
	return func() error { return command("umount", at) }, nil
}

// copyTo copies the files of an ESP to another ESP.
func (w *work) copyTo(other ESP, from string) (err error) {
	to := w.target.Path(other.Mount)
	if other.Mount == "" {
		if to, err = os.MkdirTemp(w.h.Path("/run"), "esp-"); err != nil {
			return err
		}
		defer os.Remove(to)
		unmount, err := w.mount(other.Device, to)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, unmount()) }()
	}
	w.target.Tell("copying the boot loader to " + other.Device)
	return fs.WalkDir(os.DirFS(from), "EFI", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		}
		return copyFile(filepath.Join(from, name), filepath.Join(to, name))
	})
}

// copyFile copies a file, syncs it to the disk and compares it.
func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, bytes.NewReader(content))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	is, err := os.ReadFile(to)
	if err == nil && !bytes.Equal(is, content) {
		err = fmt.Errorf("%s is not what was written there", to)
	}
	return err
}

// config makes GRUB's menu, and checks that it starts a kernel of the target.
func (w *work) config() error {
	w.target.Tell("making the menu of GRUB")
	if err := keepToItself(w.tree); err != nil {
		return err
	}
	if err := w.run(programWithin, "update-grub"); err != nil {
		return err
	}
	if err := w.tree.Remove(proberFile); err != nil {
		return err
	}
	text, err := w.tree.Read("/boot/grub/grub.cfg", maxConfig)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(w.result.Kernels, func(version string) bool {
		return strings.Contains(string(text), "vmlinuz-"+version)
	}) {
		return &wire.Error{Class: wire.Failed, Text: "update-grub has made a menu that starts no kernel of /boot"}
	}
	return nil
}

// entries makes a firmware entry for each ESP, and checks that it is there. A machine whose firmware cannot be read
// boots by the fallback path.
func (w *work) entries() error {
	all, err := Entries(w.h)
	if errors.Is(err, ErrUnknown) {
		w.result.Unknown = err.Error()
		return nil
	}
	if err != nil {
		return err
	}
	if !w.tree.Exists("/usr/bin/efibootmgr") && !w.tree.Exists("/bin/efibootmgr") {
		w.result.Unknown = "the image has no efibootmgr, so Slipway made no entry in the firmware, which starts the system by the fallback path"
		return nil
	}
	file := w.started()
	for i, esp := range w.plan.ESPs {
		e, there := find(all, esp.GUID, file)
		if !there {
			name := w.plan.Name
			if i > 0 {
				name += " " + strconv.Itoa(i+1)
			}
			if err := w.run(programWithin, "efibootmgr", "--create", "--disk", esp.Disk, "--part", strconv.Itoa(esp.Number), "--label", name, "--loader", file); err != nil {
				return err
			}
			if all, err = Entries(w.h); err != nil {
				return err
			}
			if e, there = find(all, esp.GUID, file); !there {
				return &wire.Error{Class: wire.Failed, Text: fmt.Sprintf("the firmware has no entry for %s of %s after efibootmgr has made one", file, esp.Device)}
			}
		}
		w.result.Entries = append(w.result.Entries, e)
	}
	return nil
}

// run runs a program of the target. A nonzero exit code is an error.
func (w *work) run(within time.Duration, program string, args ...string) error {
	o, err := w.target.Exec(w.ctx, inside.Command{Path: program, Args: args, Timeout: within, Env: []string{"DEBIAN_FRONTEND=noninteractive"}})
	if err != nil {
		return &wire.Error{Class: wire.Failed, Text: err.Error()}
	}
	if o.Code != 0 {
		return &wire.Error{Class: wire.Failed, Text: fmt.Sprintf("%s %s ended with %d in the new system:\n%s", path.Base(program), strings.Join(args, " "), o.Code, o.LastLines(10))}
	}
	return nil
}
