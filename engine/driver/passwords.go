package driver

import (
	"context"
	"errors"

	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Passwords keeps what is known of the passwords of a machine's own accounts, such as those of
// its BMC: no machine tells them, and a login that fails counts towards a lock. The engine puts
// one into the context of every call of a driver that sets such passwords.
type Passwords interface {
	// Known is what is known of an account, where the value is the password that it is to have.
	// It sends nothing.
	Known(account string, v secret.Value) PasswordKnown
	// Derived is the password that an account is to have by a derived credential. It refuses, with a
	// sentence, whatever may not be sent to the BMC that the machine is open to: to an address outside
	// of the list on the bootstrap host, to one with another certificate than the one that is proven for the
	// machine, and one with an epoch that was lowered.
	Derived(account, credential string) (secret.Value, error)
	// Changing are the accounts of which a change was begun and has not come to its end.
	Changing() []string
	// Logins are the user names with which other logins of the site go to the machine's
	// BMC, as those of other nodes behind it, each with its credential. Where one is not known
	// now there is an error.
	Logins() (map[string]string, error)
	// Begin records that an account is about to be changed. Where the value is not zero it may
	// be the account's password from now on. Without a record nothing may be written.
	Begin(ctx context.Context, account string, v secret.Value) error
	// Prove sends a fresh login as the account, and records whether it was accepted. After two
	// logins as one account that were not accepted, whatever the value or the answer was, it
	// sends none for an hour, and returns an error that wraps ErrDenied. It returns the error of
	// login as it got it. A login that returns nil was accepted, one that returns ErrDenied was
	// not, and one that returns ErrNotSent does not count. Logins of Slipway itself with a derived password
	// of the account count too.
	Prove(ctx context.Context, account string, v secret.Value, login func() error) error
	// Withdraw records that a change was refused, so that nothing of it was done.
	Withdraw(ctx context.Context, account string) error
	// Done records that the change of an account has come to its end, with its sessions.
	Done(ctx context.Context, account string) error
}

// PasswordKnown is what is known of the password of an account.
type PasswordKnown struct {
	// Proven says that a fresh login with the value was accepted, Other that one with another
	// value was, and not with this one. Neither is so where none was.
	Proven, Other bool
	// Offered says that the value may have been set, and that this is not proven.
	Offered bool
	// Denied says that the value was offered and a login with it was denied since: it is not sent again before a
	// person says so.
	Denied bool
	// Open says that some value was offered, this one or another, or that the account has not accepted what was sent
	// last: only a login that it accepts tells which password it has.
	Open bool
	// As is the derived password with which a login was accepted last; zero for none.
	As site.Derived
}

// ErrNotSent is wrapped by the error of a login of which the password was not sent.
var ErrNotSent = errors.New("the password was not sent")

type passwordsKey struct{}

// WithPasswords is a context for the calls of a driver in which p keeps what is known.
func WithPasswords(ctx context.Context, p Passwords) context.Context {
	return context.WithValue(ctx, passwordsKey{}, p)
}

// PasswordsOf is what keeps what is known of passwords; nil where nothing does, as in a command
// that only looks: then nothing is known of any, and none is set.
func PasswordsOf(ctx context.Context) Passwords {
	p, _ := ctx.Value(passwordsKey{}).(Passwords)
	return p
}
