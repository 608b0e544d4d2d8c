// Package media makes the ramdisk, and what an agent in it needs to call a test on an emulated
// machine.
package media

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/sinks/agent/ramdisk"
)

// Host is the address at which QEMU's own network has this host's loopback.
const Host = "10.0.2.2"

// Build makes the ramdisk of the packages in SLIPWAY_DEBS, or of those that apt brings, with
// words on its command line.
func Build(ctx context.Context, t *testing.T, words string) *ramdisk.Built {
	t.Helper()
	program := filepath.Join(t.TempDir(), "slipway-agent-linux-amd64")
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", program, "github.com/slipway-gitops/slipway/cmd/slipway-agent")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b, err := ramdisk.Build(ctx, ramdisk.Options{Debs: os.Getenv("SLIPWAY_DEBS"), Agent: program, Append: words, Out: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ForBoot is a medium with the words of one boot.
func ForBoot(t *testing.T, path string, words ...string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	m, err := ramdisk.ForBoot(f, info.Size(), words...)
	if err != nil {
		t.Fatal(err)
	}
	to, err := os.Create(filepath.Join(t.TempDir(), "boot.iso"))
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if _, err := io.Copy(to, m); err != nil {
		t.Fatal(err)
	}
	return to.Name()
}

// Certificates are those of an authority, and of a daemon at Host with it behind.
func Certificates(t *testing.T) (authority []byte, daemon tls.Certificate) {
	t.Helper()
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	ca, own := key(), key()
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now(), NotAfter: time.Now().Add(3 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	authority, err := x509.CreateCertificate(rand.Reader, root, root, ca.Public(), ca)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "daemon"}, NotBefore: root.NotBefore, NotAfter: root.NotAfter, IPAddresses: []net.IP{net.ParseIP(Host)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, leaf, root, own.Public(), ca)
	if err != nil {
		t.Fatal(err)
	}
	return authority, tls.Certificate{Certificate: [][]byte{der, authority}, PrivateKey: own}
}
