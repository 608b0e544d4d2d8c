package record

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// follow has a host follow, and returns what it was last told, and what it ended with.
func (h *host) follow() (last func() Leader, ended <-chan error) {
	told, end := make(chan Leader, 1), make(chan error, 1)
	told <- Leader{}
	ctx, cancel := context.WithCancel(h.t.Context())
	h.t.Cleanup(cancel)
	go func() {
		end <- h.Lead(ctx, "berlin", h.address(), func(l Leader) { <-told; told <- l })
	}()
	return func() Leader { l := <-told; told <- l; return l }, end
}

// A newer program that leads while the other hosts are not upgraded yet takes the records to its version. The others
// keep their members, so that there is a majority, say what to do, and lead nothing.
func TestUpgradeOfMembersOneByOne(t *testing.T) {
	t.Parallel()
	all, b, term := grown(t)
	must(t, b.PutMessage(t.Context(), "early", []byte(`1`)))
	newSteps := append(migrations[:len(migrations):len(migrations)], migration{"a test", func(context.Context, *Store, string, []byte) ([]clientv3.Op, error) { return nil, nil }})
	newest := fmt.Sprint(1 + len(newSteps))
	a, n, old := all[0], all[1], all[2]
	n.down()
	n.steps = newSteps
	must(t, n.open())
	n.votes(3)
	must(t, term.Release(t.Context()))
	a.down()
	b, term = n.lead()
	must(t, b.PutMessage(t.Context(), "upgraded", []byte(`2`)))
	says := fmt.Sprintf("have version %s and this slipway reads up to %d: install the newer slipway on this host too; until then it keeps its copy of the records and votes, but cannot lead", newest, 1+len(migrations))
	refuses := func(last func() Leader, ended <-chan error) {
		t.Helper()
		soon(t, "it says so", func() error {
			select {
			case err := <-ended:
				t.Fatalf("it has ended, and with it its member: %v", err)
			default:
			}
			if l := last(); l.Trouble == nil || !strings.Contains(l.Trouble.Error(), says) || l.Term == 0 {
				return fmt.Errorf("%+v", l)
			}
			return nil
		})
	}
	oldLast, oldEnded := old.follow()
	refuses(oldLast, oldEnded)
	must(t, b.PutMessage(t.Context(), "with the old one's vote", []byte(`3`)))
	must(t, a.open()) // as after a downgrade: it has an older copy of the records
	aLast, aEnded := a.follow()
	refuses(aLast, aEnded)
	must(t, term.Release(t.Context()))
	n.down()
	refuses(oldLast, oldEnded)
	refuses(aLast, aEnded)
	old.Close()
	<-oldEnded
	old.steps = newSteps
	must(t, old.open())
	b, _ = old.lead()
	messages, err := b.Messages(t.Context())
	must(t, err)
	version, _, err := old.readVersion(t.Context())
	if must(t, err); version != newest || len(messages) != 3 {
		t.Errorf("version %s, %v", version, messages)
	}
}

// A member whose data a newer etcd has written does not start, and its data is not given away.
func TestMemberOfNewerEtcd(t *testing.T) {
	t.Parallel()
	h := hosts(t, 1)[0]
	must(t, h.open())
	must(t, h.etcd.serves(t.Context()))
	soon(t, "the version is known", func() error {
		if v := h.etcd.etcd.Server.ClusterVersion(); v == nil {
			return fmt.Errorf("none")
		}
		return nil
	})
	h.down()
	db, err := bbolt.Open(filepath.Join(h.dir, "member", "member", "snap", "db"), 0o600, nil)
	must(t, err)
	must(t, db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("cluster")).Put([]byte("clusterVersion"), []byte("3.99.0"))
	}))
	must(t, db.Close())
	if err := h.open(); err == nil || !strings.Contains(err.Error(), "has data of a newer slipway, whose etcd is 3.99.0") || !strings.Contains(err.Error(), "install the newer slipway on this host again") || strings.Contains(err.Error(), "move") {
		t.Errorf("it said: %v", err)
	}
}
