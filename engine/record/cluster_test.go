package record

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/slipway-gitops/slipway/engine/record/recordtest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// candidate is a controller of a test, without an engine.
type candidate struct {
	*Store
	t    *testing.T
	name string
	dir  string

	mu   sync.Mutex
	seen []Leader
}

// join opens the shared records as a controller with a state directory of its own.
func join(t *testing.T, c *recordtest.Cluster, name string, endpoints []string) *candidate {
	t.Helper()
	return joinAt(t, c, name, endpoints, t.TempDir(), nil)
}

func joinAt(t *testing.T, c *recordtest.Cluster, name string, endpoints []string, dir string, steps []migration) *candidate {
	t.Helper()
	s, err := Open(t.Context(), dir, Options{Cluster: &Cluster{Endpoints: endpoints, TLS: c.TLS(), Prefix: prefixOf(t)}, migrations: steps})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return &candidate{Store: s, t: t, name: name, dir: dir}
}

// prefixOf gives each test records of its own in an etcd that several use.
func prefixOf(t *testing.T) string { return "/" + t.Name() + "/" }

// lead leads the site and hands the term over, as an engine takes it. It returns how long that took.
func (c *candidate) lead() (*Site, *Term, time.Duration) {
	c.t.Helper()
	began := time.Now()
	must(c.t, c.Lead(c.t.Context(), "berlin", c.name, c.note))
	took := time.Since(began)
	b := c.Site("berlin")
	term, err := b.Acquire(c.t.Context(), c.name, 0)
	must(c.t, err)
	return b, term, took
}

func (c *candidate) note(l Leader) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, l)
}

// looks are what the candidate was told while it followed.
func (c *candidate) looks() []Leader {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.seen)
}

// keep renews a term as an engine does until the test or the term ends.
func keep(t *testing.T, term *Term) {
	go func() {
		for range time.Tick(sharedTimes.RenewEvery) {
			if t.Context().Err() != nil || errors.Is(term.Renew(t.Context()), ErrLost) {
				return
			}
		}
	}()
}

// large is a value that needs several chunks.
func large() []byte {
	r := rand.NewChaCha8([32]byte{1})
	text := make([]byte, 3*chunkSize/2)
	_, _ = r.Read(text)
	return fmt.Appendf(nil, "%q", hex.EncodeToString(text))
}

// One of two controllers leads. The other sees who, and leads once the first has ended its term.
// What the first recorded is there, with values of several chunks.
func TestControllersTakeTurns(t *testing.T) {
	t.Parallel()
	c := recordtest.StartCluster(t, 1, 0)
	a, b := join(t, c, "host a", c.Endpoints()), join(t, c, "host b", c.Endpoints())
	first, term, took := a.lead()
	if term.Number != 1 || !term.Clean || took > 5*time.Second {
		t.Errorf("the first term is %d, clean %t, after %s", term.Number, term.Clean, took)
	}
	keep(t, term)
	must(t, first.PutMessage(t.Context(), "large", large()))
	must(t, first.Accept(t.Context(), site.Revision{ID: "abc"}, &site.Site{Name: "berlin", Nodes: map[string]*site.Node{"n1": {Name: "n1"}}}))
	leads := make(chan time.Time, 1)
	go func() {
		_ = b.Lead(t.Context(), "berlin", b.name, func(l Leader) {
			b.note(l)
			if len(b.looks()) == 12 { // longer than a lease
				if err := term.Release(t.Context()); err != nil {
					t.Error(err)
				}
				leads <- time.Now()
			}
		})
		leads <- time.Now()
	}()
	released := <-leads
	if after := (<-leads).Sub(released); after > 4*time.Second {
		t.Errorf("leads %s after the first has ended its term", after)
	}
	for _, l := range b.looks()[:11] {
		if l.Holder != "host a" || l.Term != 1 || l.Released || l.Trouble != nil {
			t.Errorf("saw %+v", l)
		}
	}
	second := b.Site("berlin")
	now, err := second.Acquire(t.Context(), b.name, 0)
	must(t, err)
	if now.Number != 2 || !now.Clean {
		t.Errorf("the second term is %d, clean %t", now.Number, now.Clean)
	}
	snap := load(t, second)
	messages, err := second.Messages(t.Context())
	must(t, err)
	if snap.Accepted == nil || snap.Accepted.Design.Nodes["n1"] == nil || !bytes.Equal(messages["large"], large()) {
		t.Errorf("the successor reads %+v and %d bytes", snap.Accepted, len(messages["large"]))
	}
	if left, err := os.ReadDir(filepath.Join(a.dir, "files")); err == nil {
		t.Errorf("in the state directory are %v", left)
	}
}

