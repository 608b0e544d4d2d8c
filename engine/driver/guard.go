package driver

import (
	"context"
	"errors"
	"fmt"
)

// Guard decides about two kinds of request that must not be repeated endlessly:
// those that carry a password, because a directory locks an account after a few
// wrong ones, and those that take a machine out of service. The engine puts a
// Guard into the context of every driver call. Without a Guard, as in tests of
// a driver alone, every request is sent.
type Guard interface {
	// Login calls send, which sends a password, and returns its error
	// unchanged. Or it sends nothing and returns an error that wraps ErrDenied
	// or ErrBusy. If send returns nil the password was accepted; if it returns
	// ErrDenied it was not.
	Login(ctx context.Context, send func() error) error
	// Interrupt calls send, which sends a request that switches a machine off,
	// resets it, or interrupts what runs on it, and returns its error unchanged.
	// If that is not allowed, it sends nothing and returns an error that wraps
	// ErrNotPermitted. An error with which a machine says no, such as ErrBusy or
	// ErrRefused, means that nothing was interrupted. After any other error the
	// machine may have been interrupted.
	Interrupt(ctx context.Context, send func() error) error
}

type guardKey struct{}

// Guarded returns a context for driver calls that g decides about.
func Guarded(ctx context.Context, g Guard) context.Context {
	return context.WithValue(ctx, guardKey{}, g)
}

// Login sends a request, or a handshake, that carries a password. Every driver
// calls it for the first such request of a connection or session. A private key
// or a client certificate is never sent and locks no account, so these need no
// Login.
func Login(ctx context.Context, send func() error) error {
	if g, ok := ctx.Value(guardKey{}).(Guard); ok {
		return g.Login(ctx, send)
	}
	return send()
}

// Interrupt sends a request as Guard.Interrupt does. Every driver calls it for
// each request that switches a machine off, resets it, or interrupts what runs on
// it. Switching on a machine that is off interrupts nothing. A driver of systems calls it, with nothing to send, right
// before it changes one: to connect may have taken minutes.
func Interrupt(ctx context.Context, send func() error) error {
	if g, ok := ctx.Value(guardKey{}).(Guard); ok {
		return g.Interrupt(ctx, send)
	}
	return send()
}

// MostDenied is how many machines may deny a password before Slipway sends it
// only to machines that have accepted it before. A few wrong passwords lock an
// account in the directory that all machines ask.
const MostDenied = 2

// withheld is why a password was not sent. It has the class denied, but no machine
// has denied it.
type withheld struct{ error }

func (e withheld) Unwrap() error { return e.error }

// Withhold returns the error of a guard that does not send a password. It wraps
// ErrDenied, but no machine has said so.
func Withhold(format string, args ...any) error {
	return withheld{fmt.Errorf("%w: "+format, append([]any{ErrDenied}, args...)...)}
}

// WasDenied reports whether a machine has denied a credential that it received.
func WasDenied(err error) bool {
	return errors.Is(err, ErrDenied) && !errors.As(err, new(withheld))
}
