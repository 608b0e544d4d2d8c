package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine"
	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/record/recordtest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// daemon is a daemon of a story, which can end at any moment and begin again on
// what it has recorded.
type daemon struct {
	t     *trial
	label string
	state *state

	// All nil while it is down; guarded by the trial's mu.
	engine *engine.Engine
	life   *life
	store  *record.Store
	done   chan error

	reviewed func() // waits for the end of its reviews
}

// state is a state directory.
type state struct {
	dir string
	kv  *recordtest.Memory
}

// newState is an empty state directory.
func (t *trial) newState() *state {
	t.states++
	return &state{dir: filepath.Join(t.dir, fmt.Sprint(t.states)), kv: recordtest.NewMemory()}
}

// copyState is a copy of a state directory, as somebody makes one while a daemon
// uses it or not.
func (t *trial) copyState(s *state) *state {
	c := t.newState()
	c.kv = s.kv.Clone()
	err := os.CopyFS(c.dir, os.DirFS(s.dir))
	for try := 0; try < 100 && errors.Is(err, fs.ErrNotExist); try++ { // a file was on its way to its name
		err = errors.Join(os.RemoveAll(c.dir), os.CopyFS(c.dir, os.DirFS(s.dir)))
	}
	if err != nil {
		panic(err)
	}
	return c
}

// life is a process. It may end wherever it waits for something: for a machine,
// its disk, the repository or the status branch. What it has sent by then may
// still arrive.
type life struct {
	ctx    context.Context
	cancel context.CancelFunc
	died   chan struct{}

	mu    sync.Mutex
	waits int            // so far
	plans map[int]func() // what happens at which of them
	over  bool
}

var errDead = errors.New("the daemon was killed")

// wait is called at each of its waits.
func (l *life) wait(context.Context) error {
	l.mu.Lock()
	l.waits++
	happens := l.plans[l.waits]
	delete(l.plans, l.waits)
	l.mu.Unlock()
	if happens != nil {
		happens()
	}
	if l.isOver() {
		return errDead
	}
	return nil
}

// at has something happen at one of its next waits.
func (l *life) at(waits int, happens func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.plans[l.waits+waits] = happens
}

// count is how many waits there were.
func (l *life) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waits
}

// spare has nothing more happen to it.
func (l *life) spare() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.plans)
}

// end ends it now.
func (l *life) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.over = true
		l.cancel()
		close(l.died)
	}
}

