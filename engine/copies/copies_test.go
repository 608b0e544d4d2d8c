package copies

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/record"
)

// board is records that the daemons of a test share. One of them leads; writes of others that believe they do are
// refused, as etcd's fence does.
type board struct {
	mu      sync.Mutex
	shelves record.Shelves
	leader  *desk
	members map[string]bool // nil if nobody says who is one
	cut     map[*desk]error
	told    chan struct{} // gets a value after each write of a daemon of itself; nil for none
	put     func() error  // called before artifacts are recorded, and may refuse that; nil for nothing
}

func newBoard() *board {
	return &board{shelves: record.Shelves{Artifacts: map[string]record.Artifact{}, Holders: map[string]record.Holder{}}, cut: map[*desk]error{}}
}

// desk is one daemon's way to the board.
type desk struct{ *board }

func (d *desk) Read(context.Context) (record.Shelves, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := record.Shelves{Artifacts: maps.Clone(d.shelves.Artifacts), Holders: map[string]record.Holder{}}
	for name, h := range d.shelves.Holders {
		if d.members != nil && !d.members[name] {
			s.Gone = append(s.Gone, name)
			continue
		}
		h.Has = maps.Clone(h.Has)
		s.Holders[name] = h
	}
	return s, d.cut[d]
}

func (d *desk) Tell(_ context.Context, h record.Holder, has, lacks []string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.cut[d]; err != nil {
		return err
	}
	h.Has = maps.Clone(d.shelves.Holders[h.Name].Has)
	if h.Has == nil {
		h.Has = map[string]bool{}
	}
	for _, digest := range has {
		h.Has[digest] = true
	}
	for _, digest := range lacks {
		delete(h.Has, digest)
	}
	d.shelves.Holders[h.Name] = h
	if d.told != nil {
		signal(d.told)
	}
	return nil
}

func (d *desk) IsDaemon(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.members == nil || d.members[name]
}

// lead does something as the daemon that leads.
func (d *desk) lead(do func(record.Shelves)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.cut[d]; err != nil {
		return err
	}
	if d.leader != d {
		return record.ErrLost
	}
	do(d.shelves)
	return nil
}

func (d *desk) PutArtifacts(_ context.Context, all ...record.Artifact) error {
	if d.put != nil {
		if err := d.put(); err != nil {
			return err
		}
	}
	return d.lead(func(s record.Shelves) {
		for _, a := range all {
			s.Artifacts[a.SHA256] = a
		}
	})
}

func (d *desk) DropArtifacts(_ context.Context, digests ...string) error {
	return d.lead(func(s record.Shelves) {
		for _, digest := range digests {
			delete(s.Artifacts, digest)
		}
	})
}

func (d *desk) DropHolders(_ context.Context, names ...string) error {
	return d.lead(func(s record.Shelves) {
		for _, name := range names {
			delete(s.Holders, name)
		}
	})
}

// unplug cuts a daemon off from the records, or ends that.
func (d *desk) unplug(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cut[d] = err
}

// node is a daemon of a test. Nothing runs by itself but its server.
type node struct {
	*Service
	t      *testing.T
	desk   *desk
	dir    string
	needed map[string]bool
}

func (b *board) node(t *testing.T, name string, space int64) *node {
	t.Helper()
	return b.nodeAt(t, name, space, t.TempDir())
}

