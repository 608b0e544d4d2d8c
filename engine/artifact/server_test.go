package artifact

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/serve"
)

// counterpart is a server with one granted file.
type counterpart struct {
	*Server
	at      string // host:port
	path    string
	content []byte
	logged  *bytes.Buffer
	ended   chan struct{} // has room for one connection that the server has stopped
}

// serveImage serves a file of a size on a real listener.
func serveImage(t testing.TB, size int, m limits) *counterpart {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveAt(t, l, size, m)
}

func serveAt(t testing.TB, l net.Listener, size int, m limits) *counterpart {
	t.Helper()
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := &counterpart{content: image(size), logged: &bytes.Buffer{}, ended: make(chan struct{}, 1)}
	i, err := s.Add(t.Context(), bytes.NewReader(c.content), 0, "", "debian 12.iso", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	c.Server = newServer(s, slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return c.logged.Write(p)
	}), nil)))
	c.at = l.Addr().String()
	c.path = "/" + newPath(i.Name)
	c.Grant(Grant{Node: "n1", SHA256: i.SHA256, URL: "http://" + c.at + c.path})
	srv := httpServer(c.Server, m)
	srv.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	srv.ConnState = func(_ net.Conn, is http.ConnState) {
		if is == http.StateClosed {
			select {
			case c.ended <- struct{}{}:
			default:
			}
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		srv.Serve(bound(l, m))
	}()
	t.Cleanup(func() {
		srv.Close()
		<-done
		s.Close()
	})
	return c
}

// pipes is a listener of connections within the process, for a bubble.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	close  sync.Once
}

func (p *pipes) dial() net.Conn {
	here, there := net.Pipe()
	p.conns <- there
	return here
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80} }

