package config

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

const ops = 1000 // the number of the account ops

// newHome is a system where ops has a home folder, and root has a job that cron runs.
func newHome(t *testing.T) *fake {
	t.Helper()
	f := newFake(t)
	f.put("/etc/cron.daily/backup", "root's\n")
	f.put("/home/ops/.profile", "")
	f.own("/home/ops", ops)
	return f
}

// own gives a file, a folder or a link to an account.
func (f *fake) own(path string, uid int) {
	f.t.Helper()
	if err := os.Lchown(f.host.Path(path), uid, uid); err != nil {
		f.t.Fatal(err)
	}
}

// linkOf puts a link of an account in the place of whatever is there.
func (f *fake) linkOf(uid int, path, target string) {
	f.t.Helper()
	if err := os.RemoveAll(f.host.Path(path)); err != nil {
		f.t.Fatal(err)
	}
	f.link(path, target)
	f.own(path, uid)
}

// A user cannot lead Slipway out of what is his by a link in place of a folder: neither to
// write a file of his there, nor to remove root's, nor to put back what he had.
func TestALinkOfAUserLeadsNowhereElse(t *testing.T) {
	backup := file("/home/ops/bin/backup", "designed\n", "0755", "ops")
	for name, lay := range map[string]func(f *fake){
		"absolute": func(f *fake) { f.linkOf(ops, "/home/ops/bin", "/etc/cron.daily") },
		"relative": func(f *fake) { f.linkOf(ops, "/home/ops/bin", "../../etc/cron.daily") },
		"through a folder of his": func(f *fake) {
			f.put("/home/ops/d/x", "")
			f.own("/home/ops/d", ops)
			f.linkOf(ops, "/home/ops/bin", "d/../../../etc/cron.daily")
		},
		"two links": func(f *fake) {
			f.linkOf(ops, "/home/ops/bin", "second")
			f.linkOf(ops, "/home/ops/second", "/etc/cron.daily")
		},
		"a link of root that he renamed": func(f *fake) { f.linkOf(0, "/home/ops/bin", "/etc/cron.daily") },
		"his link to a link of root": func(f *fake) {
			f.linkOf(ops, "/home/ops/bin", "roots")
			f.linkOf(0, "/home/ops/roots", "/etc/cron.daily")
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newHome(t)
			lay(f)
			refuses(t, f, backup, "/home/ops/")
			seen := f.observe(backup.Key)
			why := seen.Cannot[backup.Key]
			if !strings.Contains(why, "link /home/ops/") || !strings.Contains(why, "ops") || !strings.Contains(why, "Replace the link by a folder") || len(seen.Have) > 0 {
				t.Errorf("seen as %+v", seen)
			}

			// It was made in a real folder, over a file of his own, and leaves the design.
			for _, before := range []string{"", "his own\n"} {
				f := newHome(t)
				f.put("/home/ops/bin/other", "")
				f.own("/home/ops/bin", ops)
				if before != "" {
					f.put("/home/ops/bin/backup", before)
				}
				if err := f.apply([]item.Item{backup}); err != nil {
					t.Fatal(err)
				}
				lay(f)
				if err := f.apply(nil, backup.Key); class(err) != wire.Refused || !strings.Contains(err.Error(), "Replace the link by a folder") {
					t.Errorf("removing: %v", err)
				}
				if got := f.read("/etc/cron.daily/backup"); got != "root's\n" {
					t.Errorf("root's file is %q", got)
				}
				if _, ours := f.host.Owned.Entry("config", backup.Key); !ours {
					t.Error("it is forgotten, though it was not removed")
				}
			}
		})
	}
}

// Links that a user could not have laid, and links of his to what is his, are followed.
func TestLinksThatAreFollowed(t *testing.T) {
	f := newHome(t)
	f.put("/usr/lib/x/y", "")
	f.put("/home/ops/data/y", "")
	f.own("/home/ops/data", ops)
	f.link("/lib64", "usr/lib")
	f.linkOf(ops, "/home/ops/bin", "data")
	items := []item.Item{
		file("/lib64/x/z", "z", "0644", "root"), file("/home/ops/bin/z", "z", "0644", "ops"),
		file("/home/ops/bin/new/z", "z", "0644", "root"), file("/home/ops/made/below/z", "z", "0644", "ops"),
	}
	if err := f.apply(items); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/usr/lib/x/z", "/home/ops/data/z", "/home/ops/data/new/z", "/home/ops/made/below/z"} {
		if got := f.read(path); got != "z" {
			t.Errorf("%s has %q", path, got)
		}
	}
	writes := f.writes
	if err := f.apply(items); err != nil || f.writes != writes {
		t.Errorf("again: %v, %d writes", err, f.writes-writes)
	}
	if seen := f.observe(item.Keys(items)...); len(seen.Cannot)+len(seen.Unread) > 0 {
		t.Errorf("cannot %v, unread %v", seen.Cannot, seen.Unread)
	}
	if err := f.apply(nil, item.Keys(items)...); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/usr/lib/x/z", "/home/ops/data/z", "/home/ops/data/new", "/home/ops/made"} {
		if _, err := os.Lstat(f.host.Path(path)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
}

