package engine_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/tlsca"
)

// keyMaking is a driver of systems that make keys of TLS and have them signed, as the real one's do.
type keyMaking struct {
	driver.Driver
	mu    sync.Mutex
	has   map[string]string // the chain that a system has, by node
	by    map[string]driver.TLSCertificates
	given int
	clock time.Duration     // by which the clocks of systems are off
	asks  string            // the certificate that systems ask for instead
	last  error             // of the last request
	loses bool              // what was signed does not arrive
	lists map[string]string // of revoked certificates that a system has, by node
}

func newKeyMaking(d driver.Driver) *keyMaking {
	return &keyMaking{Driver: d, has: map[string]string{}, by: map[string]driver.TLSCertificates{}, lists: map[string]string{}}
}

type keyMakingMachine struct {
	driver.Machine
	k  *keyMaking
	mu sync.Mutex
	by driver.TLSCertificates
}

func (k *keyMaking) Open(ctx context.Context, e site.Endpoint, s secret.Value) (driver.Machine, error) {
	m, err := k.Driver.Open(ctx, e, s)
	return &keyMakingMachine{Machine: m, k: k}, err
}

func (m *keyMakingMachine) Unwrap() any { return m.Machine }

func (m *keyMakingMachine) CertifyTLS(by driver.TLSCertificates) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.by = by
}

func (m *keyMakingMachine) now() driver.TLSCertificates {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.by
}

const webKey = "certificates.web"

func (m *keyMakingMachine) Observe(ctx context.Context, n *site.Node, facets []site.Facet) (site.Observed, error) {
	seen, err := m.Machine.Observe(ctx, n, facets)
	s, looked := seen.Facets[site.FacetConfig]
	if err != nil || !looked {
		return seen, err
	}
	by := m.now()
	m.k.mu.Lock()
	chain := m.k.has[n.Name]
	m.k.by[n.Name] = by
	m.k.mu.Unlock()
	s.Have, s.Cannot = site.Values{}, nil
	items := n.Items(site.FacetConfig)
	at := slices.IndexFunc(items, func(i item.Item) bool { return i.Key == webKey })
	switch {
	case at < 0:
	case by.Valid == nil:
		for field, v := range items[at].Fields {
			s.Have[webKey+"."+field] = v
		}
		s.Cannot = site.Values{webKey + ".names": by.Why, webKey + ".usage": by.Why, webKey + ".life": by.Why}
	case chain != "":
		is, why, err := by.Valid("web", item.Digest([]byte(chain)))
		for field, v := range items[at].Fields {
			s.Have[webKey+"."+field] = v
		}
		switch {
		case err != nil:
			s.Cannot = site.Values{webKey + ".names": err.Error()}
		case is.Serial == "":
			s.Have[webKey+".names"] = "others than Slipway signed"
		case why != "":
			s.Have[webKey+".names"], s.Due = why, []string{webKey + ".names"}
		default:
			s.Have[webKey+".names"], s.Have[webKey+".usage"] = item.List(is.Names), is.Usage
		}
		if err == nil && is.Serial != "" {
			s.Signed = site.Values{"web": is.Serial}
		}
		m.k.seeList(n.Name, by, &s)
	default:
		s.Absent = []string{webKey}
	}
	seen.Facets[site.FacetConfig] = s
	return seen, nil
}

// seeList tells whether a system has the present lists of revoked certificates, if it is to have them.
func (k *keyMaking) seeList(node string, by driver.TLSCertificates, s *site.FacetState) {
	k.mu.Lock()
	defer k.mu.Unlock()
	const field = webKey + ".revocationList"
	if s.Have[field] == "" {
		return
	}
	switch text, err := by.Lists(); {
	case err != nil:
		s.Cannot = site.Values{field: err.Error()}
		delete(s.Have, field)
	case text != k.lists[node]:
		s.Have[field], s.Due = "an earlier one", append(s.Due, field)
	}
}

// list are the lists that a system has.
func (k *keyMaking) list(node string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lists[node]
}

// give gives the present lists to a system.
func (k *keyMaking) give(node string, by driver.TLSCertificates) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	text, err := by.Lists()
	k.lists[node] = text
	return err
}

