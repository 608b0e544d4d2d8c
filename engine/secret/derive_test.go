package secret_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A derived password goes where a file of the host says, and nowhere without one, whatever the design says.
func TestDerivedCredential(t *testing.T) {
	of := secret.Of{Derived: site.Derived{Account: "slipway", Epoch: 2}, Machine: "4c4c4544-0051-4810-8057-b4c04f4a4e33"}
	asked := secret.Request{Name: "bmc-own", Use: secret.Redfish, Host: "192.0.2.7", Port: 443, Of: of}
	with := func(change func(*secret.Request)) secret.Request { r := asked; change(&r); return r }
	const limits = "hosts: 192.0.2.0/24\nuse: redfish\n"
	for name, c := range map[string]struct {
		file  string
		r     secret.Request
		noKey bool
		is    error
		want  string
	}{
		"right":             {limits, asked, false, nil, ""},
		"right, empty line": {limits + "username: slipway\n\n", asked, false, nil, ""},
		"no file":           {"", asked, false, secret.ErrMissing, "no file on this host says where it may be sent"},
		"a secret":          {limits + "\ncanary\n", asked, false, nil, "it has a secret after the empty line"},
		"no use":            {"hosts: 192.0.2.0/24\n", asked, false, nil, "no \"use: redfish\" line"},
		"no hosts":          {"use: redfish\n", asked, false, nil, "no \"hosts: …\" line"},
		"another host":      {limits, with(func(r *secret.Request) { r.Host = "198.51.100.7" }), false, secret.ErrHost, "may not be sent to"},
		"another port":      {limits, with(func(r *secret.Request) { r.Port = 8443 }), false, secret.ErrPort, "may not be sent to port 8443"},
		"another use":       {limits, with(func(r *secret.Request) { r.Use = secret.Account }), false, secret.ErrUse, "may not be sent by account"},
		"of no machine":     {limits, with(func(r *secret.Request) { r.Of = secret.Of{} }), false, secret.ErrUnavailable, "derived for each machine"},
		"another account":   {limits + "username: root\n", asked, false, secret.ErrUse, "for the account slipway"},
		"no site key":       {limits, asked, true, secret.ErrMissing, "derived from the site key, and there is none here"},
	} {
		dir := t.TempDir()
		if c.file != "" {
			if err := os.WriteFile(filepath.Join(dir, "bmc-own"), []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, err := secret.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		s.InForce(&site.Site{Name: "fra", Credentials: map[string]*site.Credential{"bmc-own": {From: site.FromDerived, Account: "slipway", Epoch: 2}}})
		if !c.noKey {
			s.Derives(func(of secret.Of) (secret.Value, error) { return secret.New(of.Account, "canary-"+of.Machine), nil })
		}
		v, err := s.Get(c.r)
		switch {
		case c.want == "" && (err != nil || v != secret.New("slipway", "canary-"+of.Machine)):
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) || strings.Contains(err.Error(), "canary") || !v.IsZero()):
			t.Errorf("%s: %v", name, err)
		}
	}
	// The file of a derived credential is no password where the design has it from a file.
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "bmc-own"), []byte(limits), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := secret.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s.Derives(func(secret.Of) (secret.Value, error) { return secret.New("a", "b"), nil })
	s.InForce(&site.Site{Name: "fra", Credentials: map[string]*site.Credential{"bmc-own": {From: site.FromDerived, Account: "slipway"}}})
	if _, err := s.Get(asked); err != nil {
		t.Fatal(err)
	}
	s.InForce(&site.Site{Name: "fra", Credentials: map[string]*site.Credential{"bmc-own": {}}})
	if v, err := s.Get(with(func(r *secret.Request) { r.Of = secret.Of{} })); err == nil || !v.IsZero() {
		t.Errorf("a file without a secret is a password: %v", err)
	}
}
