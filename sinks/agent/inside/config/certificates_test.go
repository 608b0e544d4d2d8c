package config

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/sitekey"
	"github.com/slipway-gitops/slipway/engine/tlsca"
)

const certificateKey = "certificates.web"

// authority signs whatever a system asks, as the daemon does for the names of the design.
type authority struct {
	*tlsca.Authority
	requests [][]byte
	refuses  error
	chain    func(string) string // of what is given instead
}

func newAuthority(t *testing.T, f *fake) *authority {
	t.Helper()
	key, err := sitekey.Create(filepath.Join(t.TempDir(), "site.key"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := tlsca.Derive(key, "fra", 1)
	if err != nil {
		t.Fatal(err)
	}
	ca := &authority{Authority: a}
	f.host.Sign = func(key string, request []byte) ([]byte, error) {
		ca.requests = append(ca.requests, request)
		if ca.refuses != nil {
			return nil, ca.refuses
		}
		c, err := a.Sign(request, tlsca.Grant{Node: "n1", Names: []string{"n1.example.org"}, Usage: tlsca.Server, Life: time.Hour}, time.Now())
		if err == nil && ca.chain != nil {
			c.Chain = ca.chain(c.Chain)
		}
		return []byte(c.Chain), err
	}
	return ca
}

// wants is a certificate as the daemon asks for it.
func (a *authority) wants(sign bool, owner string, reload ...string) item.Item {
	body := item.Certificate{Owner: owner, Group: owner, Trust: a.PEM(), Reload: reload, Sign: sign}
	fields := body.Fields()
	fields["names"] = item.ToSign
	return item.New(certificateKey, fields, body)
}

func (f *fake) certificate(t *testing.T) map[string]string {
	t.Helper()
	have := map[string]string{}
	seen := f.observe(certificateKey)
	for field, v := range seen.Have {
		have[strings.TrimPrefix(field, certificateKey+".")] = v
	}
	if why := seen.Unread[certificateKey]; why != "" {
		have["unread"] = why
	}
	return have
}

// The key is made here with mode 0600 for its owner, fits the certificate, and is nowhere else. A renewal changes both
// at once, and leaves no earlier key.
func TestCertificateIsSetAndRenewed(t *testing.T) {
	f := newFake(t)
	ca := newAuthority(t, f)
	before := f.listing(false)
	if have := f.certificate(t); len(have) != 0 {
		t.Fatalf("nothing is there yet, and it tells %v", have)
	}
	if err := f.apply([]item.Item{ca.wants(true, "ops", "a.service")}); err != nil {
		t.Fatal(err)
	}
	key, cert := f.read("/etc/slipway-tls/web/key.pem"), f.read("/etc/slipway-tls/web/cert.pem")
	info, err := os.Stat(f.host.Path("/etc/slipway-tls/web/key.pem"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v, %v", info.Mode(), err)
	}
	want := map[string]string{"names": item.Digest([]byte(cert)), "owner": "ops:ops", "authorities": ca.Fingerprint()}
	if have := f.certificate(t); !mapsEqual(have, want) {
		t.Errorf("it tells %v, want %v", have, want)
	}
	if digest := f.host.Certified[certificateKey]; digest != want["names"] {
		t.Errorf("the call tells %q", digest)
	}
	r, err := x509.ParseCertificateRequest(ca.requests[0])
	if err != nil || r.CheckSignature() != nil || len(r.DNSNames)+len(r.IPAddresses)+len(r.Subject.Names) > 0 {
		t.Errorf("the request asks for names: %v, %v", r, err)
	}
	openssl(t, f)
	if !slices.Contains(f.calls, "systemctl --no-pager --no-ask-password reload -- a.service") {
		t.Errorf("a.service was not reloaded: %q", f.calls)
	}
	noKeyIn(t, key, f.read("/var/lib/slipway-inside/owned.json"), strings.Join(f.told, " "), strings.Join(f.calls, " "))

	f.reload()
	if err := f.apply([]item.Item{ca.wants(true, "ops", "a.service")}); err != nil {
		t.Fatal(err)
	}
	if f.read("/etc/slipway-tls/web/key.pem") == key || f.read("/etc/slipway-tls/web/cert.pem") == cert {
		t.Error("the renewal kept the key or the certificate")
	}
	openssl(t, f)
	if strings.Contains(f.listing(false), strings.Split(key, "\n")[1]) {
		t.Error("the earlier key is still there")
	}
	f.reload()
	if err := f.apply(nil, certificateKey); err != nil {
		t.Fatal(err)
	}
	if after := f.listing(false); after != before {
		t.Errorf("it left something:\n%s\nbefore\n%s", after, before)
	}
}

func mapsEqual(a, b map[string]string) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

func noKeyIn(t *testing.T, key string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		for _, line := range strings.Split(key, "\n")[1:3] {
			if strings.Contains(text, line) {
				t.Errorf("the private key is in %q", text)
			}
		}
	}
}

// openssl reads the key, and verifies the certificate by what is beside it.
func openssl(t *testing.T, f *fake) {
	t.Helper()
	at := func(file string) string { return f.host.Path("/etc/slipway-tls/web/" + file) }
	out, err := exec.CommandContext(t.Context(), "openssl", "verify", "-CAfile", at("ca.pem"), "-verify_hostname", "n1.example.org", at("cert.pem")).CombinedOutput()
	if err != nil {
		t.Errorf("openssl verify: %s", out)
	}
	public, err := exec.CommandContext(t.Context(), "openssl", "pkey", "-in", at("key.pem"), "-check", "-pubout").Output()
	if err != nil || !strings.Contains(string(public), "Key is valid") {
		t.Errorf("openssl pkey: %s, %v", public, err)
	}
	of, err := exec.CommandContext(t.Context(), "openssl", "x509", "-in", at("cert.pem"), "-noout", "-pubkey").Output()
	if err != nil || !strings.HasSuffix(string(public), string(of)) {
		t.Errorf("the certificate is for another key: %s, %s", of, public)
	}
}

// What somebody changed is told, in words, and the next certificate puts it right.
func TestCertificateChangedByHand(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *fake)
		want   string
	}{
		"others may read the key": {func(f *fake) {
			if err := os.Chmod(f.host.Path("/etc/slipway-tls/web/key.pem"), 0o640); err != nil {
				f.t.Fatal(err)
			}
		}, "with mode 0640"},
		"another key":         {func(f *fake) { f.replace("/etc/slipway-tls/web/key.pem", "x") }, "is another key"},
		"no key":              {func(f *fake) { f.unlink("/etc/slipway-tls/web/key.pem") }, "no file is at"},
		"no link":             {func(f *fake) { f.unlink("/etc/slipway-tls/web") }, ""},
		"a link to else":      {func(f *fake) { f.unlink("/etc/slipway-tls/web"); f.link("/etc/slipway-tls/web", "/etc/ssl") }, "is a link to /etc/ssl"},
		"another certificate": {func(f *fake) { f.replace("/etc/slipway-tls/web/cert.pem", "x") }, item.Digest([]byte("x"))},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			ca := newAuthority(t, f)
			if err := f.apply([]item.Item{ca.wants(true, "root")}); err != nil {
				t.Fatal(err)
			}
			c.change(f)
			if have := f.certificate(t)["names"]; !strings.Contains(have, c.want) || (have == "") != (c.want == "") {
				t.Errorf("it tells %q, want %q", have, c.want)
			}
			f.reload()
			if err := f.apply([]item.Item{ca.wants(true, "root")}); err != nil {
				t.Fatal(err)
			}
			openssl(t, f)
			if have := f.certificate(t)["names"]; have != item.Digest([]byte(f.read("/etc/slipway-tls/web/cert.pem"))) {
				t.Errorf("afterwards it tells %q", have)
			}
		})
	}
}

