package record

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// lookEvery is how often a follower looks whether the leader has renewed its lease.
const lookEvery = time.Second

// Leader is who leads a site, as a controller that follows sees it.
type Leader struct {
	// Holder and Term are of the last term; zero if there was none. Released is set if the holder
	// has ended it.
	Holder   string
	Term     uint64
	Released bool
	// Trouble is why etcd could not be asked the last time.
	Trouble error
}

// openShared connects to a shared etcd.
func (s *Store) openShared(ctx context.Context, opts Options) (err error) {
	if opts.Cluster.Peer != nil {
		return s.openPeer(ctx, opts)
	}
	if s.shared, err = opts.Cluster.connect(); err != nil {
		return err
	}
	s.steps = opts.steps()
	s.etcd = &member{started: make(chan struct{})}
	s.etcd.ctx, s.etcd.fail = context.WithCancelCause(context.Background())
	close(s.etcd.started)
	return s.checkDirectory()
}

// ask runs a request to a shared etcd, for a limited time.
func (s *Store) ask(ctx context.Context, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, requestLimit, errSlow)
	defer cancel()
	err := request(ctx)
	if err == nil {
		return nil
	}
	return cmp.Or(s.stopped(), s.shared.unanswered(ctx, err))
}

// depose notes that this process does not lead the site any more.
func (s *Store) depose() {
	if s.shared != nil {
		s.shared.depose()
	}
}

// Lead waits until this process leads the site, begins a term and opens the records. It must be
// called once, before the records are used, and for one site. The caller names the process in
// holder, and is told at every look who leads.
//
// The lease of the last holder has ended when its record did not change during the length of a
// lease, as this process saw it. The holder stops earlier: it counts from before its renewal, and
// keeps a margin. The clocks of both need not agree, only run at the same speed. No lease of etcd is
// used, because etcd ends one too early or too late when its own members are stopped or changed.
//
// Lead fails if etcd holds what this program must not write over, and when the member of this process
// cannot continue. It does not fail because etcd does not answer.
func (s *Store) Lead(ctx context.Context, siteName, holder string, tell func(Leader)) error {
	if s.shared == nil {
		return errors.New("records of the daemon's own are led by its only process")
	}
	b := s.Site(siteName)
	s.shared.below(b.name)
	s.kv = s.shared.raw
	if err := s.noteWhereabouts(); err != nil {
		return err
	}
	var last seenTerm
	for wait := time.Duration(0); ; wait = last.wait(s.shared.boot()) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.etcd.ctx.Done():
			return s.stopped()
		case <-time.After(wait):
		}
		err := b.look(ctx, &last)
		tell(Leader{Holder: last.tenure.Holder, Term: last.tenure.Term, Released: last.tenure.Released, Trouble: err})
		switch {
		case isFinal(err):
			return s.shared.inEtcd(err)
		case err != nil || !last.isOver(s.shared.boot()):
			continue
		}
		switch err := b.begin(ctx, holder, last); {
		case errors.Is(err, ErrLost): // somebody else was faster, or the leader has renewed
		case err != nil:
			tell(Leader{Holder: last.tenure.Holder, Term: last.tenure.Term, Released: last.tenure.Released, Trouble: err})
		default:
			return s.openLed(ctx)
		}
	}
}

// isFinal reports whether an error is about what etcd holds.
func isFinal(err error) bool {
	return errors.As(err, new(*damage)) || errors.As(err, new(foreign))
}

// inEtcd says of damaged records that they are in etcd.
func (c *shared) inEtcd(err error) error {
	d, ok := errors.AsType[*damage](err)
	switch {
	case ok && c.Peer != nil:
		return fmt.Errorf("the records below %s that the members keep are damaged: %w: stop all daemons and witnesses and begin again with a backup, by `slipway member init --restore` (docs/members.md)", c.prefix, d.err)
	case ok:
		return fmt.Errorf("the records below %s in the etcd at %s are damaged: %w: restore a snapshot of etcd; or use another prefix and a new state directory, "+
			"which adopts every machine as it is and asks for approvals again", c.prefix, c, d.err)
	}
	return err
}

// seenTerm is the record of the last term as a follower saw it.
type seenTerm struct {
	tenure   tenure
	revision int64         // 0 if there is none
	known    bool          // it was read
	fresh    bool          // there are no records yet, not even their version
	since    time.Duration // when this revision was first read, since the host was started
}

// isOver reports whether the holder of the term does not write any more.
func (t *seenTerm) isOver(now time.Duration) bool {
	return t.known && (t.revision == 0 || t.tenure.Released || now-t.since >= sharedTimes.Length)
}

// wait is how long to wait for the next look.
func (t *seenTerm) wait(now time.Duration) time.Duration {
	if left := t.since + sharedTimes.Length - now; t.known && left > 0 {
		return min(lookEvery, left)
	}
	return lookEvery
}

