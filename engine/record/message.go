package record

import (
	"context"
	"fmt"
	"net/url"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// PutMessage records under a key a message to send, or one that was sent; nil
// deletes it. A value is JSON, possibly compressed with gzip.
func (s *Site) PutMessage(ctx context.Context, key string, value []byte) error {
	if value == nil {
		return s.commit(ctx, clientv3.OpDelete(s.prefix+messageKey(key)))
	}
	return s.putBytes(ctx, messageKey(key), value)
}

// Messages returns everything that PutMessage has recorded.
func (s *Site) Messages(ctx context.Context) (map[string][]byte, error) {
	all := map[string][]byte{}
	err := s.each(ctx, "messages/", func(rest string, value []byte) error {
		key, err := nameOf(rest)
		if err != nil {
			return err
		}
		all[key], err = s.read(ctx, value)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read messages of site %s: %w", s.name, err)
	}
	return all, nil
}

func messageKey(key string) string { return "messages/" + url.PathEscape(key) }

// message is read only on request.
func (l *loader) message(_ string, value []byte) error {
	l.use(value)
	return nil
}
