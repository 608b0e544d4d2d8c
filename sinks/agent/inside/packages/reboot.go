package packages

import (
	"bytes"
	"io"
	"iter"
	"os"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

func mkdirAll(where string) error { return os.MkdirAll(where, 0o755) }

// coreRPMs are the packages whose upgrade needs a reboot in the RHEL family.
var coreRPMs = []string{"kernel", "kernel-core", "kernel-rt", "glibc", "linux-firmware", "systemd", "dbus", "dbus-broker", "dbus-daemon",
	"openssl-libs", "gnutls", "udev", "microcode_ctl"}

// rebootReason is "reboot" if an upgrade takes effect at the next boot: the system says so, the running kernel is
// older than an installed one, or a package that every program uses was installed after the boot. It is "libraries"
// if programs use libraries that were replaced since they started.
func rebootReason(h *inside.Host, inv inventory) string {
	if !h.Live {
		return ""
	}
	boot := bootTime(h)
	if exists(h, "/run/reboot-required") || exists(h, "/var/run/reboot-required") || olderKernel(h) || replacedKernel(h, boot) {
		return "reboot"
	}
	for _, name := range coreRPMs {
		if p, ok := inv.byName[name]; ok && boot > 0 && p.Time > boot {
			return "reboot"
		}
	}
	if usesOldLibraries(h) {
		return "libraries"
	}
	return ""
}

// These are the bounds on reading proc(5).
const (
	maxProcesses = 20000
	maxMaps      = 4 << 20 // bytes of one process
)

// oldLibrary matches a line of proc_pid_maps(5) for a library in the system's own folders that was replaced or
// removed after loading.
var oldLibrary = inside.Pattern(`(?m) /(usr/)?lib(32|64|x32)?/[^\n]*\.so[.0-9]* \(deleted\)$`)

// usesOldLibraries reports whether a program of this system, not of a container on it, uses a library that was
// replaced.
func usesOldLibraries(h *inside.Host) bool {
	for text := range mappings(h) {
		if oldLibrary().Match(text) {
			return true
		}
	}
	return false
}

// usedLibraries are the libraries in the system's own folders that programs of this system use, without a leading
// /usr.
func usedLibraries(h *inside.Host) map[string]bool {
	used := map[string]bool{}
	for text := range mappings(h) {
		for line := range bytes.Lines(text) {
			file := bytes.TrimRight(line[max(0, bytes.IndexByte(line, '/')):], "\n")
			file = bytes.TrimPrefix(file, []byte("/usr"))
			if bytes.HasPrefix(file, []byte("/lib")) && bytes.Contains(file, []byte(".so")) && !used[string(file)] {
				used[string(file)] = true
			}
		}
	}
	return used
}

// mappings yields the memory maps of this system's programs, not of containers on it, in the format of
// proc_pid_maps(5).
func mappings(h *inside.Host) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		entries, err := list(h, "/proc")
		own, err2 := os.Stat(h.Path("/"))
		if err != nil || err2 != nil {
			return
		}
		for _, e := range entries[:min(len(entries), maxProcesses)] {
			if _, err := strconv.ParseUint(e.Name(), 10, 32); err != nil {
				continue
			}
			folder := h.Path("/proc/" + e.Name())
			root, err := os.Stat(folder + "/root")
			if err != nil || !os.SameFile(root, own) {
				continue // it has ended, or is a kernel thread or in a container
			}
			f, err := os.Open(folder + "/maps")
			if err != nil {
				continue
			}
			text, _ := io.ReadAll(io.LimitReader(f, maxMaps)) // truncated if the process ends meanwhile
			f.Close()
			if !yield(text) {
				return
			}
		}
	}
}

// bootTime is the boot time in seconds; 0 if it cannot be read.
func bootTime(h *inside.Host) int64 {
	// Files of proc(5) report a size of 0.
	where, err := resolve(h, "/proc/stat")
	if err != nil {
		return 0
	}
	text, err := os.ReadFile(where)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "btime "); ok {
			at, _ := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			return at
		}
	}
	return 0
}

// runningKernel is the release of the running kernel; empty if it cannot be read.
func runningKernel(h *inside.Host) string {
	where, err := resolve(h, "/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	text, err := os.ReadFile(where)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// replacedKernel reports whether dpkg has unpacked the running kernel's package since the boot. A new build keeps
// the same name.
func replacedKernel(h *inside.Host, boot int64) bool {
	running := runningKernel(h)
	if boot == 0 || running == "" || strings.Contains(running, "/") {
		return false
	}
	for _, name := range []string{"linux-image-", "linux-image-unsigned-"} {
		if info, err := stat(h, "/var/lib/dpkg/info/"+name+running+".list"); err == nil && info.ModTime().Unix() > boot {
			return true
		}
	}
	return false
}

// olderKernel reports whether /boot has a newer kernel of the running flavour.
func olderKernel(h *inside.Host) bool {
	running := runningKernel(h)
	entries, err := list(h, "/boot")
	if err != nil || running == "" {
		return false
	}
	for _, e := range entries {
		kernel, ok := strings.CutPrefix(e.Name(), "vmlinuz-")
		if ok && flavour(kernel) == flavour(running) && inside.CompareVersions(kernel, running) > 0 {
			return true
		}
	}
	return false
}

var flavoured = inside.Pattern(`[-+][a-z].*$`)

// flavour distinguishes kernels that are not upgrades of each other: "cloud-amd64" in "6.1.0-21-cloud-amd64".
func flavour(kernel string) string { return flavoured().FindString(kernel) }
