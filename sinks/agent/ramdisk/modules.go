package ramdisk

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// module is a kernel module and the data from its section .modinfo.
type module struct {
	path    string // below the folder of the kernel's modules: "kernel/drivers/net/tun.ko"
	content []byte
	// depends are the modules that it needs. before are modules that should be loaded before it, if available.
	depends, before []string
	aliases         []string
}

// moduleName is the name of a module's file, with "_" for "-".
func moduleName(file string) string {
	base, _, _ := strings.Cut(path.Base(file), ".")
	return strings.ReplaceAll(base, "-", "_")
}

// readModule reads a module's data. Packages do not contain the lists that depmod(8) makes from it, because depmod
// runs when a kernel is installed.
func readModule(file string, content []byte) (*module, error) {
	e, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("%s is not a kernel module: %w", file, err)
	}
	s := e.Section(".modinfo")
	if s == nil {
		return nil, fmt.Errorf("%s is not a kernel module: it has no section .modinfo", file)
	}
	info, err := s.Data()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	m := &module{path: file, content: content}
	for field := range strings.SplitSeq(string(info), "\x00") {
		name, value, _ := strings.Cut(field, "=")
		switch name {
		case "depends":
			m.depends = append(m.depends, split(value)...)
		case "alias":
			if !strings.ContainsAny(value, "\n") {
				m.aliases = append(m.aliases, value)
			}
		case "softdep":
			m.before = append(m.before, softBefore(value)...)
		}
	}
	return m, nil
}

func split(list string) (names []string) {
	for name := range strings.SplitSeq(list, ",") {
		if name != "" {
			names = append(names, strings.ReplaceAll(name, "-", "_"))
		}
	}
	return names
}

// softBefore are the modules after "pre:" in a line such as "pre: crc32c post: x".
func softBefore(line string) (names []string) {
	before := false
	for _, word := range strings.Fields(line) {
		switch {
		case word == "pre:":
			before = true
		case strings.HasSuffix(word, ":"):
			before = false
		case before:
			names = append(names, word)
		}
	}
	return names
}

// wanted are the modules that servers need to boot, to be inspected and to be installed. Their dependencies are
// added.
var wanted = []string{
	// Disks and their controllers.
	"drivers/ata/", "drivers/block/virtio_blk", "drivers/block/xen-blkfront", "drivers/block/loop", "drivers/message/fusion/", "drivers/nvme/host/", "drivers/scsi/",
	"drivers/md/", "drivers/pci/controller/vmd", "drivers/nvdimm/", "drivers/acpi/nfit/", "drivers/cdrom/",
	// Networks.
	"drivers/net/ethernet/", "drivers/net/virtio_net", "drivers/net/net_failover", "drivers/net/vmxnet3/", "drivers/net/hyperv/", "drivers/net/xen-netfront",
	"drivers/net/bonding/", "drivers/net/phy/", "drivers/net/usb/cdc_ether", "drivers/net/usb/rndis_host", "drivers/net/usb/r8152", "net/8021q/", "net/packet/",
	// Virtual machine buses.
	"drivers/virtio/", "drivers/hv/", "drivers/char/hw_random/virtio-rng",
	// Keyboards, media and consoles.
	"drivers/usb/host/", "drivers/usb/storage/usb-storage", "drivers/usb/storage/uas", "drivers/hid/usbhid/", "drivers/hid/hid-generic", "drivers/hid/hid.", "drivers/input/serio/",
	// Sources of information on the machine.
	"drivers/char/tpm/", "drivers/char/ipmi/", "drivers/firmware/", "fs/efivarfs/",
	// File systems.
	"fs/ext4/", "fs/xfs/", "fs/btrfs/", "fs/fat/", "fs/isofs/", "fs/squashfs/", "fs/nls/nls_cp437", "fs/nls/nls_iso8859-1", "fs/nls/nls_ascii", "fs/nls/nls_utf8",
	// Checksums that the file systems request by name.
	"crypto/crc32c_generic", "arch/x86/crypto/crc32c-intel", "crypto/xxhash_generic", "crypto/blake2b_generic",
	// Ciphers that dm-crypt and cryptsetup request by name. AES itself is in the kernel.
	"crypto/xts", "crypto/ecb", "crypto/algif_skcipher", "arch/x86/crypto/aesni-intel",
}

