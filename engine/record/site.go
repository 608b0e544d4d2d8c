package record

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/slipway-gitops/slipway/engine/site"
)

// maxValue is the largest value kept in etcd, in bytes; with its checksum it
// has 64 KiB.
const maxValue = 64<<10 - sealSize

// removalWindow is how long a removal counts and is kept.
const removalWindow = 24 * time.Hour

// Accepted is the last good design.
type Accepted struct {
	Revision site.Revision
	// SchemaVersion is the version that the design was evaluated with.
	SchemaVersion string
	Design        *site.Site
	When          time.Time
}

// Removal is a node that was removed from the records.
type Removal struct {
	Node string    `json:"node"`
	When time.Time `json:"when"`
}

// Snapshot is everything that is recorded of a site.
type Snapshot struct {
	Accepted *Accepted // nil before the first good design
	Nodes    map[string]site.Memory
	// Book is zero until the engine has created it.
	Book     Book
	Accounts map[string]site.Account // by node, including nodes that are gone
	Proposed []Proposed
	Paused   *site.Hold
	Removals []Removal // of the last 24 hours
	// Granted is what people have approved of the access of the design.
	Granted site.GrantedState
	// Watched is when Slipway looked at the machines at all.
	Watched site.Watched
	// Incidents are by their IDs; nil without any.
	Incidents map[string]site.IncidentState
	// Delivered is which secrets machines were given, by node or other holder, also of nodes that are gone;
	// nil without any.
	Delivered map[string]site.Delivered
	// Revoked is what authorities for TLS revoked, by their fingerprints; nil without any.
	Revoked map[string]site.RevocationList
	// Rollout is the last one, nil before the first.
	Rollout *site.RolloutStatus
	// Forecast is what was expected of its nodes; nil if that is not known.
	Forecast *site.ForecastAtStart
	History  site.History
	// Sessions are the last known sessions, by node.
	Sessions map[string]Sessions
}

// Site is the records of one site. Its methods may be called concurrently,
// except those for the same node. What a method has written is durable when it
// returns nil. After an error it may be written or not.
type Site struct {
	store  *Store
	prefix string // of every key; ends in "/"
	name   string // escaped

	mu   sync.Mutex
	sums map[string]sum  // known sums of the nodes' records, by node
	seen map[string]look // last observations, by node
	used string          // the file of the design

	flushing sync.Mutex
	ages     []sum           // known sums of the records of ages
	words    map[string]bool // written keys of terms and registries

	rolling        sync.Mutex
	nodesOfRollout sum        // what is written of them; zero when that is unknown
	telling        sync.Mutex // held while events are added to those that there are

	audit auditLog
}

// sum identifies a value without storing it.
type sum [sha256.Size]byte

// Site returns the records of a site.
func (s *Store) Site(name string) *Site {
	esc := url.PathEscape(name)
	return &Site{
		store: s, name: esc, prefix: "/slipway/v1/" + esc + "/",
		sums: map[string]sum{}, seen: map[string]look{}, words: map[string]bool{},
	}
}

// Store returns the store that contains the records.
func (s *Site) Store() *Store { return s.store }

// acceptance is the value under "accepted".
type acceptance struct {
	Revision      site.Revision `json:"revision"`
	SchemaVersion string        `json:"schemaVersion"`
	Design        string        `json:"design"` // digest of the file
	When          time.Time     `json:"when"`
}

// Accept records the last good design. The design is a file that is complete
// before the record points to it. The previous file is removed.
func (s *Site) Accept(ctx context.Context, rev site.Revision, design *site.Site) error {
	digest, err := s.writeDesign(ctx, design)
	if err != nil {
		return fmt.Errorf("write design: %w", err)
	}
	a := acceptance{Revision: rev, SchemaVersion: design.SchemaVersion, Design: digest, When: time.Now()}
	if err := s.put(ctx, "accepted", a); err != nil {
		return err
	}
	s.mu.Lock()
	old := s.used
	s.used = digest
	s.mu.Unlock()
	if old != "" && old != digest {
		return s.dropFile(ctx, old)
	}
	return nil
}

// PutNode records what was done to a node's machine, if that has changed. It
// drops a departed node's origins, which point into a revision that is no
// longer in force.
func (s *Site) PutNode(ctx context.Context, node string, r site.Recorded) error {
	if d := r.Departed; d != nil && d.Node != nil {
		bare, departed := *d.Node, *d
		bare.Origins = nil
		departed.Node, r.Departed = &bare, &departed
	}
	value, err := json.Marshal(r)
	if err != nil {
		return err
	}
	is := sha256.Sum256(value)
	if s.isWritten(node, is) {
		return nil
	}
	if err := s.putBytes(ctx, nodeKey(node), value); err != nil {
		return err
	}
	s.setSum(node, is)
	return nil
}

// isWritten reports whether the record of a node has the given digest. If not, the node's digest is
// unknown until the new record is written.
func (s *Site) isWritten(node string, is sum) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, known := s.sums[node]; known && was == is {
		return true
	}
	delete(s.sums, node)
	return false
}

// setSum notes the digest of a node's record.
func (s *Site) setSum(node string, is sum) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sums[node] = is
}

// forgetSum forgets the digest of a node's record.
func (s *Site) forgetSum(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sums, node)
}

