package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/slipway-gitops/slipway/engine/site"
)

// A term is the time during which one holder acts for a site. Its number
// increases each time. The holder has a lease, which it renews. A holder that
// cannot renew its lease stops by itself, some time before the lease ends.
const (
	// Lease is how long a lease lasts from its last renewal.
	Lease = 30 * time.Second
	// RenewEvery is how often the holder should renew it.
	RenewEvery = Lease / 3
	// leaseMargin is how long before the end of a lease the holder stops
	// sending: a request allowed just before has left by then.
	leaseMargin = 3 * time.Second
)

// LeaseTimes are the times of a lease.
type LeaseTimes struct {
	// Length is how long a lease lasts from its last renewal. RenewEvery is how often the holder
	// renews it, and RetryEvery how soon it tries again after an error.
	Length, RenewEvery, RetryEvery time.Duration
	// Margin is how long before the end of a lease the holder stops sending.
	Margin time.Duration
}

// Records of the daemon's own have no other candidate: the lease is long, so that a slow disk ends
// no step. Controllers that share an etcd wait for the end of a lease before they act.
var (
	ownTimes    = LeaseTimes{Lease, RenewEvery, RenewEvery, leaseMargin}
	sharedTimes = LeaseTimes{Length: 9 * time.Second, RenewEvery: 3 * time.Second, RetryEvery: 500 * time.Millisecond, Margin: 2 * time.Second}
)

// LeaseTimes returns the times of the leases of these records.
func (s *Store) LeaseTimes() LeaseTimes {
	if s.shared != nil {
		return sharedTimes
	}
	return ownTimes
}

// SharedLeaseTimes returns the times of a lease of records that controllers share.
func SharedLeaseTimes() LeaseTimes { return sharedTimes }

// IsShared reports whether other controllers may lead the site with the same records.
func (s *Store) IsShared() bool { return s.shared != nil }

// ErrLost is wrapped by the renewal of a term that another holder has ended.
var ErrLost = errors.New("the term is lost")

// tenure is the value under "term".
type tenure struct {
	Term   uint64 `json:"term"`
	Holder string `json:"holder"`
	// Released is set if the holder has ended the term itself: it has nothing
	// under way.
	Released bool `json:"released,omitempty"`
	// Time is the latest time that a holder has seen on its clock.
	Time time.Time `json:"time,omitzero"`
}

// Term is the right to act for a site. Its methods may be called concurrently.
type Term struct {
	// Number is larger than that of every earlier term. Last is that of the term before; 0 if there was
	// none. Holder is who has it.
	Number uint64
	Last   uint64
	Holder string
	// Began is when it was acquired.
	Began time.Time
	// Clean is set if there was no earlier holder, or if it had released its
	// term. Then it has nothing under way, and has left no sessions of its own.
	Clean bool
	// Latest is the latest time that earlier holders have seen. What had ended
	// by then has ended, whatever the clock says now.
	Latest time.Time

	site     *Site
	renewing sync.Mutex
	revision int64 // of the record, as this term last wrote it

	mu       sync.Mutex
	deadline time.Time
	boot     time.Duration   // the deadline by the host's time since its start, in shared records
	lapse    context.Context // ends when the deadline has passed
	lapsed   context.CancelFunc
	timer    *time.Timer
	lost     chan struct{} // closed when the term is over
	ended    bool          // lost or released
}

// Acquire begins a new term, even during the lease of an earlier one. Only one
// process holds the store, so the earlier holder is gone; its last requests may
// still be under way, see Clean. A holder that still runs finds its term lost.
// The new number is higher than above, and than the last number; pass 0 if only
// the last number matters.
//
// In shared records, other processes hold the store too. There Acquire returns the term that Lead
// began, or one with a higher number that continues it, and takes no term from another controller.
func (s *Site) Acquire(ctx context.Context, holder string, above uint64) (*Term, error) {
	if s.store.shared != nil {
		return s.continued(ctx, above)
	}
	for {
		before, revision, err := s.tenure(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the term: %w", err)
		}
		began := s.store.now()
		t := &Term{
			Number: max(before.Term, above) + 1, Last: before.Term, Holder: holder, Began: began.clock,
			Clean:  before.Released || before.Term == 0,
			Latest: before.Time,
			site:   s, revision: revision, lost: make(chan struct{}),
		}
		switch err := t.write(ctx, tenure{Term: t.Number, Holder: holder}); {
		case err == nil:
			t.extend(began)
			return t, nil
		case !errors.Is(err, ErrLost): // otherwise somebody else was faster
			return nil, fmt.Errorf("begin a term: %w", err)
		}
	}
}

