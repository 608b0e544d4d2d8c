package record

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/slipway-gitops/slipway/engine/record/recordtest"
	"github.com/slipway-gitops/slipway/engine/site"
)

func contextCanceled(t *testing.T) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx, cancel
}

// refused opens a directory and wants an error that says all of what.
func refused(t *testing.T, dir string, what ...string) {
	t.Helper()
	s, err := Open(t.Context(), dir, quick)
	if err == nil {
		s.Close()
		t.Fatalf("%s was opened", dir)
	}
	for _, w := range append(what, dir) {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

// TestReadsThatAreTooEarly holds that records are not refused because etcd has
// only just become its own leader, and that what is wrong for longer is told.
func TestReadsThatAreTooEarly(t *testing.T) {
	corrupt := errors.New("corrupt")
	for name, c := range map[string]struct {
		answers []error
		failed  error // of the member meanwhile
		want    error
	}{
		"at once":        {answers: []error{nil}},
		"leader changed": {answers: []error{etcderrors.ErrLeaderChanged, etcderrors.ErrTimeout, nil}},
		"another error":  {answers: []error{etcderrors.ErrLeaderChanged, etcderrors.ErrCorrupt}, want: etcderrors.ErrCorrupt},
		"etcd fails":     {failed: corrupt, want: corrupt},
		"never":          {want: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &member{}
				m.ctx, m.fail = context.WithCancelCause(t.Context())
				defer m.fail(errClosed)
				ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
				defer cancel()
				answers := c.answers
				err := m.settle(ctx, func(ctx context.Context) error {
					if len(answers) == 0 { // a read of a dead etcd hangs
						if c.failed != nil {
							m.fail(c.failed)
						}
						<-ctx.Done()
						return ctx.Err()
					}
					answer := answers[0]
					answers = answers[1:]
					return answer
				})
				if !errors.Is(err, c.want) || len(answers) > 0 {
					t.Errorf("got %v with %d answers left, want %v", err, len(answers), c.want)
				}
			})
		})
	}
}

func TestOneProcessAtATime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := open(t, dir)
	refused(t, dir, "process "+strconv.Itoa(os.Getpid()), "holds this state directory", "stop it first")
	must(t, s.Close())
	must(t, open(t, dir).Close())
	info, err := os.Stat(dir)
	must(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("the state directory has mode %v", info.Mode())
	}
}

func TestNoPermission(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	must(t, os.Mkdir(dir, 0o500))
	if os.Geteuid() == 0 { // root may write everywhere, so be nobody on this thread
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		must(t, unix.Setfsuid(65534))
		defer unix.Setfsuid(0)
	}
	refused(t, dir, "permission denied", "must be writable by user id")
}

func TestNotADirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	must(t, os.WriteFile(path, nil, 0o600))
	refused(t, path, "not a directory")
}

func TestNewerVersion(t *testing.T) {
	s := open(t, t.TempDir())
	_, err := s.kv.Put(t.Context(), versionKey, version(1))
	must(t, err)
	must(t, s.Close())
	refused(t, s.dir, "version "+version(1), "reads up to "+version(0), "run the newer slipway")
}

// TestDamage spoils the state directory in ways that disks and people do.
func TestDamage(t *testing.T) {
	spoil := func(path string, from int64, with string) {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		must(t, err)
		defer f.Close()
		_, err = f.WriteAt([]byte(with), from)
		must(t, err)
	}
	for name, damage := range map[string]func(db, wal string){
		"database overwritten": func(db, _ string) { spoil(db, 0, strings.Repeat("garbage!", 2048)) },
		"database pages":       func(db, _ string) { spoil(db, 8192, strings.Repeat("\xff", 40960)) },
		"database cut off":     func(db, _ string) { must(t, os.Truncate(db, 8192)) },
		"database missing":     func(db, _ string) { must(t, os.Remove(db)) },
		"database emptied":     func(db, _ string) { must(t, os.WriteFile(db, []byte("x"), 0o600)) },
		"log overwritten":      func(_, wal string) { spoil(wal, 64, strings.Repeat("garbage!", 512)) },
		"log missing":          func(_, wal string) { must(t, os.Remove(wal)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir())
			fill(t, s.Site("berlin"), 1200) // past a snapshot of etcd's log
			must(t, s.Close())
			logs, err := filepath.Glob(filepath.Join(s.dir, "etcd/member/wal/*.wal"))
			must(t, err)
			damage(filepath.Join(s.dir, "etcd/member/snap/db"), logs[0])
			refused(t, s.dir, "damaged", "restore it from a backup")
		})
	}
}

