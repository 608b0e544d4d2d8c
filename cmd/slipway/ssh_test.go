package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"slices"
	"strings"
	"testing"
	"time"

	gossh "golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sshca"
)

// root derives the same for all uses.
type root struct{}

func (root) Derive(_ string, size int) ([]byte, error) { return make([]byte, size), nil }

func newPublicKey(t *testing.T) string {
	t.Helper()
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := gossh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(gossh.MarshalAuthorizedKey(key)))
}

// A server may not put into arguments of ssh, its files or what is printed anything but a login of the key.
func TestHostileGrants(t *testing.T) {
	key := newPublicKey(t)
	authority, err := sshca.Users(root{}, "berlin", 1)
	if err != nil {
		t.Fatal(err)
	}
	certificate := func(key string) string {
		c, err := authority.Certify(key, sshca.Login{Node: "n1", Account: "root", For: "ana", Life: time.Minute}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return c.Line
	}
	right := site.SSHGrant{Node: "n1", Account: "root", Host: "192.0.2.7", Port: 22, HostKeys: []string{newPublicKey(t)}, Certificate: certificate(key)}
	for _, host := range []string{"192.0.2.7", "2001:db8::1", "::1", "fe80::1%eth0", "n1.example.org"} {
		g := right
		g.Host = host
		if got, err := checkGrant(g, key+" ana@laptop"); err != nil || got.Certificate != right.Certificate {
			t.Errorf("%s: %+v, %v", host, got, err)
		}
	}
	for name, change := range map[string]func(*site.SSHGrant){
		"host that is an option":        func(g *site.SSHGrant) { g.Host = "-oProxyCommand=touch x" },
		"host with an account":          func(g *site.SSHGrant) { g.Host = "admin@192.0.2.7" },
		"URL":                           func(g *site.SSHGrant) { g.Host = "ssh://192.0.2.7" },
		"host of two lines":             func(g *site.SSHGrant) { g.Host = "192.0.2.7\nx" },
		"no host":                       func(g *site.SSHGrant) { g.Host = "" },
		"port 0":                        func(g *site.SSHGrant) { g.Port = 0 },
		"port too high":                 func(g *site.SSHGrant) { g.Port = 65536 },
		"account that is an option":     func(g *site.SSHGrant) { g.Account = "-oProxyCommand=touch x" },
		"account that a shell expands":  func(g *site.SSHGrant) { g.Account = "$(touch x)" },
		"no account":                    func(g *site.SSHGrant) { g.Account = "" },
		"no host key":                   func(g *site.SSHGrant) { g.HostKeys = nil },
		"host keys of other hosts":      func(g *site.SSHGrant) { g.HostKeys[0] += "\n* " + newPublicKey(t) },
		"host key with control codes":   func(g *site.SSHGrant) { g.HostKeys[0] += " \x1b[2J" },
		"certificate of another key":    func(g *site.SSHGrant) { g.Certificate = certificate(newPublicKey(t)) },
		"key without a certificate":     func(g *site.SSHGrant) { g.Certificate = key },
		"certificate with another line": func(g *site.SSHGrant) { g.Certificate += "\nssh-ed25519 AAAA" },
		"text":                          func(g *site.SSHGrant) { g.Certificate = "\x1b]0;x\a" },
	} {
		g := right
		g.HostKeys = slices.Clone(right.HostKeys)
		change(&g)
		if got, err := checkGrant(g, key); err == nil || got.Certificate != "" {
			t.Errorf("%s: accepted as %+v", name, got)
		}
	}
	g := right
	g.Certificate += " \x1b[2J"
	if got, err := checkGrant(g, key); err != nil || got.Certificate != right.Certificate {
		t.Errorf("a comment with control codes: %q, %v", got.Certificate, err)
	}
}
