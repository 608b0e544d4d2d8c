package control

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/site"
)

// authority signs certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

var serial int64

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	a.cert, a.key, a.pem = sign(t, nil, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: "test authority"}})
	return a
}

// sign makes a certificate, valid for a day around now unless the template says something else.
func sign(t *testing.T, by *authority, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial++
	template.SerialNumber = big.NewInt(serial)
	if template.NotAfter.IsZero() {
		template.NotBefore, template.NotAfter = time.Now().Add(-12*time.Hour), time.Now().Add(12*time.Hour)
	}
	parent, parentKey := template, key
	if by != nil {
		parent, parentKey = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// client is a certificate of a person.
func (a *authority) client(t *testing.T, change func(*x509.Certificate)) *tls.Certificate {
	t.Helper()
	template := &x509.Certificate{KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	change(template)
	cert, key, _ := sign(t, a, template)
	return &tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

func mail(address string) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.EmailAddresses = []string{address} }
}

// keyFiles writes a certificate of the server.
func (a *authority) keyFiles(t *testing.T, dir, name string) (certFile, keyFile string) {
	t.Helper()
	_, key, text := sign(t, a, &x509.Certificate{
		DNSNames: []string{"slipway.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, Subject: pkix.Name{CommonName: name},
	})
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "api.crt"), filepath.Join(dir, "api.key")
	put(t, certFile, string(text))
	put(t, keyFile, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})))
	return certFile, keyFile
}

// put puts another file into the place of one.
func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// roles is the access file of the tests.
const roles = `# who may do what
role viewer: read
role all: read records logs files audit artifacts export approve disapprove take-over pause resume retry verify quarantine release ssh
role program: read records logs files audit artifacts disapprove pause resume retry verify quarantine
person ana@example.org: all
person bob@example.org: viewer
person carol@example.org: all rack=r1
person eve@example.org: all site=paris
token ci: program
token grafana: viewer
`

// onNetwork is the API of a daemon on loopback.
type onNetwork struct {
	t       *testing.T
	dir     string
	url     string
	servers *authority
	people  *authority
	network *Network
	stop    func() error
}

// owner is who owns the files of tests.
func owner() uint32 { return uint32(os.Geteuid()) }

func listening(t *testing.T, d Daemon, change func(*Network)) *onNetwork {
	t.Helper()
	o := &onNetwork{t: t, dir: t.TempDir(), servers: newAuthority(t), people: newAuthority(t)}
	certFile, keyFile := o.servers.keyFiles(t, o.dir, "first")
	put(t, filepath.Join(o.dir, "people.pem"), string(o.people.pem))
	put(t, filepath.Join(o.dir, "access.conf"), roles)
	o.network = &Network{
		Address: "127.0.0.1:0", Cert: certFile, Key: keyFile, Clients: filepath.Join(o.dir, "people.pem"),
		Access: &access.File{Path: filepath.Join(o.dir, "access.conf"), Owner: owner()}, Tokens: access.Tokens{Folder: filepath.Join(o.dir, "tokens.d"), Owner: owner()},
	}
	if change != nil {
		change(o.network)
	}
	ctx, cancel := context.WithCancel(t.Context())
	l, err := o.network.Listen(ctx)
	if err != nil {
		t.Fatal(err)
	}
	o.url = "https://" + l.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- o.network.Serve(ctx, l, d, slog.New(slog.DiscardHandler)) }()
	o.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { o.stop() })
	return o
}

// token makes one and gives its text.
func (o *onNetwork) token(name string, made time.Time, life time.Duration) string {
	o.t.Helper()
	text, err := o.network.Tokens.Make(name, "root", made, life)
	if err != nil {
		o.t.Fatal(err)
	}
	return text
}

