package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sshca"
)

// certifying is a driver of systems that keep what they were to log in with.
type certifying struct {
	driver.Driver
	mu    sync.Mutex
	by    driver.Certificates
	opens []string // the accounts
}

type certifyingMachine struct {
	driver.Machine
	c *certifying
}

func (c *certifying) Open(ctx context.Context, e site.Endpoint, s secret.Value) (driver.Machine, error) {
	m, err := c.Driver.Open(ctx, e, s)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opens = append(c.opens, s.Username())
	return &certifyingMachine{m, c}, err
}

func (m *certifyingMachine) Unwrap() any { return m.Machine }

func (m *certifyingMachine) Certify(by driver.Certificates) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	m.c.by = by
}

func (c *certifying) last() driver.Certificates {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.by
}

const somebodysKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g"

// withCertificates is a design that lets certificates in.
func (w *world) withCertificates(authority string, accounts ...string) *site.Site {
	w.fleet.Machine("a").SetDisk(&site.Marker{})
	d := w.design("a")
	d.SSH.Users, d.Rollout.FirstContact = []string{authority}, "repair"
	n := d.Nodes["a"]
	n.System.SSH.Accounts, n.References.Authorities = accounts, d.SSH.Users
	ep := n.Endpoints[site.OS]
	ep.Trust.HostKeys = []string{somebodysKey}
	n.Endpoints[site.OS] = ep
	return d
}

func (w *world) authority() string {
	w.t.Helper()
	a, err := sshca.Users(w.key(), "test", 1)
	if err != nil {
		w.t.Fatal(err)
	}
	return a.Public()
}

// The daemon logs in by certificate to the account that the design names, and says why not.
func TestDaemonLogsInByCertificate(t *testing.T) {
	for name, c := range map[string]struct {
		accounts []string
		foreign  bool // the design names another authority
		why      string
		signs    bool
	}{
		"as designed":       {[]string{"root", "admin"}, false, "", true},
		"another account":   {[]string{"root"}, false, "the account admin of the credential is not in system.ssh.accounts", false},
		"another authority": {[]string{"admin"}, true, "the design names other SSH authorities than this daemon's", false},
		"nobody":            {nil, false, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				systems := &certifying{Driver: w.fleet.OSDriver()}
				w.systems = systems
				authority := w.authority()
				if c.foreign {
					authority = somebodysKey
				}
				w.commit(w.withCertificates(authority, c.accounts...))
				w.up()
				w.after(20 * time.Minute)
				w.want("a", site.InSync)
				by := systems.last()
				if (by.Sign != nil) != c.signs || by.Last || !strings.Contains(by.Why, c.why) || (c.why == "") != (by.Why == "") {
					t.Fatalf("got %+v", by)
				}
				notes := strings.Join(w.engine.Report().Status.Notes, "\n")
				if strings.Contains(notes, "Slipway signs no SSH certificates") != c.foreign {
					t.Errorf("the notes are %q", notes)
				}
				if by.Sign == nil {
					return
				}
				if line, err := by.Sign(somebodysKey, "admin"); err != nil || !strings.HasPrefix(line, "ssh-ed25519-cert-v01@openssh.com ") {
					t.Errorf("got %q, %v", line, err)
				}
				w.commit(w.design("a")) // the settings are removed, and then no certificate is shown
				w.after(20 * time.Minute)
				if by := systems.last(); by.Sign != nil || by.Why != "" {
					t.Errorf("got %+v", by)
				}
			}, "a")
		})
	}
}

// Without the file of the credential nothing logs in: a certificate adds a way in, and never is
// the only one, since a change of the design could take it away from every node at once.
func TestCertificatesDoNotReplaceTheCredential(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		systems := &certifying{Driver: w.fleet.OSDriver()}
		w.systems = systems
		w.secrets.missing = "ssh"
		w.commit(w.withCertificates(w.authority(), "root", "ops"))
		w.up()
		w.after(20 * time.Minute)
		if len(systems.opens) != 0 {
			t.Errorf("opened as %q", systems.opens)
		}
	}, "a")
}

