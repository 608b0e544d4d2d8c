package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

func TestCertificatesThatEnd(t *testing.T) {
	now := time.Date(2026, 11, 28, 6, 0, 0, 0, time.UTC)
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	valid := func(name string, from, to time.Duration) string {
		made := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(from), NotAfter: now.Add(to)}
		der, err := x509.CreateCertificate(rand.Reader, made, made, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	const day = 24 * time.Hour
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]struct {
		outcome site.Outcome
		phrase  string
	}{
		valid("well", -day, 90*day):       {site.CheckOK, "is valid until 2027-02-26 06:00:00Z"},
		valid("soon", -day, 13*day):       {site.CheckWrong, "expires at 2026-12-11 06:00:00Z"},
		valid("over", -2*day, -time.Hour): {site.CheckWrong, "expired at 2026-11-28 05:00:00Z"},
		valid("early", day, 90*day):       {site.CheckWrong, "is valid only from 2026-11-29 06:00:00Z on"},
		empty:                             {site.CheckWrong, "has no certificate"},
		filepath.Join(dir, "none"):        {site.CheckWrong, "cannot be read"},
	} {
		c := certificateCheck("API", file, now)
		if c.Outcome != want.outcome || !strings.Contains(c.Sentence, want.phrase) || (c.Release == "") != (c.Outcome == site.CheckOK) {
			t.Errorf("%s: %+v", filepath.Base(file), c)
		}
	}
	f := &runFlags{}
	if got := f.surroundings(now); len(got) != 0 {
		t.Errorf("a daemon without certificates has %+v", got)
	}
	f.api.cert, f.artifacts.cert = valid("api", -day, 90*day), valid("files", -day, day)
	got := f.surroundings(now)
	if len(got) != 2 || got[0].Subject != "API" || got[0].Outcome != site.CheckOK || got[1].Subject != "artifact server" || got[1].Outcome != site.CheckWrong {
		t.Errorf("a daemon with two certificates has %+v", got)
	}
}
