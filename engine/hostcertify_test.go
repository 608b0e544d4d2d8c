package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gossh "golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sshca"
)

// keyProving is a driver of systems that prove host keys and show certificates, as the real one's do.
type keyProving struct {
	driver.Driver
	mu     sync.Mutex
	keys   map[string][]string // by node
	shown  map[string][]string // the certificates that its SSH server shows
	by     map[string]driver.HostCertificates
	signed int    // how often other ones were shown than before
	proves string // how systems prove themselves at a login, as in site.Login
	// foreign is whether their SSH servers show a certificate of somebody else first.
	foreign bool
}

func newKeyProving(d driver.Driver, keys map[string][]string) *keyProving {
	return &keyProving{Driver: d, keys: keys, shown: map[string][]string{}, by: map[string]driver.HostCertificates{}}
}

type keyProvingMachine struct {
	driver.Machine
	p    *keyProving
	mu   sync.Mutex
	last driver.HostCertificates
}

func (p *keyProving) Open(ctx context.Context, e site.Endpoint, s secret.Value) (driver.Machine, error) {
	m, err := p.Driver.Open(ctx, e, s)
	return &keyProvingMachine{Machine: m, p: p}, err
}

func (m *keyProvingMachine) Unwrap() any { return m.Machine }

func (m *keyProvingMachine) CertifyHost(by driver.HostCertificates) {
	m.mu.Lock()
	m.last = by
	m.mu.Unlock()
	m.p.mu.Lock()
	defer m.p.mu.Unlock()
	m.p.by[by.Node] = by
}

func (m *keyProvingMachine) now() driver.HostCertificates {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

const certificatesField = item.KindSSHHost + ".certificates"

func (m *keyProvingMachine) Observe(ctx context.Context, n *site.Node, facets []site.Facet) (site.Observed, error) {
	seen, err := m.Machine.Observe(ctx, n, facets)
	s, looked := seen.Facets[site.FacetBase]
	by := m.now()
	if err != nil || !looked || len(n.References.HostNames) == 0 {
		return seen, err
	}
	if s.Have == nil {
		s.Have = site.Values{}
	}
	seen.Login = &site.Login{By: site.ByCertificate, Account: "root", Host: m.p.proving()}
	keys, shown := m.p.of(n.Name)
	seen.Login = &site.Login{By: site.ByKey, Account: "root", Host: site.ByKey}
	if !m.p.isForeign() && slices.ContainsFunc(shown, func(line string) bool { return slices.Contains(by.Serials, serialOf(line)) }) {
		seen.Login.Host = site.ByCertificate
	}
	switch {
	case by.Valid == nil:
		s.Cannot = site.Values{certificatesField: by.Why}
	default:
		signed, err := by.Valid(keys)
		switch {
		case err != nil:
			s.Cannot = site.Values{certificatesField: err.Error()}
		case signed.Why == "" && slices.Equal(signed.Certificates, shown):
			s.Have[certificatesField] = item.List(n.References.HostNames)
		case len(shown) > 0 && !slices.ContainsFunc(shown, func(line string) bool { return !slices.Contains(slices.Concat(signed.Given...), line) }):
			s.Have[certificatesField], s.Due = signed.Why+"…", []string{certificatesField}
		default:
			s.Have[certificatesField] = signed.Why + "…"
		}
	}
	seen.Facets[site.FacetBase] = s
	return seen, nil
}

func (m *keyProvingMachine) Apply(ctx context.Context, s site.Step, n *site.Node, may driver.Permit) error {
	if slices.ContainsFunc(s.Changes, func(c site.Change) bool { return c.Field == "base."+certificatesField }) {
		keys, _ := m.p.of(n.Name)
		certificates, err := m.now().Sign(ctx, keys)
		if err != nil {
			return err
		}
		m.p.show(n.Name, certificates)
	}
	return m.Machine.Apply(ctx, s, n, may)
}

func (p *keyProving) of(node string) (keys, shown []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys[node], p.shown[node]
}

func (p *keyProving) prove(node string, keys ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys[node] = keys
}

func (p *keyProving) proving() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.proves
}

