package record

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// etcd accepts no more writes once its database has reached its quota, until
// its alarm is disarmed (etcd documentation, "Space quota"). Most of the
// database is history that nobody reads.

// makeRoom frees history and unused pages, and makes etcd accept writes again.
func (s *Store) makeRoom(ctx context.Context) error {
	s.freeing.Lock()
	defer s.freeing.Unlock()
	err := s.do(ctx, func(ctx context.Context) error {
		now, err := s.kv.Get(ctx, versionKey)
		if err != nil {
			return err
		}
		if err := s.compact(ctx, now.Header.Revision); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
			return err
		}
		if err := s.etcd.etcd.Server.Backend().Defrag(); err != nil {
			return err
		}
		_, err = s.etcd.client.AlarmDisarm(ctx, &clientv3.AlarmMember{})
		return err
	})
	if err != nil {
		return fmt.Errorf("make room in the records: %w", err)
	}
	return nil
}

// compact deletes the history before a revision. It returns when that is done
// or the context ends, which etcd itself ignores.
func (s *Store) compact(ctx context.Context, revision int64) error {
	done := make(chan error, 1)
	go func() {
		_, err := s.kv.Compact(ctx, revision, clientv3.WithCompactPhysical())
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// full says what to do if there is still no room.
func (s *Store) full(err error) error {
	if !errors.Is(err, rpctypes.ErrNoSpace) {
		return err
	}
	return fmt.Errorf("the records in %s have reached their limit of %d MiB and nothing more is recorded: %w; remove nodes that are gone from the design, or split the site", s.dir, s.limit>>20, err)
}