// A leader that stands still, as one that SIGSTOP or a partition keeps from renewing, is followed by
// another within the length of a lease and a look. After that it writes no record, also if its own
// clocks had told it nothing.
func TestLeaderThatStandsStillWritesNothing(t *testing.T) {
	t.Parallel()
	c := recordtest.StartCluster(t, 1, 0)
	a, b := join(t, c, "host a", c.Endpoints()), join(t, c, "host b", c.Endpoints())
	old, term, _ := a.lead()
	must(t, old.PutNode(t.Context(), "n1", site.Recorded{Disrupted: day}))
	successor, next, took := b.lead()
	if took < sharedTimes.Length-time.Second || took > sharedTimes.Length+3*time.Second {
		t.Errorf("another led after %s", took)
	}
	if next.Number != 2 || next.Clean || term.Holds(time.Now()) || term.Allowed() == nil {
		t.Errorf("term %d, clean %t; the first holds: %v", next.Number, next.Clean, term.Allowed())
	}
	for what, write := range map[string]func() error{
		"a node":     func() error { return old.PutNode(t.Context(), "n1", site.Recorded{Disrupted: time.Now()}) },
		"a deletion": func() error { return old.DeleteNode(t.Context(), "n1") },
		"approval":   func() error { return old.Consume(t.Context(), "n1", site.Account{}, site.Recorded{}) },
		"a file":     func() error { return old.PutMessage(t.Context(), "m", large()) },
		"its term":   func() error { return term.Renew(t.Context()) },
		"another":    func() error { _, err := old.Acquire(t.Context(), "host a", 9); return err },
	} {
		if err := write(); !errors.Is(err, ErrLost) {
			t.Errorf("%s: %v", what, err)
		}
	}
	<-a.Lost()
	must(t, term.Release(t.Context()))
	must(t, next.Renew(t.Context()))
	snap := load(t, successor)
	messages, err := successor.Messages(t.Context())
	must(t, err)
	if got := snap.Nodes["n1"].Recorded.Disrupted; !got.Equal(day) || len(messages) != 0 {
		t.Errorf("the records were changed: %v, %d messages", got, len(messages))
	}
	if raised, err := next.Raise(t.Context(), 41); err != nil || raised.Number != 42 || raised.Clean {
		t.Errorf("raised, what the first may have under way is forgotten: %+v, %v", raised, err)
	}
}

// A host that was suspended finds its lease over, though its monotonic clock stood still and no
// timer has run.
func TestLeaseGoesByTheTimeSinceBoot(t *testing.T) {
	t.Parallel()
	c := recordtest.StartCluster(t, 1, 0)
	a := join(t, c, "host a", c.Endpoints())
	_, term, _ := a.lead()
	must(t, term.Allowed())
	a.shared.boot = func() time.Duration { return bootTime() + sharedTimes.Length - sharedTimes.Margin - time.Second }
	must(t, term.Allowed())
	a.shared.boot = func() time.Duration { return bootTime() + sharedTimes.Length - sharedTimes.Margin }
	if term.Allowed() == nil || term.Holds(time.Now()) {
		t.Error("the lease is over, and a write is allowed")
	}
	must(t, term.Renew(t.Context()))
	must(t, term.Allowed())
}