// as is an HTTP client with a certificate, or none.
func (o *onNetwork) as(cert *tls.Certificate) *http.Client {
	roots := x509.NewCertPool()
	roots.AddCert(o.servers.cert)
	c := &tls.Config{RootCAs: roots}
	if cert != nil {
		c.Certificates = []tls.Certificate{*cert}
	}
	transport := &http.Transport{TLSClientConfig: c, MaxIdleConnsPerHost: 8}
	o.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// ask sends a request, with a token unless that is empty.
func (o *onNetwork) ask(c *http.Client, method, path, token, body string, headers ...string) (status int, answer string) {
	o.t.Helper()
	req, err := http.NewRequestWithContext(o.t.Context(), method, o.url+path, strings.NewReader(body))
	if err != nil {
		o.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

const reportPath = "/api/v1/sites/berlin/report"

func TestWhoIsKnown(t *testing.T) {
	o := listening(t, &fake{}, nil)
	others := newAuthority(t)
	now := time.Now()
	good := o.token("grafana", now, time.Hour)
	expired := o.token("ci", now.Add(-2*time.Hour), time.Hour)
	future := o.token("later", now.Add(time.Hour), time.Hour)
	ana := o.people.client(t, mail("ana@example.org"))
	for name, x := range map[string]struct {
		cert  *tls.Certificate
		token string
		want  int
		says  string
	}{
		"nobody":              {nil, "", 401, "show a certificate of a person, or the token"},
		"a person":            {ana, "", 200, ""},
		"a program":           {nil, good, 200, ""},
		"both":                {ana, good, 401, "show one of them"},
		"expired token":       {nil, expired, 401, "the token is not valid"},
		"token of the future": {nil, future, 401, "the token is not valid"},
		"another secret":      {nil, good[:len(good)-4] + "AAAA", 401, "the token is not valid"},
		"shortened":           {nil, good[:len(good)-1], 401, "the token is not valid"},
		"name of a path":      {nil, strings.Replace(good, "grafana", "../tokens.d/grafana", 1), 401, "the token is not valid"},
		"of nobody":           {nil, strings.Replace(good, "grafana", "nothere", 1), 401, "the token is not valid"},
		"of another":          {nil, strings.Replace(good, "grafana", "ci", 1), 401, "the token is not valid"},
		"empty token":         {nil, " ", 401, ""},
		"another authority":   {others.client(t, mail("ana@example.org")), "", 0, "certificate"},
		"expired certificate": {o.people.client(t, func(c *x509.Certificate) {
			mail("ana@example.org")(c)
			c.NotBefore, c.NotAfter = now.Add(-2*time.Hour), now.Add(-time.Hour)
		}), "", 0, "certificate"},
		"not yet valid": {o.people.client(t, func(c *x509.Certificate) {
			mail("ana@example.org")(c)
			c.NotBefore, c.NotAfter = now.Add(time.Hour), now.Add(2*time.Hour)
		}), "", 0, "certificate"},
		"certificate of a server": {o.people.client(t, func(c *x509.Certificate) {
			mail("ana@example.org")(c)
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}), "", 0, "certificate"},
		"two addresses":            {o.people.client(t, func(c *x509.Certificate) { c.EmailAddresses = []string{"ana@example.org", "bob@example.org"} }), "", 401, "names 2 e-mail addresses"},
		"common name of an e-mail": {o.people.client(t, func(c *x509.Certificate) { c.Subject.CommonName = "ana@example.org" }), "", 401, "looks like an e-mail address"},
		"common name with a line":  {o.people.client(t, func(c *x509.Certificate) { c.Subject.CommonName = "ana\nbob" }), "", 401, "the name has the character"},
		"two common names": {o.people.client(t, func(c *x509.Certificate) {
			name := asn1.ObjectIdentifier{2, 5, 4, 3}
			c.Subject = pkix.Name{ExtraNames: []pkix.AttributeTypeAndValue{{Type: name, Value: "bob"}, {Type: name, Value: "ana"}}}
		}), "", 401, "more than one common name"},
		"address without a host":     {o.people.client(t, mail("ana")), "", 401, "its e-mail address is none"},
		"address with an apostrophe": {o.people.client(t, mail("o'brien@example.org")), "", 403, "o'brien@example.org (certificate) may not read"},
		"no name":                    {o.people.client(t, func(*x509.Certificate) {}), "", 401, "the name is empty"},
		"a stranger":                 {o.people.client(t, mail("zoe@example.org")), "", 403, "no line of the access file"},
		"common name of a token":     {o.people.client(t, func(c *x509.Certificate) { c.Subject.CommonName = "ci" }), "", 403, "no line of the access file"},
	} {
		t.Run(name, func(t *testing.T) {
			status, answer := o.ask(o.as(x.cert), http.MethodGet, reportPath, x.token, "")
			if status != x.want || !strings.Contains(answer, x.says) {
				t.Errorf("got %d %.200s, want %d %q", status, answer, x.want, x.says)
			}
			if strings.Contains(answer, "tokens.d") {
				t.Errorf("the answer names a file: %s", answer)
			}
		})
	}
}

// What was right and is not any more is refused on connections that are open already.
func TestRightsEndAtOnce(t *testing.T) {
	at := time.Now()
	var mu sync.Mutex
	var problems []error
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return at }
	o := listening(t, &fake{}, func(n *Network) { n.Now, n.Problem = clock, func(err error) { problems = append(problems, err) } })
	ana, program := o.as(o.people.client(t, mail("ana@example.org"))), o.as(nil)
	token := o.token("grafana", at, time.Hour)
	want := func(what string, c *http.Client, token string, status int) {
		t.Helper()
		if got, answer := o.ask(c, http.MethodGet, reportPath, token, ""); got != status {
			t.Errorf("%s: %d %s, want %d", what, got, answer, status)
		}
	}
	want("a person", ana, "", 200)
	want("a program", program, token, 200)
	put(t, o.network.Access.Path, strings.ReplaceAll(strings.ReplaceAll(roles, "person ana", "# person ana"), "token grafana", "# token grafana"))
	want("a person without a line", ana, "", 403)
	want("a program without a line", program, token, 403)
	put(t, o.network.Access.Path, "role x: fly\n")
	want("while the file is wrong", ana, "", 403)
	want("and still", ana, "", 403)
	if len(problems) != 1 || problems[0] == nil || !strings.Contains(problems[0].Error(), "access.conf:1: role x") {
		t.Errorf("problems: %v", problems)
	}
	put(t, o.network.Access.Path, roles)
	want("a person again", ana, "", 200)
	if err := os.Chmod(o.network.Access.Path, 0o666); err != nil {
		t.Fatal(err)
	}
	want("while others can write the file", ana, "", 403)
	put(t, o.network.Access.Path, roles)
	if err := o.network.Tokens.Revoke("grafana"); err != nil {
		t.Fatal(err)
	}
	want("a token that was revoked", program, token, 401)
	token = o.token("grafana", at, time.Hour)
	want("another of that name", program, token, 200)
	put(t, o.network.Clients, string(newAuthority(t).pem))
	want("an authority that was taken away", ana, "", 401)
	put(t, o.network.Clients, string(o.people.pem))
	want("and is back", ana, "", 200)
	mu.Lock()
	at = at.Add(13 * time.Hour)
	mu.Unlock()
	want("an expired certificate", ana, "", 401)
	want("an expired token", program, token, 401)
}

// A certificate that is renewed is shown to the next connection, and one that is half written is not.
func TestCertificateIsReadAgain(t *testing.T) {
	o := listening(t, &fake{}, nil)
	shown := func() string {
		t.Helper()
		roots := x509.NewCertPool()
		roots.AddCert(o.servers.cert)
		c, err := tls.Dial("tcp", strings.TrimPrefix(o.url, "https://"), &tls.Config{RootCAs: roots})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if v := c.ConnectionState().Version; v != tls.VersionTLS13 || c.ConnectionState().NegotiatedProtocol == "h2" {
			t.Errorf("version %x, protocol %s", v, c.ConnectionState().NegotiatedProtocol)
		}
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	if got := shown(); got != "first" {
		t.Errorf("shown %q", got)
	}
	put(t, o.network.Cert, "half of a fi")
	if got := shown(); got != "first" {
		t.Errorf("shown %q of a half renewed one", got)
	}
	o.servers.keyFiles(t, o.dir, "second")
	if got := shown(); got != "second" {
		t.Errorf("shown %q of a renewed one", got)
	}
	if _, err := tls.Dial("tcp", strings.TrimPrefix(o.url, "https://"), &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10, InsecureSkipVerify: true}); err == nil {
		t.Error("TLS 1.1 was accepted")
	}
}

func TestListenRefuses(t *testing.T) {
	for what, change := range map[string]struct {
		change func(*Network)
		says   string
	}{
		"no certificate": {func(n *Network) { n.Cert = "nothere" }, "--api-cert and --api-key take PEM files"},
		"no authority":   {func(n *Network) { n.Clients = n.Key }, "there is no certificate in"},
		"no access file": {func(n *Network) { n.Access.Path = "nothere" }, "there is no access file nothere, so nobody may use the API"},
		"wrong verb":     {func(n *Network) { put(t, n.Access.Path, "role x: fly\n") }, `access.conf:1: role x has "fly", which is not one of the verbs: read, records`},
		"wrong address":  {func(n *Network) { n.Address = "192.0.2.1:99" }, "--api 192.0.2.1:99"},
	} {
		o := &onNetwork{t: t, dir: t.TempDir(), servers: newAuthority(t)}
		certFile, keyFile := o.servers.keyFiles(t, o.dir, "x")
		put(t, filepath.Join(o.dir, "access.conf"), roles)
		n := &Network{Address: "127.0.0.1:0", Cert: certFile, Key: keyFile, Access: &access.File{Path: filepath.Join(o.dir, "access.conf"), Owner: owner()}}
		change.change(n)
		if l, err := n.Listen(t.Context()); err == nil || !strings.Contains(err.Error(), change.says) {
			t.Errorf("%s: %v, %v", what, l, err)
		}
	}
}

// A page of another site can have a browser send requests with the certificate of its user.
func TestPagesOfOthersGetNothing(t *testing.T) {
	f := &fake{}
	o := listening(t, f, nil)
	ana := o.as(o.people.client(t, mail("ana@example.org")))
	const body = `{"all":true,"reason":"x"}`
	for _, headers := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example.org"}, {"Sec-Fetch-Site", "same-site"}} {
		if status, answer := o.ask(ana, http.MethodPost, "/api/v1/sites/berlin/pause", "", body, headers...); status != 403 {
			t.Errorf("%v: %d %s", headers, status, answer)
		}
	}
	if status, answer := o.ask(ana, http.MethodPost, "/api/v1/sites/berlin/pause", "", body, "Content-Type", "application/x-www-form-urlencoded"); status != 400 {
		t.Errorf("as of a form: %d %s", status, answer)
	}
	if len(f.orders) != 0 {
		t.Errorf("carried out: %+v", f.orders)
	}
	req, _ := http.NewRequest(http.MethodGet, o.url+reportPath, nil)
	req.Header.Set("Origin", "https://evil.example.org")
	resp, err := ana.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	for name := range resp.Header {
		if strings.HasPrefix(name, "Access-Control-") {
			t.Errorf("%s is sent", name)
		}
	}
	if resp.Header.Get("Cache-Control") != "no-store" || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("headers: %v", resp.Header)
	}
}

