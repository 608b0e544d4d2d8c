package record

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Settings of the one member for little memory and disk: its log is held in
// memory from the last snapshot on, and preallocated on disk by segments.
const (
	snapshotEvery = 1000 // entries
	keepEntries   = 50   // entries, for followers that there are not
	walSegment    = 8 << 20
	batchOps      = 128 // operations in one transaction
	freeToDefrag  = 32  // MiB free in the file at start
	stopTimeout   = 10 * time.Second
)

// smallSegments sets the size of etcd's log segments, which is a variable of
// its package.
var smallSegments = sync.OnceFunc(func() { wal.SegmentSizeBytes = walSegment })

// member is a running etcd without peers, listeners or metrics.
type member struct {
	etcd   *embed.Etcd
	client *clientv3.Client
	// ctx ends, with its cause, when etcd cannot go on.
	ctx  context.Context
	fail context.CancelCauseFunc
}

// startMember starts etcd on dir and returns when it serves.
func startMember(ctx context.Context, dir string, sync bool, log *slog.Logger) (*member, error) {
	if err := checkBackend(filepath.Join(dir, "member", "snap", "db")); err != nil {
		return nil, damaged(err)
	}
	smallSegments()
	m := &member{}
	m.ctx, m.fail = context.WithCancelCause(context.Background())
	cfg := config(dir, sync)
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(m.logger(log))

	started := make(chan error, 1)
	go func() {
		var err error
		m.etcd, err = embed.StartEtcd(cfg)
		started <- err
	}()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-m.ctx.Done():
		return nil, damaged(context.Cause(m.ctx))
	case err := <-started:
		if err != nil {
			return nil, damaged(err)
		}
	}
	select {
	case <-m.etcd.Server.ReadyNotify():
	case <-ctx.Done():
		m.stop()
		return nil, context.Cause(ctx)
	case <-m.ctx.Done():
		return nil, damaged(context.Cause(m.ctx))
	}
	m.client = v3client.New(m.etcd.Server)
	return m, nil
}

func config(dir string, sync bool) *embed.Config {
	c := embed.NewConfig()
	c.Dir = dir
	c.ListenPeerUrls, c.ListenClientUrls = nil, nil
	c.AdvertiseClientUrls = nil
	c.EnableGRPCGateway = false
	c.TickMs, c.ElectionMs = 100, 500
	c.SnapshotCount, c.SnapshotCatchUpEntries = snapshotEvery, keepEntries
	c.MaxSnapFiles, c.MaxWalFiles = 2, 2
	c.MaxTxnOps = batchOps
	c.AutoCompactionMode, c.AutoCompactionRetention = embed.CompactorModePeriodic, "1h"
	c.BootstrapDefragThresholdMegabytes = freeToDefrag
	c.UnsafeNoFsync = !sync
	return c
}

// stop ends the member. One that failed may not end by itself any more.
func (m *member) stop() {
	if m.client != nil {
		m.client.Close()
	}
	closed := make(chan struct{})
	go func() {
		m.etcd.Close()
		close(closed)
	}()
	if m.ctx.Err() != nil {
		select {
		case <-closed:
		case <-time.After(stopTimeout):
		}
		return
	}
	<-closed
	m.fail(errors.New("the records are closed"))
}

// logger passes etcd's errors on, and keeps it from ending the process: where
// etcd would exit or panic, the goroutine ends and the member has failed.
func (m *member) logger(log *slog.Logger) *zap.Logger {
	end := hook(func(message string) {
		err := errors.New(message)
		log.Error("record store failed", "err", err)
		m.fail(err)
		runtime.Goexit()
	})
	return zap.New(bridge{log}, zap.WithFatalHook(end), zap.WithPanicHook(end))
}

// hook is what happens instead of an exit or a panic.
type hook func(message string)

// OnWrite implements zapcore.CheckWriteHook.
func (h hook) OnWrite(e *zapcore.CheckedEntry, fields []zapcore.Field) {
	h(e.Message + text(fields))
}

// bridge is a zapcore.Core that passes errors on to slog, and warnings, of
// which etcd has many about being alone, for debugging.
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

func (b bridge) Write(e zapcore.Entry, fields []zapcore.Field) error {
	level := slog.LevelDebug
	if e.Level > zapcore.WarnLevel {
		level = slog.LevelError
	}
	b.log.Log(context.Background(), level, "record store", "err", e.Message+text(fields))
	return nil
}

// text is the error among the fields.
func text(fields []zapcore.Field) string {
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok {
			return ": " + err.Error()
		}
	}
	return ""
}

// checkBackend reads all of etcd's file once, so that damage in it is an error
// here and not a panic on one of etcd's goroutines. No file is a new store.
func checkBackend(path string) (err error) {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: %v", path, r)
		}
	}()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer db.Close()
	return db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(_, _ []byte) error { return nil })
		})
	})
}
