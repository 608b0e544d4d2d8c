package record

import (
	"context"
	"net/url"

	"github.com/slipway-gitops/slipway/engine/site"
)

const revokedBelow = "revoked/" // by the fingerprint of an authority

// PutRevoked records what an authority revoked, and its last list. It outlives the nodes.
func (s *Site) PutRevoked(ctx context.Context, l site.RevocationList) error {
	return s.put(ctx, revokedBelow+url.PathEscape(l.Authority), l)
}

// ForgetRevoked deletes what is known of an authority all of whose certificates are over.
func (s *Site) ForgetRevoked(ctx context.Context, authority string) error {
	return s.forget(ctx, revokedBelow+url.PathEscape(authority))
}

func (l *loader) revoked(_ string, value []byte) error {
	var list site.RevocationList
	if err := l.decode(value, &list); err != nil {
		return err
	}
	if l.snap.Revoked == nil {
		l.snap.Revoked = map[string]site.RevocationList{}
	}
	l.snap.Revoked[list.Authority] = list
	return nil
}
