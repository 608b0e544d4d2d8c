package copies

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"maps"
	"sync"
	"testing"

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
