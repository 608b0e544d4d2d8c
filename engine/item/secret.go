package item

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strings"
)

// OtherValue is what a field is whose value is designed to be that of a credential and is
// another one. No digest of a secret is among the values of fields.
const OtherValue = "another one"

// ValueOf is the value of a field that is designed to be that of a credential.
func ValueOf(credential string) string { return "that of credential " + credential }

// credentialFields are the fields that may be the value of a credential, by kind.
var credentialFields = map[string]string{KindUsers: "password", KindFiles: "content"}

// CredentialField is the field of a kind of items that may be the value of a credential;
// empty for none.
func CredentialField(kind string) string { return credentialFields[kind] }

// Credential is the name of the credential whose value a field of the item is designed to be.
func (i Item) Credential() (name string, designed bool) {
	field := credentialFields[Kind(i.Key)]
	name, designed = strings.CutPrefix(i.Fields[field], ValueOf(""))
	return name, designed && field != ""
}

// MaxSecret bounds the content of a file that is the value of a credential, in bytes.
const MaxSecret = 64 << 10

// IsSecret is why nothing is shown of a file whose content is the value of a credential.
const IsSecret = "[redacted]: it is the value of a credential"

// keyed begins what KeyedDigest gives.
const keyed = "hmac-sha256:"

// KeyedDigest is the canonical text of a content that is a secret, by a random key that is
// used once: HMAC-SHA-256. Without the key nobody can try values with it.
func KeyedDigest(key, content []byte) string {
	sum := hmac.New(sha256.New, key)
	sum.Write(content) // to memory
	return keyed + hex.EncodeToString(sum.Sum(nil))
}

// IsKeyed says whether a value is a KeyedDigest, whatever stands behind it.
func IsKeyed(value string) bool { return strings.HasPrefix(value, keyed) }

// DigestKeys are the keys of the digests of items that have a secret, and of those that
// actions put there, by the keys of the items.
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