func (p *keyProving) show(node string, certificates []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.shown[node], certificates) {
		p.signed++
	}
	p.shown[node] = certificates
}

func (p *keyProving) showForeign() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.foreign = true
}

func (p *keyProving) isForeign() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.foreign
}

func (p *keyProving) counts(node string) driver.HostCertificates {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.by[node]
}

const (
	hostKeyA = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
	hostKeyC = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
	hostKeyB = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
)

func (w *world) hostAuthority(epoch int) string {
	w.t.Helper()
	a, err := sshca.Hosts(w.key(), "test", epoch)
	if err != nil {
		w.t.Fatal(err)
	}
	return a.Public()
}

// withHostCertificates is a design that has host keys signed.
func (w *world) withHostCertificates(epoch int, authorities []string, names ...string) *site.Site {
	d := w.design(names...)
	users, err := sshca.Users(w.key(), "test", max(epoch, 1))
	if err != nil {
		w.t.Fatal(err)
	}
	d.SSH = site.SSHAuthorities{Users: []string{users.Public()}, Hosts: authorities, Epoch: epoch}
	d.Rollout.FirstContact, d.Rollout.PollEvery, d.Rollout.ObserveEvery = "repair", site.Duration(time.Minute), site.Duration(10*time.Minute)
	for _, name := range names {
		w.fleet.Machine(name).SetDisk(&site.Marker{})
		n := d.Nodes[name]
		n.System.SSH.Accounts, n.References.Authorities = []string{"root"}, d.SSH.Users
		n.References.HostNames = d.ReferencesOf(n).HostNames
		ep := n.Endpoints[site.OS]
		ep.Trust.HostKeys = []string{somebodysKey}
		n.Endpoints[site.OS] = ep
	}
	return d
}

// certificate reads the certificate that a node shows.
func (p *keyProving) certificate(t *testing.T, node string) *gossh.Certificate {
	t.Helper()
	_, shown := p.of(node)
	if len(shown) != 1 {
		t.Fatalf("%s shows %q", node, shown)
	}
	key, _, _, _, err := gossh.ParseAuthorizedKey([]byte(shown[0]))
	cert, is := key.(*gossh.Certificate)
	if err != nil || !is {
		t.Fatalf("%s shows %q: %v", node, shown, err)
	}
	return cert
}

// serialOf is the serial number of a certificate; 0 where there is none.
func serialOf(line string) uint64 {
	key, _, _, _, err := gossh.ParseAuthorizedKey([]byte(line))
	if cert, is := key.(*gossh.Certificate); err == nil && is {
		return cert.Serial
	}
	return 0
}

// The list of host certificates that do not count has ssh refuse a system that shows another one, although its key is
// known. So people get it only where the daemon saw the right one last, or nothing else could prove the system.
func TestPeopleGoByHostCertificatesThatWereSeen(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		systems := newKeyProving(w.fleet.OSDriver(), map[string][]string{"a": {hostKeyA}})
		w.systems = systems
		authorities := []string{w.hostAuthority(1)}
		grant := func() site.SSHGrant {
			t.Helper()
			g, err := w.engine.CertifyLogin(w.t.Context(), site.SSHRequest{Node: "a", Key: somebodysKey, Life: site.Duration(time.Minute), By: "ana"})
			if err != nil {
				t.Fatal(err)
			}
			return g
		}
		byKey := func(g site.SSHGrant) bool {
			return slices.Equal(g.HostKeys, []string{somebodysKey}) && len(g.HostAuthorities)+len(g.RevokedHostKeys) == 0
		}
		w.commit(w.withHostCertificates(0, authorities, "a"))
		w.up()
		w.after(20 * time.Minute)
		if g := grant(); !slices.Equal(g.HostAuthorities, authorities) || len(g.RevokedHostKeys) == 0 {
			t.Errorf("after a login by certificate people get %+v", g)
		}
		systems.showForeign()
		w.after(20 * time.Minute)
		if g := grant(); !byKey(g) {
			t.Errorf("after a login by a known key people get %+v", g)
		}
		unpinned := w.withHostCertificates(0, authorities, "a")
		ep := unpinned.Nodes["a"].Endpoints[site.OS]
		ep.Trust.HostKeys = nil
		unpinned.Nodes["a"].Endpoints[site.OS] = ep
		w.commit(unpinned)
		w.after(5 * time.Minute)
		if g := grant(); !slices.Equal(g.HostAuthorities, authorities) || len(g.RevokedHostKeys) == 0 || len(g.HostKeys) > 0 {
			t.Errorf("without a known key people get %+v", g)
		}
	}, "a")
}