func (m *keyMakingMachine) Apply(ctx context.Context, s site.Step, n *site.Node, may driver.Permit) error {
	if s.Facet != site.FacetConfig || !slices.ContainsFunc(s.Changes, func(c site.Change) bool { return strings.HasPrefix(c.Field, "config."+webKey) }) {
		return m.Machine.Apply(ctx, s, n, may)
	}
	m.k.mu.Lock()
	r := driver.TLSRequest{Name: "web", Request: requestFor(m.k), Clock: time.Now().Add(m.k.clock), HostKeys: []string{"ssh-ed25519 AAAA-of-" + n.Name}}
	if m.k.asks != "" {
		r.Name = m.k.asks
	}
	m.k.mu.Unlock()
	by := m.now()
	if by.Sign == nil {
		return driver.ErrRefused
	}
	if n.System.Certificates["web"].RevocationList {
		if err := m.k.give(n.Name, by); err != nil || len(s.Changes) == 1 && s.Changes[0].Field == "config."+webKey+".revocationList" {
			return err
		}
	}
	chain, err := by.Sign(ctx, r)
	m.k.mu.Lock()
	defer m.k.mu.Unlock()
	if m.k.last = err; err != nil {
		return err
	}
	m.k.given++
	if m.k.loses {
		return errors.New("write key.pem: no space left on device")
	}
	m.k.has[n.Name] = chain
	return nil
}

// requestFor is a signing request that asks for the name of another node.
func requestFor(_ *keyMaking) []byte {
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	der, _ := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{"b"}}, key)
	return der
}

func (k *keyMaking) state(node string) (c *x509.Certificate, given int, last error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if block, _ := pem.Decode([]byte(k.has[node])); block != nil {
		c, _ = x509.ParseCertificate(block.Bytes)
	}
	return c, k.given, k.last
}

func (k *keyMaking) signs(node string) driver.TLSCertificates {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.by[node]
}

func (w *world) tlsAuthority(epoch int) *tlsca.Authority {
	w.t.Helper()
	a, err := tlsca.Derive(w.key(), "test", epoch)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// withTLS is a design whose nodes have a certificate.
func (w *world) withTLS(epoch int, authorities []string, names ...string) *site.Site {
	d := w.design(names...)
	d.TLS = site.TLSAuthorities{Authorities: authorities, Epoch: epoch}
	d.Rollout.FirstContact, d.Rollout.PollEvery, d.Rollout.ObserveEvery = "repair", site.Duration(time.Minute), site.Duration(10*time.Minute)
	for _, name := range names {
		w.fleet.Machine(name).SetDisk(&site.Marker{})
		n := d.Nodes[name]
		n.System.Certificates = map[string]site.TLS{"web": {Names: []string{"{name}.example.org", "10.0.0.1"}}}
		n.References.TLS = authorities
		n.References.TLSNames = d.ReferencesOf(n).TLSNames
		ep := n.Endpoints[site.OS]
		ep.Trust.HostKeys = []string{somebodysKey}
		n.Endpoints[site.OS] = ep
	}
	return d
}

// sleep lets the time pass while no daemon runs, and then has one look.
func (w *world) sleep(d time.Duration) {
	w.down()
	w.after(d)
	w.up()
	w.after(20 * time.Minute)
}

const tlsLife = 14 * 24 * time.Hour

// A node gets a certificate for the names of its design alone, and another one at two thirds of its life, whatever the
// design asks for drift.
func TestTLSCertificateIsRenewed(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		systems := newKeyMaking(w.fleet.OSDriver())
		w.systems = systems
		d := w.withTLS(0, []string{w.tlsAuthority(1).PEM()}, "a")
		d.Nodes["a"].Drift = map[site.Facet]string{site.FacetConfig: "report"}
		w.commit(d)
		w.up()
		w.after(20 * time.Minute)
		w.want("a", site.InSync)
		first, given, _ := systems.state("a")
		if given != 1 || !slices.Equal(first.DNSNames, []string{"a.example.org"}) || len(first.IPAddresses) != 1 {
			t.Fatalf("given %d, names %v", given, first)
		}
		if all := w.node("a").Certificates; len(all) != 1 || all[0].State != site.TLSValid || all[0].Serial != tlsSerial(first) {
			t.Errorf("the status has %+v", all)
		}
		w.sleep(tlsLife/3 + time.Hour)
		if _, given, _ := systems.state("a"); given != 1 {
			t.Errorf("renewed after a third of its life")
		}
		w.sleep(tlsLife / 3)
		second, given, _ := systems.state("a")
		if given != 2 || second.SerialNumber.Cmp(first.SerialNumber) == 0 {
			t.Errorf("after two thirds of its life given %d", given)
		}
		w.want("a", site.InSync)
		if all := w.node("a").Certificates; len(all) != 2 || all[0].State != site.TLSReplaced || all[1].State != site.TLSValid {
			t.Errorf("the status has %+v", all)
		}
	}, "a")
}

