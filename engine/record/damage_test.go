package record

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var (
	damageSeed = flag.Uint64("damage.seed", 0, "what damage is drawn from; 0 for another each time")
	damageOnly = flag.String("damage.only", "", "only damage whose name has this in it")
)

// harm is one way to damage a state directory.
type harm struct {
	name string
	do   func(t *testing.T, dir string, r *rand.Rand)
}

// finding is what a process met in a state directory: an error at its start, or the digests of all records before it
// wrote some, after, and at the next start.
type finding struct {
	Dir, Err             string
	Before, After, Again string
	Late                 string // an error after the start
}

// TestDamagedPages damages each page of etcd's database, its log and its snapshot, and the files of large values. A
// daemon on such a state directory either has the same records, now and after more was written, or does not start and
// says why and what to do. It never panics, hangs or loses a record.
func TestDamagedPages(t *testing.T) {
	if os.Getenv("SLIPWAY_PROVE") == "" {
		holdDamage(t, 90)
		return
	}
	holdDamage(t, 0)
}

// holdDamage tries some of all harms, drawn at random, or each of them.
func holdDamage(t *testing.T, some int) {
	seed := *damageSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-damage.seed=%d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	closed, killed, earlier := spoiltStores(t)
	want := examine(t, []string{copyOf(t, closed), copyOf(t, killed)})
	for _, w := range want {
		if w.Err != "" || w.Late != "" || w.Before == "" {
			t.Fatalf("the undamaged records: %+v", w)
		}
	}
	type trial struct {
		harm
		from string
		want finding
	}
	var trials []trial
	for i, from := range []string{closed, killed} {
		for _, h := range slices.Concat(harmsOfDatabase(t, from, []string{earlier, ""}[i]), harmsOfLogs(t, from), harmsOfFiles(t, from)) {
			if strings.Contains(h.name, *damageOnly) {
				trials = append(trials, trial{h, from, want[i]})
			}
		}
	}
	r.Shuffle(len(trials), func(i, j int) { trials[i], trials[j] = trials[j], trials[i] })
	if some > 0 && len(trials) > some {
		trials = trials[:some]
	}
	refused, begun := 0, time.Now()
	for part := range slices.Chunk(trials, 40) {
		var dirs []string
		for _, x := range part {
			dir := copyOf(t, x.from)
			x.do(t, dir, r)
			dirs = append(dirs, dir)
		}
		for i, f := range examine(t, dirs) {
			x := part[i]
			switch {
			case f.Err != "" && strings.Contains(f.Err, dirs[i]) && len(f.Err) < 1000 && !strings.Contains(f.Err, "goroutine") &&
				strings.Contains(f.Err, "damaged") && strings.Contains(f.Err, "restore it from a backup"):
				refused++
			case f.Err != "" || f.Late != "":
				t.Errorf("%s (%s): %s%s", x.name, filepath.Base(x.from), f.Err, f.Late)
			case f.Before != x.want.Before || f.After != x.want.After || f.Again != x.want.Again:
				t.Errorf("%s (%s): other records: %+v, want %+v", x.name, filepath.Base(x.from), f, x.want)
			}
			os.RemoveAll(dirs[i])
		}
	}
	t.Logf("%d damaged, %d refused, %s", len(trials), refused, time.Since(begun).Round(time.Second))
	if refused == 0 && *damageOnly == "" {
		t.Error("no damage was noticed")
	}
}

// spoiltStores are state directories with the same kinds of records: one of a daemon that was stopped, one of a daemon
// that was killed, and the first as it was earlier.
func spoiltStores(t *testing.T) (closed, killed, earlier string) {
	t.Helper()
	base := t.TempDir()
	s := open(t, filepath.Join(base, "closed"))
	fillForDamage(t, s, 0)
	must(t, s.Close())
	earlier = filepath.Join(base, "earlier")
	sparseCopy(t, s.dir, earlier)
	s = open(t, s.dir)
	fillForDamage(t, s, 700)
	must(t, s.Close())
	k := open(t, filepath.Join(base, "live"))
	fillForDamage(t, k, 1100)
	k.etcd.etcd.Server.Backend().ForceCommit() // what a torn log loses is then damage, and not what a crash may lose
	killed = filepath.Join(base, "killed")
	sparseCopy(t, k.dir, killed)
	must(t, k.Close())
	return s.dir, killed, earlier
}

