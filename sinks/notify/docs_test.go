package notify

import (
	"context"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/secret"
)

var (
	docsCommand    = regexp.MustCompile(`(?m)^ *\$ slipway run … --notify-form (\w+) --notify-webhook (https://\S+) --notify-credential (\w+)$`)
	docsCredential = regexp.MustCompile("(?ms)^( *)```credential\n(.*?)^ *```$")
)

// The examples of docs/notifications.md are taken by the services: each command
// with the credential above it. The services' names lead to the doubles.
func TestExamplesOfTheDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/notifications.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := strings.Split(string(text), "\n### ")
	tried := 0
	for _, section := range sections[1:] {
		block, command := docsCredential.FindStringSubmatch(section), docsCommand.FindStringSubmatch(section)
		if block == nil || command == nil {
			t.Errorf("no example in %.20q", section)
			continue
		}
		form, address, name := command[1], command[2], command[3]
		dir := t.TempDir()
		file := strings.ReplaceAll("\n"+block[2], "\n"+block[1], "\n")[1:]
		if err := os.WriteFile(filepath.Join(dir, name), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		store, err := secret.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		w, err := NewWebhook(address, name, form, store)
		if err != nil {
			t.Errorf("%s: %v", form, err)
			continue
		}
		s := &service{check: services[form].check, ok: services[form].ok}
		leadTo(t, s, w)
		if err := w.Send(t.Context(), message()); err != nil {
			t.Errorf("%s: %v", form, err)
		}
		tried++
	}
	if tried != len(services) {
		t.Errorf("%d examples of %d forms", tried, len(services))
	}
}

// leadTo has every name lead to a double with a certificate.
func leadTo(t *testing.T, s *service, w *Webhook) {
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(s.Close)
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	transport := w.client.Transport.(*http.Transport)
	transport.TLSClientConfig.RootCAs, transport.TLSClientConfig.ServerName = pool, "example.com" // the double's
	transport.Proxy = nil
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, s.Listener.Addr().String())
	}
}