// Without a majority nothing is read, nothing written and no lease renewed; nobody takes over, and
// the leader goes on once the majority is back.
func TestWithoutQuorum(t *testing.T) {
	t.Parallel()
	c := recordtest.StartCluster(t, 3, 0)
	a := join(t, c, "host a", c.Endpoints())
	b, term, _ := a.lead()
	must(t, b.PutMessage(t.Context(), "m", []byte(`"1"`)))
	c.Kill(1)
	eventually(t, func() error { return term.Renew(t.Context()) }) // two of three, perhaps after an election
	c.Stop(2)
	lapsed, done := term.Bound(t.Context())
	defer done()
	for what, request := range map[string]func() error{
		"a read":    func() error { _, err := b.Messages(t.Context()); return err },
		"the term":  func() error { _, _, err := b.tenure(t.Context()); return err },
		"a write":   func() error { return b.PutMessage(t.Context(), "m", []byte(`"2"`)) },
		"a renewal": func() error { return term.Renew(t.Context()) },
	} {
		if err := request(); err == nil || errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "etcd at https://") {
			t.Errorf("%s without a majority: %v", what, err)
		}
	}
	<-lapsed.Done()
	if term.Allowed() == nil {
		t.Error("the lease is over, and a write is allowed")
	}
	c.Continue(2)
	c.Start(1)
	eventually(t, func() error { return term.Renew(t.Context()) })
	must(t, term.Allowed())
	select {
	case <-a.Lost():
		t.Error("nobody else leads, and the leader was told so")
	default:
	}
}

// eventually tries until there is no error.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for tick := time.NewTicker(200 * time.Millisecond); ; {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-tick.C:
		}
	}
}

// A leader that is cut off from etcd stops in time, another leads, and the first writes nothing when
// the line is back.
func TestLeaderIsCutOff(t *testing.T) {
	t.Parallel()
	c := recordtest.StartCluster(t, 3, 0)
	line := c.Line()
	a, b := join(t, c, "host a", line.Endpoints), join(t, c, "host b", c.Endpoints())
	old, term, _ := a.lead()
	bound, done := term.Bound(t.Context())
	defer done()
	line.Cut()
	cut := time.Now()
	if err := term.Renew(t.Context()); err == nil || errors.Is(err, ErrLost) {
		t.Errorf("renewed over a cut line: %v", err)
	}
	_, next, _ := b.lead()
	<-bound.Done()
	if stops := term.Deadline(); stops.After(cut.Add(sharedTimes.Length-sharedTimes.Margin)) || next.Began.Before(stops.Add(sharedTimes.Margin)) {
		t.Errorf("the first stopped %s after the cut, the second led after %s", stops.Sub(cut), next.Began.Sub(cut))
	}
	if term.Allowed() == nil {
		t.Error("the first may still write")
	}
	line.Mend()
	eventually(t, func() error {
		if err := old.Pause(t.Context(), &site.Hold{By: "late"}); !errors.Is(err, ErrLost) {
			return fmt.Errorf("a late write: %w", err)
		}
		return nil
	})
	<-a.Lost()
	must(t, next.Renew(t.Context()))
}

// An etcd that answers too late keeps no lease, and errors say so.
func TestSlowEtcd(t *testing.T) {
	t.Parallel()
	c := recordtest.StartCluster(t, 1, 0)
	line := c.Line()
	a := join(t, c, "host a", line.Endpoints)
	b, term, _ := a.lead()
	line.Slow(2 * time.Second)
	if err := term.Renew(t.Context()); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("renewed by a slow etcd: %v", err)
	}
	_ = b.PutMessage(t.Context(), "m", []byte(`"1"`)) // may be written or not
	line.Slow(0)
	eventually(t, func() error { return term.Renew(t.Context()) })
	must(t, term.Allowed())
	must(t, b.PutMessage(t.Context(), "m", []byte(`"2"`)))
}

// A full etcd keeps no lease either. Its history is not ours to drop.
func TestFullEtcd(t *testing.T) {
	t.Parallel()
	c := recordtest.StartCluster(t, 1, 6<<20)
	a := join(t, c, "host a", c.Endpoints())
	b, term, _ := a.lead()
	var err error
	for n := 0; err == nil && n < 100; n++ {
		err = b.PutMessage(t.Context(), fmt.Sprint(n), large())
	}
	if err == nil || !strings.Contains(err.Error(), "space quota") || !strings.Contains(err.Error(), "etcdctl alarm disarm") {
		t.Errorf("a full etcd: %v", err)
	}
	if err := term.Renew(t.Context()); err == nil || !strings.Contains(err.Error(), "space quota") {
		t.Errorf("renewed in a full etcd: %v", err)
	}
}