func TestDamagedDesign(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"changed": func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) },
		"missing": os.Remove,
	} {
		s := open(t, t.TempDir())
		b := s.Site("berlin")
		fill(t, b, 1)
		path := b.filePath(b.used)
		must(t, damage(path))
		_, err := s.Site("berlin").Load(t.Context())
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "restore it") {
			t.Errorf("%s: got %v, want the path and what to do", name, err)
		}
	}
}

func TestOpenWithoutTime(t *testing.T) {
	ctx, cancel := contextCanceled(t)
	defer cancel()
	dir := t.TempDir()
	if _, err := Open(ctx, dir, quick); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}

// TestStoreFails holds that a store that cannot go on, as with a full disk,
// ends requests with a word on why, and ends the process neither then nor when
// it is closed.
func TestStoreFails(t *testing.T) {
	s := open(t, t.TempDir())
	b := s.Site("berlin")
	must(t, b.PutNode(t.Context(), "n1", recorded(1)))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.etcd.logger(slog.New(slog.DiscardHandler)).Fatal("save entries", zap.Error(unix.ENOSPC))
	}()
	<-ended
	err := b.PutNode(t.Context(), "n1", recorded(2))
	for _, want := range []string{"no space left", s.dir, "restart"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	must(t, s.Close())
}

// TestMain lets the test binary be the daemon that is killed.
func TestMain(m *testing.M) {
	recordtest.RunMember()
	if dirs := os.Getenv("RECORD_TEST_EXAMINE"); dirs != "" {
		examineAll(strings.Split(dirs, "\n"))
		os.Exit(0)
	}
	if dir := os.Getenv("RECORD_TEST_MIXED"); dir != "" {
		mixedWriter(dir)
	}
	if dir := os.Getenv("RECORD_TEST_WRITER"); dir != "" {
		writer(dir)
	}
	if dir := os.Getenv("RECORD_TEST_FULL"); dir != "" {
		if err := fillDisk(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// writer records one thing after another, with every fsync, and says what has
// been recorded, until it is killed.
func writer(dir string) {
	ctx := context.Background()
	s, err := Open(ctx, dir, Options{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	b := s.Site("berlin")
	if _, err := b.Load(ctx); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for i := 0; ; i++ {
		if err := errors.Join(
			b.PutNode(ctx, fmt.Sprintf("n%d", i%7), recorded(i)),
			b.Accept(ctx, recordedRevision(i), designOf(1+i%3)),
		); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(i)
	}
}

func recordedRevision(i int) site.Revision { return site.Revision{ID: fmt.Sprintf("%06d", i)} }

func TestKill(t *testing.T) {
	dir := t.TempDir()
	for _, after := range []int{1, 3, 20, 60} {
		last := kill(t, dir, after)
		s := open(t, dir)
		snap := load(t, s.Site("berlin"))
		for i := max(0, last-6); i <= last; i++ {
			if got := snap.Nodes[fmt.Sprintf("n%d", i%7)].Recorded.Generation(); got < i {
				t.Errorf("killed after %d: n%d is at %d, and %d was recorded", last, i%7, got, i)
			}
		}
		if id, want := snap.Accepted.Revision.ID, recordedRevision(last).ID; id < want {
			t.Errorf("revision %s, and %s was recorded", id, want)
		}
		if n := len(files(t, s)); n != 1 {
			t.Errorf("%d design files after loading, want 1", n)
		}
		must(t, s.Close())
	}
}

// kill runs a writer, kills it after so many records, and gives the last one
// that it said was recorded.
func kill(t *testing.T, dir string, after int) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "RECORD_TEST_WRITER="+dir)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	lines, last := bufio.NewScanner(out), -1
	for lines.Scan() {
		if last, err = strconv.Atoi(lines.Text()); err != nil {
			t.Fatalf("the writer says %s", lines.Text())
		}
		if last == 0 {
			refused(t, dir, "process "+strconv.Itoa(cmd.Process.Pid))
		}
		if last == after {
			must(t, cmd.Process.Kill())
		}
	}
	if err := cmd.Wait(); err == nil || last < after {
		t.Fatalf("the writer ended at %d: %v", last, err)
	}
	return last
}
