package lab_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

const (
	sys      = "/redfish/v1/Systems/1"
	media    = "/redfish/v1/Managers/1/VirtualMedia/1"
	sessions = "/redfish/v1/SessionService/Sessions"
	resetURI = sys + "/Actions/ComputerSystem.Reset"
	account  = `{"UserName": "admin", "Password": "pw"}`
)

// one is a fleet of the one machine n1.
func one(l lab.Latency, change ...func(*lab.MachineConfig)) lab.Config {
	c := lab.MachineConfig{
		Name: "n1", BMCAddr: "127.71.0.1", OSAddr: "127.72.0.1", Username: "admin", Password: "pw",
		Identity:     site.Identity{UUID: "5e1d0000-0000-4000-8000-000000000001", Serial: "LAB1"},
		Manufacturer: "Lab", Model: "One", MemoryGiB: 64, Processors: 2,
	}
	for _, f := range change {
		f(&c)
	}
	return lab.Config{Seed: "test", LaxMedia: true, Latency: l, Machines: []lab.MachineConfig{c}}
}

func isOn(c *lab.MachineConfig)    { c.Power = "on" }
func isBlank(c *lab.MachineConfig) { c.Blank = true }

// start runs a fleet behind real listeners, build one without any.
func start(t *testing.T, c lab.Config) *lab.Fleet { return closed(t)(lab.Start(c)) }
func build(t *testing.T, c lab.Config) *lab.Fleet { return closed(t)(lab.New(c)) }

func closed(t *testing.T) func(*lab.Fleet, error) *lab.Fleet {
	return func(f *lab.Fleet, err error) *lab.Fleet {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
		return f
	}
}

// bmc is a plain client of one BMC.
type bmc struct {
	t    *testing.T
	base string
	http *http.Client

	fleet *lab.Fleet
}

// dial talks to n1 over TLS, and verifies its certificate.
func dial(t *testing.T, f *lab.Fleet) *bmc {
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool(f)}}
	t.Cleanup(tr.CloseIdleConnections)
	base := strings.TrimSuffix(strings.TrimPrefix(f.BMCURL("n1"), "redfish+"), sys)
	return &bmc{t, base, &http.Client{Transport: tr, Timeout: 10 * time.Second}, f}
}

func pool(f *lab.Fleet) *x509.CertPool {
	p := x509.NewCertPool()
	p.AppendCertsFromPEM(f.CA())
	return p
}

// beside talks to n1 without a connection.
func beside(t *testing.T, f *lab.Fleet) *bmc {
	return &bmc{t, "https://n1", &http.Client{Transport: direct{f.Machine("n1")}}, f}
}

// direct hands requests to a handler.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Result(), nil
}

// do sends a request with the account, and gives the answer with its body
// read. A header is "Name: value".
func (b *bmc) do(method, path, body string, header ...string) (*http.Response, map[string]any) {
	b.t.Helper()
	req, err := http.NewRequest(method, b.base+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.SetBasicAuth("admin", "pw")
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		if req.Header.Set(name, value); name == "X-Auth-Token" {
			req.Header.Del("Authorization")
		}
	}
	resp, err := b.http.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	var v map[string]any
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") && len(text) > 0 {
		if err := json.Unmarshal(text, &v); err != nil {
			b.t.Fatalf("%s %s: %v in %s", method, path, err, text)
		}
	}
	return resp, v
}

func (b *bmc) want(status int, method, path, body string, header ...string) map[string]any {
	b.t.Helper()
	resp, v := b.do(method, path, body, header...)
	if resp.StatusCode != status {
		b.t.Errorf("%s %s = %s, want %d: %v", method, path, resp.Status, status, v)
	}
	return v
}

func (b *bmc) system() map[string]any { b.t.Helper(); return b.want(200, "GET", sys, "") }

func (b *bmc) reset(kind string) {
	b.t.Helper()
	b.want(204, "POST", resetURI, fmt.Sprintf(`{"ResetType": %q}`, kind))
}

func (b *bmc) override(enabled, target string) {
	b.t.Helper()
	b.want(200, "PATCH", sys, fmt.Sprintf(`{"Boot": {"BootSourceOverrideEnabled": %q, "BootSourceOverrideTarget": %q}}`, enabled, target))
}