// A term whose record was deleted by hand, as any record of another program, is over: nobody knows
// who leads.
func TestTermDeletedInEtcd(t *testing.T) {
	t.Parallel()
	c := recordtest.StartCluster(t, 1, 0)
	a := join(t, c, "host a", c.Endpoints())
	_, term, _ := a.lead()
	client := c.Client()
	defer client.Close()
	_, err := client.Delete(t.Context(), a.shared.prefix+"/slipway/v1/berlin/term")
	must(t, err)
	if err := term.Renew(t.Context()); !errors.Is(err, ErrLost) || term.Allowed() == nil {
		t.Errorf("renewed: %v; a write is allowed: %v", err, term.Allowed() == nil)
	}
	<-a.Lost()
}

// What etcd holds beside the site's own records is never written over, and neither are records of a
// newer program. Lead ends with a sentence.
func TestWhatLeadRefuses(t *testing.T) {
	t.Parallel()
	c := recordtest.StartCluster(t, 1, 0)
	client := c.Client()
	defer client.Close()
	a := join(t, c, "host a", c.Endpoints())
	_, term, _ := a.lead()
	must(t, term.Release(t.Context()))
	below := prefixOf(t) + "berlin"
	put := func(key, value string) func() {
		was, err := client.Get(t.Context(), below+key)
		must(t, err)
		_, err = client.Put(t.Context(), below+key, value)
		must(t, err)
		return func() {
			if len(was.Kvs) == 0 {
				_, err = client.Delete(t.Context(), below+key)
			} else {
				_, err = client.Put(t.Context(), below+key, string(was.Kvs[0].Value))
			}
			must(t, err)
		}
	}
	for _, x := range []struct{ name, key, value, want string }{
		{"another site's records", "/slipway/v1/paris/term", "x", "/slipway/v1/paris/term in etcd is not a record of site berlin"},
		{"another site's file", "/slipway/files/paris/a/0", "x", "not a record of site berlin"},
		{"another program's key", "/registry/pods", "x", "/registry/pods in etcd is not a record"},
		{"a newer program's", versionKey, "99", "have version 99 and this slipway reads up to 5: install the newer slipway"},
		{"a damaged term", "/slipway/v1/berlin/term", `{"term":7}`, "are damaged: the record /slipway/v1/berlin/term does not have the checksum"},
		{"a damaged record", "/slipway/v1/berlin/nodes/n1", `{}`, "are damaged"},
	} {
		undo := put(x.key, x.value)
		b := join(t, c, "host b", c.Endpoints())
		err := b.Lead(t.Context(), "berlin", "host b", b.note)
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v", x.name, err)
		}
		if x.key != "/slipway/v1/berlin/term" {
			if last, _, err := b.Site("berlin").tenure(t.Context()); err != nil || !last.Released {
				t.Errorf("%s: the term is left as %+v, %v", x.name, last, err)
			}
		}
		undo()
		must(t, b.Close())
	}
	older := joinAt(t, c, "host c", c.Endpoints(), t.TempDir(), []migration{shout})
	if err := older.Lead(t.Context(), "berlin", "host c", older.note); err == nil || !strings.Contains(err.Error(), "have version 5 and this slipway reads up to 2") {
		t.Errorf("an older program: %v", err)
	}
}

// A controller that cannot open the records after one that was killed does not end its term: that
// would say that nothing of the killed one is under way.
func TestFailedStartAfterAKill(t *testing.T) {
	t.Parallel()
	c := recordtest.StartCluster(t, 1, 0)
	client := c.Client()
	defer client.Close()
	a, b := join(t, c, "host a", c.Endpoints()), join(t, c, "host b", c.Endpoints())
	a.lead()
	_, err := client.Put(t.Context(), prefixOf(t)+"berlin/slipway/v1/berlin/nodes/n1", "{}")
	must(t, err)
	if err := b.Lead(t.Context(), "berlin", "host b", b.note); err == nil || !strings.Contains(err.Error(), "are damaged") {
		t.Errorf("led: %v", err)
	}
	if last, _, err := b.Site("berlin").tenure(t.Context()); err != nil || last.Term != 2 || last.Released {
		t.Errorf("the term is left as %+v, %v", last, err)
	}
}

