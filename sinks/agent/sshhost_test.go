package agent

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// What a system says of its certificates is held against what was signed for the host keys that it proves; its own
// claims count nothing, and what is not known is not called right.
func TestCompareHost(t *testing.T) {
	t.Parallel()
	const certificate, earlier, names = "ssh-ed25519-cert-v01@openssh.com BBBB", "ssh-ed25519-cert-v01@openssh.com AAAA", "n1, n1.example.org"
	n := &site.Node{Name: "n1", System: site.System{SSH: site.SSH{Accounts: []string{"root"}}},
		References: site.References{Authorities: []string{"ssh-ed25519 AAAA"}, HostNames: []string{"n1", "n1.example.org"}}}
	signed := driver.HostCertificates{Valid: func([]string) (driver.SignedHostKeys, error) {
		return driver.SignedHostKeys{Certificates: []string{certificate}, Given: [][]string{{earlier, certificate}}}, nil
	}}
	due := driver.HostCertificates{Valid: func([]string) (driver.SignedHostKeys, error) {
		return driver.SignedHostKeys{Why: "to be renewed since 2026-01-01", Given: [][]string{{certificate}}}, nil
	}}
	fresh := driver.HostCertificates{Valid: func([]string) (driver.SignedHostKeys, error) {
		return driver.SignedHostKeys{Why: "none that counts for the host key SHA256:x", Given: [][]string{nil}}, nil
	}}
	shared := driver.HostCertificates{Valid: func([]string) (driver.SignedHostKeys, error) {
		return driver.SignedHostKeys{}, errors.New("n2 has the same key")
	}}
	proven := func() ([]string, error) { return []string{"ssh-ed25519 AAAA"}, nil }
	lost := func() ([]string, error) { return nil, fmt.Errorf("%w: EOF", driver.ErrUnreachable) }
	for name, c := range map[string]struct {
		by                         driver.HostCertificates
		keys                       func() ([]string, error)
		says, have, cannot, unread string
		due                        bool
	}{
		"as signed":            {by: signed, keys: proven, says: item.HostDigest([]string{certificate}), have: names},
		"others":               {by: signed, keys: proven, says: item.HostDigest([]string{"x"}), have: "others than Slipway signed"},
		"its own claim":        {by: signed, keys: proven, says: names, have: "others than Slipway signed"},
		"none":                 {by: signed, keys: proven},
		"changed by hand":      {by: signed, keys: proven, says: "changed by hand", have: "changed by hand"},
		"to be renewed":        {by: due, keys: proven, says: item.HostDigest([]string{certificate}), have: "to be renewed since 2026-01-01", due: true},
		"others when due":      {by: due, keys: proven, says: item.HostDigest([]string{"x"}), have: "others than Slipway signed"},
		"by hand when due":     {by: due, keys: proven, says: "changed by hand", have: "changed by hand"},
		"the one before":       {by: signed, keys: proven, says: item.HostDigest([]string{earlier}), have: "an earlier one than Slipway signed last", due: true},
		"a new host key":       {by: fresh, keys: proven, says: item.HostDigest([]string{certificate}), have: "none that counts for the host key SHA256:x"},
		"a claim when due":     {by: due, keys: proven, says: names, have: "others than Slipway signed"},
		"another node's key":   {by: shared, keys: proven, says: item.HostDigest([]string{certificate}), have: item.HostDigest([]string{certificate}), cannot: "n2 has the same key"},
		"a claim and no keys":  {by: signed, keys: func() ([]string, error) { return nil, nil }, says: names, have: "others than Slipway signed", cannot: errNoHostKeys.Error()},
		"a claim to nobody":    {keys: proven, says: names, have: "others than Slipway signed", unread: "only the daemon knows which host certificates it has signed"},
		"no keys":              {by: signed, keys: func() ([]string, error) { return nil, nil }, cannot: errNoHostKeys.Error()},
		"keys not proven":      {by: signed, keys: func() ([]string, error) { return nil, errors.New("not proven") }, cannot: "not proven"},
		"lost while proving":   {by: signed, keys: lost, says: item.HostDigest([]string{certificate}), have: item.HostDigest([]string{certificate}), unread: "unreachable: EOF"},
		"a claim, then lost":   {by: signed, keys: lost, says: names, have: "others than Slipway signed", unread: "unreachable: EOF"},
		"a daemon that cannot": {by: driver.HostCertificates{Why: "no site key"}, keys: proven, cannot: "no site key"},
		"not the daemon":       {keys: proven, says: item.HostDigest([]string{certificate}), have: item.HostDigest([]string{certificate}), unread: "only the daemon knows which host certificates it has signed"},
	} {
		m := &machine{host: c.by}
		state := site.FacetState{Seen: time.Now()}
		if c.says != "" {
			state.Have = site.Values{hostField: c.says}
		}
		seen := site.Observed{Facets: map[site.Facet]site.FacetState{site.FacetBase: state}}
		m.compareHost(n, &seen, c.keys)
		got := seen.Facets[site.FacetBase]
		if got.Have[hostField] != c.have || got.Cannot[hostField] != c.cannot || got.Unread[item.KindSSHHost] != c.unread || slices.Contains(got.Due, hostField) != c.due {
			t.Errorf("%s: have %q, cannot %q, unread %q, due %q", name, got.Have[hostField], got.Cannot[hostField], got.Unread[item.KindSSHHost], got.Due)
		}
	}
}

// A step that changes something else does not have host certificates signed.
func TestOnlyAskedHostCertificates(t *testing.T) {
	t.Parallel()
	items := func() []item.Item {
		return []item.Item{item.New(item.KindHostname, nil, nil), item.New(item.KindSSHHost, nil, nil)}
	}
	other := site.Step{Facet: site.FacetBase, Changes: []site.Change{{Field: "base.hostname"}}}
	if left := onlyAsked(items(), other); len(left) != 1 {
		t.Errorf("left are %v", left)
	}
	asked := site.Step{Facet: site.FacetBase, Changes: []site.Change{{Field: "base." + hostField}}}
	if left := onlyAsked(items(), asked); len(left) != 2 {
		t.Errorf("left are %v", left)
	}
}
