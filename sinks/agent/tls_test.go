package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// What a system says of its certificate is held against what was signed for it; its own claims count nothing, and what
// is not known is not called right.
func TestCompareTLS(t *testing.T) {
	t.Parallel()
	const key, names, digest = "certificates.web", "n1, web.example.org", "sha256:0123456789abcdef0123456789abcdef"
	n := &site.Node{Name: "n1", System: site.System{Certificates: map[string]site.TLS{"web": {Names: []string{"web.example.org", "{name}"}}}}, References: site.References{TLS: []string{"x"}}}
	signed := func(why string, err error) driver.TLSCertificates {
		return driver.TLSCertificates{Valid: func(name, is string) (c site.TLSCertificate, _ string, _ error) {
			if name == "web" && is == digest {
				c = site.TLSCertificate{Serial: "7", Names: []string{"n1", "web.example.org"}, Usage: "server", Life: site.Duration(time.Hour)}
			}
			return c, why, err
		}}
	}
	for name, c := range map[string]struct {
		by                               driver.TLSCertificates
		says, have, life, cannot, unread string
		due, known                       bool
	}{
		"as signed":            {by: signed("", nil), says: digest, have: names, life: "1h0m0s", known: true},
		"not read by a unit":   {by: signed("", nil), says: digest + " (a.service has not read it)", have: names + " (a.service has not read it)", life: "1h0m0s", due: true, known: true},
		"a made-up end":        {by: signed("", nil), says: digest + " \x1b[2J", have: names, life: "1h0m0s", known: true},
		"others":               {by: signed("", nil), says: item.Digest([]byte("x")), have: otherCertificates, life: "336h0m0s"},
		"its own claim":        {by: signed("", nil), says: names, have: otherCertificates, life: "336h0m0s"},
		"none":                 {by: signed("", nil)},
		"changed by hand":      {by: signed("", nil), says: "changed by hand: x", have: "changed by hand: x", life: "336h0m0s"},
		"to be renewed":        {by: signed("to be renewed since 2026-01-01", nil), says: digest, have: "to be renewed since 2026-01-01", life: "336h0m0s", due: true, known: true},
		"others when due":      {by: signed("to be renewed since 2026-01-01", nil), says: item.Digest([]byte("x")), have: otherCertificates, life: "336h0m0s"},
		"by hand when due":     {by: signed("to be renewed since 2026-01-01", nil), says: "changed by hand: x", have: "changed by hand: x", life: "336h0m0s"},
		"a wrong clock":        {by: signed("", errors.New("the clock is behind")), says: digest, have: digest, life: "336h0m0s", cannot: "the clock is behind"},
		"a daemon that cannot": {by: driver.TLSCertificates{Why: "no site key"}, says: digest, have: otherCertificates, life: "336h0m0s", cannot: "no site key"},
		"not the daemon":       {says: digest, have: otherCertificates, life: "336h0m0s", unread: "only the daemon knows which certificates it has signed"},
	} {
		m := &machine{tls: c.by}
		state := site.FacetState{Seen: time.Now(), Have: site.Values{key + ".life": "claimed"}}
		if c.says != "" {
			state.Have[key+".names"] = c.says
		}
		seen := site.Observed{Facets: map[site.Facet]site.FacetState{site.FacetConfig: state}}
		m.compareTLS(n, &seen)
		got := seen.Facets[site.FacetConfig]
		if got.Have[key+".names"] != c.have || got.Have[key+".life"] != c.life || got.Cannot[key+".names"] != c.cannot || got.Unread[key] != c.unread {
			t.Errorf("%s: have %q and %q, cannot %q, unread %q", name, got.Have[key+".names"], got.Have[key+".life"], got.Cannot[key+".names"], got.Unread[key])
		}
		if slices.Contains(got.Due, key+".names") != c.due || got.Signed["web"] == "7" != c.known {
			t.Errorf("%s: due %q, signed %v", name, got.Due, got.Signed)
		}
	}
}

// A key is made only for a certificate whose names, use or life differ, or that is due; also if it was
// another account's, but not because a unit has not read it, or for whom it trusts.
func TestWithRequests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change site.Change
		signs  bool
	}{
		"absent": {site.Change{Field: "config.certificates.web"}, true}, "due": {site.Change{Field: "config.certificates.web.names", Have: "to be renewed since 2026-01-01"}, true},
		"usage": {site.Change{Field: "config.certificates.web.usage"}, true}, "life": {site.Change{Field: "config.certificates.web.life"}, true},
		"not read": {site.Change{Field: "config.certificates.web.names", Have: "n1 (a.service has not read it)"}, false},
		"owner":    {site.Change{Field: "config.certificates.web.owner"}, true}, "authorities": {site.Change{Field: "config.certificates.web.authorities"}, false},
		"another one": {site.Change{Field: "config.certificates.other.names"}, false},
	} {
		items := withRequests([]item.Item{item.New("certificates.web", nil, item.Certificate{})}, site.Step{Facet: site.FacetConfig, Changes: []site.Change{c.change}}, driver.TLSCertificates{})
		var body item.Certificate
		if err := json.Unmarshal(items[0].Body, &body); err != nil || body.Sign != c.signs || items[0].Fields["names"] != item.ToSign {
			t.Errorf("%s: %+v, %v", name, body, err)
		}
	}
	other := site.Step{Facet: site.FacetConfig, Changes: []site.Change{{Field: "config.certificates.web2.names"}}}
	if left := onlyAsked([]item.Item{item.New("certificates.web", nil, nil), item.New("certificates.web2", nil, nil)}, other); len(left) != 1 {
		t.Errorf("left are %v", left)
	}
}