// A user who swaps his folder for a link while Slipway works wins nothing.
func TestAFolderThatIsSwappedMeanwhile(t *testing.T) {
	f := newHome(t)
	f.put("/home/ops/bin/other", "")
	f.own("/home/ops/bin", ops)
	f.linkOf(ops, "/home/ops/trap", "../../etc/cron.daily")
	at := func(name string) string { return f.host.Path("/home/ops/" + name) }
	var stop atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !stop.Load() {
			for _, move := range [][2]string{{"bin", "kept"}, {"trap", "bin"}, {"bin", "trap"}, {"kept", "bin"}} {
				if err := os.Rename(at(move[0]), at(move[1])); err != nil && !errors.Is(err, syscall.EEXIST) && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.ENOTDIR) && !errors.Is(err, syscall.EISDIR) && !errors.Is(err, os.ErrNotExist) {
					t.Error(err)
				}
			}
		}
	}()
	backup := file("/home/ops/bin/backup", "designed\n", "0755", "ops")
	for range 1000 {
		f.apply([]item.Item{backup}) // refused or done
		f.apply(nil, backup.Key)
		names, err := os.ReadDir(f.host.Path("/etc/cron.daily"))
		if err != nil || len(names) != 1 || f.read("/etc/cron.daily/backup") != "root's\n" {
			t.Errorf("root's folder has %v, %v", names, err)
			break
		}
	}
	stop.Store(true)
	<-ended
}

// What is not made at a path is not removed there either.
func TestWhatLeavesIsNotRemovedWhereNothingIsMade(t *testing.T) {
	f := newFake(t)
	i := file("/etc/tuned/vm/x", "x", "0644", "root")
	if err := f.apply([]item.Item{i}); err != nil {
		t.Fatal(err)
	}
	f.put("/proc/sys/vm/x", "the kernel's\n")
	f.linkOf(0, "/etc/tuned", "/proc/sys")
	if err := f.apply(nil, i.Key); class(err) != wire.Refused || !strings.Contains(err.Error(), "belong to the kernel") {
		t.Errorf("removing: %v", err)
	}
	if got := f.read("/proc/sys/vm/x"); got != "the kernel's\n" {
		t.Errorf("it is %q", got)
	}
	f.linkOf(0, "/etc/tuned", inside.Folder)
	if err := f.apply(nil, i.Key); class(err) != wire.Refused || !strings.Contains(err.Error(), "Slipway keeps") {
		t.Errorf("removing: %v", err)
	}
}

// A file that a user made larger than any design has is told by its size alone, and a
// file is read no longer than somebody waits for it.
func TestAHugeFileIsNotRead(t *testing.T) {
	f := newHome(t)
	const huge = 8 << 40
	i := file("/home/ops/a", "a", "0644", "ops")
	for path, size := range map[string]int64{"/home/ops/a": huge, "/home/ops/b": 64 << 20} {
		f.put(path, "")
		f.own(path, ops)
		if err := os.Truncate(f.host.Path(path), size); err != nil {
			t.Fatal(err)
		}
	}
	f.host.Show = map[string]string{i.Key: i.Fields["content"]}
	seen := f.observe(i.Key)
	if got := seen.Have[i.Key+".content"]; got != "a file of 8796093022208 bytes" || seen.Have[i.Key+".state"] != item.Present || seen.Have[i.Key+".owner"] != "ops:ops" {
		t.Errorf("seen as %v", seen.Have)
	}
	if c := seen.Contents[i.Key]; c.Text != "" || c.Bytes != huge || c.Withheld != item.TooLarge(huge) {
		t.Errorf("shown is %+v", c)
	}
	if err := f.apply([]item.Item{i}); class(err) != wire.Refused || !strings.Contains(err.Error(), "Move it away") {
		t.Errorf("making it: %v", err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	b := "files./home/ops/b"
	if seen, err := f.facet().Observe(ctx, f.host, []string{b}); err != nil || seen.Have[b+".content"] != "" || !strings.Contains(seen.Unread[b], "canceled") {
		t.Errorf("seen as %+v, %v", seen, err)
	}
}