// Host keys are signed once, by the names of the design, and signed again at two thirds of their life.
func TestHostKeysAreCertified(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		systems := newKeyProving(w.fleet.OSDriver(), map[string][]string{"a": {hostKeyA}})
		w.systems = systems
		w.commit(w.withHostCertificates(0, []string{w.hostAuthority(1) + " fra"}, "a"))
		w.up()
		w.after(20 * time.Minute)
		w.want("a", site.InSync)
		first := systems.certificate(t, "a")
		if first.CertType != gossh.HostCert || first.ValidPrincipals[0] != "a" || systems.signed != 1 || time.Unix(int64(first.ValidBefore), 0).After(time.Now().Add(sshca.HostLife)) {
			t.Fatalf("signed %d times, the last is %+v", systems.signed, first)
		}
		w.after(time.Hour)
		by := systems.counts("a")
		if systems.signed != 1 || !slices.Equal(by.Serials, []uint64{first.Serial}) || by.Node != "a" || !slices.Equal(by.Authorities, []string{w.hostAuthority(1)}) {
			t.Errorf("signed %d times; what counts is %+v", systems.signed, by)
		}
		if again, err := by.Sign(w.t.Context(), []string{hostKeyA}); err != nil || !slices.Equal(again, systems.shown["a"]) { // as after a run that was cut off
			t.Errorf("asked again it signs %q, %v", again, err)
		}
		id := w.node("a").HostCertificates
		if id == nil || id.Names[0] != "a" || id.Until.Unix() != int64(first.ValidBefore) {
			t.Errorf("the status has %+v", id)
		}
		g, err := w.engine.CertifyLogin(w.t.Context(), site.SSHRequest{Node: "a", Key: somebodysKey, Life: site.Duration(time.Minute), By: "ana"})
		want, _ := item.HostKRL(by.Authorities, by.Serials)
		if err != nil || !slices.Equal(g.HostAuthorities, by.Authorities) || string(g.RevokedHostKeys) != string(want) {
			t.Errorf("people get %+v, %v", g, err)
		}
		w.down() // nothing is signed again after a restart
		w.up()
		w.after(time.Hour)
		if systems.signed != 1 {
			t.Errorf("signed %d times", systems.signed)
		}
		w.down()
		w.after(sshca.HostLife*2/3 - time.Hour)
		w.up()
		w.after(2 * time.Hour)
		second := systems.certificate(t, "a")
		if by := systems.counts("a"); systems.signed != 2 || second.Serial == first.Serial || !slices.Equal(by.Serials, []uint64{first.Serial, second.Serial}) {
			t.Errorf("signed %d times; what counts is %+v", systems.signed, by.Serials)
		}
		w.want("a", site.InSync)
	}, "a")
}

