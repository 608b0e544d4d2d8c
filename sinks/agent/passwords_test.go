package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/sshclient/sshdtest"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// The password of an account is set from a credential, seen to be the designed one,
// and set again after somebody changed it or its file. The machine gets salted hashes
// alone, and nothing of them is kept of a look.
func TestPasswordsOfAccounts(t *testing.T) {
	t.Parallel()
	h := startHost(t, helperFolder(t, testHelper))
	sshdtest.Write(t, filepath.Join(h.root, "record"), "")
	value, refusal := secret.New("", "correct horse 1"), error(nil)
	open := func() driver.Machine {
		m := h.open(t, 1)
		m.(driver.Keyholder).Credentials(func(name string, use secret.Use) (secret.Value, error) {
			if name != "console" || use != secret.Account {
				t.Errorf("asked for %q for %s", name, use)
			}
			return value, refusal
		})
		return m
	}
	n := &site.Node{Name: "n1", System: site.System{Users: map[string]site.User{"ops": {Password: "console"}}}}
	step := site.Step{Node: "n1", Facet: site.FacetBase, Action: site.ActionBase}
	see := func(m driver.Machine) (site.FacetState, string) {
		seen, err := m.Observe(t.Context(), n, []site.Facet{site.FacetBase})
		if err != nil {
			t.Fatal(err)
		}
		s := seen.Facets[site.FacetBase]
		text, err := json.Marshal(seen)
		if err != nil || strings.Contains(string(text), "sha256:") && !strings.Contains(string(text), `"ownedDigest":"sha256:`) || strings.Contains(string(text), "$6$") {
			t.Errorf("%v: a look has a hash: %s", err, text)
		}
		return s, s.Have["users.ops.password"]
	}
	shadow := func() string { return sshdtest.Read(t, filepath.Join(h.root, "shadow")) }

	m := open()
	if s, _ := see(m); plan.AsDesigned(n, site.FacetBase, s) {
		t.Errorf("before: got %+v", s)
	}
	if err := m.Apply(t.Context(), step, n, nil); err != nil {
		t.Fatal(err)
	}
	first := shadow()
	for _, m := range []driver.Machine{m, open()} {
		if s, have := see(m); have != "that of credential console" || !plan.AsDesigned(n, site.FacetBase, s) {
			t.Errorf("got %q, %+v", have, s)
		}
		if err := m.Apply(t.Context(), step, n, nil); err != nil || shadow() != first {
			t.Errorf("it is set again: %v", err)
		}
	}

	sshdtest.Write(t, filepath.Join(h.root, "shadow"), `{"users.ops":"$6$theirs$abcdef"}`)
	if s, have := see(m); have != "another one" || plan.AsDesigned(n, site.FacetBase, s) {
		t.Errorf("after somebody changed it: got %q", have)
	}
	if err := m.Apply(t.Context(), step, n, nil); err != nil || strings.Contains(shadow(), "theirs") {
		t.Errorf("%v, %s", err, shadow())
	}
	value = secret.New("", "correct horse 2")
	if _, have := see(m); have != "another one" {
		t.Errorf("after its file changed: got %q", have)
	}
	if err := m.Apply(t.Context(), step, n, nil); err != nil {
		t.Error(err)
	}
	if _, have := see(m); have != "that of credential console" {
		t.Errorf("got %q", have)
	}
	if record := sshdtest.Read(t, filepath.Join(h.root, "record")); strings.Contains(record, "correct horse") || !strings.Contains(record, "$6$") {
		t.Errorf("the machine was sent %s", record)
	}

	for says, c := range map[string]struct {
		value   secret.Value
		refusal error
	}{
		`may not be sent to "h"`:    {value, fmt.Errorf(`%w: "console" may not be sent to "h"`, secret.ErrHost)},
		"it is a private key":       {secret.New("", "-----BEGIN PRIVATE KEY-----"), nil},
		"several lines":             {secret.New("", "a\nb"), nil},
		"longer than the 255 bytes": {secret.New("", strings.Repeat("x", 256)), nil},
	} {
		value, refusal = c.value, c.refusal
		if s, _ := see(m); !strings.Contains(s.Cannot["users.ops"], says) {
			t.Errorf("a look says %q, want %q", s.Cannot["users.ops"], says)
		}
		was := shadow()
		if err := m.Apply(t.Context(), step, n, nil); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), says) || shadow() != was {
			t.Errorf("got %v, want %q", err, says)
		}
	}
}
