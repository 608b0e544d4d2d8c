package record

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/slipway-gitops/slipway/engine/site"
)

// How many attempts are kept. Rings are apart so that nobody can have what weighs more be forgotten: what
// persons decided, what else they did, what programs did, what was denied to callers that are known, and
// what to nobody in particular. In each, one caller has a share: beyond that its own oldest goes first.
var auditRings = []auditRing{
	{"audit/decided/", 4096, 512},
	{"audit/persons/", 2048, 512},
	{"audit/programs/", 1024, 256},
	{"audit/denied/", 1024, 256},
	{"audit/nobody/", 256, 64},
}

// auditRing is one of them: where its entries are, and how many there are at most, of all and of one caller.
type auditRing struct {
	below           string
	most, mostOfOne int
}

// decisions are the verbs that weigh most.
var decisions = map[string]bool{"approve": true, "disapprove": true, "release": true, "quarantine": true, "incident": true, "grant": true, "take-over": true, "export": true}

func ringOf(e *site.AuditEntry) auditRing {
	n := 1
	switch isProgram := e.Kind == "token"; {
	case e.Kind == "nobody":
		n = 4
	case e.IsDenied():
		n = 3
	case isProgram:
		n = 2
	case decisions[e.Verb]:
		n = 0
	}
	return auditRings[n]
}

// callerIn is whose share an entry counts in.
func callerIn(e *site.AuditEntry) string {
	if e.Kind == "nobody" {
		return e.From
	}
	return e.Kind + " " + e.By
}

// auditLog knows which entries are kept, by ring.
type auditLog struct {
	mu    sync.Mutex
	known bool
	last  uint64
	rings map[string][]kept // by below, oldest first
	// denied are the last that were denied, oldest first: the same again is counted in them.
	denied []site.AuditEntry
}

// kept is an entry that is in the records.
type kept struct {
	seq uint64
	who string
}

func auditKey(below string, seq uint64) string { return fmt.Sprintf("%s%020d", below, seq) }

// deniedAgain is how soon the same attempt that was denied is counted in the entry of the one before, of
// so many.
const (
	deniedAgain  = 10 * time.Minute
	deniedInMind = 64
)

// AddAudit records an attempt and gives it its Seq. One that was denied like one of the last ones is
// counted there.
func (s *Site) AddAudit(ctx context.Context, e site.AuditEntry) (site.AuditEntry, error) {
	a := &s.audit
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := s.readRings(ctx, a); err != nil {
		return e, fmt.Errorf("read the audit log: %w", err)
	}
	ring := ringOf(&e)
	if i := a.same(&e); i >= 0 {
		d := a.denied[i]
		d.Times = max(d.Times, 1) + max(e.Times, 1)
		if err := s.put(ctx, auditKey(ring.below, d.Seq), d); err != nil {
			return e, fmt.Errorf("record an attempt: %w", err)
		}
		a.denied[i] = d
		return d, nil
	}
	e.Seq = max(a.last+1, uint64(e.When.UnixMicro()))
	b := batch{site: s}
	value, err := json.Marshal(e)
	if err == nil {
		err = b.add(ctx, auditKey(ring.below, e.Seq), value)
	}
	left, gone := ring.with(a.rings[ring.below], kept{e.Seq, callerIn(&e)})
	for _, seq := range gone {
		b.ops = append(b.ops, clientv3.OpDelete(s.prefix+auditKey(ring.below, seq)))
	}
	if err == nil {
		err = b.send(ctx)
	}
	if err != nil {
		return e, fmt.Errorf("record an attempt: %w", err)
	}
	a.last, a.rings[ring.below] = e.Seq, left
	if e.IsDenied() {
		a.denied = append(a.denied[max(0, len(a.denied)-deniedInMind+1):], e)
	}
	return e, nil
}

// same is where the entry of the same attempt is that was denied not long ago and is still kept; -1 for none.
func (a *auditLog) same(e *site.AuditEntry) int {
	if !e.IsDenied() {
		return -1
	}
	return slices.IndexFunc(a.denied, func(d site.AuditEntry) bool {
		return d.SameAttempt(e) && e.When.Sub(d.When) < deniedAgain && a.has(ringOf(&d).below, d.Seq)
	})
}

func (a *auditLog) has(below string, seq uint64) bool {
	return slices.ContainsFunc(a.rings[below], func(k kept) bool { return k.seq == seq })
}