// look reads who leads, and whether this process may lead after that.
func (s *Site) look(ctx context.Context, last *seenTerm) error {
	ctx, cancel := context.WithTimeoutCause(ctx, renewLimit, errSlow)
	defer cancel()
	if err := s.store.own(); err != nil {
		return err
	}
	if !last.known {
		if err := s.store.checkForeign(ctx, s.name); err != nil {
			return err
		}
	}
	now, revision, err := s.tenure(ctx)
	if err != nil {
		return err
	}
	at := s.store.shared.boot() // after the answer, so that a lease counts from no earlier
	fresh, err := s.store.checkVersion(ctx)
	if err != nil {
		return err
	}
	if !last.known || revision != last.revision {
		*last = seenTerm{now, revision, true, fresh, at}
	}
	return nil
}

// checkVersion refuses records of a newer program, or without a version. It reports whether there
// are none at all, and changes nothing.
func (s *Store) checkVersion(ctx context.Context) (fresh bool, err error) {
	text, fresh, err := s.readVersion(ctx)
	if err != nil || fresh {
		return fresh, err
	}
	newest := 1 + len(s.steps)
	if version, err := strconv.Atoi(text); err == nil && version > newest {
		return false, foreign{fmt.Errorf("the records in etcd have version %d and this slipway reads up to %d: install the newer slipway on this host too", version, newest)}
	}
	return false, nil
}

// begin begins a term after the last one, unless its record has changed since. With it changes the
// fence: from then on etcd refuses every write of earlier leaders.
func (s *Site) begin(ctx context.Context, holder string, last seenTerm) error {
	c := s.store.shared
	t := &Term{
		Number: last.tenure.Term + 1, Holder: holder, Began: time.Now(),
		Clean:  last.tenure.Released || last.revision == 0,
		Latest: last.tenure.Time,
		site:   s, lost: make(chan struct{}),
	}
	began := s.store.now()
	value, err := json.Marshal(tenure{Term: t.Number, Holder: holder, Time: later(t.Began, t.Latest)})
	if err != nil {
		return err
	}
	unchanged := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(s.prefix+"term"), "=", last.revision)}
	ops := []clientv3.Op{opSealed(s.prefix+"term", value), opSealed(s.prefix+fenceKey, []byte(strconv.FormatUint(t.Number, 10)))}
	if last.fresh {
		unchanged = append(unchanged, clientv3.Compare(clientv3.ModRevision(versionKey), "=", 0))
		ops = append(ops, clientv3.OpPut(versionKey, strconv.Itoa(1+len(s.store.steps))))
	}
	var got *clientv3.TxnResponse
	err = s.store.do(ctx, func(ctx context.Context) (err error) {
		got, err = c.raw.Txn(ctx).If(unchanged...).Then(ops...).Commit()
		return err
	})
	if err != nil {
		return fmt.Errorf("begin a term: %w", err)
	}
	if !got.Succeeded {
		return ErrLost
	}
	t.revision = got.Header.Revision
	t.extend(began)
	c.hold(t)
	s.store.kv = fenced{KV: c.raw, key: s.prefix + fenceKey, revision: t.revision, refused: c.depose}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// openLed migrates and checks the records of a site that this process leads, and keeps its term
// until the engine does. If that fails it ends the term, unless requests of the term before may still
// be under way: a released term says that none are, and another controller would destroy without waiting.
func (s *Store) openLed(ctx context.Context) error {
	t := s.shared.held()
	go s.keepTerm(t)
	err := s.settleVersion(ctx, s.steps)
	if err == nil {
		err = s.checkRecords(ctx)
	}
	if err == nil {
		return nil
	}
	if t.Clean {
		err = errors.Join(err, t.Release(context.WithoutCancel(ctx)))
	}
	return s.shared.inEtcd(err)
}

// keepTerm renews a term until the engine has it or the store is closed.
func (s *Store) keepTerm(t *Term) {
	wait := sharedTimes.RenewEvery
	for {
		select {
		case <-s.shared.took:
			return
		case <-s.etcd.ctx.Done():
			return
		case <-t.Lost():
			return
		case <-time.After(wait):
		}
		wait = sharedTimes.RenewEvery
		if t.Renew(s.etcd.ctx) != nil {
			wait = sharedTimes.RetryEvery
		}
	}
}

// continued returns the term that this process leads by. If it must have a number above another
// one, a new term continues it, without a moment in which another controller could begin one.
func (s *Site) continued(ctx context.Context, above uint64) (*Term, error) {
	t := s.store.shared.held()
	if t == nil || s.store.shared.prefixName() != s.name {
		return nil, fmt.Errorf("%w: this process does not lead site %s", ErrLost, s.name)
	}
	defer s.store.shared.take()
	if above < t.Number {
		return t, t.Renew(ctx)
	}
	return t.Raise(ctx, above)
}

// prefixName returns the escaped name of the site that the store is for.
func (c *shared) prefixName() string {
	if len(c.prefix) < len(c.Prefix) {
		return ""
	}
	return c.prefix[len(c.Prefix):]
}
