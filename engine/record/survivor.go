package record

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// ExportSurvivor writes the records that the member in the state directory dir has, without the
// others: for when most of them are lost for good. Writes that it had not received, or did not know to be
// on a majority, are missing. The member is not changed: a copy of it is read. No process may hold the
// directory.
func ExportSurvivor(ctx context.Context, dir string, c Cluster, w io.Writer, opts Options) (Summary, error) {
	dir = filepath.Clean(dir)
	sum, err := exportSurvivor(ctx, dir, c, w, opts)
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
	copied, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".survivor-*")
	if err != nil {
		return Summary{}, explain(err)
	}
	defer os.RemoveAll(copied)
	if err := os.CopyFS(filepath.Join(copied, "member"), os.DirFS(held.memberDir())); err != nil {
		return Summary{}, explain(err)
	}
	s := &Store{dir: copied}
	defer s.release()
	if err := s.openAlone(ctx, c, opts.complete()); err != nil {
		return Summary{}, err
	}
	return s.Export(ctx, w)
}

// openAlone opens the records of a member as if it were the only one. It does not listen.
func (s *Store) openAlone(ctx context.Context, c Cluster, opts Options) error {
	opts.alone = true
	m, err := startMember(ctx, s.memberDir(), opts)
	if err != nil {
		return err
	}
	s.etcd, s.shared = m, c.shared()
	s.shared.client = m.client
	first, err := m.client.Get(ctx, c.Prefix, clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithKeysOnly())
	if err != nil {
		return err
	}
	if len(first.Kvs) == 0 {
		return errors.New("it has no records")
	}
	esc, _, _ := strings.Cut(strings.TrimPrefix(string(first.Kvs[0].Key), c.Prefix), "/")
	s.shared.below(esc)
	s.kv = s.shared.raw
	if err := s.settleVersion(ctx, opts.steps()); err != nil {
		return err
	}
	return s.checkRecords(ctx)
}