func (p *pipes) Close() error {
	p.close.Do(func() { close(p.closed) })
	return nil
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func (c *counterpart) ask(t *testing.T, method, path string, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(method, "http://"+c.at, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.URL.Opaque = "//" + c.at + path // as it is
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestServed(t *testing.T) {
	c := serveImage(t, 1_000_000, usualLimits)
	whole := string(c.content)
	for _, x := range []struct {
		method, ranges string
		status         int
		body, at       string
		length         int64
	}{
		{"GET", "", 200, whole, "", 1_000_000},
		{"HEAD", "", 200, "", "", 1_000_000},
		{"GET", "bytes=0-511", 206, whole[:512], "bytes 0-511/1000000", 512},
		{"GET", "bytes=999999-", 206, whole[999_999:], "bytes 999999-999999/1000000", 1},
		{"GET", "bytes=500000-", 206, whole[500_000:], "bytes 500000-999999/1000000", 500_000},
		{"GET", "bytes=-10", 206, whole[999_990:], "bytes 999990-999999/1000000", 10},
		{"GET", "bytes=999990-2000000", 206, whole[999_990:], "bytes 999990-999999/1000000", 10},
		{"HEAD", "bytes=0-511", 206, "", "bytes 0-511/1000000", 512},
		{"GET", "bytes=1000000-", 416, "*", "bytes */1000000", -2},
		{"GET", "bytes=0-1,3-4", 200, whole, "", 1_000_000},
		{"GET", "bytes=5-4", 416, "*", "", -2},
		{"GET", "lines=1-2", 200, whole, "", 1_000_000},
		{"GET", "bytes=-0", 200, whole, "", 1_000_000},
	} {
		var headers []string
		if x.ranges != "" {
			headers = []string{"Range", x.ranges}
		}
		resp, body := c.ask(t, x.method, c.path, headers...)
		if resp.StatusCode != x.status || x.body != "*" && body != x.body || x.length >= 0 && resp.ContentLength != x.length || x.at != "" && resp.Header.Get("Content-Range") != x.at {
			t.Errorf("%s of %q: %s, %d of %d bytes, range %q", x.method, x.ranges, resp.Status, len(body), resp.ContentLength, resp.Header.Get("Content-Range"))
		}
		if x.status < 300 && (resp.Header.Get("Content-Type") != "application/vnd.efi-iso" || resp.Header.Get("Accept-Ranges") != "bytes" || resp.Header.Get("ETag") == "") {
			t.Errorf("%s of %q has the header %v", x.method, x.ranges, resp.Header)
		}
	}
	resp, body := c.ask(t, "GET", c.path, "Range", "bytes=10-19", "If-Range", versionOf(t, c))
	if resp.StatusCode != 206 || body != whole[10:20] {
		t.Errorf("with its own version: %s", resp.Status)
	}
	if resp, body = c.ask(t, "GET", c.path, "Range", "bytes=10-19", "If-Range", `"other"`); resp.StatusCode != 200 || body != whole {
		t.Errorf("with another version: %s", resp.Status)
	}
	if !strings.HasSuffix(c.path, "/debian-12.iso") || strings.Contains(c.path, "?") {
		t.Errorf("the path is %s", c.path)
	}
}

func versionOf(t *testing.T, c *counterpart) string {
	resp, _ := c.ask(t, "HEAD", c.path)
	return resp.Header.Get("ETag")
}

// Nothing is told to who does not have the URL of an installation, to the letter
// and while it lasts.
func TestNothingElseIsServed(t *testing.T) {
	c := serveImage(t, 1000, usualLimits)
	token := strings.Split(c.path, "/")[1]
	refused := []string{
		"/", "/favicon.ico", "/debian-12.iso", "/" + token, "/" + token + "/", "/" + token + "/other.iso", "/" + token + "/debian-12.iso/",
		"/" + token + "//debian-12.iso", "//" + token + "/debian-12.iso", "/x/" + token + "/debian-12.iso", "/" + token + "/./debian-12.iso",
		"/" + token + "/x/../debian-12.iso", "/" + token + "/debian-12%2eiso", "/" + token + "%2fdebian-12.iso", c.path + "?", c.path + "?x=1",
		"/" + strings.ToLower(token) + "/debian-12.iso", "/" + token[:25] + "/debian-12.iso", "/" + token[1:] + "A/debian-12.iso",
		"/" + token + "/../../etc/passwd", "/..%2f..%2fetc%2fpasswd", "/" + token + "/debian-12.iso%00", "/" + token + "/debian-12.iso;x",
		"/" + strings.Repeat("A", 26) + "/debian-12.iso", "/files/" + digestOf(c.content), "/" + digestOf(c.content),
	}
	for _, path := range refused {
		resp, body := c.ask(t, "GET", path)
		if resp.StatusCode != 404 || body != "" || resp.Header.Get("ETag") != "" || resp.Header.Get("Content-Type") != "" {
			t.Errorf("%s: %s %v %q", path, resp.Status, resp.Header, body)
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "PROPFIND"} {
		if resp, body := c.ask(t, method, c.path); resp.StatusCode != 404 || body != "" {
			t.Errorf("%s: %s %q", method, resp.Status, body)
		}
	}
	if got := c.Totals(); got.Refused != int64(len(refused)+6) || got.Bytes != 0 {
		t.Errorf("counted %+v", got)
	}
	c.Revoke("n1")
	if resp, _ := c.ask(t, "GET", c.path); resp.StatusCode != 404 {
		t.Errorf("when it is over: %s", resp.Status)
	}
	if strings.Contains(c.logged.String(), token) {
		t.Errorf("the token is logged:\n%s", c.logged)
	}
}

func TestGrants(t *testing.T) {
	c := serveImage(t, 1000, usualLimits)
	status := func(path string) int {
		resp, _ := c.ask(t, "HEAD", path)
		return resp.StatusCode
	}
	digest := digestOf(c.content)
	first, second, behind := c.path, "/"+newPath("x.iso"), "/"+newPath("y.iso")
	c.ask(t, "GET", first, "User-Agent", "evil\u202e agent")
	c.counted(t, "n1", 1000)
	if got, ok := c.Reads("n1"); !ok || got.Requests != 1 || got.From != "127.0.0.1" || got.Last.IsZero() {
		t.Errorf("n1 has read %+v", got)
	}
	c.Grant(Grant{Node: "n1", SHA256: digest, URL: "http://" + c.at + first}) // the same
	if got, _ := c.Reads("n1"); got.Bytes != 1000 {
		t.Errorf("what it has read is forgotten: %+v", got)
	}
	c.Grant(Grant{Node: "n2", SHA256: digest, URL: "https://proxy.example.org/images/of/slipway" + behind})
	if got := []int{status(first), status(behind), status("/images/of/slipway" + behind), status("/other" + behind)}; !slices.Equal(got, []int{200, 200, 200, 404}) {
		t.Errorf("behind a proxy: %v", got)
	}
	c.Grant(Grant{Node: "n1", SHA256: digest, URL: "http://" + c.at + second})
	if got := []int{status(first), status(second), status(behind)}; !slices.Equal(got, []int{404, 200, 200}) {
		t.Errorf("with another one: %v", got)
	}
	c.Grant(Grant{Node: "n1", SHA256: digest, URL: "http://images.example.org/debian.iso"}) // none of ours
	if got := []int{status(second), status("/debian.iso")}; !slices.Equal(got, []int{404, 404}) {
		t.Errorf("with a URL that is none of ours: %v", got)
	}
	if _, ok := c.Reads("n1"); ok {
		t.Error("it has one still")
	}
	c.Grant(Grant{Node: "n3", SHA256: digestOf([]byte("gone")), URL: "http://" + c.at + first})
	if status(first) != 404 {
		t.Error("a file that is not in the store is served")
	}
	for _, word := range []string{"\u202e", strings.Split(first, "/")[1], strings.Split(second, "/")[1]} {
		if strings.Contains(c.logged.String(), word) {
			t.Errorf("%q is logged:\n%s", word, c.logged)
		}
	}
	for _, word := range []string{"node=n1", "bytes=1000", "by=127.0.0.1"} {
		if !strings.Contains(c.logged.String(), word) {
			t.Errorf("%q is not logged:\n%s", word, c.logged)
		}
	}
}

// counted waits until a node has read so many bytes: they are counted when they
// are sent, which the reader may see before.
func (c *counterpart) counted(t *testing.T, node string, bytes int64) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); ; <-tick.C {
		got, ok := c.Reads(node)
		if ok && got.Bytes == bytes {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s has read %+v", node, got)
		}
	}
}

func dial(t *testing.T, at string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// A reader that stands still is disconnected after the write timeout. A slow one
// that keeps reading gets the whole file, however long that takes.
func TestOnlyReadersThatGetOnAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		c := serveAt(t, l, 32<<20, usualLimits)
		stuck, slow := l.dial(), l.dial()
		fmt.Fprintf(stuck, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", c.path)
		fmt.Fprintf(slow, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", c.path)
		resp, err := http.ReadResponse(bufio.NewReader(slow), nil)
		if err != nil {
			t.Fatal(err)
		}
		begun, got := time.Now(), bytes.NewBuffer(nil)
		for err == nil {
			_, err = io.CopyN(got, resp.Body, chunk)
			time.Sleep(writeTimeout * 2 / 3)
		}
		if err != io.EOF || !bytes.Equal(got.Bytes(), c.content) {
			t.Errorf("the slow one has %d of %d bytes after %s: %v", got.Len(), len(c.content), time.Since(begun), err)
		}
		if took := time.Since(begun); took < time.Hour {
			t.Errorf("it took only %s", took)
		}
		if n, err := io.Copy(io.Discard, stuck); n >= chunk || err != nil {
			t.Errorf("the one that stood still has %d bytes, %v", n, err)
		}
	})
}

// The write timeout also ends a reader of a real connection that stands still,
// where the kernel copies the file.
func TestStuckReaderOfARealConnectionIsEnded(t *testing.T) {
	c := serveImage(t, 32<<20, limits{all: 100, each: 100, header: time.Minute, write: 300 * time.Millisecond})
	stuck := dial(t, c.at)
	fmt.Fprintf(stuck, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", c.path)
	<-c.ended
	if n, err := io.Copy(io.Discard, stuck); n >= 32<<20 {
		t.Errorf("the one that stood still has %d bytes, %v", n, err)
	}
}

// Connections that send nothing, or their header byte by byte, end and leave room.
func TestSlowHeadersEnd(t *testing.T) {
	c := serveImage(t, 1000, limits{all: 4, each: 4, header: 300 * time.Millisecond, write: time.Second})
	var held []net.Conn
	for range 4 {
		conn := dial(t, c.at)
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nX: ", c.path)
		held = append(held, conn)
	}
	for _, conn := range held {
		conn.SetReadDeadline(time.Now().Add(time.Minute))
		for err := error(nil); err == nil; {
			_, err = conn.Read(make([]byte, 1000))
			if ne, ok := err.(net.Error); ok && ne.Timeout() {
				t.Fatal("a connection without a whole header is still open")
			}
		}
	}
	if resp, _ := c.ask(t, "HEAD", c.path); resp.StatusCode != 200 {
		t.Errorf("afterwards: %s", resp.Status)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	c := serveImage(t, 1000, limits{all: 6, each: 4, header: time.Minute, write: time.Second})
	open := func(from string) (net.Conn, bool) {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err := d.Dial("tcp", c.at)
		if err != nil {
			return nil, false
		}
		t.Cleanup(func() { conn.Close() })
		fmt.Fprintf(conn, "HEAD %s HTTP/1.1\r\nHost: x\r\n\r\n", c.path)
		_, err = http.ReadResponse(bufio.NewReader(conn), nil)
		return conn, err == nil
	}
	count := func(from string, n int) (answered int, conns []net.Conn) {
		for range n {
			if conn, ok := open(from); ok {
				answered++
				conns = append(conns, conn)
			}
		}
		return answered, conns
	}
	a, held := count("127.0.0.1", 6)
	b, _ := count("127.0.0.2", 6)
	if a != 4 || b != 2 {
		t.Errorf("answered were %d of one address and %d of another, want 4 and 2", a, b)
	}
	for _, conn := range held {
		conn.Close()
	}
	for { // the server notices that they are closed
		if again, _ := count("127.0.0.3", 1); again == 1 {
			break
		}
	}
}

func TestAddressesThatCountAsOne(t *testing.T) {
	for text, want := range map[string]string{
		"127.0.0.1:1": "127.0.0.1", "[::ffff:10.0.0.1]:1": "10.0.0.1", "[2001:db8::1:2]:1": "2001:db8::", "[fe80::1%lo]:1": "fe80::",
	} {
		c := fakeConn{remote: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(text))}
		if got := addressOf(c).String(); got != want {
			t.Errorf("%s counts as %s, want %s", text, got, want)
		}
	}
}

type fakeConn struct {
	net.Conn
	remote net.Addr
}

func (c fakeConn) RemoteAddr() net.Addr { return c.remote }

// Many clients at once, good and hostile, do not keep each other from the right
// bytes.
func TestManyReaders(t *testing.T) {
	many := 10_000
	if racing {
		many = 500
	}
	c := serveImage(t, 1<<20, limits{all: 1 << 20, each: 1 << 20, header: time.Minute, write: time.Minute})
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 200, MaxIdleConnsPerHost: 200}}
	defer client.CloseIdleConnections()
	var group sync.WaitGroup
	for n := range many {
		group.Go(func() {
			path, from := c.path, (n*7919)%(1<<20)
			if n%10 == 9 {
				path = "/" + newPath("debian-12.iso")
			}
			r, err := http.NewRequest("GET", "http://"+c.at+path, nil)
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", from, from+2047))
			resp, err := client.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			want, status := c.content[from:min(from+2048, 1<<20)], 206
			if n%10 == 9 {
				want, status = nil, 404
			}
			if err != nil || resp.StatusCode != status || !bytes.Equal(body, want) {
				t.Errorf("%d: %s, %d bytes, %v", n, resp.Status, len(body), err)
			}
		})
	}
	group.Wait()
	if got := c.Totals(); got.Answered != int64(many-many/10) || got.Refused != int64(many/10) {
		t.Errorf("counted %+v", got)
	}
}

// FuzzServe holds that only the granted path gives bytes, that these are the right
// ones, and that what is said of them is true.
func FuzzServe(f *testing.F) {
	s, err := Open(f.TempDir(), Options{})
	if err != nil {
		f.Fatal(err)
	}
	defer s.Close()
	content := image(5000)
	i, err := s.Add(f.Context(), bytes.NewReader(content), 0, "", "x.iso", "", nil)
	if err != nil {
		f.Fatal(err)
	}
	server := newServer(s, slog.New(slog.DiscardHandler))
	path := "/" + strings.Repeat("T", 26) + "/x.iso"
	server.Grant(Grant{Node: "n1", SHA256: i.SHA256, URL: "http://h" + path})
	for _, seed := range [][2]string{{path, "bytes=0-1"}, {path, "bytes=-1"}, {path, "bytes=4999-"}, {path, "bytes=1-0"}, {path, "bytes=0-,0-"},
		{path + "?", ""}, {"//" + path, ""}, {path + "/..", "bytes=9223372036854775807-"}, {path, "bytes=-9223372036854775808"}, {"*", ""}} {
		f.Add("GET", seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, method, asked, ranges string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + asked + " HTTP/1.1\r\nHost: h\r\n\r\n")))
		if err != nil {
			return
		}
		r.Header.Set("Range", ranges)
		w := httptest.NewRecorder()
		server.ServeHTTP(&fromReader{w}, r)
		body := w.Body.Bytes()
		switch {
		case asked != path && !strings.HasSuffix(asked, "//h"+path): // the form for proxies names the host
			if w.Code != 404 || len(body) > 0 {
				t.Fatalf("%s %q: %d, %d bytes", method, asked, w.Code, len(body))
			}
		case w.Code == 206:
			var from, to, of int
			if _, err := fmt.Sscanf(w.Header().Get("Content-Range"), "bytes %d-%d/%d", &from, &to, &of); err != nil || of != len(content) || to >= of || from > to {
				t.Fatalf("%q: %v %s", ranges, err, w.Header().Get("Content-Range"))
			}
			if n := w.Header().Get("Content-Length"); n != strconv.Itoa(to-from+1) || method != "HEAD" && !bytes.Equal(body, content[from:to+1]) {
				t.Fatalf("%q: %s bytes are said, and %d come", ranges, n, len(body))
			}
		case w.Code == 200:
			if method != "HEAD" && !bytes.Equal(body, content) {
				t.Fatalf("%q: %d bytes", ranges, len(body))
			}
		case w.Code != 404 && w.Code != 416:
			t.Fatalf("%s %q %q: %d", method, asked, ranges, w.Code)
		}
	})
}