// What is asked to be done is written down before it is done, with who, by what and from where; what is
// denied is too, and nothing is done that cannot be written down.
func TestActsAreInTheAuditLog(t *testing.T) {
	f := &fake{}
	o := listening(t, f, nil)
	ana, nobody := o.as(o.people.client(t, mail("ana@example.org"))), o.as(nil)
	grafana := o.token("grafana", time.Now(), time.Hour)
	const pause = "/api/v1/sites/berlin/pause"
	o.ask(ana, http.MethodPost, pause, "", `{"node":"n1","reason":"rack\u001b[2J move"}`)
	o.ask(ana, http.MethodPost, "/api/v1/sites/berlin/approve", "", `{"digest":"`+digestOfAll+`"}`)
	o.ask(ana, http.MethodPost, "/api/v1/sites/berlin/retry", "", `{"all":true}`)
	o.ask(nobody, http.MethodPost, pause, grafana, `{"node":"n1","reason":"x"}`)
	o.ask(nobody, http.MethodPost, pause, "", `{"node":"n1","reason":"x"}`)
	want := []string{
		`ana@example.org person 127.0.0.1 pause n1 "rack\\u001b[2J move" done "paused n1"`,
		`ana@example.org person 127.0.0.1 approve  "" refused "refused: nothing waits for approval"`,
		`ana@example.org person 127.0.0.1 retry  "" failed "disk full"`,
		`grafana token 127.0.0.1 pause n1 "x" denied "denied: token grafana may not pause node n1 of site berlin: no line of the access file on the daemon's host allows it; that needs one of the roles all (access file), program (access file)"`,
		` nobody 127.0.0.1 pause  "" denied "not authenticated: show a certificate of a person, or the token of a program as \"Authorization: Bearer TOKEN\""`,
	}
	for i, w := range want {
		if i >= len(f.audit) {
			t.Fatalf("%d entries, want %d", len(f.audit), len(want))
		}
		a := f.audit[i]
		if got := fmt.Sprintf("%s %s %s %s %s %q %s %q", a.By, a.Kind, a.From, a.Verb, a.Node, a.Reason, a.Outcome, a.Text); got != w {
			t.Errorf("entry %d:\n got %s\nwant %s", i, got, w)
		}
	}
	if len(f.orders) != 1 || f.orders[0].By != "ana@example.org (certificate)" {
		t.Errorf("orders: %+v", f.orders)
	}
	f.full = true
	if status, answer := o.ask(ana, http.MethodPost, pause, "", `{"node":"n1","reason":"x"}`); status != 500 || !strings.Contains(answer, "nothing was done") || len(f.orders) != 1 {
		t.Errorf("without an audit log: %d %s, orders %+v", status, answer, f.orders)
	}
	f.full = false
	var entries []struct{ By string }
	if status, answer := o.ask(ana, http.MethodGet, "/api/v1/sites/berlin/audit?after=1&limit=2", "", ""); status != 200 || json.Unmarshal([]byte(answer), &entries) != nil || len(entries) != 2 {
		t.Errorf("read: %d %s", status, answer)
	}
}

