package item

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Revoked is who and what may no longer log in to a system by SSH.
type Revoked struct {
	// Site is the one that the certificates were signed for.
	Site string `json:"site"`
	// People are those whose certificates from `slipway ssh` do not count.
	People []string `json:"people,omitempty"`
	// Keys are public keys, "ssh-ed25519 AAAA…", that do not count, neither alone nor in a certificate.
	Keys []string `json:"keys,omitempty"`
}

// NoneRevoked is the field "revoked" of a system that has no list of revoked keys.
const NoneRevoked = "none"

// LoginID is the key ID of a certificate for an account of a node. It says who logs in:
// "daemon", or PersonalLogin of a caller.
func LoginID(site, node, account, who string) string {
	return fmt.Sprintf("slipway %s %s %s: %s", site, node, account, who)
}

// HostID is the key ID of a certificate that the system of a node proves itself by.
func HostID(site, node string) string { return fmt.Sprintf("slipway %s %s: host", site, node) }

// PersonalLogin names a caller of `slipway ssh` in LoginID, in lower case: a list of revoked names has no patterns, and must
// not miss a certificate because the name was written in another case. Issuers of OpenID Connect and authorities decide how
// an e-mail address is written, and its domain has no case (RFC 5321, section 2.4).
func PersonalLogin(caller string) string {
	name, ofIssuer := strings.CutSuffix(caller, byIssuer)
	if name = strings.ToLower(name); ofIssuer {
		name += byIssuer
	}
	return name + bySSH
}

const (
	byIssuer = " (OIDC)"
	bySSH    = " by slipway ssh"
)

// callerForms are how PersonalLogin names callers, by how they have proven who they are, as access.Kind
// has it. They have nothing but the name, so that a list of names revokes all certificates of a person:
// not the issuer that has authenticated the person, which a later access file may not name.
var callerForms = []struct{ kind, form string }{
	{"user", "%s"},
	{"person", "%s (certificate)"},
	{"oidc", "%s" + byIssuer},
	{"token", "token %s"},
}

// CallerNamed is how PersonalLogin names a caller of a kind; false for a kind that gets no certificates,
// since nothing could revoke them.
func CallerNamed(kind, name string) (string, bool) {
	for _, c := range callerForms {
		if c.kind == kind {
			return fmt.Sprintf(c.form, name), true
		}
	}
	return "", false
}

// StandsFor says whether a name in a list of revoked people is that of a caller, as CallerNamed names it. Upper and lower case
// are the same here: who is granted something is compared exactly, so a revocation has to reach at least as far.
func StandsFor(name, caller string) bool {
	return slices.ContainsFunc(CallersNamed(name), func(one string) bool { return strings.EqualFold(one, caller) })
}

// CallersNamed are all callers that a name stands for, as CallerNamed names them.
func CallersNamed(name string) []string {
	var all []string
	for _, c := range callerForms {
		all = append(all, fmt.Sprintf(c.form, name))
	}
	return all
}

// The parts of a list of revoked keys (OpenSSH's PROTOCOL.krl, sections 1, 2 and 4).
const (
	krlMagic        = "SSHKRL\n\x00"
	krlVersion      = 1
	krlCertificates = 1
	krlExplicitKeys = 2
	krlKeyIDs       = 0x23
	krlSerialRange  = 0x21
)

