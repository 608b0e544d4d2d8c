package e2e

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// thief is a program on a compromised node that speaks enough Redfish to be logged in to, and keeps what it is sent.
type thief struct {
	*httptest.Server
	mu   sync.Mutex
	took bytes.Buffer
}

func newThief(t *testing.T, address string) *thief {
	t.Helper()
	th := &thief{}
	l, err := net.Listen("tcp", address+":0")
	check(t, err)
	th.Server = httptest.NewUnstartedServer(th)
	th.Listener.Close()
	th.Listener = l
	th.Config.ErrorLog = log.New(io.Discard, "", 0)
	th.StartTLS()
	t.Cleanup(th.Close)
	return th
}

func (th *thief) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := httputil.DumpRequest(r, true)
	th.mu.Lock()
	defer th.mu.Unlock()
	fmt.Fprintf(&th.took, "%s %v\n", text, err)
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodPost {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	io.WriteString(w, `{"Links":{"Sessions":{"@odata.id":"/redfish/v1/SessionService/Sessions"}}}`)
}

// has says whether a secret arrived, in any of the forms that it has on the wire.
func (th *thief) has(secret string) bool {
	th.mu.Lock()
	defer th.mu.Unlock()
	text := th.took.String()
	for _, f := range secretForms(map[string]string{"": secret}) {
		if strings.Contains(text, f.text) {
			return true
		}
	}
	return false
}

// One merged line makes a program on a node's system its BMC, and names the credential that opens all systems. The
// program is sent neither the private key, whatever its file says, nor a password that is for SSH alone.
func TestSecretOfSystemsIsNotSentAsPasswordOfBMC(t *testing.T) {
	const canary = "canary-ssh-2b7e9d10"
	t.Parallel()
	w := newTown(t)
	th := newThief(t, "127.95.2.1")
	attack := strings.Replace(w.design(), fmt.Sprintf("endpoints: manager: url: %q", w.fleet.BMCURL("old-1")),
		fmt.Sprintf(`endpoints: manager: {url: "redfish+%s/redfish/v1/Systems/1", credential: "os", trust: {ca: _ @unset(), firstUse: true}}`, th.URL), 1)
	w.write("cred/os", "hosts: 127.95.2.0/24\nusername: admin\n\n"+w.key)
	w.start()
	w.commit(attack, "a harmless line")
	told := func(what, reason string) {
		t.Helper()
		w.status(what, func(s site.Status) bool { return strings.Contains(stateOf(s, "old-1").Reason, reason) })
	}
	told("a private key is no password", "private key")
	w.status("the file without its use is a problem of the site", func(s site.Status) bool {
		for _, p := range s.Problems {
			if p.About == "credentials" && strings.Contains(p.What, `"use: `) && strings.Contains(p.What, w.path("cred/os")) {
				return true
			}
		}
		return false
	})
	w.write("cred/new", "hosts: 127.95.2.0/24\nuse: ssh\nports: 1-65535\nusername: admin\n\n"+canary+"\n")
	w.rename("cred/new", "cred/os")
	told("a password of SSH is none of Redfish", "is for ssh")
	w.write("cred/new", "hosts: 127.95.2.0/24\nuse: redfish\nusername: admin\n\n"+canary+"\n")
	w.rename("cred/new", "cred/os")
	told("a port that is not named", "port")
	for what, secret := range map[string]string{"the private key": w.key, "the password": canary} {
		if th.has(secret) {
			t.Errorf("%s was sent:\n%s", what, th.took.String())
		}
	}
	// The same program is sent what its file allows: it would have kept the others too.
	w.write("cred/new", "hosts: 127.95.2.0/24\nuse: redfish\nports: 1-65535\nusername: admin\n\n"+canary+"\n")
	w.rename("cred/new", "cred/os")
	w.eventually("what may be sent arrives", func() bool { return th.has(canary) })
	w.stop()
}
