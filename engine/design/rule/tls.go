package rule

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/tlsca"
)

// someAuthority is the certificate of a TLS authority, as a line of CUE.
const someAuthority = `"-----BEGIN CERTIFICATE-----\nMIIBsDCCAVegAwIBAgIQGP6lpUAIFKge3QCIwFBLtTAKBggqhkjOPQQDAjA3MRAw\nDgYDVQQKEwdTbGlwd2F5MSMwIQYDVQQDExpmcmEgVExTIGF1dGhvcml0eSwgZXBv\nY2ggMTAeFw03MDAxMDEwMDAwMDBaFw00OTEyMzEyMzU5NTlaMDcxEDAOBgNVBAoT\nB1NsaXB3YXkxIzAhBgNVBAMTGmZyYSBUTFMgYXV0aG9yaXR5LCBlcG9jaCAxMFkw\nEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEUVw9brnjlrkE0/7Kf1T9zQzB6Ze/N13K\nUVrQpsO0A19FNr46UPMY+/mlR1kCoiFQK+8NV+CMU7LMClbxfZ+TVKNFMEMwDgYD\nVR0PAQH/BAQDAgEGMBIGA1UdEwEB/wQIMAYBAf8CAQAwHQYDVR0OBBYEFEJpiJQx\n4xMZZvyvakVxQZQ+0sNbMAoGCCqGSM49BAMCA0cAMEQCIEALuXEnro2496Yp5gcG\n5+aRmlXzx8d44DJjlpoEEIxAAiBxD4sK/Yqij6iyRXF9c9hgMecurl9ns0H/HF3W\nuY44ug==\n-----END CERTIFICATE-----"`

// The bounds of the life of a TLS certificate. A shorter one would be over while a site is paused for a meeting, and
// a longer one is refused by browsers.
const (
	leastCertificateLife = 6 * time.Hour
	mostCertificateLife  = 400 * 24 * time.Hour
)

// leastListLife is the shortest life of a list of revoked certificates.
const leastListLife = 24 * time.Hour

// tlsRules: can the daemon sign the certificates of the nodes, and is each good for its own node alone?
var tlsRules = []Rule{
	{
		Code: "tls-authority", Severity: site.SeverityError, Firm: true,
		What:  "The authorities of `site.tls` are certificates of authorities that can be read, each once.",
		Why:   "Slipway could sign no certificate, or the nodes would trust something that nobody meant.",
		Wrong: `site: tls: authorities: [` + someAuthority + `, ` + someAuthority + `]`,
		Right: `site: tls: authorities: [` + someAuthority + `]`,
		Site:  tlsAuthorities,
	},
	{
		Code: "certificate-authority", Severity: site.SeverityError, Firm: true,
		What:  "A site whose nodes have `system.certificates` names an authority in `site.tls`.",
		Why:   "Nobody would sign the certificates.",
		Wrong: `nodes: "n1": system: certificates: web: {}`,
		Right: `site: tls: authorities: [` + someAuthority + `]
nodes: "n1": system: certificates: web: {}`,
		Node: certificateAuthority,
	},
	{
		Code: "certificate-name", Severity: site.SeverityError, Firm: true,
		What: "The names of `system.certificates` are host names and addresses, each once.",
		Why:  "No program would accept the certificate for such a name.",
		Wrong: `site: tls: authorities: [` + someAuthority + `]
nodes: "n1": system: certificates: web: names: ["web..example.org"]`,
		Right: `site: tls: authorities: [` + someAuthority + `]
nodes: "n1": system: certificates: web: names: ["{name}.example.org", "web.example.org"]`,
		Node: certificateNames,
	},
	{
		Code: "certificate-names", Severity: site.SeverityError, Firm: true,
		What: "No name of a node's TLS certificates is the name or an address of another node or of its BMC, and none that another node makes from `{name}`.",
		Why:  "One of the two systems could pass for the other.",
		Wrong: `site: tls: authorities: [` + someAuthority + `]
nodes: "n1": system: certificates: web: names: ["n2"]`,
		Right: `site: tls: authorities: [` + someAuthority + `]
nodes: {"n1": system: certificates: web: names: ["n1", "web.example.org"], "n2": system: certificates: web: names: ["web.example.org"]}`,
		Facts: certificateFacts, Fleet: namesOfOthers,
	},
	{
		Code: "certificate-life", Severity: site.SeverityError, Firm: true,
		What: "The `life` of a certificate is from 6 hours to 400 days.",
		Why:  "A shorter one is over before a person can act when the renewal fails. Programs refuse a longer one.",
		Wrong: `site: tls: authorities: [` + someAuthority + `]
nodes: "n1": system: certificates: web: life: "1h"`,
		Right: `site: tls: authorities: [` + someAuthority + `]
nodes: "n1": system: certificates: web: life: "720h"`,
		Node: eachCertificate(certificateLife),
	},
	{
		Code: "revocation-list", Severity: site.SeverityError, Firm: true,
		What: "The `revocationListLife` of `site.tls` is from 24 hours to 400 days.",
		Why:  "Programs refuse everybody once their list is over, so a shorter life is an outage after one night without the daemon. With a longer one a node that gets no new list accepts revoked certificates for years.",
		Wrong: `site: tls: {authorities: [` + someAuthority + `], revocationListLife: "1h"}
nodes: "n1": system: certificates: web: {revocationList: true, reload: ["nginx.service"]}`,
		Right: `site: tls: {authorities: [` + someAuthority + `], revocationListLife: "720h"}
nodes: "n1": system: certificates: web: {revocationList: true, reload: ["nginx.service"]}`,
		Site: revocationList,
	},
}

