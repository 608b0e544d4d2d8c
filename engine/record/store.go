// Package record keeps what was done and cannot be observed from outside: the
// last good design of a site, the adoption and installation of each node's
// machine, approvals, holds, removals, the rollout, how long steps took,
// events, who acts, and the last observation of each machine with its age. It
// is an embedded etcd without a listener, in a state directory that one process
// at a time holds.
//
// Keys, with site and node names path-escaped:
//
//	/slipway/version                     version of this layout
//	/slipway/v1/SITE/accepted            the last good design's revision and file
//	/slipway/v1/SITE/nodes/NODE          site.Recorded
//	/slipway/v1/SITE/observed/NODE       site.Observed without times
//	/slipway/v1/SITE/inventories/NODE    site.Inventory with the node's name, always a file
//	/slipway/v1/SITE/seen/N              when the facets of 500 nodes were last seen
//	/slipway/v1/SITE/ledger              Book
//	/slipway/v1/SITE/ledger/NODE         site.Account
//	/slipway/v1/SITE/proposals/NUMBER    Proposed
//	/slipway/v1/SITE/messages/KEY        messages to send or sent, in the sender's form
//	/slipway/v1/SITE/removals/TIME.NODE  Removal
//	/slipway/v1/SITE/terms/DIGEST        bios.Entry, machines' names for firmware settings
//	/slipway/v1/SITE/registries/SUM      bios.Registry
//	/slipway/v1/SITE/paused              site.Hold
//	/slipway/v1/SITE/rollout             site.RolloutStatus without its nodes
//	/slipway/v1/SITE/rollout/nodes       the nodes of the rollout
//	/slipway/v1/SITE/forecast            site.ForecastAtStart
//	/slipway/v1/SITE/took/LIKE           how long steps took, see site.Like
//	/slipway/v1/SITE/events              the last 256 events of the site itself
//	/slipway/v1/SITE/events/NODE         the last 32 events of a node
//	/slipway/v1/SITE/said/NODE           the last 200 lines that a node's agent has said
//	/slipway/v1/SITE/audit/RING/SEQ      site.AuditEntry: who tried to do what, see auditRings
//	/slipway/v1/SITE/term                who acts for the site, see Term
//	/slipway/v1/SITE/fence               written when a controller begins to lead, see fenced
//	/slipway/v1/SITE/sessions/NODE       Sessions
//	/slipway/v1/SITE/leases/NETWORK/ADDRESS  site.Lease
//	/slipway/v1/SITE/deliveries/GUID     when a webhook delivery was taken
//	/slipway/v1/SITE/secrets/CREDENTIAL  when the newest opened value was changed
//	/slipway/v1/SITE/artifacts/SHA256    Artifact: a file that the stores of all daemons are to have
//	/slipway/v1/SITE/holders/DAEMON      Holder: a daemon with an artifact store, see Copies
//	/slipway/v1/SITE/copies/DAEMON/SHA256  that the daemon has the file
//	/slipway/v1/SITE/delivered/HOLDER    site.Delivered: which secrets a node, or a hypervisor, was given
//	/slipway/v1/SITE/proofs/UUID         site.MachineProof: where passwords derived from it may go
//	/slipway/v1/SITE/revoked/AUTHORITY   site.RevocationList: the TLS certificates that it revoked
//
// With --etcd the same keys are below the site's prefix in an etcd that several controllers share,
// see Cluster.
//
// Values are JSON; repetitive ones are compressed with gzip. A value of more
// than 64 KiB is a file in the state directory, and the key holds "@" and the
// file's digest. Each value ends in a checksum.
package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"
)

// Version is the version of the layout of keys and values.
const Version = 5

const versionKey = "/slipway/version"

// Options configure the opening of a store.
type Options struct {
	// NoSync disables every fsync. Only for tests: a power cut then loses
	// records.
	NoSync bool
	// Tick is how often etcd checks its clock and batches its writes; 0 means 100
	// ms. Only for tests: hours of virtual time consist of ticks.
	Tick time.Duration
	// KV replaces etcd. Only for tests: its content is not in the state
	// directory.
	KV  clientv3.KV
	Log *slog.Logger
	// Of is the site whose records alone Import takes; empty for any.
	Of string
	// Cluster is the etcd that has the records; nil for one of the daemon's own in the state
	// directory. Call Lead before anything is read or written.
	Cluster *Cluster

	migrations []migration // tests have their own
	quota      int64       // likewise
	found      bool        // begin a cluster with the first member
	patience   time.Duration
}

