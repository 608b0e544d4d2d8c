package item

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/pem"
)

// Certificate is the body of a TLS certificate. Its private key is made on the machine, and never leaves it.
type Certificate struct {
	// Owner and Group are whose the private key is.
	Owner string `json:"owner"`
	Group string `json:"group"`
	// Trust are the certificates of the authorities, in PEM.
	Trust string `json:"trust"`
	// Reload are the units that read the certificate again.
	Reload []string `json:"reload,omitempty"`
	// Sign says that a new key is to be made, and its certificate to be asked for. The daemon sets it right
	// before the item is set.
	Sign bool `json:"sign,omitempty"`
	// HasList says that the lists of revoked certificates are to be beside it. List are these in PEM: the daemon
	// sets them right before the item is set. Without them those that are there stay.
	HasList bool   `json:"hasList,omitempty"`
	List    string `json:"list,omitempty"`
	// ListUntil is when the first of them is over, in RFC 3339; empty where that is not known.
	ListUntil string `json:"listUntil,omitempty"`
}

// MostLists bounds the lists of revoked certificates of all authorities of a site together, in bytes.
const MostLists = 16 << 20

// ListCurrent is the value of the field "revocationList" of a certificate with the present lists of revoked
// certificates. What a system has is told by the Digest of its file.
const ListCurrent = "current"

// ToSign is the value of the field "names" of a certificate that is to be asked for. What a system has is told by
// the Digest of its file.
const ToSign = "to be signed"

// Fields are what is to be true without the certificate itself.
func (c Certificate) Fields() map[string]string {
	fields := map[string]string{"owner": c.Owner + ":" + c.Group, "authorities": Authorities(c.Trust)}
	if c.HasList {
		fields["revocationList"] = ListCurrent
	}
	return fields
}

// Authorities is the canonical text of certificates in PEM: their fingerprints.
func Authorities(text string) string {
	var all []string
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		sum := sha256.Sum256(block.Bytes)
		all = append(all, "SHA256:"+base64.RawStdEncoding.EncodeToString(sum[:]))
	}
	return List(all)
}