// What a user of the host asks for goes on without an audit log; the daemon's log says what came of it, which
// may be that nothing was done.
func TestUnwrittenActsAreInTheLog(t *testing.T) {
	var log strings.Builder
	socket := newAPI(&fake{full: true}, nil, Limits{}, 0, slog.New(slog.NewTextHandler(&log, nil))).mux()
	for verb, outcome := range map[string]string{"retry": "failed", "approve": "refused"} {
		log.Reset()
		body := map[string]string{"retry": `{"all":true}`, "approve": `{"digest":"` + digestOfAll + `"}`}[verb]
		handled(socket, access.Caller{Kind: access.User, Name: "root"}, asked{route: route{method: http.MethodPost}, path: "/api/v1/sites/berlin/" + verb, body: body})
		if text := log.String(); !strings.Contains(text, "goes on without an entry in the audit log") || !strings.Contains(text, "what="+verb+` node="" outcome=`+outcome) {
			t.Errorf("%s: %s", verb, text)
		}
	}
}

// Somebody who sends slowly, or holds connections, keeps nobody else from being answered.
func TestSlowAndManyConnections(t *testing.T) {
	o := listening(t, &fake{}, func(n *Network) { n.Limits.Connections, n.Limits.ConnectionsOfOne = 20, 10 })
	address := strings.TrimPrefix(o.url, "https://")
	var held []net.Conn
	for range 15 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		held = append(held, c)
	}
	closedWithin := func(d time.Duration) (n int32) {
		var closed atomic.Int32
		var wg sync.WaitGroup
		for _, c := range held {
			c.SetReadDeadline(time.Now().Add(d))
			wg.Go(func() {
				if _, err := c.Read(make([]byte, 1)); err == io.EOF || strings.Contains(fmt.Sprint(err), "reset") {
					closed.Add(1)
				}
			})
		}
		wg.Wait()
		return closed.Load()
	}
	if n := closedWithin(time.Second); n != 5 {
		t.Errorf("%d of 15 connections were closed, want the 5 that are too many", n)
	}
	if n := closedWithin(networkHeader + 5*time.Second); n != 15 { // which send nothing
		t.Errorf("%d of 15 connections were closed in the end", n)
	}
	for _, c := range held {
		c.Close()
	}
	ana := o.as(o.people.client(t, mail("ana@example.org")))
	for t.Context().Err() == nil { // until the server has seen that they are gone
		if status, _ := o.ask(ana, http.MethodGet, reportPath, "", ""); status == 200 {
			break
		}
	}
}

