// Package recordtest keeps records in memory, for tests that open, copy and lose
// thousands of them.
package recordtest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Memory is the part of etcd that package record uses, without its history: the
// keys, their values, and the revision of each key's last write. Tests of
// package record check it against etcd.
type Memory struct {
	// Ask is called with the request's context before each request is carried
	// out, and again before its answer is returned; nil for never. If it returns
	// an error, that is the answer.
	Ask func(ctx context.Context) error

	mu       sync.Mutex
	revision int64
	changed  bool // by the request under way
	keys     map[string]value
}

type value struct {
	bytes    []byte
	revision int64
}

// NewMemory returns a store without keys.
func NewMemory() *Memory { return &Memory{keys: map[string]value{}} }

// Clone returns a copy of all present keys, without Ask.
func (m *Memory) Clone() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Memory{revision: m.revision, keys: maps.Clone(m.keys)}
}

// Get implements clientv3.KV.
func (m *Memory) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	r, err := m.Do(ctx, clientv3.OpGet(key, opts...))
	return r.Get(), err
}

// Put implements clientv3.KV.
func (m *Memory) Put(ctx context.Context, key, val string, opts ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	r, err := m.Do(ctx, clientv3.OpPut(key, val, opts...))
	return r.Put(), err
}

// Delete implements clientv3.KV.
func (m *Memory) Delete(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.DeleteResponse, error) {
	r, err := m.Do(ctx, clientv3.OpDelete(key, opts...))
	return r.Del(), err
}

// Compact implements clientv3.KV. There is no history to delete.
func (m *Memory) Compact(context.Context, int64, ...clientv3.CompactOption) (*clientv3.CompactResponse, error) {
	return &clientv3.CompactResponse{}, nil
}

// Do implements clientv3.KV.
func (m *Memory) Do(ctx context.Context, op clientv3.Op) (r clientv3.OpResponse, err error) {
	err = m.request(ctx, func(header *etcdserverpb.ResponseHeader) {
		switch is := m.doLocked(op, header); {
		case op.IsGet():
			r = (*clientv3.GetResponse)(is.GetResponseRange()).OpResponse()
		case op.IsPut():
			r = (*clientv3.PutResponse)(is.GetResponsePut()).OpResponse()
		default:
			r = (*clientv3.DeleteResponse)(is.GetResponseDeleteRange()).OpResponse()
		}
	})
	return r, err
}

// request carries out one request atomically. All its changes get one revision,
// which the header of its answers has.
func (m *Memory) request(ctx context.Context, do func(*etcdserverpb.ResponseHeader)) error {
	ask := m.Ask
	if ask == nil {
		ask = context.Context.Err
	}
	if err := ask(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	header := &etcdserverpb.ResponseHeader{}
	do(header)
	if m.changed {
		m.revision, m.changed = m.revision+1, false
	}
	header.Revision = m.revision
	m.mu.Unlock()
	return ask(ctx)
}

// doLocked carries out a part of a request.
func (m *Memory) doLocked(op clientv3.Op, header *etcdserverpb.ResponseHeader) *etcdserverpb.ResponseOp {
	switch key := string(op.KeyBytes()); {
	case op.IsGet() && op.Rev() == 0:
		return &etcdserverpb.ResponseOp{Response: &etcdserverpb.ResponseOp_ResponseRange{ResponseRange: m.rangeLocked(op, header)}}
	case op.IsPut():
		m.changed = true
		m.keys[key] = value{bytes.Clone(op.ValueBytes()), m.revision + 1}
		return &etcdserverpb.ResponseOp{Response: &etcdserverpb.ResponseOp_ResponsePut{ResponsePut: &etcdserverpb.PutResponse{Header: header}}}
	case op.IsDelete():
		there := m.betweenLocked(op)
		for _, key := range there {
			m.changed = true
			delete(m.keys, key)
		}
		return &etcdserverpb.ResponseOp{Response: &etcdserverpb.ResponseOp_ResponseDeleteRange{
			ResponseDeleteRange: &etcdserverpb.DeleteRangeResponse{Header: header, Deleted: int64(len(there))}}}
	}
	panic(fmt.Sprintf("recordtest: package record asks etcd for something new: %+v", op))
}

// betweenLocked returns the keys that an operation addresses, sorted.
func (m *Memory) betweenLocked(op clientv3.Op) (keys []string) {
	from, end := string(op.KeyBytes()), string(op.RangeBytes())
	if end == "" {
		if _, there := m.keys[from]; there {
			return []string{from}
		}
		return nil
	}
	for key := range m.keys {
		if key >= from && (key < end || end == "\x00") {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func (m *Memory) rangeLocked(op clientv3.Op, header *etcdserverpb.ResponseHeader) *etcdserverpb.RangeResponse {
	keys := m.betweenLocked(op)
	r := &etcdserverpb.RangeResponse{Header: header, Count: int64(len(keys))}
	if most := op.Limit(); most > 0 && r.Count > most {
		keys, r.More = keys[:most], true
	}
	if op.IsCountOnly() {
		return r
	}
	for _, key := range keys {
		v := m.keys[key]
		r.Kvs = append(r.Kvs, &mvccpb.KeyValue{Key: []byte(key), Value: bytes.Clone(v.bytes), ModRevision: v.revision})
	}
	return r
}

// Txn implements clientv3.KV.
func (m *Memory) Txn(ctx context.Context) clientv3.Txn { return &txn{m: m, ctx: ctx} }

// txn is one transaction.
type txn struct {
	m               *Memory
	ctx             context.Context
	compare         []clientv3.Cmp
	then, otherwise []clientv3.Op
}

func (t *txn) If(c ...clientv3.Cmp) clientv3.Txn  { t.compare = append(t.compare, c...); return t }
func (t *txn) Then(o ...clientv3.Op) clientv3.Txn { t.then = append(t.then, o...); return t }
func (t *txn) Else(o ...clientv3.Op) clientv3.Txn { t.otherwise = append(t.otherwise, o...); return t }

func (t *txn) Commit() (*clientv3.TxnResponse, error) {
	r := &clientv3.TxnResponse{}
	err := t.m.request(t.ctx, func(header *etcdserverpb.ResponseHeader) {
		r.Header = header
		r.Succeeded = !slices.ContainsFunc(t.compare, func(c clientv3.Cmp) bool { return !t.m.isLocked(c) })
		ops := t.then
		if !r.Succeeded {
			ops = t.otherwise
		}
		for _, op := range ops {
			r.Responses = append(r.Responses, t.m.doLocked(op, header))
		}
	})
	return r, err
}

// isLocked reports whether a comparison holds.
func (m *Memory) isLocked(c clientv3.Cmp) bool {
	if c.Target != etcdserverpb.Compare_MOD || c.Result != etcdserverpb.Compare_EQUAL {
		panic(fmt.Sprintf("recordtest: package record asks etcd for something new: %+v", c))
	}
	return m.keys[string(c.Key)].revision == (*etcdserverpb.Compare)(&c).GetModRevision()
}