func (b *board) nodeAt(t *testing.T, name string, space int64, dir string) *node {
	t.Helper()
	n := &node{t: t, desk: &desk{b}, dir: dir, needed: map[string]bool{}}
	files, err := artifact.OpenService(artifact.Config{
		Dir: dir, Space: space, Named: func() (map[string]bool, error) { return n.Named() },
		Forget: func(ctx context.Context, files []artifact.Info) error { return n.Forget(ctx, files) },
	})
	must(t, err)
	t.Cleanup(func() { files.Close() })
	n.Service, err = New(Config{Name: name, Host: "host " + name, Listen: "127.0.0.1:0", Records: n.desk, Files: files, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() { n.serve(ctx) })
	t.Cleanup(func() { cancel(); serving.Wait() })
	<-n.poked // it listens
	return n
}

// pair are two daemons, of which the first leads.
func pair(t *testing.T) (b *board, one, two *node) {
	t.Helper()
	b = newBoard()
	one, two = b.node(t, "one", 0), b.node(t, "two", 0)
	one.leads()
	return b, one, two
}

// lacks is a daemon that is about to copy the artifact x.iso.
func (b *board) lacks(t *testing.T, digest string, size int) (*node, record.Artifact) {
	t.Helper()
	b.shelves.Artifacts[digest] = record.Artifact{SHA256: digest, Name: "x.iso", Size: int64(size)}
	n := b.node(t, "n", 0)
	n.sync(t.Context())
	a, _ := n.next()
	return n, a
}

// leads makes this daemon the one that leads.
func (n *node) leads() {
	n.desk.mu.Lock()
	n.desk.leader = n.desk
	n.desk.mu.Unlock()
	n.Lead(n.desk, func() (map[string]bool, error) { return maps.Clone(n.needed), nil })
}

func (n *node) add(name string, content []byte) string {
	n.t.Helper()
	i, err := n.Keeper().AddFile(n.t.Context(), bytes.NewReader(content), 0, "", name, nil)
	must(n.t, err)
	return i.SHA256
}

// works syncs, and copies what is due.
func (n *node) works() {
	n.sync(n.t.Context())
	for {
		a, _ := n.next()
		if a.SHA256 == "" {
			break
		}
		n.copy(n.t.Context(), a)
	}
	n.sync(n.t.Context())
}

// round lets all daemons work twice, so that each knows what the others have done.
func round(all ...*node) {
	for range 2 {
		for _, n := range all {
			n.sync(n.t.Context())
		}
	}
	for range 2 {
		for _, n := range all {
			n.works()
		}
	}
}

func (n *node) has(digest string) bool {
	_, ok := n.Files.Get(digest)
	return ok
}

func (n *node) content(digest string) []byte {
	n.t.Helper()
	f, _, err := n.Files.Content(digest)
	must(n.t, err)
	defer f.Close()
	text, err := io.ReadAll(f)
	must(n.t, err)
	return text
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func bytesOf(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// What is added on the leader is on every daemon, byte for byte, and each says who has it.
func TestEveryDaemonGetsWhatIsAdded(t *testing.T) {
	b := newBoard()
	one, two, three := b.node(t, "one", 0), b.node(t, "two", 0), b.node(t, "three", 0)
	one.leads()
	round(one, two, three)
	content := bytesOf(300_000)
	digest := one.add("debian12.iso", content)
	round(one, two, three)
	for _, n := range []*node{one, two, three} {
		if !n.has(digest) || !bytes.Equal(n.content(digest), content) {
			t.Fatalf("%s lacks it", n.Host)
		}
		l, err := n.Keeper().Listing(t.Context())
		must(t, err)
		if c := l.Files[0].Copies; len(l.Files) != 1 || l.Files[0].Name != "debian12.iso" || len(c.On) != 3 || c.Of != 3 || !c.Kept {
			t.Errorf("%s lists %+v %+v", n.Host, l.Files, c)
		}
	}
	if notes := one.Notes(); notes != nil {
		t.Errorf("notes: %q", notes)
	}
}

// What is in a store and was not added while a daemon led is not spread: it may have been collected long ago. Once
// the design names it, it is.
func TestAFileThatNobodyRecordedStaysWhereItIs(t *testing.T) {
	b := newBoard()
	one, two := b.node(t, "one", 0), b.node(t, "two", 0)
	i, err := one.Files.AddFile(t.Context(), strings.NewReader("left over"), 0, "", "old.iso", nil)
	must(t, err)
	one.leads()
	round(one, two)
	if two.has(i.SHA256) || !one.has(i.SHA256) {
		t.Error("it was spread or removed")
	}
	one.needed[i.SHA256] = true
	round(one, two)
	if !two.has(i.SHA256) {
		t.Error("it is named and not copied")
	}
}

// A leader gets what it lacks from a follower, also a file that only the design names and no record yet, before it
// asks the design's server.
func TestALeaderFetchesFromAnotherDaemonFirst(t *testing.T) {
	b := newBoard()
	one, two := b.node(t, "one", 0), b.node(t, "two", 0)
	content := bytesOf(100_000)
	i, err := two.Files.AddFile(t.Context(), bytes.NewReader(content), 0, "", "x.iso", nil)
	must(t, err)
	one.leads()
	one.needed[i.SHA256] = true
	round(two, one)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- one.Files.Run(ctx) }()
	one.Files.Want([]artifact.File{{SHA256: i.SHA256, URL: "http://127.0.0.1:1/x.iso", For: "image x"}})
	for range one.Files.Changes() {
		if one.Files.State(i.SHA256).Ready {
			break
		}
		if why := one.Files.State(i.SHA256).Why; why != "" {
			t.Fatal(why)
		}
	}
	cancel()
	must(t, <-done)
	if !bytes.Equal(one.content(i.SHA256), content) {
		t.Error("it is another file")
	}
	round(one, two)
	if l, _ := one.Keeper().Listing(t.Context()); l.Files[0].Name != "x.iso" || !l.Files[0].Copies.Kept {
		t.Errorf("listed as %+v", l.Files[0])
	}
}

// If nobody that runs has it, and its server fails too, the sentence says who has it and does not answer.
func TestTheHostThatIsDownIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := view{own: "one", isDaemon: func(string) bool { return true }}
		digest := strings.Repeat("a", 64)
		s := record.Shelves{
			Artifacts: map[string]record.Artifact{digest: {SHA256: digest, Name: "x", Size: 3}},
			Holders:   map[string]record.Holder{"two": {Host: "host two", Address: "127.0.0.1:9", Has: map[string]bool{digest: true}}},
		}
		v.take(s, time.Now())
		f := artifact.File{SHA256: digest, For: "image x"}
		if all := v.With(f); len(all) != 1 || all[0].Copy.From != "host two" || all[0].Copy.Size != 3 || v.Silent(digest) != nil {
			t.Errorf("one that was just seen: %+v", all)
		}
		for range 30 { // its record does not change, and its clock says nothing
			time.Sleep(syncEvery)
			v.take(s, time.Now())
		}
		if all := v.With(f); all != nil || !slices.Equal(v.Silent(digest), []string{"host two"}) {
			t.Errorf("one that is silent: %+v %v", all, v.Silent(digest))
		}
		if len(v.keys()) != 0 {
			t.Error("its key is accepted")
		}
		h := s.Holders["two"]
		h.Beat, h.Time = 7, time.Now().Add(-100*24*time.Hour)
		s.Holders["two"] = h
		v.take(s, time.Now())
		if len(v.With(f)) != 1 {
			t.Error("one with a wrong clock is not asked")
		}
		time.Sleep(silentAfter)
		if v.With(f) != nil || len(v.keys()) != 0 {
			t.Error("what was read long ago is believed")
		}
	})
}

