package config

import (
	"os"
	"syscall"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
)

// Who could write a file, and has it mapped, does not change what becomes root's there.
func TestAMappedFileIsReplaced(t *testing.T) {
	const path, content = "/home/ops/tool", "designed\n"
	for name, c := range map[string]struct {
		uid    int
		mode   os.FileMode
		stays  bool // as the same file
		artful bool
	}{
		"his becomes root's":             {ops, 0o755, false, false},
		"his becomes root's, fetched":    {ops, 0o755, false, true},
		"all could write root's":         {0, 0o666, false, false},
		"nobody else could write root's": {0, 0o600, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newHome(t)
			f.put(path, content)
			f.own(path, c.uid)
			at := f.host.Path(path)
			if err := os.Chmod(at, c.mode); err != nil {
				t.Fatal(err)
			}
			his, err := os.OpenFile(at, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer his.Close()
			mapped, err := syscall.Mmap(int(his.Fd()), 0, len(content), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
			if err != nil {
				t.Fatal(err)
			}
			defer syscall.Munmap(mapped)
			before, err := his.Stat()
			if err != nil {
				t.Fatal(err)
			}
			designed := file(path, content, "4755", "root")
			if c.artful {
				designed = artifact(f, path, content)
			}
			if err := f.apply([]item.Item{designed}); err != nil {
				t.Fatal(err)
			}
			after, err := os.Stat(at)
			if err != nil {
				t.Fatal(err)
			}
			if os.SameFile(before, after) != c.stays || after.Sys().(*syscall.Stat_t).Uid != 0 {
				t.Errorf("the same file: %v, owner %d", os.SameFile(before, after), after.Sys().(*syscall.Stat_t).Uid)
			}
			copy(mapped, "hostile!\n")
			if got := f.read(path); !c.stays && got != content {
				t.Errorf("it has %q", got)
			}
		})
	}
}
