package recordtest

import (
	"encoding/binary"
	"errors"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Write is one write of a key in the history of an etcd. Deleted is set if the key was deleted.
type Write struct {
	Revision, Sub int64
	Key, Value    string
	Deleted       bool
}

// History reads all writes that the database of a stopped member still has, in their order. The member is
// a daemon's or a witness's, by its state directory. What was compacted, and what the member had not yet
// taken from its log, is missing.
func History(state string) (all []Write, err error) {
	db, err := bbolt.Open(filepath.Join(state, "records", "member", "member", "snap", "db"), 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	err = db.View(func(tx *bbolt.Tx) error {
		writes := tx.Bucket([]byte("key"))
		if writes == nil {
			return nil // it has not taken anything from its log yet
		}
		// A revision is eight bytes, "_" and eight bytes; that of a deletion ends in "t" (etcd, mvcc.BucketKey).
		return writes.ForEach(func(at, value []byte) error {
			if len(at) < 17 {
				return errors.New("the database has a key that is no revision")
			}
			var kv mvccpb.KeyValue
			if err := kv.Unmarshal(value); err != nil {
				return err
			}
			all = append(all, Write{int64(binary.BigEndian.Uint64(at)), int64(binary.BigEndian.Uint64(at[9:])), string(kv.Key), string(kv.Value), len(at) > 17})
			return nil
		})
	})
	return all, err
}