// What is collected is removed everywhere and is not brought back: not by a daemon that was off meanwhile, and not by
// one that leads next.
func TestWhatIsCollectedStaysAway(t *testing.T) {
	b := newBoard()
	one, two, off := b.node(t, "one", 0), b.node(t, "two", 0), b.node(t, "off", 0)
	one.leads()
	kept, gone := one.add("kept.iso", bytesOf(1000)), one.add("gone.iso", bytesOf(1000))
	one.needed[kept] = true
	round(one, two, off)
	if !off.has(kept) || !off.has(gone) {
		t.Fatal("not copied")
	}
	would, err := one.Keeper().Collect(t.Context(), 0, true)
	must(t, err)
	if len(would) != 1 || would[0].SHA256 != gone || !one.has(gone) {
		t.Errorf("would remove %+v", would)
	}
	did, err := one.Keeper().Collect(t.Context(), 0, false)
	must(t, err)
	if len(did) != 1 || did[0].SHA256 != gone || one.has(gone) {
		t.Errorf("removed %+v", did)
	}
	round(one, two)
	if two.has(gone) || !two.has(kept) || one.has(gone) {
		t.Error("after it was collected")
	}
	if _, still := b.shelves.Artifacts[gone]; !still {
		t.Fatal("that it was collected is forgotten while one daemon has it")
	}
	two.leads() // it is on the third one alone, which comes back
	two.needed[kept] = true
	round(off, two, one)
	if off.has(gone) || one.has(gone) || two.has(gone) || !off.has(kept) {
		t.Error("it came back")
	}
	a := b.shelves.Artifacts[gone]
	a.Removed = a.Removed.Add(-forgottenAfter)
	b.shelves.Artifacts[gone] = a
	round(two)
	if a, still := b.shelves.Artifacts[gone]; still {
		t.Errorf("nobody has it, and its record stays: %+v", a)
	}
}

// A daemon that had just got a file, and was cut off from the records before it could say so, removes it when it is
// back. Nobody else would: the one that leads does not know of it.
func TestCollectedBeforeADaemonHasSaidThatItHasIt(t *testing.T) {
	b := newBoard()
	one, cut := b.node(t, "one", 0), b.node(t, "cut", 0)
	one.leads()
	gone := one.add("gone.iso", bytesOf(1000))
	one.sync(t.Context())
	cut.sync(t.Context())
	one.sync(t.Context())
	a, _ := cut.next()
	cut.copy(t.Context(), a)
	cut.desk.unplug(errors.New("cut off"))
	_, err := one.Keeper().Collect(t.Context(), 0, false)
	must(t, err)
	for range 3 {
		one.sync(t.Context())
	}
	cut.desk.unplug(nil)
	cut.sync(t.Context())
	if cut.has(gone) {
		t.Error("what was collected stays on a daemon")
	}
}

