package driver

import (
	"context"
	"errors"
	"fmt"
)

// Guard decides about the two kinds of request that must not be repeated
// without end: those that carry a password, because a directory locks an
// account after a few wrong ones, and those that take a machine out of service.
// The engine puts a Guard into the context of every call of a driver. Without
// one, as in tests of a driver alone, every request is sent.
type Guard interface {
	// Login sends a password, or returns an error that wraps ErrDenied or
	// ErrBusy and sends nothing. It returns the error of send as it got it. A
	// send that returns nil was accepted, and one that returns ErrDenied was
	// not.
	Login(ctx context.Context, send func() error) error
	// Interrupt sends a request that switches a machine off, resets it, or
	// interrupts what runs on it. Where that is not allowed it sends nothing and
	// returns an error that wraps ErrNotPermitted. It returns the error of send
	// as it got it. An error of a class with which a machine says no, such as
	// ErrBusy or ErrRefused, means that nothing was interrupted; after any other
	// the machine may have been interrupted.
	Interrupt(ctx context.Context, send func() error) error
}

type guardKey struct{}

// Guarded is a context for the calls of a driver that a guard decides about.
func Guarded(ctx context.Context, g Guard) context.Context {
	return context.WithValue(ctx, guardKey{}, g)
}

// Login sends a request, or a handshake, that carries a password. Every driver
// calls it for the first request of a connection or session that carries one. A
// private key or a client certificate proves itself without being sent, and no
// account is locked because of one: those need no Login.
func Login(ctx context.Context, send func() error) error {
	if g, ok := ctx.Value(guardKey{}).(Guard); ok {
		return g.Login(ctx, send)
	}
	return send()
}

// Interrupt sends a request as Guard.Interrupt does. Every driver calls it for
// each request that switches a machine off, resets it, or interrupts what runs on
// it. Switching on a machine that is off interrupts nothing.
func Interrupt(ctx context.Context, send func() error) error {
	if g, ok := ctx.Value(guardKey{}).(Guard); ok {
		return g.Interrupt(ctx, send)
	}
	return send()
}

// MostDenied is how many machines may deny a password before it is sent only to
// those that have accepted it before: a few wrong passwords lock an account in
// the directory that all machines ask.
const MostDenied = 2

// withheld is why a password was not sent. It is an outcome of class denied, and none
// that a machine gave.
type withheld struct{ error }

func (e withheld) Unwrap() error { return e.error }

// Withhold is why a guard does not send a password: it wraps ErrDenied, and no machine
// has said so.
func Withhold(format string, args ...any) error {
	return withheld{fmt.Errorf("%w: "+format, append([]any{ErrDenied}, args...)...)}
}

// WasDenied says whether a machine has denied a credential that it was sent.
func WasDenied(err error) bool {
	return errors.Is(err, ErrDenied) && !errors.As(err, new(withheld))
}