// A site's name may begin another's, whichever has records first: neither is seen in the other.
func TestSitesWhoseNamesBeginAlike(t *testing.T) {
	t.Parallel()
	c := recordtest.StartCluster(t, 1, 0)
	for _, name := range []string{"berlin2", "berlin", "berlin-mitte", "berlin0"} {
		s := join(t, c, "host a", c.Endpoints())
		must(t, s.Lead(t.Context(), name, "host a", s.note))
		b := s.Site(name)
		term, err := b.Acquire(t.Context(), "host a", 0)
		must(t, err)
		must(t, b.PutMessage(t.Context(), "m", large()))
		must(t, term.Release(t.Context()))
	}
	next := join(t, c, "host b", c.Endpoints())
	b, term, took := next.lead()
	messages, err := b.Messages(t.Context())
	must(t, err)
	if term.Number != 2 || took > 5*time.Second || len(messages) != 1 {
		t.Errorf("term %d after %s, %d messages", term.Number, took, len(messages))
	}
	all := 0
	must(t, next.everything(t.Context(), func(kv keyValue) error {
		if all++; !strings.HasPrefix(kv.key, b.prefix) {
			t.Errorf("%s is exported with site berlin", kv.key)
		}
		return nil
	}))
	if all == 0 {
		t.Error("nothing is exported")
	}
}

