package item

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strings"
)

// OtherValue is the value of a field that should have a credential's value and has another. Values
// of fields never contain the digest of a secret.
const OtherValue = "another one"

// ValueOf is the designed value of a field that should have a credential's value.
func ValueOf(credential string) string { return "that of credential " + credential }

// credentialFields are the fields that may have a credential's value, by kind.
var credentialFields = map[string]string{KindUsers: "password", KindFiles: "content"}

// CredentialField is the field that may have a credential's value, for a kind of items; empty for
// none.
func CredentialField(kind string) string { return credentialFields[kind] }

// Credential returns the credential whose value a field of the item should have.
func (i Item) Credential() (name string, designed bool) {
	field := credentialFields[Kind(i.Key)]
	name, designed = strings.CutPrefix(i.Fields[field], ValueOf(""))
	return name, designed && field != ""
}

// MaxSecret limits the size of a file whose content is a credential's value, in bytes.
const MaxSecret = 64 << 10

// IsSecret is why a file whose content is a credential's value is not shown.
const IsSecret = "[redacted]: it is the value of a credential"

// keyed is the prefix of a KeyedDigest.
const keyed = "hmac-sha256:"

// KeyedDigest is the canonical text of a secret content: HMAC-SHA-256 with a random key that is
// used once. Without the key nobody can test guesses against it.
func KeyedDigest(key, content []byte) string {
	sum := hmac.New(sha256.New, key)
	sum.Write(content) // never fails
	return keyed + hex.EncodeToString(sum.Sum(nil))
}

// IsKeyed reports whether a value has the prefix of a KeyedDigest.
func IsKeyed(value string) bool { return strings.HasPrefix(value, keyed) }

// DigestKeys returns the digest keys of items with a secret, including those that actions create,
// by item key.
func DigestKeys(items []Item) map[string][]byte {
	all := map[string][]byte{}
	for _, i := range items {
		var f File
		var a Action
		switch {
		case Kind(i.Key) == KindFiles && json.Unmarshal(i.Body, &f) == nil && len(f.Key) > 0:
			all[i.Key] = f.Key
		case Kind(i.Key) == KindBootActions && json.Unmarshal(i.Body, &a) == nil:
			maps.Copy(all, DigestKeys(a.Config))
		}
	}
	return all
}
