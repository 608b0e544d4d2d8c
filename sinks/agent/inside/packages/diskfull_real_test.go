package packages

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// Where apt or dpkg finds no room, the error names the file system and its room, and the next run
// gets to the end once there is room.
func TestAptOnAFullDisk(t *testing.T) {
	t.Parallel()
	s := debian(t)
	much := strings.Repeat("0123456789abcdef", 3<<16) // 3 MiB
	s.publish("stable", "Site", deb{name: "small", version: "1.0"}, deb{name: "big", version: "1.0", data: much}, deb{name: "long", version: "1.0", postinst: ": " + much})
	server := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(s.root, "srv/repo"))))
	t.Cleanup(server.Close)
	repo := repository("site-stable", item.Repository{Family: "debian", URL: server.URL, Suite: "stable", Components: []string{"main"}, Key: s.key})
	s.does([]item.Item{repo})
	for _, c := range []struct{ folder, name string }{
		{"/var/cache/apt/archives", "big"}, // while packages are fetched
		{"/usr/share/big", "big"},          // while one is unpacked
		{"/var/lib/dpkg", "long"},          // in dpkg's own database
	} {
		size, restore := s.tight(c.folder, 1<<20)
		items := []item.Item{repo, pkg("small", "", "present"), pkg(c.name, "", "present")}
		s.fails(items, wire.Failed, "the file system "+c.folder+" has ", " free of "+item.Bytes(int64(size)), "Make room there", diskFull)
		restore()
		s.makes(items)
		s.makes([]item.Item{repo}, "packages.big", "packages.long", "packages.small")
	}
}

// tight mounts a file system at a folder of the system that has room for so many bytes beside what
// is there, and gives its size; restore puts what is there then back into the folder.
func (s *system) tight(folder string, room uint64) (size uint64, restore func()) {
	s.t.Helper()
	at, was := filepath.Join(s.root, folder), filepath.Join(s.t.TempDir(), "was")
	s.must("mkdir", "-p", at)
	s.must("cp", "-a", at, was)
	s.must("mount", "-t", "tmpfs", "tmpfs", at)
	mounted := true
	s.t.Cleanup(func() {
		if mounted {
			_ = syscall.Unmount(at, syscall.MNT_DETACH)
		}
	})
	s.must("cp", "-a", was+"/.", at)
	var is syscall.Statfs_t
	if err := syscall.Statfs(at, &is); err != nil {
		s.t.Fatal(err)
	}
	size = (is.Blocks-is.Bfree)*uint64(is.Bsize) + room
	s.must("mount", "-o", fmt.Sprintf("remount,size=%d", size), at)
	return size, func() {
		s.t.Helper()
		s.must("rm", "-rf", was)
		s.must("cp", "-a", at, was)
		if err := syscall.Unmount(at, 0); err != nil {
			s.t.Fatal(err)
		}
		mounted = false
		s.must("find", at, "-mindepth", "1", "-delete")
		s.must("cp", "-a", was+"/.", at)
	}
}
