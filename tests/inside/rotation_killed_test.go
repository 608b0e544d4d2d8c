package inside_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/sshclient/sshdtest"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sitekey"
	"github.com/slipway-gitops/slipway/engine/sshca"
	"github.com/slipway-gitops/slipway/engine/tlsca"
	"github.com/slipway-gitops/slipway/tests/nspawn"
)

// epochs are what a commit of the rotation of both authorities has: which ones the node trusts, and which one signs.
type epochs struct {
	trusts []int
	signs  int
}

// rotation goes, as docs/ssh.md and docs/certificates.md say, from one authority to the next.
var rotation = []epochs{{[]int{1}, 1}, {[]int{1, 2}, 1}, {[]int{1, 2}, 2}, {[]int{2}, 2}}

// rotated is a node of which the authorities for SSH and TLS are replaced.
type rotated struct {
	*node
	folder string // of keys and certificates for OpenSSH's own client
	users  map[int]*sshca.Authority
	hosts  map[int]*sshca.Authority
	tls    map[int]*tlsca.Authority
	lines  map[string][]string // host certificates by epoch and key
	all    []uint64
	signed map[string]int // epochs of TLS certificates, by their digest
	given  map[string]site.TLSCertificate
	last   site.Step // that was done
}

// The helper is killed after each of its writes, by itself or with all that it has started, while the authorities of
// SSH and TLS are replaced, in three commits. At that moment OpenSSH's own client still logs in by a key and by each
// authority that both commits trust, knows the system by them, and openssl accepts its TLS certificate. In the end the
// earlier authority opens nothing, and proves nothing.
func TestProveAuthoritiesKilledAtEachWrite(t *testing.T) {
	if !proves() {
		t.Skip("takes a quarter of an hour: set SLIPWAY_PROVE")
	}
	every := 1
	if n, err := strconv.Atoi(os.Getenv("SLIPWAY_PROVE_EVERY")); err == nil && n > 0 {
		every = n
	}
	r := newRotated(t)
	points := 0
	r.passes(r.at(rotation[0]), rotation[0])
	r.holds(rotation[0], rotation[0])
	for i := range rotation[1:] {
		points += r.killed(rotation[i], rotation[i+1], every)
	}
	if points < 3 {
		t.Errorf("the helper was killed %d times alone", points)
	}
	t.Logf("killed after %d writes", points)
}

