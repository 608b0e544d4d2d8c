// Package disk observes the disks of a machine, and makes them match a layout. Its own readers find what is on a
// disk: each looks at a few places and accepts any bytes. Its own writer writes partition tables. The system's
// programs mdadm(8), lvm(8) and mkfs(8) make arrays, volume groups and file systems. A disk outside the layout is
// only opened for reading.
package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// These are the bounds of a look.
const (
	maxDisks   = 4096
	maxHolds   = 512
	maxText    = 4096
	maxLinks   = 16384
	readWithin = 30 * time.Second
	atOnce     = 64 // disks at once
)

// Observe lists all disks of the machine with what is on them, and changes nothing. If a disk cannot be read or
// does not answer, its entry says why.
func Observe(ctx context.Context, h *inside.Host) ([]item.Disk, error) {
	all, err := List(h)
	if err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	at := make(chan struct{}, atOnce)
	for i, d := range all {
		at <- struct{}{}
		wg.Go(func() {
			defer func() { <-at }()
			var err error
			if all[i].Holds, err = within(ctx, node(h, d.Name), func() ([]item.Signature, error) { return held(h, d) }); err != nil {
				all[i].Unread = err.Error()
			}
		})
	}
	if wg.Wait(); ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return all, nil
}

// List lists all disks of the machine by name, without what is on them. It opens none.
func List(h *inside.Host) ([]item.Disk, error) {
	names, err := blocks(h)
	if err != nil {
		return nil, err
	}
	links := links(h)
	var all []item.Disk
	for _, name := range names {
		d, ok := known(h, name)
		if !ok {
			continue
		}
		d.Paths = append(d.Paths, links[name]...)
		slices.Sort(d.Paths)
		d.Paths = slices.Compact(d.Paths)
		all = append(all, d)
	}
	return all, nil
}

// blocks are the names of all block devices except partitions, sorted.
func blocks(h *inside.Host) ([]string, error) {
	folder, err := os.Open(h.Path("/sys/block"))
	if err != nil {
		return nil, fmt.Errorf("the folder /sys of the kernel cannot be read: %w", err)
	}
	defer folder.Close()
	names, err := folder.Readdirnames(maxDisks + 1)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if len(names) > maxDisks {
		return nil, fmt.Errorf("there are more than %d block devices", maxDisks)
	}
	slices.Sort(names)
	return names, nil
}

