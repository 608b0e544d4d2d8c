package plan

import (
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// The plan says what is encrypted, and which start waits for a person.
func TestEncryptedIsSaid(t *testing.T) {
	file := &site.Filesystem{Type: "xfs", Mount: "/srv"}
	for want, u := range map[string]site.Use{
		"xfs on /srv": {Filesystem: file},
		"xfs on /srv, encrypted (opened by the TPM)":                                                  {Filesystem: file, Encrypt: "tpm"},
		"in the volume group data, encrypted (opened by the TPM)":                                     {Group: "data", Encrypt: "tpm"},
		"xfs on /srv, encrypted (opened at the console: a person types the passphrase at each start)": {Filesystem: file, Encrypt: "console"},
	} {
		if got := used(u); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
