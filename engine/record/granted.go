package record

import (
	"context"

	"github.com/slipway-gitops/slipway/engine/site"
)

const grantedKey = "granted"

// PutGranted records what people have approved of the access of the design.
func (s *Site) PutGranted(ctx context.Context, g site.GrantedState) error {
	return s.put(ctx, grantedKey, g)
}

func (l *loader) granted(_ string, value []byte) error {
	return l.decode(value, &l.snap.Granted)
}