// A person gets a certificate for what the design says, and the history keeps it.
func TestCertifyLogin(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.commit(w.withCertificates(w.authority(), "root", "ops"))
		w.up()
		w.after(20 * time.Minute)
		ask := site.SSHRequest{Node: "a", Key: somebodysKey, Life: site.Duration(5 * time.Minute), By: "ana"}
		g, err := w.engine.CertifyLogin(w.t.Context(), ask)
		if err != nil || g.Account != "root" || g.Principal != "slipway:a:root" || len(g.HostKeys) != 1 || g.Host == "" || g.Port == 0 || g.Until.After(time.Now().Add(5*time.Minute)) {
			t.Fatalf("got %+v, %v", g, err)
		}
		events, err := w.engine.History(w.t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("SSH certificate %d for slipway:a:root, valid until ", g.Serial)
		if e := events[len(events)-1]; e.By != "ana" || e.Kind != site.EventOrder || !strings.HasPrefix(e.Text, want) {
			t.Errorf("the history ends with %+v", e)
		}
		for name, c := range map[string]struct {
			change func(r *site.SSHRequest)
			is     error
			says   string
		}{
			"unknown node":    {func(r *site.SSHRequest) { r.Node = "z" }, site.ErrNotFound, `no node "z"`},
			"another account": {func(r *site.SSHRequest) { r.Account = "mysql" }, site.ErrRefused, "root, ops. Add mysql to"},
			"a day":           {func(r *site.SSHRequest) { r.Life = site.Duration(24 * time.Hour) }, site.ErrRefused, "at most 1h0m0s"},
			"for ever":        {func(r *site.SSHRequest) { r.Life = 0 }, site.ErrRefused, "at most 1h0m0s"},
			"no key":          {func(r *site.SSHRequest) { r.Key = "x" }, site.ErrRefused, "ssh-ed25519 AAAA…"},
		} {
			r := ask
			c.change(&r)
			if g, err := w.engine.CertifyLogin(w.t.Context(), r); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) || g.Certificate != "" {
				t.Errorf("%s: got %+v, %v", name, g, err)
			}
		}
		w.do(site.Order{Verb: site.VerbQuarantine, Node: "a", By: "ana", Reason: "odd"})
		if _, err := w.engine.CertifyLogin(w.t.Context(), ask); !errors.Is(err, site.ErrRefused) || !strings.Contains(err.Error(), "under quarantine: odd") {
			t.Errorf("got %v", err)
		}
		w.do(site.Order{Verb: site.VerbRelease, Node: "a", By: "ana"})
		odd := ask
		odd.Account = "x\x1b[2J" + strings.Repeat("y", 1000)
		if _, err := w.engine.CertifyLogin(w.t.Context(), odd); err == nil || strings.Contains(err.Error(), "\x1b") || len(err.Error()) > 300 {
			t.Errorf("got %v", err)
		}
		gone := w.withCertificates(w.authority(), "root", "ops")
		gone.SSH.Revoked = site.SSHRevoked{People: []string{"ana"}}
		w.commit(gone)
		w.after(20 * time.Minute)
		for _, by := range []string{"ana", "ana (certificate)", "ana (OIDC)", "token ana", "Ana (OIDC)"} {
			ask := ask
			ask.By = by
			if g, err := w.engine.CertifyLogin(w.t.Context(), ask); !errors.Is(err, site.ErrRefused) || !strings.Contains(err.Error(), "revokes the logins of "+by) || g.Certificate != "" {
				t.Errorf("%s: got %+v, %v", by, g, err)
			}
		}
		bob := ask
		bob.By = "bob"
		if _, err := w.engine.CertifyLogin(w.t.Context(), bob); err != nil {
			t.Errorf("somebody else: %v", err)
		}
		gone = w.withCertificates(w.authority(), "root", "ops")
		gone.SSH.Revoked = site.SSHRevoked{Keys: []string{somebodysKey}}
		w.commit(gone)
		w.after(20 * time.Minute)
		if _, err := w.engine.CertifyLogin(w.t.Context(), ask); !errors.Is(err, site.ErrRefused) || !strings.Contains(err.Error(), "revokes the key SHA256:") {
			t.Errorf("a revoked key: %v", err)
		}
		d := w.withCertificates(w.authority(), "root")
		ep := d.Nodes["a"].Endpoints[site.OS]
		ep.Trust = site.Trust{}
		d.Nodes["a"].Endpoints[site.OS] = ep
		w.commit(d)
		w.after(time.Minute)
		if _, err := w.engine.CertifyLogin(w.t.Context(), ask); !errors.Is(err, site.ErrRefused) || !strings.Contains(err.Error(), "knows no host key of a") {
			t.Errorf("got %v", err)
		}
	}, "a")
}

