package record

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const deliveriesKey = "deliveries/"

// TakeDelivery records when a webhook delivery was taken.
func (s *Site) TakeDelivery(ctx context.Context, guid string, when time.Time) error {
	return s.put(ctx, deliveriesKey+guid, when)
}

// Deliveries returns the deliveries taken since a time, and deletes earlier
// ones.
func (s *Site) Deliveries(ctx context.Context, since time.Time) (map[string]time.Time, error) {
	taken := map[string]time.Time{}
	var old []clientv3.Op
	err := s.each(ctx, deliveriesKey, func(guid string, value []byte) error {
		var when time.Time
		if err := json.Unmarshal(value, &when); err != nil {
			return damaged(err)
		}
		if when.Before(since) {
			old = append(old, clientv3.OpDelete(s.prefix+deliveriesKey+guid))
		} else {
			taken[guid] = when
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for some := range slices.Chunk(old, batchOps) {
		if err := s.commit(ctx, some...); err != nil {
			return nil, err
		}
	}
	return taken, nil
}
