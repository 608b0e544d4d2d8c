package engine

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/tlsca"
)

// An intermediate that ends soon is a problem of the site before all certificates end with it. Certificates that it has
// cut off are not signed again for the same end.
func TestIntermediateThatEnds(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		life    time.Duration // of the intermediate from now on
		problem bool
		due     bool // a certificate that is past two thirds of its life, and ends in two days
	}{
		"in a year":            {365 * 24 * time.Hour, false, true},
		"in three weeks":       {21 * 24 * time.Hour, true, true},
		"with the certificate": {48 * time.Hour, true, false},
	} {
		root, file := intermediateUntil(t, now.Add(c.life))
		e := &Engine{Config: Config{TLSIntermediate: file}, design: &site.Site{TLS: site.TLSAuthorities{Authorities: []string{root}}}, workers: map[string]*worker{}}
		all := e.endingLocked(now)
		if (len(all) > 0) != c.problem || c.problem && !strings.Contains(all[0].What, now.Add(c.life).UTC().Format(time.DateOnly)) {
			t.Errorf("%s: %+v", name, all)
		}
		a, err := tlsca.Intermediate(file, []string{root}, now)
		if err != nil {
			t.Fatal(err)
		}
		w := &worker{e: e, name: "n1", node: &site.Node{Name: "n1"}}
		until := a.Until()
		if c.due {
			until = now.Add(48 * time.Hour)
		}
		w.memory.Recorded.TLS = []site.TLSCertificate{{Name: "web", Serial: "1", Digest: "d", Authority: a.Fingerprint(), Since: now.Add(-12 * 24 * time.Hour), Until: until}}
		if is, why, err := w.validTLS(w.node, a, "web", "d"); err != nil || is.Serial != "1" || (why != "") != c.due {
			t.Errorf("%s: %q, %v", name, why, err)
		}
	}
}

// Lists of revoked certificates on nodes that end soon are a problem of the site, if the design asks for them.
func TestListsThatEnd(t *testing.T) {
	now := time.Now()
	life := time.Duration(site.TLSAuthorities{}.ListLifeOrDefault())
	for name, c := range map[string]struct {
		ends    time.Duration
		asks    bool
		problem bool
	}{
		"renewed in time": {life / 2, true, false}, "late": {life/4 - time.Minute, true, true}, "over": {-time.Hour, true, true}, "not asked for": {-time.Hour, false, false},
	} {
		e := &Engine{design: &site.Site{}, workers: map[string]*worker{}}
		w := &worker{e: e, name: "n1", node: &site.Node{Name: "n1", System: site.System{Certificates: map[string]site.TLS{"web": {RevocationList: c.asks}}}}}
		e.workers["n1"] = w
		w.memory.Observed.Facets = map[site.Facet]site.FacetState{site.FacetConfig: {ListsUntil: map[string]time.Time{"web": now.Add(c.ends)}}}
		all := e.lateListsLocked(now)
		if (len(all) > 0) != c.problem || c.problem && !strings.Contains(all[0].What, "of web of n1 until "+now.Add(c.ends).UTC().Format(time.DateTime)) {
			t.Errorf("%s: %+v", name, all)
		}
	}
}

func intermediateUntil(t *testing.T, until time.Time) (root string, file []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var made [2][]byte
	parent := &x509.Certificate{}
	for i, end := range []time.Time{until.AddDate(1, 0, 0), until} {
		c := &x509.Certificate{SerialNumber: big.NewInt(int64(i) + 1), Subject: pkix.Name{CommonName: []string{"root", "intermediate"}[i]}, NotBefore: time.Now().Add(-time.Hour), NotAfter: end,
			IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
		if i == 0 {
			parent = c
		}
		der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		made[i] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
		if parent, err = x509.ParseCertificate(der); err != nil {
			t.Fatal(err)
		}
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(made[0]), append(made[1], pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})...)
}
