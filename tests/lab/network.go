package lab

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// ntp is where a BMC has its time from; it asks nobody.
type ntp struct {
	off     bool
	servers []string
}

// certificatePath is the certificate that a BMC presents.
func (p *personality) certificatePath() string {
	return p.manager + "/NetworkProtocol/HTTPS/Certificates/1"
}

// growNetworkProtocol adds how a BMC is reached, and its certificate.
func (p *personality) growNetworkProtocol(l layout) {
	at := p.manager + "/NetworkProtocol"
	l.singles[at] = func(m *Machine) body {
		port := m.fleet.ports.bmc
		time := locked(m, func() ntp { return m.ntp })
		return p.thing("ManagerNetworkProtocol", at, "Manager Network Protocol", body{
			"Status": healthy(), "HostName": m.config.Name + "-bmc", "FQDN": m.config.Name + "-bmc",
			"HTTP":  body{"ProtocolEnabled": true, "Port": port}, // it answers where HTTPS is
			"HTTPS": body{"ProtocolEnabled": true, "Port": port, "Certificates": ref(at + "/HTTPS/Certificates")},
			"NTP":   body{"ProtocolEnabled": !time.off, "NTPServers": append([]string{}, time.servers...)},
		})
	}
	l.one("Certificate", p.certificatePath(), func(m *Machine) body { return p.certificate(m, p.certificatePath()) })
	const service = root + "/CertificateService"
	l.singles[service] = func(*Machine) body {
		return p.thing("CertificateService", service, "Certificate Service", body{
			"CertificateLocations": ref(service + "/CertificateLocations"),
			"Actions": body{"#CertificateService.ReplaceCertificate": body{
				"target": service + "/Actions/CertificateService.ReplaceCertificate", "CertificateType@Redfish.AllowableValues": []string{"PEM"},
			}},
		})
	}
	l.singles[service+"/CertificateLocations"] = func(*Machine) body {
		return p.thing("CertificateLocations", service+"/CertificateLocations", "Certificate Locations", body{
			"Links": body{"Certificates": []any{ref(p.certificatePath())}, "Certificates@odata.count": 1},
		})
	}
}

func (p *personality) certificate(m *Machine, at string) body {
	c := locked(m, func() *tls.Certificate { return m.certificateLocked() })
	leaf := c.Leaf
	name := func(n pkix.Name) body { return body{"CommonName": n.CommonName} }
	sum := sha256.Sum256(leaf.Raw)
	return p.thing("Certificate", at, "HTTPS Certificate", body{
		"CertificateType": "PEM", "CertificateUsageTypes": []string{"Web"}, "KeyUsage": []string{"DigitalSignature", "ServerAuthentication"},
		"CertificateString": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Raw})),
		"Subject":           name(leaf.Subject), "Issuer": name(leaf.Issuer), "SerialNumber": colons(leaf.SerialNumber.Bytes()),
		"ValidNotBefore": leaf.NotBefore.UTC().Format(time.RFC3339), "ValidNotAfter": leaf.NotAfter.UTC().Format(time.RFC3339),
		"Fingerprint": colons(sum[:]), "FingerprintHashAlgorithm": "TPM_ALG_SHA256",
	})
}

// colons is bytes as certificates show them.
func colons(b []byte) string { return strings.ReplaceAll(fmt.Sprintf("% x", b), " ", ":") }

// replaceCertificate is the action CertificateService.ReplaceCertificate: the
// chain and its key as PEM, of which the BMC makes use at once.
func (x *exchange) replaceCertificate(string) {
	const action = "CertificateService.ReplaceCertificate"
	b, ok := x.read()
	if !ok {
		return
	}
	text, _ := b["CertificateString"].(string)
	which, _ := b["CertificateUri"].(body)
	for _, name := range []string{"CertificateString", "CertificateType", "CertificateUri"} {
		if b[name] == nil {
			x.fail(http.StatusBadRequest, "ActionParameterMissing", action, name)
			return
		}
	}
	if b["CertificateType"] != "PEM" {
		x.fail(http.StatusBadRequest, "ActionParameterValueNotInList", shown(b["CertificateType"]), "CertificateType", action)
		return
	}
	if linkOf(which) != x.kind.certificatePath() {
		x.fail(http.StatusBadRequest, "ActionParameterValueFormatError", shown(b["CertificateUri"]), "CertificateUri", action)
		return
	}
	c, err := tls.X509KeyPair([]byte(text), []byte(text))
	if err != nil {
		x.fail(http.StatusBadRequest, "ActionParameterValueFormatError", "PEM", "CertificateString", action)
		return
	}
	if !x.lies() {
		locked(x.Machine, func() any { x.given, x.tls = &c, nil; return nil })
	}
	x.done()
}