// tenure reads the record of the last term, with its revision in etcd.
func (s *Site) tenure(ctx context.Context) (last tenure, revision int64, err error) {
	var got *clientv3.GetResponse
	err = s.store.do(ctx, func(ctx context.Context) (err error) {
		got, err = s.store.kv.Get(ctx, s.prefix+"term")
		return err
	})
	if err != nil || len(got.Kvs) == 0 {
		return tenure{}, 0, err
	}
	value, err := unseal(s.prefix+"term", got.Kvs[0].Value)
	if err != nil {
		return tenure{}, 0, err
	}
	if err := json.Unmarshal(value, &last); err != nil {
		return tenure{}, 0, damaged(err)
	}
	return last, got.Kvs[0].ModRevision, nil
}

// write replaces the record if nobody else has.
func (t *Term) write(ctx context.Context, now tenure) error {
	if now.Time = time.Now(); now.Time.Before(t.Latest) {
		now.Time = t.Latest
	}
	value, err := json.Marshal(now)
	if err != nil {
		return err
	}
	key := t.site.prefix + "term"
	var got *clientv3.TxnResponse
	err = t.site.store.write(ctx, func(ctx context.Context) (err error) {
		got, err = t.site.store.kv.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", t.revision)).
			Then(opSealed(key, value)).Commit()
		return err
	})
	if err != nil {
		return err
	}
	if !got.Succeeded {
		return ErrLost
	}
	t.revision = got.Header.Revision
	return nil
}

// SetBack forgets that holders have seen a time later than now, because their
// clock was ahead.
func (t *Term) SetBack(now time.Time) {
	t.renewing.Lock()
	defer t.renewing.Unlock()
	t.Latest = now
}

// Renew extends the lease. An error other than ErrLost may be temporary, and
// leaves the lease unchanged. Renew takes no longer than a lease.
func (t *Term) Renew(ctx context.Context) error {
	t.renewing.Lock()
	defer t.renewing.Unlock()
	if t.isOver() {
		return t.why(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, t.site.store.renewLimit(), errSlow)
	defer cancel()
	if err := t.site.store.own(); err != nil {
		return err
	}
	began := t.site.store.now()
	switch err := t.write(ctx, tenure{Term: t.Number, Holder: t.Holder}); {
	case errors.Is(err, ErrLost):
		// A renewal whose answer was lost may have been written.
		last, revision, rerr := t.site.tenure(ctx)
		if rerr == nil && last.Term == t.Number && last.Holder == t.Holder {
			t.revision = revision
			return fmt.Errorf("renew term %d: written before, with unknown result", t.Number)
		}
		if rerr != nil && t.site.store.shared != nil {
			return fmt.Errorf("renew term %d: %w", t.Number, rerr) // who leads is not known
		}
		t.end()
		t.site.store.depose()
		return t.why(ctx)
	case err != nil:
		return fmt.Errorf("renew term %d: %w", t.Number, err)
	}
	t.extend(began)
	return nil
}

// why names the holder that has ended this term.
func (t *Term) why(ctx context.Context) error {
	last, _, err := t.site.tenure(ctx)
	if err != nil || last.Term <= t.Number {
		return fmt.Errorf("%w: term %d is over", ErrLost, t.Number)
	}
	return fmt.Errorf("%w: %s has begun term %d and acts for the site", ErrLost, last.Holder, last.Term)
}

// Release ends the term once nothing is under way, so that the next holder need
// not wait. That includes what the term before may have left, see Clean.
func (t *Term) Release(ctx context.Context) error {
	t.renewing.Lock()
	defer t.renewing.Unlock()
	if t.isOver() {
		return nil
	}
	t.end()
	if err := t.write(ctx, tenure{Term: t.Number, Holder: t.Holder, Released: true}); err != nil && !errors.Is(err, ErrLost) {
		return fmt.Errorf("release term %d: %w", t.Number, err)
	}
	return nil
}

// Raise ends the term and begins one with a number above another one, in the same write. So there is
// no moment at which a crash would leave a term that was released, or another controller could begin
// one. After an error the term goes on, unless the error wraps ErrLost.
func (t *Term) Raise(ctx context.Context, above uint64) (*Term, error) {
	t.renewing.Lock()
	defer t.renewing.Unlock()
	if t.isOver() {
		return nil, t.why(ctx)
	}
	began := t.site.store.now()
	next := &Term{Number: max(t.Number, above) + 1, Last: t.Last, Holder: t.Holder, Began: began.clock, Clean: t.Clean, Latest: t.Latest,
		site: t.site, revision: t.revision, lost: make(chan struct{})}
	if err := next.write(ctx, tenure{Term: next.Number, Holder: t.Holder}); err != nil {
		return nil, fmt.Errorf("begin a term: %w", err)
	}
	t.end()
	next.extend(began)
	if shared := t.site.store.shared; shared != nil {
		shared.hold(next)
	}
	return next, nil
}

// Lost is closed when the term is over.
func (t *Term) Lost() <-chan struct{} { return t.lost }

// Deadline is the time until which writes may be sent. Each renewal extends it.
func (t *Term) Deadline() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.deadline
}

