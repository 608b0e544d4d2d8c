// Package secret provides credentials by name. Names are in Git. Values come
// from files or programs of the bootstrap host, encrypted files of the
// repository, or a server of secrets. Each has the hosts that it may be sent
// to, so that a merged line of the design cannot send a password elsewhere.
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

// Value is a credential's value. It reads "[redacted]" however it is printed,
// logged or marshalled. Password and PEM return its content for sending or
// proving an identity, and refuse a secret of another kind. Values are equal
// when their contents are.
type Value struct {
	// These are handles, which hold pointers, instead of strings. Package fmt
	// prints unexported fields of structs without calling their methods, but
	// does not follow a pointer to a string.
	username, secret unique.Handle[string]
}

// New makes a value, for tests and for drivers.
func New(username, secret string) Value {
	if username == "" && secret == "" {
		return Value{}
	}
	return Value{unique.Make(username), unique.Make(secret)}
}

// Username returns the account's name. It is not secret, but is still kept out
// of logs.
func (v Value) Username() string {
	if v.IsZero() {
		return ""
	}
	return v.username.Value()
}

// Reveal returns the content, whatever it is, for finding it in texts, and for
// documents that are kept like secrets. Use Password for a credential to send.
func (v Value) Reveal() string {
	if v.IsZero() {
		return ""
	}
	return v.secret.Value()
}

// IsZero reports whether there is no credential.
func (v Value) IsZero() bool { return v == Value{} }

func (v Value) String() string               { return redacted }
func (v Value) GoString() string             { return redacted }
func (v Value) LogValue() slog.Value         { return slog.StringValue(redacted) }
func (v Value) MarshalText() ([]byte, error) { return []byte(redacted), nil }
func (v Value) MarshalJSON() ([]byte, error) { return json.Marshal(redacted) }

// Format prints "[redacted]" for every verb and flag.
func (v Value) Format(f fmt.State, _ rune) { io.WriteString(f, redacted) }
