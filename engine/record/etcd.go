package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Settings of the single member that save memory and disk: etcd keeps its log
// since the last snapshot in memory, and preallocates it on disk in segments.
const (
	snapshotEvery = 1000  // entries
	keepEntries   = 50    // entries for followers, which do not exist
	keepHistory   = "10m" // nobody reads the history; also the interval of compaction
	walSegment    = 8 << 20
	batchOps      = 128     // operations in one transaction
	freeToDefrag  = 32      // MiB free in the file at start
	quota         = 2 << 30 // maximum bytes of the database: four times what 100,000 nodes take
	tick          = 100 * time.Millisecond
	startTimeout  = time.Minute
	stopTimeout   = 5 * time.Second
)

// smallSegments sets the size of etcd's log segments, a package variable of
// etcd.
var smallSegments = sync.OnceFunc(func() { wal.SegmentSizeBytes = walSegment })

var errClosed = errors.New("the records are closed")

// member is a running etcd without client listeners or metrics; with peers only if startPeer made it.
type member struct {
	etcd    *embed.Etcd   // nil if it did not start
	started chan struct{} // closed when the start has succeeded or failed
	ending  atomic.Bool   // it was asked to stop
	client  *clientv3.Client
	kv      clientv3.KV
	// ctx ends, with its cause, when etcd cannot continue.
	ctx  context.Context
	fail context.CancelCauseFunc
}

// startMember starts etcd on dir and returns when it serves.
func startMember(ctx context.Context, dir string, opts Options) (*member, error) {
	if opts.KV != nil {
		m := &member{started: make(chan struct{}), kv: opts.KV}
		m.ctx, m.fail = context.WithCancelCause(context.Background())
		close(m.started)
		return m, nil
	}
	if err := guarded(func() error { return checkFiles(dir) }); err != nil {
		return nil, damaged(err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, opts.patience, damaged(errors.New("etcd does not become ready")))
	defer cancel()
	smallSegments()
	m := &member{started: make(chan struct{})}
	m.ctx, m.fail = context.WithCancelCause(context.Background())
	cfg := config(dir, opts)
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(m.logger(opts.Log))

	if err := m.start(ctx, cfg); err != nil {
		go m.stop() // stops whatever has started
		return nil, err
	}
	m.client = v3client.New(m.etcd.Server)
	m.kv = m.client
	return m, nil
}

// start returns when etcd serves, has failed, or the context ends.
func (m *member) start(ctx context.Context, cfg *embed.Config) error {
	switch err := m.launch(ctx, cfg); {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return damaged(err)
	}
	return m.serves(ctx)
}

// launch returns when etcd has begun, which it does without its peers.
func (m *member) launch(ctx context.Context, cfg *embed.Config) error {
	var err error
	go func() {
		defer close(m.started) // also if it fails with a panic
		err = guarded(func() (err error) {
			m.etcd, err = embed.StartEtcd(cfg)
			return err
		})
	}()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-m.ctx.Done():
		return context.Cause(m.ctx)
	case <-m.started:
		return cmp.Or(context.Cause(m.ctx), err)
	}
}

// serves returns when etcd serves, has failed, or the context ends.
func (m *member) serves(ctx context.Context) error {
	select {
	case <-m.etcd.Server.ReadyNotify():
		return m.settle(ctx, m.etcd.Server.LinearizableReadNotify)
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-m.ctx.Done():
		return damaged(context.Cause(m.ctx))
	}
}

// settle reads until etcd answers. The first reads of a ready member may be
// refused because it has only now become the leader: its read loop may have
// begun before the election and checked after it. A leader without peers stays
// the leader, so later reads are not refused for this.
func (m *member) settle(ctx context.Context, read func(context.Context) error) error {
	reading, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(m.ctx, end)()
	for {
		err := read(reading)
		switch {
		case context.Cause(m.ctx) != nil:
			return damaged(context.Cause(m.ctx))
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, etcderrors.ErrLeaderChanged), errors.Is(err, etcderrors.ErrTimeout):
			continue
		}
		return err
	}
}

