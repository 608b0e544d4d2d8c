package install

import (
	"runtime"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/boot"
)

// need is something without which the new system would not boot or could not be observed.
type need struct {
	what string
	// files are names in an image; one of them is enough. A name that ends with "-" or "/" is a prefix.
	files []string
	// packages provide it, by prefixes of their names. add is the suggestion for people.
	packages []string
	add      string
}

// askpassUnit starts clevis where systemd asks for a passphrase, if it is enabled. The initramfs waits only for the root:
// a disk that shows up late, or an array that lacks one, is opened after it.
const askpassUnit = "etc/systemd/system/cryptsetup.target.wants/clevis-luks-askpass.path"

// needs are the needs of the requested system.
func (w *work) needs() []need {
	l := w.asked.Layout
	all := []need{
		{"kernel", []string{"boot/vmlinuz-"}, []string{"linux-image", "kernel"}, "a kernel such as linux-image-" + runtime.GOARCH},
		{"program that makes an initramfs", []string{"usr/sbin/update-initramfs", "usr/bin/dracut"}, []string{"initramfs-tools", "dracut"}, "the package initramfs-tools"},
		{"SSH server", []string{"usr/sbin/sshd"}, []string{"openssh-server"}, "the package openssh-server"},
		{"boot loader", []string{"usr/sbin/grub-install", "sbin/grub-install"}, []string{"grub"}, "the package grub2-common"},
	}
	if dir := boot.LoaderFolder(w.plan.Mode); dir != "" {
		all = append(all, need{"boot loader for " + string(w.plan.Mode), []string{dir + "/"}, []string{"grub"}, "the package grub-efi-" + runtime.GOARCH + " for UEFI, or grub-pc-bin for a BIOS"})
	}
	if len(l.Arrays) > 0 {
		all = append(all, need{"mdadm, by which it would find its arrays", []string{"usr/sbin/mdadm", "sbin/mdadm"}, []string{"mdadm"}, "the package mdadm"})
	}
	if len(l.Groups) > 0 {
		all = append(all, need{"lvm, by which it would find its volumes", []string{"usr/sbin/lvm", "sbin/lvm"}, []string{"lvm2"}, "the package lvm2"})
	}
	if len(l.Encrypted) > 0 { // by hooks of initramfs-tools, which dracut does not run
		all = append(all, need{"initramfs-tools, whose hooks open its encrypted volumes", []string{"usr/sbin/update-initramfs"}, []string{"initramfs-tools"}, "the package initramfs-tools"}, need{"cryptsetup in its initramfs, by which it would open its encrypted volumes", []string{"usr/share/initramfs-tools/hooks/cryptroot"}, []string{"cryptsetup-initramfs"}, "the package cryptsetup-initramfs"})
	}
	if w.sealed() {
		all = append(all,
			need{"clevis in its initramfs, by which the TPM would open its encrypted volumes", []string{"usr/share/initramfs-tools/hooks/clevis"}, []string{"clevis-initramfs"}, "the package clevis-initramfs"},
			need{"clevis in its systemd, which answers for volumes that the initramfs left shut", []string{askpassUnit}, []string{"clevis-systemd"}, "the package clevis-systemd"},
			need{"part of clevis for the TPM", []string{"usr/bin/clevis-encrypt-tpm2"}, []string{"clevis-tpm2"}, "the package clevis-tpm2"})
	}
	return all
}

// lacking collects the needs that an image does not meet, as its names are read.
type lacking struct{ needs []need }

// see removes the needs that a name of the image meets.
func (l *lacking) see(name string) {
	l.needs = slices.DeleteFunc(l.needs, func(n need) bool {
		return slices.ContainsFunc(n.files, func(f string) bool {
			isBeginning := strings.HasSuffix(f, "-") || strings.HasSuffix(f, "/")
			return name == f || isBeginning && strings.HasPrefix(name, f)
		})
	})
}

// check refuses an image that does not meet a need, unless a package of the design does. This happens before the
// disks are erased.
func (l *lacking) check(brought []string) error {
	for _, n := range l.needs {
		if !slices.ContainsFunc(brought, func(name string) bool {
			return slices.ContainsFunc(n.packages, func(p string) bool { return strings.HasPrefix(name, p) })
		}) {
			return refused("the image has no %s: add %s to the image, or to system.packages of the design; nothing was written", n.what, n.add)
		}
	}
	return nil
}

// brought are the packages that are installed in the new system before its first boot.
func (w *work) brought() (names []string) {
	for _, a := range w.asked.Apply {
		for _, i := range a.Items {
			switch {
			case item.Kind(i.Key) == item.KindPackages && i.Fields["state"] != item.Absent:
				names = append(names, item.ID(i.Key))
			case item.Kind(i.Key) == item.KindKernel:
				names = append(names, i.Fields["package"])
			}
		}
	}
	return names
}
