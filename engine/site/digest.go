package site

import (
	"encoding/json"
	"strings"
)

// A design may write a digest as tools print it: with or without "sha256:", in
// upper case, with colons. These methods bring it to one form.

// UnmarshalJSON reads an image, with its digests in lower case hex.
func (i *Image) UnmarshalJSON(text []byte) error {
	type plain Image
	if err := json.Unmarshal(text, (*plain)(i)); err != nil {
		return err
	}
	i.SHA256 = hexDigest(i.SHA256)
	for node, digest := range i.Digests {
		i.Digests[node] = hexDigest(digest)
	}
	return nil
}

// UnmarshalJSON reads an artifact, with its digest in lower case hex.
func (a *Artifact) UnmarshalJSON(text []byte) error {
	type plain Artifact
	if err := json.Unmarshal(text, (*plain)(a)); err != nil {
		return err
	}
	a.SHA256 = hexDigest(a.SHA256)
	return nil
}

// UnmarshalJSON reads a trust, with "sha256:" and lower case hex as its fingerprint.
func (t *Trust) UnmarshalJSON(text []byte) error {
	type plain Trust
	if err := json.Unmarshal(text, (*plain)(t)); err != nil {
		return err
	}
	if t.Fingerprint != "" {
		t.Fingerprint = "sha256:" + hexDigest(t.Fingerprint)
	}
	return nil
}

func hexDigest(s string) string {
	return strings.ReplaceAll(strings.TrimPrefix(strings.ToLower(s), "sha256:"), ":", "")
}
