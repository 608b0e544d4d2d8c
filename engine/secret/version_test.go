package secret_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sitekey"
)

func versions(t *testing.T, siteName string) secret.Versions {
	t.Helper()
	key, err := sitekey.Create(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	v, err := secret.VersionsOf(key, siteName)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestVersionsTellValuesApartAndRevealNothing(t *testing.T) {
	v := versions(t, "fra")
	pw := secret.New("admin", "canary")
	is := v.Of("bmc", pw)
	switch {
	case len(is) != 41 || strings.Contains(is, "canary"):
		t.Errorf("version %q", is)
	case is != v.Of("bmc", secret.New("root", "canary")):
		t.Error("another user name is another version")
	case is == v.Of("bmc", secret.New("admin", "canary2")), is == v.Of("bm", secret.New("admin", "ccanary")), is == v.Of("os", pw):
		t.Error("another value or secret has the same version")
	case !site.ComparableVersions(is, v.Of("os", pw)) || site.ComparableVersions(is, versions(t, "fra").Of("bmc", pw)):
		t.Error("what can be compared is not what one key made")
	case site.ComparableVersions("", "") || site.ComparableVersions(is, "") || (secret.Versions{}).Of("bmc", pw) != "":
		t.Error("there is a version without a key")
	}
	if strings.Contains(is, pw.Digest("fra")[:16]) {
		t.Error("it is the digest that can be guessed")
	}
}

func TestPresentAsksForNoHost(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("bmc", "hosts: 192.0.2.1\nuse: redfish\n\ncanary\n")
	write("key", "hosts: 192.0.2.1\nuse: ssh\n\n-----BEGIN OPENSSH PRIVATE KEY-----\n")
	s, err := secret.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	v := versions(t, "fra")
	if p, err := s.Present("bmc", secret.Of{}, v); err != nil || p.Key || p.Version != v.Of(site.SecretOfCredential("bmc"), secret.New("", "canary")) {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := s.Present("key", secret.Of{}, v); err != nil || !p.Key {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := s.Present("none", secret.Of{}, v); err == nil {
		t.Error("a missing credential has a version")
	}
}
