package inside_test

import (
	"context"
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

// issued are the certificates of a node, as the daemon keeps them.
type issued struct {
	hosts *sshca.Authority
	names []string
	lines map[string]string // by host key
	all   []uint64
}

func (i *issued) certificates() driver.HostCertificates {
	return driver.HostCertificates{
		Node: i.names[0], Authorities: []string{i.hosts.Public()}, Serials: i.all,
		Valid: func(keys []string) (is driver.SignedHostKeys, err error) {
			for _, key := range keys {
				var given []string
				if line := i.lines[key]; line != "" {
					given = []string{line}
				} else {
					is.Why = "none that counts"
				}
				is.Certificates, is.Given = append(is.Certificates, given...), append(is.Given, given)
			}
			return is, nil
		},
		Sign: func(_ context.Context, keys []string) (lines []string, err error) {
			for _, key := range keys {
				c, err := i.hosts.CertifyHost(key, i.names[0], i.names, time.Now())
				if err != nil {
					return nil, err
				}
				i.lines[key], i.all = c.Line, append(i.all, c.Serial)
				lines = append(lines, c.Line)
			}
			return lines, nil
		},
	}
}

// A real system proves itself by certificates of all its host keys, is known by them alone, and keeps a
// certificate that somebody else has set.
func TestHostCertificatesOnRealSystems(t *testing.T) {
	all := fixtures[:1]
	if proves() {
		all = fixtures
	}
	for _, f := range all {
		t.Run(f.suite.Name, func(t *testing.T) {
			f.base(t)
			hostCertificatesOn(t, f.start(t, nspawn.Layer(t, f.root), nspawn.Loopback))
		})
	}
}

func hostCertificatesOn(t *testing.T, n *node) {
	k, err := sitekey.Create(filepath.Join(t.TempDir(), "site.key"))
	if err != nil {
		t.Fatal(err)
	}
	users, err := sshca.Users(k, "s1", 1)
	if err != nil {
		t.Fatal(err)
	}
	hosts, err := sshca.Hosts(k, "s1", 1)
	if err != nil {
		t.Fatal(err)
	}
	by := &issued{hosts: hosts, names: []string{"n1", "n1.example.org"}, lines: map[string]string{}}
	d := &site.Node{Name: "n1", System: site.System{SSH: site.SSH{Accounts: []string{"root"}}},
		References: site.References{Family: "debian", Authorities: []string{users.Public()}, HostNames: by.names}}
	const field = item.KindSSHHost + ".certificates"
	open := func(trust ...string) driver.Machine {
		t.Helper()
		ep := n.endpoint
		ep.Trust.HostKeys = trust
		m, err := n.driver.Open(t.Context(), ep, secret.New("root", n.fixture.key))
		if err != nil {
			t.Fatal(err)
		}
		m.(driver.Namer).Name("s1", n.term)
		m.(driver.HostCertified).CertifyHost(by.certificates())
		return m
	}
	look := func(m driver.Machine) site.Observed {
		t.Helper()
		seen, err := m.Observe(t.Context(), d, []site.Facet{site.FacetOS, site.FacetBase})
		if err != nil {
			t.Fatal(err)
		}
		return seen
	}
	pinned := n.endpoint.Trust.HostKeys

	n.Does("echo 'HostCertificate /etc/ssh/theirs-cert.pub' > /etc/ssh/sshd_config.d/99-theirs.conf")
	m := open(pinned...)
	if why := look(m).Facets[site.FacetBase].Cannot[field]; !strings.Contains(why, "/etc/ssh/sshd_config.d/99-theirs.conf, sets hostcertificate to /etc/ssh/theirs-cert.pub") {
		t.Errorf("a certificate of somebody else: %q", why)
	}
	n.Does("rm /etc/ssh/sshd_config.d/99-theirs.conf; systemctl show -P MainPID ssh > /root/pid")

	certify := func(m driver.Machine) {
		t.Helper()
		step := stepFor(d, site.FacetBase, look(m))
		step.Changes = []site.Change{{Field: "base." + field}}
		if err := m.Apply(t.Context(), step, d, nil); err != nil {
			t.Fatal(err)
		}
	}
	certify(m)
	m.(driver.HostCertified).CertifyHost(by.certificates())
	seen := look(m)
	if have := seen.Facets[site.FacetBase].Have[field]; have != "n1, n1.example.org" || len(by.all) != 3 {
		t.Fatalf("it has %q of %d that were signed; %v", have, len(by.all), seen.Facets[site.FacetBase].Cannot)
	}
	n.Says("systemctl show -P MainPID ssh | cmp - /root/pid; sshd -T | grep -c '^hostcertificate /etc/ssh/slipway-host/'; ls /etc/ssh/slipway-host | sed 's/-[0-9a-f]*.pub//'; for f in /etc/ssh/slipway-host/*; do ssh-keygen -L -f $f | grep -c 'host certificate'; done",
		"3\necdsa-256\ned25519\nrsa\n1\n1\n1")
	if seen.Login.Host != site.ByCertificate {
		t.Errorf("it proved itself by %q", seen.Login.Host)
	}
	if seen := look(open()); seen.Login.Host != site.ByCertificate {
		t.Errorf("without a known key by %q", seen.Login.Host)
	}
	counting := by.all
	by.all = []uint64{1}
	if _, err := open().Observe(t.Context(), d, []site.Facet{site.FacetOS}); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "had a host certificate of this site") {
		t.Errorf("revoked: %v", err)
	}
	if seen := look(open(pinned...)); seen.Login.Host != site.ByKey {
		t.Errorf("revoked, with a known key by %q", seen.Login.Host)
	}
	by.all = counting

	by.names = []string{"n1", "n1.example.net"} // other names: signed anew, and the old files go
	d.References.HostNames, by.lines = by.names, map[string]string{}
	m = open(pinned...)
	certify(m)
	n.Says("ls /etc/ssh/slipway-host | wc -l; cat /etc/ssh/slipway-host/* | ssh-keygen -L -f - | grep -c example.org || true", "3\n0")
	if have := look(m).Facets[site.FacetBase].Have[field]; have != "n1, n1.example.net" {
		t.Errorf("after other names it has %q", have)
	}

	n.converges(&site.Node{Name: "n1", References: site.References{Family: "debian"}})
	n.Says("sshd -T | grep -c hostcertificate || true; ls /etc/ssh /etc/ssh/sshd_config.d | grep -c slipway || true", "0\n0")
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
