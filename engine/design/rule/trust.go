package rule

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"

	"github.com/slipway-gitops/slipway/engine/cleartext"
	"github.com/slipway-gitops/slipway/engine/site"
)

// trusting: can Slipway verify the other side of an endpoint?
var trusting = []Rule{{
	Code: "trust-ca", Severity: site.SeverityError,
	What:  "trust.ca holds certificates that can be read, and nothing else.",
	Why:   "The machine's certificate cannot be verified, so that it is refused and nothing is done with the machine.",
	Wrong: `nodes: "n1": endpoints: manager: trust: ca: "-----BEGIN CERTIFICATE-----\nMIIBMDCB\n-----END CERTIFICATE-----"`,
	Right: `nodes: "n1": endpoints: manager: trust: ca: "` + someCertificate + `"`,
	Node: func(_ *site.Site, n *site.Node) (found []site.Finding) {
		for _, kind := range keys(n.Endpoints) {
			if fault := caFault([]byte(n.Endpoints[kind].Trust.CA)); fault != "" {
				path := "endpoints." + string(kind) + ".trust.ca"
				found = append(found, wrong(path, fault, "Copy the certificates as they are in the authority's PEM file."))
			}
		}
		return found
	},
	Site: func(s *site.Site) (found []site.Finding) {
		for _, name := range keys(s.Hypervisors) {
			if fault := caFault([]byte(s.Hypervisors[name].Trust.CA)); fault != "" {
				found = append(found, wrong("hypervisors."+name+".trust.ca", fault, "Copy the certificates as they are in the authority's PEM file."))
			}
		}
		return found
	},
}}

// someCertificate is a certificate for examples, escaped for a CUE string.
const someCertificate = `-----BEGIN CERTIFICATE-----\nMIIBMDCB46ADAgECAhRg3rnhBshOD5t0oNJsNwxDL5GwzDAFBgMrZXAwDTELMAkG\nA1UEAwwCY2EwIBcNMjYxMTIxMTAwMjQyWhgPMjEyNjEwMjgxMDAyNDJaMA0xCzAJ\nBgNVBAMMAmNhMCowBQYDK2VwAyEAmrTXHLp7itCBCJrbfbrGxVw+dLDDpflB3l04\nIm/GbKujUzBRMB0GA1UdDgQWBBSyGCZcAgi6l6m/+tmVOXiGx4bhoTAfBgNVHSME\nGDAWgBSyGCZcAgi6l6m/+tmVOXiGx4bhoTAPBgNVHRMBAf8EBTADAQH/MAUGAytl\ncANBAE2YGR4JsgmIWzdW9khb8TBGq3a/nsyf4aF3vnKRDCCCw+OUO2BwvYotV8t/\nIbJVbTnw6qgtifgaNmI11hRq/gg=\n-----END CERTIFICATE-----`

// caFault says what is wrong with certificates in PEM form. clear-secret
// reports a private key among them.
func caFault(rest []byte) string {
	for i := 1; ; i++ {
		block, after := pem.Decode(rest)
		switch {
		case block == nil && bytes.Contains(rest, []byte("-----BEGIN")):
			return fmt.Sprintf("part %d of trust.ca cannot be read", i)
		case block == nil:
			return ""
		case cleartext.In(string(rest)) != "":
		case block.Type != "CERTIFICATE":
			return fmt.Sprintf("part %d of trust.ca is not a certificate", i)
		default:
			if _, err := x509.ParseCertificate(block.Bytes); err != nil {
				return fmt.Sprintf("certificate %d of trust.ca cannot be read: %v", i, err)
			}
		}
		rest = after
	}
}
