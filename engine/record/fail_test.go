package record

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"

	"github.com/slipway-gitops/slipway/engine/site"
)

// TestQuota holds that history never stops writes: at etcd's quota it is
// given up, and the write that met it is done.
func TestQuota(t *testing.T) {
	s, err := Open(t.Context(), t.TempDir(), Options{NoSync: true, Tick: quick.Tick, quota: 4 << 20})
	must(t, err)
	defer s.Close()
	b := s.Site("berlin")
	for i := range 200 { // 12 MiB of one record's history
		r := recorded(i)
		r.Last.Reason = strings.Repeat("x", maxValue-1024)
		must(t, b.PutNode(t.Context(), "n1", r))
	}
	if got := load(t, b).Nodes["n1"].Recorded.Generation(); got != 199 {
		t.Errorf("generation %d is recorded, want 199", got)
	}
}

// TestFull holds what is said when the records themselves have reached the
// quota, and that deleting some is enough to go on, also after a restart.
func TestFull(t *testing.T) {
	opts := Options{NoSync: true, Tick: quick.Tick, quota: 2 << 20}
	s, err := Open(t.Context(), t.TempDir(), opts)
	must(t, err)
	b, n := s.Site("berlin"), 0
	put := func() error {
		r := recorded(1)
		r.Last.Reason = strings.Repeat("x", maxValue-1024)
		return b.PutNode(t.Context(), fmt.Sprintf("n%d", n), r)
	}
	for err = nil; err == nil && n < 2000; n++ { // etcd looks at its size ten times a second
		err = put()
	}
	for _, want := range []string{s.dir, "their limit of 2 MiB", "nothing more is recorded", "remove nodes"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("after %d nodes got %v, want %q in it", n, err, want)
		}
	}
	must(t, s.Close())
	s, err = Open(t.Context(), s.dir, opts)
	must(t, err)
	defer s.Close()
	b = s.Site("berlin")
	if err := put(); err == nil {
		t.Error("there is room after a restart by itself")
	}
	for i := range n {
		must(t, b.DeleteNode(t.Context(), fmt.Sprintf("n%d", i)))
	}
	must(t, put())
}

// TestSpoiltBits flips bits and cuts files at random places: either the
// records come back exactly as they were, or an error says that they are
// damaged.
func TestSpoiltBits(t *testing.T) {
	s := open(t, t.TempDir())
	fill(t, s.Site("berlin"), 40)
	want := load(t, s.Site("berlin"))
	must(t, s.Close())
	random := rand.New(rand.NewPCG(4, 2))
	refusals := 0
	for range 20 {
		dir := filepath.Join(t.TempDir(), "state")
		must(t, os.CopyFS(dir, os.DirFS(s.dir)))
		path := spoil(t, random, dir)
		is, err := loadAll(t.Context(), dir)
		switch {
		case err == nil:
			same(t, path, is, want)
		case strings.Contains(err.Error(), "damaged") && strings.Contains(err.Error(), "restore it from a backup"):
			refusals++
		default:
			t.Errorf("%s is spoilt, and the error is %v", path, err)
		}
	}
	if refusals == 0 {
		t.Error("no damage was noticed")
	}
}

// spoil flips a bit of one of the files, or cuts it, and says which.
func spoil(t *testing.T, random *rand.Rand, dir string) string {
	t.Helper()
	var paths []string
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if info, ierr := d.Info(); ierr == nil && d.Type().IsRegular() && info.Size() > 16 && !strings.HasSuffix(path, ".tmp") {
			paths = append(paths, path)
		}
		return err
	}))
	path := paths[random.IntN(len(paths))]
	text, err := os.ReadFile(path)
	must(t, err)
	at := random.IntN(min(len(text), 128<<10)) // etcd's files are preallocated: what is used comes first
	if random.IntN(2) == 0 {
		text[at] ^= 1 << random.IntN(8)
	} else {
		text = text[:at]
	}
	must(t, os.WriteFile(path, text, 0o600))
	return fmt.Sprintf("%s at %d", path, at)
}

func loadAll(ctx context.Context, dir string) (Snapshot, error) {
	s, err := Open(ctx, dir, Options{NoSync: true, Tick: quick.Tick, patience: time.Second})
	if err != nil {
		return Snapshot{}, err
	}
	defer s.Close()
	return s.Site("berlin").Load(ctx)
}

// TestOneBit holds that a flipped bit is noticed that makes sense as JSON.
func TestOneBit(t *testing.T) {
	s := open(t, t.TempDir())
	b, ctx := s.Site("berlin"), t.Context()
	must(t, b.PutNode(ctx, "n1", recorded(1)))
	key := "/slipway/v1/berlin/nodes/n1"
	sealed := s.get(t, key)
	for name, put := range map[string]clientv3.Op{
		"generation": clientv3.OpPut(key, strings.Replace(sealed, `"generation":1`, `"generation":0`, 1)),
		"checksum":   clientv3.OpPut(key, sealed[:len(sealed)-1]+"g"),
		"cut":        clientv3.OpPut(key, sealed[:3]),
		"name":       clientv3.OpPut("/slipway/v1/berlin/nodes/n3", sealed),
	} {
		must(t, s.txn(ctx, []clientv3.Op{put}))
		if _, err := s.Site("berlin").Load(ctx); err == nil || !strings.Contains(err.Error(), "checksum") || !strings.Contains(err.Error(), "restore it from a backup") {
			t.Errorf("%s: got %v, want that the record is damaged", name, err)
		}
		must(t, s.txn(ctx, []clientv3.Op{clientv3.OpPut(key, sealed), clientv3.OpDelete("/slipway/v1/berlin/nodes/n3")}))
	}
	load(t, s.Site("berlin"))
}

