package driver

import (
	"context"

	"github.com/slipway-gitops/slipway/engine/item"
)

type erasedKey struct{}

// HearErased returns a context for Apply that passes the result of erasing each disk to hear as
// soon as it is known: the connection to the agent may be lost long before the step ends.
func HearErased(ctx context.Context, hear func(item.Erasure)) context.Context {
	return context.WithValue(ctx, erasedKey{}, hear)
}

// Erased reports the result of erasing a disk.
func Erased(ctx context.Context, e item.Erasure) {
	if hear, ok := ctx.Value(erasedKey{}).(func(item.Erasure)); ok {
		hear(e)
	}
}
