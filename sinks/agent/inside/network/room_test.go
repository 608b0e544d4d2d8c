package network

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// unwritable keeps a file from being written, as a full disk does, until it is called.
func (s *system) unwritable(path string) (writable func()) {
	s.t.Helper()
	at := filepath.Join(s.root, filepath.Dir(path), ".slipway-"+filepath.Base(path)+".new")
	if err := os.MkdirAll(filepath.Join(at, "full"), 0o700); err != nil {
		s.t.Fatal(err)
	}
	return func() {
		if err := os.RemoveAll(at); err != nil {
			s.t.Fatal(err)
		}
	}
}

// What cannot be written keeps no interface from being set back. Nobody can confirm the change
// from then on, and the rest is done when it can be.
func TestRevertOnAFullDisk(t *testing.T) {
	const old, owned = "/etc/systemd/network/10-eth0.network", "/var/lib/slipway-inside/owned.json"
	for name, c := range map[string]struct {
		full []string
		done bool // all the same
	}{
		"the marker":            {[]string{markerFile}, true},
		"a file of before":      {[]string{old}, false},
		"that and the marker":   {[]string{old, markerFile}, false},
		"the list of our own":   {[]string{owned}, false},
		"all but the marker":    {[]string{old, owned, revertedFile}, false},
		"the record":            {[]string{revertedFile}, false},
		"the record and marker": {[]string{revertedFile, markerFile}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t)
			f := s.facet()
			before := s.configuration()
			if err := f.Apply(t.Context(), s.host(), items(wanted), nil); err != nil {
				t.Fatal(err)
			}
			change, _ := f.Unconfirmed(s.host())
			var writable []func()
			for _, path := range c.full {
				writable = append(writable, s.unwritable(path))
			}
			err := f.revert(t.Context(), s.host(), change)
			if c.done != (err == nil) || err != nil && (class(err) != wire.Failed || !strings.Contains(err.Error(), "trying again")) {
				t.Errorf("got %v", err)
			}
			if got := s.addresses["eth0"]; !slices.Equal(got, []string{"10.1.0.10/24"}) {
				t.Errorf("eth0 has %q, want what it had", got)
			}
			if got := s.routes["eth0"]; len(got) == 0 || got[len(got)-1].Via != "10.1.0.1" {
				t.Errorf("eth0 has the routes %v", got)
			}
			if err := f.Confirm(t.Context(), s.host(), change); class(err) != wire.Reverted {
				t.Errorf("confirmed: %v", err)
			}
			if s.has(markerFile) != !c.done || !c.done && s.timer == "" {
				t.Errorf("the marker is there: %v, timer %q", s.has(markerFile), s.timer)
			}
			for _, again := range writable {
				again()
			}
			if err := f.revert(t.Context(), s.host(), change); err != nil {
				t.Error(err)
			}
			s.isBack(before)
			if err := f.Confirm(t.Context(), s.host(), change); class(err) != wire.Reverted {
				t.Errorf("confirmed at last: %v", err)
			}
		})
	}
}

// What is back already is not set up again because that cannot be written down.
func TestRevertThatCannotBeRecordedLeavesInterfacesAlone(t *testing.T) {
	s := newSystem(t)
	f := s.facet()
	if err := f.Apply(t.Context(), s.host(), items(wanted), nil); err != nil {
		t.Fatal(err)
	}
	change, _ := f.Unconfirmed(s.host())
	s.unwritable(revertedFile)
	s.unwritable(markerFile)
	for range 2 {
		s.ran = nil
		if err := f.revert(t.Context(), s.host(), change); class(err) != wire.Failed {
			t.Fatalf("got %v", err)
		}
	}
	if len(s.ran) > 0 {
		t.Errorf("it ran %q", s.ran)
	}
}

// A network that could not be set back at boot is set back when its manager runs.
func TestRevertAtBootOnAFullDisk(t *testing.T) {
	s := newSystem(t)
	f := s.facet()
	if err := f.Apply(t.Context(), s.host(), items(wanted), nil); err != nil {
		t.Fatal(err)
	}
	change, _ := f.Unconfirmed(s.host())
	s.timer, s.running = "", false
	s.unwritable("/etc/systemd/network/10-eth0.network")
	if err := f.revert(t.Context(), s.host(), change); class(err) != wire.Failed || s.timer != timerUnit(change) {
		t.Fatalf("got %v, timer %q", err, s.timer)
	}
	s.running = true
	s.reload()
	if err := f.revert(t.Context(), s.host(), change); class(err) != wire.Failed {
		t.Fatalf("got %v", err)
	}
	if got := s.addresses["eth0"]; !slices.Equal(got, []string{"10.1.0.10/24"}) {
		t.Errorf("eth0 has %q, want what it had", got)
	}
}

// The room that is kept is enough for the whole way back, on a disk without a free byte and a free
// inode.
func TestRoomIsEnough(t *testing.T) {
	root := t.TempDir()
	if err := syscall.Mount("slipway", root, "tmpfs", 0, "size=2m,nr_inodes=400"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skipf("a file system of its own is needed: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(root, syscall.MNT_DETACH) })
	s := newSystemIn(t, root)
	f := s.facet()
	before := s.configuration()
	if err := f.Apply(t.Context(), s.host(), items(wanted), nil); err != nil {
		t.Fatal(err)
	}
	change, _ := f.Unconfirmed(s.host())
	if err := os.WriteFile(filepath.Join(root, "full"), make([]byte, 4<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("its last byte: %v", err)
	}
	for i := 0; ; i++ {
		if err := os.Symlink("x", filepath.Join(root, fmt.Sprint("x", i))); errors.Is(err, syscall.ENOSPC) {
			break
		} else if err != nil || i > 1000 {
			t.Fatal(err)
		}
	}
	if err := f.revert(t.Context(), s.host(), change); err != nil {
		t.Error(err)
	}
	s.isBack(before)
	if !s.has(revertedFile) {
		t.Error("there is no record")
	}
}
