package record

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/slipway-gitops/slipway/engine/site"
)

// disturbed are records whose transactions a test comes between: before one is committed, or before
// its answer is told.
type disturbed struct {
	clientv3.KV
	before, after func() error
}

func (d disturbed) Txn(ctx context.Context) clientv3.Txn { return disturbedTxn{d.KV.Txn(ctx), d} }

type disturbedTxn struct {
	clientv3.Txn
	disturbed disturbed
}

func (t disturbedTxn) If(all ...clientv3.Cmp) clientv3.Txn {
	return disturbedTxn{t.Txn.If(all...), t.disturbed}
}

func (t disturbedTxn) Then(all ...clientv3.Op) clientv3.Txn {
	return disturbedTxn{t.Txn.Then(all...), t.disturbed}
}

func (t disturbedTxn) Commit() (*clientv3.TxnResponse, error) {
	if t.disturbed.before != nil {
		if err := t.disturbed.before(); err != nil {
			return nil, err
		}
	}
	got, err := t.Txn.Commit()
	if t.disturbed.after != nil && err == nil {
		err = t.disturbed.after()
	}
	return got, err
}

var errUnsure = errors.New("nobody knows whether it was written")

// After a use of which nobody knows whether it was recorded, what is recorded next is written, also
// where it is what the records had before.
func TestUnsureConsumptionIsWrittenOver(t *testing.T) {
	s := open(t, t.TempDir())
	b, ctx := s.Site("berlin"), t.Context()
	fill(t, b, 2)
	before := recorded(1)
	must(t, b.PutNode(ctx, "n00001", before))
	after := before
	after.InFlight = &site.InFlight{Step: site.Step{Node: "n00001", Action: site.ActionInstall, Impact: site.ImpactDestructive}, Since: day, Consumed: true}
	kv := s.kv
	s.kv = disturbed{KV: kv, after: func() error { return errUnsure }}
	if err := b.Consume(ctx, "n00001", accountOf("n00001"), after); !errors.Is(err, errUnsure) {
		t.Fatalf("got %v", err)
	}
	s.kv = kv
	must(t, b.PutNode(ctx, "n00001", before))
	same(t, "node", load(t, b).Nodes["n00001"].Recorded, before)
}

// A term that somebody else begins in the same moment is theirs, and the next one is ours.
func TestTermBesideAnother(t *testing.T) {
	s := open(t, t.TempDir())
	kv, first := s.kv, true
	s.kv = disturbed{KV: kv, before: func() error {
		if first {
			first = false
			acquire(t, s.Site("berlin"), "the faster one")
		}
		return nil
	}}
	term := acquire(t, s.Site("berlin"), "the slower one")
	if term.Number != 2 || term.Last != 1 || term.Clean {
		t.Errorf("term %d after %d, clean %t", term.Number, term.Last, term.Clean)
	}
	must(t, term.Renew(t.Context()))
}

// A term of which nobody knows whether it was recorded is not begun.
func TestUnsureTermIsNotBegun(t *testing.T) {
	s := open(t, t.TempDir())
	kv, times := s.kv, 0
	s.kv = disturbed{KV: kv, after: func() error {
		if times++; times == 1 {
			return errUnsure
		}
		return nil
	}}
	if term, err := s.Site("berlin").Acquire(t.Context(), "here", 0); !errors.Is(err, errUnsure) {
		t.Errorf("got %+v, %v", term, err)
	}
}

// A lease that cannot be written down is not renewed, and the record of the term stays as it was.
func TestRenewalThatCannotBeWritten(t *testing.T) {
	s := open(t, t.TempDir())
	term := acquire(t, s.Site("berlin"), "here")
	term.SetBack(unwritable) // as a clock that is far ahead
	if err := term.Renew(t.Context()); err == nil {
		t.Error("renewed")
	}
	if next := acquire(t, s.Site("berlin"), "there"); next.Number != 2 {
		t.Errorf("the next term is %d", next.Number)
	}
}

// A use whose step cannot be stored is not recorded.
func TestConsumptionThatCannotBeStored(t *testing.T) {
	s := open(t, t.TempDir())
	b, ctx := s.Site("berlin"), t.Context()
	large := recorded(1)
	large.Last.Reason = strings.Repeat("x", maxValue)
	must(t, os.RemoveAll(s.files()))
	if err := b.Consume(ctx, "n00001", accountOf("n00001"), large); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	must(t, os.Mkdir(s.files(), 0o700))
	if snap := load(t, b); len(snap.Accounts) != 0 || len(snap.Nodes) != 0 {
		t.Errorf("recorded are %+v and %+v", snap.Accounts, snap.Nodes)
	}
}
