package run

import (
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// Detect identifies the system under a root folder. It runs no program.
func Detect(root string) wire.System {
	s := wire.System{Kernel: kernel(), BootID: strings.TrimSpace(readHost("/proc/sys/kernel/random/boot_id"))}
	folder, err := os.OpenRoot(root)
	if err != nil {
		return s
	}
	defer folder.Close()
	release := osRelease(read(folder, "etc/os-release"))
	if len(release) == 0 {
		release = osRelease(read(folder, "usr/lib/os-release"))
	}
	s.ID, s.Release = clip(release["ID"]), clip(release["VERSION_ID"])
	s.Family = family(s.ID, release["ID_LIKE"])
	s.Network = networkManager(folder)
	return s
}

// family is the kind of packages and folders that a system has.
func family(id, like string) string {
	all := append(strings.Fields(like), id)
	switch {
	case slices.Contains(all, "debian") || slices.Contains(all, "ubuntu"):
		return "debian"
	case slices.ContainsFunc(all, func(s string) bool { return s == "rhel" || s == "fedora" || s == "centos" }):
		return "rhel"
	}
	return id
}

// osRelease reads os-release(5).
func osRelease(text string) map[string]string {
	all := map[string]string{}
	for l := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(l), "=")
		if ok && !strings.HasPrefix(name, "#") {
			all[name] = unquote(value)
		}
	}
	return all
}

func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		s = s[1 : len(s)-1]
	}
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\$`, `$`, "\\`", "`").Replace(s)
}

// networkManager says which program manages the network, by what is enabled. netplan writes another program's
// files, and NetworkManager ignores what ifupdown manages.
func networkManager(folder *os.Root) string {
	enabled := func(unit string) bool {
		return exists(folder, "etc/systemd/system/multi-user.target.wants/"+unit) || exists(folder, "etc/systemd/system/network-online.target.wants/"+unit)
	}
	switch {
	case holds(folder, "etc/netplan", ".yaml"):
		return "netplan"
	case enabled("systemd-networkd.service"):
		return "networkd"
	case strings.Contains(withoutLoopback(read(folder, "etc/network/interfaces")), "iface ") || exists(folder, "etc/network/interfaces.d") && holds(folder, "etc/network/interfaces.d", ""):
		return "ifupdown"
	case enabled("NetworkManager.service"):
		return "networkmanager"
	case exists(folder, "etc/network/interfaces") && exists(folder, "usr/sbin/ifup"):
		return "ifupdown"
	}
	return ""
}

// withoutLoopback removes comments and the loopback interface from interfaces(5).
func withoutLoopback(text string) string {
	var b strings.Builder
	for l := range strings.Lines(text) {
		if l = strings.TrimSpace(l); !strings.HasPrefix(l, "#") && !strings.HasPrefix(l, "iface lo ") {
			b.WriteString(l + "\n")
		}
	}
	return b.String()
}

func exists(folder *os.Root, path string) bool {
	_, err := folder.Lstat(path)
	return err == nil
}

// holds reports whether a folder has a file with a suffix.
func holds(folder *os.Root, path, suffix string) bool {
	entries, err := fs.ReadDir(folder.FS(), path)
	return err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.HasSuffix(e.Name(), suffix) })
}

const maxRead = 64 << 10

// read is the beginning of a file; empty if it cannot be read.
func read(folder *os.Root, path string) string {
	f, err := folder.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	return limited(f)
}

func readHost(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	return limited(f)
}

func limited(f *os.File) string {
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	text, _ := io.ReadAll(io.LimitReader(f, maxRead))
	return string(text)
}

// kernel is the release of the running kernel.
func kernel() string {
	var name syscall.Utsname
	if syscall.Uname(&name) != nil {
		return ""
	}
	var b strings.Builder
	for _, c := range name.Release {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	return clip(b.String())
}
