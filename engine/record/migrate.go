package record

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// migration rewrites the records from one version of the layout to the next.
type migration struct {
	what string // for people, as in "events have a key per node"
	// change returns the operations for one record, nil to keep it. After an
	// interruption it may get a record that it has rewritten before.
	change func(ctx context.Context, s *Store, key string, value []byte) ([]clientv3.Op, error)
}

// migrations lead from version 1 to 2, from 2 to 3 and so on.
var migrations = []migration{sealValues, beginLedger, withoutWish, nameManager}

// beginLedger is the migration to a ledger. Earlier approvals name neither disks
// nor attempts, so they no longer approve anything, and neither do earlier
// comments on proposals. A destructive step in flight counts as approved.
var beginLedger = migration{"approvals are entries of a ledger", func(_ context.Context, _ *Store, key string, value []byte) ([]clientv3.Op, error) {
	_, rest, _ := strings.Cut(strings.TrimPrefix(key, keysBelow), "/")
	kind, _, _ := strings.Cut(rest, "/")
	switch kind {
	case "approvals":
		return []clientv3.Op{clientv3.OpDelete(key)}, nil
	case "nodes", "proposals":
	default:
		return nil, nil
	}
	value, err := unseal(key, value)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(value, []byte("@")) {
		return nil, nil // in a file: a departed node, with nothing in flight
	}
	if kind == "proposals" {
		value, err = withoutShown(value)
	} else {
		value, err = consumed(value)
	}
	if err != nil || value == nil {
		return nil, err
	}
	return []clientv3.Op{opSealed(key, value)}, nil
}}

// withoutShown returns a proposal whose comment approves nothing; nil if it
// needs no change.
func withoutShown(value []byte) ([]byte, error) {
	var p Proposed
	if err := json.Unmarshal(value, &p); err != nil {
		return nil, damaged(err)
	}
	if p.Shown == nil && p.Named == nil {
		return nil, nil
	}
	p.Shown, p.Named, p.Told = nil, nil, true
	return json.Marshal(p)
}

// consumed returns a node whose destructive step in flight has used its
// approval; nil if there is none.
func consumed(value []byte) ([]byte, error) {
	var r site.Recorded
	if err := json.Unmarshal(value, &r); err != nil {
		return nil, damaged(err)
	}
	if r.InFlight == nil || r.InFlight.Committed() {
		return nil, nil
	}
	r.InFlight.Consumed, r.InFlight.Sent = true, true
	return json.Marshal(r)
}

// nameManager is the migration to the present name of the endpoint that was called bmc.
// Files stay unchanged, because both names are read.
var nameManager = migration{"the endpoint bmc is called manager", func(_ context.Context, _ *Store, key string, value []byte) ([]clientv3.Op, error) {
	var was any
	_, rest, _ := strings.Cut(strings.TrimPrefix(key, keysBelow), "/")
	switch kind, _, _ := strings.Cut(rest, "/"); kind {
	case "nodes":
		was = &site.Recorded{}
	case "sessions":
		was = &Sessions{}
	default:
		return nil, nil
	}
	value, err := unseal(key, value)
	if err != nil || bytes.HasPrefix(value, []byte("@")) {
		return nil, err
	}
	if err := json.Unmarshal(value, was); err != nil {
		return nil, damaged(err)
	}
	if value, err = json.Marshal(was); err != nil {
		return nil, err
	}
	return []clientv3.Op{opSealed(key, value)}, nil
}}

// steps returns the migrations to use.
func (o Options) steps() []migration {
	if o.migrations != nil {
		return o.migrations
	}
	return migrations
}

// settleVersion marks new records with this program's version, migrates older
// ones, and refuses newer ones.
func (s *Store) settleVersion(ctx context.Context, steps []migration) error {
	newest := 1 + len(steps)
	version, err := s.version(ctx, newest)
	switch {
	case err != nil:
		return err
	case version > newest:
		return fmt.Errorf("the records have version %d and this slipway reads up to %d: run the newer slipway that wrote them, or restore the state directory from before the upgrade", version, newest)
	}
	for ; version < newest; version++ {
		m := steps[version-1]
		if err := s.migrate(ctx, m, version+1); err != nil {
			return fmt.Errorf("migrate the records from version %d to %d (%s): %w", version, version+1, m.what, err)
		}
	}
	return nil
}

// version reads the records' version; new records get the newest.
func (s *Store) version(ctx context.Context, newest int) (int, error) {
	text, fresh, err := s.readVersion(ctx)
	switch {
	case err != nil:
		return 0, err
	case fresh:
		return newest, s.txn(ctx, []clientv3.Op{clientv3.OpPut(versionKey, strconv.Itoa(newest))})
	}
	version, err := strconv.Atoi(text)
	if err != nil || version < 1 {
		return 0, damaged(fmt.Errorf("the records' version reads %q", text))
	}
	return version, nil
}

// readVersion reads the records' version as it is written, and whether there are no records at all,
// as of one moment: another controller may write the first ones now.
func (s *Store) readVersion(ctx context.Context) (text string, fresh bool, err error) {
	from, to := s.all()
	var got *clientv3.TxnResponse
	err = s.do(ctx, func(ctx context.Context) (err error) {
		got, err = s.kv.Txn(ctx).Then(clientv3.OpGet(versionKey),
			clientv3.OpGet(from, clientv3.WithRange(to), clientv3.WithLimit(1), clientv3.WithKeysOnly())).Commit()
		return err
	})
	if err != nil {
		return "", false, fmt.Errorf("read the records' version: %w", err)
	}
	version, some := got.Responses[0].GetResponseRange().Kvs, got.Responses[1].GetResponseRange().Kvs
	switch {
	case len(some) == 0:
		return "", true, nil
	case len(version) == 0:
		return "", false, damaged(errors.New("the records' version is missing"))
	}
	return string(version[0].Value), false, nil
}

// migrate runs one migration. It writes the version last, together with the
// last changes. An interrupted migration is repeated as a whole.
func (s *Store) migrate(ctx context.Context, m migration, to int) error {
	var ops []clientv3.Op
	size := 0
	// Nobody else writes meanwhile, and making room deletes earlier revisions.
	err := s.stored(ctx, keysBelow, clientv3.GetPrefixRangeEnd(keysBelow), false, func(kv keyValue) error {
		more, err := m.change(ctx, s, kv.key, kv.value)
		if err != nil {
			return fmt.Errorf("%s: %w", kv.key, err)
		}
		if len(ops)+len(more) >= batchOps || size >= maxBatch {
			if err := s.txn(ctx, ops); err != nil {
				return err
			}
			ops, size = nil, 0
		}
		for _, op := range more {
			size += len(op.ValueBytes())
		}
		ops = append(ops, more...)
		return nil
	})
	if err != nil {
		return err
	}
	return s.txn(ctx, append(ops, clientv3.OpPut(versionKey, strconv.Itoa(to))))
}
