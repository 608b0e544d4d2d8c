package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/secret"
)

func TestFlagsOfPullRequests(t *testing.T) {
	for _, c := range []struct{ repo, line, want string }{
		{"/srv/site.git", "", ""},
		{"/srv/site.git", "--github acme/site", ""},
		{"ssh://git@github.com/acme/site.git", "--github acme/site", ""},
		{"https://github.com/Acme/site/", "--github acme/site --webhook-listen 127.0.0.1:0", ""},
		{"https://github.com/acme/other", "--github acme/site", "--repo https://github.com/acme/other is not the repository acme/site"},
		{"", "--github acme/site", "--github comments on pull requests for a branch of --repo"},
		{"/srv/site.git", "--webhook-listen 127.0.0.1:0", "--webhook-listen needs --github"},
		{"/srv/site.git", "--github-api https://ghes.example.org/api/v3", "--github-api needs --github"},
		{"/srv/site.git", "--github acme/site --webhook-listen 127.0.0.1:0 --webhook-key k", "go together"},
		{"/srv/site.git", "--github acme/site --webhook-cert c --webhook-key k", "--webhook-cert needs --webhook-listen"},
	} {
		t.Run(c.repo+" "+c.line, func(t *testing.T) {
			var f pullFlags
			flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
			f.add(flags)
			if err := flags.Parse(strings.Fields(c.line)); err != nil {
				t.Fatal(err)
			}
			err := f.check(c.repo)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("got %v", err)
			case c.want != "" && (!errors.Is(err, errUsage) || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

const webhookAPI = "https://api.github.com"

func openHook(t *testing.T, f hookFlags, files map[string]string) (*webhook, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	secrets, err := secret.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	w, err := f.open(t.Context(), webhookAPI, secrets)
	if err == nil {
		t.Cleanup(func() { w.listener.Close() })
	}
	return w, err
}

func TestWebhooksAreNotReadAlong(t *testing.T) {
	known := map[string]string{"webhook": "hosts: api.github.com\nuse: webhook\n\nshh\n"}
	dir := t.TempDir()
	certificate(t, dir, "one")
	cert, key := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	for name, c := range map[string]struct {
		flags hookFlags
		files map[string]string
		want  string
	}{
		"this host":             {hookFlags{listen: "127.0.0.1:0", credential: "webhook"}, known, ""},
		"others, in the clear":  {hookFlags{listen: "0.0.0.0:0", credential: "webhook"}, known, "pass --webhook-cert"},
		"others, by TLS":        {hookFlags{listen: "0.0.0.0:0", credential: "webhook", cert: cert, key: key}, known, ""},
		"no certificate":        {hookFlags{listen: "127.0.0.1:0", credential: "webhook", cert: key, key: key}, known, "that belong together"},
		"no secret":             {hookFlags{listen: "127.0.0.1:0", credential: "webhook"}, nil, "credential missing"},
		"a secret of elsewhere": {hookFlags{listen: "127.0.0.1:0", credential: "webhook"}, map[string]string{"webhook": "hosts: example.org\n\nshh\n"}, "not for this host"},
		"no address":            {hookFlags{listen: "here", credential: "webhook"}, known, "takes HOST:PORT"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := openHook(t, c.flags, c.files)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// A new certificate in the place of the old one is shown at once.
func TestCertificateIsRenewed(t *testing.T) {
	dir := t.TempDir()
	certificate(t, dir, "one")
	f := hookFlags{listen: "127.0.0.1:0", credential: "webhook", cert: filepath.Join(dir, "cert"), key: filepath.Join(dir, "key")}
	w, err := openHook(t, f, map[string]string{"webhook": "hosts: api.github.com\nuse: webhook\n\nshh\n"})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := w.listener.Accept()
			if err != nil {
				return
			}
			_ = c.(*tls.Conn).Handshake()
		}
	}()
	for _, name := range []string{"one", "two"} {
		certificate(t, dir, name)
		c, err := tls.Dial("tcp", w.listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.ConnectionState().PeerCertificates[0].DNSNames[0]; got != name {
			t.Errorf("it shows the certificate of %s, want %s", got, name)
		}
		c.Close()
	}
}

// certificate writes a certificate of a name, and its key.
func certificate(t *testing.T, dir, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{{127, 0, 0, 1}}}
	cert, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{"cert": {Type: "CERTIFICATE", Bytes: cert}, "key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A delivery that was taken is known as such after a restart.
func TestDeliveriesAreRemembered(t *testing.T) {
	dir := t.TempDir()
	for n, guid := range []string{"g-1", "g-2"} {
		store, err := record.Open(context.Background(), dir, record.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		d := &deliveries{records: store.Site("berlin")}
		if err := d.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d.Taken("g-1") != (n == 1) || d.Taken("g-2") {
			t.Errorf("start %d: g-1 is taken: %t, g-2: %t", n, d.Taken("g-1"), d.Taken("g-2"))
		}
		if err := d.Take(guid); err != nil || !d.Taken(guid) {
			t.Errorf("%s is not taken: %v", guid, err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