func (b *bmc) insert(url string) {
	b.t.Helper()
	b.want(204, "POST", media+"/Actions/VirtualMedia.InsertMedia", fmt.Sprintf(`{"Image": %q}`, url))
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("never: %s", what)
		}
	}
}

func TestEachBMCHasItsOwnAddressAndCertificate(t *testing.T) {
	c := one(lab.Latency{})
	second := c.Machines[0]
	second.Name, second.BMCAddr, second.OSAddr = "n2", "127.71.0.2", ""
	c.Machines = append(c.Machines, second)
	f := start(t, c)
	for name, addr := range map[string]string{"n1": "127.71.0.1", "n2": "127.71.0.2"} {
		conn, err := tls.Dial("tcp", fmt.Sprintf("%s:%d", addr, f.BMCPort()), &tls.Config{RootCAs: pool(f)})
		if err != nil {
			t.Fatal(err)
		}
		leaf := conn.ConnectionState().PeerCertificates[0]
		conn.Close()
		if len(leaf.IPAddresses) != 1 || leaf.IPAddresses[0].String() != addr {
			t.Errorf("%s has a certificate for %v", name, leaf.IPAddresses)
		}
		if want := fmt.Sprintf("redfish+https://%s:%d/redfish/v1/Systems/1", addr, f.BMCPort()); f.BMCURL(name) != want {
			t.Errorf("BMCURL(%s) = %s, want %s", name, f.BMCURL(name), want)
		}
	}
}

// What is no machine's address gets no answer, and neither does anything that
// does not come over loopback.
func TestOtherAddressesAreNotServed(t *testing.T) {
	f := start(t, one(lab.Latency{}, isOn))
	places := []string{"127.71.0.9"}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if ip := a.(*net.IPNet).IP; ip.To4() != nil && !ip.IsLoopback() {
			places = append(places, ip.String())
		}
	}
	for _, place := range places {
		for _, port := range []int{f.BMCPort(), f.SSHPort()} {
			c, err := net.DialTimeout("tcp", fmt.Sprintf("%s:%d", place, port), 5*time.Second)
			if err != nil {
				continue // refused outright
			}
			c.SetDeadline(time.Now().Add(5 * time.Second))
			if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
				t.Errorf("%s:%d says something", place, port)
			}
			c.Close()
		}
	}
}

func TestTLSSessionsAreResumed(t *testing.T) {
	f := start(t, one(lab.Latency{}))
	config := &tls.Config{RootCAs: pool(f), ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	var resumed bool
	for range 2 {
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
		resp, err := c.Get(strings.TrimPrefix(f.BMCURL("n1"), "redfish+"))
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		resumed = resp.TLS.DidResume
	}
	if !resumed {
		t.Error("the second connection began a new TLS session")
	}
}

func TestKeysFollowTheSeed(t *testing.T) {
	if bytes.Equal(lab.CAPEM("a"), lab.CAPEM("b")) {
		t.Error("the authority does not follow the seed")
	}
	if lab.HostKey("a", "n1") == lab.HostKey("a", "n2") || lab.HostKey("a", "n1") == lab.HostKey("b", "n1") {
		t.Error("host keys do not follow seed and name")
	}
	f := build(t, one(lab.Latency{}))
	if !bytes.Equal(f.CA(), lab.CAPEM("test")) || f.HostKey("n1") != lab.HostKey("test", "n1") || f.ImageSHA256("debian12", "n1", 1) != lab.ImageSHA256("test", "debian12", "n1", 1) {
		t.Error("a fleet has other keys than its seed")
	}
}

// Close ends what is under way: an answer that waits, one that hangs, a
// shell, an installer that fetches, a power change.
func TestCloseLeavesNothing(t *testing.T) {
	held := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(held)
		<-r.Context().Done()
	}))
	defer slow.Close()
	c := one(lab.Latency{PowerOff: time.Hour, Boot: time.Microsecond}, isOn)
	for i, name := range []string{"n2", "n3"} {
		m := c.Machines[0]
		m.Name, m.BMCAddr, m.OSAddr = name, fmt.Sprintf("127.71.0.%d", i+2), ""
		c.Machines = append(c.Machines, m)
	}
	f, err := lab.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	shell := login(t, f)
	defer shell.Close()
	b := dial(t, f)
	for name, m := range map[string]string{"installs": "n2", "shuts down": "n3"} {
		beside := &bmc{t, "https://" + m, &http.Client{Transport: direct{f.Machine(m)}}, f}
		if name == "shuts down" {
			beside.reset("GracefulShutdown")
			continue
		}
		beside.insert(slow.URL)
		beside.override("Once", "Cd")
		f.Machine(m).SetPower("off")
		f.Machine(m).SetPower("on")
	}
	<-held
	f.Machine("n1").SetFault(lab.Fault{Kind: lab.FaultHang})
	failed := make(chan error, 1)
	go func() {
		_, err := b.http.Post(b.base+resetURI, "application/json", strings.NewReader(`{"ResetType": "ForceOff"}`))
		failed <- err
	}()
	eventually(t, "the request hangs", func() bool { return f.Machine("n1").Writes() == 1 })
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil {
		t.Error("a request that hung was answered")
	}
	eventually(t, "no goroutine of the lab is left", func() bool {
		stacks := make([]byte, 1<<20)
		return !bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("tests/lab.(*"))
	})
	for _, port := range []int{f.BMCPort(), f.SSHPort()} {
		if c, err := net.Dial("tcp", fmt.Sprintf("127.71.0.1:%d", port)); err == nil {
			c.Close()
			t.Errorf("port %d is still open", port)
		}
	}
}

