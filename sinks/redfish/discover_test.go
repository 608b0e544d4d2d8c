package redfish

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// The simulated network: what is behind an address, nil for nothing.
type network struct {
	there map[netip.Addr]http.Handler
	// mute accept a connection and say nothing, deaf let it be made for ever.
	mute, deaf func(netip.Addr) bool
	tls        *tls.Config

	mu     sync.Mutex
	dialed []string
}

func newNetwork(t *testing.T) *network {
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS() // for its certificate
	s.Close()
	return &network{there: map[netip.Addr]http.Handler{}, tls: &tls.Config{Certificates: s.TLS.Certificates}}
}

// dial connects to what is there by net.Pipe, so that it works in a bubble.
func (n *network) dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	n.dialed = append(n.dialed, address)
	n.mu.Unlock()
	at := netip.MustParseAddrPort(address).Addr()
	switch h := n.there[at]; {
	case h != nil:
		return n.serve(h), nil
	case n.mute != nil && n.mute(at):
		client, server := net.Pipe()
		go io.Copy(io.Discard, server) // until the client hangs up
		return client, nil
	case n.deaf != nil && n.deaf(at):
		ctx, cancel := context.WithTimeout(ctx, connectIn)
		defer cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, errors.New("connection refused")
}

func (n *network) serve(h http.Handler) net.Conn {
	client, server := net.Pipe()
	l := &oneConn{conn: tls.Server(server, n.tls), closed: make(chan struct{})}
	s := &http.Server{Handler: h, ConnState: func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			l.Close()
		}
	}}
	go s.Serve(l)
	return client
}

// oneConn is a listener for one connection.
type oneConn struct {
	conn   net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}
func (l *oneConn) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// sweep gives what is found, by address.
func (n *network) sweep(t *testing.T, s driver.Sweep) map[string]driver.Found {
	t.Helper()
	found := map[string]driver.Found{}
	s.Found = func(f driver.Found) { found[f.Address.String()] = f }
	if err := discover(t.Context(), s, n.dial); err != nil {
		t.Fatal(err)
	}
	return found
}

func root(fields string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, fields) })
}

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

const aRoot = `{"@odata.type": "#ServiceRoot.v1_5_0.ServiceRoot", "RedfishVersion": "1.6.0", "Vendor": "Lab", "Product": "BMC", "UUID": "AA-1"}`

// A range of 1,024 addresses in which 33 BMCs answer, and the others accept a
// connection and say nothing, or drop it, is swept in less than 5 s.
func TestSilentAddressesAreCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		all, err := driver.Sweep{Ranges: prefixes("10.9.0.0/22")}.Addresses()
		if err != nil || len(all) != 1024 {
			t.Fatalf("%d addresses, %v", len(all), err)
		}
		for i := range 33 {
			n.there[all[i*31]] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(500 * time.Millisecond)
				io.WriteString(w, aRoot)
			})
		}
		n.mute = func(a netip.Addr) bool { return a.As4()[3]%2 == 0 }
		n.deaf = func(netip.Addr) bool { return true }
		begun := time.Now()
		last := 0
		found := n.sweep(t, driver.Sweep{Ranges: prefixes("10.9.0.0/22"), Asked: func(done, all int) { last = done }})
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("the sweep took %s", took)
		}
		if len(found) != 33 || last != 1024 || len(n.dialed) != 1024 {
			t.Errorf("%d found, %d asked, %d connections", len(found), last, len(n.dialed))
		}
	})
}