func newRotated(t *testing.T) *rotated {
	t.Helper()
	made.base(t)
	r := &rotated{node: made.start(t, nspawn.Layer(t, made.root), nspawn.Loopback), folder: t.TempDir(), users: map[int]*sshca.Authority{}, hosts: map[int]*sshca.Authority{},
		tls: map[int]*tlsca.Authority{}, lines: map[string][]string{}, signed: map[string]int{}, given: map[string]site.TLSCertificate{}}
	k, err := sitekey.Create(filepath.Join(r.folder, "site.key"))
	for epoch := 1; epoch <= 2 && err == nil; epoch++ {
		var failed [3]error
		r.users[epoch], failed[0] = sshca.Users(k, "s1", epoch)
		r.hosts[epoch], failed[1] = sshca.Hosts(k, "s1", epoch)
		r.tls[epoch], failed[2] = tlsca.Derive(k, "s1", epoch)
		err = errors.Join(failed[:]...)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.write("key", r.fixture.key)
	public := sshdtest.Key(t, filepath.Join(r.folder, "ana"), "ed25519")
	for epoch, a := range r.users {
		c, err := a.Certify(public, sshca.Login{Node: "n1", Account: "root", For: item.PersonalLogin("ana"), Life: time.Hour}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		r.write(fmt.Sprintf("ana-%d-cert.pub", epoch), c.Line+"\n")
	}
	return r
}

func (r *rotated) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.folder, name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// at is the node as a commit designs it.
func (r *rotated) at(e epochs) *site.Node {
	d := &site.Node{Name: "n1", References: site.References{Family: "debian", HostNames: []string{"n1"}, TLSNames: []string{"n1"}}}
	d.System.SSH.Accounts = []string{"root"}
	d.System.Certificates = map[string]site.TLS{"web": {Usage: "server"}}
	for _, epoch := range e.trusts {
		d.References.Authorities = append(d.References.Authorities, r.users[epoch].Public())
		d.References.TLS = append(d.References.TLS, r.tls[epoch].PEM())
	}
	return d
}

// opened is the connection of the daemon, which signs by the authority of a commit.
func (r *rotated) opened(e epochs) driver.Machine {
	r.t.Helper()
	m := r.byCertificate(r.t, r.users[e.signs], "n1", secret.New("root", r.fixture.key))
	m.(driver.HostCertified).CertifyHost(r.hostCertificates(e))
	m.(driver.TLSCertified).CertifyTLS(r.tlsCertificates(e))
	return m
}

func (r *rotated) hostCertificates(e epochs) driver.HostCertificates {
	id := func(key string) string { return fmt.Sprint(e.signs, " ", key) }
	c := driver.HostCertificates{Node: "n1", Serials: r.all, Valid: func(keys []string) (is driver.SignedHostKeys, err error) {
		for _, key := range keys {
			lines := r.lines[id(key)]
			if len(lines) == 0 {
				is.Why = "none of this authority"
			} else {
				is.Certificates = append(is.Certificates, lines[len(lines)-1])
			}
			is.Given = append(is.Given, lines)
		}
		return is, nil
	}, Sign: func(_ context.Context, keys []string) (lines []string, err error) {
		for _, key := range keys {
			c, err := r.hosts[e.signs].CertifyHost(key, "n1", []string{"n1"}, time.Now())
			if err != nil {
				return nil, err
			}
			r.lines[id(key)], r.all = append(r.lines[id(key)], c.Line), append(r.all, c.Serial)
			lines = append(lines, c.Line)
		}
		return lines, nil
	}}
	for _, epoch := range e.trusts {
		c.Authorities = append(c.Authorities, r.hosts[epoch].Public())
	}
	return c
}

func (r *rotated) tlsCertificates(e epochs) driver.TLSCertificates {
	return driver.TLSCertificates{Valid: func(_, digest string) (is site.TLSCertificate, why string, err error) {
		if by := r.signed[digest]; by != 0 && by != e.signs {
			why = "signed by another authority"
		}
		return r.given[digest], why, nil
	}, Sign: func(_ context.Context, q driver.TLSRequest) (string, error) {
		d, _ := r.at(e).CertificateIn(nil, q.Name)
		c, err := r.tls[e.signs].Sign(q.Request, tlsca.Grant{Node: "n1", Names: d.Names, Usage: d.Usage, Life: cmp.Or(time.Duration(d.Life), 24*time.Hour)}, time.Now())
		if err != nil {
			return "", err
		}
		digest := item.Digest([]byte(c.Chain))
		r.signed[digest], r.given[digest] = e.signs, site.TLSCertificate{Name: q.Name, Serial: c.Serial, Digest: digest, Names: d.Names, Usage: d.Usage, Life: d.Life}
		return c.Chain, nil
	}}
}

// step looks and does what is to be done first. It reports whether nothing was.
func (r *rotated) step(d *site.Node, e epochs) (done bool, err error) {
	m := r.opened(e)
	defer m.Close()
	seen, err := m.Observe(r.t.Context(), d, []site.Facet{site.FacetOS, site.FacetBase, site.FacetConfig})
	if err != nil {
		return false, err
	}
	for _, f := range []site.Facet{site.FacetBase, site.FacetConfig} {
		if plan.AsDesigned(d, f, seen.Facets[f]) {
			continue
		}
		s := stepFor(d, f, seen)
		for field, want := range item.Values(seen.Facets[f].Resolve(d, f).Items) {
			if have := seen.Facets[f].Have[field]; have != want {
				s.Changes = append(s.Changes, site.Change{Field: string(f) + "." + field, Have: have, Want: want})
			}
		}
		if err := m.Apply(r.t.Context(), s, d, nil); err != nil {
			return false, err
		}
		r.last = s
		return false, nil
	}
	return true, nil
}

// passes goes on until all is as designed.
func (r *rotated) passes(d *site.Node, e epochs) {
	r.t.Helper()
	var last error
	for range mostSteps {
		done, err := r.step(d, e)
		if done {
			return
		}
		last = err
	}
	r.t.Fatalf("after %d steps it is not as designed with %+v: %v; the last step is %+v", mostSteps, e, last, r.last)
}

// killed goes from one commit to the next and back, killed after one write in every few, and then to the next.
func (r *rotated) killed(from, to epochs, every int) (points int) {
	t := r.t
	t.Helper()
	began := time.Now()
	for after := 1; ; after += every {
		what := []string{"helper", "all"}[points%2]
		r.arm(after, what)
		for range mostSteps {
			done, err := r.step(r.at(to), to)
			if done || r.Does("[ -e "+prefixFile+" ] && echo still || true") == "" {
				if !done && err == nil {
					t.Errorf("%+v to %+v: killed after write %d, and nobody was told", from, to, after)
				}
				break
			}
		}
		if r.disarm() {
			t.Logf("%+v to %+v: killed after %d of %d writes, in %s", from, to, points, after-1, time.Since(began).Round(time.Second))
			break
		}
		points++
		r.holds(from, to)
		r.passes(r.at(to), to)
		r.holds(to, to)
		r.settled(fmt.Sprintf("%d of %+v to %+v", after, from, to), false)
		r.passes(r.at(from), from)
	}
	r.passes(r.at(to), to)
	r.holds(to, to)
	return points
}

// holds asks OpenSSH's client and openssl what opens the system and what it proves, somewhere between two commits.
func (r *rotated) holds(from, to epochs) {
	t := r.t
	t.Helper()
	known, authorities := "", ""
	for epoch := 1; epoch <= 2; epoch++ {
		before, after := slices.Contains(from.trusts, epoch), slices.Contains(to.trusts, epoch)
		in := r.login("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-i", "ana", "-o", fmt.Sprintf("CertificateFile=ana-%d-cert.pub", epoch))
		if before && after && !in || !before && !after && in {
			t.Errorf("between %+v and %+v a certificate of the authority %d logs in: %t", from, to, epoch, in)
		}
		if before && after {
			known += "@cert-authority * " + r.hosts[epoch].Public() + "\n"
			authorities += r.tls[epoch].PEM()
		}
	}
	r.write("known", known)
	if !r.login("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-i", "key") {
		t.Errorf("between %+v and %+v the key of the credential does not log in", from, to)
	}
	if !r.login("-o", "StrictHostKeyChecking=yes", "-o", "UserKnownHostsFile=known", "-o", "HostKeyAlias=n1", "-o", "HostKeyAlgorithms=ssh-ed25519-cert-v01@openssh.com", "-i", "key") {
		t.Errorf("between %+v and %+v the system proves itself by no authority of both", from, to)
	}
	r.write("ca.pem", authorities)
	for _, file := range []string{"cert", "key"} {
		r.write(file+".pem", r.Does("cat /etc/slipway-tls/web/"+file+".pem")+"\n")
	}
	if out, err := r.openssl("verify", "-CAfile", "ca.pem", "cert.pem"); err != nil {
		t.Errorf("between %+v and %+v openssl refuses the certificate: %s", from, to, out)
	}
	certified, err1 := r.openssl("x509", "-in", "cert.pem", "-noout", "-pubkey")
	held, err2 := r.openssl("pkey", "-in", "key.pem", "-pubout")
	if err1 != nil || err2 != nil || certified != held {
		t.Errorf("between %+v and %+v the certificate is of another key: %v, %v", from, to, err1, err2)
	}
}

func (r *rotated) openssl(args ...string) (string, error) {
	cmd := exec.CommandContext(r.t.Context(), "openssl", args...)
	cmd.Dir = r.folder
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// login reports whether OpenSSH's client and server both agree. That nothing answers fails the test.
func (r *rotated) login(args ...string) bool {
	r.t.Helper()
	_, address, _ := strings.Cut(r.endpoint.URL, "@")
	host, port, _ := strings.Cut(address, ":")
	cmd := exec.CommandContext(r.t.Context(), "ssh", append(append([]string{"-n", "-F", "none", "-p", port, "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none",
		"-o", "GlobalKnownHostsFile=/dev/null", "-o", "ConnectTimeout=20"}, args...), "root@"+host, "true")...)
	cmd.Dir = r.folder
	out, err := cmd.CombinedOutput()
	if err == nil {
		return true
	}
	if text := string(out); !strings.Contains(text, "Permission denied") && !strings.Contains(text, "Host key verification failed") {
		r.t.Errorf("ssh %q: %v: %s", args, err, text)
	}
	return false
}