// Who watches is told of a request when it has its effect and no answer.
func TestWatchedBeforeTheAnswer(t *testing.T) {
	f := start(t, one(lab.Latency{}))
	b := dial(t, f)
	told, release := make(chan lab.Call), make(chan bool)
	f.Watch(func(n int, c lab.Call) {
		if n != f.CallCount() {
			t.Errorf("call %d of %d", n, f.CallCount())
		}
		told <- c
		<-release
	})
	answered := make(chan bool)
	go func() {
		defer close(answered)
		b.reset("On")
	}()
	if c := <-told; c.Path != resetURI || c.Status != http.StatusNoContent || !c.Write() {
		t.Errorf("told of %+v", c)
	}
	if n := f.Machine("n1").Resets(); n != 1 {
		t.Errorf("%d resets when told of one", n)
	}
	select {
	case <-answered:
		t.Error("answered before the watch was over")
	default:
	}
	close(release)
	<-answered
}

// A request is told when it came, and what asks for a change is then carried
// out although the client has left.
func TestHeldRequestOutlivesItsClient(t *testing.T) {
	f := start(t, one(lab.Latency{}))
	b := dial(t, f)
	ctx, leave := context.WithCancel(t.Context())
	release := make(chan bool)
	f.Hold(func(n int, c lab.Call) {
		if n != 1 || c.Path != resetURI || !c.Write() || f.Machine("n1").Resets() != 0 {
			t.Errorf("told of request %d, %+v", n, c)
		}
		leave()
		<-release
	})
	req, err := http.NewRequestWithContext(ctx, "POST", b.base+resetURI, strings.NewReader(`{"ResetType": "On"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("admin", "pw")
	if resp, err := b.http.Do(req); err == nil {
		resp.Body.Close()
		t.Error("answered while it was held")
	}
	close(release)
	eventually(t, "the reset", func() bool { return f.Machine("n1").Resets() == 1 })
}

// What broke off on its way to the BMC is dropped.
func TestHalfARequestIsNone(t *testing.T) {
	f := start(t, one(lab.Latency{}))
	c, err := tls.Dial("tcp", fmt.Sprintf("127.71.0.1:%d", f.BMCPort()), &tls.Config{RootCAs: pool(f)})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: n1\r\nAuthorization: Basic %s\r\nContent-Length: 100\r\n\r\n{", resetURI, "YWRtaW46cHc=")
	eventually(t, "the request", func() bool { return f.Machine("n1").Counts().Requests == 1 })
	c.Close()
	eventually(t, "its end", func() bool { return len(f.Calls()) == 1 })
	if call := f.Calls()[0]; call.Status != 0 || f.Machine("n1").Resets() != 0 {
		t.Errorf("got %+v and %d resets", call, f.Machine("n1").Resets())
	}
}