// What is named while it is being collected stays on the daemon that leads, and so on all.
func TestNamedWhileItIsCollected(t *testing.T) {
	_, one, two := pair(t)
	digest := one.add("x.iso", bytesOf(1000))
	round(one, two)
	var asked int
	one.Lead(one.desk, func() (map[string]bool, error) {
		asked++
		return map[string]bool{digest: asked > 1}, nil // a commit has come after the first look
	})
	_, err := one.Keeper().Collect(t.Context(), 0, false)
	must(t, err)
	two.sync(t.Context())
	if !one.has(digest) {
		t.Fatal("what the design names is on no daemon")
	}
	round(one, two)
	if !one.has(digest) || !two.has(digest) {
		t.Error("what the design names is not on all daemons")
	}
}

// What no running daemon has waits for no other download, and the list does not say that it does.
func TestWhatNoRunningDaemonHas(t *testing.T) {
	b := newBoard()
	digest := digestOf(bytesOf(1000))
	b.shelves.Artifacts[digest] = record.Artifact{SHA256: digest, Name: "x.iso", Size: 1000}
	b.shelves.Holders["off"] = record.Holder{Name: "off", Host: "host off", Has: map[string]bool{digest: true}} // gives none
	n := b.node(t, "n", 0)
	n.sync(t.Context())
	l, err := n.Keeper().Listing(t.Context())
	must(t, err)
	if got := l.Wanted[digest]; got.Why != "no running daemon gives it" || !got.Retry.IsZero() {
		t.Errorf("it says %+v", got)
	}
}

// Two daemons of one name, because a host was cloned with its store, say so and do not take each other's place in
// turns.
func TestAClonedStore(t *testing.T) {
	b := newBoard()
	one, clone := b.node(t, "one", 0), b.node(t, "one", 0)
	one.leads()
	one.sync(t.Context())
	clone.sync(t.Context())
	key := b.shelves.Holders["one"].Key
	for range 3 {
		one.sync(t.Context())
		clone.sync(t.Context())
	}
	if b.shelves.Holders["one"].Key != key {
		t.Error("they replace each other")
	}
	if err := one.Problem(); err == nil || !strings.Contains(err.Error(), "another daemon has the name of this one's artifact store") {
		t.Errorf("it says %v", err)
	}
}

// What only another daemon has is collected too. Nothing is added meanwhile, which would be taken for collected. If it
// cannot be recorded, the error says what was removed nevertheless.
func TestWhatOnlyAnotherDaemonHasIsCollected(t *testing.T) {
	b, one, two := pair(t)
	digest := one.add("x.iso", bytesOf(1000))
	round(one, two)
	must(t, one.Files.Remove(digest))
	one.sync(t.Context())
	here := one.add("y.iso", bytesOf(1000))
	one.sync(t.Context())
	puts := 0
	b.put = func() error {
		if puts++; puts == 2 {
			return errors.New("no majority")
		}
		return nil
	}
	_, err := one.Keeper().Collect(t.Context(), 0, false)
	if err == nil || err.Error() != "removed 1 file, and nothing of what only other daemons have: no majority" || one.has(here) {
		t.Errorf("it says %v", err)
	}
	b.put = func() error {
		if one.turn.TryLock() {
			one.turn.Unlock()
			t.Error("a file can be added between what Collect looks at and what it records")
		}
		return nil
	}
	gone, err := one.Keeper().Collect(t.Context(), 0, false)
	must(t, err)
	round(two)
	if len(gone) != 1 || gone[0].SHA256 != digest || two.has(digest) {
		t.Errorf("collected %+v", gone)
	}
}

// A daemon that is off for a moment keeps its records, although its clock is years behind: with them the site would
// forget what only that daemon has. Those of one that has been off for long by both clocks are deleted.
func TestAClockIsNotBelieved(t *testing.T) {
	for name, c := range map[string]struct {
		wrote, seen time.Duration // how long ago
		gone        bool
	}{
		"clock behind":     {wrote: 10 * 365 * 24 * time.Hour, seen: 2 * silentAfter},
		"off for two days": {wrote: 2 * 24 * time.Hour, seen: 2 * 24 * time.Hour},
		"off for months":   {wrote: 60 * 24 * time.Hour, seen: 2 * 24 * time.Hour, gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBoard()
			digest := digestOf(nil)
			b.shelves.Artifacts[digest] = record.Artifact{SHA256: digest, Name: "x.iso"}
			b.shelves.Holders["off"] = record.Holder{Name: "off", Time: time.Now().Add(-c.wrote), Has: map[string]bool{digest: true}}
			n := b.node(t, "n", 0)
			n.leads()
			n.sync(t.Context())
			seen := n.view.beats["off"]
			seen.at = seen.at.Add(-c.seen)
			n.view.beats["off"] = seen
			n.sync(t.Context())
			n.sync(t.Context())
			_, holds := b.shelves.Holders["off"]
			if _, is := b.shelves.Artifacts[digest]; is == c.gone || holds == c.gone {
				t.Errorf("the daemon is recorded: %v, its artifact: %v", holds, is)
			}
		})
	}
}

