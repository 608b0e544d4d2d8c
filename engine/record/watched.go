package record

import (
	"context"

	"github.com/slipway-gitops/slipway/engine/site"
)

const watchedKey = "watched"

// PutWatched records when Slipway looked at the machines at all.
func (s *Site) PutWatched(ctx context.Context, w site.Watched) error {
	return s.put(ctx, watchedKey, w)
}

func (l *loader) watched(_ string, value []byte) error {
	return l.decode(value, &l.snap.Watched)
}