// TestFullDisk records in a process whose files may not grow any more, as on a
// full disk: everything that was said to be recorded is there afterwards.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "RECORD_TEST_FULL="+dir, "RECORD_TEST_LIMIT=1")
	holdsWhatItSaid(t, cmd, dir, dir, "file too large")
}

// onSmallDisk runs a program on a file system of its own that has little room,
// and copies what is there in the end.
const onSmallDisk = `mount -t tmpfs -o size=24m tmpfs "$1"; RECORD_TEST_FULL="$1" "$0"; cp -a "$1" "$2"`

// TestFullFileSystem is TestFullDisk on a file system that is full, where this
// host lets anybody mount one.
func TestFullFileSystem(t *testing.T) {
	dir, kept := filepath.Join(t.TempDir(), "state"), t.TempDir()
	must(t, os.Mkdir(dir, 0o700))
	if out, err := exec.CommandContext(t.Context(), "unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", dir).CombinedOutput(); err != nil {
		if os.Getenv("CI") != "" {
			t.Logf("no file system of its own, so only TestFullDisk holds this: %v: %s", err, out)
		}
		return
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "-rm", "sh", "-ec", onSmallDisk, os.Args[0], dir, kept)
	holdsWhatItSaid(t, cmd, dir, filepath.Join(kept, "state"), "no space left on device")
}

// holdsWhatItSaid runs a process that records in a directory until it cannot, and
// holds what it said to have recorded against what is there.
func holdsWhatItSaid(t *testing.T, cmd *exec.Cmd, dir, after, full string) {
	t.Helper()
	out, err := cmd.Output()
	must(t, err)
	var last int
	said := strings.TrimSpace(string(out))
	if _, err := fmt.Sscanf(said, "%d:", &last); err != nil || last < 1 {
		t.Fatalf("the process says %q", said)
	}
	for _, want := range []string{full, dir, "restart slipway"} {
		if !strings.Contains(said, want) {
			t.Errorf("the error is %q, want %q in it", said, want)
		}
	}
	snap := load(t, open(t, after).Site("berlin"))
	if got := snap.Nodes["n1"].Recorded.Generation(); got < last {
		t.Errorf("generation %d came back, and %d was recorded", got, last)
	}
	if late, found := snap.Nodes["late"]; found {
		t.Errorf("what was refused after the store had stopped came back: %+v", late)
	}
}

// fillDisk records until it cannot, and says how far it came and why not
// further.
func fillDisk(dir string) error {
	ctx := context.Background()
	signal.Ignore(syscall.SIGXFSZ) // a write then fails with EFBIG
	s, err := Open(ctx, dir, Options{})
	if err != nil {
		return err
	}
	b := s.Site("berlin")
	if os.Getenv("RECORD_TEST_LIMIT") != "" {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}); err != nil {
			return err
		}
	}
	for i := 1; i < 10_000; i++ {
		r := recorded(i)
		r.Last.Reason = strings.Repeat("x", 10_000)
		if err := b.PutNode(ctx, "n1", r); err != nil {
			if term, again := b.Acquire(ctx, "a", 0); again == nil {
				return fmt.Errorf("term %d began on a full disk", term.Number)
			}
			if again := b.PutNode(ctx, "late", recorded(i)); again == nil {
				return errors.New("the full disk took another record")
			}
			fmt.Printf("%d: %v\n", i-1, err)
			return nil
		}
	}
	return errors.New("the disk was never full")
}

// TestClockOfTheMachine holds that records from a time to come, as a clock
// leaves them that is set back, are read as any others, and that removals
// count for no longer than they should.
func TestClockOfTheMachine(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) { // its time begins in the year 2000
		time.Sleep(6 * time.Hour)
		s, err := Open(t.Context(), dir, Options{NoSync: true})
		must(t, err)
		b := s.Site("berlin")
		must(t, b.PutNode(t.Context(), "n1", recorded(1)))
		b.Observe("n1", observation(1, time.Now()))
		must(t, b.Flush(t.Context()))
		must(t, b.Removed(t.Context(), Removal{Node: "gone", When: time.Now()}))
		acquire(t, b, "a")
		must(t, s.Close())
	})
	for _, later := range []time.Duration{0, 5 * time.Hour, 40 * time.Hour} { // six hours back, one back, and a day on
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(later)
			s, err := Open(t.Context(), dir, Options{NoSync: true})
			must(t, err)
			b := s.Site("berlin")
			snap := load(t, b)
			if got := snap.Nodes["n1"]; got.Recorded.Generation() != 1 || got.Observed.Identity.Serial == "" {
				t.Errorf("%v: the record is %+v", later, got)
			}
			if got, want := len(snap.Removals), map[bool]int{true: 1}[later < 24*time.Hour]; got != want {
				t.Errorf("%v: %d removals count, want %d", later, got, want)
			}
			term := acquire(t, b, "b")
			if !term.Holds(time.Now()) {
				t.Errorf("%v: the new term does not hold", later)
			}
			must(t, term.Release(t.Context()))
			must(t, s.Close())
		})
	}
}

// TestMissingDirectory holds that a state directory that is gone is a new one
// and no error: machines tell by their markers what was done to them.
func TestMissingDirectory(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "state"))
	fill(t, s.Site("berlin"), 1)
	must(t, s.Close())
	must(t, os.RemoveAll(s.dir))
	same(t, "nodes", load(t, open(t, s.dir).Site("berlin")).Nodes, map[string]site.Memory{})
}
