package web

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/site"
)

// people is who may do what in the tests of the network.
const people = `role all: read records logs files audit approve disapprove pause resume retry quarantine release incident take-over
role viewer: read
role screen: read pause
person ana@example.org: all
person bob@example.org: viewer
person carol@example.org: all rack=r1
person dora@example.org: all
token screen: screen
design: read records pause quarantine
`

// onNetwork serves the pages of a fleet by HTTPS to those with a certificate. as makes the client of a
// person; "" has no certificate.
func onNetwork(t testing.TB, f *fleet) (address string, as func(mail string) *http.Client) {
	t.Helper()
	return inFolder(t, f, t.TempDir(), people)
}

// inFolder does so with an access file, and writes the files of the API into a folder.
func inFolder(t testing.TB, f *fleet, dir, lines string) (address string, as func(mail string) *http.Client) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	as = serves(t, f, dir, lines, l, (&net.Dialer{}).DialContext)
	return "https://" + l.Addr().String(), as
}

// serves does so on a listener.
func serves(t testing.TB, f *fleet, dir, lines string, l net.Listener, dial func(ctx context.Context, network, address string) (net.Conn, error)) (as func(mail string) *http.Client) {
	t.Helper()
	f.now = time.Now()
	ca, caKey := signed(t, nil, nil, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	server, serverKey := signed(t, ca, caKey, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	der, err := x509.MarshalECPrivateKey(serverKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"ca.pem":      pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}),
		"api.crt":     pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Raw}),
		"api.key":     pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}),
		"access.conf": []byte(lines),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	owner := uint32(os.Geteuid())
	n := &control.Network{Cert: filepath.Join(dir, "api.crt"), Key: filepath.Join(dir, "api.key"), Clients: filepath.Join(dir, "ca.pem"),
		Access: &access.File{Path: filepath.Join(dir, "access.conf"), Owner: owner}, Tokens: access.Tokens{Folder: filepath.Join(dir, "tokens.d"), Owner: owner}, Limits: f.limits}
	n.Pages = func(api http.Handler) control.Pages {
		f.pages = New(api)
		return f.pages
	}
	log := slog.New(slog.DiscardHandler)
	if f.log != nil {
		log = slog.New(f.log)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	if f.follows == nil {
		var d control.Daemon = f
		if f.behind {
			d = inFront(t, f, n.Access)
		}
		go func() { ended <- n.Serve(ctx, l, d, log) }()
	} else {
		own := n.Listener(f.follows, log)
		f.leads = func() { own.Lead(ctx, f) }
		go func() { ended <- own.Run(ctx, l) }()
	}
	f.ends = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	t.Cleanup(f.ends)
	return func(mail string) *http.Client {
		roots := x509.NewCertPool()
		roots.AddCert(ca)
		c := &tls.Config{RootCAs: roots}
		if mail != "" {
			cert, key := signed(t, ca, caKey, &x509.Certificate{EmailAddresses: []string{mail}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
			c.Certificates = []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}
		}
		transport := &http.Transport{TLSClientConfig: c, DialContext: dial}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
}

// signed is a certificate by an authority, or by itself.
func signed(t testing.TB, by *x509.Certificate, byKey *ecdsa.PrivateKey, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = serial, time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if by == nil {
		template.Subject = pkix.Name{CommonName: "test authority"}
		by, byKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by, key.Public(), byKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// sends is the answer to one request.
func sends(t testing.TB, c *http.Client, method, address, form string, headers ...string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Header
}

// On the network a page shows and offers what its caller may see and do, and nothing to anybody else.
func TestPagesOnTheNetwork(t *testing.T) {
	f := &fleet{said: "there"}
	address, as := onNetwork(t, f)
	ana, bob, carol, nobody := as("ana@example.org"), as("bob@example.org"), as("carol@example.org"), as("")
	const stop, act = `do/pause">Pause all`, `do/retry?node=web-1`
	for _, x := range []struct {
		who    string
		client *http.Client
		path   string
		status int
		has    []string
		hasNot []string
	}{
		{"ana", ana, "/sites/berlin", 200, []string{"ana@example.org", stop, "Review and approve", "do/incident?confirm="}, nil},
		{"ana", ana, "/sites/berlin/nodes/web-1", 200, []string{act, "Compromised…"}, nil},
		{"bob, who reads", bob, "/sites/berlin", 200, []string{"You may not approve here"}, []string{stop, "Review and", "do/"}},
		{"bob, who reads", bob, "/sites/berlin/nodes/web-1", 200, []string{"web-1"}, []string{"do/"}},
		{"bob, who reads", bob, "/sites/berlin/do/pause", 403, []string{"may not pause"}, nil},
		{"bob, who reads", bob, "/sites/berlin/audit", 403, []string{"audit"}, []string{"ana@example.org"}},
		{"carol of rack r1", carol, "/sites/berlin", 200, []string{"Of the nodes that you may see"}, []string{stop, "do/retry\""}},
		{"carol of rack r1", carol, "/sites/berlin/nodes/web-1", 200, []string{act, "Compromised…"}, []string{stop}},
		{"carol of rack r1", carol, "/sites/berlin/do/pause", 403, []string{"may not pause"}, nil},
		{"carol of rack r1", carol, "/sites/berlin/do/pause?node=web-1", 200, []string{`name="node" value="web-1"`}, nil},
		{"nobody", nobody, "/sites/berlin", 401, nil, []string{"web-1", "berlin"}},
		{"nobody", nobody, "/static/x/style.css", 401, nil, nil},
	} {
		status, text, header := sends(t, x.client, "GET", address+x.path, "")
		if status != x.status {
			t.Errorf("%s at %s: %d, want %d", x.who, x.path, status, x.status)
		}
		for _, part := range x.has {
			if !strings.Contains(text, part) {
				t.Errorf("%s at %s: no %q", x.who, x.path, part)
			}
		}
		for _, part := range x.hasNot {
			if strings.Contains(text, part) {
				t.Errorf("%s at %s: %q is there", x.who, x.path, part)
			}
		}
		if header.Get("Content-Security-Policy") != control.PagePolicy || header.Get("Cache-Control") != "no-store" && status == 200 {
			t.Errorf("%s at %s: %v", x.who, x.path, header)
		}
	}
}

// What a person does on a page is done as that person, within the rights of now, and never for a page of
// another site.
func TestActsOnTheNetwork(t *testing.T) {
	f := &fleet{said: "there"}
	address, as := onNetwork(t, f)
	ana, carol, bob := as("ana@example.org"), as("carol@example.org"), as("bob@example.org")
	own := []string{"Origin", address, "Sec-Fetch-Site", "same-origin"}
	const pause = "node=web-1&reason=smoke&sure=yes"
	for name, x := range map[string]struct {
		client  *http.Client
		form    string
		headers []string
		status  int
	}{
		"of another site":            {ana, pause, []string{"Origin", "https://evil.example.org", "Sec-Fetch-Site", "cross-site"}, 403},
		"of another site's origin":   {ana, pause, []string{"Origin", "https://evil.example.org"}, 403},
		"of another host's page":     {ana, pause, []string{"Sec-Fetch-Site", "same-site"}, 403},
		"of no browser":              {ana, pause, nil, 403},
		"of who may not":             {bob, pause, own, 403},
		"for the site, of one rack":  {carol, "reason=smoke&sure=yes", own, 403},
		"of ana":                     {ana, pause, own, 200},
		"of carol, for her rack":     {carol, pause, own, 200},
		"of another site, by a link": {ana, pause, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 403},
	} {
		f.orders = nil
		status, text, _ := sends(t, x.client, "POST", address+"/sites/berlin/do/pause", x.form, x.headers...)
		if status != x.status || (len(f.orders) > 0) != (x.status == 200) {
			t.Errorf("a form %s: %d, %d orders\n%s", name, status, len(f.orders), text[:min(len(text), 200)])
		}
	}
	status, _, _ := sends(t, carol, "POST", address+"/sites/berlin/do/pause", pause, own...)
	if status != 200 || len(f.orders) == 0 || !strings.Contains(f.orders[len(f.orders)-1].By, "carol@example.org") || f.orders[len(f.orders)-1].Verb != site.VerbPause {
		t.Errorf("%d, orders %+v", status, f.orders)
	}
	// A link on another site to a page only shows it to its own user; other reads get nothing.
	if status, _, _ := sends(t, ana, "GET", address+"/sites/berlin", "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"); status != 200 {
		t.Errorf("a link elsewhere: %d", status)
	}
	if status, _, _ := sends(t, ana, "GET", address+"/sites/berlin", "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"); status != 403 {
		t.Errorf("a picture elsewhere: %d", status)
	}
}

// An open page is told of changes over the network, and nobody else is.
func TestChangesOnTheNetwork(t *testing.T) {
	f := &fleet{said: "there"}
	address, as := onNetwork(t, f)
	live := address + "/sites/berlin/live?" + url.Values{"page": {"/sites/berlin/nodes/web-1"}}.Encode()
	if status, _, _ := sends(t, as(""), "GET", live, ""); status != 401 {
		t.Errorf("without a certificate: %d", status)
	}
	r, err := http.NewRequestWithContext(t.Context(), "GET", live, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := as("carol@example.org").Do(r)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%v %v", resp, err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	told := false
	for lines.Scan() {
		switch text := lines.Text(); {
		case !strings.HasPrefix(text, "data: "):
		case !told: // the whole page comes first
			told = true
			f.happens("Boots from disk")
		case strings.Contains(text, "Boots from disk"):
			return
		}
	}
	t.Error("the change was not told")
}

// A page of a node offers what the caller may do with that node, and not what it may do with others.
func TestPageOffersWhatIsAllowedOnTheNode(t *testing.T) {
	granted := (&site.Site{Nodes: map[string]*site.Node{"web-1": {Name: "web-1"}, "web-2": {Name: "web-2"}}, Access: site.Access{
		Roles: map[string]site.AccessRole{
			"viewer": {Verbs: []string{"read"}},
			"hands":  {Verbs: []string{"pause", "quarantine"}, Nodes: &site.Selector{Match: site.Match{Names: []string{"web-1"}}}},
		},
		People: map[string][]string{"erin@example.org": {"viewer", "hands"}}}}).Granted()
	at, as := onNetwork(t, &fleet{granted: site.GrantedState{Granted: granted}})
	erin := as("erin@example.org")
	for node, want := range map[string]bool{"web-1": true, "web-2": false} {
		status, text, _ := sends(t, erin, http.MethodGet, at+"/sites/berlin/nodes/"+node, "")
		if status != 200 || strings.Contains(text, "do/pause?node="+node) != want || strings.Contains(text, "do/quarantine?node="+node) != want || strings.Contains(text, "do/retry?") || strings.Contains(text, "do/approve?") {
			t.Errorf("%s: %d, offers a pause: %v", node, status, strings.Contains(text, "do/pause?node="+node))
		}
		if status, _, _ := sends(t, erin, http.MethodGet, at+"/sites/berlin/do/pause?node="+node, ""); (status == 200) != want {
			t.Errorf("the form of a pause of %s: %d", node, status)
		}
	}
	if _, text, _ := sends(t, erin, http.MethodGet, at+"/sites/berlin", ""); strings.Contains(text, "Pause all") {
		t.Error("a role of one node is offered to pause all")
	}
}

// No page asks for what its caller is known not to see: an attempt costs the caller much, and is in the log. Erin sees all, and
// the records of one node.
func TestPagesTryNothingDenied(t *testing.T) {
	var log seen
	granted := (&site.Site{Nodes: map[string]*site.Node{"web-1": {Name: "web-1"}, "web-2": {Name: "web-2"}}, Access: site.Access{
		Roles: map[string]site.AccessRole{
			"viewer": {Verbs: []string{"read"}},
			"looker": {Verbs: []string{"records"}, Nodes: &site.Selector{Match: site.Match{Names: []string{"web-1"}}}},
		},
		People: map[string][]string{"erin@example.org": {"viewer", "looker"}}}}).Granted()
	f := &fleet{said: "there", granted: site.GrantedState{Granted: granted}, log: slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})}
	at, as := onNetwork(t, f)
	for _, who := range []string{"bob@example.org", "carol@example.org", "erin@example.org"} {
		client := as(who)
		for _, v := range views {
			path := strings.NewReplacer("{site}", "berlin", "{node}", "web-2", "{number}", "7", "{commit}", newRack).Replace(v.path)
			before, _ := log.get()
			status, _, _ := sends(t, client, "GET", at+path, "")
			if after, _ := log.get(); status == 200 && after != before {
				t.Errorf("%s at %s: %s", who, path, after[len(before):])
			}
		}
	}
	const lacks = "you need the verb records"
	for node, want := range map[string]bool{"web-1": true, "web-2": false} {
		if status, text, _ := sends(t, as("erin@example.org"), "GET", at+"/sites/berlin/nodes/"+node+"/inventory", ""); status != 200 || strings.Contains(text, lacks) == want {
			t.Errorf("the inventory of %s: %d, with its records: %t", node, status, !strings.Contains(text, lacks))
		}
	}
}
