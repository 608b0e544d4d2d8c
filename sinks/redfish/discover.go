package redfish

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/slipway-gitops/slipway/engine/driver"
)

// The bounds of a sweep. Most addresses are silent, each in its own way, and
// have to be cheap; a BMC's slow processor has to have its time.
const (
	sweptAtOnce = 1024
	// dialledAtOnce is half of what the kernel's table of neighbours holds before
	// it drops those of others (arp(7), gc_thresh3).
	dialledAtOnce = 512
	// connectIn lets a lost SYN be sent once more (RFC 6298, section 2.1).
	connectIn = 1500 * time.Millisecond
	helloIn   = 2500 * time.Millisecond
	answerIn  = 4 * time.Second
	// maxRoot bounds what one address may send, in bytes.
	maxRoot = 1 << 20
)

const httpsPort = 443

// Discover implements driver.Discoverer: it reads the service root, which is
// there for everybody (DSP0266 section 13.2).
func (d *Driver) Discover(ctx context.Context, s driver.Sweep) error {
	dialer := net.Dialer{Timeout: connectIn, KeepAlive: -1}
	return discover(ctx, s, dialer.DialContext)
}

// atMost bounds how many connections are being made at a time.
func (d dial) atMost(n int) dial {
	slots := make(chan struct{}, n)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case slots <- struct{}{}:
		}
		defer func() { <-slots }()
		return d(ctx, network, address)
	}
}

// dial makes a connection to an address.
type dial func(ctx context.Context, network, address string) (net.Conn, error)

// discover sweeps with the connections of a dial.
func discover(ctx context.Context, s driver.Sweep, d dial) error {
	all, err := s.Addresses()
	if err != nil {
		return err
	}
	if s.Port < 0 || s.Port > 65535 {
		return refused("%d is not a port: use a number from 1 to 65535", s.Port)
	}
	port := uint16(cmp.Or(s.Port, httpsPort))
	d = d.atMost(dialledAtOnce)
	var next, done atomic.Int64
	var telling sync.Mutex
	var workers sync.WaitGroup
	for range min(cmp.Or(s.AtOnce, sweptAtOnce), len(all)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(all) && ctx.Err() == nil; i = next.Add(1) - 1 {
				f, ok := probe(ctx, d, netip.AddrPortFrom(all[i], port))
				telling.Lock()
				if ok && s.Found != nil {
					s.Found(f)
				}
				if n := done.Add(1); s.Asked != nil {
					s.Asked(int(n), len(all))
				}
				telling.Unlock()
			}
		})
	}
	workers.Wait()
	return ctx.Err()
}