// Who asks too much has to wait, and who is not known more so; others do not notice.
func TestRates(t *testing.T) {
	o := listening(t, &fake{}, func(n *Network) {
		n.Limits = Limits{Rate: 0.001, Burst: 5, UnknownRate: 0.001, UnknownBurst: 3}
	})
	ana, bob, nobody := o.as(o.people.client(t, mail("ana@example.org"))), o.as(o.people.client(t, mail("bob@example.org"))), o.as(nil)
	count := func(c *http.Client, token string, n, status int) (got int) {
		for range n {
			if s, _ := o.ask(c, http.MethodGet, reportPath, token, ""); s == status {
				got++
			}
		}
		return got
	}
	if got := count(ana, "", 8, 200); got != 5 {
		t.Errorf("%d of 8 were answered", got)
	}
	if got := count(nobody, "slipway_x.y", 8, 401); got != 3 {
		t.Errorf("%d of 8 were told that it is not valid", got)
	}
	if got := count(bob, "", 1, 200); got != 1 {
		t.Error("others are kept off too")
	}
	if status, answer := o.ask(bob, http.MethodPost, "/api/v1/sites/berlin/pause", "", `{"all":true,"reason":"x"}`); status != 403 {
		t.Errorf("%d %s", status, answer)
	}
	if got := count(bob, "", 3, 429); got != 3 {
		t.Errorf("after a denied one: %d of 3 have to wait", got)
	}
}

