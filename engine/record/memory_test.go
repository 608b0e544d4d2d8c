package record

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/slipway-gitops/slipway/engine/record/recordtest"
)

// What tests keep in memory answers as etcd does: the same requests, drawn at
// random, have the same answers from both.
func TestMemoryAnswersAsEtcd(t *testing.T) {
	etcd, memory := open(t, t.TempDir()).kv, clientv3.KV(recordtest.NewMemory())
	first, err := etcd.Get(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	base := first.Header.Revision // what opening has written
	dice := rand.New(rand.NewPCG(1, 1))
	key := func() string { return fmt.Sprintf("a/%d", dice.IntN(12)) }
	op := func() clientv3.Op {
		switch dice.IntN(4) {
		case 0:
			return clientv3.OpDelete(key())
		case 1:
			return clientv3.OpDelete(fmt.Sprintf("a/%d", dice.IntN(3)), clientv3.WithRange(fmt.Sprintf("a/%d", dice.IntN(3))))
		case 2:
			return clientv3.OpGet("a/1", clientv3.WithRange("a/9"), clientv3.WithLimit(int64(dice.IntN(3))))
		}
		return clientv3.OpPut(key(), fmt.Sprint(dice.IntN(1000)))
	}
	known := map[string]int64{}
	for i := range 2000 {
		put, at := clientv3.OpPut(key(), fmt.Sprint(i)), key()
		compare := known[at] + int64(dice.IntN(2))
		then, otherwise := []clientv3.Op{put, clientv3.OpGet(at)}, []clientv3.Op{op()}
		all := func(kv clientv3.KV, base int64) (any, error) {
			revision := compare
			if revision > 0 {
				revision += base
			}
			txn, err := kv.Txn(t.Context()).If(clientv3.Compare(clientv3.ModRevision(at), "=", revision)).Then(then...).Else(otherwise...).Commit()
			if err != nil {
				return nil, err
			}
			got, err := kv.Get(t.Context(), "a/", clientv3.WithPrefix())
			if err != nil {
				return nil, err
			}
			var told []any
			for _, r := range txn.Responses {
				told = append(told, simply(r.GetResponseRange(), base), r.GetResponseDeleteRange().GetDeleted())
			}
			if kv == memory {
				clear(known)
				for _, x := range got.Kvs {
					known[string(x.Key)] = x.ModRevision
				}
			}
			return []any{txn.Succeeded, txn.Header.Revision - base, told, simply((*etcdserverpb.RangeResponse)(got), base)}, nil
		}
		want, err1 := all(etcd, base)
		have, err2 := all(memory, 0)
		if err1 != nil || err2 != nil || !reflect.DeepEqual(want, have) {
			t.Fatalf("request %d: etcd says %v %v, memory %v %v", i, want, err1, have, err2)
		}
	}
}

// simply is an answer without what only etcd knows.
func simply(r *etcdserverpb.RangeResponse, base int64) any {
	if r == nil {
		return nil
	}
	kvs := []mvccpb.KeyValue{}
	for _, x := range r.Kvs {
		kvs = append(kvs, mvccpb.KeyValue{Key: x.Key, Value: x.Value, ModRevision: x.ModRevision - base})
	}
	return []any{kvs, r.More, r.Count}
}
