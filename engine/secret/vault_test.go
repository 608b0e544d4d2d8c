package secret

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// fromServer is a store whose credential "bmc" is on a server.
func fromServer(t *testing.T, serve http.HandlerFunc) (s *Store, conf, credentials string) {
	t.Helper()
	h := httptest.NewServer(serve)
	t.Cleanup(h.Close)
	at, err := url.Parse(h.URL)
	if err != nil {
		t.Fatal(err)
	}
	credentials = t.TempDir()
	write(t, credentials, "vault", "hosts: 127.0.0.1\nuse: vault\nports: "+at.Port()+"\n\nhvs.token\n")
	s = open(t, credentials)
	s.owner = uint32(os.Geteuid()) // who runs the tests need not be root
	conf = filepath.Join(t.TempDir(), "vault.conf")
	writeFile(t, conf, "# of the team\naddress: "+h.URL+"\nkeep: 0s\n")
	s.Vault(conf)
	s.InForce(&site.Site{Name: "fra", Credentials: map[string]*site.Credential{"bmc": {From: site.FromVault, Key: "fra/bmc"}}})
	return s, conf, credentials
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestVaultKeepsTheSecret(t *testing.T) {
	object := `{"site":"fra","hosts":"192.0.2.0/24","use":"redfish","username":"admin","secret":"` + canary + `"}`
	asked := 0
	s, conf, credentials := fromServer(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.URL.Path != "/v1/secret/data/fra/bmc" || r.Header.Get("X-Vault-Token") != "hvs.token" {
			t.Errorf("asked for %s with %q", r.URL.Path, r.Header.Get("X-Vault-Token"))
		}
		fmt.Fprintf(w, `{"data":{"data":%s,"metadata":{"version":1}}}`, object)
	})
	v, err := s.Get(ask("bmc", "192.0.2.7"))
	if err != nil || v.Reveal() != canary || v.Username() != "admin" {
		t.Fatalf("got %v, %v", v, err)
	}
	if _, err := s.Get(ask("bmc", "198.51.100.9")); !errors.Is(err, ErrHost) || !strings.Contains(err.Error(), `"hosts:" in fra/bmc on 127.0.0.1`) {
		t.Errorf("another host: %v", err)
	}
	text, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, conf, strings.Replace(string(text), "keep: 0s", "keep: 5m", 1))
	asked = 0
	for range 3 {
		if _, err := s.Get(ask("bmc", "192.0.2.7")); err != nil {
			t.Error(err)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times within the time that a secret counts, want 1", asked)
	}
	for conf, want := range map[string]string{
		"":                                    `there is no "address:" line`,
		"address: https://u:p@bao":            `there is no "address:" line`,
		"address: bao:8200":                   `there is no "address:" line`,
		"address: http://bao.example.org":     "use https://",
		"address: https://a\naddress: x":      `:2: "address" is given twice`,
		"address: https://a\ntoken: x":        ":2: is none of the lines that belong here: they begin with address, ca",
		"address: https://a\ntimeout: 5":      "the timeout is not a time",
		"address: https://a\nkeep: x":         "the time to keep a secret is not a time",
		"address: https://a\nca: /nowhere":    "no such file",
		string(text) + "credential: other":    "there is no file " + credentials,
		"address: https://bao.example.org:44": `"vault" may not be sent to "bao.example.org"`,
	} {
		writeFile(t, s.vault.path, conf)
		s.vault.server, s.fetched = nil, map[string]*fetch{}
		if _, err := s.Get(ask("bmc", "192.0.2.7")); !errors.Is(err, ErrMissing) && !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", conf, err, want)
		}
	}
	// A file of authorities that is gone keeps nothing from being read anew.
	ca := filepath.Join(t.TempDir(), "ca.pem")
	writeFile(t, ca, "no certificate")
	writeFile(t, conf, string(text)+"ca: "+ca+"\n")
	if _, err := s.Get(ask("bmc", "192.0.2.7")); err == nil || !strings.Contains(err.Error(), "no certificate in PEM form") {
		t.Errorf("an authority that is none: %v", err)
	}
	if err := os.Remove(ca); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(ask("bmc", "192.0.2.7")); err == nil || !strings.Contains(err.Error(), "the authorities: ") {
		t.Errorf("an authority that is gone: %v", err)
	}
	writeFile(t, conf, string(text))
	s.fetched = map[string]*fetch{}
	if _, err := s.Get(ask("bmc", "192.0.2.7")); err != nil {
		t.Errorf("without an authority again: %v", err)
	}
	if err := os.Chmod(conf, 0o666); err != nil {
		t.Fatal(err)
	}
	s.vault.server = nil
	if _, err := s.Get(ask("bmc", "192.0.2.7")); err == nil || !strings.Contains(err.Error(), "run chmod go-w") {
		t.Errorf("a file that everybody may change: %v", err)
	}
	if err := os.Remove(conf); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(ask("bmc", "192.0.2.7")); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "make it as root") {
		t.Errorf("without a file: %v", err)
	}
	s.Vault("")
	if _, err := s.Get(ask("bmc", "192.0.2.7")); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "--vault names no file") {
		t.Errorf("where none is named: %v", err)
	}
}

// What the login is for is a file of this host, whatever the design says.
func TestLoginOfTheServerIsAFile(t *testing.T) {
	s, _, _ := fromServer(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"data":{"data":{"site":"fra","hosts":"192.0.2.7","secret":"x"},"metadata":{}}}`)
	})
	s.InForce(&site.Site{Name: "fra", Credentials: map[string]*site.Credential{
		"bmc": {From: site.FromVault, Key: "fra/bmc"}, "vault": {From: site.FromVault, Key: "fra/vault"},
	}})
	if _, err := s.Get(ask("bmc", "192.0.2.7")); err == nil || !strings.Contains(err.Error(), `in the object there is no "use:" line`) {
		t.Errorf("an object without a use: %v", err)
	}
}
