package inside_test

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sitekey"
	"github.com/slipway-gitops/slipway/engine/tlsca"
	"github.com/slipway-gitops/slipway/tests/nspawn"
)

// granting signs the certificates of a node, as the daemon does.
type granting struct {
	authority *tlsca.Authority
	node      *site.Node
	signed    []site.TLSCertificate
	due       bool
}

func (g *granting) certificates() driver.TLSCertificates {
	return driver.TLSCertificates{
		Valid: func(name, digest string) (is site.TLSCertificate, why string, err error) {
			for _, c := range g.signed {
				if c.Name == name && c.Digest == digest {
					is = c
				}
			}
			if g.due {
				why = "to be renewed since yesterday"
			}
			return is, why, nil
		},
		Sign: func(_ context.Context, r driver.TLSRequest) (string, error) {
			d, _ := g.node.CertificateIn(nil, r.Name)
			c, err := g.authority.Sign(r.Request, tlsca.Grant{Node: "n1", Names: d.Names, Usage: d.Usage, Life: time.Duration(d.Life)}, time.Now())
			if err != nil {
				return "", err
			}
			g.signed, g.due = append(g.signed, site.TLSCertificate{Name: r.Name, Serial: c.Serial, Digest: item.Digest([]byte(c.Chain)), Names: d.Names, Usage: d.Usage, Life: d.Life}), false
			return c.Chain, nil
		},
	}
}

// A real system makes its key, gets a certificate by it that a TLS server shows and openssl accepts, reloads the unit
// that reads it, has another one in time, and nothing of it when it leaves the design.
func TestTLSOnRealSystems(t *testing.T) {
	all := fixtures[:1]
	if proves() {
		all = fixtures
	}
	for _, f := range all {
		t.Run(f.suite.Name, func(t *testing.T) {
			f.base(t)
			tlsOn(t, f.start(t, nspawn.Layer(t, f.root), nspawn.Loopback))
		})
	}
}

