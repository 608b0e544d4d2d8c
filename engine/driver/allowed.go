package driver

import (
	"context"
	"fmt"
)

type allowedKey struct{}

// WhileAllowed returns a context for driver calls whose writes may be sent only while allowed
// returns nil. It is asked from any goroutine, often, and must be fast.
func WhileAllowed(ctx context.Context, allowed func() error) context.Context {
	return context.WithValue(ctx, allowedKey{}, allowed)
}

// MayWrite returns why a write must not be sent now, nil if it may. Every driver calls it immediately
// before each write to a machine, after everything that may take time. The context alone is not
// enough: a process that was stopped and continues may come to the write before the timer that ends
// the context. Its error wraps ErrInterrupted. Without WhileAllowed every write may be sent.
func MayWrite(ctx context.Context) error {
	allowed, ok := ctx.Value(allowedKey{}).(func() error)
	if !ok {
		return nil
	}
	if err := allowed(); err != nil {
		return fmt.Errorf("%w: %w; the request was not sent", ErrInterrupted, err)
	}
	return nil
}
