package record

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/slipway-gitops/slipway/engine/site"
)

// seenPerRecord is how many nodes share one record of ages.
const seenPerRecord = 500

// maxBatch is the size in bytes at which a transaction is sent; etcd accepts
// 1.5 MiB.
const maxBatch = 512 << 10

// look is a node's last observation.
type look struct {
	observed site.Observed
	fresh    bool // since the last flush
	content  sum  // of the content known to be written; zero if unknown
}

// Observe takes the newest observation of a node. It stays in memory until
// Flush. Losing it only makes a restarted daemon's knowledge older.
func (s *Site) Observe(node string, o site.Observed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.seen[node]
	l.observed, l.fresh = o, true
	s.seen[node] = l
}

// Flush writes the observations whose content has changed, and when all of them
// were seen. It is called every few minutes and at the end.
func (s *Site) Flush(ctx context.Context) error {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	if err := s.flushContents(ctx); err != nil {
		return fmt.Errorf("write observations: %w", err)
	}
	if err := s.flushAges(ctx); err != nil {
		return fmt.Errorf("write ages of observations: %w", err)
	}
	return nil
}

func (s *Site) flushContents(ctx context.Context) error {
	fresh := s.takeFresh()
	err := s.writeWords(ctx, fresh)
	if err == nil {
		err = s.writeContents(ctx, fresh)
	}
	if err == nil {
		err = s.dropWords(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for node, was := range fresh {
		l, ok := s.seen[node]
		if !ok {
			continue // deleted meanwhile
		}
		l.content = was.content
		if err != nil {
			l.content, l.fresh = sum{}, true
		}
		s.seen[node] = l
	}
	return err
}

// takeFresh returns the observations since the last flush.
func (s *Site) takeFresh() map[string]look {
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh := map[string]look{}
	for node, l := range s.seen {
		if l.fresh {
			fresh[node] = l
			l.fresh = false
			s.seen[node] = l
		}
	}
	return fresh
}

// writeContents writes changed contents, many per transaction, and notes their
// sums.
func (s *Site) writeContents(ctx context.Context, fresh map[string]look) error {
	b := batch{site: s}
	for node, l := range fresh {
		value, err := content(l.observed)
		if err != nil {
			return err
		}
		is := sum(sha256.Sum256(value))
		if is == l.content {
			continue
		}
		l.content = is
		fresh[node] = l
		if err := b.put(ctx, observedKey(node), value); err != nil {
			return err
		}
	}
	return b.send(ctx)
}

// content encodes an observation without its times.
func content(o site.Observed) ([]byte, error) {
	o.Facets = maps.Clone(o.Facets)
	for name, f := range o.Facets {
		f.Seen = time.Time{}
		o.Facets[name] = f
	}
	return json.Marshal(o)
}

// batch groups writes into transactions.
type batch struct {
	site *Site
	ops  []clientv3.Op
	size int
}

// put adds a write, and sends the batch if it is large enough.
func (b *batch) put(ctx context.Context, key string, value []byte) error {
	if err := b.add(ctx, key, value); err != nil {
		return err
	}
	if len(b.ops) < batchOps && b.size < maxBatch {
		return nil
	}
	return b.send(ctx)
}

func (b *batch) add(ctx context.Context, key string, value []byte) error {
	op, err := b.site.opPut(ctx, key, value)
	if err != nil {
		return err
	}
	b.ops = append(b.ops, op)
	b.size += len(op.ValueBytes())
	return nil
}

func (b *batch) send(ctx context.Context) error {
	if len(b.ops) == 0 {
		return nil
	}
	err := b.site.commit(ctx, b.ops...)
	b.ops, b.size = nil, 0
	return err
}

// ages are when facets were last seen, in seconds since 1970, by node.
type ages map[string]map[site.Facet]int64

// flushAges writes when everything was last seen, in records of seenPerRecord nodes.
func (s *Site) flushAges(ctx context.Context) error {
	all := s.agesNow()
	nodes := slices.Sorted(maps.Keys(all))
	n := 0
	for chunk := range slices.Chunk(nodes, seenPerRecord) {
		some := ages{}
		for _, node := range chunk {
			some[node] = all[node]
		}
		if err := s.putAges(ctx, n, some); err != nil {
			return err
		}
		n++
	}
	return s.dropAges(ctx, n)
}

func (s *Site) agesNow() ages {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(ages, len(s.seen))
	for node, l := range s.seen {
		all[node] = make(map[site.Facet]int64, len(l.observed.Facets))
		for name, f := range l.observed.Facets {
			if !f.Seen.IsZero() {
				all[node][name] = f.Seen.Unix()
			}
		}
	}
	return all
}

func agesKey(n int) string { return fmt.Sprintf("seen/%06d", n) }

// putAges writes one compressed record of ages, unless it is known to be unchanged.
func (s *Site) putAges(ctx context.Context, n int, a ages) error {
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	is := sum(sha256.Sum256(b))
	if n < len(s.ages) && s.ages[n] == is {
		return nil
	}
	if n < len(s.ages) {
		s.ages[n] = sum{} // unknown until written
	} else {
		s.ages = append(s.ages, sum{})
	}
	if err := s.putBytes(ctx, agesKey(n), compress(b)); err != nil {
		return err
	}
	s.ages[n] = is
	return nil
}

// dropAges deletes the records of ages from the nth on.
func (s *Site) dropAges(ctx context.Context, n int) error {
	if len(s.ages) <= n {
		return nil
	}
	end := clientv3.GetPrefixRangeEnd(s.prefix + "seen/")
	if err := s.commit(ctx, clientv3.OpDelete(s.prefix+agesKey(n), clientv3.WithRange(end))); err != nil {
		return err
	}
	s.ages = s.ages[:n]
	return nil
}