func revocationList(s *site.Site) []site.Finding {
	if life := time.Duration(s.TLS.ListLifeOrDefault()); life < leastListLife || life > mostCertificateLife {
		return []site.Finding{wrong("site.tls.revocationListLife", fmt.Sprintf("%s is not from 24h to 9600h", life), "Write a life such as \"336h\".")}
	}
	return nil
}

func tlsAuthorities(s *site.Site) []site.Finding {
	const at, fix = "site.tls.authorities", "Copy what `slipway site tls-authority` shows on the bootstrap host, or the certificate of the root."
	var found []site.Finding
	for i, text := range s.TLS.Authorities {
		if _, err := tlsca.Parse(text); err != nil {
			found = append(found, wrong(at, fmt.Sprintf("authority %d: %v", i+1, err), fix))
		}
		for _, other := range s.TLS.Authorities[:i] {
			if tlsca.Fingerprint(text) == tlsca.Fingerprint(other) {
				found = append(found, wrong(at, fmt.Sprintf("authority %d is named twice", i+1), "Remove one of the two."))
			}
		}
	}
	return found
}

// eachCertificate checks each certificate of a node's design.
func eachCertificate(check func(at string, n *site.Node, c site.TLS) []site.Finding) func(*site.Site, *site.Node) []site.Finding {
	return func(s *site.Site, n *site.Node) []site.Finding {
		return eachSystem(func(path string, x site.System) []site.Finding {
			var found []site.Finding
			for _, name := range keys(x.Certificates) {
				found = append(found, check(path+".certificates."+name, n, x.Certificates[name])...)
			}
			return found
		})(s, n)
	}
}

func certificateAuthority(s *site.Site, n *site.Node) []site.Finding {
	if len(s.TLS.Authorities) > 0 {
		return nil
	}
	return eachCertificate(func(at string, _ *site.Node, _ site.TLS) []site.Finding {
		return []site.Finding{wrong(at, "the design has a certificate, and the site names no authority that signs it",
			"Add what `slipway site tls-authority` shows as site: tls: authorities: […].")}
	})(s, n)
}

func certificateLife(at string, _ *site.Node, c site.TLS) []site.Finding {
	if life := time.Duration(c.LifeOrDefault()); life < leastCertificateLife || life > mostCertificateLife {
		return []site.Finding{wrong(at+".life", fmt.Sprintf("%s is not from 6h to 9600h", life), "Write a life such as \"336h\".")}
	}
	return nil
}

