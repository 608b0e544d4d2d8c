package site

import (
	"encoding/json"
	"strings"
)

// Digester has digests that a design may write as tools print them: with or without "sha256:", in upper case, with
// colons. Whoever decodes a design calls SettleDigests afterwards.
type Digester interface {
	// SettleDigests brings the digests to the one form that they are compared in.
	SettleDigests()
}

// HexDigest returns the digest as lower case hex, without "sha256:" and colons. Of other texts it returns a text that is
// not a digest either.
func HexDigest(text string) string {
	return strings.ReplaceAll(strings.TrimPrefix(strings.ToLower(text), "sha256:"), ":", "")
}

// SettleDigests makes the digests lower case hex.
func (i *Image) SettleDigests() {
	i.SHA256 = HexDigest(i.SHA256)
	for node, digest := range i.Digests {
		i.Digests[node] = HexDigest(digest)
	}
}

// UnmarshalJSON reads an image, with its digests in lower case hex.
func (i *Image) UnmarshalJSON(text []byte) error {
	type plain Image
	if err := json.Unmarshal(text, (*plain)(i)); err != nil {
		return err
	}
	i.SettleDigests()
	return nil
}

// SettleDigests makes the digest lower case hex.
func (a *Artifact) SettleDigests() { a.SHA256 = HexDigest(a.SHA256) }

// UnmarshalJSON reads an artifact, with its digest in lower case hex.
func (a *Artifact) UnmarshalJSON(text []byte) error {
	type plain Artifact
	if err := json.Unmarshal(text, (*plain)(a)); err != nil {
		return err
	}
	a.SettleDigests()
	return nil
}

// SettleDigests makes the fingerprint "sha256:" and lower case hex.
func (t *Trust) SettleDigests() {
	if t.Fingerprint != "" {
		t.Fingerprint = "sha256:" + HexDigest(t.Fingerprint)
	}
}

// UnmarshalJSON reads a trust, with "sha256:" and lower case hex as its fingerprint.
func (t *Trust) UnmarshalJSON(text []byte) error {
	type plain Trust
	if err := json.Unmarshal(text, (*plain)(t)); err != nil {
		return err
	}
	t.SettleDigests()
	return nil
}
