package record

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/slipway-gitops/slipway/engine/site"
)

// How many events are kept, of a node and of the site itself. So what is kept
// is bounded, however long a daemon runs.
const (
	nodeEvents = 32
	siteEvents = 256
)

// PutRollout records how the rollout goes; nil forgets it. The list of its
// nodes is written only when it is another one.
func (s *Site) PutRollout(ctx context.Context, r *site.RolloutStatus) error {
	s.rolling.Lock()
	defer s.rolling.Unlock()
	if r == nil {
		s.nodesOfRollout = sum{}
		return s.commit(ctx, clientv3.OpDelete(s.prefix+"rollout"), clientv3.OpDelete(s.prefix+"rollout/nodes"))
	}
	head := *r
	head.Nodes = nil
	value, err := json.Marshal(head)
	if err != nil {
		return err
	}
	nodes, err := json.Marshal(r.Nodes)
	if err != nil {
		return err
	}
	b := batch{site: s}
	is := sum(sha256.Sum256(nodes))
	if is != s.nodesOfRollout {
		if err := b.add("rollout/nodes", compress(nodes)); err != nil {
			return err
		}
	}
	if err := b.add("rollout", value); err != nil {
		return err
	}
	s.nodesOfRollout = sum{} // unknown until it is written
	if err := b.send(ctx); err != nil {
		return err
	}
	s.nodesOfRollout = is
	return nil
}

// PutTook records how long steps like one took, last ones last, see site.Like.
// The caller bounds their number.
func (s *Site) PutTook(ctx context.Context, like string, took []site.Duration) error {
	return s.put(ctx, "took/"+url.PathEscape(like), took)
}

// AppendEvents records what happened, to nodes and to the site itself, many
// nodes in one transaction. Of each only the last events are kept. What a person
// ordered of a node is told of the site too: a node's history goes with it.
func (s *Site) AppendEvents(ctx context.Context, events []site.Event) error {
	s.telling.Lock()
	defer s.telling.Unlock()
	newer := map[string][]json.RawMessage{}
	for _, e := range events {
		text, err := json.Marshal(e)
		if err != nil {
			return err
		}
		newer[e.Node] = append(newer[e.Node], text)
		if e.Node != "" && e.Kind == site.EventOrder {
			newer[""] = append(newer[""], text)
		}
	}
	for nodes := range slices.Chunk(slices.Sorted(maps.Keys(newer)), batchOps) {
		if err := s.appendTo(ctx, nodes, newer); err != nil {
			return fmt.Errorf("write events: %w", err)
		}
	}
	return nil
}

// appendTo adds the newer events of some nodes to theirs, whose texts stay as
// they are.
func (s *Site) appendTo(ctx context.Context, nodes []string, newer map[string][]json.RawMessage) error {
	older, err := readEvents[json.RawMessage](ctx, s, nodes)
	if err != nil {
		return err
	}
	b := batch{site: s}
	for i, node := range nodes {
		value, err := encodeEvents(node, append(older[i], newer[node]...))
		if err != nil {
			return err
		}
		if err := b.put(ctx, eventsKey(node), value); err != nil {
			return err
		}
	}
	return b.send(ctx)
}

// encodeEvents gives the last events of a node as they are written; fewer when
// their texts are so long that they would not be small.
func encodeEvents(node string, events []json.RawMessage) ([]byte, error) {
	keep := nodeEvents
	if node == "" {
		keep = siteEvents
	}
	for {
		events = events[max(0, len(events)-keep):]
		text, err := json.Marshal(events)
		if err != nil {
			return nil, err
		}
		value := compress(text)
		if len(value) <= maxValue || keep == 1 {
			return value, nil
		}
		keep /= 2
	}
}

// Events gives what happened to a node, oldest first; node "" is the site
// itself. Nothing recorded is none.
func (s *Site) Events(ctx context.Context, node string) ([]site.Event, error) {
	all, err := readEvents[site.Event](ctx, s, []string{node})
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	return all[0], nil
}

// readEvents gives the events of up to batchOps nodes, in their order.
func readEvents[Event any](ctx context.Context, s *Site, nodes []string) ([][]Event, error) {
	ops := make([]clientv3.Op, len(nodes))
	for i, node := range nodes {
		ops[i] = clientv3.OpGet(s.prefix + eventsKey(node))
	}
	var got *clientv3.TxnResponse
	if err := s.store.do(ctx, func(ctx context.Context) (err error) {
		got, err = s.store.kv.Txn(ctx).Then(ops...).Commit()
		return err
	}); err != nil {
		return nil, err
	}
	all := make([][]Event, len(nodes))
	for i, r := range got.Responses {
		for _, kv := range r.GetResponseRange().Kvs {
			value, err := unseal(string(kv.Key), kv.Value)
			if err != nil {
				return nil, err
			}
			if value, err = s.read(value); err != nil {
				return nil, err
			}
			if err := decodeCompressed(value, &all[i]); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// eventsKey is where the events of a node are, or of the site for "".
func eventsKey(node string) string {
	if node == "" {
		return "events"
	}
	return "events/" + url.PathEscape(node)
}

// decodeCompressed reads compressed JSON.
func decodeCompressed(value []byte, into any) error {
	text, err := decompress(value)
	if err != nil {
		return damaged(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return damaged(err)
	}
	return nil
}