// fillForDamage records what makes all kinds of pages: branches, leaves, large values, and pages that are free again.
func fillForDamage(t *testing.T, s *Store, more int) {
	t.Helper()
	b := s.Site("berlin")
	fill(t, b, 120)
	for i := range more {
		must(t, b.PutNode(t.Context(), fmt.Sprintf("n%05d", i%120), recorded(i+2)))
	}
	must(t, b.DeleteNode(t.Context(), "n00007"))
	must(t, b.Consume(t.Context(), "n00003", accountOf("n00003"), recorded(1)))
	must(t, b.PutInventory(t.Context(), "n00001", machineOf(2)))
	must(t, b.PutMessage(t.Context(), "large", bytes.Repeat([]byte("large value "), 2000)))
	fill(t, s.Site("oslo"), 5)
}

// examine has processes of their own open state directories, in order. One that dies is another's to go on after.
func examine(t *testing.T, dirs []string) (all []finding) {
	t.Helper()
	for len(all) < len(dirs) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), "RECORD_TEST_EXAMINE="+strings.Join(dirs[len(all):], "\n"))
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.Output()
		cancel()
		for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
			var f finding
			must(t, json.Unmarshal(lines.Bytes(), &f))
			all = append(all, f)
		}
		if err != nil && len(all) < len(dirs) {
			all = append(all, finding{Late: fmt.Sprintf("the process died: %v\n%.1500s", err, said.String())})
		}
	}
	return all
}

// examineAll is the process that examine starts.
func examineAll(dirs []string) {
	for _, dir := range dirs {
		done := time.AfterFunc(time.Minute, func() {
			debug.SetTraceback("all")
			panic("it hangs")
		})
		text, err := json.Marshal(examineOne(context.Background(), dir))
		if err != nil {
			panic(err)
		}
		done.Stop()
		fmt.Println(string(text))
	}
}

func examineOne(ctx context.Context, dir string) finding {
	f := finding{Dir: dir}
	opts := quick
	opts.patience = 10 * time.Second
	s, err := Open(ctx, dir, opts)
	if err != nil {
		f.Err = err.Error()
		return f
	}
	defer func() { s.Close() }()
	if f.Before, err = everythingIn(ctx, s); err != nil {
		f.Err = err.Error()
		return f
	}
	late := func() error {
		b := s.Site("berlin")
		if _, err := b.Load(ctx); err != nil {
			return err
		}
		for i := range 200 {
			if err := b.PutNode(ctx, fmt.Sprintf("n%05d", i%60), recorded(5000+i)); err != nil {
				return err
			}
		}
		if err := b.DeleteNode(ctx, "n00011"); err != nil {
			return err
		}
		if err := s.makeRoom(ctx); err != nil { // compacts and defragments
			return err
		}
		if err := b.PutMessage(ctx, "late", bytes.Repeat([]byte("x"), 9000)); err != nil {
			return err
		}
		if f.After, err = everythingIn(ctx, s); err != nil {
			return err
		}
		s.Close()
		if s, err = Open(ctx, dir, opts); err != nil {
			return err
		}
		f.Again, err = everythingIn(ctx, s)
		return err
	}
	if err := late(); err != nil {
		f.Late = err.Error()
	}
	return f
}

// everythingIn is a digest of all keys and values, and of the values that are files.
func everythingIn(ctx context.Context, s *Store) (string, error) {
	for _, name := range []string{"berlin", "oslo"} {
		if _, err := s.Site(name).Load(ctx); err != nil {
			return "", fmt.Errorf("load %s: %w", name, err)
		}
	}
	r, err := s.kv.Get(ctx, "\x00", clientv3.WithFromKey())
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, name := range []string{"berlin", "oslo"} {
		messages, err := s.Site(name).Messages(ctx)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%q\n", messages)
		for i := range 120 {
			inv, err := s.Site(name).Inventory(ctx, fmt.Sprintf("n%05d", i))
			if err != nil {
				return "", err
			}
			fmt.Fprintf(h, "%v\n", inv)
		}
	}
	for _, kv := range r.Kvs {
		fmt.Fprintf(h, "%d %s %d %s\n", len(kv.Key), kv.Key, len(kv.Value), kv.Value)
	}
	return fmt.Sprintf("%d keys %x", len(r.Kvs), h.Sum(nil)[:8]), nil
}

