package record

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// databaseFile is the database of the member with peers of a directory of records.
func databaseFile(dir string) string {
	return filepath.Join(dir, "member", "member", "snap", "db")
}

// readDatabase reads the database of a member that has stopped.
func readDatabase(dir string, read func(*bbolt.Tx) error) error {
	return guarded(func() error {
		db, err := bbolt.Open(databaseFile(dir), 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
		if err != nil {
			return err
		}
		defer db.Close()
		return db.View(read)
	})
}

// ExportSurvivor writes the records that the member in the state directory dir has, without the
// others: for when most of them are lost for good. Writes that it had not received, or had received in
// the moment before it stopped, are missing. Nothing of the member is changed. No process may hold the
// directory.
func ExportSurvivor(ctx context.Context, dir string, c Cluster, w io.Writer, opts Options) (Summary, error) {
	dir = filepath.Clean(dir)
	sum, err := exportSurvivor(ctx, dir, c, w, opts.complete())
	if err != nil {
		return Summary{}, fmt.Errorf("export the member in %s: %w", dir, err)
	}
	return sum, nil
}

func exportSurvivor(ctx context.Context, dir string, c Cluster, w io.Writer, opts Options) (Summary, error) {
	if !hasMember(dir) {
		return Summary{}, errors.New("it has no member: leave out --survivor for the records of a single host")
	}
	held := &Store{dir: dir}
	defer held.release()
	if err := held.hold(); err != nil {
		return Summary{}, err
	}
	if err := guarded(func() error { return checkFiles(held.memberDir()) }); err != nil {
		return Summary{}, err
	}
	copied, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".survivor-*")
	if err != nil {
		return Summary{}, explain(err)
	}
	defer os.RemoveAll(copied)
	m, err := startMember(ctx, copied, opts)
	if err != nil {
		return Summary{}, err
	}
	s := &Store{dir: copied, etcd: m, shared: c.shared()}
	s.shared.client = m.client
	defer s.release()
	if err := s.takeFrom(ctx, dir); err != nil {
		return Summary{}, err
	}
	if err := s.settleVersion(ctx, opts.steps()); err != nil {
		return Summary{}, err
	}
	if err := s.checkRecords(ctx); err != nil {
		return Summary{}, err
	}
	return s.Export(ctx, w)
}

// takeFrom writes the last state of all keys of a stopped member into a store.
func (s *Store) takeFrom(ctx context.Context, dir string) error {
	esc := ""
	err := readDatabase(dir, func(tx *bbolt.Tx) error {
		writes := tx.Bucket([]byte("key"))
		if writes == nil {
			return nil
		}
		last, err := lastWrites(writes)
		if err != nil {
			return err
		}
		for _, key := range slices.Sorted(maps.Keys(last)) {
			var kv mvccpb.KeyValue
			if err := kv.Unmarshal(writes.Get(last[key])); err != nil {
				return err
			}
			if below, is := strings.CutPrefix(key, s.shared.Prefix); is && esc == "" {
				esc, _, _ = strings.Cut(below, "/")
			}
			if _, err := s.etcd.client.Put(ctx, key, string(kv.Value)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if esc == "" {
		return errors.New("it has no records")
	}
	s.shared.below(esc)
	s.kv = s.shared.raw
	return nil
}

// lastWrites returns where the last write of each key is that was not deleted. The bucket has every
// write of every key, in their order, by revision; that of a deletion ends in "t" (etcd, mvcc.BucketKey).
func lastWrites(writes *bbolt.Bucket) (map[string][]byte, error) {
	const revision = 17 // bytes
	last := map[string][]byte{}
	err := writes.ForEach(func(at, value []byte) error {
		var kv mvccpb.KeyValue
		if err := kv.Unmarshal(value); err != nil {
			return err
		}
		if len(at) > revision {
			delete(last, string(kv.Key))
		} else {
			last[string(kv.Key)] = slices.Clone(at)
		}
		return nil
	})
	return last, err
}
