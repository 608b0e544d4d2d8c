// Package secret keeps credentials by name. Names are in Git; values are files
// on the bootstrap host, each with the hosts it may be sent to, so that whoever
// can merge a line of the design cannot have a password sent elsewhere.
package secret

import (
	"encoding/json"
	"log/slog"
)

// redacted is all that a Value ever prints.
const redacted = "[redacted]"

// Value is a credential's value. However it is printed, logged or marshalled
// it reads "[redacted]"; Username and Reveal are the only ways to its content.
type Value struct {
	username string
	secret   string
}

// New makes a value, for tests and for drivers' own use.
func New(username, secret string) Value { return Value{username, secret} }

// Username is the account's name; it is not a secret, but it is kept out of
// logs all the same.
func (v Value) Username() string { return v.username }

// Reveal is the secret itself: a password or a private key. Call it only where
// it is sent.
func (v Value) Reveal() string { return v.secret }

// IsZero says whether there is no credential.
func (v Value) IsZero() bool { return v == Value{} }

func (v Value) String() string               { return redacted }
func (v Value) GoString() string             { return redacted }
func (v Value) LogValue() slog.Value         { return slog.StringValue(redacted) }
func (v Value) MarshalText() ([]byte, error) { return []byte(redacted), nil }
func (v Value) MarshalJSON() ([]byte, error) { return json.Marshal(redacted) }
