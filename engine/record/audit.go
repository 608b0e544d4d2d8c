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

// How many attempts are kept: of those who had the right to them, and of the others. They are apart,
// so that somebody without rights cannot make the first be forgotten.
const (
	auditEntries  = 4096
	deniedEntries = 1024
)

// auditLog knows which entries are kept, by ring.
type auditLog struct {
	mu    sync.Mutex
	known bool
	last  uint64
	rings map[string][]uint64 // Seq of the entries, oldest first
	// denied is the last entry that was denied: the same again is counted in it.
	denied site.AuditEntry
}

const (
	auditBelow  = "audit/"
	deniedBelow = "denied/"
)

func ringOf(e site.AuditEntry) (below string, most int) {
	if e.IsDenied() {
		return deniedBelow, deniedEntries
	}
	return auditBelow, auditEntries
}

func auditKey(below string, seq uint64) string { return fmt.Sprintf("%s%020d", below, seq) }

// deniedAgain is how soon the same attempt that was denied is counted in the entry of the last one.
const deniedAgain = 10 * time.Minute

// AddAudit records an attempt and gives it its Seq. One that was denied like the last one is counted
// there.
func (s *Site) AddAudit(ctx context.Context, e site.AuditEntry) (site.AuditEntry, error) {
	a := &s.audit
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := s.readRings(ctx, a); err != nil {
		return e, fmt.Errorf("read the audit log: %w", err)
	}
	if d := a.denied; e.IsDenied() && d.SameAttempt(&e) && e.When.Sub(d.When) < deniedAgain {
		d.Times = max(d.Times, 1) + max(e.Times, 1)
		if err := s.put(ctx, auditKey(deniedBelow, d.Seq), d); err != nil {
			return e, fmt.Errorf("record an attempt: %w", err)
		}
		a.denied = d
		return d, nil
	}
	e.Seq = max(a.last+1, uint64(e.When.UnixMicro()))
	below, most := ringOf(e)
	b := batch{site: s}
	value, err := json.Marshal(e)
	if err == nil {
		err = b.add(auditKey(below, e.Seq), value)
	}
	ring := append(a.rings[below], e.Seq)
	old := max(0, len(ring)-most)
	for _, seq := range ring[:old] {
		b.ops = append(b.ops, clientv3.OpDelete(s.prefix+auditKey(below, seq)))
	}
	if err == nil {
		err = b.send(ctx)
	}
	if err != nil {
		return e, fmt.Errorf("record an attempt: %w", err)
	}
	a.last, a.rings[below] = e.Seq, ring[old:]
	if e.IsDenied() {
		a.denied = e
	}
	return e, nil
}

// readRings reads which entries there are, once.
func (s *Site) readRings(ctx context.Context, a *auditLog) error {
	if a.known {
		return nil
	}
	rings, last := map[string][]uint64{}, uint64(0)
	for _, below := range []string{auditBelow, deniedBelow} {
		if err := s.each(ctx, below, func(rest string, _ []byte) error {
			seq, err := strconv.ParseUint(rest, 10, 64)
			if err != nil {
				return damaged(err)
			}
			rings[below], last = append(rings[below], seq), max(last, seq)
			return nil
		}); err != nil {
			return err
		}
	}
	a.known, a.rings, a.last = true, rings, last
	return nil
}

// EndAudit records what came of an attempt that AddAudit has recorded as begun.
func (s *Site) EndAudit(ctx context.Context, e site.AuditEntry) error {
	if err := s.put(ctx, auditKey(auditBelow, e.Seq), e); err != nil {
		return fmt.Errorf("record what came of an attempt: %w", err)
	}
	return nil
}

// Audit are the recorded attempts with a Seq above after, oldest first.
func (s *Site) Audit(ctx context.Context, after uint64) ([]site.AuditEntry, error) {
	var all []site.AuditEntry
	for _, below := range []string{auditBelow, deniedBelow} {
		if err := s.each(ctx, below, func(_ string, value []byte) error {
			value, err := s.read(value)
			if err != nil {
				return err
			}
			var e site.AuditEntry
			if err := json.Unmarshal(value, &e); err != nil {
				return damaged(err)
			}
			if e.Seq > after {
				all = append(all, e)
			}
			return nil
		}); err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
	}
	slices.SortFunc(all, func(a, b site.AuditEntry) int { return cmp.Compare(a.Seq, b.Seq) })
	return all, nil
}
