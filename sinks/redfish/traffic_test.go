package redfish

import (
	"compress/gzip"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A BMC has one write and two reads at a time, however many ask.
func TestOneWriterTwoReaders(t *testing.T) {
	b := newBMC(t)
	var reads, writes, mostReads, mostWrites atomic.Int32
	busy := func(now, most *atomic.Int32) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			n := now.Add(1)
			for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
			}
			io.Copy(io.Discard, r.Body)
			text(healthySystem)(w, r)
			now.Add(-1)
		}
	}
	m := open(t, b.endpoint())
	mayWrite(t, m)
	b.answer("GET /redfish/v1/Systems/1", busy(&reads, &mostReads))
	b.answer("PATCH /redfish/v1/Systems/1", busy(&writes, &mostWrites))
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			if _, err := m.client.get(t.Context(), "/redfish/v1/Systems/1"); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			if err := m.client.patch(t.Context(), "/redfish/v1/Systems/1", nil, struct{}{}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if mostReads.Load() > maxReads || mostWrites.Load() != 1 {
		t.Errorf("%d reads and %d writes at a time", mostReads.Load(), mostWrites.Load())
	}
}

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("no route")
		b := breaker{rest: 2 * time.Second}
		b.note(down)
		if err := b.allow(); err != nil {
			t.Errorf("after one failure: %v", err)
		}
		b.note(down)
		if err := b.allow(); !errors.Is(err, down) || !errors.Is(err, driver.ErrNotAsked) || err.Error() != down.Error() {
			t.Errorf("after two failures: %v", err)
		}
		time.Sleep(2*time.Second + 1)
		if err := b.allow(); err != nil {
			t.Errorf("the probe after the rest: %v", err)
		}
		if err := b.allow(); !errors.Is(err, down) {
			t.Errorf("beside the probe: %v", err)
		}
		b.note(nil)
		for range 3 {
			if err := b.allow(); err != nil {
				t.Errorf("after an answer: %v", err)
			}
		}
	})
}

// A look at a BMC that hangs waits for its timeout twice at most, and one that
// answers again is seen at the next look.
func TestBreakerHidesNoRecovery(t *testing.T) {
	b := newBMC(t)
	m := open(t, b.endpoint())
	m.client.http.Transport.(*wire).breaker.rest = 0
	b.answer("GET /redfish/v1/", hangUp)
	for range 5 {
		if _, err := look(m, nil); !errors.Is(err, driver.ErrUnreachable) {
			t.Fatalf("got %v", err)
		}
	}
	b.answer("GET /redfish/v1/", text(`{}`))
	if _, err := look(m, nil); err != nil {
		t.Error(err)
	}
	b.answer("GET /redfish/v1/Systems/1", hangUp)
	m.client.http.Transport.(*wire).breaker.rest = time.Hour
	b.took()
	for range 5 {
		if _, err := look(m, nil); !errors.Is(err, driver.ErrUnreachable) {
			t.Fatalf("got %v", err)
		}
	}
	if n := b.count("GET /redfish/v1/Systems/1"); n > 2*breakAfter { // the transport itself tries a used connection again
		t.Errorf("it was asked %d times", n)
	}
}

// A BMC that answers with errors is there: each request is sent.
func TestBreakerLetsErrorsThrough(t *testing.T) {
	b := newBMC(t)
	m := open(t, b.endpoint())
	b.answer("GET /redfish/v1/Systems/1", status(503, ""))
	for range 4 {
		look(m, nil)
	}
	if n := b.count("GET /redfish/v1/Systems/1"); n != 4 {
		t.Errorf("it was asked %d times", n)
	}
}

func TestQuirkCompressedOnly(t *testing.T) {
	b := newBMC(t)
	b.answer("GET /redfish/v1/Systems/1", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") == "identity" {
			status(http.StatusNotAcceptable, "")(w, r)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		io.WriteString(z, healthySystem)
		z.Close()
	})
	m := open(t, b.endpoint())
	if seen, err := look(m, nil); err != nil || seen.Identity.UUID != uuid {
		t.Errorf("got %v, %v", seen, err)
	}
	for name, answer := range map[string]func(io.Writer){
		"endless": func(w io.Writer) {
			z := gzip.NewWriter(w)
			io.WriteString(z, `{"x":"`+strings.Repeat("a", maxBody)+`"}`)
			z.Close()
		},
		"not compressed": func(w io.Writer) { io.WriteString(w, healthySystem) },
	} {
		b.answer("GET /redfish/v1/Systems/1", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			answer(w)
		})
		if _, err := look(m, nil); !errors.Is(err, driver.ErrRefused) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestQuirkSlashes(t *testing.T) {
	b := newBMC(t)
	e := b.endpoint()
	e.URL = strings.TrimSuffix(e.URL, "/Systems/1")
	b.answer("GET /redfish/v1/Systems", text(`{"Members":[{"@odata.id":"/redfish/v1/Systems/1/"}]}`))
	if seen, err := look(open(t, e), nil); err != nil || seen.Identity.UUID != uuid {
		t.Errorf("a link with a slash: got %v, %v", seen, err)
	}
	b.answer("GET /redfish/v1/", http.NotFound)
	b.answer("GET /redfish/v1", text(`{"Links":{"Sessions":{"@odata.id":"/redfish/v1/SessionService/Sessions"}}}`))
	if _, err := look(open(t, b.endpoint()), nil); err != nil {
		t.Errorf("a service root without one: got %v", err)
	}
	b.answer("GET /redfish/v1/Systems/1", http.RedirectHandler("/redfish/v1/Systems/1/", http.StatusPermanentRedirect).ServeHTTP)
	b.answer("GET /redfish/v1/Systems/1/", text(healthySystem))
	if seen, err := look(open(t, b.endpoint()), nil); err != nil || seen.Identity.UUID != uuid {
		t.Errorf("a redirect: got %v, %v", seen, err)
	}
}

