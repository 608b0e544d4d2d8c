package sshclient_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/sshclient"
	"github.com/slipway-gitops/slipway/engine/driver/sshclient/sshdtest"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sitekey"
	"github.com/slipway-gitops/slipway/engine/sshca"
)

// node is an sshd that lets in certificates for one node, and a key.
type node struct {
	host
	authority *sshca.Authority
}

func startNode(t *testing.T) node {
	t.Helper()
	n := node{host: host{dir: t.TempDir(), account: sshdtest.Account(t)}, authority: authority(t)}
	n.hostKey = sshdtest.Key(t, n.file("host"), "ed25519")
	sshdtest.Write(t, n.file("authorized"), sshdtest.Key(t, n.file("user"), "ed25519")+"\n")
	sshdtest.Write(t, n.file("authorities"), n.authority.Public()+"\n")
	if err := os.Mkdir(n.file("principals"), 0o755); err != nil {
		t.Fatal(err)
	}
	sshdtest.Write(t, n.file("principals/"+n.account), item.LoginName("n1", n.account)+"\n")
	n.address = sshdtest.Serve(t, fmt.Sprintf("HostKey %[1]s/host\nTrustedUserCAKeys %[1]s/authorities\nAuthorizedPrincipalsFile %[1]s/principals/%%u\nAuthorizedKeysFile %[1]s/authorized\n", n.dir))
	return n
}

func authority(t *testing.T) *sshca.Authority {
	t.Helper()
	k, err := sitekey.Create(filepath.Join(t.TempDir(), "site.key"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := sshca.Users(k, "fra", 1)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// signed are certificates by an authority at a time, for a node; asked counts them.
func signed(a *sshca.Authority, node string, at func() time.Time, asked *int) driver.Certificates {
	return driver.Certificates{Sign: func(key, account string) (string, error) {
		*asked++
		c, err := a.Certify(key, sshca.Login{Node: node, Account: account, For: "test", Life: time.Minute}, at())
		return c.Line, err
	}}
}

func (n node) open(t *testing.T, s secret.Value) *sshclient.Client {
	t.Helper()
	c, err := sshclient.Open(n.endpoint(n.hostKey), s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func login(t *testing.T, c *sshclient.Client) (sshclient.Entry, error) {
	t.Helper()
	client, e, err := c.Login(t.Context())
	if err == nil {
		client.Close()
	}
	return e, err
}

// A certificate comes first, and without one the credential logs in as before.
func TestCertificateFirst(t *testing.T) {
	n, asked := startNode(t), 0
	c := n.open(t, n.key(t, "user", ""))
	c.Certify(signed(n.authority, "n1", time.Now, &asked))
	e, err := login(t, c)
	if err != nil || e.By != site.ByCertificate || e.Authority != n.authority.Public() || e.Refused != "" || asked != 1 {
		t.Fatalf("got %+v, %v", e, err)
	}
	c.Certify(driver.Certificates{})
	if e, err := login(t, c); err != nil || e.By != site.ByKey || e.Authority != "" || asked != 1 {
		t.Errorf("certificates are over: %+v, %v", e, err)
	}
}

// A certificate never stands in for the credential.
func TestNoCertificateAlone(t *testing.T) {
	n := startNode(t)
	if _, err := sshclient.Open(n.endpoint(n.hostKey), secret.New(n.account, "")); !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "the credential is empty") {
		t.Errorf("got %v", err)
	}
}

// What a node must not take, it does not take, and the credential still logs in.
func TestCertificatesRefused(t *testing.T) {
	n := startNode(t)
	later := func() time.Time { return time.Now().Add(-10 * 365 * 24 * time.Hour) }
	for name, by := range map[string]func(asked *int) driver.Certificates{
		"for another node":   func(a *int) driver.Certificates { return signed(n.authority, "n2", time.Now, a) },
		"over for ten years": func(a *int) driver.Certificates { return signed(n.authority, "n1", later, a) },
		"of another site":    func(a *int) driver.Certificates { return signed(authority(t), "n1", time.Now, a) },
		"for a name that begins so": func(a *int) driver.Certificates {
			return signed(n.authority, "n1:"+n.account+"\nslipway:n1", time.Now, a)
		},
		"not signed at all": func(a *int) driver.Certificates {
			return driver.Certificates{Sign: func(string, string) (string, error) {
				*a++
				return "", errors.New("the site key is missing")
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			c := n.open(t, n.key(t, "user", ""))
			c.Certify(by(&asked))
			for range 2 { // it is not shown another one right away
				e, err := login(t, c)
				if err != nil || e.By != site.ByKey || e.Refused == "" || e.Authority != "" || asked != 1 {
					t.Fatalf("got %+v after %d certificates, %v", e, asked, err)
				}
			}
			c.Certify(signed(n.authority, "n1", time.Now, &asked))
			c.Again()
			if e, err := login(t, c); err != nil || e.By != site.ByCertificate || e.Refused != "" {
				t.Errorf("a good one later: %+v, %v", e, err)
			}
		})
	}
}

// Why nobody signs is said, and nothing is tried.
func TestNobodySigns(t *testing.T) {
	n := startNode(t)
	c := n.open(t, n.key(t, "user", ""))
	c.Certify(driver.Certificates{Why: "the site key is missing"})
	if e, err := login(t, c); err != nil || e.By != site.ByKey || e.Refused != "the site key is missing" {
		t.Errorf("got %+v, %v", e, err)
	}
}

// Where the design asks for certificates no more, they come last.
func TestCertificatesLast(t *testing.T) {
	n, asked := startNode(t), 0
	by := signed(n.authority, "n1", time.Now, &asked)
	by.Last = true
	c := n.open(t, n.key(t, "user", ""))
	c.Certify(by)
	if e, err := login(t, c); err != nil || e.By != site.ByKey || asked != 0 || e.Refused != "" {
		t.Fatalf("got %+v after %d certificates, %v", e, asked, err)
	}
	sshdtest.Write(t, n.file("authorized"), "")
	if e, err := login(t, c); err != nil || e.By != site.ByCertificate {
		t.Errorf("the key is gone: %+v, %v", e, err)
	}
}

// Both are refused: the error is one, and says both.
func TestAllRefused(t *testing.T) {
	n, asked := startNode(t), 0
	sshdtest.Write(t, n.file("authorized"), "")
	c := n.open(t, n.key(t, "user", ""))
	c.Certify(signed(n.authority, "n2", time.Now, &asked))
	_, err := login(t, c)
	if !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "with this credential") || !strings.Contains(err.Error(), `for "slipway:n2:`) {
		t.Errorf("got %v", err)
	}
}