// patchNetworkProtocol changes where the time is from.
func (x *exchange) patchNetworkProtocol() {
	b, ok := x.read()
	if !ok || !x.current(x.resource(x.path)) {
		return
	}
	given, ok := x.only(b, "NTP")
	if !ok {
		return
	}
	next := locked(x.Machine, func() ntp { return x.ntp })
	for name, v := range given {
		servers, isList := v.([]any)
		on, isFlag := v.(bool)
		switch {
		case strings.Contains(name, "@"):
		case name == "ProtocolEnabled" && isFlag:
			next.off = !on
		case name == "NTPServers" && isList:
			if next.servers, ok = patchedTexts(next.servers, servers); ok {
				continue
			}
			fallthrough
		case name == "ProtocolEnabled", name == "NTPServers":
			x.fail(http.StatusBadRequest, "PropertyValueTypeError", shown(v), name)
			return
		default:
			x.fail(http.StatusBadRequest, "PropertyUnknown", name)
			return
		}
	}
	if !x.lies() {
		locked(x.Machine, func() any { x.ntp = next; return nil })
	}
	x.patched()
}

// patchedTexts is a list of texts after a PATCH: null takes an element out, an
// empty object leaves it, and what is not mentioned at the end is gone
// (DSP0266, PATCH on array properties).
func patchedTexts(now []string, given []any) (next []string, ok bool) {
	for i, v := range given {
		switch v := v.(type) {
		case nil:
		case string:
			next = append(next, v)
		case body:
			if len(v) > 0 {
				return nil, false
			}
			if i < len(now) {
				next = append(next, now[i])
			}
		default:
			return nil, false
		}
	}
	return next, true
}

// growSchemas adds where the schemas are that the resources follow. Their
// texts DMTF publishes.
func (p *personality) growSchemas(l layout) {
	const at = root + "/JsonSchemas"
	var ids []string
	for _, kind := range slices.Sorted(maps.Keys(schemas)) {
		id, _, _ := strings.Cut(strings.TrimPrefix(p.typeOf(kind), "#"), "."+kind)
		ids = append(ids, id)
		l.singles[at+"/"+id] = func(*Machine) body {
			return p.thing("JsonSchemaFile", at+"/"+id, kind+" Schema File", body{
				"Schema": p.typeOf(kind), "Languages": []string{"en"},
				"Location": []any{body{"Language": "en", "PublicationUri": fmt.Sprintf("http://redfish.dmtf.org/schemas/v1/%s.json", id)}},
			})
		}
	}
	l.some("JsonSchemaFile", at, ids...)
}

// baseRegistry is the message registry of what the BMC has to say: those of
// the standard messages that it uses.
func (p *personality) baseRegistry(at string) body {
	all := body{}
	for id, m := range messages {
		if m.own {
			continue
		}
		params := []string{}
		for n := 1; strings.Contains(m.text, fmt.Sprintf("%%%d", n)); n++ {
			params = append(params, "string")
		}
		all[id] = body{
			"Description": m.text, "Message": m.text, "MessageSeverity": m.severity, "NumberOfArgs": len(params), "ParamTypes": params, "Resolution": m.resolution,
		}
	}
	prefix, version, _ := strings.Cut(p.speech.base, ".")
	return p.thing("MessageRegistry", at, "Base Message Registry", body{
		"Id": p.speech.base + ".0", "Language": "en", "RegistryPrefix": prefix, "RegistryVersion": version + ".0", "OwningEntity": "DMTF", "Messages": all,
	})
}
