package report

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// maxMountTable bounds the table of mounts, in bytes.
const maxMountTable = 1 << 20

// mount is a line of proc_pid_mounts(5).
type mount struct{ source, path, kind string }

// mounts prints the lines of `df -PkTl` for file systems on a disk of this machine. A file system that does not
// answer in time ends the list.
func mounts(h *inside.Host) []byte {
	all := local(string(file(h, "/proc/mounts", maxMountTable)))
	lines := make(chan []byte, len(all))
	go func() {
		defer close(lines)
		for _, m := range all {
			lines <- used(h, m)
		}
	}()
	late := time.After(soonEnough)
	var b bytes.Buffer
	for {
		select {
		case l, more := <-lines:
			if b.Write(l); !more {
				return b.Bytes()
			}
		case <-late:
			return b.Bytes()
		}
	}
}

// local are the mounts from this machine's disks, each device once with its shortest path. The root counts on any
// source.
func local(table string) []mount {
	var all []mount
	for l := range strings.Lines(table) {
		f := strings.Fields(l)
		if len(f) < 3 {
			continue
		}
		m := mount{unoctal(f[0]), unoctal(f[1]), f[2]}
		if m.path == "/" || m.kind == "zfs" || strings.HasPrefix(m.source, "/") && !strings.HasPrefix(m.source, "//") {
			all = append(all, m)
		}
	}
	slices.SortStableFunc(all, func(a, b mount) int { return cmp.Compare(len(a.path), len(b.path)) })
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(m mount) bool {
		was := seen[m.source]
		seen[m.source] = true
		return was
	})
}

// used is the line of one file system; empty if the file system reports nothing. The percentage is of the space for
// users, rounded up, like df(1).
func used(h *inside.Host, m mount) []byte {
	var s syscall.Statfs_t
	if syscall.Statfs(h.Path(m.path), &s) != nil || s.Blocks == 0 || s.Bsize <= 0 {
		return nil
	}
	block, taken := uint64(s.Bsize), s.Blocks-min(s.Bfree, s.Blocks)
	share := uint64(0)
	if usable := taken + s.Bavail; usable > 0 {
		share = (taken*100 + usable - 1) / usable
	}
	return fmt.Appendf(nil, "%s %s %d %d %d %d%% %s\n", strings.ReplaceAll(onOneLine(m.source), " ", "_"), m.kind, s.Blocks*block/1024, taken*block/1024, s.Bavail*block/1024, share, onOneLine(m.path))
}

// unoctal decodes bytes that the kernel writes as \NNN in names.
func unoctal(s string) string {
	for _, r := range []struct{ octal, is string }{{`\040`, " "}, {`\011`, "\t"}, {`\012`, "\n"}, {`\134`, `\`}} {
		s = strings.ReplaceAll(s, r.octal, r.is)
	}
	return s
}
