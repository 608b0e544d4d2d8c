package record

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/slipway-gitops/slipway/engine/site"
)

// How many events are kept, per node and for the site itself. This bounds the
// records however long a daemon runs.
const (
	nodeEvents = 32
	siteEvents = 256
)

// PutRollout records the progress of the rollout; nil deletes it. It writes the
// list of nodes only if that has changed.
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
		if err := b.add(ctx, "rollout/nodes", compress(nodes)); err != nil {
			return err
		}
	}
	if err := b.add(ctx, "rollout", value); err != nil {
		return err
	}
	s.nodesOfRollout = sum{} // unknown until written
	if err := b.send(ctx); err != nil {
		return err
	}
	s.nodesOfRollout = is
	return nil
}

// PutForecast records what is expected of the nodes of a rollout.
func (s *Site) PutForecast(ctx context.Context, f *site.ForecastAtStart) error {
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	was, err := s.valueOf(ctx, "forecast")
	if err != nil {
		was = nil // what is damaged is replaced; what is left of it goes at the next start
	}
	b := batch{site: s}
	if err := b.put(ctx, "forecast", compress(text)); err != nil {
		return err
	}
	if err := b.send(ctx); err != nil {
		return err
	}
	now, err := s.valueOf(ctx, "forecast")
	if err != nil {
		return err
	}
	return s.dropValue(ctx, was, strings.TrimPrefix(string(now), "@"))
}

// PutTook records how long steps of one kind took, latest last, see site.Like.
// The caller limits their number.
func (s *Site) PutTook(ctx context.Context, like string, took []site.Duration) error {
	return s.put(ctx, "took/"+url.PathEscape(like), took)
}

// AppendEvents records events of nodes and of the site itself, many nodes in one
// transaction. Only the last events of each are kept. A person's order about a node
// also goes to the site's events, because a node's history is deleted with the node.
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

// appendTo appends the newer events of some nodes to their existing events,
// without re-encoding these.
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

// encodeEvents encodes the last events of a node; fewer if their texts would
// make the value too large.
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

// Events returns the events of a node, oldest first; node "" is the site
// itself. It returns none if none are recorded.
func (s *Site) Events(ctx context.Context, node string) ([]site.Event, error) {
	all, err := readEvents[site.Event](ctx, s, []string{node})
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	return all[0], nil
}

// readEvents returns the events of up to batchOps nodes, in the order of the nodes.
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
			if value, err = s.read(ctx, value); err != nil {
				return nil, err
			}
			if err := decodeCompressed(value, &all[i]); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// eventsKey returns the key of a node's events, or of the site's for "".
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