// A system gets the certificates that its step is about, each once, and nothing that it asks for besides.
func TestSigning(t *testing.T) {
	t.Parallel()
	items := []item.Item{
		item.New("certificates.web", nil, item.Certificate{Sign: true}), item.New("certificates.kept", nil, item.Certificate{}), item.New("files./etc/x", nil, item.File{}),
	}
	var asked []string
	by := driver.TLSCertificates{Sign: func(_ context.Context, r driver.TLSRequest) (string, error) {
		asked = append(asked, r.Name+" "+string(r.Request)+" "+strings.Join(r.HostKeys, ","))
		return "a chain", nil
	}}
	s := &signing{ctx: t.Context(), by: by, items: items, keys: func() ([]string, error) { return []string{"ssh-ed25519 AAAA"}, nil }, other: func(wire.Want) (io.ReadCloser, wire.Blob) { return nil, wire.Blob{Refused: "an artifact"} }}
	want := func(key string) (string, string) {
		content, b := s.supply(wire.Want{For: key, Sign: &wire.Sign{Request: []byte("r")}})
		if content == nil {
			return "", b.Refused
		}
		text, err := io.ReadAll(content)
		if err != nil || int64(len(text)) != b.Size {
			t.Errorf("%d bytes of %d, %v", len(text), b.Size, err)
		}
		return string(text), ""
	}
	for _, key := range []string{"certificates.kept", "certificates.other", "files./etc/x", ""} {
		if chain, why := want(key); chain != "" || !strings.Contains(why, "which this step does not have") {
			t.Errorf("%q: %q, %q", key, chain, why)
		}
	}
	if chain, why := want("certificates.web"); chain != "a chain" || why != "" {
		t.Errorf("got %q, %q", chain, why)
	}
	if _, why := want("certificates.web"); why == "" || len(asked) != 1 || asked[0] != "web r ssh-ed25519 AAAA" || !errors.Is(s.failed, driver.ErrRefused) {
		t.Errorf("a second time: %q; asked %q", why, asked)
	}
	if _, b := s.supply(wire.Want{SHA256: "x"}); b.Refused != "an artifact" {
		t.Errorf("an artifact: %+v", b)
	}
	none := &signing{ctx: t.Context(), by: driver.TLSCertificates{Why: "under quarantine"}, items: items}
	if _, b := none.supply(wire.Want{For: "certificates.web", Sign: &wire.Sign{}}); !strings.Contains(b.Refused, "under quarantine") {
		t.Errorf("under quarantine: %+v", b)
	}
	lost := &signing{ctx: t.Context(), by: by, items: items, keys: func() ([]string, error) { return nil, driver.ErrUnreachable }}
	if _, b := lost.supply(wire.Want{For: "certificates.web", Sign: &wire.Sign{}}); b.Refused == "" || len(asked) != 1 {
		t.Errorf("without its host keys: %+v", b)
	}
}

// Which lists of revoked certificates a system has is held against the daemon's. An earlier one is due, and no drift.
func TestCompareLists(t *testing.T) {
	t.Parallel()
	const key, digest = "certificates.web", "sha256:0123456789abcdef0123456789abcdef"
	present := item.Digest([]byte("present"))
	for name, c := range map[string]struct {
		says, have, cannot string
		err                error
		due, until         bool
	}{
		"the present one":        {says: present + " until 2026-03-01T12:00:00Z", have: item.ListCurrent, until: true},
		"an earlier one":         {says: digest + " until 2026-03-01T12:00:00Z", have: "an earlier list", due: true, until: true},
		"none":                   {},
		"changed by hand":        {says: "changed by hand: x", have: "changed by hand: x"},
		"its own claim":          {says: item.ListCurrent, have: "its own claim"},
		"an end that is no time": {says: present + " until \x1b[2J", have: item.ListCurrent},
		"the daemon has none":    {says: digest, err: errors.New("no list"), have: digest, cannot: "no list"},
	} {
		n := &site.Node{Name: "n1", System: site.System{Certificates: map[string]site.TLS{"web": {RevocationList: true}}}, References: site.References{TLS: []string{"x"}, TLSNames: []string{"n1"}}}
		m := &machine{tls: driver.TLSCertificates{
			Valid: func(string, string) (site.TLSCertificate, string, error) {
				return site.TLSCertificate{Serial: "7", Names: []string{"n1"}}, "", nil
			},
			Lists: func() (string, error) { return "present", c.err },
		}}
		state := site.FacetState{Seen: time.Now(), Have: site.Values{key + ".names": digest}}
		if c.says != "" {
			state.Have[key+".revocationList"] = c.says
		}
		seen := site.Observed{Facets: map[site.Facet]site.FacetState{site.FacetConfig: state}}
		m.compareTLS(n, &seen)
		got := seen.Facets[site.FacetConfig]
		if got.Have[key+".revocationList"] != c.have || got.Cannot[key+".revocationList"] != c.cannot || slices.Contains(got.Due, key+".revocationList") != c.due || got.ListsUntil["web"].IsZero() == c.until {
			t.Errorf("%s: have %q, cannot %q, due %q, until %v", name, got.Have[key+".revocationList"], got.Cannot, got.Due, got.ListsUntil)
		}
		items := withRequests([]item.Item{item.New(key, nil, item.Certificate{HasList: true})}, site.Step{Facet: site.FacetConfig, Changes: []site.Change{{Field: "config." + key + ".revocationList"}}}, m.tls)
		var body item.Certificate
		if err := json.Unmarshal(items[0].Body, &body); err != nil || body.Sign || body.List != "present" && c.err == nil {
			t.Errorf("%s: the step has %+v, %v", name, body, err)
		}
	}
}