// tlsName is a host name. A wildcard would be good for other nodes too.
var tlsName = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?)*$`)

// numericEnd is the end of what some programs read as an address, such as 10.1.0.012.
var numericEnd = regexp.MustCompile(`(^|\.)([0-9]+|0x[0-9a-f]*)$`)

func certificateNames(s *site.Site, n *site.Node) []site.Finding {
	return eachCertificate(func(at string, n *site.Node, c site.TLS) []site.Finding {
		var found []site.Finding
		names := askedNames(n, c)
		for i, name := range names {
			a, err := netip.ParseAddr(name)
			switch {
			case a.Zone() != "", err != nil && (!tlsName.MatchString(name) || numericEnd.MatchString(name) || len(name) > 253):
				found = append(found, wrong(at+".names", fmt.Sprintf("%q is neither a host name nor an address", name),
					"Write a name such as \"{name}.example.org\". A certificate has no wildcards."))
			case slices.Contains(names[:i], name):
				found = append(found, wrong(at+".names", fmt.Sprintf("%s is named twice", name), "Remove one of the two."))
			}
		}
		if len(names) > 100 {
			found = append(found, wrong(at+".names", fmt.Sprintf("it has %d names, and a certificate has at most 100", len(names)), "Divide them among several certificates."))
		}
		return found
	})(s, n)
}

// askedNames are the names that the design gives a certificate, as site.TLSName has them.
func askedNames(n *site.Node, c site.TLS) (names []string) {
	for _, name := range c.Names {
		names = append(names, site.TLSName(strings.ReplaceAll(name, "{name}", n.Name)))
	}
	return names
}

// What a name in a fact is.
const (
	nameOfNode     = "of the node"
	nameOfEndpoint = "of an endpoint" // where a BMC or a hypervisor answers, which several nodes may share
	nameOfService  = "of an endpoint at a port of its own"
	nameAsked      = "of a certificate"
)

// certificateFacts are the names of a node, and those of its certificates. A name that is made from that of the node
// is the node's alone.
func certificateFacts(_ *site.Site, n *site.Node) []Fact {
	var facts []Fact
	usesOwn := false
	for _, system := range append([]site.System{n.System}, slices.Collect(maps.Values(n.Families))...) {
		for _, name := range keys(system.Certificates) {
			c := system.Certificates[name]
			usesOwn = usesOwn || len(c.Names) == 0
			path := "system.certificates." + name + ".names"
			for i, asked := range askedNames(n, c) {
				facts = append(facts, Fact{Key: asked, Path: path, Value: nameAsked})
				if strings.Contains(c.Names[i], "{name}") {
					facts = append(facts, Fact{Key: asked, Path: path, Value: nameOfNode})
				}
			}
		}
	}
	for _, own := range n.References.TLSNames {
		facts = append(facts, Fact{Key: own, Path: "system.hostname", Value: nameOfNode})
		if usesOwn {
			facts = append(facts, Fact{Key: own, Path: "system.certificates", Value: nameAsked})
		}
	}
	if len(n.References.TLSNames) == 0 {
		return facts // the site has no authority for TLS
	}
	for _, kind := range keys(n.Endpoints) {
		if kind == site.Manager && n.IsVirtual() {
			continue // it is its hypervisor's
		}
		if u, err := url.Parse(n.Endpoints[kind].URL); err == nil && u.Hostname() != "" && u.Hostname() != "dhcp" {
			value := nameOfService
			if u.Port() == "" || u.Port() == "443" || u.Port() == "22" {
				value = nameOfEndpoint
			}
			facts = append(facts, Fact{Key: site.TLSName(u.Hostname()), Path: endpointPath(kind), Value: value})
		}
	}
	return facts
}

func endpointPath(kind site.EndpointKind) string { return "endpoints." + string(kind) + ".url" }

var osEndpoint = endpointPath(site.OS)

// namesOfOthers reports each certificate with a name of another node. Several nodes may have certificates for a name
// that is none's own: that of a service.
func namesOfOthers(_ *site.Site, x *Index) []site.Finding {
	var found []site.Finding
	for _, key := range x.Several() {
		var ofNode, ofService, asked []Holder
		// Endpoints of other nodes may be at a port of a node's own address, such as those of BMCs that it emulates, or
		// that it forwards. Whoever writes the address of another node's BMC, or a name alone, makes neither its own.
		isOwn := map[string]bool{}
		_, err := netip.ParseAddr(key)
		isAddress := err == nil
		for _, h := range x.Holders(key) {
			switch h.Value {
			case nameOfNode:
				ofNode = append(ofNode, h)
				isOwn[h.Node] = isOwn[h.Node] || isAddress
			case nameOfEndpoint, nameOfService:
				if h.Value == nameOfService {
					ofService = append(ofService, h)
				} else {
					ofNode = append(ofNode, h)
				}
				isOwn[h.Node] = isOwn[h.Node] || h.Path == osEndpoint
			default:
				asked = append(asked, h)
			}
		}
		for _, h := range asked {
			others := ofNode
			if !isOwn[h.Node] {
				others = slices.Concat(ofNode, ofService)
			}
			at := slices.IndexFunc(others, func(o Holder) bool { return o.Node != h.Node })
			if at < 0 {
				continue
			}
			found = append(found, h.about(site.Finding{
				Message: fmt.Sprintf("%s asks for a TLS certificate with the name %s, which is one of %s", h.Node, key, others[at].Node),
				Fix:     "Take the name out of the certificate, or correct the one that is wrong.",
				Related: []string{others[at].Place.String()},
			}))
		}
	}
	return found
}