// Neither the drift policy nor a window keeps a certificate from its renewal.
func TestRenewalsAreNotHeld(t *testing.T) {
	for _, policy := range []string{"report", "propose", "repair", ""} {
		t.Run("drift "+policy, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				systems := newKeyProving(w.fleet.OSDriver(), map[string][]string{"a": {hostKeyA}})
				w.systems = systems
				d := w.withHostCertificates(0, []string{w.hostAuthority(1)}, "a")
				d.Windows = map[string]*site.Window{"new year": {Cron: "0 0 1 1 *", Length: site.Duration(time.Hour)}}
				d.Nodes["a"].Windows, d.Nodes["a"].Window = site.Windows{Online: "new year"}, "new year"
				d.Nodes["a"].Drift = map[site.Facet]string{site.FacetBase: policy}
				w.commit(d)
				w.up()
				w.after(20 * time.Minute) // it is new year
				w.want("a", site.InSync)
				w.down()
				w.after(sshca.HostLife*2/3 - time.Hour)
				w.up()
				w.after(2 * time.Hour)
				w.want("a", site.InSync)
				if systems.signed != 2 {
					t.Errorf("signed %d times", systems.signed)
				}
			}, "a")
		})
	}
}

// While a renewal is held, the system still proves itself by the certificate that it shows, until that is over.
func TestIdentityOutlastsAHeldRenewal(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		systems := newKeyProving(w.fleet.OSDriver(), map[string][]string{"a": {hostKeyA}})
		systems.proves = site.ByCertificate
		w.systems = systems
		w.commit(w.withHostCertificates(0, []string{w.hostAuthority(1)}, "a"))
		w.up()
		w.after(20 * time.Minute)
		first := systems.certificate(t, "a")
		w.do(site.Order{Verb: site.VerbPause, Node: "a", Reason: "lunch"})
		w.down()
		w.after(sshca.HostLife*2/3 + time.Hour)
		w.up()
		w.after(time.Hour)
		if id := w.node("a").HostCertificates; id == nil || id.Names[0] != "a" || id.Until.Unix() != int64(first.ValidBefore) || systems.signed != 1 {
			t.Errorf("when it is due the status has %+v; signed %d times", id, systems.signed)
		}
		w.down()
		w.after(sshca.HostLife / 3)
		w.up()
		w.after(time.Hour)
		if id := w.node("a").HostCertificates; id != nil {
			t.Errorf("when it is over the status has %+v", id)
		}
	}, "a")
}

// A quarantine revokes the certificate for good; the node gets another one after it.
func TestQuarantineRevokesHostCertificates(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		systems := newKeyProving(w.fleet.OSDriver(), map[string][]string{"a": {hostKeyA}})
		w.systems = systems
		w.commit(w.withHostCertificates(0, []string{w.hostAuthority(1)}, "a"))
		w.up()
		w.after(20 * time.Minute)
		first, by := systems.certificate(t, "a"), systems.counts("a")
		w.do(site.Order{Verb: site.VerbQuarantine, Node: "a", By: "ana", Reason: "odd"})
		if lines, err := by.Sign(w.t.Context(), []string{hostKeyA}); err == nil || !errors.Is(err, driver.ErrRefused) || len(lines) > 0 {
			t.Errorf("signed under quarantine: %q, %v", lines, err)
		}
		w.do(site.Order{Verb: site.VerbRelease, Node: "a", By: "ana"})
		w.after(time.Hour)
		second, by := systems.certificate(t, "a"), systems.counts("a")
		if second.Serial == first.Serial || slices.Contains(by.Serials, first.Serial) || !slices.Contains(by.Serials, second.Serial) {
			t.Errorf("first %d, then %d; what counts is %v", first.Serial, second.Serial, by.Serials)
		}
		w.commit(w.withHostCertificates(0, []string{w.hostAuthority(1)}, "b")) // a leaves
		w.after(time.Hour)
		w.commit(w.withHostCertificates(0, []string{w.hostAuthority(1)}, "a", "b"))
		w.after(time.Hour)
		if third, by := systems.certificate(t, "a"), systems.counts("a"); third.Serial == second.Serial || slices.Contains(by.Serials, second.Serial) {
			t.Errorf("after it came back %d counts still: %v", second.Serial, by.Serials)
		}
	}, "a", "b")
}