const testPage = 4096

// harmsOfDatabase damages each page of the database.
func harmsOfDatabase(t *testing.T, from, earlier string) (all []harm) {
	t.Helper()
	path := filepath.Join("etcd", "member", "snap", "db")
	text, err := os.ReadFile(filepath.Join(from, path))
	must(t, err)
	var old []byte
	if earlier != "" {
		old, err = os.ReadFile(filepath.Join(earlier, path))
		must(t, err)
	}
	pages := len(text) / testPage
	for i := range pages {
		page := func(name string, change func(p []byte, r *rand.Rand)) {
			all = append(all, harm{fmt.Sprintf("page %d (%s) %s", i, kindOfPage(text, i), name), func(t *testing.T, dir string, r *rand.Rand) {
				p := slices.Clone(text[i*testPage : (i+1)*testPage])
				change(p, r)
				patch(t, filepath.Join(dir, path), int64(i*testPage), p)
			}})
		}
		page("zeroed", func(p []byte, _ *rand.Rand) { clear(p) })
		page("random", func(p []byte, r *rand.Rand) { randomize(p, r) })
		page("half random", func(p []byte, r *rand.Rand) { randomize(p[testPage/2:], r) })
		page("sector zeroed", func(p []byte, r *rand.Rand) { at := 512 * r.IntN(8); clear(p[at : at+512]) })
		page("bits of the header flipped", func(p []byte, r *rand.Rand) { p[r.IntN(16)] ^= 1 << r.IntN(8) })
		page("bits of an element flipped", func(p []byte, r *rand.Rand) { p[16+r.IntN(64)] ^= 1 << r.IntN(8) })
		page("a bit flipped", func(p []byte, r *rand.Rand) { p[r.IntN(testPage)] ^= 1 << r.IntN(8) })
		page("another page", func(p []byte, r *rand.Rand) { copyPage(p, text, r.IntN(pages)) })
		page("another page with its number", func(p []byte, r *rand.Rand) {
			copyPage(p, text, r.IntN(pages))
			binary.NativeEndian.PutUint64(p, uint64(i))
		})
		if (i+1)*testPage <= len(old) && !bytes.Equal(old[i*testPage:(i+1)*testPage], text[i*testPage:(i+1)*testPage]) {
			page("as it was earlier", func(p []byte, _ *rand.Rand) { copyPage(p, old, i) })
		}
	}
	for _, at := range []int{0, 1, testPage, 3 * testPage, len(text) / 2, len(text) - testPage, len(text) - 1} {
		all = append(all, harm{fmt.Sprintf("database cut at %d", at), func(t *testing.T, dir string, _ *rand.Rand) {
			must(t, os.Truncate(filepath.Join(dir, path), int64(at)))
		}})
	}
	return append(all, harm{"database missing", func(t *testing.T, dir string, _ *rand.Rand) { must(t, os.Remove(filepath.Join(dir, path))) }})
}

// harmsOfLogs damages each sector of etcd's log, and its snapshots.
func harmsOfLogs(t *testing.T, from string) (all []harm) {
	t.Helper()
	paths, err := fs.Glob(os.DirFS(from), "etcd/member/*/*")
	must(t, err)
	for _, path := range paths {
		if !strings.HasSuffix(path, ".wal") && !strings.HasSuffix(path, ".snap") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(from, path))
		must(t, err)
		used := len(bytes.TrimRight(text, "\x00"))
		short := filepath.Base(path)[len(filepath.Base(path))-20:]
		for at := 0; at < used; at += max(512, used/48/512*512) {
			sector := func(name string, change func(p []byte, r *rand.Rand)) {
				all = append(all, harm{fmt.Sprintf("%s at %d of %d %s", short, at, used, name), func(t *testing.T, dir string, r *rand.Rand) {
					p := slices.Clone(text[at:min(at+512, len(text))])
					change(p, r)
					patch(t, filepath.Join(dir, path), int64(at), p)
				}})
			}
			sector("zeroed", func(p []byte, _ *rand.Rand) { clear(p) })
			sector("random", func(p []byte, r *rand.Rand) { randomize(p, r) })
			sector("a bit flipped", func(p []byte, r *rand.Rand) { p[r.IntN(len(p))] ^= 1 << r.IntN(8) })
		}
		for _, at := range []int{0, 100, used / 2, used - 1} {
			all = append(all, harm{fmt.Sprintf("%s cut at %d of %d", short, at, used), func(t *testing.T, dir string, _ *rand.Rand) {
				must(t, os.Truncate(filepath.Join(dir, path), int64(at)))
			}})
		}
		all = append(all, harm{short + " missing", func(t *testing.T, dir string, _ *rand.Rand) { must(t, os.Remove(filepath.Join(dir, path))) }})
	}
	return all
}

