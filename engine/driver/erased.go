package driver

import (
	"context"

	"github.com/slipway-gitops/slipway/engine/item"
)

type erasedKey struct{}

// HearErased is a context for Apply in which hear is told what came of erasing each disk, as
// soon as that is known: the connection to the agent may be lost long before the step ends.
func HearErased(ctx context.Context, hear func(item.Erasure)) context.Context {
	return context.WithValue(ctx, erasedKey{}, hear)
}

// Erased tells what came of erasing a disk.
func Erased(ctx context.Context, e item.Erasure) {
	if hear, ok := ctx.Value(erasedKey{}).(func(item.Erasure)); ok {
		hear(e)
	}
}