// What cannot be signed is not, and the sentence says why. The record has nothing of it.
func TestTLSCertificateRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(k *keyMaking)
		want  string
	}{
		"the system is years behind": {func(k *keyMaking) { k.clock = -10 * 365 * 24 * time.Hour }, "the clock of a shows 19"},
		"the system is years ahead":  {func(k *keyMaking) { k.clock = 10 * 365 * 24 * time.Hour }, "the clock of a shows 20"},
		"another certificate":        {func(k *keyMaking) { k.asks = "admin" }, "the design of a has no certificate admin"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				systems := newKeyMaking(w.fleet.OSDriver())
				c.spoil(systems)
				w.systems = systems
				w.commit(w.withTLS(0, []string{w.tlsAuthority(1).PEM()}, "a"))
				w.up()
				w.after(20 * time.Minute)
				_, given, last := systems.state("a")
				if given != 0 || !errors.Is(last, driver.ErrRefused) || !strings.Contains(last.Error(), c.want) {
					t.Errorf("given %d: %v", given, last)
				}
				if all := w.recorded("a").TLS; len(all) > 0 {
					t.Errorf("recorded are %+v", all)
				}
			}, "a")
		})
	}
}

// The daemon's own clock, years behind the last certificate, signs none and ends none.
func TestTLSClockBehind(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		systems := newKeyMaking(w.fleet.OSDriver())
		w.systems = systems
		w.commit(w.withTLS(0, []string{w.tlsAuthority(1).PEM()}, "a"))
		w.up()
		w.after(20 * time.Minute)
		w.down()
		w.whileDown(func(records *record.Site) error {
			snap, err := records.Load(w.t.Context())
			r := snap.Nodes["a"].Recorded
			r.TLS[0].Since, r.TLS[0].Until = time.Now().AddDate(3, 0, 0), time.Now().AddDate(3, 0, 14)
			return errors.Join(err, records.PutNode(w.t.Context(), "a", r))
		})
		w.up()
		w.after(time.Hour)
		by := systems.signs("a")
		_, why, err := by.Valid("web", "x")
		if _, given, _ := systems.state("a"); given != 1 || err == nil || !strings.Contains(err.Error(), "the clock of this daemon is behind") || why != "" {
			t.Errorf("given %d: %v", given, err)
		}
		if _, err := by.Sign(t.Context(), driver.TLSRequest{Name: "web", Request: requestFor(systems), Clock: time.Now()}); !errors.Is(err, driver.ErrRefused) {
			t.Errorf("signed: %v", err)
		}
	}, "a")
}

// A quarantine and a removal revoke the certificates: none is signed meanwhile, the status lists what others still
// accept, and the node gets another one after it.
func TestQuarantineRevokesTLSCertificates(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		systems := newKeyMaking(w.fleet.OSDriver())
		w.systems = systems
		authorities := []string{w.tlsAuthority(1).PEM()}
		w.commit(w.withTLS(0, authorities, "a"))
		w.up()
		w.after(20 * time.Minute)
		by := systems.signs("a")
		w.do(site.Order{Verb: site.VerbQuarantine, Node: "a", By: "ana", Reason: "odd"})
		if chain, err := by.Sign(t.Context(), driver.TLSRequest{Name: "web", Request: requestFor(systems), Clock: time.Now()}); !errors.Is(err, driver.ErrRefused) || chain != "" {
			t.Errorf("signed under quarantine: %v", err)
		}
		w.after(time.Minute)
		all := w.node("a").Certificates
		if len(all) == 0 || slices.ContainsFunc(all, func(c site.TLSState) bool { return c.State != site.TLSRevoked }) {
			t.Errorf("under quarantine the status has %+v", all)
		}
		w.do(site.Order{Verb: site.VerbRelease, Node: "a", By: "ana"})
		w.after(time.Hour)
		if _, given, _ := systems.state("a"); given != 2 {
			t.Errorf("given %d", given)
		}
		w.commit(w.withTLS(0, authorities, "b")) // a leaves
		w.after(time.Hour)
		w.commit(w.withTLS(0, authorities, "a", "b"))
		w.after(time.Hour)
		all = w.node("a").Certificates
		if n := len(all); n < 3 || all[n-1].State != site.TLSValid || all[n-2].State != site.TLSRevoked {
			t.Errorf("after it came back the status has %+v", all)
		}
	}, "a", "b")
}

