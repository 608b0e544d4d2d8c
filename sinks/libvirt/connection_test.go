package libvirt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/driver/sshclient/sshdtest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// first looks through an endpoint for the first time.
func first(t *testing.T, e site.Endpoint, s secret.Value) error {
	t.Helper()
	m, err := New(quick).Open(t.Context(), e, s)
	if err != nil {
		return err
	}
	defer m.Close()
	_, err = m.Observe(t.Context(), designed("vm-1"), (*Driver)(nil).Facets())
	return err
}

func TestTLS(t *testing.T) {
	r := startReal(t, "/test/default")
	e := site.Endpoint{URL: "libvirt+tls://" + r.Forward("10.77.0.1:16514") + "/test/default?domain=vm-1&site=lab", Trust: site.Trust{CA: r.TLS.Authority}}
	own := secret.New("", r.TLS.Certificate+r.TLS.Key)
	if err := first(t, e, own); err != nil {
		t.Errorf("with the CA: %v", err)
	}
	e.Trust = site.Trust{Fingerprint: fingerprintOf(t, r)}
	if err := first(t, e, own); err != nil {
		t.Errorf("with the fingerprint: %v", err)
	}
	e.Trust.Fingerprint = "sha256:" + strings.Repeat("00", 32)
	if err := first(t, e, own); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "pins") {
		t.Errorf("with another fingerprint: %v", err)
	}
	e.Trust = site.Trust{}
	if err := first(t, e, own); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "trust.ca") {
		t.Errorf("with the host's roots: %v", err)
	}
	e.Trust.CA = r.TLS.Authority
	for name, s := range map[string]secret.Value{"a password": secret.New("", "hunter2"), "nothing": {}} {
		if err := first(t, e, s); !errors.Is(err, driver.ErrDenied) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("with %s as the credential: %v", name, err)
		}
	}
	another := startReal(t, "/test/default").TLS
	if err := first(t, e, secret.New("", another.Certificate+another.Key)); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("with a certificate of another authority: %v", err)
	}
}

// fingerprintOf is that of the server's certificate.
func fingerprintOf(t *testing.T, r *real) string {
	text, err := os.ReadFile(filepath.Join(r.Folder, "etc/pki/libvirt/servercert.pem"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	digest := sha256.Sum256(block.Bytes)
	return "sha256:" + hex.EncodeToString(digest[:])
}

func TestSSH(t *testing.T) {
	r := startReal(t, "/test/default")
	dir := t.TempDir()
	host := sshdtest.Key(t, filepath.Join(dir, "host"), "ed25519")
	user := sshdtest.Key(t, filepath.Join(dir, "user"), "ed25519")
	sshdtest.Write(t, filepath.Join(dir, "authorized"), user)
	config := "HostKey " + dir + "/host\nAuthorizedKeysFile " + dir + "/authorized\n"
	endpoint := func(config string) site.Endpoint {
		return site.Endpoint{
			URL:   "libvirt+ssh://" + sshdtest.Account(t) + "@" + sshdtest.Serve(t, config) + "/test/default?domain=vm-1&site=lab&socket=" + r.Socket,
			Trust: site.Trust{HostKeys: []string{host}},
		}
	}
	key := secret.New("", sshdtest.Read(t, filepath.Join(dir, "user")))
	e := endpoint(config)
	if err := first(t, e, key); err != nil {
		t.Errorf("through sshd: %v", err)
	}
	e.Trust.HostKeys = []string{user}
	if err := first(t, e, key); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("with another host key: %v", err)
	}
	if err := first(t, endpoint(config+"AllowStreamLocalForwarding no\n"), key); !errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), "AllowStreamLocalForwarding") {
		t.Errorf("without leave to forward: %v", err)
	}
}

func TestEndpoints(t *testing.T) {
	for _, u := range []string{
		"libvirt+unix:///system", "libvirt+unix:///system?domain=a", "libvirt+unix:///other?domain=a&site=b", "libvirt+unix://host/system?domain=a&site=b",
		"libvirt+tls:///system?domain=a&site=b", "libvirt+tls://user@host/system?domain=a&site=b", "libvirt+ssh://user:secret@host/system?domain=a&site=b",
		"libvirt+tcp://host/system?domain=a&site=b", "libvirt+tls://host/system?domain=a&site=b&socket=/x", "::",
	} {
		if _, err := parse(u); !errors.Is(err, driver.ErrRefused) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", u, err)
		}
	}
	a, err := parse("libvirt+ssh://root@192.0.2.21/system?domain=vm-3&site=lab")
	if want := (address{transport: "ssh", host: "192.0.2.21:22", user: "root", driver: "qemu:///system", domain: "vm-3", site: "lab"}); err != nil || a != want {
		t.Errorf("got %+v, %v", a, err)
	}
}

// A socket that nobody listens on, one that never answers, and one that sends
// nonsense: each ends soon.
func TestDeadPeers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sock")
	e := site.Endpoint{URL: "libvirt+unix:///system?domain=vm-1&site=lab&socket=" + path}
	if err := first(t, e, secret.Value{}); !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("without a socket: %v", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var says atomic.Value
	says.Store("")
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = c.Read(make([]byte, 100)) // the first call
				_, _ = io.WriteString(c, says.Load().(string))
			}()
		}
	}()
	m, err := New(Options{Answer: 100 * time.Millisecond}).Open(t.Context(), e, secret.Value{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := m.Observe(t.Context(), designed("vm-1"), nil); !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("silence: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := m.Apply(ctx, stepOf(designed("vm-1"), site.FacetPower, site.ActionPowerOn), designed("vm-1"), drivertest.Permitted); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a step whose context has ended: %v", err)
	}
	for _, nonsense := range []string{"\x00\x00\x00\x01aaaa", "\xff\xff\xff\xff" + strings.Repeat("a", 100), "HTTP/1.1 400 Bad Request\r\n\r\n"} {
		says.Store(nonsense)
		if err := first(t, e, secret.Value{}); !errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("%q: %v", nonsense, err)
		}
	}
}

func TestDaemonRestarts(t *testing.T) {
	r := startReal(t, "/system")
	d := New(quick)
	m, n := r.open(t, d, "vm-1"), designed("vm-1")
	must(t, m, n, site.FacetDefinition, site.ActionDefine)
	must(t, m, n, site.FacetPower, site.ActionPowerOn)
	r.Kill()
	if _, err := m.Observe(t.Context(), n, d.Facets()); !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("while libvirtd is away: %v", err)
	}
	r.Continue()
	settled(t, m, n, site.FacetDefinition)
	if got := look(t, m, n).Facets[site.FacetPower].Have["state"]; got != "on" {
		t.Errorf("the machine is %s after libvirtd came back", got)
	}
	must(t, m, n, site.FacetPower, site.ActionPowerOff)
}
