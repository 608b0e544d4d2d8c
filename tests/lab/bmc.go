package lab

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"time"
)

// maxRequest is the largest body that a BMC reads.
const maxRequest = 64 << 10

// serveBMCs opens the one listener behind which all BMCs are.
func (f *Fleet) serveBMCs() error {
	l, port, err := f.listen(f.config.BMCPort)
	if err != nil {
		return fmt.Errorf("listen for BMCs: %w", err)
	}
	f.ports.bmc = port
	f.answer(l)
	return nil
}

// answer has all BMCs answer the connections of a listener.
func (f *Fleet) answer(l net.Listener) {
	srv := f.count(&http.Server{
		Handler:           http.HandlerFunc(f.request),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 15 * time.Second, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return f.ctx },
	})
	config := &tls.Config{GetConfigForClient: f.identify, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
	f.closers = append(f.closers, srv.Close)
	f.work.Go(func() { srv.Serve(tls.NewListener(redirecting{gate{l, f.bmcs, (*Machine).bmcLines}}, config)) })
}

// bmcLines takes connections unless the BMC refuses them.
func (m *Machine) bmcLines() *lines {
	m = m.answering()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fault.Kind == FaultRefuse || time.Now().Before(m.backAt) {
		return nil
	}
	return &m.bmcSide
}

// identify presents the certificate of the BMC that was connected to.
func (f *Fleet) identify(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	l := lineOf(hello.Conn)
	if l == nil {
		return nil, errors.New("no BMC here")
	}
	m := l.of.machine
	if fault := m.State().Fault; fault.Kind == FaultSlowTLS && !f.sleep(hello.Context(), time.Duration(fault.Delay)) {
		return nil, errors.New("the client has left")
	}
	return m.secure(), nil
}

// Certify makes the certificates of all BMCs, which otherwise are made at the
// first connection to each.
func (f *Fleet) Certify() {
	for _, m := range f.machines {
		m.secure()
	}
}

// secure is the BMC's side of TLS.
func (m *Machine) secure() *tls.Config {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tls == nil {
		// Each BMC has tickets of its own, and starts sessions over when its
		// certificate changes.
		m.tls = &tls.Config{
			Certificates: []tls.Certificate{*m.certificateLocked()}, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12,
			SessionTicketsDisabled: m.fleet.within, // a ticket is sent while the client sends too, and a pipe holds nothing
		}
	}
	return m.tls
}

func (m *Machine) certificateLocked() *tls.Certificate {
	addr := or(m.moved, m.config.BMCAddr)
	switch m.fault.Kind {
	case FaultExpired:
		return m.fleet.keys.certificate(addr, notBefore.Add(24*time.Hour))
	case FaultSelfSigned:
		return m.fleet.keys.selfSigned(addr)
	case FaultOtherCert:
		return newKeys(m.fleet.config.Seed+" other").certificate(addr, notAfter)
	}
	if m.given != nil {
		return m.given
	}
	if m.fleet.shared != nil {
		return m.fleet.shared
	}
	return m.fleet.keys.certificate(addr, notAfter)
}

// answering is the machine whose BMC answers at a machine's address.
func (m *Machine) answering() *Machine {
	if m == nil {
		return nil
	}
	return cmp.Or(m.there.Load(), m)
}

// request gives a request to the BMC to which its connection was made.
func (f *Fleet) request(w http.ResponseWriter, r *http.Request) {
	of(r).of.machine.ServeHTTP(w, r)
}

// ServeHTTP answers as the machine's BMC: log, fault, latency, then the
// resource.
func (m *Machine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m = m.owner(r.URL.Path)
	w, hangUp := m.head.closing(w)
	defer hangUp()
	rec := &recorder{ResponseWriter: w}
	c := Call{When: time.Now(), Source: r.RemoteAddr, Machine: m.config.Name, Method: r.Method, Path: r.URL.Path}
	defer func() {
		c.Status = rec.status
		m.fleet.calls.add(c)
	}()
	n := m.count(c)
	while, wait := r.Context(), m.fleet.config.Latency.GET
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		c.Reset = receive(r)
		while, wait = m.fleet.ctx, m.fleet.config.Latency.Write
	}
	m.fleet.calls.arrived(n, c)
	defer m.fleet.swap(rec, r)()
	fault := m.fleet.faultOf(m, n)
	if fault.met() == answering {
		m.spend(fault)
	}
	if m.disturb(fault, rec, r) {
		return
	}
	wait = locked(m, func() time.Duration { return m.tailedLocked(m.variedLocked(wait), r.URL.Path) })
	if fault.Kind == FaultSlow {
		wait += time.Duration(fault.Delay)
	}
	if !m.fleet.sleep(while, wait) {
		panic(http.ErrAbortHandler) // an empty answer would be a success
	}
	m.serve(m.hindered(fault, rec, r), r, fault)
}

// tailedLocked is how long the vendor's BMC takes for an answer that takes the
// fleet's BMCs this long: log-normal around it.
func (m *Machine) tailedLocked(d time.Duration, path string) time.Duration {
	h := m.kind.waits
	if !m.fleet.config.Latency.Tails || h.spread == 0 || d == 0 {
		return d
	}
	m.draws++
	z := math.Sqrt2 * math.Erfinv(2*m.fleet.draw("tail "+m.config.Name, m.draws)-1)
	if strings.Contains(path, "/LogServices/") && strings.HasSuffix(strings.TrimRight(path, "/"), "/Entries") {
		d = time.Duration(float64(d) * h.logs)
	}
	return time.Duration(float64(d) * math.Exp(h.spread*z))
}

// hindered is a writer whose answers a fault spoils on their way.
func (m *Machine) hindered(f Fault, w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	switch f.Kind {
	case FaultTruncated:
		return halved{w}
	case FaultDrip:
		return dripping{w, func() bool { return m.fleet.sleep(r.Context(), time.Duration(f.Delay)/drips) }}
	}
	return w
}

// receive takes in a request that asks for a change. What a BMC has received
// it carries out, whether or not the client stays for the answer; what broke
// off on the way it drops. It returns the ResetType that is asked for.
func receive(r *http.Request) (reset string) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest+1))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var asks struct{ ResetType string }
	if json.Unmarshal(body, &asks) != nil {
		return "" // the resource says what is wrong with it
	}
	return asks.ResetType
}

// count counts a call, and gives its number.
func (m *Machine) count(c Call) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.Requests++
	if c.Write() {
		m.counts.Writes++
		m.counts.LastWrite = c.When
		if m.counts.FirstWrite.IsZero() {
			m.counts.FirstWrite = c.When
		}
	}
	return m.counts.Requests
}

// recorder notes the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

func (w *recorder) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Flush sends what was written so far.
func (w *recorder) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

func (w *recorder) Write(p []byte) (int, error) {
	w.status = cmp.Or(w.status, http.StatusOK)
	return w.ResponseWriter.Write(p)
}