// fromReader is a recorder that reads, as the server's writer does.
type fromReader struct{ *httptest.ResponseRecorder }

func (w *fromReader) ReadFrom(r io.Reader) (int64, error) { return io.Copy(w.ResponseRecorder, r) }

// authority makes a certificate for 127.0.0.1, and the files with it.
func authority(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<60))
	c := &x509.Certificate{SerialNumber: serial, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: text}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(parsed)
	return pool
}

// A certificate that is renewed is used without a restart; one that is half
// written is not.
func TestTheCertificateIsRenewed(t *testing.T) {
	dir := t.TempDir()
	pool := authority(t, dir)
	c := &serve.Certificate{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := httpServer(http.NotFoundHandler(), usualLimits)
	srv.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	done := make(chan error, 1)
	go func() {
		done <- serve.Until(t.Context(), srv, tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.Get}))
	}()
	shake := func(pool *x509.CertPool) error {
		conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: pool})
		if err == nil {
			conn.Close()
		}
		return err
	}
	if err := shake(pool); err != nil {
		t.Fatal(err)
	}
	touch := func(name string, after time.Duration) {
		if err := os.Chtimes(name, time.Time{}, time.Now().Add(after)); err != nil {
			t.Fatal(err)
		}
	}
	key, err := os.ReadFile(c.Key)
	if err != nil {
		t.Fatal(err)
	}
	next := authority(t, dir)
	renewed, _ := os.ReadFile(c.Key)
	if err := os.WriteFile(c.Key, key, 0o600); err != nil { // the new certificate with the old key
		t.Fatal(err)
	}
	touch(c.Cert, time.Hour)
	if err := shake(pool); err != nil {
		t.Errorf("half renewed: %v", err)
	}
	if err := os.WriteFile(c.Key, renewed, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := shake(next); err != nil {
		t.Errorf("renewed: %v", err)
	}
	srv.Close()
	<-done
}