func (l *life) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// up starts the daemon.
func (d *daemon) up() {
	t := d.t
	ctx, cancel := context.WithCancel(context.Background())
	life := &life{ctx: ctx, cancel: cancel, died: make(chan struct{}), plans: map[int]func(){}}
	ctx = drivertest.WithWait(ctx, life.wait)
	d.state.kv.Ask = life.wait
	store, err := record.Open(ctx, d.state.dir, record.Options{NoSync: true, KV: d.state.kv})
	if err != nil {
		panic(err)
	}
	t.lives++
	config := engine.Config{
		Site: t.name, Records: store.Site(t.name), Key: t.key,
		Source:    mortalSource{t.source, life},
		Drivers:   map[string]driver.Driver{"redfish": t.fleet.Driver(), "ssh": t.fleet.OSDriver()},
		Artifacts: newShelf(), Secrets: anySecret{}, Seed: t.seed + uint64(t.lives),
	}
	if t.board != nil {
		b := mortalBoard{t.board, life, t.usePublished}
		config.Anchor, config.Branch = b, b
	}
	var e *engine.Engine
	config.Evaluate = func(ctx context.Context, r site.Revision) (*site.Site, []site.Finding, error) {
		design, findings, err := t.source.evaluate(ctx, r)
		if dead := life.wait(ctx); dead != nil {
			return nil, nil, dead
		}
		if err == nil && !site.HasErrors(findings) {
			time.AfterFunc(time.Second, func() {
				if !life.isOver() && e.Report().Status.Applied.ID == r.ID {
					t.inForce(r.ID)
				}
			})
		}
		return design, findings, err
	}
	e = engine.New(config)
	done := make(chan error, 1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.note("%s starts on %s", d.label, filepath.Base(d.state.dir))
	d.engine, d.life, d.store, d.done = e, life, store, done
	d.reviewed = func() {}
	if t.desk != nil {
		d.reviewed = t.desk.review(ctx, e, life)
	}
	t.heard = 0
	t.living.Lock()
	t.engines = append(t.engines, e)
	t.living.Unlock()
	go func() { done <- e.Run(ctx) }()
}

// stop ends the daemon in order.
func (d *daemon) stop() {
	if d.life == nil {
		return
	}
	d.life.cancel()
	err := <-d.done
	if err != nil && !d.life.isOver() {
		d.t.complain("%s ends with %v", d.label, err)
	}
	d.gone("is stopped")
}

// kill ends the daemon as a power cut would.
func (d *daemon) kill() {
	if d.life == nil {
		return
	}
	d.life.end()
	<-d.done
	d.gone("is killed")
}

func (d *daemon) gone(how string) {
	d.life.end()
	d.reviewed()
	_ = d.store.Close() // gives the directory free; nothing is written by it
	d.t.mu.Lock()
	defer d.t.mu.Unlock()
	d.t.note("%s %s", d.label, how)
	d.t.living.Lock()
	d.t.engines = slices.DeleteFunc(d.t.engines, func(e *engine.Engine) bool { return e == d.engine })
	d.t.living.Unlock()
	d.engine, d.life, d.store, d.done = nil, nil, nil, nil
}

// died is closed when the daemon has died by itself; nil while it is down.
func (d *daemon) died() <-chan struct{} {
	if d == nil || d.life == nil {
		return nil
	}
	return d.life.died
}

// mortalSource is the repository as a daemon gets to it.
type mortalSource struct {
	*commits
	life *life
}

func (s mortalSource) Fetch(ctx context.Context) (site.Revision, error) {
	if err := s.life.wait(ctx); err != nil {
		return site.Revision{}, err
	}
	r, err := s.commits.Fetch(ctx)
	if dead := s.life.wait(ctx); dead != nil {
		return site.Revision{}, dead
	}
	return r, err
}

// mortalBoard is the status branch as a daemon gets to it.
type mortalBoard struct {
	board *board
	life  *life
	// uses is told when a daemon is about to publish that it has used an approval.
	uses func(site.NodeStatus)
}

func (b mortalBoard) Term(ctx context.Context) (c site.TermClaim, err error) {
	err = b.asking(ctx, func() error { c, err = b.board.Term(ctx); return err })
	return c, err
}

func (b mortalBoard) Claim(ctx context.Context, c, before site.TermClaim) error {
	return b.asking(ctx, func() error { return b.board.Claim(ctx, c, before) })
}

func (b mortalBoard) Sealed(ctx context.Context) (all []site.Sealed, err error) {
	err = b.asking(ctx, func() error { all, err = b.board.Sealed(ctx); return err })
	return all, err
}

func (b mortalBoard) RevocationLists(ctx context.Context) (all []string, err error) {
	err = b.asking(ctx, func() error { all, err = b.board.RevocationLists(ctx); return err })
	return all, err
}

func (b mortalBoard) Seal(ctx context.Context, n site.NodeStatus) error {
	b.uses(n)
	return b.asking(ctx, func() error { return b.board.Seal(ctx, n) })
}

func (b mortalBoard) Report(ctx context.Context, r site.Report) error {
	return b.asking(ctx, func() error { return b.board.Report(ctx, r) })
}

func (b mortalBoard) asking(ctx context.Context, do func() error) error {
	if err := b.life.wait(ctx); err != nil {
		return err
	}
	err := do()
	if dead := b.life.wait(ctx); dead != nil {
		return dead
	}
	return err
}