func TestAccessFileIsNeverInAnAnswer(t *testing.T) {
	o := listening(t, &fake{}, nil)
	var all bytes.Buffer
	put(t, o.network.Access.Path, "role x: fly\n")
	_, answer := o.ask(o.as(o.people.client(t, mail("ana@example.org"))), http.MethodGet, reportPath, "", "")
	all.WriteString(answer)
	if strings.Contains(all.String(), o.dir) {
		t.Errorf("the answer has a path of the host: %s", all.String())
	}
}

func TestChartInParts(t *testing.T) {
	o := listening(t, &fake{}, nil)
	ana := o.as(o.people.client(t, mail("ana@example.org")))
	for query, want := range map[string]string{"": "n2 n1 n3", "?limit=1": "n2", "?after=n2": "n1 n3", "?after=n2&limit=1": "n1", "?after=n3": "", "?limit=9": "n2 n1 n3"} {
		var chart site.RolloutChart
		status, answer := o.ask(ana, http.MethodGet, "/api/v1/sites/berlin/rollout/chart"+query, "", "")
		if err := json.Unmarshal([]byte(answer), &chart); status != 200 || err != nil {
			t.Fatalf("%s: %d %s", query, status, answer)
		}
		var names []string
		for _, r := range chart.Rows {
			names = append(names, r.Node)
		}
		if got := strings.Join(names, " "); got != want || chart.Site != "berlin" {
			t.Errorf("%s: rows %q, want %q", query, got, want)
		}
	}
	for query, want := range map[string]int{"?after=n9": 404, "?limit=0": 400, "?limit=x": 400} {
		if status, answer := o.ask(ana, http.MethodGet, "/api/v1/sites/berlin/rollout/chart"+query, "", ""); status != want {
			t.Errorf("%s: %d %s", query, status, answer)
		}
	}
}