// written puts a word into a file as it is read.
type written struct {
	at   int64
	word string
}

func (w *written) On(file io.ReaderAt, size int64) (io.ReadSeeker, error) {
	if w.word == "" {
		return nil, fmt.Errorf("no word")
	}
	content := make([]byte, size)
	if _, err := file.ReadAt(content, 0); err != nil {
		return nil, err
	}
	copy(content[w.at:], w.word)
	return bytes.NewReader(content), nil
}

// A file with the words of one boot is served with them alone where it is granted so, in ranges
// too, and is not taken for the file without them.
func TestWordsOfABoot(t *testing.T) {
	c := serveImage(t, 100_000, usualLimits)
	g := c.byNode["n1"].Grant
	get := func(path, ranges string) (string, http.Header, int) {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, "http://"+c.at+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if ranges != "" {
			r.Header.Set("Range", ranges)
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text), a.Header, a.StatusCode
	}
	_, plain, _ := get(c.path, "")
	own := "/" + newPath("medium.iso")
	c.Grant(Grant{Node: "n1/agent", SHA256: g.SHA256, URL: "http://" + c.at + own, Words: &written{50_000, "secret-word"}})
	if text, h, code := get(own, "bytes=49998-50012"); code != http.StatusPartialContent || !strings.Contains(text, "secret-word") || h.Get("ETag") == plain.Get("ETag") {
		t.Errorf("got %d, %q, %v", code, text, h)
	}
	if text, _, _ := get(own, ""); len(text) != 100_000 || strings.Count(text, "secret-word") != 1 {
		t.Errorf("the whole has %d bytes", len(text))
	}
	if text, _, _ := get(c.path, ""); strings.Contains(text, "secret-word") {
		t.Error("others are served the words too")
	}
	c.Grant(Grant{Node: "n1/agent", SHA256: g.SHA256, URL: "http://" + c.at + own, Words: &written{}})
	if _, _, code := get(own, ""); code != http.StatusNotFound {
		t.Errorf("without its words: %d", code)
	}
	c.Revoke("n1/agent")
	if _, _, code := get(own, ""); code != http.StatusNotFound {
		t.Errorf("after its end: %d", code)
	}
	if strings.Contains(c.logged.String(), "secret-word") {
		t.Error("the log has the words")
	}
}