func (f *fake) unlink(path string) {
	f.t.Helper()
	if err := os.Remove(f.host.Path(path)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fake) replace(path, content string) {
	f.t.Helper()
	if err := os.WriteFile(f.host.Path(path), []byte(content), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// Where no certificate comes, nothing is written, and the certificate from before stays.
func TestCertificateRefused(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(f *fake, ca *authority)
		item    func(ca *authority) item.Item
		want    string
	}{
		"the daemon refuses":      {func(_ *fake, ca *authority) { ca.refuses = errors.New("the clocks differ") }, nil, "the clocks differ"},
		"a certificate of others": {func(_ *fake, ca *authority) { ca.chain = func(string) string { return ca.PEM() } }, nil, "not a certificate of the new key"},
		"no certificate":          {func(_ *fake, ca *authority) { ca.chain = func(string) string { return "x" } }, nil, "not a certificate of the new key"},
		"no account":              {nil, func(ca *authority) item.Item { return ca.wants(true, "nobody-here") }, `no account "nobody-here"`},
		"no unit":                 {nil, func(ca *authority) item.Item { return ca.wants(true, "root", "absent.service") }, "absent.service that is to be reloaded is not-found"},
		"a unit that cannot":      {nil, func(ca *authority) item.Item { return ca.wants(true, "root", "static.service") }, "static.service cannot be reloaded"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			ca := newAuthority(t, f)
			f.noReload = []string{"static.service"}
			if err := f.apply([]item.Item{ca.wants(true, "root")}); err != nil {
				t.Fatal(err)
			}
			before := f.listing(true)
			if c.prepare != nil {
				c.prepare(f, ca)
			}
			i := ca.wants(true, "root")
			if c.item != nil {
				i = c.item(ca)
			}
			if err := f.apply([]item.Item{i}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if after := f.listing(true); after != before {
				t.Errorf("it wrote something:\n%s\nbefore\n%s", after, before)
			}
		})
	}
	f := newFake(t)
	ca := newAuthority(t, f)
	f.put("/etc/slipway-tls/web/x", "somebody's")
	if err := f.apply([]item.Item{ca.wants(true, "root")}); err == nil || !strings.Contains(err.Error(), "which Slipway did not make") || len(ca.requests) > 0 {
		t.Errorf("a folder of somebody else: %v, %d requests", err, len(ca.requests))
	}
}

// A reload that fails is told, and done again without another certificate.
func TestCertificateIsReadAgain(t *testing.T) {
	f := newFake(t)
	ca := newAuthority(t, f)
	f.fails["a.service"] = true
	if err := f.apply([]item.Item{ca.wants(true, "root", "a.service")}); err == nil || !strings.Contains(err.Error(), "reload") {
		t.Errorf("got %v", err)
	}
	digest := item.Digest([]byte(f.read("/etc/slipway-tls/web/cert.pem")))
	if have := f.certificate(t)["names"]; have != digest+" (a.service has not read it)" {
		t.Errorf("it tells %q", have)
	}
	delete(f.fails, "a.service")
	f.reload()
	if err := f.apply([]item.Item{ca.wants(false, "root", "a.service")}); err != nil || len(ca.requests) != 1 {
		t.Errorf("%v, %d requests", err, len(ca.requests))
	}
	if have := f.certificate(t); have["names"] != digest {
		t.Errorf("it tells %q", have)
	}
}

// One unit that cannot be reloaded keeps none of the others from reading the certificate.
func TestOneUnitDoesNotReadTheCertificate(t *testing.T) {
	f := newFake(t)
	ca := newAuthority(t, f)
	f.active["b.service"] = "active"
	f.fails["a.service"] = true
	if err := f.apply([]item.Item{ca.wants(true, "root", "a.service", "b.service")}); err == nil || !strings.Contains(err.Error(), "a.service") {
		t.Errorf("got %v", err)
	}
	const reloadsB = "systemctl --no-pager --no-ask-password reload -- b.service"
	if !slices.Contains(f.calls, reloadsB) {
		t.Errorf("b.service was not reloaded: %q", f.calls)
	}
	if have := f.certificate(t)["names"]; !strings.HasSuffix(have, " (a.service has not read it)") {
		t.Errorf("it tells %q", have)
	}
	f.calls = nil
	delete(f.fails, "a.service")
	f.reload()
	if err := f.apply([]item.Item{ca.wants(false, "root")}); err != nil || slices.Contains(f.calls, reloadsB) || len(f.calls) == 0 {
		t.Errorf("%v; called %q", err, f.calls)
	}
}

// A key that another account had is not given to the next one: it is replaced.
func TestKeyOfAnotherAccount(t *testing.T) {
	f := newFake(t)
	ca := newAuthority(t, f)
	if err := f.apply([]item.Item{ca.wants(true, "root")}); err != nil {
		t.Fatal(err)
	}
	key := f.read("/etc/slipway-tls/web/key.pem")
	if err := f.apply([]item.Item{ca.wants(false, "ops")}); err != nil {
		t.Fatal(err)
	}
	if have := f.certificate(t)["owner"]; have == "ops:ops" {
		t.Error("ops got the key that root had")
	}
	f.reload()
	if err := f.apply([]item.Item{ca.wants(true, "ops")}); err != nil {
		t.Fatal(err)
	}
	if have := f.certificate(t)["owner"]; have != "ops:ops" || f.read("/etc/slipway-tls/web/key.pem") == key {
		t.Errorf("it is of %s, and a new one: %t", have, f.read("/etc/slipway-tls/web/key.pem") != key)
	}
}

// Cut off at each write, the next call makes it whole, and there is never a key without its certificate.
func TestCertificateCutOff(t *testing.T) {
	for limit := 1; ; limit++ {
		f := newFake(t)
		ca := newAuthority(t, f)
		if err := f.apply([]item.Item{ca.wants(true, "root", "a.service")}); err != nil {
			t.Fatal(err)
		}
		f.reload()
		f.writes, f.limit = 0, limit
		err := f.apply([]item.Item{ca.wants(true, "root", "a.service")})
		f.limit = 0
		openssl(t, f)
		f.reload()
		if have := f.certificate(t)["names"]; !strings.HasPrefix(have, item.Digest([]byte(f.read("/etc/slipway-tls/web/cert.pem")))) {
			t.Errorf("after a cut at %d it tells %q", limit, have)
		}
		if err == nil {
			if limit < 5 {
				t.Fatalf("only %d writes", limit)
			}
			return
		}
		f.reload()
		if err := f.apply([]item.Item{ca.wants(true, "root", "a.service")}); err != nil {
			t.Fatalf("after a cut at %d: %v", limit, err)
		}
		openssl(t, f)
		if folders, _ := filepath.Glob(f.host.Path("/etc/slipway-tls/.web-*")); len(folders) != 1 {
			t.Errorf("after a cut at %d there are %q", limit, folders)
		}
	}
}
