package record

import (
	"context"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// fenceKey is written when a controller begins to lead, and at no other time: its revision is the
// token by which etcd refuses the writes of the controllers before. A renewal of the lease leaves it
// alone.
const fenceKey = "fence"

// fenced is an etcd that carries out a write only while nobody else has begun to lead the site. It
// decides in the transaction of the write itself, so a controller that was stopped and continues
// changes no record of its successor. Reads pass, and are linearizable.
type fenced struct {
	clientv3.KV
	key      string
	revision int64
	refused  func() // called when a write was refused
}

func (f fenced) Put(ctx context.Context, key, value string, opts ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	got, err := f.Txn(ctx).Then(clientv3.OpPut(key, value, opts...)).Commit()
	if err != nil {
		return nil, err
	}
	return (*clientv3.PutResponse)(got.Responses[0].GetResponsePut()), nil
}

func (f fenced) Delete(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.DeleteResponse, error) {
	got, err := f.Txn(ctx).Then(clientv3.OpDelete(key, opts...)).Commit()
	if err != nil {
		return nil, err
	}
	return (*clientv3.DeleteResponse)(got.Responses[0].GetResponseDeleteRange()), nil
}

// Do passes reads only: nothing here writes by it.
func (f fenced) Do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	if !op.IsGet() {
		return clientv3.OpResponse{}, fmt.Errorf("a write without a fence")
	}
	return f.KV.Do(ctx, op)
}

func (f fenced) Txn(ctx context.Context) clientv3.Txn {
	return &fencedTxn{f: f, ctx: ctx}
}

type fencedTxn struct {
	f        fenced
	ctx      context.Context
	compares []clientv3.Cmp
	then     []clientv3.Op
	els      []clientv3.Op
}

func (t *fencedTxn) If(cs ...clientv3.Cmp) clientv3.Txn   { t.compares = cs; return t }
func (t *fencedTxn) Then(ops ...clientv3.Op) clientv3.Txn { t.then = ops; return t }
func (t *fencedTxn) Else(ops ...clientv3.Op) clientv3.Txn { t.els = ops; return t }

func (t *fencedTxn) Commit() (*clientv3.TxnResponse, error) {
	isGet := func(op clientv3.Op) bool { return op.IsGet() }
	plain := t.f.KV.Txn(t.ctx)
	if !slices.ContainsFunc(slices.Concat(t.then, t.els), func(op clientv3.Op) bool { return !isGet(op) }) {
		return plain.If(t.compares...).Then(t.then...).Else(t.els...).Commit()
	}
	held := clientv3.Compare(clientv3.ModRevision(t.f.key), "=", t.f.revision)
	got, err := plain.If(append(slices.Clone(t.compares), held)...).Then(t.then...).
		Else(append([]clientv3.Op{clientv3.OpGet(t.f.key)}, t.els...)...).Commit()
	if err != nil || got.Succeeded {
		return got, err
	}
	if now := got.Responses[0].GetResponseRange(); !t.f.isHeld(now) {
		t.f.refused()
		return nil, fmt.Errorf("%w: another controller leads the site, and this record was not written", ErrLost)
	}
	got.Responses = got.Responses[1:]
	return got, nil
}

// isHeld reports whether the fence is the one that this controller has set.
func (f fenced) isHeld(now *etcdserverpb.RangeResponse) bool {
	return len(now.Kvs) == 1 && now.Kvs[0].ModRevision == f.revision
}
