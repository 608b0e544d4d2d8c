// Package hardware reports what a system knows about its machine: the model, the devices on the PCI bus and their
// drivers, and the firmware files that the kernel did not find. It changes nothing.
package hardware

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// Look reports the ids of all PCI devices, details of those with the requested ids, and the machine's model from
// its firmware; empty if the firmware has none.
func Look(ctx context.Context, h *inside.Host, asked item.PCIProbe) (model string, seen item.PCI) {
	model = inside.Text(h.Path("/sys/class/dmi/id/product_name"))
	all, err := addresses(h)
	if err != nil {
		return model, item.PCI{Unread: err.Error()}
	}
	asks := map[string]bool{}
	for _, id := range asked.IDs[:min(len(asked.IDs), item.MaxPCIIDs)] {
		asks[id] = true
	}
	ids := map[string]bool{}
	for _, address := range all {
		folder := h.Path(devices + "/" + address)
		id, err := idOf(folder)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // the device was removed meanwhile
		case err != nil:
			return model, item.PCI{Unread: fmt.Sprintf("%s: %v", address, err)}
		}
		ids[id] = true
		if asks[id] && !isFunction(folder) && len(seen.Devices) < item.MaxPCIDevices {
			seen.Devices = append(seen.Devices, device(folder, address, id))
		}
	}
	for id := range ids {
		seen.IDs = append(seen.IDs, id)
	}
	if slices.Sort(seen.IDs); len(seen.IDs) > item.MaxPCIIDs {
		return model, item.PCI{Unread: fmt.Sprintf("there are devices with more than %d different ids", item.MaxPCIIDs)}
	}
	if len(seen.Devices) > 0 {
		addLacked(ctx, h, seen.Devices)
	}
	return model, seen
}

// devices is the kernel's folder of PCI devices, by address.
const devices = "/sys/bus/pci/devices"

// addresses are those of all devices, sorted. A machine without a PCI bus has none.
func addresses(h *inside.Host) ([]string, error) {
	if _, err := os.Stat(h.Path("/sys/bus")); err != nil {
		return nil, fmt.Errorf("the folder /sys of the kernel cannot be read: %w", errors.Unwrap(err))
	}
	folder, err := os.Open(h.Path(devices))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	names, err := folder.Readdirnames(item.MaxPCI + 1)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if len(names) > item.MaxPCI {
		return nil, fmt.Errorf("there are more than %d PCI devices", item.MaxPCI)
	}
	slices.Sort(names)
	return names, nil
}

// maxID bounds what is read for an id, in bytes.
const maxID = 4096

// idOf is the id of a device: "8086:1592".
func idOf(folder string) (string, error) {
	var parts [2]string
	for i, file := range []string{"vendor", "device"} {
		content, err := inside.ReadAtMost(filepath.Join(folder, file), maxID)
		if err != nil {
			return "", err
		}
		hex, ok := strings.CutPrefix(strings.TrimSpace(string(content)), "0x")
		if parts[i] = strings.ToLower(hex); !ok || len(hex) != 4 || strings.Trim(parts[i], "0123456789abcdef") != "" {
			return "", fmt.Errorf("its %s is %q, which is not the number of a PCI device", file, content)
		}
	}
	return parts[0] + ":" + parts[1], nil
}

// isFunction reports whether a device is a virtual function (SR-IOV) of another device here. Virtual functions
// belong to guests.
func isFunction(folder string) bool {
	_, err := os.Lstat(filepath.Join(folder, "physfn"))
	return err == nil
}

// device is a device with its driver.
func device(folder, address, id string) item.PCIDevice {
	d := item.PCIDevice{Address: address, ID: id, Driver: linked(filepath.Join(folder, "driver"))}
	below, _ := os.ReadDir(folder)
	for _, e := range append([]string{""}, folders(below)...) {
		if m := linked(filepath.Join(folder, e, "driver/module")); m != "" && !slices.Contains(d.Modules, m) {
			d.Modules = append(d.Modules, m)
		}
	}
	slices.Sort(d.Modules)
	return d
}

// maxBelow bounds the child devices that are examined.
const maxBelow = 256

func folders(entries []os.DirEntry) (names []string) {
	for _, e := range entries {
		if e.IsDir() && len(names) < maxBelow {
			names = append(names, e.Name())
		}
	}
	return names
}

// linked is the last name in the target of a kernel link; empty if there is no link.
func linked(path string) string {
	to, err := os.Readlink(path)
	if err != nil {
		return ""
	}
	return filepath.Base(to)
}

// addLacked adds the firmware files that, by the kernel's log, were not found. If the log is not accessible, it
// adds none.
func addLacked(ctx context.Context, h *inside.Host, all []item.PCIDevice) {
	if !h.Live {
		return // the log belongs to another system
	}
	o, err := h.Exec(ctx, inside.Command{Path: "dmesg", Timeout: 10 * time.Second})
	if err != nil || o.Code != 0 {
		return
	}
	for line := range strings.Lines(string(o.Out)) {
		address, file, ok := lacks(line)
		i := slices.IndexFunc(all, func(d item.PCIDevice) bool { return d.Address == address })
		if !ok || i < 0 || len(all[i].Lacked) == item.MaxLacked {
			continue
		}
		is := item.LackedFirmware{File: file, There: isThere(h, file)}
		if !slices.Contains(all[i].Lacked, is) {
			all[i].Lacked = append(all[i].Lacked, is)
		}
	}
}

// lacks reads a line of the kernel's log: "ice 0000:18:00.0: Direct firmware load for intel/ice/ddp/ice.pkg failed
// with error -2", or from Debian's kernel, "e100 0000:02:08.0: firmware: failed to load e100/d101m_ucode.bin (-2)".
func lacks(line string) (address, file string, ok bool) {
	head, rest, direct := strings.Cut(line, ": Direct firmware load for ")
	end := " failed with error "
	if !direct {
		if head, rest, ok = strings.Cut(line, ": firmware: failed to load "); !ok {
			return "", "", false
		}
		end = " ("
	}
	file, _, ok = strings.Cut(rest, end)
	words := strings.Fields(head)
	if !ok || len(words) == 0 || file == "" || len(file) > 256 || strings.ContainsFunc(file, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", "", false
	}
	return words[len(words)-1], file, true
}

// isThere reports whether the kernel would find a firmware file now, compressed or not.
func isThere(h *inside.Host, file string) bool {
	if !filepath.IsLocal(file) {
		return false
	}
	root, err := os.OpenRoot(h.Root)
	if err != nil {
		return false
	}
	defer root.Close()
	for _, folder := range []string{"lib/firmware", "usr/lib/firmware"} {
		for _, packed := range []string{"", ".xz", ".zst"} {
			if _, err := root.Stat(filepath.Join(folder, file) + packed); err == nil {
				return true
			}
		}
	}
	return false
}
