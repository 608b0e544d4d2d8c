package agent

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// The helper makes the keys of TLS certificates, and sends signing requests alone. It does not know what a
// certificate is good for: it reports the digest of the one that is set, and the daemon says which one that is.

// CertifyTLS implements driver.TLSCertified.
func (m *machine) CertifyTLS(by driver.TLSCertificates) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tls = by
}

func (m *machine) tlsCertificates() driver.TLSCertificates {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tls
}

// compareTLS records which certificates the system has, by the helper's report and what the daemon signed.
func (m *machine) compareTLS(n *site.Node, seen *site.Observed) {
	s, looked := seen.Facets[site.FacetConfig]
	if !looked || s.Seen.IsZero() {
		return
	}
	by := m.tlsCertificates()
	for _, i := range m.items(n, site.FacetConfig) {
		if item.Kind(i.Key) == item.KindCertificates && s.Unread[i.Key] == "" && s.Cannot[i.Key] == "" {
			compareCertificate(&s, i, by)
		}
	}
	seen.Facets[site.FacetConfig] = s
}

// notRead ends what is reported of a certificate that a unit has not read.
const notRead = " has not read it)"

func compareCertificate(s *site.FacetState, i item.Item, by driver.TLSCertificates) {
	names, usage, life := item.Name(i.Key, "names"), item.Name(i.Key, "usage"), item.Name(i.Key, "life")
	delete(s.Have, usage) // do not trust the machine's own claims
	delete(s.Have, life)
	have := s.Have[names]
	if by.Valid == nil {
		why := orElse(by.Why, "only the daemon knows which certificates it has signed")
		if by.Why == "" {
			s.Unread = with(s.Unread, i.Key, why)
		} else {
			cannot(s, errors.New(why), names, usage, life)
		}
	}
	if have == "" {
		return
	}
	digest, rest, _ := strings.Cut(have, " ")
	isDigest := strings.HasPrefix(digest, digestPrefix)
	s.Have[usage], s.Have[life] = i.Fields["usage"], i.Fields["life"] // unless it is known to be otherwise
	switch {
	case by.Valid == nil && isDigest, have == i.Fields["names"]:
		s.Have[names] = otherCertificates
		return
	case by.Valid == nil || !isDigest:
		return
	}
	is, why, err := by.Valid(item.ID(i.Key), digest)
	switch {
	case err != nil:
		cannot(s, err, names, usage, life)
	case is.Serial == "":
		s.Have[names] = otherCertificates
	case why != "":
		s.Have[names] = why
		s.Due = append(s.Due, names)
	default:
		s.Have[usage], s.Have[life] = is.Usage, time.Duration(is.Life).String()
		s.Have[names] = item.List(is.Names)
		if strings.HasSuffix(rest, notRead) {
			s.Have[names] += " " + rest
			s.Due = append(s.Due, names)
		}
	}
	if err == nil && is.Serial != "" {
		s.Signed = with(s.Signed, item.ID(i.Key), is.Serial)
		compareList(s, i, by)
	}
}

// compareList says whether a system has the present lists of revoked certificates. It is not known to have any where
// its certificate is not ours.
func compareList(s *site.FacetState, i item.Item, by driver.TLSCertificates) {
	field := item.Name(i.Key, "revocationList")
	if i.Fields["revocationList"] == "" {
		delete(s.Have, field)
		return
	}
	have, until, _ := strings.Cut(s.Have[field], " until ")
	present, err := by.Lists()
	isDigest := strings.HasPrefix(have, digestPrefix)
	switch {
	case err != nil:
		cannot(s, err, field)
	case isDigest && have == item.Digest([]byte(present)):
		s.Have[field] = item.ListCurrent
	case isDigest:
		s.Have[field] = "an earlier list"
		s.Due = append(s.Due, field)
	case have == item.ListCurrent:
		s.Have[field] = "its own claim"
	}
	if at, err := time.Parse(time.RFC3339, until); err == nil && isDigest {
		if s.ListsUntil == nil {
			s.ListsUntil = map[string]time.Time{}
		}
		s.ListsUntil[item.ID(i.Key)] = at.UTC()
	}
}

// withRequests says which certificates of a step are to be signed: those of which more differs than whom it trusts, or
// who has read it. A key that was another account's is replaced: that account may have read it.
func withRequests(items []item.Item, step site.Step, by driver.TLSCertificates) []item.Item {
	for at, i := range items {
		if item.Kind(i.Key) != item.KindCertificates {
			continue
		}
		var body item.Certificate
		if json.Unmarshal(i.Body, &body) != nil {
			continue
		}
		key := string(step.Facet) + "." + i.Key
		body.Sign = slices.ContainsFunc(step.Changes, func(c site.Change) bool {
			return c.Field == key || c.Field == key+".owner" || c.Field == key+".usage" || c.Field == key+".life" || c.Field == key+".names" && !strings.HasSuffix(c.Have, notRead)
		})
		if body.HasList && by.Lists != nil {
			body.List, _ = by.Lists() // without them those on the system stay
			if until := firstEnd([]byte(body.List)); !until.IsZero() {
				body.ListUntil = until.UTC().Format(time.RFC3339)
			}
		}
		fields := maps.Clone(body.Fields())
		fields["names"] = item.ToSign
		items[at] = item.New(i.Key, fields, body)
	}
	return items
}

// signing answers what the helper wants during one step: certificates for its signing requests, and artifacts.
type signing struct {
	ctx    context.Context
	by     driver.TLSCertificates
	items  []item.Item
	keys   func() ([]string, error) // the host keys that the system proves on the connection
	other  func(wire.Want) (io.ReadCloser, wire.Blob)
	failed error // why a certificate was not signed
}

// supply signs a request for a certificate that the step asks to be signed, once. The marker has shown before that the
// system is the node.
func (s *signing) supply(w wire.Want) (io.ReadCloser, wire.Blob) {
	if w.Sign == nil {
		return s.other(w)
	}
	chain, err := s.sign(w)
	if err != nil {
		s.failed = err
		return nil, wire.Blob{Refused: err.Error()}
	}
	return io.NopCloser(strings.NewReader(chain)), wire.Blob{Size: int64(len(chain))}
}

func (s *signing) sign(w wire.Want) (string, error) {
	at := slices.IndexFunc(s.items, func(i item.Item) bool {
		var body item.Certificate
		return i.Key == w.For && item.Kind(i.Key) == item.KindCertificates && json.Unmarshal(i.Body, &body) == nil && body.Sign
	})
	switch {
	case at < 0:
		return "", refused("the system asks for a certificate %s, which this step does not have", site.Printable(w.For))
	case s.by.Sign == nil:
		return "", refused("Slipway signs no TLS certificates: %s", orElse(s.by.Why, "only the daemon does"))
	}
	s.items = slices.Delete(slices.Clone(s.items), at, at+1)
	keys, err := s.keys()
	if err != nil {
		return "", fmt.Errorf("%s: the host keys of the system: %w", w.For, err)
	}
	chain, err := s.by.Sign(s.ctx, driver.TLSRequest{Name: item.ID(w.For), Request: w.Sign.Request, Clock: w.Sign.Clock, HostKeys: keys})
	if err != nil {
		return "", fmt.Errorf("%s: %w", w.For, err)
	}
	return chain, nil
}

// firstEnd is when the first of some lists is over; zero where that cannot be read.
func firstEnd(text []byte) (first time.Time) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		l, err := x509.ParseRevocationList(block.Bytes)
		if err != nil {
			return time.Time{}
		}
		if first.IsZero() || l.NextUpdate.Before(first) {
			first = l.NextUpdate
		}
	}
	return first
}
