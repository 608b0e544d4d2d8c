package install

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/disk"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/image"
)

// look checks the request, the machine and its disks against each other, and writes nothing.
func (w *work) look() error {
	a := w.asked
	var marker map[string]any
	switch {
	case len(a.Marker) > maxMarker || json.Unmarshal([]byte(a.Marker), &marker) != nil:
		return refused("the marker of the installation is not JSON of at most %d bytes; nothing was written", maxMarker)
	case w.isWhole():
		if err := w.oneDisk(); err != nil {
			return err
		}
	case !slices.ContainsFunc(a.Layout.Filesystems, func(f item.LayoutFilesystem) bool { return f.Mount == "/" && !f.Keep }):
		return refused("no file system that is made is mounted at /, so there is no place for the system: design one; nothing was written")
	}
	for _, apply := range a.Apply {
		if _, ok := w.Facets[apply.Facet]; !ok {
			return refused("the agent cannot configure %q; install daemon and ramdisk from one release; nothing was written", apply.Facet)
		}
	}
	if err := w.identify(); err != nil {
		return err
	}
	if err := w.opens(); err != nil {
		return err
	}
	if err := w.tools(); err != nil {
		return err
	}
	if err := w.recover(); err != nil {
		return err
	}
	if !w.isWhole() {
		var err error
		if w.plan, err = planBoot(a.Layout, a.Boot, w.r.Node); err != nil {
			return err
		}
	}
	var err error
	if w.state, err = disk.Check(w.ctx, w.h, a.Layout); err != nil {
		return refused("%v", err)
	}
	return nil
}

// tools checks that the ramdisk has the programs that the layout needs. Otherwise a missing program would only show
// after the disks were erased.
func (w *work) tools() error {
	missing := w.missing()
	if len(missing) > 0 && w.Programs != nil {
		if err := w.Programs(w.ctx, w.h); err != nil {
			return err
		}
		missing = w.missing()
	}
	if len(missing) > 0 {
		return refused("the agent's system in memory lacks %s, which the design of the disks needs: build the ramdisk with these programs; nothing was written", strings.Join(missing, ", "))
	}
	return nil
}

// missing are the programs that the layout needs and the ramdisk lacks.
func (w *work) missing() (names []string) {
	l := w.asked.Layout
	needs := []string{"mount", "umount", "chroot"}
	for _, f := range l.Filesystems {
		switch {
		case f.Keep:
		case f.Type == "swap":
			needs = append(needs, "mkswap")
		default:
			needs = append(needs, "mkfs."+f.Type)
		}
	}
	if len(l.Arrays) > 0 {
		needs = append(needs, "mdadm")
	}
	if len(l.Groups) > 0 {
		needs = append(needs, "lvm", "dmsetup")
	}
	if len(l.Encrypted) > 0 {
		needs = append(needs, "cryptsetup", "dmsetup")
	}
	for _, name := range needs {
		if !slices.Contains(names, name) && !slices.ContainsFunc(strings.Split(inside.SearchPath, ":"), func(folder string) bool {
			info, err := os.Stat(w.h.Path(path.Join(folder, name)))
			return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
		}) {
			names = append(names, name)
		}
	}
	return names
}

// identify checks that this is the approved machine.
func (w *work) identify() error {
	m := w.Machine(w.h)
	if w.asked.UUID == "" && w.asked.Serial == "" {
		return refused("the request names no machine, neither by UUID nor by serial number; nothing was written")
	}
	for _, c := range []struct{ what, want, is string }{{"UUID", w.asked.UUID, m.UUID}, {"serial number", w.asked.Serial, m.Serial}} {
		switch {
		case c.want == "" || strings.EqualFold(c.want, c.is):
		case c.is == "":
			return refused("this machine reports no %s, and the installation of %s is for the one with %s: it may be another machine; nothing was written", c.what, w.r.Node, c.want)
		default:
			return refused("the installation of %s is for the machine with the %s %s, and this one has %s: it is another machine; nothing was written", w.r.Node, c.what, c.want, c.is)
		}
	}
	return nil
}

// spare is how much memory is not used for an image, in bytes.
const spare = 1 << 30

// check asks the TPM, if it is to open disks, and reads the whole image.
func (w *work) check() error {
	if w.sealed() {
		if err := w.canSeal(); err != nil {
			return err
		}
	}
	if w.isWhole() {
		return w.checkWhole()
	}
	source, err := w.Source(w.asked.Image)
	if err != nil {
		return err
	}
	room, kept := int64(0), []string{}
	for _, f := range w.asked.Layout.Filesystems {
		switch {
		case f.Mount == "":
		case f.Keep:
			kept = append(kept, f.Mount)
		default:
			room += f.Bytes
		}
	}
	a := w.asked.Image
	w.h.Tell("reading the image " + a.SHA256)
	lacks := &lacking{w.needs()}
	w.image, err = image.Check(w.ctx, source, image.Image{Kind: image.Kind(a.Kind), SHA256: a.SHA256, Bytes: a.Bytes}, image.Options{
		Memory: max(0, Available(w.h)-spare) / 2, Room: room, Kept: kept, Name: lacks.see,
		Tell: func(done, of int64) {
			w.h.Tell(fmt.Sprintf("read %d of %d MB of the image, %d %%", done/1e6, of/1e6, 100*done/max(of, 1)))
		},
	})
	if err != nil {
		return err
	}
	if err := lacks.check(w.brought()); err != nil {
		w.image.Close()
		return err
	}
	return nil
}

// Available is the machine's available memory, in bytes; 0 if unknown.
func Available(h *inside.Host) int64 {
	f, err := os.Open(h.Path("/proc/meminfo"))
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) == 3 && words[0] == "MemAvailable:" {
			kib, _ := strconv.ParseInt(words[1], 10, 53)
			return kib << 10
		}
	}
	return 0
}
