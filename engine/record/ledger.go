package record

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Book is the ledger of a site without the accounts of its nodes.
type Book struct {
	// Records names these records among all that the site ever had. It is part
	// of each loss, so an approval from lost records matches nothing here.
	Records string `json:"records"`
	// Began is when the records were created.
	Began time.Time `json:"began"`
	// Key is the public half of the site key in use; empty before the first.
	Key string `json:"key,omitempty"`
	// Blank is set while the records may lack what earlier records had: they
	// were created without a design, and not every machine was seen since.
	Blank bool `json:"blank,omitempty"`
	// Claims are the runs of the daemon (site.TermClaim.Instance) whose claim may
	// be the last published from these records: the last published one, and the
	// one being published. Any other claim comes from a daemon with other
	// records, or with a copy of these.
	Claims []string `json:"claims,omitempty"`
	// Lines are the digests that the design in force approves and that people saw
	// before the commit that first approved them.
	Lines []string `json:"lines,omitempty"`
}

// NewBook returns the book of records that are created, or restored, now.
func NewBook(blank bool) Book {
	return Book{Records: rand.Text()[:16], Began: time.Now(), Blank: blank}
}

const bookKey = "ledger"

func accountKey(node string) string { return "ledger/" + url.PathEscape(node) }

// Book reads the book; it is zero if there is none yet.
func (s *Site) Book(ctx context.Context) (Book, error) {
	var b Book
	err := s.each(ctx, bookKey, func(rest string, value []byte) error {
		if rest != "" {
			return nil
		}
		if err := json.Unmarshal(value, &b); err != nil {
			return damaged(err)
		}
		return nil
	})
	return b, err
}

// PutBook records the book.
func (s *Site) PutBook(ctx context.Context, b Book) error { return s.put(ctx, bookKey, b) }

// PutAccounts records accounts by node, with as many per transaction as fit.
// They outlive their nodes.
func (s *Site) PutAccounts(ctx context.Context, accounts map[string]site.Account) error {
	var ops []clientv3.Op
	for i, node := range slices.Sorted(maps.Keys(accounts)) {
		op, err := s.opAccount(ctx, node, accounts[node])
		if err != nil {
			return err
		}
		if ops = append(ops, op); len(ops) == batchOps || i == len(accounts)-1 {
			if err := s.commit(ctx, ops...); err != nil {
				return err
			}
			ops = nil
		}
	}
	return nil
}

func (s *Site) opAccount(ctx context.Context, node string, a site.Account) (clientv3.Op, error) {
	a.Records = "" // the book has it
	value, err := json.Marshal(a)
	if err != nil {
		return clientv3.Op{}, err
	}
	return s.opPut(ctx, accountKey(node), value)
}

// Consume records in one transaction that an approval is used, and the step
// that uses it. After a crash the records have both or neither.
func (s *Site) Consume(ctx context.Context, node string, a site.Account, r site.Recorded) error {
	account, err := s.opAccount(ctx, node, a)
	if err != nil {
		return err
	}
	value, err := json.Marshal(r)
	if err != nil {
		return err
	}
	recorded, err := s.opPut(ctx, nodeKey(node), value)
	if err != nil {
		return err
	}
	s.forgetSum(node) // unknown until written
	if err := s.commit(ctx, account, recorded); err != nil {
		return err
	}
	s.setSum(node, sha256.Sum256(value))
	return nil
}

// ledger reads the book and the accounts.
func (l *loader) ledger(rest string, value []byte) error {
	if rest == "" {
		return l.decode(value, &l.snap.Book)
	}
	node, err := nameOf(rest[1:])
	if err != nil {
		return err
	}
	var a site.Account
	if err := l.decode(value, &a); err != nil {
		return err
	}
	l.snap.Accounts[node] = a
	return nil
}