// The authorities are exchanged with an overlap, in which both count, and a design with others signs nothing.
func TestHostAuthoritiesAreExchanged(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		systems := newKeyProving(w.fleet.OSDriver(), map[string][]string{"a": {hostKeyA}})
		w.systems = systems
		old, next := w.hostAuthority(1), w.hostAuthority(2)
		w.commit(w.withHostCertificates(1, []string{old}, "a"))
		w.up()
		w.after(20 * time.Minute)
		first := systems.certificate(t, "a")
		w.commit(w.withHostCertificates(1, []string{old, next}, "a"))
		w.after(time.Hour)
		if systems.signed != 1 {
			t.Errorf("signed %d times before the epoch", systems.signed)
		}
		w.commit(w.withHostCertificates(2, []string{old, next}, "a"))
		w.after(2 * time.Minute) // the design is in force, and the next look of itself is minutes away
		w.want("a", site.InSync)
		second, by := systems.certificate(t, "a"), systems.counts("a")
		if item.Fingerprint(next) != gossh.FingerprintSHA256(second.SignatureKey) || !slices.Equal(by.Serials, []uint64{first.Serial, second.Serial}) {
			t.Errorf("signed by %s; what counts is %v", gossh.FingerprintSHA256(second.SignatureKey), by.Serials)
		}
		w.commit(w.withHostCertificates(2, []string{next}, "a"))
		w.after(time.Hour)
		if by := systems.counts("a"); systems.signed != 2 || !slices.Equal(by.Serials, []uint64{second.Serial}) {
			t.Errorf("signed %d times; what counts is %v", systems.signed, by.Serials)
		}
		w.want("a", site.InSync)
		w.commit(w.withHostCertificates(2, []string{old}, "a"))
		w.after(time.Hour)
		notes := strings.Join(w.engine.Report().Status.Notes, "\n")
		if by := systems.counts("a"); by.Sign != nil || !strings.Contains(by.Why, "other SSH authorities for hosts than this daemon's") || !strings.Contains(notes, by.Why) {
			t.Errorf("the reason is %q, the notes are %q", by.Why, notes)
		}
	}, "a")
}

// A certificate counts no longer once its host key was replaced on the system, and all present keys are certified.
func TestCertificatesOfReplacedHostKeysEnd(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		systems := newKeyProving(w.fleet.OSDriver(), map[string][]string{"a": {hostKeyA}})
		w.systems = systems
		w.commit(w.withHostCertificates(0, []string{w.hostAuthority(1)}, "a"))
		w.up()
		w.after(20 * time.Minute)
		first := systems.certificate(t, "a")
		systems.prove("a", hostKeyA, hostKeyB)
		w.after(time.Hour)
		if by := systems.counts("a"); len(by.Serials) != 2 || by.Serials[0] != first.Serial {
			t.Errorf("with another key %v counts", by.Serials)
		}
		systems.prove("a", hostKeyB) // what was signed for it is there already
		w.after(time.Hour)
		second := systems.certificate(t, "a")
		if by := systems.counts("a"); !slices.Equal(by.Serials, []uint64{second.Serial}) || second.Serial == first.Serial {
			t.Errorf("the first is %d, the second %d; what counts is %v", first.Serial, second.Serial, by.Serials)
		}
	}, "a")
}