func tlsOn(t *testing.T, n *node) {
	k, err := sitekey.Create(filepath.Join(t.TempDir(), "site.key"))
	if err != nil {
		t.Fatal(err)
	}
	var authorities []*tlsca.Authority
	for epoch := range 2 {
		a, err := tlsca.Derive(k, "s1", epoch+1)
		if err != nil {
			t.Fatal(err)
		}
		authorities = append(authorities, a)
	}
	d := &site.Node{Name: "n1", References: site.References{Family: "debian", TLS: []string{authorities[0].PEM()}, TLSNames: []string{"n1"}}}
	web := site.TLS{Names: []string{"{name}.example.org", "127.0.0.1"}, Usage: "server", Owner: "daemon", Group: "adm", Reload: []string{"reads.service"}}
	d.System.Certificates = map[string]site.TLS{"web": web}
	by := &granting{authority: authorities[0], node: d}
	ep := n.endpoint
	m, err := n.driver.Open(t.Context(), ep, secret.New("root", n.fixture.key))
	if err != nil {
		t.Fatal(err)
	}
	m.(driver.Namer).Name("s1", n.term)
	m.(driver.TLSCertified).CertifyTLS(by.certificates())
	look := func() site.Observed {
		t.Helper()
		seen, err := m.Observe(t.Context(), d, []site.Facet{site.FacetOS, site.FacetConfig})
		if err != nil {
			t.Fatal(err)
		}
		return seen
	}
	have := func(field string) string { return look().Facets[site.FacetConfig].Have["certificates.web."+field] }
	apply := func(fields ...string) error {
		t.Helper()
		seen := look()
		step := stepFor(d, site.FacetConfig, seen)
		step.Changes = nil
		for _, field := range fields {
			step.Changes = append(step.Changes, site.Change{Field: "config.certificates.web" + field, Have: seen.Facets[site.FacetConfig].Have["certificates.web"+field]})
		}
		return m.Apply(t.Context(), step, d, nil)
	}
	does := func(fields ...string) {
		t.Helper()
		if err := apply(fields...); err != nil {
			t.Fatal(err)
		}
	}

	if err := apply(""); err == nil || !strings.Contains(err.Error(), "the unit reads.service that is to be reloaded is not-found") || len(by.signed) > 0 {
		t.Fatalf("with a unit that is not there: %v", err)
	}
	n.Does(`printf '[Service]\nExecStart=/bin/sleep infinity\nExecReload=/bin/cp /etc/slipway-tls/web/cert.pem /srv/read.pem\n' > /etc/systemd/system/reads.service; systemctl daemon-reload; systemctl start reads`)
	does("")
	n.Says("stat -Lc '%a %U:%G' /etc/slipway-tls/web/key.pem /etc/slipway-tls/web/cert.pem; cmp /srv/read.pem /etc/slipway-tls/web/cert.pem && echo read", "600 daemon:adm\n644 root:root\nread")
	if is := have("names"); is != "127.0.0.1, n1.example.org" || have("life") != "336h0m0s" || have("usage") != "server" || have("owner") != "daemon:adm" {
		t.Fatalf("it has %q; %+v", is, look().Facets[site.FacetConfig])
	}
	shownByServer(t, n, authorities[0], "n1.example.org")
	key := n.Does("cat /etc/slipway-tls/web/key.pem")
	n.Says("grep -rlF '"+strings.Split(key, "\n")[1]+"' /etc /var /srv /run /tmp /root 2>/dev/null | wc -l", "1")

	by.due = true
	if is := have("names"); is != "to be renewed since yesterday" {
		t.Errorf("when it is due it has %q", is)
	}
	does(".names")
	if len(by.signed) != 2 || n.Does("cat /etc/slipway-tls/web/key.pem") == key || have("names") != "127.0.0.1, n1.example.org" {
		t.Errorf("the renewal: %d signed, it has %q", len(by.signed), have("names"))
	}
	n.Says("cmp /srv/read.pem /etc/slipway-tls/web/cert.pem && echo read; ls -A /etc/slipway-tls | wc -l", "read\n2")

	d.References.TLS = []string{authorities[0].PEM(), authorities[1].PEM()}
	does(".authorities") // the certificate stays
	n.Says("grep -c BEGIN /etc/slipway-tls/web/ca.pem", "2")
	by.authority = authorities[1]
	by.due = true
	does(".names")
	shownByServer(t, n, authorities[1], "n1.example.org")
	web.Owner, web.Group, web.Usage, web.Life = "", "", "both", site.Duration(48*time.Hour)
	d.System.Certificates["web"] = web
	does(".usage", ".life", ".owner")
	n.Says("stat -Lc '%a %U:%G' /etc/slipway-tls/web/key.pem", "600 root:root")
	if have("usage") != "both" || have("life") != "48h0m0s" || len(by.signed) != 4 {
		t.Errorf("it has %q and %q; %d signed", have("usage"), have("life"), len(by.signed))
	}

	n.Does("chmod 0644 /etc/slipway-tls/web/key.pem")
	if is := have("names"); !strings.Contains(is, "with mode 0644") {
		t.Errorf("with a key that others can read it has %q", is)
	}
	does(".names")
	n.Says("stat -Lc %a /etc/slipway-tls/web/key.pem", "600")
	n.converges(&site.Node{Name: "n1", References: site.References{Family: "debian"}})
	n.Says("ls -A /etc/slipway-tls 2>/dev/null | wc -l; test -e /etc/slipway-tls && echo there || echo gone", "0\ngone")
}

// shownByServer has openssl verify a TLS server that has the key and the certificate of the system.
func shownByServer(t *testing.T, n *node, by *tlsca.Authority, name string) {
	t.Helper()
	pair, err := tls.X509KeyPair([]byte(n.Does("cat /etc/slipway-tls/web/cert.pem")+"\n"), []byte(n.Does("cat /etc/slipway-tls/web/key.pem")+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func(c net.Conn) {
				defer c.Close()
				c.(*tls.Conn).Handshake() // the client says how it ended
			}(c)
		}
	}()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, []byte(by.PEM()), 0o600); err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]string{name: "Verification: OK", "n2.example.org": "hostname mismatch"} {
		cmd := exec.CommandContext(t.Context(), "openssl", "s_client", "-connect", l.Addr().String(), "-CAfile", ca, "-verify_hostname", host, "-servername", host)
		out, _ := cmd.CombinedOutput()
		if !strings.Contains(string(out), want) {
			t.Errorf("openssl on %s, want %q:\n%s", host, want, out)
		}
	}
}