// harmsOfFiles damages the values that are files.
func harmsOfFiles(t *testing.T, from string) (all []harm) {
	t.Helper()
	paths, err := fs.Glob(os.DirFS(from), "files/*.gz")
	must(t, err)
	for _, path := range paths {
		name := path[:20]
		change := func(how string, do func(text []byte, r *rand.Rand) []byte) {
			all = append(all, harm{name + " " + how, func(t *testing.T, dir string, r *rand.Rand) {
				text, err := os.ReadFile(filepath.Join(dir, path))
				must(t, err)
				must(t, os.WriteFile(filepath.Join(dir, path), do(text, r), 0o600))
			}})
		}
		change("zeroed", func(text []byte, _ *rand.Rand) []byte { return make([]byte, len(text)) })
		change("emptied", func([]byte, *rand.Rand) []byte { return nil })
		change("cut", func(text []byte, r *rand.Rand) []byte { return text[:r.IntN(len(text))] })
		change("a bit flipped", func(text []byte, r *rand.Rand) []byte { text[r.IntN(len(text))] ^= 1 << r.IntN(8); return text })
		change("random", func(text []byte, r *rand.Rand) []byte { randomize(text, r); return text })
		all = append(all, harm{name + " missing", func(t *testing.T, dir string, _ *rand.Rand) { must(t, os.Remove(filepath.Join(dir, path))) }})
	}
	return all
}

func kindOfPage(text []byte, i int) string {
	kinds := map[uint16]string{1: "branch", 2: "leaf", 4: "meta", 16: "freelist"}
	if kind := kinds[binary.NativeEndian.Uint16(text[i*testPage+8:])]; kind != "" {
		return kind
	}
	return "other"
}

func randomize(p []byte, r *rand.Rand) {
	for i := range p {
		p[i] = byte(r.Uint32())
	}
}

func copyPage(p, text []byte, i int) { copy(p, text[i*testPage:(i+1)*testPage]) }

func patch(t *testing.T, path string, at int64, with []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt(with, at)
	must(t, errors.Join(err, f.Close()))
}

func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "state")
	sparseCopy(t, dir, to)
	return to
}

// sparseCopy copies a folder, and of its files what is not zero.
func sparseCopy(t *testing.T, from, to string) {
	t.Helper()
	must(t, filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		name, rerr := filepath.Rel(from, path)
		if err = errors.Join(err, rerr); err != nil {
			return err
		}
		if d.IsDir() {
			return os.Mkdir(filepath.Join(to, name), 0o700)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := os.OpenFile(filepath.Join(to, name), os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		used := len(bytes.TrimRight(text, "\x00"))
		_, err = f.Write(text[:used])
		return errors.Join(err, f.Truncate(int64(len(text))), f.Close())
	}))
}

