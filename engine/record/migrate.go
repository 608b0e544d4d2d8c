package record

import (
	"context"
	"fmt"
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// migration rewrites the records from one version of the layout to the next.
type migration struct {
	what string // for people, as in "events have a key per node"
	// change gives what is to be done about one record, nothing to leave it.
	// It may be given a record that it has rewritten before, when it was
	// interrupted.
	change func(s *Store, key string, value []byte) ([]clientv3.Op, error)
}

// migrations are those from version 1 to 2, from 2 to 3 and so on.
var migrations = []migration{sealValues}

// steps are the migrations to go by.
func (o Options) steps() []migration {
	if o.migrations != nil {
		return o.migrations
	}
	return migrations
}

// settleVersion marks new records with the version of this program, takes
// older ones to it, and refuses newer ones.
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

// version reads the records' version; new ones get the newest.
func (s *Store) version(ctx context.Context, newest int) (int, error) {
	got, err := s.kv.Get(ctx, versionKey)
	if err != nil {
		return 0, fmt.Errorf("read the records' version: %w", err)
	}
	if len(got.Kvs) == 0 {
		_, err := s.kv.Put(ctx, versionKey, strconv.Itoa(newest))
		return newest, err
	}
	text := string(got.Kvs[0].Value)
	version, err := strconv.Atoi(text)
	if err != nil || version < 1 {
		return 0, damaged(fmt.Errorf("the records' version reads %q", text))
	}
	return version, nil
}

// migrate does one migration. The version is written last, with the last of
// the changes: an interrupted migration is done again as a whole.
func (s *Store) migrate(ctx context.Context, m migration, to int) error {
	var ops []clientv3.Op
	size := 0
	// Nobody else writes meanwhile, and making room forgets earlier moments.
	err := s.stored(ctx, false, func(kv keyValue) error {
		more, err := m.change(s, kv.key, kv.value)
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