// The authorities are exchanged with an overlap, and a design with others signs nothing.
func TestTLSAuthoritiesAreExchanged(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		systems := newKeyMaking(w.fleet.OSDriver())
		w.systems = systems
		old, next := w.tlsAuthority(1), w.tlsAuthority(2)
		w.commit(w.withTLS(1, []string{old.PEM()}, "a"))
		w.up()
		w.after(20 * time.Minute)
		w.commit(w.withTLS(1, []string{old.PEM(), next.PEM()}, "a"))
		w.after(time.Hour)
		w.commit(w.withTLS(2, []string{old.PEM(), next.PEM()}, "a"))
		w.after(2 * time.Minute) // the design is in force, and the next look of itself is minutes away
		w.want("a", site.InSync)
		by, err := tlsca.Parse(next.PEM())
		c, _, _ := systems.state("a")
		if err = errors.Join(err, c.CheckSignatureFrom(by)); err != nil {
			t.Errorf("after the epoch: %v", err)
		}
		w.want("a", site.InSync)
		w.commit(w.withTLS(2, []string{old.PEM()}, "a"))
		w.after(time.Hour)
		notes := strings.Join(w.engine.Report().Status.Notes, "\n")
		if by := systems.signs("a"); by.Sign != nil || !strings.Contains(by.Why, "other TLS authorities than this daemon's") || !strings.Contains(notes, by.Why) {
			t.Errorf("the reason is %q, the notes are %q", by.Why, notes)
		}
	}, "a")
}

// A certificate that is not renewed in time is a problem of the site, until it is.
func TestLateTLSCertificatesAreAProblem(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		systems := newKeyMaking(w.fleet.OSDriver())
		w.systems = systems
		w.commit(w.withTLS(0, []string{w.tlsAuthority(1).PEM()}, "a"))
		w.up()
		w.after(20 * time.Minute)
		w.do(site.Order{Verb: site.VerbPause, Node: "a", Reason: "lunch"})
		problem := func() string {
			for _, p := range w.engine.Report().Status.Problems {
				if p.About == "certificates" {
					return p.What
				}
			}
			return ""
		}
		w.sleep(tlsLife * 7 / 10)
		if what := problem(); what != "" {
			t.Errorf("when it is due: %s", what)
		}
		w.sleep(tlsLife / 10)
		if what := problem(); !strings.Contains(what, "1 TLS certificates were not renewed in time: web of a until ") {
			t.Errorf("when it is late: %q", what)
		}
		if all := w.node("a").Certificates; len(all) != 1 || all[0].State != site.TLSLate {
			t.Errorf("the status has %+v", all)
		}
		w.do(site.Order{Verb: site.VerbResume, Node: "a"})
		w.after(time.Hour)
		if what := problem(); what != "" {
			t.Errorf("afterwards: %s", what)
		}
	}, "a")
}

// No node gets a certificate with a name that the machine of another node still has: one under quarantine, or one that
// has left the design and is not removed yet.
func TestCertificateForTheNameOfALeavingNode(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		systems := newKeyMaking(w.fleet.OSDriver())
		w.systems = systems
		authorities := []string{w.tlsAuthority(1).PEM()}
		w.commit(w.withTLS(0, authorities, "a", "b"))
		w.up()
		w.after(20 * time.Minute)
		d := w.withTLS(0, authorities, "b") // a leaves; Slipway keeps it, and only observes it
		d.Nodes["b"].System.Certificates = map[string]site.TLS{"web": {Names: []string{"a.example.org", "a"}}}
		w.commit(d)
		w.after(time.Hour)
		c, _, last := systems.state("b")
		if last == nil || !strings.Contains(last.Error(), "belongs to a") {
			t.Errorf("b is told %v", last)
		}
		if len(c.DNSNames) > 0 && c.DNSNames[0] == "a.example.org" {
			t.Errorf("b has a certificate for %q, the names of a, whose machine runs and which Slipway keeps", c.DNSNames)
		}
	}, "a", "b")
}