// A node that left the design lets nobody in by certificate: the design says who may.
func TestNoLoginToNodesThatLeft(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.commit(w.withCertificates(w.authority(), "root"))
		w.up()
		w.after(20 * time.Minute)
		w.commit(w.design("b"))
		w.after(time.Minute)
		g, err := w.engine.CertifyLogin(w.t.Context(), site.SSHRequest{Node: "a", Key: somebodysKey, Life: site.Duration(5 * time.Minute), By: "ana"})
		if !errors.Is(err, site.ErrRefused) || !strings.Contains(err.Error(), "no longer in the design") || g.Certificate != "" {
			t.Errorf("got %+v, %v", g, err)
		}
	}, "a", "b")
}

// onSigned is a log that does something when it is told that a certificate was signed.
type onSigned struct {
	slog.Handler
	do func()
}

func (*onSigned) Enabled(context.Context, slog.Level) bool { return true }

func (l *onSigned) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l *onSigned) Handle(ctx context.Context, r slog.Record) error {
	isSigned := false
	r.Attrs(func(a slog.Attr) bool {
		isSigned = isSigned || a.Key == "what" && strings.HasPrefix(a.Value.String(), "SSH certificate ")
		return true
	})
	if isSigned {
		l.do()
	}
	return nil
}

// A quarantine that comes while a certificate is being recorded keeps it from being given.
func TestQuarantineKeepsACertificateBack(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.log = slog.New(&onSigned{Handler: slog.DiscardHandler, do: func() {
			w.do(site.Order{Verb: site.VerbQuarantine, Node: "a", By: "ana", Reason: "odd"})
		}})
		w.commit(w.withCertificates(w.authority(), "root"))
		w.up()
		w.after(20 * time.Minute)
		g, err := w.engine.CertifyLogin(w.t.Context(), site.SSHRequest{Node: "a", Key: somebodysKey, Life: site.Duration(5 * time.Minute), By: "ana"})
		if !errors.Is(err, site.ErrRefused) || !strings.Contains(err.Error(), "under quarantine: odd") || g.Certificate != "" {
			t.Errorf("got %+v, %v", g, err)
		}
	}, "a")
}

// denying lets nobody in, and counts the looks.
type denying struct {
	certifying
	looks int
}

type denyingMachine struct {
	*certifyingMachine
	d *denying
}

func (d *denying) Open(ctx context.Context, e site.Endpoint, s secret.Value) (driver.Machine, error) {
	m, err := d.certifying.Open(ctx, e, s)
	return &denyingMachine{m.(*certifyingMachine), d}, err
}

func (m *denyingMachine) Observe(context.Context, *site.Node, []site.Facet) (site.Observed, error) {
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	m.d.looks++
	return site.Observed{}, fmt.Errorf("%w: it does not let admin in", driver.ErrDenied)
}

// A system that lets nobody in is tried again, for its clock may be set meanwhile, and not often:
// it may bar the address of the daemon.
func TestDeniedCertificatesAreShownAgain(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		systems := &denying{certifying: certifying{Driver: w.fleet.OSDriver()}}
		w.systems = systems
		w.commit(w.withCertificates(w.authority(), "admin"))
		w.up()
		w.after(time.Hour)
		systems.mu.Lock()
		defer systems.mu.Unlock()
		if systems.looks < 3 || systems.looks > 13 {
			t.Errorf("it was tried %d times in an hour", systems.looks)
		}
	}, "a")
}
