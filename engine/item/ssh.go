package item

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"
)

// SSH is the body of who may log in by certificate.
type SSH struct {
	// Authorities are the public keys whose certificates count, "ssh-ed25519 AAAA…".
	Authorities []string `json:"authorities"`
	// Node is the one that certificates have to be for, Accounts those that they let in.
	Node     string   `json:"node"`
	Accounts []string `json:"accounts"`
	// Revoked is who and what may not log in although the rest allows it; nil for nobody.
	Revoked *Revoked `json:"revoked,omitempty"`
}

// IsAsked says whether anybody may log in by certificate.
func (s SSH) IsAsked() bool { return len(s.Authorities) > 0 && len(s.Accounts) > 0 }

// Fields are what is to be true: which keys count, for each account the name that a
// certificate for it has to have, and what is revoked.
func (s SSH) Fields() map[string]string {
	var names, keys []string
	for _, account := range s.Accounts {
		names = append(names, LoginName(s.Node, account))
	}
	for _, key := range s.Authorities {
		keys = append(keys, Fingerprint(key))
	}
	list, err := s.KRL()
	revoked := RevokedBy(list)
	if err != nil {
		revoked = err.Error() // a rule refuses it before, and the system does after
	}
	return map[string]string{"accounts": List(names), "authorities": List(keys), "revoked": revoked}
}

// SSHHost is the body of the certificates that a system proves itself by.
type SSHHost struct {
	// Names are what the certificates are good for: names and addresses of the system, the node's own
	// name first.
	Names []string `json:"names"`
	// Certificates are those to show, one for each kind of host key, as ssh-keygen(1) writes them. A
	// design does not have them: they are signed when the system is changed.
	Certificates []string `json:"certificates,omitempty"`
}

// Fields are what is to be true by the design. What a system has is told by HostDigest.
func (s SSHHost) Fields() map[string]string { return map[string]string{"certificates": List(s.Names)} }

// HostDigest tells certificates of a system apart from others, in any order.
func HostDigest(certificates []string) string {
	return Digest([]byte(strings.Join(slices.Sorted(slices.Values(certificates)), "\n")))
}

// LoginName is the name (principal) that a certificate has to have for an account of a node,
// so that it opens no other account and no other node.
func LoginName(node, account string) string { return "slipway:" + node + ":" + account }

// Fingerprint is that of an SSH public key, "ssh-ed25519 AAAA…", as ssh-keygen(1) shows it;
// the text itself where it is none.
func Fingerprint(key string) string {
	parts := strings.Fields(key)
	if len(parts) < 2 {
		return key
	}
	blob, err := base64.StdEncoding.DecodeString(parts[1])
	if err != nil {
		return key
	}
	sum := sha256.Sum256(blob)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}
