package sshclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/sshclient"
	"github.com/slipway-gitops/slipway/engine/driver/sshclient/sshdtest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// host is an sshd, with authorities for its users and for itself, and a user's
// key that is authorized by itself.
type host struct {
	dir, address, account string
	hostKey, hostCA       string // public
}

func start(t *testing.T, kind string) host {
	t.Helper()
	h := host{dir: t.TempDir(), account: sshdtest.Account(t)}
	h.hostKey = sshdtest.Key(t, h.file("host"), kind)
	h.hostCA = sshdtest.Key(t, h.file("hostca"), "ed25519")
	sshdtest.Sign(t, h.file("hostca"), h.file("host"), "-h", "-n", "127.0.0.1,n1.example.org")
	userCA := sshdtest.Key(t, h.file("userca"), kind)
	sshdtest.Write(t, h.file("authorities"), userCA+"\n")
	sshdtest.Write(t, h.file("authorized"), sshdtest.Key(t, h.file("user"), kind)+"\n")
	h.address = sshdtest.Serve(t, fmt.Sprintf("HostKey %[1]s/host\nHostCertificate %[1]s/host-cert.pub\nTrustedUserCAKeys %[1]s/authorities\nAuthorizedKeysFile %[1]s/authorized\n", h.dir))
	return h
}

func (h host) file(name string) string { return filepath.Join(h.dir, name) }

func (h host) endpoint(hostKeys ...string) site.Endpoint {
	return site.Endpoint{URL: "ssh://" + h.address, Trust: site.Trust{HostKeys: hostKeys}}
}

// key is a private key of the host's folder, with what stands behind it.
func (h host) key(t *testing.T, name, behind string) secret.Value {
	return secret.New(h.account, sshdtest.Read(t, h.file(name))+behind)
}

// certified is a new key, and the certificate that an authority made of it.
func (h host) certified(t *testing.T, name, authority string, args ...string) secret.Value {
	sshdtest.Key(t, h.file(name), "ed25519")
	return h.key(t, name, sshdtest.Sign(t, h.file(authority), h.file(name), args...))
}

// echo logs in and has the host say a word.
func echo(ctx context.Context, e site.Endpoint, s secret.Value) error {
	c, err := sshclient.Open(e, s)
	if err != nil {
		return err
	}
	client, err := c.Dial(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	session, err := client.NewSession()
	if err != nil {
		return err
	}
	said, err := session.Output("echo aye")
	if err == nil && string(said) != "aye\n" {
		return fmt.Errorf("it said %q", said)
	}
	return err
}

func TestCredentials(t *testing.T) {
	h := start(t, "ed25519")
	forever := []string{"-n", h.account}
	sshdtest.Key(t, h.file("stranger"), "ed25519")
	mine := h.certified(t, "mine", "userca", forever...)
	certificate := sshdtest.Read(t, h.file("mine-cert.pub"))
	for name, c := range map[string]struct {
		credential secret.Value
		says       string
	}{
		"a key":                           {h.key(t, "user", ""), ""},
		"a key with an empty line":        {h.key(t, "user", "\n \n"), ""},
		"a certificate":                   {mine, ""},
		"a certificate for an hour":       {h.certified(t, "hour", "userca", "-n", h.account, "-V", "-5m:+1h"), ""},
		"a stranger's key":                {h.key(t, "stranger", ""), "does not let " + h.account + " in"},
		"another account's certificate":   {h.certified(t, "other", "userca", "-n", "nobody-here"), `a certificate for "nobody-here"`},
		"a stranger's certificate":        {h.certified(t, "foreign", "stranger", forever...), "TrustedUserCAKeys"},
		"a certificate that is over":      {h.certified(t, "old", "userca", "-n", h.account, "-V", "20200101Z:20200102Z"), "was valid until 2020-01-02 00:00Z"},
		"a certificate of tomorrow":       {h.certified(t, "young", "userca", "-n", h.account, "-V", "20990101Z:20990102Z"), "is valid from 2099-01-01 00:00Z on"},
		"a host's certificate":            {h.certified(t, "box", "userca", "-h", "-n", h.account), "a host certificate"},
		"the certificate of another key":  {h.key(t, "user", certificate), "belong together"},
		"two certificates":                {h.key(t, "mine", certificate+certificate), "is not one certificate"},
		"a public key behind the private": {h.key(t, "user", h.hostKey), "is not one certificate"},
		"a note behind the key":           {h.key(t, "user", "my key"), "is not one certificate"},
		"a key of PuTTY":                  {secret.New(h.account, "PuTTY-User-Key-File-3: ssh-ed25519"), "which is never sent"},
		"no key":                          {secret.New(h.account, "-----BEGIN OPENSSH PRIVATE KEY-----\nx"), "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := echo(t.Context(), h.endpoint(h.hostKey), c.credential)
			if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("got %v, want one that says %q", err, c.says)
			}
		})
	}
}

