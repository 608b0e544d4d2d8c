package engine_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/site"
)

func (w *world) certificateStates(node string) map[string]int {
	count := map[string]int{}
	for _, c := range w.node(node).Certificates {
		count[c.State]++
	}
	return count
}

func (w *world) certificateProblem() string {
	for _, p := range w.engine.Report().Status.Problems {
		if p.About == "certificates" {
			return p.What
		}
	}
	return ""
}

// What was signed and does not arrive is not called valid: the status goes by what the system shows. It is signed
// again only after a while.
func TestLostTLSCertificateIsNotValid(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		systems := newKeyMaking(w.fleet.OSDriver())
		w.systems = systems
		w.commit(w.withTLS(0, []string{w.tlsAuthority(1).PEM()}, "a"))
		w.up()
		w.after(20 * time.Minute)
		first, _, _ := systems.state("a")
		systems.set(func() { systems.loses = true })
		w.sleep(tlsLife*2/3 + time.Hour)
		w.after(12 * time.Hour)
		_, given, last := systems.state("a")
		if given < 3 || given > 9 {
			t.Errorf("within half a day, and before, %d were signed", given)
		}
		if last == nil || !strings.Contains(last.Error(), "was not seen on the system since") {
			t.Errorf("the reason is %v", last)
		}
		if count := w.certificateStates("a"); count[site.TLSDue] != 1 || count[site.TLSUnseen] != given-1 || len(count) != 2 {
			t.Errorf("when it is due: %v", count)
		}
		w.sleep(tlsLife / 6)
		if count := w.certificateStates("a"); count[site.TLSLate] != 1 || !strings.Contains(w.certificateProblem(), "web of a until") {
			t.Errorf("when it is late: %v, %q", count, w.certificateProblem())
		}
		w.sleep(tlsLife / 3)
		count := w.certificateStates("a")
		if count[site.TLSOver] != 1 || count[site.TLSValid] > 0 || w.certificateProblem() == "" {
			t.Errorf("when it is over: %v, %q", count, w.certificateProblem())
		}
		if kept := w.recorded("a").TLS; !slices.ContainsFunc(kept, func(c site.TLSCertificate) bool { return c.Serial == tlsSerial(first) }) {
			t.Error("the record has not any more what the system shows")
		}
		systems.set(func() { systems.loses = false })
		w.after(24 * time.Hour)
		if count := w.certificateStates("a"); count[site.TLSValid] != 1 || w.certificateProblem() != "" {
			_, given, last := systems.state("a")
			t.Errorf("afterwards: %v, %q; given %d, last %v, %+v", count, w.certificateProblem(), given, last, w.node("a"))
		}
	}, "a")
}

// A system may show a certificate that is over, or revoked, until it gets the next one: that is a renewal, whatever the
// design asks for drift.
func TestTLSCertificateThatIsNoLongerGoodIsRenewed(t *testing.T) {
	for name, spoil := range map[string]func(w *world){
		"over": func(w *world) { w.after(tlsLife + time.Hour) },
		"revoked": func(w *world) {
			w.whileDown(func(records *record.Site) error {
				snap, err := records.Load(w.t.Context())
				r := snap.Nodes["a"].Recorded
				r.TLS = site.Revoked(r.TLS)
				return errors.Join(err, records.PutNode(w.t.Context(), "a", r))
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				systems := newKeyMaking(w.fleet.OSDriver())
				w.systems = systems
				d := w.withTLS(0, []string{w.tlsAuthority(1).PEM()}, "a")
				d.Nodes["a"].Drift = map[site.Facet]string{site.FacetConfig: "report"}
				w.commit(d)
				w.up()
				w.after(20 * time.Minute)
				w.down()
				spoil(w)
				w.up()
				w.after(20 * time.Minute)
				w.want("a", site.InSync)
				if _, given, _ := systems.state("a"); given != 2 || w.certificateStates("a")[site.TLSValid] != 1 {
					t.Errorf("given %d, the status has %v", given, w.certificateStates("a"))
				}
			}, "a")
		})
	}
}

// A system that proves itself by a host key of another node gets nothing, and none is signed for a key that has one.
func TestTLSCertificateForSomebodyElse(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		systems := newKeyMaking(w.fleet.OSDriver())
		w.systems = systems
		d := w.withTLS(0, []string{w.tlsAuthority(1).PEM()}, "a", "b")
		ep := d.Nodes["b"].Endpoints[site.OS]
		ep.Trust.HostKeys = []string{"ssh-ed25519 AAAA-of-b"}
		d.Nodes["b"].Endpoints[site.OS] = ep
		w.commit(d)
		w.up()
		w.after(20 * time.Minute)
		by := systems.signs("a")
		ask := func(request []byte, keys ...string) error {
			chain, err := by.Sign(w.t.Context(), driver.TLSRequest{Name: "web", Request: request, Clock: time.Now(), HostKeys: keys})
			if (chain == "") != (err != nil) {
				t.Errorf("%q with %v", chain, err)
			}
			return err
		}
		request := requestFor(systems)
		if err := ask(request, "ssh-ed25519 AAAA-of-b"); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "the same SSH host key") {
			t.Errorf("by the host key of b: %v", err)
		}
		if err := ask(request, "ssh-ed25519 AAAA-of-a"); err != nil {
			t.Error(err)
		}
		before := len(w.recorded("a").TLS)
		if err := ask(request, "ssh-ed25519 AAAA-of-a"); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "web of a already has") || len(w.recorded("a").TLS) != before {
			t.Errorf("the same key again: %v", err)
		}
		by = systems.signs("b")
		if err := ask(request, "ssh-ed25519 AAAA-of-b"); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "web of a already has") {
			t.Errorf("the key of a for b: %v", err)
		}
	}, "a", "b")
}

func (k *keyMaking) set(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
}