// Artifacts are in the order in which they are copied and shown: needed ones first, then by name.
func TestOrderOfArtifacts(t *testing.T) {
	s := record.Shelves{Artifacts: map[string]record.Artifact{}}
	for i, a := range []record.Artifact{{Name: "b"}, {Name: "d", Needed: true}, {Name: "a"}, {Name: "c", Needed: true}} {
		a.SHA256 = fmt.Sprintf("%064x", i)
		s.Artifacts[a.SHA256] = a
	}
	var names string
	for _, a := range live(s) {
		names += a.Name
	}
	if names != "cdab" {
		t.Errorf("in the order %s", names)
	}
}

// No key is not a key, whatever the records say.
func TestNoKey(t *testing.T) {
	id, err := newIdentity()
	must(t, err)
	if err := id.tls(func(string) bool { return true }).VerifyConnection(tls.ConnectionState{}); !errors.Is(err, errStranger) {
		t.Errorf("a connection without a certificate: %v", err)
	}
	v := view{own: "one", isDaemon: func(string) bool { return true }}
	v.take(record.Shelves{Holders: map[string]record.Holder{"two": {Address: "127.0.0.1:9"}}}, time.Now())
	if keys := v.keys(); len(keys) > 0 {
		t.Errorf("keys %q", keys)
	}
}

// A file that is added again after it was collected is there again.
func TestWhatIsAddedAgainIsThere(t *testing.T) {
	_, one, two := pair(t)
	content := bytesOf(1000)
	digest := one.add("x.iso", content)
	round(one, two)
	_, err := one.Keeper().Collect(t.Context(), 0, false)
	must(t, err)
	one.add("x.iso", content)
	round(one, two)
	if !one.has(digest) || !two.has(digest) {
		t.Error("it is not there")
	}
}

// What somebody adds again while it is being collected stays.
func TestAddedWhileItIsCollected(t *testing.T) {
	_, one, two := pair(t)
	content := bytesOf(1000)
	digest := one.add("x.iso", content)
	round(one, two)
	i, _ := one.Files.Get(digest)
	one.add("x.iso", content)
	must(t, one.Forget(t.Context(), []artifact.Info{i})) // what Collect found before that
	round(one, two)
	if !one.has(digest) || !two.has(digest) {
		t.Error("it was collected")
	}
}

// A host that is lost right after a file was added there: the next one that leads says where it is, and gets it when
// that host is back.
func TestTheOnlyCopyIsOnAHostThatIsLost(t *testing.T) {
	_, one, two := pair(t)
	two.sync(t.Context())
	digest := one.add("x.iso", bytesOf(1000)) // and nothing more from this host
	two.leads()
	two.sync(t.Context())
	if notes := strings.Join(two.Notes(), ""); !strings.Contains(notes, "fewer than two running daemons have 1 artifact, and the loss of one host could lose the only copy: x.iso (on host one)") {
		t.Errorf("notes: %s", notes)
	}
	two.needed[digest] = true
	round(one, two)
	if !two.has(digest) {
		t.Error("it is not copied when the host is back")
	}
}

// A daemon that has lost its term adds and collects nothing: the records refuse it, and it says so.
func TestOneThatLeadsNoMoreChangesNothing(t *testing.T) {
	_, one, two := pair(t)
	digest := one.add("x.iso", bytesOf(1000))
	round(one, two)
	two.leads()
	if _, err := one.Keeper().Collect(t.Context(), 0, false); !errors.Is(err, record.ErrLost) || !one.has(digest) || !strings.Contains(err.Error(), "nothing was removed") {
		t.Errorf("collected: %v", err)
	}
	_, err := one.Keeper().AddFile(t.Context(), strings.NewReader("late"), 0, "", "late.iso", nil)
	if !errors.Is(err, record.ErrLost) || !strings.Contains(err.Error(), "late.iso is in the store of this host, and the other daemons of the site do not know of it") {
		t.Errorf("added: %v", err)
	}
	other := two.add("y.iso", bytesOf(1000)) // at the same time
	round(two, one)
	if !one.has(other) || two.has(digestOf([]byte("late"))) {
		t.Error("what the one that leads added is not copied, or what the other did is")
	}
}

