package record

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/slipway-gitops/slipway/engine/site"
)

// accountOf is the account of a node on which an installation is approved.
func accountOf(node string) site.Account {
	return site.Account{Closed: 1, Entries: []site.LedgerEntry{{
		Loss: site.Loss{Node: node, Machine: site.Identity{UUID: "u1"}, Action: "install generation 2", Lost: "everything on its disks",
			Generation: 2, Image: "d1", Disks: "S1", Attempt: 2, Records: "r1"},
		Set: "0123", Source: site.ApprovalSource{Kind: site.ByCommand, By: "anna"}, Note: "yes", Opened: day, Expires: day,
	}}}
}

func TestConsumptionIsRecordedWithItsStep(t *testing.T) {
	s := open(t, t.TempDir())
	b, ctx := s.Site("berlin"), t.Context()
	fill(t, b, 2)
	account, node := accountOf("n00001"), recorded(1)
	account.Entries[0].Consumed = day
	node.InFlight = &site.InFlight{Step: site.Step{Node: "n00001", Action: site.ActionInstall, Impact: site.ImpactDestructive}, Since: day, Consumed: true}
	before := s.revision(t)
	must(t, b.Consume(ctx, "n00001", account, node))
	if got := s.revision(t); got != before+1 {
		t.Errorf("%d transactions, want one", got-before)
	}
	must(t, b.PutNode(ctx, "n00001", node))
	if got := s.revision(t); got != before+1 {
		t.Error("what was just recorded is written once more")
	}
	_, _, snap := reopen(t, s, "berlin")
	same(t, "account", snap.Accounts["n00001"], account)
	same(t, "node", snap.Nodes["n00001"].Recorded, node)
}

func TestAccountOutlivesItsNode(t *testing.T) {
	s := open(t, t.TempDir())
	b, ctx := s.Site("berlin"), t.Context()
	fill(t, b, 2)
	must(t, b.PutAccounts(ctx, map[string]site.Account{"n00001": accountOf("n00001")}))
	must(t, b.DeleteNode(ctx, "n00001"))
	_, _, snap := reopen(t, s, "berlin")
	same(t, "account", snap.Accounts["n00001"], accountOf("n00001"))
}

// unwritable is a time that JSON does not have (RFC 3339 has years of four digits).
var unwritable = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)

func TestBook(t *testing.T) {
	s := open(t, t.TempDir())
	b, ctx := s.Site("berlin"), t.Context()
	if none, err := b.Book(ctx); err != nil || none.Records != "" {
		t.Errorf("before there is one: %+v, %v", none, err)
	}
	one, other := NewBook(true), NewBook(false)
	if one.Records == other.Records || len(one.Records) != 16 || time.Since(one.Began) > time.Minute || !one.Blank || other.Blank {
		t.Errorf("two books: %+v, %+v", one, other)
	}
	must(t, b.PutBook(ctx, one))
	must(t, b.PutAccounts(ctx, map[string]site.Account{"n1": accountOf("n1")}))
	if got, err := b.Book(ctx); err != nil || got.Records != one.Records {
		t.Errorf("beside an account: %+v, %v", got, err)
	}
	if err := b.PutBook(ctx, Book{Began: unwritable}); err == nil {
		t.Error("a book that cannot be written is")
	}
	_, err := s.kv.Do(ctx, opSealed(b.prefix+accountKey("n2"), []byte("{")))
	must(t, err)
	if got, err := b.Book(ctx); err != nil || got.Records != one.Records {
		t.Errorf("beside an account that is damaged: %+v, %v", got, err)
	}
	for name, put := range map[string]clientv3.Op{
		"without its checksum": clientv3.OpPut(b.prefix+bookKey, "{"), "with it": opSealed(b.prefix+bookKey, []byte("{")),
	} {
		_, err := s.kv.Do(ctx, put)
		must(t, err)
		if _, err := b.Book(ctx); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("a damaged book, %s: %v", name, err)
		}
	}
	must(t, s.Close())
	if _, err := b.Book(ctx); err == nil {
		t.Error("a book is read of records that are closed")
	}
}

// Accounts are written as many at once as fit, and name no records: the book does.
func TestAccountsAreWrittenTogether(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	b, ctx := s.Site("berlin"), t.Context()
	all := map[string]site.Account{}
	for i := range batchOps + 2 {
		a := accountOf(nodeName(i))
		a.Records = "r1"
		all[nodeName(i)] = a
	}
	before := s.revision(t)
	must(t, b.PutAccounts(ctx, all))
	if got := s.revision(t) - before; got != 2 {
		t.Errorf("%d transactions, want 2", got)
	}
	got, err := s.kv.Get(ctx, b.prefix+accountKey(nodeName(0)))
	must(t, err)
	if text := string(got.Kvs[0].Value); strings.Contains(text, `"records":"r1","`) || strings.HasPrefix(text, `{"records"`) {
		t.Errorf("an account has the name of its records: %s", text)
	}
	must(t, b.PutBook(ctx, Book{Records: "r9"}))
	_, b, snap := reopen(t, s, "berlin")
	if len(snap.Accounts) != len(all) {
		t.Errorf("%d accounts, want %d", len(snap.Accounts), len(all))
	}
	bad := accountOf("n1")
	bad.Entries[0].Opened = unwritable
	if err := b.PutAccounts(ctx, map[string]site.Account{"n1": bad}); err == nil {
		t.Error("an account that cannot be written is")
	}
	if err := b.Consume(ctx, "n1", bad, site.Recorded{}); err == nil {
		t.Error("it is used")
	}
	if err := b.Consume(ctx, "n1", accountOf("n1"), site.Recorded{Disrupted: unwritable}); err == nil {
		t.Error("it is used by a step that cannot be written")
	}
	must(t, b.store.Close())
	if err := b.PutAccounts(ctx, all); err == nil {
		t.Error("accounts are written to records that are closed")
	}
}

func nodeName(i int) string { return fmt.Sprintf("n%05d", i) }

// A use that was not written is not known to be: the node is written again.
func TestUseThatIsNotWritten(t *testing.T) {
	s := open(t, t.TempDir())
	b, ctx := s.Site("berlin"), t.Context()
	node := recorded(1)
	must(t, b.PutNode(ctx, "n1", node))
	over, cancel := context.WithCancel(ctx)
	cancel()
	other := node
	other.InFlight = &site.InFlight{Step: site.Step{Node: "n1", Action: site.ActionInstall}, Consumed: true}
	if err := b.Consume(over, "n1", accountOf("n1"), other); err == nil {
		t.Fatal("it was written")
	}
	before := s.revision(t)
	must(t, b.PutNode(ctx, "n1", node))
	if s.revision(t) == before {
		t.Error("what the node was before counts as written, and nobody knows what is")
	}
	must(t, b.PutNode(ctx, "n1", other))
	if _, _, snap := reopen(t, s, "berlin"); snap.Nodes["n1"].Recorded.InFlight == nil {
		t.Error("the use is not on record")
	}
}

// Damage of the ledger is told, and nothing is guessed.
func TestDamagedLedger(t *testing.T) {
	for name, key := range map[string]string{"the book": bookKey, "an account": accountKey("n1"), "a name": "ledger/%zz"} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir())
			b, ctx := s.Site("berlin"), t.Context()
			value := "{"
			if name == "a name" {
				value = "{}"
			}
			_, err := s.kv.Do(ctx, opSealed(b.prefix+key, []byte(value)))
			must(t, err)
			if _, err := b.Load(ctx); err == nil {
				t.Error("it is loaded")
			}
		})
	}
}
