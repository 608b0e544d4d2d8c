package record

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// etcd takes no more writes once its database has reached its quota, and says
// so until its alarm is disarmed (etcd documentation, "Space quota"). Most of
// what the database holds is history that nobody reads.

// makeRoom gives history and free pages back, and has etcd take writes again.
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

// compact gives the history before a revision back, and returns when it is gone
// or the context ends, for which etcd does not look.
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

// full says what to do when there is no room even so.
func (s *Store) full(err error) error {
	if !errors.Is(err, rpctypes.ErrNoSpace) {
		return err
	}
	return fmt.Errorf("the records in %s have reached their limit of %d MiB and nothing more is recorded: %w; remove nodes that are gone from the design, or split the site", s.dir, s.limit>>20, err)
}
