package inside_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sitekey"
	"github.com/slipway-gitops/slipway/engine/sshca"
	"github.com/slipway-gitops/slipway/tests/nspawn"
)

// byCertificate opens the system with certificates for a node besides a credential.
func (n *node) byCertificate(t *testing.T, a *sshca.Authority, node string, credential secret.Value) driver.Machine {
	t.Helper()
	m, err := n.driver.Open(t.Context(), n.endpoint, credential)
	if err != nil {
		t.Fatal(err)
	}
	m.(driver.Namer).Name("s1", n.term)
	m.(driver.Certified).Certify(driver.Certificates{Sign: func(key, account string) (string, error) {
		c, err := a.Certify(key, sshca.Login{Node: node, Account: account, For: "daemon", Life: time.Minute}, time.Now())
		return c.Line, err
	}})
	return m
}

// On a real system certificates of the site log in for one node, besides the credential, and
// nothing takes away the way in that is in use. Where another authority is set for some logins,
// nothing is written.
func TestCertificatesOnRealSystems(t *testing.T) {
	all := fixtures[:1]
	if proves() {
		all = fixtures
	}
	for _, f := range all {
		t.Run(f.suite.Name, func(t *testing.T) {
			f.base(t)
			n := f.start(t, nspawn.Layer(t, f.root), nspawn.Loopback)
			certificatesOn(t, n)
		})
	}
}

func certificatesOn(t *testing.T, n *node) {
	k, err := sitekey.Create(filepath.Join(t.TempDir(), "site.key"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := sshca.Users(k, "s1", 1)
	if err != nil {
		t.Fatal(err)
	}
	plain := &site.Node{Name: "n1", References: site.References{Family: "debian"}}
	d := &site.Node{Name: "n1", System: site.System{SSH: site.SSH{Accounts: []string{"root"}}}, References: site.References{Family: "debian", Authorities: []string{a.Public()}}}
	key := secret.New("root", n.fixture.key)
	look := func(node string, credential secret.Value) (*site.Login, error) {
		m := n.byCertificate(t, a, node, credential)
		defer m.Close()
		seen, err := m.Observe(t.Context(), d, []site.Facet{site.FacetOS, site.FacetBase})
		return seen.Login, err
	}

	if l, err := look("n1", key); err != nil || l.By != site.ByKey || l.Refused == "" || l.Clock != 0 {
		t.Fatalf("before: %+v, %v", l, err)
	}
	n.Does("echo 'Broken yes' > /etc/ssh/sshd_config.d/99-broken.conf")
	if _, err := n.converge(d); err == nil || !strings.Contains(err.Error(), "sshd does not accept its settings") {
		t.Errorf("settings that sshd refuses: %v", err)
	}
	n.Does("rm /etc/ssh/sshd_config.d/99-broken.conf; test ! -e /etc/ssh/sshd_config.d/60-slipway.conf")

	n.Does("printf 'Match User bob\n  TrustedUserCAKeys /etc/ssh/theirs.pub\n' > /etc/ssh/sshd_config.d/99-match.conf; sshd -t")
	if _, err := n.converge(d); err == nil || !strings.Contains(err.Error(), "another file of the SSH server, /etc/ssh/sshd_config.d/99-match.conf, sets trustedusercakeys") {
		t.Errorf("behind a Match: %v", err)
	}
	n.Does("test ! -e /etc/ssh/sshd_config.d/60-slipway.conf; rm /etc/ssh/sshd_config.d/99-match.conf")

	n.Does("systemctl show -P MainPID ssh > /root/pid; test -s /root/pid")
	n.converges(d)
	n.Says("systemctl show -P MainPID ssh | cmp - /root/pid && sshd -T | grep -E '^(trustedusercakeys|authorizedprincipalsfile)'",
		"trustedusercakeys /etc/ssh/slipway/authorities\nauthorizedprincipalsfile /etc/ssh/slipway/principals/%u")
	n.Says("find /etc/ssh/slipway /etc/ssh/sshd_config.d/60-slipway.conf -printf '%p %m %u\\n' | LC_ALL=C sort",
		"/etc/ssh/slipway 755 root\n/etc/ssh/slipway/authorities 644 root\n/etc/ssh/slipway/principals 755 root\n/etc/ssh/slipway/principals/root 644 root\n/etc/ssh/sshd_config.d/60-slipway.conf 644 root")
	if l, err := look("n1", key); err != nil || l.By != site.ByCertificate || l.Refused != "" || l.Account != "root" {
		t.Fatalf("by certificate: %+v, %v", l, err)
	}
	n.Says(`journalctl -u ssh -o cat | grep -c 'Accepted publickey for root .* ID slipway s1 n1 root: daemon (serial '`, "1")
	if l, err := look("n2", key); err != nil || l.By != site.ByKey || l.Refused == "" {
		t.Errorf("a certificate for another node: %+v, %v", l, err)
	}

	revokedOn(t, n, a, d, look)

	n.Does("mv /root/.ssh/authorized_keys /root/kept")
	if l, err := look("n1", key); err != nil || l.By != site.ByCertificate {
		t.Errorf("without the key: %+v, %v", l, err)
	}
	if _, err := look("n2", key); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("neither: %v", err)
	}
	m := n.byCertificate(t, a, "n1", key)
	seen, err := m.Observe(t.Context(), plain, n.driver.Facets())
	if err != nil {
		t.Fatal(err)
	}
	s := stepFor(plain, site.FacetBase, seen)
	if err := m.Apply(t.Context(), s, plain, nil); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "could not log in again") {
		t.Errorf("the last way in was taken away: %v", err)
	}
	m.Close()
	if l, err := look("n1", key); err != nil || l.By != site.ByCertificate {
		t.Errorf("after that: %+v, %v", l, err)
	}

	n.Does("mv /root/kept /root/.ssh/authorized_keys")
	n.converges(plain)
	n.Says("sshd -T | grep -E '^(trustedusercakeys|authorizedprincipalsfile)'; ls /etc/ssh /etc/ssh/sshd_config.d | grep -c slipway || true", "trustedusercakeys none\nauthorizedprincipalsfile none\n0")
	if l, err := look("n1", key); err != nil || l.By != site.ByKey {
		t.Errorf("in the end: %+v, %v", l, err)
	}
}