func TestHostKeys(t *testing.T) {
	h := start(t, "ed25519")
	other := sshdtest.Key(t, h.file("other"), "ed25519")
	user := h.key(t, "user", "")
	for name, c := range map[string]struct {
		hostKeys []string
		says     string
	}{
		"the key":                             {[]string{h.hostKey}, ""},
		"the authority":                       {[]string{"@cert-authority " + h.hostCA}, ""},
		"another authority and the key":       {[]string{"@cert-authority " + other, h.hostKey}, ""},
		"another key and the authority":       {[]string{other, "@cert-authority " + h.hostCA + " a comment"}, ""},
		"another authority":                   {[]string{"@cert-authority " + other}, "proves nothing"},
		"the key as the authority":            {[]string{"@cert-authority " + h.hostKey}, "proves nothing"},
		"the authority as a key":              {[]string{h.hostCA}, "not one of the pinned ones"},
		"another key":                         {[]string{other}, "not one of the pinned ones"},
		"nothing":                             {nil, "add `" + h.hostKey + "` to trust.hostKeys"},
		"an authority for a pattern of names": {[]string{"@cert-authority *.example.org " + h.hostCA}, "trust.hostKeys[0]"},
		"a revoked key":                       {[]string{"@revoked " + h.hostKey}, "trust.hostKeys[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := echo(t.Context(), h.endpoint(c.hostKeys...), user)
			if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("got %v, want one that says %q", err, c.says)
			}
		})
	}
}

// A certificate proves the host that it names, for as long as it says.
func TestHostCertificates(t *testing.T) {
	h := start(t, "ed25519")
	user := h.key(t, "user", "")
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"of another host": {[]string{"-h", "-n", "n2.example.org"}, `"127.0.0.1" not in the set`},
		"of every host":   {[]string{"-h"}, "names no host"},
		"that is over":    {[]string{"-h", "-n", "127.0.0.1", "-V", "20200101Z:20200102Z"}, "expired"},
		"of a user":       {[]string{"-n", "127.0.0.1"}, ""}, // sshd does not show it
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := filepath.Join(t.TempDir(), "host")
			public := sshdtest.Key(t, key, "ed25519")
			sshdtest.Sign(t, h.file("hostca"), key, c.args...)
			sub := h
			sub.address = sshdtest.Serve(t, fmt.Sprintf("HostKey %s\nHostCertificate %s-cert.pub\nAuthorizedKeysFile %s\n", key, key, h.file("authorized")))
			if err := echo(t.Context(), sub.endpoint("@cert-authority "+h.hostCA), user); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want one that says %q", err, c.says)
			}
			if err := echo(t.Context(), sub.endpoint("@cert-authority "+h.hostCA, public), user); err != nil {
				t.Errorf("its key is pinned, and yet: %v", err)
			}
		})
	}
}

func TestOtherKindsOfKeys(t *testing.T) {
	for _, kind := range []string{"rsa", "ecdsa"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			h := start(t, kind)
			certificate := sshdtest.Sign(t, h.file("userca"), h.file("user"), "-n", h.account)
			for _, hostKey := range []string{h.hostKey, "@cert-authority " + h.hostCA} {
				for _, behind := range []string{"", certificate} {
					if err := echo(t.Context(), h.endpoint(hostKey), h.key(t, "user", behind)); err != nil {
						t.Errorf("%.30s…, certificate %v: %v", hostKey, behind != "", err)
					}
				}
			}
		})
	}
}

// What is dialled through a host goes on after the context that it was dialled
// in.
func TestTunnel(t *testing.T) {
	h := start(t, "ed25519")
	path := h.file("socket")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				io.Copy(conn, conn)
			}()
		}
	}()
	c, err := sshclient.Open(h.endpoint(h.hostKey), h.key(t, "user", ""))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	client, err := c.Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	cancel()
	conn, err := client.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	heard := make([]byte, 4)
	if _, err := io.WriteString(conn, "ping"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, heard); err != nil || string(heard) != "ping" {
		t.Errorf("heard %q, %v", heard, err)
	}
	if _, err := c.Dial(ctx); !errors.Is(err, driver.ErrUnreachable) || !errors.Is(err, context.Canceled) {
		t.Errorf("dialled in a context that has ended: %v", err)
	}
}

// A host that takes the connection and says nothing is given up when the
// context ends.
func TestSilenceEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		cancel()
		<-t.Context().Done()
	}()
	c, err := sshclient.Open(site.Endpoint{URL: "libvirt+ssh://root@" + l.Addr().String() + "/system"}, secret.New("", "hunter2"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Dial(ctx); !errors.Is(err, driver.ErrUnreachable) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