// Each address of the ranges is dialled once, and no other, whatever a BMC
// answers; each kind of leading elsewhere is not followed.
func TestNothingOutsideTheRangesIsDialled(t *testing.T) {
	to := func(where string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, where, http.StatusMovedPermanently)
		})
	}
	n := newNetwork(t)
	for i, h := range []http.Handler{
		to("https://10.9.1.1/redfish/v1/"), to("http://10.9.0.2/redfish/v1/"), to("https://10.9.0.3:8443/redfish/v1/"), to("//10.9.1.1/"), to("/redfish/v1/"), root(aRoot),
	} {
		n.there[netip.AddrFrom4([4]byte{10, 9, 0, byte(i + 1)})] = h
	}
	found := n.sweep(t, driver.Sweep{Ranges: prefixes("10.9.0.0/28", "10.9.0.8/29", "10.9.0.16/32", "2001:db8::/127"), Port: 443})
	var want []string
	for i := range 17 {
		want = append(want, fmt.Sprintf("10.9.0.%d:443", i))
	}
	want = append(want, "[2001:db8::]:443", "[2001:db8::1]:443")
	slices.Sort(want)
	if slices.Sort(n.dialed); !slices.Equal(n.dialed, want) {
		t.Errorf("dialled %v", n.dialed)
	}
	if f, ok := found["10.9.0.6"]; len(found) != 1 || !ok || f.Vendor != "Lab" || f.Product != "BMC" || f.UUID != "aa-1" || f.URL != "redfish+https://10.9.0.6" {
		t.Errorf("found %v", found)
	}
}

// No login, cookie or token goes with a sweep, and nothing is asked for but the
// root.
func TestASweepSendsNoCredential(t *testing.T) {
	n := newNetwork(t)
	var asked []string
	n.there[netip.MustParseAddr("10.9.0.1")] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path)
		for _, h := range []string{"Authorization", "X-Auth-Token", "Cookie"} {
			if v := r.Header.Get(h); v != "" {
				t.Errorf("%s: %s was sent", h, v)
			}
		}
		if !strings.HasSuffix(r.URL.Path, "/") { // the slash is needed, as on some BMCs
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.Header().Set("OData-Version", "4.0")
		w.WriteHeader(http.StatusUnauthorized)
	})
	found := n.sweep(t, driver.Sweep{Ranges: prefixes("10.9.0.1/32")})
	if len(found) != 1 || !slices.Equal(asked, []string{"GET /redfish/v1/"}) {
		t.Errorf("asked %v, found %v", asked, found)
	}
}

// What a web server may answer that is no BMC, and what a BMC may that is one.
func TestWhoIsARedfishService(t *testing.T) {
	status := func(code int, header, body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if header != "" {
				w.Header().Set("OData-Version", header)
			}
			w.WriteHeader(code)
			io.WriteString(w, body)
		})
	}
	slash := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/redfish/v1/" {
			http.Redirect(w, r, "/redfish/v1", http.StatusPermanentRedirect)
			return
		}
		io.WriteString(w, `{"RedfishVersion": "1.0.2", "Oem": {"Hp": {}}}`)
	})
	for name, c := range map[string]struct {
		h      http.Handler
		vendor string
		found  bool
	}{
		"root":          {root(aRoot), "Lab", true},
		"old":           {root(`{"@odata.type": "#ServiceRoot.1.0.0.ServiceRoot", "RedfishVersion": "1.0.0", "Oem": {"Hp": {}}}`), "Hp", true},
		"other slash":   {slash, "Hp", true},
		"busy":          {status(503, "4.0", ""), "", true},
		"login page":    {root("<html>log in</html>"), "", false},
		"other API":     {root(`{"version": "1.0"}`), "", false},
		"not there":     {status(404, "", "{}"), "", false},
		"list":          {root(`[1, 2]`), "", false},
		"garbled":       {root(`{"RedfishVersion": 7, "@odata.type": {"a": 1}, "Oem": []}`), "", false},
		"words":         {root(`{"RedfishVersion": "1.6.0", "Vendor": "La\u001b[2Jb\n"}`), "La [2Jb", true},
		"without end":   {torrent{}, "", false},
		"broken header": {panics{}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t)
			n.there[netip.MustParseAddr("10.9.0.1")] = c.h
			found := n.sweep(t, driver.Sweep{Ranges: prefixes("10.9.0.1/32")})
			if f, ok := found["10.9.0.1"]; ok != c.found || f.Vendor != c.vendor {
				t.Errorf("found %v, vendor %q; want %v, %q", ok, f.Vendor, c.found, c.vendor)
			}
		})
	}
}

// torrent sends more than a root may have.
type torrent struct{}

func (torrent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	io.WriteString(w, `{"RedfishVersion": "`)
	for {
		if _, err := io.WriteString(w, strings.Repeat("1", 64<<10)); err != nil {
			return
		}
	}
}

type panics struct{}