// What the design in force needs is not removed to make room on a daemon that follows, and what nobody needs does not
// push it out.
func TestRoomOnAFollower(t *testing.T) {
	b := newBoard()
	one, small := b.node(t, "one", 0), b.node(t, "small", 25_000)
	one.leads()
	first := one.add("first.iso", bytesOf(10_000))
	one.needed[first] = true
	spare := one.add("spare.iso", bytesOf(10_000))
	round(one, small)
	if !small.has(first) || !small.has(spare) {
		t.Fatal("both fit")
	}
	second := one.add("second.iso", bytesOf(10_000))
	one.needed[second] = true
	round(one, small)
	if !small.has(first) || !small.has(second) || small.has(spare) {
		t.Error("what is needed has no room")
	}
	third := one.add("third.iso", bytesOf(10_000))
	one.needed[third] = true
	round(one, small, one)
	if !small.has(first) || !small.has(second) || small.has(third) {
		t.Error("needed files push each other out")
	}
	if err := one.Problem(); err == nil || !strings.Contains(err.Error(), "host small: ") || !strings.Contains(err.Error(), "third.iso is not copied: 10 kB more do not fit into the artifact store") {
		t.Errorf("the leader says %v", err)
	}
	notes := strings.Join(one.Notes(), " ")
	if !strings.Contains(notes, "third.iso (on host one)") || !strings.Contains(notes, "spare.iso (on host one)") {
		t.Errorf("notes: %s", notes)
	}
}

// liar is a daemon in the records whose answers are not what they should be.
func (b *board) liar(t *testing.T, name string, digest string, answer http.HandlerFunc) {
	t.Helper()
	id, err := newIdentity()
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	srv := &http.Server{Handler: answer, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
	go srv.Serve(tls.NewListener(l, id.tls(func(string) bool { return true })))
	t.Cleanup(func() { srv.Close() })
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shelves.Holders[name] = record.Holder{Name: name, Host: "host " + name, Address: l.Addr().String(), Key: id.key, Has: map[string]bool{digest: true}}
}

// A daemon that lies is found out, its bytes are discarded, and a good copy is taken from another one.
func TestALyingDaemon(t *testing.T) {
	content := bytesOf(200_000)
	digest := digestOf(content)
	endless := func(w http.ResponseWriter) {
		for block := bytesOf(64 << 10); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"wrong bytes": {func(w http.ResponseWriter, _ *http.Request) { w.Write(bytesOf(len(content))) }, "host a sent a file with the SHA-256 "},
		"too short":   {func(w http.ResponseWriter, _ *http.Request) { w.Write(content[:1000]) }, "would send 1 kB for x.iso, which has 200 kB"},
		"too long": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "300000")
			w.Write(bytesOf(300_000))
		}, "would send 300 kB for x.iso, which has 200 kB"},
		"endless": {func(w http.ResponseWriter, _ *http.Request) { endless(w) }, "sends more than the 200 kB of x.iso"},
		"breaks off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "200000")
			w.Write(content[:5000])
		}, "broke off after 5 kB"},
		"another place": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		}, "answers 302"},
		"nothing": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, "answers 404"},
		"wrong range": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Range", "bytes 5-10/200000")
			w.WriteHeader(206)
			w.Write(content[:6])
		}, "answers 206"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBoard()
			b.liar(t, "a", digest, c.answer)
			n, a := b.lacks(t, digest, len(content))
			n.copy(t.Context(), a)
			if n.has(digest) {
				t.Fatal("it believes the liar")
			}
			if why := n.copying.states()[digest].Why; !strings.Contains(why, c.want) {
				t.Errorf("it says %q", why)
			}
			all, err := filepath.Glob(filepath.Join(n.dir, "files", "*"))
			if err != nil || len(all) > 0 {
				t.Errorf("files: %v %v", all, err)
			}
			// A good one comes, after the liar in the order.
			z := b.node(t, "z", 0)
			i, err := z.Files.AddFile(t.Context(), bytes.NewReader(content), 0, digest, "x.iso", nil)
			must(t, err)
			z.works()
			n.sync(t.Context())
			for range 3 { // a part of the liar's may be in the way once
				n.copy(t.Context(), a)
			}
			if !n.has(i.SHA256) || !bytes.Equal(n.content(digest), content) {
				t.Errorf("no good copy: %s", n.copying.states()[digest].Why)
			}
		})
	}
}