// A clock that is far behind the newest certificate makes none over, and signs none.
func TestClockBehindSignsNothing(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		systems := newKeyProving(w.fleet.OSDriver(), map[string][]string{"a": {hostKeyA}})
		w.systems = systems
		w.commit(w.withHostCertificates(0, []string{w.hostAuthority(1)}, "a"))
		w.up()
		w.after(20 * time.Minute)
		first := systems.certificate(t, "a")
		w.down()
		w.whileDown(func(records *record.Site) error {
			snap, err := records.Load(w.t.Context())
			r := snap.Nodes["a"].Recorded
			r.HostCertificates[0].Since = time.Now().Add(25 * time.Hour)
			r.HostCertificates[0].Until = r.HostCertificates[0].Since.Add(sshca.HostLife)
			return errors.Join(err, records.PutNode(w.t.Context(), "a", r))
		})
		w.up()
		w.after(30 * time.Minute)
		by := systems.counts("a")
		for _, key := range []string{hostKeyA, hostKeyB} {
			_, why := by.Valid([]string{key})
			lines, err := by.Sign(w.t.Context(), []string{key})
			if why == nil || !strings.Contains(why.Error(), "the clock of this daemon is behind: it shows 2000-01-01, and a host certificate of a is of 2000-01-02") ||
				!errors.Is(err, driver.ErrRefused) || len(lines) > 0 {
				t.Errorf("%s: it signs %q, %v; what is valid: %v", key, lines, err, why)
			}
		}
		if by := systems.counts("a"); systems.signed != 1 || !slices.Equal(by.Serials, []uint64{first.Serial}) {
			t.Errorf("signed %d times; what counts is %v", systems.signed, by.Serials)
		}
		w.after(2 * time.Hour) // now its clock may be right
		w.want("a", site.InSync)
		if systems.signed != 1 {
			t.Errorf("signed %d times", systems.signed)
		}
	}, "a")
}

// Where two nodes are signed one host key at the same time, neither keeps the certificate, unless one was through before
// the other one began.
func TestHostKeyOfTwoNodesAtOnce(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		systems := newKeyProving(w.fleet.OSDriver(), map[string][]string{"a": {hostKeyA}, "b": {hostKeyB}})
		w.systems = systems
		w.commit(w.withHostCertificates(0, []string{w.hostAuthority(1)}, "a", "b"))
		w.up()
		w.after(time.Hour)
		systems.certificate(t, "a")
		systems.certificate(t, "b")
		var both sync.WaitGroup
		var refused atomic.Int32
		for _, name := range []string{"a", "b"} {
			sign := systems.counts(name).Sign
			both.Go(func() {
				lines, err := sign(w.t.Context(), []string{hostKeyC})
				if errors.Is(err, driver.ErrRefused) && len(lines) == 0 {
					refused.Add(1)
				}
			})
		}
		both.Wait()
		if refused.Load() == 0 { // one may be through before the other one has recorded its own
			t.Error("both got one")
		}
		var kept []string
		for _, name := range []string{"a", "b"} {
			for _, c := range w.recorded(name).HostCertificates {
				if c.Key == hostKeyC {
					kept = append(kept, name)
				}
			}
		}
		if len(kept)+int(refused.Load()) > 2 {
			t.Errorf("%d were refused, and the records of %v have one for the key of both", refused.Load(), kept)
		}
	}, "a", "b")
}

// A node gets no certificate for the host key of another one, whichever was first.
func TestHostKeyOfAnotherNode(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		systems := newKeyProving(w.fleet.OSDriver(), map[string][]string{"a": {hostKeyA}, "b": {hostKeyA}, "c": {hostKeyB}})
		w.systems = systems
		w.commit(w.withHostCertificates(0, []string{w.hostAuthority(1)}, "a", "b", "c"))
		w.up()
		w.after(time.Hour)
		_, a := systems.of("a")
		_, isOfB := systems.of("b")
		if len(systems.shown["a"])+len(isOfB) > 1 {
			t.Errorf("both got one: %q, %q", a, isOfB)
		}
		for _, name := range []string{"a", "b"} {
			if by := systems.counts(name); by.Valid != nil {
				if _, err := by.Valid([]string{hostKeyB}); err == nil || !strings.Contains(err.Error(), "the systems of "+name+" and c have the same SSH host key, SHA256:") {
					t.Errorf("%s with the key of c: %v", name, err)
				}
				if lines, err := by.Sign(w.t.Context(), []string{hostKeyB}); err == nil || len(lines) > 0 {
					t.Errorf("%s got a certificate for the key of c: %q", name, lines)
				}
			}
		}
		systems.certificate(t, "c")
	}, "a", "b", "c")
}