// probe asks one address, over one connection.
func probe(ctx context.Context, d dial, at netip.AddrPort) (driver.Found, bool) {
	conn, err := d(ctx, "tcp", at.String())
	if err != nil {
		return driver.Found{}, false
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	conn.SetDeadline(time.Now().Add(helloIn))
	secure := tls.Client(&firstWord{Conn: conn}, &tls.Config{
		// Whose certificate it is does not matter yet: nothing secret is sent, and
		// what is answered is only a hint of where to log in, which verifies.
		InsecureSkipVerify: true,
		MinVersion:         tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		CurvePreferences: exchanges,
	})
	if secure.HandshakeContext(ctx) != nil {
		return driver.Found{}, false
	}
	root, ok := askRoot(secure, at)
	if !ok {
		return driver.Found{}, false
	}
	return driver.Found{
		Address: at.Addr(), URL: Scheme + "+https://" + hostPort(at),
		Vendor: vendorOf(root), Product: words(root, "Product"), UUID: strings.ToLower(words(root, "UUID")),
		Fingerprint: sum(secure.ConnectionState().PeerCertificates[0]),
	}, true
}

// firstWord is a connection on which the other side has to say something soon,
// and then has its time.
type firstWord struct {
	net.Conn
	heard bool
}

func (c *firstWord) Read(p []byte) (int, error) {
	if c.heard {
		return c.Conn.Read(p)
	}
	var n int
	var err error
	for range 3 {
		due := time.Now().Add(helloIn)
		c.SetDeadline(due)
		n, err = c.Conn.Read(p)
		// With a thousand connections it may be this host that is late, and what it
		// waits for be there.
		if late := time.Since(due); !errors.Is(err, os.ErrDeadlineExceeded) || late < helloIn/10 {
			break
		}
	}
	c.heard = true
	c.SetDeadline(time.Now().Add(answerIn))
	return n, err
}

// hostPort is an address as a URL has it, with a port that is not the usual one.
func hostPort(at netip.AddrPort) string {
	host := at.Addr().String()
	if at.Addr().Is6() {
		host = "[" + host + "]"
	}
	if at.Port() != httpsPort {
		host += ":" + strconv.Itoa(int(at.Port()))
	}
	return host
}

// askRoot asks for the service root. A BMC that leads to the root's other
// spelling, with or without the slash, is asked once more on the same
// connection; what leads off the address is not followed.
func askRoot(conn net.Conn, at netip.AddrPort) (object, bool) {
	in := bufio.NewReader(io.LimitReader(conn, maxRoot))
	path := schemas.DefaultServiceRoot
	for range 2 {
		resp, body, err := exchange(conn, in, at, path)
		if err != nil {
			return nil, false
		}
		if to := elsewhere(resp, at); to != "" {
			path = to
			continue
		}
		return rootOf(resp, body)
	}
	return nil, false
}

// exchange sends one request and reads its answer.
func exchange(conn net.Conn, in *bufio.Reader, at netip.AddrPort, path string) (*http.Response, []byte, error) {
	r := &http.Request{
		Method: http.MethodGet, URL: &url.URL{Scheme: "https", Host: hostPort(at), Path: path},
		Header: http.Header{"Accept": {"application/json"}, "Accept-Encoding": {"identity"}, "Odata-Version": {"4.0"}, "User-Agent": {"slipway"}},
	}
	if err := r.Write(conn); err != nil {
		return nil, nil, err
	}
	resp, err := http.ReadResponse(in, r)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, body, err
}

// elsewhere is the path on the same address that an answer leads to, empty
// when it leads nowhere.
func elsewhere(r *http.Response, at netip.AddrPort) string {
	to, err := r.Location()
	if err != nil || r.StatusCode < 300 || r.StatusCode > 399 || to.Scheme != "https" || to.Host != hostPort(at) {
		return ""
	}
	return to.Path
}

// rootOf is what an answer says of the service. A BMC that wants a login even
// here, or is busy, is told by the header that every answer of Redfish has
// (DSP0266 section 8.4).
func rootOf(r *http.Response, body []byte) (object, bool) {
	var root object
	if r.StatusCode == http.StatusOK && json.Unmarshal(body, &root) == nil {
		return root, at[string](root, "RedfishVersion") != "" || strings.HasPrefix(at[string](root, "@odata.type"), "#ServiceRoot.")
	}
	return object{}, r.StatusCode >= 400 && r.Header.Get("OData-Version") != ""
}

// vendorOf is the vendor of a service. Those older than ServiceRoot 1.5.0 do
// not say, and have what is theirs under their name.
func vendorOf(root object) string {
	if v := words(root, "Vendor"); v != "" {
		return v
	}
	for _, name := range slices.Sorted(maps.Keys(at[object](root, "Oem"))) {
		return printable(name)
	}
	return ""
}

// List implements driver.Lister by the collection of systems, without those that
// are parts of a machine. One that cannot be read now is listed: what it is, is
// not known.
func (m *machine) List(ctx context.Context) ([]string, error) {
	if m.path != "" {
		return []string{Scheme + "+https://" + m.client.host + m.path}, nil
	}
	paths, err := m.client.listed(ctx, systemsPath)
	if err != nil {
		return nil, err
	}
	if len(paths) > 1 {
		all, err := m.systems(ctx)
		if err != nil {
			return nil, err
		}
		paths = slices.DeleteFunc(paths, func(path string) bool {
			machine := slices.ContainsFunc(all.machines, func(s sibling) bool { return s.path == path })
			return !machine && all.unread[path] == nil
		})
	}
	var urls []string
	for _, path := range paths {
		if path = strings.TrimRight(path, "/"); strings.HasPrefix(path, "/redfish/v1/") {
			urls = append(urls, Scheme+"+https://"+m.client.host+path)
		}
	}
	return urls, nil
}