// A copy that breaks off goes on where it was, and is whole only once its digest is right.
func TestACopyGoesOn(t *testing.T) {
	content := bytesOf(400_000)
	digest := digestOf(content)
	var ranges []string
	b := newBoard()
	b.liar(t, "a", digest, func(w http.ResponseWriter, r *http.Request) {
		ranges = append(ranges, r.Header.Get("Range"))
		w.Header().Set("ETag", strconv.Quote(digest))
		if len(ranges) == 1 {
			w.Header().Set("Content-Length", "400000")
			w.Write(content[:100_000])
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	})
	n, a := b.lacks(t, digest, len(content))
	n.copy(t.Context(), a)
	if n.has(digest) {
		t.Fatal("half a file is there")
	}
	l, err := n.Keeper().Listing(t.Context())
	must(t, err)
	if s := l.Wanted[digest]; s.Name != "x.iso" || s.Why == "" || len(s.Copies.On) != 1 || s.Copies.Of != 1 {
		t.Errorf("listed as %+v", s)
	}
	n.copy(t.Context(), a)
	if !bytes.Equal(n.content(digest), content) || !slices.Equal(ranges, []string{"", "bytes=100000-"}) {
		t.Errorf("asked for %q", ranges)
	}
}

// A damaged file is never spread: who gets it refuses it, who gave it whole notices and gets a good one.
func TestADamagedFileIsReplaced(t *testing.T) {
	b := newBoard()
	one, two, three := b.node(t, "one", 0), b.node(t, "two", 0), b.node(t, "three", 0)
	one.leads()
	content := bytesOf(50_000)
	digest := one.add("x.iso", content)
	round(one, two)
	spoilt := slices.Clone(content)
	spoilt[20_000] ^= 1
	file := filepath.Join(one.dir, "files", digest)
	must(t, os.Chmod(file, 0o600))
	must(t, os.WriteFile(file, spoilt, 0o600))
	three.sync(t.Context())
	one.sync(t.Context())
	two.sync(t.Context())
	three.works() // asks one first
	if !bytes.Equal(three.content(digest), content) {
		t.Error("no good copy")
	}
	if one.has(digest) {
		t.Error("the damaged file was given whole and is still there")
	}
	round(one)
	if !bytes.Equal(one.content(digest), content) {
		t.Error("it was not replaced")
	}
	// Found by verify likewise.
	must(t, os.Chmod(filepath.Join(two.dir, "files", digest), 0o600))
	must(t, os.WriteFile(filepath.Join(two.dir, "files", digest), spoilt, 0o600))
	must(t, two.Keeper().Verify(t.Context(), func(int64, int64) {}, func(artifact.Checked) {}))
	if two.has(digest) {
		t.Error("verify left it")
	}
	round(two)
	if !bytes.Equal(two.content(digest), content) {
		t.Error("it was not replaced after verify")
	}
}

// Who has no key in the records gets nothing and gives nothing, and one that was removed neither, also in the middle.
func TestStrangers(t *testing.T) {
	b, one, two := pair(t)
	digest := one.add("x.iso", bytesOf(32_000_000)) // more than the buffers of a connection hold
	one.sync(t.Context())
	at, _ := one.door.now()
	answers := 0 // whoever has no key is not even answered
	get := func(config *tls.Config) error {
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
		answer, err := c.Get("https://" + at + "/" + digest)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answers++; answer.TLS.DidResume {
			t.Error("a session was resumed")
		}
		if answer.StatusCode != 200 {
			return errors.New(answer.Status)
		}
		_, err = io.Copy(io.Discard, answer.Body)
		return err
	}
	if err := get(&tls.Config{InsecureSkipVerify: true}); err == nil {
		t.Error("one without a key gets it")
	}
	stranger, err := newIdentity()
	must(t, err)
	any := func(string) bool { return true }
	if err := get(stranger.tls(any)); err == nil {
		t.Error("a stranger gets it")
	}
	if answer, err := http.Get("http://" + at + "/" + digest); err == nil && answer.StatusCode == 200 {
		t.Error("without TLS")
	}
	one.again = rate.NewLimiter(rate.Inf, 1)
	two.sync(t.Context()) // one has not read that yet, and does for it
	// It would resume an earlier session.
	known := two.identity.tls(any)
	known.SessionTicketsDisabled, known.ClientSessionCache = false, tls.NewLRUClientSessionCache(0)
	if err := get(known); err != nil {
		t.Errorf("another daemon: %v", err)
	}
	borrowed := identity{pair: tls.Certificate{Certificate: two.identity.pair.Certificate, PrivateKey: stranger.pair.PrivateKey}}
	if err := get(borrowed.tls(any)); err == nil {
		t.Error("one that shows the certificate of another daemon gets it")
	}
	// A stranger at the address of a daemon is not asked.
	b.mu.Lock()
	h := b.shelves.Holders["one"]
	h.Key = stranger.key
	b.shelves.Holders["one"] = h
	b.mu.Unlock()
	two.works()
	if two.has(digest) || !strings.Contains(two.copying.states()[digest].Why, "its key is not one that a running daemon of this site has recorded") {
		t.Errorf("copied from a stranger: %+v", two.copying.states())
	}
	one.sync(t.Context()) // it writes its own key again
	// It is removed while it copies.
	b.mu.Lock()
	b.members = map[string]bool{"one": true, "two": true}
	b.mu.Unlock()
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: known, DisableKeepAlives: true}}
	answer, err := c.Get("https://" + at + "/" + digest)
	must(t, err)
	defer answer.Body.Close()
	_, err = io.ReadFull(answer.Body, make([]byte, 1000))
	must(t, err)
	b.mu.Lock()
	b.members = map[string]bool{"one": true}
	b.mu.Unlock()
	one.sync(t.Context())
	if n, err := io.Copy(io.Discard, answer.Body); err == nil {
		t.Errorf("one that was removed got the remaining %d bytes", n)
	}
	if err := get(known); err == nil {
		t.Error("one that was removed gets it again")
	}
	if answers != 1 {
		t.Errorf("%d were answered, and one is a daemon", answers)
	}
}

