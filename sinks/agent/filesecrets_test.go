package agent_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/sshclient/sshdtest"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// The content of a file is set from a credential, seen to be the designed one, and set again
// after somebody changed it or the credential. The machine tells digests with keys that are
// used once, and nothing of them is kept of a look.
func TestFilesWithSecrets(t *testing.T) {
	t.Parallel()
	h := startHost(t, helperFolder(t, testHelper))
	sshdtest.Write(t, filepath.Join(h.root, "record"), "")
	content := "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2Vw\n-----END PRIVATE KEY-----"
	refusal := error(nil)
	m := h.open(t, 1)
	m.(driver.Keyholder).Credentials(func(name string, use secret.Use) (secret.Value, error) {
		if name != "app-tls" || use != secret.File {
			t.Errorf("asked for %q for %s", name, use)
		}
		return secret.New("", content), refusal
	})
	motd := "plain"
	n := &site.Node{Name: "n1", System: site.System{Files: map[string]site.File{"/etc/key.pem": {Credential: "app-tls"}}}}
	step := site.Step{Node: "n1", Facet: site.FacetConfig, Action: site.ActionConfig}
	const field = "files./etc/key.pem.content"
	at := filepath.Join(h.root, "key.pem")
	see := func(is string) site.FacetState {
		t.Helper()
		seen, err := m.Observe(t.Context(), n, []site.Facet{site.FacetConfig})
		if err != nil {
			t.Fatal(err)
		}
		s := seen.Facets[site.FacetConfig]
		text, err := json.Marshal(seen)
		if err != nil || strings.Contains(string(text), "hmac") || strings.Contains(string(text), "MC4C") || strings.Contains(string(text), item.Digest([]byte(content))) || s.Have[field] != is {
			t.Errorf("%v: want %q in the look %s", err, is, text)
		}
		return s
	}
	apply := func() {
		t.Helper()
		if err := m.Apply(t.Context(), step, n, nil); err != nil {
			t.Error(err)
		}
	}

	if s := see(""); plan.AsDesigned(n, site.FacetConfig, s) {
		t.Errorf("before: got %+v", s)
	}
	apply()
	if got := sshdtest.Read(t, at); got != content+"\n" {
		t.Errorf("it has %q", got)
	}
	if s := see("that of credential app-tls"); !plan.AsDesigned(n, site.FacetConfig, s) {
		t.Errorf("got %+v", s)
	}
	sshdtest.Write(t, at, "that of somebody")
	if s := see("another one"); plan.AsDesigned(n, site.FacetConfig, s) {
		t.Errorf("after somebody changed it: got %+v", s)
	}
	apply()
	content = "hobbes 9"
	see("another one")
	apply()
	if got := sshdtest.Read(t, at); got != "hobbes 9" {
		t.Errorf("it has %q", got)
	}
	see("that of credential app-tls")

	// The rest of the facet goes on while the credential cannot be read.
	n.System.Files["/etc/motd"] = site.File{Content: &motd}
	for says, c := range map[string]struct {
		content string
		refusal error
	}{
		`may not be sent to "h"`:            {content, fmt.Errorf(`%w: "app-tls" may not be sent to "h"`, secret.ErrHost)},
		"longer than the 65536 bytes":       {strings.Repeat("x", item.MaxSecret+1), nil},
		"there is no file /cred/app-tls":    {content, fmt.Errorf("%w: there is no file /cred/app-tls", secret.ErrMissing)},
		"credential missing: there is no f": {content, fmt.Errorf("%w: there is no file /cred/app-tls", secret.ErrMissing)},
	} {
		content, refusal = c.content, c.refusal
		s := see("unknown")
		if plan.AsDesigned(n, site.FacetConfig, s) || !strings.Contains(s.Cannot[field], says) {
			t.Errorf("a look says %q, want %q", s.Cannot, says)
		}
		apply()
		named := step
		named.Changes = []site.Change{{Field: "config." + field}}
		if err := m.Apply(t.Context(), named, n, nil); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "files./etc/key.pem: its content cannot be set") {
			t.Errorf("got %v, want %q", err, says)
		}
		if got := sshdtest.Read(t, at) + sshdtest.Read(t, filepath.Join(h.root, "motd")); got != "hobbes 9plain" {
			t.Errorf("the files have %q", got)
		}
	}
	if record := sshdtest.Read(t, filepath.Join(h.root, "record")); strings.Contains(record, hex.EncodeToString([]byte("hobbes"))) || !strings.Contains(record, `"keys":{"files./etc/key.pem":"`) {
		t.Errorf("the machine was sent %s", record)
	}
}