func (panics) ServeHTTP(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// A range that is too large, empty or of nobody is refused before anything is
// dialled.
func TestRangesThatAreNotSwept(t *testing.T) {
	for _, ranges := range [][]netip.Prefix{
		nil, {{}}, prefixes("10.0.0.0/15"), prefixes("10.0.0.0/16", "10.1.0.0/32"), prefixes("2001:db8::/64"), prefixes("::/0"), prefixes("0.0.0.0/24"),
		prefixes("::/112"), prefixes("224.0.0.0/24"), prefixes("ff02::/120"), prefixes("255.255.255.255/32"), prefixes("::ffff:10.0.0.0/120"),
	} {
		n := newNetwork(t)
		if err := discover(t.Context(), driver.Sweep{Ranges: ranges}, n.dial); !errors.Is(err, driver.ErrRefused) || len(n.dialed) > 0 {
			t.Errorf("%v: %v, %d dialled", ranges, err, len(n.dialed))
		}
	}
	if err := discover(t.Context(), driver.Sweep{Ranges: prefixes("10.0.0.0/30"), Port: 65536}, newNetwork(t).dial); !errors.Is(err, driver.ErrRefused) {
		t.Error(err)
	}
}

// A sweep that is called off ends, and says so.
func TestASweepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.mute = func(netip.Addr) bool { return true }
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		begun := time.Now()
		err := discover(ctx, driver.Sweep{Ranges: prefixes("10.9.0.0/20")}, n.dial)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > time.Second {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
	})
}

// BenchmarkSweep is a sweep of 1,024 loopback addresses: 33 BMCs, and addresses
// that accept and say nothing, or drop the connection. It prints its figure as
// the other benchmarks do.
func BenchmarkSweep(b *testing.B) {
	c := lab.Config{Seed: "sweep", Latency: lab.Latency{GET: 200 * time.Millisecond}}
	all, err := driver.Sweep{Ranges: prefixes("127.70.0.0/22")}.Addresses()
	if err != nil {
		b.Fatal(err)
	}
	machines := map[netip.Addr]string{}
	for i := range 33 {
		a := all[1+i*31]
		machines[a] = "m-" + a.String()
		c.Machines = append(c.Machines, lab.MachineConfig{Name: machines[a], BMCAddr: a.String(), Username: "a", Password: "b"})
	}
	f, err := lab.New(c)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	port := 0
	for i, a := range all {
		l, err := net.Listen("tcp4", fmt.Sprintf("%s:%d", a, port))
		if err != nil {
			b.Fatal(err)
		}
		defer l.Close()
		port = l.Addr().(*net.TCPAddr).Port
		if name := machines[a]; name != "" {
			s := httptest.NewUnstartedServer(f.Machine(name))
			s.Listener.Close()
			s.Listener = l
			s.StartTLS()
			defer s.Close()
			continue
		}
		go accept(l, i%2 == 0)
	}
	for b.Loop() {
		found := 0
		err := New(Options{}).Discover(b.Context(), driver.Sweep{Ranges: prefixes("127.70.0.0/22"), Port: port, Found: func(driver.Found) { found++ }})
		if err != nil || found != 33 {
			b.Fatalf("%d found, %v", found, err)
		}
	}
	fmt.Printf("bench: discover/sweep-1024 %.3g s\n", (b.Elapsed() / time.Duration(b.N)).Seconds())
}

// accept takes connections, and says nothing or drops them.
func accept(l net.Listener, drops bool) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		if drops {
			c.Close()
		} else {
			go io.Copy(io.Discard, c) // until the other side hangs up
		}
	}
}

func FuzzRoot(f *testing.F) {
	for _, seed := range []string{aRoot, `{"Oem": {"Dell": {}}}`, `[]`, `{"Vendor": {}}`, "{"} {
		f.Add(200, "4.0", []byte(seed))
	}
	f.Fuzz(func(t *testing.T, status int, version string, body []byte) {
		root, ok := rootOf(&http.Response{StatusCode: status, Header: http.Header{"Odata-Version": {version}}}, body)
		if ok && status == http.StatusOK && !json.Valid(body) {
			t.Errorf("%q is a service root", body)
		}
		if v := vendorOf(root); v != printable(v) {
			t.Errorf("vendor %q", v)
		}
	})
}
