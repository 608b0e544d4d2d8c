package config

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/tlsca"
)

// withList is a certificate that is to have lists of revoked certificates beside it.
func (a *authority) withList(sign bool, list tlsca.List) item.Item {
	i := a.wants(sign, "ops", "a.service")
	var body item.Certificate
	if err := json.Unmarshal(i.Body, &body); err != nil {
		panic(err)
	}
	body.HasList, body.List = true, list.PEM
	if list.PEM != "" {
		body.ListUntil = list.Until.Format(time.RFC3339)
	}
	return item.New(i.Key, body.Fields(), body)
}

func (a *authority) list(t *testing.T, number int64, revoked ...tlsca.Revoked) tlsca.List {
	t.Helper()
	l, err := a.List(revoked, number, 14*24*time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

const reloads = "systemctl --no-pager --no-ask-password reload -- a.service"

func (f *fake) reloads() (n int) {
	for _, call := range f.calls {
		if call == reloads {
			n++
		}
	}
	return n
}

// A list is written beside the certificate, the units that read it are reloaded for each new one, and openssl refuses
// by it. The key stays. A renewal keeps the list, also if the daemon has none to give, and it goes with the certificate.
func TestListOfRevokedCertificates(t *testing.T) {
	f := newFake(t)
	ca := newAuthority(t, f)
	before := f.listing(false)
	first := ca.list(t, 1)
	if err := f.apply([]item.Item{ca.withList(true, first)}); err != nil {
		t.Fatal(err)
	}
	const at = "/etc/slipway-tls/web/crl.pem"
	told := func(l tlsca.List) string {
		return item.Digest([]byte(l.PEM)) + " until " + l.Until.Format(time.RFC3339)
	}
	if have := f.certificate(t); f.read(at) != first.PEM || have["revocationList"] != told(first) || f.reloads() != 1 {
		t.Fatalf("it tells %v, reloaded %d times", have, f.reloads())
	}
	key, cert := f.read("/etc/slipway-tls/web/key.pem"), f.read("/etc/slipway-tls/web/cert.pem")
	out, err := exec.CommandContext(t.Context(), "openssl", "x509", "-in", f.host.Path("/etc/slipway-tls/web/cert.pem"), "-noout", "-serial").Output()
	if err != nil {
		t.Fatal(err)
	}
	serial := strings.ToLower(strings.TrimSpace(strings.TrimPrefix(string(out), "serial=")))

	f.reload()
	second := ca.list(t, 2, tlsca.Revoked{Serial: serial, Since: time.Now()})
	if err := f.apply([]item.Item{ca.withList(false, second)}); err != nil {
		t.Fatal(err)
	}
	if have := f.certificate(t); have["revocationList"] != told(second) || f.reloads() != 2 || f.read("/etc/slipway-tls/web/key.pem") != key || f.read("/etc/slipway-tls/web/cert.pem") != cert {
		t.Errorf("after another list it tells %v, reloaded %d times", have, f.reloads())
	}
	path := func(file string) string { return f.host.Path("/etc/slipway-tls/web/" + file) }
	if out, err := exec.CommandContext(t.Context(), "openssl", "verify", "-crl_check_all", "-CAfile", path("ca.pem"), "-CRLfile", path("crl.pem"), path("cert.pem")).CombinedOutput(); err == nil || !strings.Contains(string(out), "certificate revoked") {
		t.Errorf("openssl verify: %v, %s", err, out)
	}
	if err := f.apply([]item.Item{ca.withList(false, second)}); err != nil || f.reloads() != 2 {
		t.Errorf("the same list again: %v, reloaded %d times", err, f.reloads())
	}

	f.reload()
	if err := f.apply([]item.Item{ca.withList(true, tlsca.List{})}); err != nil {
		t.Fatal(err)
	}
	if f.read("/etc/slipway-tls/web/key.pem") == key || f.read(at) != second.PEM || f.certificate(t)["revocationList"] != told(second) {
		t.Errorf("a renewal without a list: %v", f.certificate(t))
	}
	f.put(at, first.PEM)
	if have := f.certificate(t); !strings.HasPrefix(have["revocationList"], "changed by hand: ") {
		t.Errorf("with an older list that somebody put there it tells %v", have)
	}
	f.reload()
	if err := f.apply([]item.Item{ca.withList(false, second)}); err != nil || f.read(at) != second.PEM {
		t.Errorf("put right: %v", err)
	}
	f.reload()
	if err := f.apply([]item.Item{ca.wants(false, "ops", "a.service")}); err != nil {
		t.Fatal(err)
	}
	if have := f.certificate(t); have["revocationList"] != "" || have["unread"] != "" || have["names"] == "" {
		t.Errorf("when the design no longer asks for it: %v", have)
	}
	f.reload()
	if err := f.apply(nil, certificateKey); err != nil {
		t.Fatal(err)
	}
	if after := f.listing(false); after != before {
		t.Errorf("it left something:\n%s\nbefore\n%s", after, before)
	}
}
