package main

import (
	"strings"
	"testing"
)

// A certificate may be named as openssl, Slipway and designs name it.
func TestFormsOfFingerprints(t *testing.T) {
	digest := strings.Repeat("0f", 32)
	colons := strings.TrimSuffix(strings.Repeat("0F:", 32), ":")
	for _, form := range []string{digest, strings.ToUpper(digest), "sha256:" + digest, colons, "sha256:" + colons} {
		e, err := bmcFlags{fingerprint: form}.endpoint("https://127.0.0.1")
		if err != nil || e.Trust.Fingerprint != "sha256:"+digest {
			t.Errorf("%s: %q, %v", form, e.Trust.Fingerprint, err)
		}
	}
	for _, wrong := range []string{"sha256:", digest[1:], "sha1:" + digest, "SHA256:" + "AB"} {
		if _, err := (bmcFlags{fingerprint: wrong}).endpoint("https://127.0.0.1"); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}