// revokedOn revokes a person and a key: what logged in before is refused after, and Slipway's
// certificates and key still log in.
func revokedOn(t *testing.T, n *node, a *sshca.Authority, d *site.Node, look func(node string, credential secret.Value) (*site.Login, error)) {
	t.Helper()
	n.Does("ssh-keygen -q -t ed25519 -N '' -f /root/ana; ssh-keygen -q -t ed25519 -N '' -f /root/stolen; cat /root/stolen.pub >> /root/.ssh/authorized_keys")
	cert, err := a.Certify(strings.TrimSpace(n.Does("cat /root/ana.pub")), sshca.Login{Node: "n1", Account: "root", For: item.PersonalLogin("ana"), Life: time.Hour}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	n.Does("echo '" + cert.Line + "' > /root/ana-cert.pub")
	const login = "for k in ana stolen; do ssh -F none -i /root/$k -o BatchMode=yes -o IdentitiesOnly=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null root@127.0.0.1 true 2>/dev/null && echo $k in || echo $k out; done"
	n.Says(login, "ana in\nstolen in")
	with := *d
	with.References.Revoked = &item.Revoked{Site: "s1", People: []string{"ana"}, Keys: []string{strings.TrimSpace(n.Does("cat /root/stolen.pub"))}}
	n.converges(&with)
	n.Says(login, "ana out\nstolen out")
	if l, err := look("n1", secret.New("root", n.fixture.key)); err != nil || l.By != site.ByCertificate {
		t.Errorf("by certificate, with a list: %+v, %v", l, err)
	}
	if l, err := look("n2", secret.New("root", n.fixture.key)); err != nil || l.By != site.ByKey {
		t.Errorf("by key, with a list: %+v, %v", l, err)
	}
	n.converges(d)
	n.Says(login+"; ls /etc/ssh/slipway", "ana in\nstolen in\nauthorities\nprincipals")
}
