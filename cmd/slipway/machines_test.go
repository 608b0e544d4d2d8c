package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Where a certificate is trusted at its first use, the daemon has seen it: who
// looks without the daemon sends no password to one that shows another.
func TestLookGoesByTheCertificateOfTheFirstUse(t *testing.T) {
	var asked atomic.Int32
	bmc := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	bmc.Config.ErrorLog = log.New(io.Discard, "", 0)
	bmc.StartTLS()
	defer bmc.Close()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "bmc"), []byte("hosts: 127.0.0.0/8\nuse: redfish\nports: 1024-65535\nusername: admin\n\nhunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	secrets, err := secret.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	e := site.Endpoint{URL: "redfish+" + bmc.URL, Credential: "bmc", Trust: site.Trust{FirstUse: true}}
	s := &site.Site{Nodes: map[string]*site.Node{"n1": {Name: "n1", Endpoints: map[site.EndpointKind]site.Endpoint{site.Manager: e}}}}
	shown := site.Certificate{Endpoint: e.URL, Fingerprint: "sha256:" + strings.Repeat("0", 64)}
	for name, c := range map[string]struct {
		memory map[string]site.Memory
		asks   bool
	}{
		"another one was shown before": {map[string]site.Memory{"n1": {Recorded: site.Recorded{Certificate: &shown}}}, false},
		"none was":                     {nil, true},
	} {
		asked.Store(0)
		_, failures := look(context.Background(), s, c.memory, secrets, func(int, int) {})
		if failures["n1"] == nil || (asked.Load() > 0) != c.asks {
			t.Errorf("%s: asked %d times, %v", name, asked.Load(), failures["n1"])
		}
	}
}

func TestWhyAMachineWasNotSeen(t *testing.T) {
	denied := fmt.Errorf("observe n1: %w", driver.Say("wrong BMC password or locked account", errors.New("denied: POST https://n1/redfish/v1/SessionService/Sessions answered 401")))
	if got, want := whyNotSeen(denied), "wrong BMC password or locked account (observe n1: denied: POST https://n1/redfish/v1/SessionService/Sessions answered 401)"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got := whyNotSeen(errors.New("unreachable: EOF")); got != "unreachable: EOF" {
		t.Errorf("got %s", got)
	}
}