// A write that is led to the same path with a slash is sent there; to anywhere
// else it is not.
func TestQuirkRedirectedWrites(t *testing.T) {
	const there = "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset/"
	for name, c := range map[string]struct {
		to    string
		sent  int
		power string
	}{
		"slash":        {there, 1, "On"},
		"another path": {"/redfish/v1/Systems/2/Actions/ComputerSystem.Reset", 0, "Off"},
		"another host": {"https://192.0.2.1" + there, 0, "Off"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlug(t, "Off")
			p.answer("POST "+there, p.answers[resetRequest])
			p.answer(resetRequest, http.RedirectHandler(c.to, http.StatusPermanentRedirect).ServeHTTP)
			if err := p.take(t, site.ActionPowerOn); (err == nil) != (c.sent == 1) {
				t.Errorf("got %v", err)
			}
			if n := p.count("POST " + there); n != c.sent || p.power != c.power {
				t.Errorf("it was sent %d times, and the machine is %s", n, p.power)
			}
		})
	}
}

// The session that a BMC would not know for a moment does not stay behind.
func TestForgottenSessionIsEnded(t *testing.T) {
	b := newBMC(t)
	m := open(t, b.endpoint())
	if _, err := look(m, nil); err != nil {
		t.Fatal(err)
	}
	b.answer("POST /redfish/v1/SessionService/Sessions", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Auth-Token", "other")
		w.Header().Set("Location", "/redfish/v1/SessionService/Sessions/8")
		w.WriteHeader(http.StatusCreated)
	})
	b.answer("GET /redfish/v1/Systems/1", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Auth-Token") != "other" {
			status(401, "")(w, r)
			return
		}
		text(healthySystem)(w, r)
	})
	b.answer("GET /redfish/v1/SessionService/Sessions/7", text(`{"UserName":"admin"}`))
	if _, err := look(m, nil); err != nil {
		t.Fatal(err)
	}
	if n := b.count("DELETE /redfish/v1/SessionService/Sessions/7"); n != 1 {
		t.Errorf("the old session was deleted %d times", n)
	}
}

// Accounts are locked after a few logins that come to nothing.
func TestQuirkLockout(t *testing.T) {
	b := newBMC(t)
	m := open(t, b.endpoint())
	if _, err := look(m, nil); err != nil {
		t.Fatal(err)
	}
	b.took()
	b.answer("GET /redfish/v1/Systems/1", status(401, ""))
	b.answer("GET /redfish/v1/SessionService/Sessions/7", status(401, ""))
	if _, err := look(m, nil); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("got %v", err)
	}
	if n := b.count("POST /redfish/v1/SessionService/Sessions"); n != 1 {
		t.Errorf("logged in %d times more", n)
	}
	b.answer("POST /redfish/v1/SessionService/Sessions", status(401, ""))
	b.took()
	look(m, nil)
	if n := b.count("POST /redfish/v1/SessionService/Sessions"); n != 1 {
		t.Errorf("with a wrong password: logged in %d times", n)
	}
}

// What a BMC shows first is trusted, and nothing else from then on: not by the
// handle, nor by the next one, which is told of it.
func TestTrustOnFirstUse(t *testing.T) {
	b := newBMC(t)
	e := b.endpoint()
	e.Trust = site.Trust{FirstUse: true}
	m := open(t, e)
	if m.Certificate() != "" {
		t.Errorf("a certificate before the first use: %s", m.Certificate())
	}
	for range 2 {
		if _, err := look(m, nil); err != nil {
			t.Fatal(err)
		}
		m.client.http.CloseIdleConnections()
	}
	first := m.Certificate()
	if first != sum(b.Certificate()) {
		t.Errorf("trusts %q, want %q", first, sum(b.Certificate()))
	}
	other := certificate(t, time.Now().Add(time.Hour))
	b.TLS.Certificates = []tls.Certificate{other}
	next := open(t, site.Endpoint{URL: e.URL, Trust: site.Trust{FirstUse: true, Fingerprint: first}})
	b.took()
	if _, err := look(next, nil); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), sum(other.Leaf)) || !strings.Contains(err.Error(), first) {
		t.Errorf("with another certificate: got %v", err)
	}
	if asked := b.took(); len(asked) > 0 || m.Certificate() != first || next.Certificate() != "" {
		t.Errorf("after another certificate: sent %v, trusts %q and %q", asked, m.Certificate(), next.Certificate())
	}
	if err := m.client.shown.verify("bmc", other.Leaf); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("the handle itself takes another certificate: %v", err)
	}
	old := certificate(t, time.Now().Add(-time.Hour))
	b.TLS.Certificates = []tls.Certificate{old}
	if _, err := look(open(t, e), nil); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("an expired certificate at first use: got %v", err)
	}
}
