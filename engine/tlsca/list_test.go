package tlsca_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/tlsca"
)

// client is a certificate of a new key that a client shows, and its key, in files.
func client(t *testing.T, a *tlsca.Authority, folder, name string) (c tlsca.Certificate, cert, key string) {
	t.Helper()
	private := newKey(t)
	c, err := a.Sign(request(t, private), tlsca.Grant{Node: name, Names: []string{name + ".example.org"}, Usage: tlsca.Both, Life: 48 * time.Hour}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(folder, name+".pem"), filepath.Join(folder, name+".key")
	write(t, cert, c.Chain)
	write(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	return c, cert, key
}

func list(t *testing.T, a *tlsca.Authority, number int64, revoked ...tlsca.Revoked) tlsca.List {
	t.Helper()
	l, err := a.List(revoked, number, 14*24*time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// openssl, which reads the list by itself, refuses what is in it and nothing else, and a server that asks for it
// refuses a revoked client.
func TestListIsReadByOpenSSL(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	a := derived(t, root(t), "fra", 1)
	gone, goneCert, goneKey := client(t, a, folder, "gone")
	_, staysCert, staysKey := client(t, a, folder, "stays")
	ca, crl := filepath.Join(folder, "ca.pem"), filepath.Join(folder, "crl.pem")
	write(t, ca, a.PEM())
	l := list(t, a, 7, tlsca.Revoked{Serial: gone.Serial, Since: time.Now()})
	write(t, crl, l.PEM)
	verify := func(cert string) (string, error) {
		out, err := exec.Command("openssl", "verify", "-crl_check_all", "-CAfile", ca, "-CRLfile", crl, cert).CombinedOutput()
		return string(out), err
	}
	if out, err := verify(staysCert); err != nil {
		t.Errorf("the one that was not revoked: %s", out)
	}
	if out, err := verify(goneCert); err == nil || !strings.Contains(out, "certificate revoked") {
		t.Errorf("the revoked one: %v, %s", err, out)
	}
	out, err := exec.Command("openssl", "crl", "-in", crl, "-CAfile", ca, "-noout", "-text").CombinedOutput()
	if text := string(out); err != nil || !strings.Contains(text, "verify OK") || !strings.Contains(text, "X509v3 CRL Number: \n                7") {
		t.Errorf("openssl reads %v, %s", err, out)
	}
	address := serves(t, folder, ca, crl, staysCert, staysKey)
	if got, err := ask(t, a, address, staysCert, staysKey); err != nil || !strings.Contains(got, "HTTP/1.0 200") {
		t.Errorf("the server answers the client that was not revoked %q, %v", got, err)
	}
	if got, err := ask(t, a, address, goneCert, goneKey); err == nil || !strings.Contains(err.Error(), "revoked certificate") {
		t.Errorf("the server answers the revoked client %q, %v", got, err)
	}
}

// serves starts a server of openssl that lets in clients with a certificate alone which the list does not have, and
// returns its address.
func serves(t *testing.T, folder, ca, crl, cert, key string) string {
	t.Helper()
	both := filepath.Join(folder, "both.pem") // what it trusts, and the list
	out, err := exec.Command("cat", ca, crl).Output()
	if err != nil {
		t.Fatal(err)
	}
	write(t, both, string(out))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	server := exec.Command("openssl", "s_server", "-accept", address, "-cert", cert, "-key", key, "-CAfile", ca, "-CRL", crl, "-crl_check_all", "-Verify", "1", "-verify_return_error", "-www")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	for until := time.Now().Add(20 * time.Second); ; {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			return address
		}
		if time.Now().After(until) {
			t.Fatal("openssl s_server does not listen")
		}
	}
}

// ask sends a request to the server with a certificate of a client.
func ask(t *testing.T, a *tlsca.Authority, address, cert, key string) (string, error) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(a.PEM()))
	c, err := tls.Dial("tcp", address, &tls.Config{RootCAs: pool, ServerName: "stays.example.org", Certificates: []tls.Certificate{pair}})
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprint(c, "GET / HTTP/1.0\r\n\r\n")
	buffer := make([]byte, 64)
	n, err := c.Read(buffer)
	return string(buffer[:n]), err
}

// A list is read as it was signed, by its authority alone.
func TestListIsRead(t *testing.T) {
	t.Parallel()
	k := root(t)
	a, other := derived(t, k, "fra", 1), derived(t, k, "fra", 2)
	since := time.Now().Truncate(time.Second).UTC()
	l := list(t, a, 3, tlsca.Revoked{Serial: "4f", Since: since}, tlsca.Revoked{Serial: "0a01", Since: since})
	got, err := a.ReadList([]byte(l.PEM))
	if err != nil || got.Number != 3 || len(got.Revoked) != 2 || !got.Has("4f") || !got.Has("0a01") || got.Has("4e") || !got.Revoked[1].Since.Equal(since) {
		t.Errorf("read as %+v, %v", got, err)
	}
	if half := l.Since.Add(7 * 24 * time.Hour); !l.Due().Equal(half) || l.Until.Sub(l.Since) != 14*24*time.Hour {
		t.Errorf("from %s to %s, due %s", l.Since, l.Until, l.Due())
	}
	block, _ := pem.Decode([]byte(l.PEM))
	forged := append([]byte(nil), block.Bytes...)
	forged[len(forged)-1] ^= 1
	for name, text := range map[string]string{
		"of the next epoch": list(t, other, 3).PEM, "nothing": "", "a certificate": a.PEM(), "two": l.PEM + l.PEM,
		"forged": string(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: forged})),
		"cut":    string(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: block.Bytes[:40]})),
	} {
		if _, err := a.ReadList([]byte(text)); !errors.Is(err, tlsca.ErrList) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An authority signs no list that programs would refuse, and says why.
func TestListRefused(t *testing.T) {
	t.Parallel()
	a, now := derived(t, root(t), "fra", 1), time.Now()
	for name, c := range map[string]struct {
		serial string
		number int64
		life   time.Duration
		now    time.Time
		want   string
	}{
		"no number": {"4f", 0, time.Hour, now, "a number from 1 on"}, "no life": {"4f", 1, 0, now, "a life"},
		"no serial number": {"x", 1, time.Hour, now, "not the serial number"}, "serial 0": {"0", 1, time.Hour, now, "not the serial number"},
		"after the authority": {"4f", 1, time.Hour, time.Date(2060, 1, 1, 0, 0, 0, 0, time.UTC), "set the clock"},
	} {
		if l, err := a.List([]tlsca.Revoked{{Serial: c.serial, Since: now}}, c.number, c.life, c.now); err == nil || !strings.Contains(err.Error(), c.want) || l.PEM != "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	rootPEM, file := intermediate(t, newKey(t), now.Add(-time.Hour), now.Add(48*time.Hour), true)
	may, err := tlsca.Intermediate(file, []string{rootPEM}, now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := may.List(nil, 1, time.Hour, now); err == nil || !strings.Contains(err.Error(), "cRLSign") {
		t.Errorf("an intermediate that may sign certificates alone: %v", err)
	}
}
