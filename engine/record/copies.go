package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"
)

const (
	artifactsKey = "artifacts/"
	holdersKey   = "holders/"
	copiesKey    = "copies/"
)

// Artifact is a file that the artifact stores of all daemons of a site are to have. Only the daemon that leads
// writes it.
type Artifact struct {
	// SHA256 is the file's digest, in lower-case hex.
	SHA256 string `json:"-"`
	// Name and Source are as in the artifact store. Size is in bytes.
	Name   string `json:"name"`
	Source string `json:"source,omitempty"`
	Size   int64  `json:"size"`
	// Needed is set while the design in force, an installation or an open proposal names it.
	Needed bool `json:"needed,omitempty"`
	// Added is when it was first recorded, by the clock of the daemon that led then.
	Added time.Time `json:"added"`
	// Removed is when it was collected: daemons that still have it remove it. The record of that stays for 30 days,
	// and until none is known to have it.
	Removed time.Time `json:"removed,omitzero"`
}

// Holder is a daemon of a site with an artifact store, which writes this of itself.
type Holder struct {
	// Name is the member's address with members, and else a random text of the store.
	Name string `json:"-"`
	// Host names the daemon for people.
	Host string `json:"host"`
	// Address is HOST:PORT where it gives copies to the others; empty if it gives none.
	Address string `json:"address,omitempty"`
	// Key is the SHA-256 of the public key that it shows to the others, in hex.
	Key string `json:"key"`
	// Beat changes with each write, so that others see that it runs without comparing clocks.
	Beat uint64 `json:"beat"`
	// Time is when that was, by its own clock.
	Time time.Time `json:"time"`
	// Trouble is why it lacks artifacts that it should have; empty if nothing is wrong.
	Trouble string `json:"trouble,omitempty"`
	// Has are the digests of the whole files in its store.
	Has map[string]bool `json:"-"`
}

// Shelves is what the records say of the artifact stores of all daemons at one moment, by digest and by name.
type Shelves struct {
	Artifacts map[string]Artifact
	Holders   map[string]Holder
	// Gone are the names of holders that are not daemons among the members any more. They are not in Holders.
	Gone []string
}

// Copies are the records of a site about artifact stores, for a daemon that leads and for those that follow.
// Each writes only of itself here.
type Copies struct {
	store   *Store
	kv      clientv3.KV
	prefix  string
	version string
}

// Copies returns the records about artifact stores; nil for records of the daemon's own.
func (s *Store) Copies(siteName string) *Copies {
	if s.shared == nil {
		return nil
	}
	esc := url.PathEscape(siteName)
	return &Copies{
		store: s, kv: namespace.NewKV(s.shared.client.KV, s.shared.Prefix+esc),
		prefix: keysBelow + esc + "/", version: strconv.Itoa(1 + len(s.steps)),
	}
}

// Read returns what a majority knows now.
func (c *Copies) Read(ctx context.Context) (Shelves, error) {
	var got *clientv3.TxnResponse
	below := func(key string) clientv3.Op { return clientv3.OpGet(c.prefix+key, clientv3.WithPrefix()) }
	err := c.store.do(ctx, func(ctx context.Context) (err error) {
		got, err = c.kv.Txn(ctx).Then(below(artifactsKey), below(holdersKey), below(copiesKey)).Commit()
		return err
	})
	if err != nil {
		return Shelves{}, fmt.Errorf("read which artifacts the daemons have: %w", err)
	}
	s := Shelves{Artifacts: map[string]Artifact{}, Holders: map[string]Holder{}}
	all := func(i int) []*mvccpb.KeyValue { return got.Responses[i].GetResponseRange().Kvs }
	err = errors.Join(
		c.decode(all(0), artifactsKey, func(digest string, value []byte) error {
			a := Artifact{SHA256: digest}
			err := json.Unmarshal(value, &a)
			s.Artifacts[digest] = a
			return err
		}),
		c.decode(all(1), holdersKey, func(rest string, value []byte) error {
			name, err := url.PathUnescape(rest)
			h := Holder{Name: name, Has: map[string]bool{}}
			err = errors.Join(err, json.Unmarshal(value, &h))
			s.Holders[name] = h
			return err
		}),
		c.decode(all(2), copiesKey, func(rest string, _ []byte) error {
			name, digest, _ := strings.Cut(rest, "/")
			name, err := url.PathUnescape(name)
			if h, is := s.Holders[name]; is {
				h.Has[digest] = true
			}
			return err
		}))
	if err != nil {
		return Shelves{}, err
	}
	s.dropStrangers(c.store.daemons())
	return s, nil
}

// decode calls f for each record, with what comes after the key's beginning.
func (c *Copies) decode(all []*mvccpb.KeyValue, below string, f func(rest string, value []byte) error) error {
	for _, kv := range all {
		value, err := unseal(string(kv.Key), kv.Value)
		if err == nil {
			err = f(strings.TrimPrefix(string(kv.Key), c.prefix+below), value)
		}
		if err != nil {
			return damaged(err)
		}
	}
	return nil
}

// daemons are the addresses of the members that are daemons; nil without members.
func (s *Store) daemons() map[string]bool {
	if s.shared == nil || s.shared.Peer == nil {
		return nil
	}
	are := map[string]bool{}
	for _, m := range s.etcd.members() {
		if !m.Witness {
			are[m.Address] = true
		}
	}
	return are
}