// Store is the records of a daemon, for all its sites.
type Store struct {
	dir  string
	sync bool
	lock *os.File
	etcd *member
	kv   clientv3.KV

	shared *shared     // nil for records of the daemon's own
	steps  []migration // of a shared etcd, for Lead

	limit     int64         // maximum bytes of etcd's database
	exporting atomic.Int32  // exports under way
	freeing   sync.Mutex    // one goroutine at a time makes room
	changing  sync.Mutex    // one change of who the members are at a time
	trying    chan struct{} // full while the disk is tried

	closing sync.Once
}

// Open opens the records in a state directory, which it creates if needed. The
// context limits the opening. It fails with advice, and changes no record, if
// another process holds the directory, or if the directory is not writable,
// damaged, or written by a newer version.
func Open(ctx context.Context, dir string, opts Options) (*Store, error) {
	opts = opts.complete()
	s := &Store{dir: dir, sync: !opts.NoSync, limit: opts.quota, trying: make(chan struct{}, 1)}
	if err := s.open(ctx, opts); err != nil {
		s.release()
		return nil, fmt.Errorf("open records in %s: %w", dir, err)
	}
	return s, nil
}

// complete fills in what is not set.
func (o Options) complete() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.quota, o.patience, o.Tick = cmp.Or(o.quota, quota), cmp.Or(o.patience, startTimeout), cmp.Or(o.Tick, tick)
	return o
}

func (s *Store) open(ctx context.Context, opts Options) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return explain(err)
	}
	if err := s.hold(); err != nil {
		return err
	}
	if opts.Cluster != nil {
		return s.openShared(ctx, opts)
	}
	if err := s.checkDirectory(); err != nil {
		return err
	}
	if err := os.MkdirAll(s.files(), 0o700); err != nil {
		return explain(err)
	}
	m, err := startMember(ctx, filepath.Join(s.dir, "etcd"), opts)
	if err != nil {
		return err
	}
	s.etcd, s.kv = m, m.kv
	if err := s.settleVersion(ctx, opts.steps()); err != nil {
		return err
	}
	return s.checkRecords(ctx)
}

// checkRecords checks the checksums of all records, including those that no site
// will ask for: a key changed by the disk is a lost record.
func (s *Store) checkRecords(ctx context.Context) error {
	from, to := s.all()
	return s.stored(ctx, from, to, false, func(kv keyValue) error {
		if kv.key == versionKey {
			return nil
		}
		if s.shared != nil && strings.HasPrefix(kv.key, filesBelow) {
			_, err := unseal(kv.key, kv.value)
			return err
		}
		if _, _, err := s.siteOf(kv.key); err != nil {
			return damaged(err)
		}
		_, err := unseal(kv.key, kv.value)
		return err
	})
}

// lockFile is the file that the owner of the directory locks; it names that process.
const lockFile = "lock"

// hold locks the directory. The lock ends with the process.
func (s *Store) hold() error {
	f, err := os.OpenFile(filepath.Join(s.dir, lockFile), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return explain(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return fmt.Errorf("another slipway%s holds this state directory: stop it first, or give this one a state directory of its own", holder(f))
		}
		return fmt.Errorf("lock the state directory: %w", err)
	}
	s.lock = f
	if err := f.Truncate(0); err != nil {
		return explain(err)
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return explain(err)
	}
	return nil
}

// holder names the process that holds the lock, if known.
func holder(f *os.File) string {
	buf := make([]byte, 20)
	n, _ := f.ReadAt(buf, 0)
	if pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n]))); err == nil {
		return fmt.Sprintf(" (process %d)", pid)
	}
	return ""
}

// explain adds advice to an error about the state directory's files.
func explain(err error) error {
	if what := remedy(err); what != "" {
		return fmt.Errorf("%w: %s", err, what)
	}
	return err
}

// damaged is explain for an error that otherwise means damaged content.
func damaged(err error) error {
	if remedy(err) != "" {
		return explain(err)
	}
	return &damage{err}
}

// damage is an error about the content of the records.
type damage struct{ err error }

func (d *damage) Error() string {
	return fmt.Sprintf("the state directory's content is damaged: %v: restore it from a backup; or move it away and start again, "+
		"which adopts every machine as it is, asks for approvals again and installs nothing that a machine's own marker shows as installed", d.err)
}

func (d *damage) Unwrap() error { return d.err }

func remedy(err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Sprintf("the state directory must be writable by user id %d: change its owner, or choose another one", os.Geteuid())
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "make room on the file system of the state directory"
	case errors.Is(err, syscall.ENOTDIR):
		return "name a directory for the state"
	}
	return ""
}

// Close releases the directory. It writes nothing, so flush first. Requests to
// closed records fail.
func (s *Store) Close() error {
	s.release()
	return nil
}

func (s *Store) release() {
	s.closing.Do(func() {
		if s.etcd != nil {
			s.etcd.stop()
		}
		if s.shared != nil {
			s.shared.client.Close()
		}
		if s.lock != nil {
			s.lock.Close()
		}
	})
}
