package record

import (
	"context"
	"net/url"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

const deliveredBelow = "delivered/" // by node, or another holder of secrets

// PutDelivered records which secrets the machines of a holder were given. It outlives the node.
func (s *Site) PutDelivered(ctx context.Context, holder string, d site.Delivered) error {
	return s.put(ctx, deliveredBelow+url.PathEscape(holder), d)
}

// ForgetDelivered deletes what is known of a holder.
func (s *Site) ForgetDelivered(ctx context.Context, holder string) error {
	return s.forget(ctx, deliveredBelow+url.PathEscape(holder))
}

func (l *loader) delivered(holder string, value []byte) error {
	name, err := url.PathUnescape(holder)
	if err != nil {
		return damaged(err)
	}
	var d site.Delivered
	if err := l.decode(value, &d); err != nil {
		return err
	}
	if l.snap.Delivered == nil {
		l.snap.Delivered = map[string]site.Delivered{}
	}
	l.snap.Delivered[name] = d
	return nil
}

// distrustDelivered notes that records of deliveries lack what was given since their export.
func (s *Site) distrustDelivered(ctx context.Context, all map[string]site.Delivered) error {
	for holder, d := range all {
		d.Since = time.Now()
		if err := s.PutDelivered(ctx, holder, d); err != nil {
			return err
		}
	}
	return nil
}
