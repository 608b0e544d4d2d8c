package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// These are the bounds of what is built on disks.
const (
	maxDepth = 32
	maxStack = 4096
)

// stack is the machine's block devices and what each is built on.
type stack struct {
	h *inside.Host
}

// below lists the names in a block device's folder: "holders" or "slaves".
func (s stack) below(name, folder string) ([]string, error) {
	entries, err := os.ReadDir(s.h.Path("/sys/class/block/" + name + "/" + folder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries[:min(len(entries), maxStack)] {
		names = append(names, e.Name())
	}
	return names, nil
}

// partitions are the names of a disk's partitions, by number.
func (s stack) partitions(disk string) (map[int]string, error) {
	at := s.h.Path("/sys/class/block/" + disk)
	entries, err := os.ReadDir(at)
	if err != nil {
		return nil, err
	}
	all := map[int]string{}
	for _, e := range entries {
		if n := number(filepath.Join(at, e.Name()), "partition"); n > 0 {
			all[n] = e.Name()
		}
	}
	return all, nil
}

// above lists everything that is built on a disk, upper devices first.
func (s stack) above(disk string) (all []string, err error) {
	seen := map[string]bool{}
	var walk func(name string, depth int) error
	walk = func(name string, depth int) error {
		if depth > maxDepth || len(seen) > maxStack {
			return fmt.Errorf("more is built on the disk %s than Slipway can stop", disk)
		}
		holders, err := s.below(name, "holders")
		if err != nil {
			return err
		}
		for _, on := range holders {
			if seen[on] {
				continue
			}
			seen[on] = true
			if err := walk(on, depth+1); err != nil {
				return err
			}
			all = append(all, on)
		}
		return nil
	}
	partitions, err := s.partitions(disk)
	if err != nil {
		return nil, err
	}
	bottoms := []string{disk}
	for _, p := range partitions {
		bottoms = append(bottoms, p)
	}
	slices.Sort(bottoms)
	for _, b := range bottoms {
		if err := walk(b, 0); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// disksOf are the disks that a block device is built on.
func (s stack) disksOf(name string) (all []string, err error) {
	at := []string{name}
	for n := 0; len(at) > 0; n++ {
		if n > maxStack {
			return nil, fmt.Errorf("%s is built on more than Slipway can look at", name)
		}
		one := at[0]
		at = at[1:]
		slaves, err := s.below(one, "slaves")
		if err != nil {
			return nil, err
		}
		if len(slaves) > 0 {
			at = append(at, slaves...)
			continue
		}
		if say(s.h.Path("/sys/class/block/"+one), "partition") != "" {
			to, err := filepath.EvalSymlinks(s.h.Path("/sys/class/block/" + one))
			if err != nil {
				return nil, err
			}
			one = filepath.Base(filepath.Dir(to))
		}
		if !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	slices.Sort(all)
	return all, nil
}

// mount is a line of /proc/self/mountinfo.
type mount struct {
	device string // as "major:minor"
	on     string
	source string
}

var mountEscapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// mounts are the mounts of this process, oldest first.
func mounts(h *inside.Host) ([]mount, error) {
	b, err := os.ReadFile(h.Path("/proc/self/mountinfo"))
	if err != nil {
		return nil, err
	}
	var all []mount
	for line := range strings.Lines(string(b)) {
		head, tail, ok := strings.Cut(line, " - ")
		words, rest := strings.Fields(head), strings.Fields(tail)
		if !ok || len(words) < 5 || len(rest) < 2 {
			continue
		}
		all = append(all, mount{device: words[2], on: mountEscapes.Replace(words[4]), source: mountEscapes.Replace(rest[1])})
	}
	return all, nil
}

// isOf reports whether a mount is of a block device. btrfs has its own device number, so its source is compared.
func (m mount) isOf(h *inside.Host, name string) bool {
	if m.device == say(h.Path("/sys/class/block/"+name), "dev") {
		return true
	}
	real, err := filepath.EvalSymlinks(h.Path(m.source))
	return err == nil && real == node(h, name)
}

// aloneOn lists everything that is built on the disks, like above. It returns an error if a device also uses other
// disks.
func (s stack) aloneOn(erased []string) (all []string, err error) {
	for _, d := range erased {
		on, err := s.above(d)
		if err != nil {
			return nil, err
		}
		for _, name := range on {
			if slices.Contains(all, name) {
				continue
			}
			disks, err := s.disksOf(name)
			if err != nil {
				return nil, err
			}
			for _, other := range disks {
				if !slices.Contains(erased, other) {
					return nil, fmt.Errorf("%s stands on the disk %s, which will be erased, and on %s, which will not: stop it, take the disk that will be erased out of it, or design it; nothing was written",
						s.describe(name), d, other)
				}
			}
			all = append(all, name)
		}
	}
	return all, nil
}

// release takes down everything that is built only on the disks to be erased, and unmounts what an earlier run
// mounted for the new system. If something else uses the disks, it stops with an error.
func release(ctx context.Context, h *inside.Host, erased []string) error {
	s := stack{h}
	all, err := s.aloneOn(erased)
	if err != nil {
		return err
	}
	if err := unmount(ctx, h); err != nil {
		return err
	}
	if err := unused(h, erased, all, func(mount) bool { return true }); err != nil {
		return err
	}
	// above lists upper devices first, disk by disk. Across disks one device may still be held by another, so
	// repeat until none is left.
	for len(all) > 0 {
		left := len(all)
		for _, name := range slices.Clone(all) {
			holders, err := s.below(name, "holders")
			if err != nil {
				return err
			}
			if len(holders) > 0 {
				continue
			}
			if err := s.stop(ctx, name); err != nil {
				return err
			}
			all = slices.DeleteFunc(all, func(x string) bool { return x == name })
		}
		if len(all) == left {
			return fmt.Errorf("%s cannot be stopped: something is built on it; nothing was written", s.describe(all[0]))
		}
	}
	return nil
}

// unused returns an error if the disks or devices have swap, or mounts that count.
func unused(h *inside.Host, erased, above []string, counts func(mount) bool) error {
	s := stack{h}
	names := append(slices.Clone(erased), above...)
	for _, d := range erased {
		partitions, err := s.partitions(d)
		if err != nil {
			return err
		}
		for _, p := range partitions {
			names = append(names, p)
		}
	}
	mounted, err := mounts(h)
	if err != nil {
		return err
	}
	swaps, err := os.ReadFile(h.Path("/proc/swaps"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range names {
		for _, m := range mounted {
			if m.isOf(h, name) && counts(m) {
				return fmt.Errorf("%s is mounted on %s by something else: unmount it; nothing was written", name, m.on)
			}
		}
		for line := range strings.Lines(string(swaps)) {
			if words := strings.Fields(line); len(words) > 0 && h.Path(words[0]) == node(h, name) {
				return fmt.Errorf("%s is in use as swap: run swapoff on it; nothing was written", name)
			}
		}
	}
	return nil
}

// describe names an array or a mapped device for people.
func (s stack) describe(name string) string {
	at := s.h.Path("/sys/class/block/" + name)
	if mapped := say(at, "dm/name"); mapped != "" {
		return "the mapped device " + mapped
	}
	if level := say(at, "md/level"); level != "" {
		return "the array " + name + " (" + level + ")"
	}
	return name
}

// stop takes down an array or a mapped device.
func (s stack) stop(ctx context.Context, name string) error {
	at := s.h.Path("/sys/class/block/" + name)
	if mapped := say(at, "dm/name"); mapped != "" {
		return run(ctx, s.h, inside.Command{Path: "dmsetup", Args: []string{"remove", "--retry", "--noudevsync", mapped}})
	}
	if _, err := os.Stat(filepath.Join(at, "md")); err == nil {
		return run(ctx, s.h, inside.Command{Path: "mdadm", Args: []string{"--stop", "/dev/" + name}, Env: noUdev})
	}
	return fmt.Errorf("%s uses a disk that will be erased, and is neither an array nor a mapped device: stop it; nothing was written", name)
}

// Target is where the new system is mounted.
const Target = "/target"

// ofTarget reports whether it is a mount of the new system.
func (m mount) ofTarget(h *inside.Host) bool {
	return m.on == h.Path(Target) || strings.HasPrefix(m.on, h.Path(Target)+"/")
}

// unmount unmounts everything of the new system, last first.
func unmount(ctx context.Context, h *inside.Host) error {
	all, err := mounts(h)
	if err != nil {
		return err
	}
	for _, m := range slices.Backward(all) {
		if m.ofTarget(h) {
			if err := run(ctx, h, inside.Command{Path: "umount", Args: []string{path.Join("/", strings.TrimPrefix(m.on, strings.TrimRight(h.Root, "/")))}}); err != nil {
				return err
			}
		}
	}
	return nil
}