// unwanted are modules in the folders above that are left out: driver tests, and buses that no server has.
var unwanted = []string{
	"drivers/scsi/pcmcia/", "drivers/scsi/scsi_debug", "drivers/net/ethernet/8390/", "drivers/net/ethernet/xircom/", "drivers/ata/pata_pcmcia", "drivers/net/ethernet/fujitsu/", "drivers/net/ethernet/smsc/smc91c92_cs",
	"drivers/scsi/fcoe/", "drivers/scsi/libfc/", "drivers/scsi/bnx2fc/", "drivers/net/ethernet/3com/3c5", "drivers/net/ethernet/amd/nmclan_cs", "drivers/usb/host/isp116x", "drivers/usb/host/sl811",
}

// foreign are most of a kernel's modules, which no server needs to boot. They are not read.
var foreign = []string{"kernel/drivers/gpu/", "kernel/drivers/media/", "kernel/drivers/net/wireless/", "kernel/drivers/staging/", "kernel/drivers/iio/", "kernel/sound/"}

func isForeign(file string) bool {
	return slices.ContainsFunc(foreign, func(prefix string) bool { return strings.HasPrefix(file, prefix) })
}

// isWanted reports whether a module is wanted, by its path below "kernel/".
func isWanted(file string) bool {
	begins := func(prefix string) bool { return strings.HasPrefix(file, prefix) }
	return slices.ContainsFunc(wanted, begins) && !slices.ContainsFunc(unwanted, begins)
}

// chosen are the wanted modules of a kernel with all their dependencies, by name.
func chosen(all map[string]*module) (map[string]*module, error) {
	byAlias := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, alias := range all[name].aliases {
			if _, taken := byAlias[alias]; !taken {
				byAlias[alias] = name
			}
		}
	}
	kept := map[string]*module{}
	var keep func(name, by string) error
	keep = func(name, by string) error {
		m := all[name]
		if m == nil {
			return fmt.Errorf("the module %s needs %s, which is not in the kernel's package or is of a kind that is left out", by, name)
		}
		if kept[name] != nil {
			return nil
		}
		kept[name] = m
		var before []string
		for _, b := range m.before {
			b = strings.ReplaceAll(b, "-", "_")
			if all[b] == nil {
				b = byAlias[b]
			}
			if all[b] != nil && b != name { // the others are built into the kernel
				before = append(before, b)
			}
		}
		m.before = before
		for _, other := range append(slices.Clone(m.depends), m.before...) {
			if err := keep(other, name); err != nil {
				return err
			}
		}
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if isWanted(strings.TrimPrefix(all[name].path, "kernel/")) {
			if err := keep(name, name); err != nil {
				return nil, err
			}
		}
	}
	if len(kept) == 0 {
		return nil, errors.New("the kernel's package has none of the modules that servers need")
	}
	return kept, nil
}

// moduleLists are modules.dep, modules.alias and modules.softdep in the format of depmod(8).
func moduleLists(kept map[string]*module) (dep, alias, softdep []byte) {
	var d, a, s bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		m := kept[name]
		d.WriteString(m.path + ":")
		for _, other := range needs(kept, name) {
			d.WriteString(" " + kept[other].path)
		}
		d.WriteString("\n")
		for _, text := range slices.Compact(slices.Sorted(slices.Values(m.aliases))) {
			fmt.Fprintf(&a, "alias %s %s\n", text, name)
		}
		if len(m.before) > 0 {
			fmt.Fprintf(&s, "softdep %s pre: %s\n", name, strings.Join(m.before, " "))
		}
	}
	return d.Bytes(), a.Bytes(), s.Bytes()
}

// needs are all dependencies of a module, each after those that need it.
func needs(kept map[string]*module, name string) (names []string) {
	visited := map[string]bool{name: true}
	var visit func(name string)
	visit = func(name string) {
		for _, other := range kept[name].depends {
			if !visited[other] && kept[other] != nil {
				visited[other] = true
				visit(other)
			}
		}
		names = append(names, name)
	}
	visit(name)
	names = names[:len(names)-1]
	slices.Reverse(names)
	return names
}