// KRL is the list of revoked keys of a system in OpenSSH's binary format; nil if nothing is
// revoked. The same design gives the same bytes. Its comment says what it revokes.
func (s SSH) KRL() ([]byte, error) {
	if s.Revoked == nil || len(s.Revoked.People)+len(s.Revoked.Keys) == 0 {
		return nil, nil
	}
	people, keys := slices.Sorted(slices.Values(s.Revoked.People)), slices.Sorted(slices.Values(s.Revoked.Keys))
	var ids, blobs, names []byte
	for _, person := range people {
		names = append(names, ", "+person...)
		for _, account := range slices.Sorted(slices.Values(s.Accounts)) {
			for _, caller := range CallersNamed(person) {
				ids = krlString(ids, []byte(LoginID(s.Revoked.Site, s.Node, account, PersonalLogin(caller))))
				if before := caller + bySSH; before != PersonalLogin(caller) { // in a certificate of a daemon of before
					ids = krlString(ids, []byte(LoginID(s.Revoked.Site, s.Node, account, before)))
				}
			}
		}
	}
	for _, key := range keys {
		blob, err := keyBlob(key)
		if err != nil {
			return nil, fmt.Errorf("the revoked key %.60q %w", key, err)
		}
		names = append(names, ", "+Fingerprint(key)...)
		blobs = krlString(blobs, blob)
	}
	list := krlHeader(bytes.TrimPrefix(names, []byte(", ")))
	if len(ids) > 0 {
		// Without a key of an authority it counts for all of them.
		section := krlString(krlString(nil, nil), nil)
		section = krlString(append(section, krlKeyIDs), ids)
		list = krlString(append(list, krlCertificates), section)
	}
	if len(blobs) > 0 {
		list = krlString(append(list, krlExplicitKeys), blobs)
	}
	return list, nil
}

// HostKRL is the list by which a client refuses every certificate of the authorities but those with
// the serial numbers. So a number that nobody remembers is revoked too.
func HostKRL(authorities []string, serials []uint64) ([]byte, error) {
	list := krlHeader(fmt.Appendf(nil, "all but %d host certificates", len(serials)))
	for _, line := range authorities {
		key, err := keyBlob(line)
		if err != nil {
			return nil, fmt.Errorf("the authority %.60q %w", line, err)
		}
		section, next := krlString(krlString(nil, key), nil), uint64(1) // 0 is no serial number
		for _, serial := range append(slices.Compact(slices.Sorted(slices.Values(serials))), math.MaxUint64) {
			if serial > next || serial == math.MaxUint64 {
				section = krlString(append(section, krlSerialRange), binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, next), serial-1))
			}
			next = serial + 1
		}
		list = krlString(append(list, krlCertificates), section)
	}
	return list, nil
}

// EmptyKRL is a list that revokes nothing.
func EmptyKRL() []byte { return krlHeader([]byte("nobody")) }

// krlHeader is the beginning of a list, up to its comment.
func krlHeader(comment []byte) []byte {
	list := binary.BigEndian.AppendUint32([]byte(krlMagic), krlVersion)
	list = append(list, make([]byte, 3*8)...) // version and date of the list, and flags: the same list for the same design
	return krlString(krlString(list, nil), comment)
}

// RevokedBy is the field "revoked" of a system with a list: what its comment says it revokes, and
// the beginning of its SHA-256, which tells a list that somebody changed.
func RevokedBy(list []byte) string {
	if list == nil {
		return NoneRevoked
	}
	sum := sha256.Sum256(list)
	return fmt.Sprintf("%s (list %x)", krlComment(list), sum[:6])
}

// krlComment is the comment in the header of a list.
func krlComment(list []byte) string {
	const header = len(krlMagic) + 4 + 3*8
	if !bytes.HasPrefix(list, []byte(krlMagic)) || len(list) < header {
		return "not a list of revoked keys"
	}
	rest := list[header:]
	var text []byte
	for range 2 { // a reserved string, and the comment
		if len(rest) < 4 || uint64(binary.BigEndian.Uint32(rest)) > uint64(len(rest)-4) {
			return "a list of revoked keys that is cut off"
		}
		length := 4 + int(binary.BigEndian.Uint32(rest))
		text, rest = rest[4:length], rest[length:]
	}
	return string(text)
}

func krlString(to, s []byte) []byte {
	return append(binary.BigEndian.AppendUint32(to, uint32(len(s))), s...)
}

// keyBlob is a public key in SSH's encoding.
func keyBlob(key string) ([]byte, error) {
	words := strings.Fields(key)
	if len(words) < 2 || strings.ContainsAny(key, "\r\n") {
		return nil, errors.New("is not one line \"ssh-ed25519 AAAA…\"")
	}
	blob, err := base64.StdEncoding.DecodeString(words[1])
	if err != nil || !bytes.HasPrefix(blob, krlString(nil, []byte(words[0]))) {
		return nil, errors.New("cannot be read")
	}
	return blob, nil
}