var (
	pciAddress  = inside.Pattern(`^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
	scsiAddress = inside.Pattern(`^[0-9]+:[0-9]+:[0-9]+:[0-9]+$`)
	controller  = inside.Pattern(`^nvme[0-9]+$`)
	noDisk      = inside.Pattern(`^(sr|fd|loop|ram|zram|dm-|md|nbd|mtdblock)[0-9]|^mmcblk[0-9]+(boot|rpmb)`)
)

// known is what the kernel says about a block device. ok is false if it is not a disk: it has no underlying device,
// is a CD, has no medium, or is one path of several to a disk.
func known(h *inside.Host, name string) (d item.Disk, ok bool) {
	at := h.Path("/sys/block/" + name)
	if _, err := os.Stat(filepath.Join(at, "device")); err != nil || noDisk().MatchString(name) || say(at, "hidden") == "1" || say(at, "device/type") == "5" {
		return d, false
	}
	sectors, err := strconv.ParseInt(say(at, "size"), 10, 64)
	if err != nil || sectors <= 0 || sectors > 1<<53 {
		return d, false
	}
	d = item.Disk{Name: name, Bytes: sectors * 512, Sector: number(at, "queue/logical_block_size"), Physical: number(at, "queue/physical_block_size"),
		Removable: say(at, "removable") == "1", ReadOnly: say(at, "ro") == "1"}
	d.Model = item.NormalSerial(say(at, "device/model"))
	d.Firmware = item.NormalSerial(cmp.Or(say(at, "device/firmware_rev"), say(at, "device/rev")))
	d.Serial = item.NormalSerial(cmp.Or(say(at, "serial"), say(at, "device/serial"), unitSerial(at)))
	if wwn := cmp.Or(say(at, "wwid"), say(at, "device/wwid")); strings.HasPrefix(wwn, "naa.") || strings.HasPrefix(wwn, "eui.") {
		d.WWN = item.NormalWWN(wwn)
	}
	switch rotates := say(at, "queue/rotational"); {
	case strings.HasPrefix(name, "nvme"):
		d.Kind = "nvme"
	case strings.HasPrefix(name, "vd") || strings.HasPrefix(name, "xvd"): // virtual disks always report that they rotate
	case rotates == "1":
		d.Kind = "hdd"
	case rotates == "0":
		d.Kind = "ssd"
	}
	place(h, at, &d)
	return d, true
}

// unitSerial is the serial number of a SCSI disk (SPC-4, section 7.8.15).
func unitSerial(at string) string {
	page := say(at, "device/vpd_pg80")
	if len(page) < 4 || page[1] != 0x80 {
		return ""
	}
	return page[4:min(len(page), 4+int(big.Uint16([]byte(page[2:4]))))]
}

// place adds the location of a disk in the machine.
func place(h *inside.Host, at string, d *item.Disk) {
	path, err := filepath.EvalSymlinks(at)
	if err != nil {
		return
	}
	root, err := filepath.EvalSymlinks(h.Path("/sys"))
	if err != nil {
		return
	}
	path, ok := strings.CutPrefix(path, root)
	if !ok {
		return
	}
	d.Paths = []string{"/sys" + path}
	if strings.Contains(path, "/nvme-subsystem/") {
		// Use the path of its controller.
		below, _ := os.ReadDir(filepath.Join(at, "device"))
		for _, e := range below {
			if to, err := filepath.EvalSymlinks(filepath.Join(at, "device", e.Name())); err == nil && controller().MatchString(e.Name()) {
				path = to
			}
		}
	}
	for _, word := range strings.Split(path, "/") {
		switch {
		case pciAddress().MatchString(word):
			d.PCI = word
		case scsiAddress().MatchString(word):
			d.SCSI = word
		case strings.HasPrefix(word, "usb") && len(word) > 3 && word[3] >= '0' && word[3] <= '9':
			d.Removable = true
		}
	}
	// The names that udev would give, in case it does not run (systemd's 60-persistent-storage.rules).
	switch {
	case d.PCI != "" && d.Kind == "nvme" && say(at, "nsid") != "":
		d.Paths = append(d.Paths, "/dev/disk/by-path/pci-"+d.PCI+"-nvme-"+say(at, "nsid"))
	case d.PCI != "" && strings.Contains(path, "/virtio") && d.SCSI == "":
		d.Paths = append(d.Paths, "/dev/disk/by-path/pci-"+d.PCI, "/dev/disk/by-path/virtio-pci-"+d.PCI)
	}
	if d.WWN != "" && d.Kind != "nvme" {
		d.Paths = append(d.Paths, "/dev/disk/by-id/wwn-0x"+d.WWN)
	}
}

// links are udev's names of devices, by the kernel's names.
func links(h *inside.Host) map[string][]string {
	all := map[string][]string{}
	found, _ := filepath.Glob(h.Path("/dev/disk/by-*/*"))
	for _, path := range found[:min(len(found), maxLinks)] {
		to, err := os.Readlink(path)
		if err != nil {
			continue
		}
		name := filepath.Base(to)
		at, _ := filepath.Rel(h.Root, path)
		all[name] = append(all[name], "/"+at)
	}
	return all
}

// say reads a file of the kernel and drops trailing newlines; empty if it cannot be read.
func say(folder, file string) string {
	f, err := os.Open(filepath.Join(folder, file))
	if err != nil {
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxText))
	if err != nil {
		return ""
	}
	return strings.TrimRight(string(b), "\n")
}

func number(folder, file string) int {
	n, err := strconv.Atoi(say(folder, file))
	if err != nil {
		return 0
	}
	return n
}

// silent are the files of the disks that have not answered yet.
var silent sync.Map

// within waits for a disk, which may never answer. It abandons a silent disk and does not ask again before that
// disk has answered, because each try would block a thread forever.
func within(ctx context.Context, file string, f func() ([]item.Signature, error)) ([]item.Signature, error) {
	type answer struct {
		held []item.Signature
		err  error
	}
	got := make(chan answer, 1)
	if _, asked := silent.LoadOrStore(file, true); asked {
		return nil, errors.New("it has not answered since it was read before")
	}
	go func() {
		held, err := f()
		silent.Delete(file)
		got <- answer{held, err}
	}()
	select {
	case a := <-got:
		return a.held, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(readWithin):
		return nil, fmt.Errorf("it did not answer within %s", readWithin)
	}
}

// node is the file of a block device.
func node(h *inside.Host, name string) string {
	return h.Path("/dev/" + strings.ReplaceAll(name, "!", "/"))
}

// held is what is on a disk.
func held(h *inside.Host, d item.Disk) ([]item.Signature, error) {
	f, err := os.Open(node(h, d.Name))
	if err != nil {
		return nil, plain(err)
	}
	defer f.Close()
	all, err := probe(f, d.Bytes, d.Sector)
	return all, plain(err)
}

// plain drops the file path from an error, because the caller names the disk.
func plain(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	return err
}

// probe lists what is on a disk of size bytes, ordered by place. sector is the sector size in bytes. probe reads a
// few places of the disk and of each partition.
func probe(r io.ReaderAt, size int64, sector int) ([]item.Signature, error) {
	if !powerOfTwo(uint32(sector), 512, 65536) || size < int64(sector) {
		return nil, fmt.Errorf("it has %d bytes in sectors of %d", size, sector)
	}
	whole, err := openPart(r, size)
	if err != nil {
		return nil, err
	}
	all, err := signatures(whole)
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].Bytes = size
	}
	t, ok, err := readTable(whole, sector)
	if err != nil || !ok {
		return all, err
	}
	all = append(all, item.Signature{Kind: t.kind, UUID: t.id, Bytes: size})
	slices.SortStableFunc(t.parts, func(x, y entry) int { return cmp.Or(cmp.Compare(x.first, y.first), x.number-y.number) })
	for _, e := range t.parts {
		if e.kind == "ee" || isExtended(e.kind) {
			continue
		}
		start, length := e.first*int64(sector), (e.last-e.first+1)*int64(sector)
		p, err := openPart(io.NewSectionReader(r, start, length), length)
		if err != nil {
			return nil, err
		}
		on, err := signatures(p)
		if err != nil {
			return nil, err
		}
		if len(on) == 0 {
			on = []item.Signature{{Kind: "partition", UUID: e.guid, Name: e.name}}
		}
		for _, s := range on {
			if s.Partition, s.Start, s.Bytes = e.number, start, length; len(all) < maxHolds {
				all = append(all, s)
			}
		}
	}
	return all, nil
}
