package control

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/access"
)

// A listener of a daemon that follows answers everybody that it does, and who leads to those alone who prove who they
// are. On the same connection it answers for the daemon once that leads.
func TestFollowingListener(t *testing.T) {
	o := &onNetwork{t: t, dir: t.TempDir(), servers: newAuthority(t), people: newAuthority(t)}
	certFile, keyFile := o.servers.keyFiles(t, o.dir, "first")
	o.network = &Network{Cert: certFile, Key: keyFile, Clients: o.dir + "/people.pem", Limits: Limits{UnknownRate: .001, UnknownBurst: 3},
		Access: &access.File{Path: o.dir + "/access.conf", Owner: owner()}, Tokens: access.Tokens{Folder: o.dir + "/tokens.d", Owner: owner()}}
	put(t, o.network.Clients, string(o.people.pem))
	put(t, o.network.Access.Path, roles)
	good := o.token("ci", time.Now(), time.Hour)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.url = "https://" + l.Addr().String()
	var asked atomic.Int32
	server := o.network.Listener(func() error {
		asked.Add(1)
		return fmt.Errorf("%w; site berlin is led by: host-a", ErrFollows)
	}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, l) }()
	ana, nobody := o.as(o.people.client(t, mail("ana@example.org"))), o.as(nil)
	stranger := o.people.client(t, mail("stranger@example.org"))
	for name, x := range map[string]struct {
		client              *http.Client
		method, path, token string
		knows               bool
	}{
		"a person":                  {ana, "GET", reportPath, "", true},
		"a person without a role":   {o.as(stranger), "GET", reportPath, "", true}, // the design of the leader may have one
		"a program":                 {nobody, "GET", "/api/v1/whoami", good, true},
		"an order":                  {ana, "POST", "/api/v1/sites/berlin/pause", "", true},
		"a path that is not there":  {ana, "GET", "/api/v9/x", "", true},
		"nobody":                    {nobody, "GET", reportPath, "", false},
		"nobody with an order":      {nobody, "POST", "/api/v1/sites/berlin/approve", "", false},
		"a browser with a session":  {nobody, "GET", "/", "", false},
		"a wrong token":             {nobody, "GET", reportPath, good[:len(good)-1], false},
		"a token and a certificate": {ana, "GET", reportPath, good, false},
		"a login of an OIDC issuer": {nobody, "GET", reportPath, "a.b.c", false},
	} {
		before := asked.Load()
		status, text := o.ask(x.client, x.method, x.path, x.token, "")
		if status != 503 || !strings.Contains(text, `"kind":"follows"`) || strings.Contains(text, "host-a") != x.knows || (asked.Load() > before) != x.knows {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	if status, text := o.ask(nobody, "GET", reportPath, "wrong", ""); status != 429 {
		t.Errorf("a fourth guess of a token: %d %s", status, text)
	}
	for name, headers := range map[string][]string{"a page of another site": {"Sec-Fetch-Site", "cross-site"}, "another origin": {"Origin", "https://evil.example"}} {
		if status, text := o.ask(ana, "GET", reportPath, "", "", headers...); status != 403 {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	if status, text := o.ask(ana, "GET", "/api/v1/%2e%2e/x", "", ""); status != 400 {
		t.Errorf("a path with two meanings: %d %s", status, text)
	}
	server.Lead(ctx, &fake{})
	if status, text := o.ask(ana, "GET", reportPath, "", ""); status != 200 {
		t.Errorf("once it leads: %d %s", status, text)
	}
	if status, text := o.ask(nobody, "GET", reportPath, "", ""); status != 401 {
		t.Errorf("nobody, once it leads: %d %s", status, text)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