// A role in etcd for the keys of the site alone is enough for all that a controller does.
func TestRoleForTheSiteAlone(t *testing.T) {
	t.Parallel()
	c := recordtest.StartCluster(t, 1, 0)
	other := join(t, c, "host a", c.Endpoints())
	must(t, other.Lead(t.Context(), "berlin2", "host a", other.note))
	must(t, other.Close())
	client := c.Client()
	defer client.Close()
	below := prefixOf(t) + "berlin/"
	for _, ask := range []func(context.Context) error{
		func(ctx context.Context) error { _, err := client.UserAdd(ctx, "root", "secret"); return err },
		func(ctx context.Context) error { _, err := client.UserGrantRole(ctx, "root", "root"); return err },
		func(ctx context.Context) error { _, err := client.RoleAdd(ctx, "berlin"); return err },
		func(ctx context.Context) error {
			_, err := client.RoleGrantPermission(ctx, "berlin", below, clientv3.GetPrefixRangeEnd(below), clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func(ctx context.Context) error { // the name in the certificate
			_, err := client.UserAddWithOptions(ctx, "slipway", "", &clientv3.UserAddOptions{NoPassword: true})
			return err
		},
		func(ctx context.Context) error { _, err := client.UserGrantRole(ctx, "slipway", "berlin"); return err },
		func(ctx context.Context) error { _, err := client.AuthEnable(ctx); return err },
	} {
		must(t, ask(t.Context()))
	}
	if _, err := client.Get(t.Context(), prefixOf(t)+"berlin2"+versionKey); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Fatalf("the role allows more than the site: %v", err)
	}
	a, b := join(t, c, "host a", c.Endpoints()), join(t, c, "host b", c.Endpoints())
	first, term, _ := a.lead()
	must(t, first.PutMessage(t.Context(), "m", large()))
	must(t, term.Renew(t.Context()))
	load(t, first)
	must(t, a.everything(t.Context(), func(keyValue) error { return nil }))
	next, err := first.Acquire(t.Context(), "host a", 7)
	must(t, err)
	must(t, next.Release(t.Context()))
	second, now, took := b.lead()
	messages, err := second.Messages(t.Context())
	must(t, err)
	if now.Number != 9 || took > 5*time.Second || len(messages) != 1 {
		t.Errorf("term %d after %s, %d messages", now.Number, took, len(messages))
	}
	for _, l := range b.looks() {
		if l.Trouble != nil {
			t.Error(l.Trouble)
		}
	}
}

// A state directory remembers where its records are. A wrong prefix would find none, and have every
// machine adopted again.
func TestStateDirectoryKnowsItsRecords(t *testing.T) {
	t.Parallel()
	c := recordtest.StartCluster(t, 1, 0)
	a := join(t, c, "host a", c.Endpoints())
	_, term, _ := a.lead()
	must(t, term.Release(t.Context()))
	must(t, a.Close())
	wrong, err := Open(t.Context(), a.dir, Options{Cluster: &Cluster{Endpoints: c.Endpoints(), TLS: c.TLS(), Prefix: "/wrong/"}})
	must(t, err)
	if err := wrong.Lead(t.Context(), "berlin", "host a", a.note); err == nil || !strings.Contains(err.Error(), "correct --etcd-prefix") {
		t.Errorf("another prefix: %v", err)
	}
	must(t, wrong.Close())
	if _, err := Open(t.Context(), a.dir, quick); err == nil || !strings.Contains(err.Error(), "start with --etcd") {
		t.Errorf("without etcd: %v", err)
	}
	own := open(t, t.TempDir())
	must(t, own.Close())
	if _, err := Open(t.Context(), own.dir, Options{Cluster: &Cluster{Endpoints: c.Endpoints(), TLS: c.TLS(), Prefix: "/x/"}}); err == nil || !strings.Contains(err.Error(), "has records of its own") {
		t.Errorf("with records of its own: %v", err)
	}
}

// An etcd of another authority is not believed, and one that believes another authority is not
// reached. The follower says so and goes on trying.
func TestWrongAuthority(t *testing.T) {
	t.Parallel()
	c, other := recordtest.StartCluster(t, 1, 0), recordtest.StartCluster(t, 1, 0)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	a := join(t, other, "host a", c.Endpoints())
	err := a.Lead(ctx, "berlin", "host a", func(l Leader) {
		if a.note(l); len(a.looks()) == 2 {
			stop()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	for _, l := range a.looks() {
		if l.Trouble == nil || l.Term != 0 {
			t.Errorf("saw %+v", l)
		}
	}
}

// A value is complete before a record names it. What a killed controller left of one is swept.
func TestChunks(t *testing.T) {
	t.Parallel()
	c := recordtest.StartCluster(t, 1, 0)
	a := join(t, c, "host a", c.Endpoints())
	b, _, _ := a.lead()
	must(t, b.PutMessage(t.Context(), "m", large()))
	count := func() int64 {
		got, err := a.kv.Get(t.Context(), filesBelow, clientv3.WithPrefix(), clientv3.WithCountOnly())
		must(t, err)
		return got.Count
	}
	whole := count()
	if whole < 2 {
		t.Fatalf("%d chunks", whole)
	}
	half := errors.New("killed")
	if _, err := b.saveChunks(t.Context(), func(w io.Writer) error { _, _ = w.Write([]byte("x")); return half }); !errors.Is(err, half) || count() != whole {
		t.Errorf("an incomplete value: %v, %d chunks", err, count())
	}
	orphan, err := b.writeFile(t.Context(), []byte(strings.Repeat("orphan", 1000)))
	must(t, err)
	if count() == whole {
		t.Error("nothing was stored")
	}
	load(t, b)
	if count() != whole {
		t.Errorf("after a start there are %d chunks", count())
	}
	if _, err := b.readFile(t.Context(), orphan); err == nil {
		t.Error("what was swept is there")
	}
	// A chunk that is missing is damage, and no shorter value.
	got, err := a.kv.Get(t.Context(), filesBelow, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	must(t, err)
	_, err = a.kv.Delete(t.Context(), string(got.Kvs[len(got.Kvs)-1].Key))
	must(t, err)
	if _, err := b.Messages(t.Context()); err == nil || !strings.Contains(err.Error(), "do not have the content") {
		t.Errorf("with a chunk missing: %v", err)
	}
}

// A term can be raised without a moment in which another controller may begin one.
func TestRaisedTerm(t *testing.T) {
	t.Parallel()
	c := recordtest.StartCluster(t, 1, 0)
	a := join(t, c, "host a", c.Endpoints())
	b, term, _ := a.lead()
	next, err := b.Acquire(t.Context(), "host a", 41)
	must(t, err)
	if next.Number != 42 || !next.Clean || term.Holds(time.Now()) {
		t.Errorf("term %d, clean %t, the one before holds: %t", next.Number, next.Clean, term.Holds(time.Now()))
	}
	must(t, next.Allowed())
	must(t, next.Renew(t.Context()))
	must(t, b.PutMessage(t.Context(), "m", []byte(`"1"`)))
	select {
	case <-a.Lost():
		t.Error("it leads, and was told otherwise")
	default:
	}
}
