package review

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Records keeps what was done about proposals.
type Records interface {
	// PutProposed records p in place of the proposal's earlier record.
	PutProposed(ctx context.Context, p record.Proposed) error
}

// Recorded holds what is recorded of proposals. Its methods may be called by several
// goroutines at once.
type Recorded struct {
	records Records
	writing sync.Mutex // one change at a time
	all     proposals
}

// proposals holds the records, by number.
type proposals struct {
	mu sync.Mutex
	by map[int]record.Proposed
}

func (p *proposals) put(is record.Proposed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if is.Empty() {
		delete(p.by, is.Number)
	} else {
		p.by[is.Number] = is
	}
}

// NewRecorded returns an empty Recorded; see Load.
func NewRecorded(r Records) *Recorded {
	return &Recorded{records: r, all: proposals{by: map[int]record.Proposed{}}}
}

// Load adds what was recorded before.
func (m *Recorded) Load(all []record.Proposed) {
	for _, p := range all {
		m.all.put(p)
	}
}

// Of returns what was done about a proposal.
func (m *Recorded) Of(number int) record.Proposed {
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	p := m.all.by[number]
	p.Number = number
	return p
}

// All returns what was done about each proposal, sorted by number.
func (m *Recorded) All() []record.Proposed {
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	var all []record.Proposed
	for _, p := range m.all.by {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b record.Proposed) int { return a.Number - b.Number })
	return all
}

// Put replaces a proposal's record. It changes nothing if the present record differs
// from was.
func (m *Recorded) Put(ctx context.Context, was, is record.Proposed) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	if !reflect.DeepEqual(was, m.Of(was.Number)) {
		return nil
	}
	return m.write(ctx, is)
}

// write records a proposal. Call it with writing held.
func (m *Recorded) write(ctx context.Context, is record.Proposed) error {
	if reflect.DeepEqual(is, m.Of(is.Number)) {
		return nil
	}
	if err := m.records.PutProposed(ctx, is); err != nil {
		return fmt.Errorf("record proposal %d: %w", is.Number, err)
	}
	m.all.put(is)
	return nil
}

// TakeBack withdraws approvals by merges that are not in force yet: all losses of the
// set with the digest, or, if node is not empty, those of that node. It reports
// whether there were any.
func (m *Recorded) TakeBack(ctx context.Context, digest, node, by string) (bool, error) {
	m.writing.Lock()
	defer m.writing.Unlock()
	any := false
	for _, is := range m.All() {
		if is.Landed == nil || len(is.Landed.Pending) == 0 {
			continue
		}
		landed := *is.Landed
		landed.Pending = slices.DeleteFunc(slices.Clone(landed.Pending), func(l site.Loss) bool {
			return node == "" && landed.Set == digest || node != "" && l.Node == node
		})
		if len(landed.Pending) == len(is.Landed.Pending) {
			continue
		}
		any = true
		if len(landed.Pending) == 0 {
			landed.Unapproved = "it was taken back by " + by
		}
		is.Landed = &landed
		if err := m.write(ctx, is); err != nil {
			return any, err
		}
	}
	return any, nil
}