func (s *Shelves) dropStrangers(daemons map[string]bool) {
	if daemons == nil {
		return
	}
	for name := range s.Holders {
		if !daemons[name] {
			s.Gone = append(s.Gone, name)
			delete(s.Holders, name)
		}
	}
	slices.Sort(s.Gone)
}

// IsDaemon reports whether a holder of this name may be one of the site's daemons, as this process knows now.
func (c *Copies) IsDaemon(name string) bool {
	are := c.store.daemons()
	return are == nil || are[name]
}

// Tell writes what this daemon says of itself, and which artifacts it has now and has no more. Nothing is
// written while the records are of another version than this program's.
func (c *Copies) Tell(ctx context.Context, h Holder, has, lacks []string) error {
	value, err := json.Marshal(h)
	if err != nil {
		return err
	}
	ops := []clientv3.Op{opSealed(c.prefix+holdersKey+url.PathEscape(h.Name), value)}
	for _, digest := range has {
		ops = append(ops, opSealed(c.copyKey(h.Name, digest), []byte("true")))
	}
	for _, digest := range lacks {
		ops = append(ops, clientv3.OpDelete(c.copyKey(h.Name, digest)))
	}
	for some := range slices.Chunk(ops, batchOps) {
		if err := c.write(ctx, some); err != nil {
			return fmt.Errorf("record which artifacts this daemon has: %w", err)
		}
	}
	return nil
}

func (c *Copies) copyKey(name, digest string) string {
	return c.prefix + copiesKey + url.PathEscape(name) + "/" + digest
}

func (c *Copies) write(ctx context.Context, ops []clientv3.Op) error {
	if err := c.store.own(); err != nil {
		return err
	}
	var got *clientv3.TxnResponse
	err := c.store.do(ctx, func(ctx context.Context) (err error) {
		got, err = c.kv.Txn(ctx).If(clientv3.Compare(clientv3.Value(versionKey), "=", c.version)).Then(ops...).Commit()
		return err
	})
	if err == nil && !got.Succeeded {
		err = ErrNotYet
	}
	return err
}

// ErrNotYet is wrapped if there are no records that this program may write to: no daemon has led the site yet,
// or they have another version until a daemon of this version leads.
var ErrNotYet = errors.New("the site's records are not those of this version of slipway yet")

// PutArtifacts records artifacts, as the daemon that leads.
func (s *Site) PutArtifacts(ctx context.Context, all ...Artifact) error {
	b := batch{site: s}
	for _, a := range all {
		value, err := json.Marshal(a)
		if err != nil {
			return err
		}
		if err := b.put(ctx, artifactsKey+a.SHA256, value); err != nil {
			return err
		}
	}
	return b.send(ctx)
}

// DropArtifacts deletes the records of artifacts that no daemon has.
func (s *Site) DropArtifacts(ctx context.Context, digests ...string) error {
	for some := range slices.Chunk(digests, batchOps) {
		var ops []clientv3.Op
		for _, digest := range some {
			ops = append(ops, clientv3.OpDelete(s.prefix+artifactsKey+digest))
		}
		if err := s.commit(ctx, ops...); err != nil {
			return err
		}
	}
	return nil
}

// DropHolders deletes what daemons that are gone for good have recorded of themselves.
func (s *Site) DropHolders(ctx context.Context, names ...string) error {
	for _, name := range names {
		esc := url.PathEscape(name)
		if err := s.commit(ctx, clientv3.OpDelete(s.prefix+holdersKey+esc), clientv3.OpDelete(s.prefix+copiesKey+esc+"/", clientv3.WithPrefix())); err != nil {
			return err
		}
	}
	return nil
}

// distrustCopies forgets which artifacts were collected: they may have been added again since the export, and every
// daemon would remove its copy. It also forgets the keys of daemons: one may have been removed since. Each that runs
// writes its own again.
func (s *Site) distrustCopies(ctx context.Context) error {
	var digests []string
	holders := map[string]Holder{} // by the end of the key
	err := errors.Join(
		s.each(ctx, artifactsKey, func(digest string, value []byte) error {
			var a Artifact
			if err := json.Unmarshal(value, &a); err != nil {
				return damaged(err)
			}
			if !a.Removed.IsZero() {
				digests = append(digests, digest)
			}
			return nil
		}),
		s.each(ctx, holdersKey, func(rest string, value []byte) error {
			var h Holder
			if err := json.Unmarshal(value, &h); err != nil {
				return damaged(err)
			}
			h.Key = ""
			holders[rest] = h
			return nil
		}))
	if err != nil {
		return fmt.Errorf("read the records of artifacts of site %s: %w", s.name, err)
	}
	for rest, h := range holders {
		if err := s.put(ctx, holdersKey+rest, h); err != nil {
			return err
		}
	}
	return s.DropArtifacts(ctx, digests...)
}

// HoldersOf returns the names of the daemons that have an artifact, sorted.
func (s Shelves) HoldersOf(digest string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(s.Holders)) {
		if s.Holders[name].Has[digest] {
			names = append(names, name)
		}
	}
	return names
}
