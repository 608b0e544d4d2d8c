package agent

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// The helper does not know what certificates a system should have: it reports a digest of those that are set. The
// SSH server proves its host keys on the connection, and the daemon says which certificates belong to them.

// hostField is the field that tells of the certificates of host keys.
const hostField = item.KindSSHHost + ".certificates"

// otherCertificates is what a system has whose certificates are not those that were signed for it.
const otherCertificates = "others than Slipway signed"

var errNoHostKeys = errors.New("the SSH server does not prove any host key that could be certified: it must be OpenSSH, with a key of Ed25519, ECDSA or RSA from 2048 bits on")

// CertifyHost implements driver.HostCertified.
func (m *machine) CertifyHost(by driver.HostCertificates) {
	m.client.CertifyHost(by)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.host = by
}

func (m *machine) hostCertificates() driver.HostCertificates {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.host
}

// compareHost records whether the system shows the certificates that it should, by the helper's report and the host
// keys that the SSH server proves.
func (m *machine) compareHost(n *site.Node, seen *site.Observed, hostKeys func() ([]string, error)) {
	s, looked := seen.Facets[site.FacetBase]
	items := m.items(n, site.FacetBase)
	at := slices.IndexFunc(items, func(i item.Item) bool { return i.Key == item.KindSSHHost })
	if !looked || s.Seen.IsZero() || at < 0 || s.Unread[item.KindSSHHost] != "" || s.Cannot[hostField] != "" {
		return
	}
	want := items[at].Fields["certificates"]
	have := s.Have[hostField]
	if have == want { // do not trust the machine's own claims
		have = otherCertificates
		s.Have[hostField] = have
	}
	by := m.hostCertificates()
	if by.Valid == nil && by.Why == "" { // not the daemon
		s.Unread = with(s.Unread, item.KindSSHHost, "only the daemon knows which host certificates it has signed")
		seen.Facets[site.FacetBase] = s
		return
	}
	var signed driver.SignedHostKeys
	keys, err := hostKeys()
	switch {
	case by.Valid == nil:
		err = errors.New(by.Why)
	case err == nil && len(keys) == 0:
		err = errNoHostKeys
	case err == nil:
		signed, err = by.Valid(keys)
	}
	switch {
	case errors.Is(err, driver.ErrUnreachable): // nobody has to mend a lost connection
		s.Unread = with(s.Unread, item.KindSSHHost, brief(err.Error()))
	case err != nil:
		cannot(&s, err, hostField)
	case signed.Why == "" && have == item.HostDigest(signed.Certificates):
		s.Have = with(s.Have, hostField, want)
	case isOneOf(have, signed.Given, nil):
		s.Have = with(s.Have, hostField, orElse(signed.Why, "an earlier one than Slipway signed last"))
		s.Due = append(s.Due, hostField)
	case slices.ContainsFunc(signed.Given, func(of []string) bool { return len(of) == 0 }) && strings.HasPrefix(have, digestPrefix):
		s.Have = with(s.Have, hostField, orElse(signed.Why, otherCertificates))
	case strings.HasPrefix(have, digestPrefix):
		s.Have = with(s.Have, hostField, otherCertificates)
	}
	seen.Facets[site.FacetBase] = s
}

// isOneOf reports whether a digest is that of one certificate for each key, of those that were given for it.
func isOneOf(digest string, given [][]string, chosen []string) bool {
	if len(given) == 0 {
		return len(chosen) > 0 && digest == item.HostDigest(chosen)
	}
	return slices.ContainsFunc(given[0], func(c string) bool { return isOneOf(digest, given[1:], append(slices.Clone(chosen), c)) })
}

// digestPrefix begins each digest of package item.
const digestPrefix = "sha256:"

func orElse(text, otherwise string) string {
	if text != "" {
		return text
	}
	return otherwise
}

func with(values site.Values, name, value string) site.Values {
	if values == nil {
		values = site.Values{}
	}
	values[name] = value
	return values
}

// onlyAsked drops the certificates from items if the step does not change them: they would be signed anew each
// time that something else changes.
func onlyAsked(items []item.Item, step site.Step) []item.Item {
	return slices.DeleteFunc(items, func(i item.Item) bool {
		isCertificate := i.Key == item.KindSSHHost || item.Kind(i.Key) == item.KindCertificates
		field := string(step.Facet) + "." + i.Key
		return isCertificate && !slices.ContainsFunc(step.Changes, func(c site.Change) bool { return c.Field == field || strings.HasPrefix(c.Field, field+".") })
	})
}

// giveCertificates puts host certificates into the request if it asks for them. The system has to show first that it
// is the node, on this connection, on which it then proves its host keys.
func (m *machine) giveCertificates(ctx context.Context, n *site.Node, conn *connection, a *wire.Apply) error {
	at := slices.IndexFunc(a.Items, func(i item.Item) bool { return i.Key == item.KindSSHHost })
	if at < 0 {
		return nil
	}
	by := m.hostCertificates()
	if by.Sign == nil {
		return refused("Slipway signs no host certificates: %s", orElse(by.Why, "only the daemon does"))
	}
	report, _, err := conn.run(ctx, exchange{script: markerScript})
	if err != nil {
		return err
	}
	if err := m.isNode(n, report); err != nil {
		return err
	}
	keys, err := conn.entry.HostKeys()
	if err == nil && len(keys) == 0 {
		err = refused("%w", errNoHostKeys)
	}
	if err != nil {
		return err
	}
	certificates, err := by.Sign(ctx, keys)
	if err != nil {
		return err
	}
	a.Items = slices.Clone(a.Items)
	a.Items[at] = item.New(item.KindSSHHost, map[string]string{"certificates": item.HostDigest(certificates)},
		item.SSHHost{Names: n.References.HostNames, Certificates: certificates})
	return nil
}
