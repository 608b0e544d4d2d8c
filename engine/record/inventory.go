package record

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/slipway-gitops/slipway/engine/site"
)

// inventory is read only on request and changes rarely, so it is a file, and
// the key holds "@" and the digest. It includes the node's name, so that no two
// nodes share a file.
type inventory struct {
	Node      string          `json:"node"`
	Inventory *site.Inventory `json:"inventory"`
}

func inventoryKey(node string) string { return "inventories/" + url.PathEscape(node) }

// PutInventory records what a node's machine is made of. It writes nothing if
// that is recorded already.
func (s *Site) PutInventory(ctx context.Context, node string, inv *site.Inventory) error {
	value, err := json.Marshal(inventory{node, inv})
	if err != nil {
		return err
	}
	was, err := s.valueOf(ctx, inventoryKey(node))
	if err != nil {
		return err
	}
	if old, err := s.read(ctx, was); err == nil && bytes.Equal(old, value) {
		return nil
	}
	digest, err := s.writeFile(ctx, value)
	if err != nil {
		return err
	}
	if err := s.putBytes(ctx, inventoryKey(node), []byte("@"+digest)); err != nil {
		return err
	}
	return s.dropValue(ctx, was, digest)
}

// Inventory returns what a node's machine was last seen to be made of, nil if
// it was never inspected.
func (s *Site) Inventory(ctx context.Context, node string) (*site.Inventory, error) {
	value, err := s.valueOf(ctx, inventoryKey(node))
	if err != nil || value == nil {
		return nil, err
	}
	if value, err = s.read(ctx, value); err != nil {
		return nil, err
	}
	var i inventory
	if err := json.Unmarshal(value, &i); err != nil {
		return nil, damaged(err)
	}
	return i.Inventory, nil
}

// deleteInventory deletes a node's inventory.
func (s *Site) deleteInventory(ctx context.Context, node string) error {
	was, err := s.valueOf(ctx, inventoryKey(node))
	if err != nil || was == nil {
		return err
	}
	if err := s.commit(ctx, clientv3.OpDelete(s.prefix+inventoryKey(node))); err != nil {
		return err
	}
	return s.dropValue(ctx, was, "")
}

// valueOf returns the value stored under a key, nil for none.
func (s *Site) valueOf(ctx context.Context, key string) ([]byte, error) {
	var got *clientv3.GetResponse
	err := s.store.do(ctx, func(ctx context.Context) (err error) {
		got, err = s.store.kv.Get(ctx, s.prefix+key)
		return err
	})
	if err != nil || len(got.Kvs) == 0 {
		return nil, err
	}
	return unseal(s.prefix+key, got.Kvs[0].Value)
}

// dropValue removes the file of a replaced value, unless it is the file in use.
func (s *Site) dropValue(ctx context.Context, value []byte, used string) error {
	digest, large := strings.CutPrefix(string(value), "@")
	if !large || digest == used {
		return nil
	}
	return s.dropFile(ctx, digest)
}
