package lab

import (
	"bytes"
	"cmp"
	"context"
	"crypto/subtle"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
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
	srv := f.count(&http.Server{
		Handler:           http.HandlerFunc(f.request),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 15 * time.Second, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return f.ctx },
	})
	config := &tls.Config{GetConfigForClient: f.identify, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
	f.closers = append(f.closers, srv.Close)
	f.work.Go(func() { srv.Serve(tls.NewListener(gate{l, f.bmcs, (*Machine).bmcLines}, config)) })
	return nil
}

// bmcLines takes connections unless the BMC refuses them.
func (m *Machine) bmcLines() *lines {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fault.Kind == FaultRefuse {
		return nil
	}
	return &m.bmcSide
}

// identify presents the certificate of the BMC that was connected to.
func (f *Fleet) identify(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	m := at(f.bmcs, hello.Conn.LocalAddr())
	if m == nil {
		return nil, errors.New("no BMC here")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tls == nil {
		// Each BMC has tickets of its own, and starts sessions over when its
		// certificate changes.
		m.tls = &tls.Config{Certificates: []tls.Certificate{*m.certificateLocked()}, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
	}
	return m.tls, nil
}

func (m *Machine) certificateLocked() *tls.Certificate {
	switch m.fault.Kind {
	case FaultExpired:
		return m.fleet.keys.certificate(m.config.BMCAddr, notBefore.Add(24*time.Hour))
	case FaultOtherCert:
		return newKeys(m.fleet.config.Seed+" other").certificate(m.config.BMCAddr, notAfter)
	}
	return m.fleet.keys.certificate(m.config.BMCAddr, notAfter)
}

// request finds the machine that a request is for.
func (f *Fleet) request(w http.ResponseWriter, r *http.Request) {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	at(f.bmcs, local).ServeHTTP(w, r)
}

// ServeHTTP answers as the machine's BMC: log, fault, latency, then the
// resource.
func (m *Machine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rec := &recorder{ResponseWriter: w}
	c := Call{When: time.Now(), Source: r.RemoteAddr, Machine: m.config.Name, Method: r.Method, Path: r.URL.Path}
	defer func() {
		c.Status = rec.status
		m.fleet.calls.add(c)
	}()
	n := m.count(c)
	while, wait := r.Context(), m.fleet.config.Latency.GET
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		receive(r)
		while, wait = m.fleet.ctx, m.fleet.config.Latency.Write
	}
	m.fleet.calls.arrived(n, c)
	fault := m.fleet.faultOf(m, n)
	if fault.disturb(rec, r) {
		return
	}
	wait = locked(m, func() time.Duration { return m.variedLocked(wait) })
	if fault.Kind == FaultSlow {
		wait += time.Duration(fault.Delay)
	}
	if !m.fleet.sleep(while, wait) {
		panic(http.ErrAbortHandler) // an empty answer would be a success
	}
	m.serve(rec, r)
}

// receive takes in a request that asks for a change. What a BMC has received
// it carries out, whether or not the client stays for the answer; what broke
// off on the way it drops.
func receive(r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest+1))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
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

func (w *recorder) Write(p []byte) (int, error) {
	w.status = cmp.Or(w.status, http.StatusOK)
	return w.ResponseWriter.Write(p)
}

// serve routes a request to a resource.
func (m *Machine) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("OData-Version", "4.0")
	w.Header().Set("Cache-Control", "no-cache")
	path := strings.TrimRight(r.URL.Path, "/")
	if r.Method == http.MethodPost {
		path = strings.TrimSuffix(path, "/Members") // the same as the collection (DSP0266 7.9)
	}
	if v := r.Header.Get("OData-Version"); v != "" && v != "4.0" {
		fail(w, http.StatusPreconditionFailed, "Base.1.18.PreconditionFailed", "OData-Version "+v+" is not supported.")
		return
	}
	if !open(r.Method, path) && !m.authenticated(r) {
		w.Header().Set("WWW-Authenticate", `Basic realm="Redfish"`)
		fail(w, http.StatusUnauthorized, "Base.1.18.NoValidSession", "There is no valid session established with the implementation.")
		return
	}
	res, ok := m.resource(path)
	if !ok {
		fail(w, http.StatusNotFound, "Base.1.18.ResourceMissingAtURI", "The resource at the URI "+path+" was not found.")
		return
	}
	h := res[r.Method]
	if r.Method == http.MethodHead {
		h = res[http.MethodGet]
	}
	if h == nil {
		w.Header().Set("Allow", strings.Join(res.methods(), ", "))
		fail(w, http.StatusMethodNotAllowed, "Base.1.18.OperationNotAllowed", "The HTTP method is not allowed on this resource.")
		return
	}
	h(w, r)
}