// A daemon that is cut off from the records neither gets nor gives after a while: it may have been removed.
func TestCutOffFromTheRecords(t *testing.T) {
	_, one, two := pair(t)
	digest := one.add("x.iso", bytesOf(1000))
	one.sync(t.Context())
	two.sync(t.Context())
	two.desk.unplug(errors.New("no majority"))
	if two.Problem() != nil || len(two.view.keys()) == 0 {
		t.Error("it is said at once")
	}
	two.view.mu.Lock()
	two.view.read = two.view.read.Add(-silentAfter)
	two.view.mu.Unlock()
	two.works()
	if two.has(digest) || len(two.view.keys()) > 0 {
		t.Error("it copies")
	}
	if err := two.Problem(); err == nil || !strings.Contains(err.Error(), "no majority") {
		t.Errorf("it says %v", err)
	}
	if _, err := two.Named(); err == nil {
		t.Error("it would remove files to make room")
	}
	two.desk.unplug(nil)
	two.sync(t.Context())
	one.sync(t.Context())
	two.works()
	if !two.has(digest) || two.Problem() != nil {
		t.Errorf("afterwards: %v", two.Problem())
	}
}

// What is collected while it is being copied is broken off, and leaves no part that takes room.
func TestCollectedWhileItIsCopied(t *testing.T) {
	content := bytesOf(400_000)
	digest := digestOf(content)
	b := newBoard()
	half := make(chan struct{})
	b.liar(t, "a", digest, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", strconv.Quote(digest))
		w.Header().Set("Content-Length", "400000")
		w.Write(content[:200_000])
		w.(http.Flusher).Flush()
		close(half)
		<-r.Context().Done()
	})
	n, a := b.lacks(t, digest, len(content))
	done := make(chan struct{})
	go func() { defer close(done); n.copy(t.Context(), a) }()
	<-half
	b.mu.Lock()
	a.Removed = time.Now()
	b.shelves.Artifacts[digest] = a
	b.mu.Unlock()
	n.sync(t.Context())
	<-done
	n.sync(t.Context())
	if parts, err := os.ReadDir(filepath.Join(n.dir, "partial")); err != nil || len(parts) > 0 || n.has(digest) || n.copying.trouble() != "" || len(n.copying.states()) > 0 {
		t.Errorf("left: %v %v, and it says %q", parts, err, n.copying.trouble())
	}
}

// A full disk is said, and the rest goes on.
func TestOneThatFailsStopsNoOther(t *testing.T) {
	b := newBoard()
	one, small := b.node(t, "one", 0), b.node(t, "small", 5000)
	one.leads()
	large, little := one.add("a-large.iso", bytesOf(10_000)), one.add("little.iso", bytesOf(1000))
	one.needed[large], one.needed[little] = true, true
	round(one, small)
	if small.has(large) || !small.has(little) {
		t.Error("the large one stops the little one")
	}
	if err := small.Problem(); err == nil || !strings.HasPrefix(err.Error(), "this host: a-large.iso is not copied: ") {
		t.Errorf("it says %v", err)
	}
}

// What runs as a daemon does copies by itself, one file after the other, and ends with its context.
func TestRun(t *testing.T) {
	b := newBoard()
	b.told = make(chan struct{}, 1)
	one := b.node(t, "one", 0)
	one.leads()
	var all []string
	for i := range 5 {
		all = append(all, one.add(fmt.Sprint(i, ".iso"), bytesOf(50_000)))
	}
	one.sync(t.Context())
	two := b.node(t, "two", 0)
	two.Listen = ""
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); two.Run(ctx) }()
	go func() {
		for wait(ctx, time.Minute, b.told) { // the one that gives learns who asks
			one.sync(ctx)
		}
	}()
	for range two.Files.Changes() {
		if !slices.ContainsFunc(all, func(digest string) bool { return !two.has(digest) }) {
			break
		}
	}
	cancel()
	<-done
}
