package start

import (
	"crypto/sha256"
	"crypto/x509"
	"testing"
	"time"

	made "github.com/slipway-gitops/slipway/tests/ramdisk/media"
)

// The daemon is known by the digest of its authority, whatever the machine's clock says; another
// authority, and another host of the same one, are not it.
func TestClocksDecideNothing(t *testing.T) {
	authority, own := made.Certificates(t)
	other, _ := made.Certificates(t)
	var shown []*x509.Certificate
	for _, der := range own.Certificate {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		shown = append(shown, c)
	}
	digest := func(der []byte) []byte { sum := sha256.Sum256(der); return sum[:] }
	now := time.Now()
	for name, at := range map[string]time.Time{"now": now, "years ago": now.AddDate(-9, 0, 0), "in years": now.AddDate(9, 0, 0)} {
		if err := verify(shown, digest(authority), made.Host, at); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if verify(shown, digest(other), made.Host, at) == nil || verify(shown, digest(authority), "10.9.9.9", at) == nil {
			t.Errorf("%s: another authority or host is accepted", name)
		}
	}
}