// open says what needs no login (DSP0266 13.2): the version, the service root
// and its metadata, and logging in.
func open(method, path string) bool {
	switch path {
	case "/redfish", "/redfish/v1", "/redfish/v1/odata", "/redfish/v1/$metadata":
		return true
	}
	return method == http.MethodPost && path == sessionsPath
}

const sessionsPath = "/redfish/v1/SessionService/Sessions"

func isSession(path string) bool { return strings.HasPrefix(path, sessionsPath) }

func (m *Machine) authenticated(r *http.Request) bool {
	if token := r.Header.Get("X-Auth-Token"); token != "" {
		return locked(m, func() bool { return m.touchLocked(token) })
	}
	user, password, ok := r.BasicAuth()
	return ok && m.accepts(user, password)
}

// accepts checks an account.
func (m *Machine) accepts(user, password string) bool {
	ok := subtle.ConstantTimeCompare([]byte(user+"\x00"+password), []byte(m.config.Username+"\x00"+m.config.Password)) == 1
	if !ok {
		locked(m, func() any { m.counts.Denied++; return nil })
	}
	return ok
}

// reply sends a resource with its ETag.
func reply(w http.ResponseWriter, r *http.Request, status int, body map[string]any) {
	text, tag := encode(body)
	w.Header().Set("ETag", tag)
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if r.Method == http.MethodGet && r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		w.Write(text)
	}
}

func encode(body map[string]any) (text []byte, tag string) {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // resources are ours
	}
	h := fnv.New64a()
	h.Write(text)
	return text, fmt.Sprintf(`W/"%x"`, h.Sum64())
}

// current says whether a request is for the resource as it is (DSP0266 6.5);
// like most BMCs it takes an ETag without its W/ for the same. It answers
// itself when the resource is another by now.
func current(w http.ResponseWriter, r *http.Request, body map[string]any) bool {
	_, tag := encode(body)
	want := r.Header.Get("If-Match")
	if want == "" || want == "*" || want == tag || want == strings.TrimPrefix(tag, "W/") {
		return true
	}
	fail(w, http.StatusPreconditionFailed, "Base.1.18.PreconditionFailed", "The ETag supplied did not match the current ETag of the resource.")
	return false
}

// fail sends an error body with extended information (DSP0266 8.6).
func fail(w http.ResponseWriter, status int, id, message string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{
		"code": "Base.1.18.GeneralError", "message": "A general error has occurred. See ExtendedInfo for more information.",
		"@Message.ExtendedInfo": []any{map[string]any{
			"@odata.type": "#Message.v1_2_0.Message", "MessageId": id, "Message": message, "Severity": "Critical", "Resolution": "None.",
		}},
	}})
}

// read decodes a request's body; it answers itself when it cannot. A property
// that the resource does not have, or lets nobody write, is not accepted.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		fail(w, http.StatusRequestEntityTooLarge, "Base.1.18.PayloadTooLarge", fmt.Sprintf("The request body is larger than %d bytes.", maxRequest))
		return false
	}
	if len(body) > 0 && err == nil {
		err = strictly(bytes.NewReader(body), into)
	}
	switch {
	case err == nil:
		return true
	case strings.Contains(err.Error(), "unknown field"):
		fail(w, http.StatusBadRequest, "Base.1.18.PropertyUnknown", "The request has a property that cannot be written here: "+err.Error()+".")
	default:
		fail(w, http.StatusBadRequest, "Base.1.18.MalformedJSON", "The request body submitted was malformed JSON and could not be parsed by the receiving service.")
	}
	return false
}
