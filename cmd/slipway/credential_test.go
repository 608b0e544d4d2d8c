package main

import (
	"bytes"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A command sends a credential no more freely than the daemon does, and says which files lack their use.
func TestCommandsKeepSecretsForTheirUse(t *testing.T) {
	const line = "b3BlbnNzaC1rZXktdjEAAAAACmFlczI1Ni1jdHIAAAAG"
	var mu sync.Mutex
	var took bytes.Buffer
	thief := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := httputil.DumpRequest(r, true) // what cannot be read did not arrive
		mu.Lock()
		defer mu.Unlock()
		took.Write(text)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"RedfishVersion":"1.6.0","Links":{"Sessions":{"@odata.id":"/redfish/v1/SessionService/Sessions"}}}`)
	}))
	thief.Config.ErrorLog = log.New(io.Discard, "", 0)
	thief.StartTLS()
	defer thief.Close()
	_, port, err := net.SplitHostPort(thief.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	head := "hosts: 127.0.0.1\nports: " + port + "\nusername: admin\n"
	key := "\n-----BEGIN OPENSSH PRIVATE KEY-----\n" + line + "\n-----END OPENSSH PRIVATE KEY-----\n"
	for name, text := range map[string]string{
		"old": head + key, "os": head + "use: ssh\n" + key, "word": head + "use: ssh\n\n" + line + "\n", "bmc": head + "\ntheir-own\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range []string{
		"bmc check redfish+https://127.0.0.1:PORT/redfish/v1/Systems/1 --trust-first-use",
		"discover --range 127.0.0.1/32 --port PORT --trust-first-use",
	} {
		for name, c := range map[string]struct{ says, warns string }{
			"old":  {"a private key, which is never sent", `add the line "use: redfish" to ` + filepath.Join(dir, "old")},
			"os":   {"is for ssh, and may not be sent by redfish", ""},
			"word": {"is for ssh, and may not be sent by redfish", ""},
			"bmc":  {"", `add the line "use: redfish" to ` + filepath.Join(dir, "bmc")},
		} {
			took.Reset()
			var out, errs bytes.Buffer
			args := append(strings.Fields(strings.ReplaceAll(command, "PORT", port)), "--credential", name, "--credentials", dir)
			execute(t.Context(), args, &out, &errs)
			said := out.String() + errs.String()
			switch {
			case !strings.Contains(said, c.says):
				t.Errorf("%s %s: does not say %q:\n%s", command, name, c.says, said)
			case strings.Contains(errs.String(), "warning:") != (c.warns != "") || !strings.Contains(errs.String(), c.warns):
				t.Errorf("%s %s: does not warn of %q:\n%s", command, name, c.warns, said)
			case strings.Contains(took.String(), line):
				t.Errorf("%s %s: sent the secret:\n%s", command, name, took.String())
			case strings.Contains(took.String(), "their-own") != (name == "bmc"):
				t.Errorf("%s %s: what may be sent was not, or something else was:\n%s", command, name, took.String())
			}
		}
	}
}
