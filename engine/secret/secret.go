// Package secret keeps credentials by name. Names are in Git; values are files
// on the bootstrap host, each with the hosts it may be sent to, so that whoever
// can merge a line of the design cannot have a password sent elsewhere.
package secret

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"unique"
)

// redacted is all that a Value ever prints.
const redacted = "[redacted]"

// Value is a credential's value. However it is printed, logged or marshalled
// it reads "[redacted]". Password and PEM give its content to who sends it or
// proves something by it, and refuse a secret of another kind.
// Values are equal when their content is.
type Value struct {
	// Handles, which hold pointers, and not strings: package fmt calls no
	// methods on unexported fields of others' structs and prints what is in
	// them, but it does not follow a pointer to a string.
	username, secret unique.Handle[string]
}

// New makes a value, for tests and for drivers' own use.
func New(username, secret string) Value {
	if username == "" && secret == "" {
		return Value{}
	}
	return Value{unique.Make(username), unique.Make(secret)}
}

// Username is the account's name; it is not a secret, but it is kept out of
// logs all the same.
func (v Value) Username() string {
	if v.IsZero() {
		return ""
	}
	return v.username.Value()
}

// Reveal is the content, whatever it is: for finding it in texts, and for
// documents that are kept like secrets. What is sent as a credential comes from
// Password.
func (v Value) Reveal() string {
	if v.IsZero() {
		return ""
	}
	return v.secret.Value()
}

// IsZero says whether there is no credential.
func (v Value) IsZero() bool { return v == Value{} }

// IsNameAlone says whether there is no secret: nothing, or the name of an account.
func (v Value) IsNameAlone() bool { return v.Reveal() == "" }

func (v Value) String() string               { return redacted }
func (v Value) GoString() string             { return redacted }
func (v Value) LogValue() slog.Value         { return slog.StringValue(redacted) }
func (v Value) MarshalText() ([]byte, error) { return []byte(redacted), nil }
func (v Value) MarshalJSON() ([]byte, error) { return json.Marshal(redacted) }

// Format prints "[redacted]" for every verb and flag.
func (v Value) Format(f fmt.State, _ rune) { io.WriteString(f, redacted) }