// DeleteNode deletes everything about a node, except its account.
func (s *Site) DeleteNode(ctx context.Context, node string) error {
	s.flushing.Lock() // so that no flush restores it
	defer s.flushing.Unlock()
	s.forgetNode(node)
	if err := s.deleteInventory(ctx, node); err != nil {
		return err
	}
	return s.commit(ctx, clientv3.OpDelete(s.prefix+nodeKey(node)), clientv3.OpDelete(s.prefix+observedKey(node)),
		clientv3.OpDelete(s.prefix+eventsKey(node)), clientv3.OpDelete(s.prefix+sessionsKey(node)), clientv3.OpDelete(s.prefix+saidKey(node)))
}

// forgetNode drops what memory holds about a node's records.
func (s *Site) forgetNode(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sums, node)
	delete(s.seen, node)
}

// Pause records a hold on the whole site; nil resumes.
func (s *Site) Pause(ctx context.Context, h *site.Hold) error {
	if h == nil {
		return s.commit(ctx, clientv3.OpDelete(s.prefix+"paused"))
	}
	return s.put(ctx, "paused", h)
}

// Removed records that a node was removed, for the limit on removals in 24
// hours.
func (s *Site) Removed(ctx context.Context, r Removal) error {
	return s.put(ctx, "removals/"+r.When.UTC().Format(time.RFC3339Nano)+"."+url.PathEscape(r.Node), r)
}

func nodeKey(node string) string     { return "nodes/" + url.PathEscape(node) }
func observedKey(node string) string { return "observed/" + url.PathEscape(node) }
func sessionsKey(node string) string { return "sessions/" + url.PathEscape(node) }

// nameOf returns the name in the rest of a key.
func nameOf(rest string) (string, error) {
	name, err := url.PathUnescape(rest)
	if err != nil {
		return "", damaged(fmt.Errorf("key %q: %w", rest, err))
	}
	return name, nil
}

// put writes a value as JSON.
func (s *Site) put(ctx context.Context, key string, v any) error {
	value, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.putBytes(ctx, key, value)
}

func (s *Site) putBytes(ctx context.Context, key string, value []byte) error {
	op, err := s.opPut(ctx, key, value)
	if err != nil {
		return err
	}
	return s.commit(ctx, op)
}

// opPut returns the operation that writes a value; a large value goes into a file.
func (s *Site) opPut(ctx context.Context, key string, value []byte) (clientv3.Op, error) {
	if len(value) <= maxValue {
		return opSealed(s.prefix+key, value), nil
	}
	digest, err := s.writeFile(ctx, value)
	if err != nil {
		return clientv3.Op{}, fmt.Errorf("write %s: %w", key, err)
	}
	return opSealed(s.prefix+key, []byte("@"+digest)), nil
}

// read returns the value itself, from its file if it has one.
func (s *Site) read(ctx context.Context, value []byte) ([]byte, error) {
	digest, large := strings.CutPrefix(string(value), "@")
	if !large {
		return value, nil
	}
	return s.readFile(ctx, digest)
}

// commit runs operations in one transaction, if the state directory is still ours.
func (s *Site) commit(ctx context.Context, ops ...clientv3.Op) error {
	if err := s.store.own(); err != nil {
		return err
	}
	return s.store.txn(ctx, ops)
}

// txn runs operations in one transaction.
func (s *Store) txn(ctx context.Context, ops []clientv3.Op) error {
	return s.write(ctx, func(ctx context.Context) error {
		_, err := s.kv.Txn(ctx).Then(ops...).Commit()
		return err
	})
}

// write runs a request that writes to etcd. If there is no room, it makes room
// and tries once more.
func (s *Store) write(ctx context.Context, request func(context.Context) error) error {
	err := s.do(ctx, request)
	if !errors.Is(err, rpctypes.ErrNoSpace) || s.shared != nil { // history in a shared etcd is others' too
		return err
	}
	if err := s.makeRoom(ctx); err != nil {
		return err
	}
	return s.full(s.do(ctx, request))
}

// do runs a request to etcd, and ends it if etcd cannot continue. It sends
// nothing to a stopped etcd, whose log might accept what fails here. It sends
// nothing for an ended context either, because etcd might still write it.
func (s *Store) do(ctx context.Context, request func(context.Context) error) error {
	if err := cmp.Or(s.stopped(), context.Cause(ctx)); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.etcd.ctx, func() { cancel(context.Cause(s.etcd.ctx)) })()
	if s.shared != nil {
		return s.ask(ctx, request)
	}
	err := request(ctx)
	if err == nil {
		return nil
	}
	return cmp.Or(s.stopped(), err)
}

// stopped says why etcd cannot continue, nil while it can.
func (s *Store) stopped() error {
	switch failed := context.Cause(s.etcd.ctx); {
	case failed == nil || errors.Is(failed, errClosed) || errors.As(failed, new(foreign)):
		return failed
	default:
		return fmt.Errorf("the record store has stopped: %w: see to the disk of %s, then restart slipway", failed, s.dir)
	}
}

// each calls f for every key of the site with a prefix, in order.
func (s *Site) each(ctx context.Context, below string, f func(rest string, value []byte) error) error {
	const page = 256
	first := s.prefix + below
	end := clientv3.GetPrefixRangeEnd(first)
	from := first
	for {
		var got *clientv3.GetResponse
		if err := s.store.do(ctx, func(ctx context.Context) (err error) {
			got, err = s.store.kv.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(page))
			return err
		}); err != nil {
			return err
		}
		for _, kv := range got.Kvs {
			value, err := unseal(string(kv.Key), kv.Value)
			if err != nil {
				return err
			}
			if err := f(strings.TrimPrefix(string(kv.Key), first), value); err != nil {
				return err
			}
			from = string(kv.Key) + "\x00"
		}
		if !got.More {
			return nil
		}
	}
}