// Holds reports whether a write may be sent now. The deadline must not have
// passed on the monotonic clock or by the time of day: while a machine sleeps,
// only the time of day advances. A wrong time of day costs at most the time
// until the next renewal. In shared records, it must not have passed either on the
// clock that no one sets and that counts suspended time.
func (t *Term) Holds(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.ended && now.Before(t.deadline) && now.Round(0).Before(t.deadline.Round(0)) && t.site.store.isBefore(t.boot)
}

// Allowed returns why no write may be sent now, nil if one may. It looks at the clocks, and not at
// what timers have noticed: a process that was stopped and continues may ask before they run.
//
// With records of the daemon's own, only the monotonic clock counts: nobody else can begin a term, and a
// time of day that is set forward must not break off a step in its middle.
func (t *Term) Allowed() error {
	now := time.Now()
	if t.site.store.shared == nil && t.isBeforeDeadline(now) || t.Holds(now) {
		return nil
	}
	return fmt.Errorf("the lease of term %d could not be renewed in time", t.Number)
}

// isBeforeDeadline reports whether the lease lasts by the monotonic clock.
func (t *Term) isBeforeDeadline(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.ended && now.Before(t.deadline)
}

// Bound returns a context that ends when no more writes may be sent.
func (t *Term) Bound(ctx context.Context) (context.Context, context.CancelFunc) {
	t.mu.Lock()
	lapse := t.lapse
	t.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(lapse, func() {
		cancel(fmt.Errorf("the lease of term %d could not be renewed in time", t.Number))
	})
	return ctx, func() { stop(); cancel(nil) }
}

// extend makes the lease last from a given time.
func (t *Term) extend(from instant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	times := t.site.store.LeaseTimes()
	t.deadline, t.boot = from.clock.Add(times.Length-times.Margin), from.boot+times.Length-times.Margin
	left := time.Until(t.deadline)
	if t.timer != nil && t.timer.Stop() {
		t.timer.Reset(left)
		return
	}
	// The first context, or the previous one has ended.
	t.lapse, t.lapsed = context.WithCancel(context.Background())
	t.timer = time.AfterFunc(left, t.lapsed)
}

func (t *Term) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	t.lapsed()
	close(t.lost)
}

func (t *Term) isOver() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended
}

// instant is a moment on the clocks that a lease goes by.
type instant struct {
	clock time.Time
	boot  time.Duration // zero in records of the daemon's own
}

func (s *Store) now() instant {
	if s.shared == nil {
		return instant{clock: time.Now()}
	}
	return instant{time.Now(), s.shared.boot()}
}

// isBefore reports whether it is earlier than a time since the host was started.
func (s *Store) isBefore(boot time.Duration) bool {
	return s.shared == nil || s.shared.boot() < boot
}

// renewLimit is how long a renewal may take.
func (s *Store) renewLimit() time.Duration {
	if s.shared == nil {
		return Lease
	}
	return renewLimit
}

// own checks that the state directory is still the one that was opened. If it
// was removed or replaced under the process, it keeps no records, and another
// process could start beside this one.
func (s *Store) own() error {
	mine, err := s.lock.Stat()
	if errors.Is(err, fs.ErrClosed) {
		return errClosed
	} else if err != nil {
		return err
	}
	there, err := os.Stat(filepath.Join(s.dir, lockFile))
	if err != nil || !os.SameFile(mine, there) {
		return fmt.Errorf("the state directory %s was removed or replaced while it is in use: whatever is recorded now would be lost; put the directory back, or stop slipway and restore it from a backup", s.dir)
	}
	return nil
}

// Session is a login that a term made on a machine. It is recorded before any
// write through it, so that the next term can end it first.
type Session struct {
	Term uint64 `json:"term"`
	// Endpoint is the URL of the login, ID the session's name there.
	Endpoint string `json:"endpoint"`
	ID       string `json:"id"`
}

// Sessions are the sessions on one machine that may still exist.
type Sessions map[site.EndpointKind][]Session

// PutSessions records the sessions on a node's machine.
func (s *Site) PutSessions(ctx context.Context, node string, all Sessions) error {
	return s.put(ctx, sessionsKey(node), all)
}
