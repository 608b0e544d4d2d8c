package engine

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/tlsca"
)

// rootKey is a root key for tests.
type rootKey string

func (k rootKey) Derive(use string, length int) ([]byte, error) {
	sum := sha256.Sum256([]byte(string(k) + use))
	return sum[:length], nil
}

// A list that was signed while the clock was ahead is signed again once the clock is right: programs refuse everybody by a
// list that does not count yet. No entry is lost by it, also none of a node that is gone, and the number rises.
func TestListOfAClockThatWasAhead(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Second)
	a, err := tlsca.Derive(rootKey("k"), "test", 1)
	if err != nil {
		t.Fatal(err)
	}
	life := 14 * 24 * time.Hour
	f := listFacts{signers: map[string]*tlsca.Authority{a.Fingerprint(): a}, isRead: true, life: life}
	was := site.RevocationList{Authority: a.Fingerprint(), Entries: []site.RevokedTLS{{Serial: "4f", Since: now.Add(-time.Hour), Until: now.Add(30 * 24 * time.Hour)}}}
	ahead, err := f.next(was, now.AddDate(3, 0, 0))
	if err != nil || ahead.PEM == "" {
		t.Fatalf("signed with the clock ahead: %+v, %v", ahead, err)
	}
	is, err := f.next(ahead, now)
	if err != nil || is.PEM == ahead.PEM || is.Since.After(now) || is.Number <= ahead.Number {
		t.Fatalf("with the right clock the list is of %s with number %d, after %s with %d: %v", is.Since, is.Number, ahead.Since, ahead.Number, err)
	}
	l, err := a.ReadList([]byte(is.PEM))
	if err != nil || !l.Has("4f") || !slices.Equal(is.Entries, was.Entries) {
		t.Errorf("the list has %+v, and the record %+v: %v", l.Revoked, is.Entries, err)
	}
	if again, err := f.next(is, now.Add(time.Minute)); err != nil || again.PEM != is.PEM {
		t.Errorf("signed once more a minute later: %v", err)
	}
}

// An intermediate that is certified again with the same key and name is the same issuer to programs, which read its newest
// list alone. So that has what was revoked under the earlier certificate.
func TestListOfAnIntermediateCertifiedAgain(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Second)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	var both []*tlsca.Authority
	for i := range 2 {
		c := &x509.Certificate{SerialNumber: big.NewInt(int64(i) + 1), Subject: pkix.Name{CommonName: "intermediate"}, NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1+i, 0, 0),
			IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}
		der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
		a, err := tlsca.Intermediate(append(slices.Clone(text), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...), []string{string(text)}, now)
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, a)
	}
	old, next := both[0], both[1]
	f := listFacts{signers: map[string]*tlsca.Authority{old.Fingerprint(): old}, isRead: true, life: 14 * 24 * time.Hour}
	was, err := f.next(site.RevocationList{Authority: old.Fingerprint(), Entries: []site.RevokedTLS{{Serial: "4f", Since: now, Until: now.AddDate(0, 1, 0)}}}, now)
	if err != nil {
		t.Fatal(err)
	}
	f.signers, f.recorded = map[string]*tlsca.Authority{next.Fingerprint(): next}, map[string]site.RevocationList{old.Fingerprint(): was}
	f.revoked = map[string][]site.TLSCertificate{old.Fingerprint(): {{Serial: "5a", Until: now.AddDate(0, 1, 0)}}}
	is, err := f.next(site.RevocationList{Authority: next.Fingerprint()}, now.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if l, err := next.ReadList([]byte(is.PEM)); err != nil || !l.Has("4f") || !l.Has("5a") || l.Number <= was.Number {
		t.Errorf("the list is %+v: %v", l, err)
	}
}