// with is a ring with one entry more, and those that go for it.
func (r auditRing) with(before []kept, next kept) (left []kept, gone []uint64) {
	own := 1
	for _, k := range before {
		if k.who == next.who {
			own++
		}
	}
	for i, k := range before {
		if own > r.mostOfOne && k.who == next.who || own <= r.mostOfOne && len(before)-i+len(left) >= r.most {
			gone = append(gone, k.seq)
			if k.who == next.who {
				own--
			}
			continue
		}
		left = append(left, k)
	}
	return append(left, next), gone
}

// readRings reads which entries there are, once.
func (s *Site) readRings(ctx context.Context, a *auditLog) error {
	if a.known {
		return nil
	}
	rings, last := map[string][]kept{}, uint64(0)
	for _, ring := range auditRings {
		if err := s.eachAudit(ctx, ring, func(seq uint64, e *site.AuditEntry) {
			rings[ring.below], last = append(rings[ring.below], kept{seq, callerIn(e)}), max(last, seq)
		}); err != nil {
			return err
		}
	}
	a.known, a.rings, a.last = true, rings, last
	return nil
}

// eachAudit gives the entries of a ring, oldest first.
func (s *Site) eachAudit(ctx context.Context, ring auditRing, take func(uint64, *site.AuditEntry)) error {
	return s.each(ctx, ring.below, func(rest string, value []byte) error {
		seq, err := strconv.ParseUint(rest, 10, 64)
		if err != nil {
			return damaged(err)
		}
		e, err := s.auditEntry(ctx, value)
		if err != nil {
			return err
		}
		take(seq, e)
		return nil
	})
}

// EndAudit records what came of an attempt that AddAudit has recorded as begun. One that is not kept any
// more is not put back.
func (s *Site) EndAudit(ctx context.Context, e site.AuditEntry) error {
	a := &s.audit
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := s.readRings(ctx, a); err != nil {
		return fmt.Errorf("read the audit log: %w", err)
	}
	below := ringOf(&e).below
	if !a.has(below, e.Seq) {
		return nil
	}
	if err := s.put(ctx, auditKey(below, e.Seq), e); err != nil {
		return fmt.Errorf("record what came of an attempt: %w", err)
	}
	return nil
}

// Audit are the first recorded attempts with a Seq above after, oldest first, at most so many. Only these
// are read.
func (s *Site) Audit(ctx context.Context, after uint64, most int) ([]site.AuditEntry, error) {
	keys, err := s.auditKeys(ctx, after, most)
	var all []site.AuditEntry
	for some := range slices.Chunk(keys, batchOps) {
		if err == nil {
			all, err = s.readAudit(ctx, some, all)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	return all, nil
}

// auditKeys are the keys of the first entries with a Seq above after, of all rings in the order of their Seq.
func (s *Site) auditKeys(ctx context.Context, after uint64, most int) ([]string, error) {
	type found struct {
		seq uint64
		key string
	}
	a := &s.audit
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := s.readRings(ctx, a); err != nil {
		return nil, err
	}
	var all []found
	for below, ring := range a.rings {
		for _, k := range ring {
			if k.seq > after {
				all = append(all, found{k.seq, auditKey(below, k.seq)})
			}
		}
	}
	slices.SortFunc(all, func(x, y found) int { return cmp.Compare(x.seq, y.seq) })
	var keys []string
	for _, f := range all[:min(len(all), most)] {
		keys = append(keys, f.key)
	}
	return keys, nil
}

// readAudit appends the entries of keys, as far as they are still kept.
func (s *Site) readAudit(ctx context.Context, keys []string, all []site.AuditEntry) ([]site.AuditEntry, error) {
	ops := make([]clientv3.Op, len(keys))
	for i, key := range keys {
		ops[i] = clientv3.OpGet(s.prefix + key)
	}
	var got *clientv3.TxnResponse
	if err := s.store.do(ctx, func(ctx context.Context) (err error) {
		got, err = s.store.kv.Txn(ctx).Then(ops...).Commit()
		return err
	}); err != nil {
		return nil, err
	}
	for _, r := range got.Responses {
		for _, kv := range r.GetResponseRange().Kvs {
			value, err := unseal(string(kv.Key), kv.Value)
			if err != nil {
				return nil, err
			}
			e, err := s.auditEntry(ctx, value)
			if err != nil {
				return nil, err
			}
			all = append(all, *e)
		}
	}
	return all, nil
}

// auditEntry reads the value of an entry.
func (s *Site) auditEntry(ctx context.Context, value []byte) (*site.AuditEntry, error) {
	value, err := s.read(ctx, value)
	if err != nil {
		return nil, err
	}
	var e site.AuditEntry
	if err := json.Unmarshal(value, &e); err != nil {
		return nil, damaged(err)
	}
	return &e, nil
}