// TestKilledRecordsAreNotDamaged kills a process at any moment of writing, deleting, compacting and making room, again
// and again on the same records. What it leaves is never taken for damage.
func TestKilledRecordsAreNotDamaged(t *testing.T) {
	rounds := 15
	if os.Getenv("SLIPWAY_PROVE") != "" {
		rounds = 500
	}
	seed := *damageSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-damage.seed=%d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	dir := t.TempDir()
	for round := range rounds {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "RECORD_TEST_MIXED="+dir, fmt.Sprintf("RECORD_TEST_SEED=%d", r.Uint32()))
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for left := 1 + r.IntN(600); left > 0 && lines.Scan(); left-- {
			if strings.HasPrefix(lines.Text(), "error") {
				t.Fatalf("round %d: %s", round, lines.Text())
			}
		}
		must(t, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
		if err := guarded(func() error { return checkFiles(filepath.Join(dir, "etcd")) }); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	load(t, open(t, dir).Site("berlin"))
}

// mixedWriter does all that is done to records until it is killed.
func mixedWriter(dir string) {
	ctx := context.Background()
	seed, err := strconv.ParseUint(os.Getenv("RECORD_TEST_SEED"), 10, 64)
	s, oerr := Open(ctx, dir, quick)
	if err := errors.Join(err, oerr); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	r := rand.New(rand.NewPCG(seed, 3))
	b := s.Site("berlin")
	for n := 0; ; n++ {
		node := fmt.Sprintf("n%d", r.IntN(40))
		var err error
		switch r.IntN(40) {
		case 0:
			_, err = b.Acquire(ctx, "me", 0)
		case 1:
			err = b.Accept(ctx, recordedRevision(n), designOf(1+n%3))
		case 2:
			if now, gerr := s.kv.Get(ctx, versionKey); gerr == nil {
				_, err = s.kv.Compact(ctx, now.Header.Revision-int64(r.IntN(5)))
			}
			if errors.Is(err, rpctypes.ErrCompacted) {
				err = nil
			}
		case 3:
			if n%5 == 0 {
				err = s.makeRoom(ctx)
			}
		case 4, 5, 6, 7:
			err = b.DeleteNode(ctx, node)
		case 8:
			err = b.PutMessage(ctx, "m", bytes.Repeat([]byte("m"), r.IntN(20000)))
		case 9:
			b.Observe(node, observation(n, day))
			err = b.Flush(ctx)
		default:
			err = b.PutNode(ctx, node, recorded(n))
		}
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		fmt.Println(n)
	}
}

// TestInterruptedFirstStart holds that what a first start leaves that is killed is no damage.
func TestInterruptedFirstStart(t *testing.T) {
	made := func(path string) error {
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true})
		if err != nil {
			return err
		}
		return db.Close()
	}
	for name, leave := range map[string]func(member string) error{
		"folders":           func(string) error { return nil },
		"an empty database": func(member string) error { return os.WriteFile(filepath.Join(member, "snap", "db"), nil, 0o600) },
		"a database":        func(member string) error { return made(filepath.Join(member, "snap", "db")) },
		"half a log": func(member string) error {
			return errors.Join(made(filepath.Join(member, "snap", "db")), os.Mkdir(filepath.Join(member, "wal.tmp"), 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			member := filepath.Join(dir, "etcd", "member")
			must(t, os.MkdirAll(filepath.Join(member, "snap"), 0o700))
			must(t, leave(member))
			must(t, open(t, dir).Site("berlin").PutNode(t.Context(), "n1", recorded(1)))
		})
	}
}

// BenchmarkVerify verifies a database of about 200 MB.
func BenchmarkVerify(b *testing.B) {
	path := filepath.Join(b.TempDir(), "db")
	writes := 400_000
	if n, err := strconv.Atoi(os.Getenv("RECORD_BENCH_WRITES")); err == nil {
		writes = n
	}
	fillDatabase(b, path, writes)
	info, err := os.Stat(path)
	must(b, err)
	b.SetBytes(info.Size())
	for b.Loop() {
		is := backendState{last: 1, versions: map[string]*keyVersion{}}
		if err := verifyDatabase(path, is.take); err != nil || is.missing > 0 || len(is.versions) != min(writes, 20_000) {
			b.Fatalf("%v, %d is missing, %d keys", err, is.missing, len(is.versions))
		}
	}
}

// fillDatabase makes a database as etcd does, without its log.
func fillDatabase(t testing.TB, path string, writes int) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true, NoSync: true})
	must(t, err)
	defer db.Close()
	value := bytes.Repeat([]byte("x"), 350)
	for from := 0; from < writes; from += 50_000 {
		must(t, db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte("key"))
			if err != nil {
				return err
			}
			b.FillPercent = 0.9
			for i := from; i < min(writes, from+50_000); i++ {
				kv := mvccpb.KeyValue{Key: fmt.Appendf(nil, "/slipway/v1/berlin/nodes/n%05d", i%20_000), Value: value, ModRevision: int64(i + 2),
					CreateRevision: int64(i%20_000 + 2), Version: int64(i/20_000 + 1)}
				text, err := kv.Marshal()
				if err != nil {
					return err
				}
				key := append(binary.BigEndian.AppendUint64(nil, uint64(i+2)), '_')
				if err := b.Put(binary.BigEndian.AppendUint64(key, 0), text); err != nil {
					return err
				}
			}
			return nil
		}))
	}
}