func config(dir string, opts Options) *embed.Config {
	c := embed.NewConfig()
	c.Dir = dir
	c.ListenPeerUrls, c.ListenClientUrls = nil, nil
	c.AdvertiseClientUrls = nil
	c.EnableGRPCGateway = false
	c.TickMs, c.ElectionMs = uint(opts.Tick.Milliseconds()), uint(5*opts.Tick.Milliseconds())
	c.BackendBatchInterval = opts.Tick
	c.SnapshotCount, c.SnapshotCatchUpEntries = snapshotEvery, keepEntries
	c.MaxSnapFiles, c.MaxWalFiles = 2, 2
	c.MaxTxnOps = batchOps
	c.AutoCompactionMode, c.AutoCompactionRetention = embed.CompactorModePeriodic, keepHistory
	c.BootstrapDefragThresholdMegabytes = freeToDefrag
	c.UnsafeNoFsync = opts.NoSync
	c.QuotaBackendBytes = opts.quota
	return c
}

// stop ends the member. A failed member may no longer end by itself.
func (m *member) stop() {
	m.ending.Store(true)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-m.started
		if m.etcd != nil {
			m.etcd.Close()
		}
	}()
	select {
	case <-ended:
	case <-m.ctx.Done():
		select {
		case <-ended:
		case <-time.After(stopTimeout):
		}
	}
	if m.client != nil {
		m.client.Close()
	}
	m.fail(errClosed)
}

// logger passes etcd's errors on and prevents etcd from ending the process.
// Instead of an exit or a panic, the goroutine ends and the member has failed.
func (m *member) logger(log *slog.Logger) *zap.Logger {
	end := hook(func(err error) {
		log.Error("record store failed", "err", err)
		m.fail(err)
		runtime.Goexit()
	})
	return zap.New(bridge{log}, zap.WithFatalHook(end), zap.WithPanicHook(end))
}

// hook runs instead of an exit or a panic.
type hook func(error)

// OnWrite implements zapcore.CheckWriteHook.
func (h hook) OnWrite(e *zapcore.CheckedEntry, fields []zapcore.Field) {
	h(entryError(e.Entry, fields))
}

// bridge is a zapcore.Core that passes errors to slog, and warnings at debug
// level: etcd warns often about being alone.
type bridge struct{ log *slog.Logger }

func (bridge) Enabled(l zapcore.Level) bool        { return l >= zapcore.WarnLevel }
func (b bridge) With([]zapcore.Field) zapcore.Core { return b }
func (bridge) Sync() error                         { return nil }

func (b bridge) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if e.Level == zapcore.WarnLevel || e.Level == zapcore.ErrorLevel {
		return ce.AddCore(e, b)
	}
	return ce
}

// tooEarly is what etcd logs as an error if a new database is asked for its
// version before its first pages are written. etcd asks again within seconds,
// and only a downgrade of etcd needs the answer.
const tooEarly = "failed to update storage version"

func (b bridge) Write(e zapcore.Entry, fields []zapcore.Field) error {
	level, err := slog.LevelDebug, entryError(e, fields)
	if e.Level > zapcore.WarnLevel && e.Message != tooEarly && !errors.Is(err, net.ErrClosed) { // its own listener, when it ends
		level = slog.LevelError
	}
	b.log.Log(context.Background(), level, "record store", "err", err)
	return nil
}

// entryError returns a log entry as an error, with the error among its fields.
func entryError(e zapcore.Entry, fields []zapcore.Field) error {
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok {
			return fmt.Errorf("%s: %w", e.Message, err)
		}
	}
	return errors.New(e.Message)
}

// guarded turns a panic on this goroutine into an error, including the fault
// when a page of a mapped file cannot be read.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return f()
}
