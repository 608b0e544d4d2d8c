package sshclient

import (
	"errors"
	"net"
	"slices"
	"strings"

	gossh "golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/site"
)

// authority marks a line of trust.hostKeys, as in a known_hosts file: not the
// host's key follows, but that of who signs hosts' keys.
const authority = "@cert-authority "

// trust is what a host may prove itself by.
type trust struct {
	pinned      []gossh.PublicKey
	authorities []gossh.PublicKey
	// site are certificates of the site's own authority, which count by their serial numbers.
	site hostTrust
}

// hostTrust are driver.HostCertificates, as they are checked.
type hostTrust struct {
	node        string
	authorities []gossh.PublicKey
	serials     []uint64
}

// These are wrapped where a host shows a certificate that is not trusted, the second one where the design names who
// signs the host's keys. It may still have a trusted key without.
var (
	errCertificate   = errors.New("a host certificate that does not count for this node")
	errProvesNothing = errors.New("a host certificate that proves nothing")
)

func parseTrust(lines []string, host string) (trust, error) {
	var t trust
	for i, line := range lines {
		text, signs := strings.CutPrefix(line, authority)
		key, _, options, _, err := gossh.ParseAuthorizedKey([]byte(text))
		if err != nil || len(options) > 0 {
			return trust{}, refused("trust.hostKeys[%d] of %s is not a public key like `ssh-ed25519 AAAA…`, nor one after `@cert-authority`", i, host)
		}
		if signs {
			t.authorities = append(t.authorities, key)
		} else {
			t.pinned = append(t.pinned, key)
		}
	}
	return t, nil
}

// check holds the host key against what is trusted. It runs before the
// credential is sent.
func (t trust) check(address string, key gossh.PublicKey) (by string, err error) {
	if has(t.pinned, key) {
		return site.ByKey, nil
	}
	if cert, ok := key.(*gossh.Certificate); ok {
		if t.site.check(cert) == nil {
			return site.ByCertificate, nil
		}
		err := t.checkCertificate(address, cert)
		switch {
		case err == nil:
			return site.ByCertificate, nil
		case has(t.pinned, cert.Key):
			return site.ByKey, nil
		}
		if len(t.authorities) > 0 {
			return "", refused("%s shows %w: %.300s; have its key signed for the name or address in the endpoint, by an authority in trust.hostKeys",
				address, errProvesNothing, err)
		}
		key = cert.Key
		if len(t.site.serials) > 0 {
			return "", refused("%s shows %w, and its host key %s is not one of the pinned ones either; if the system was installed by somebody else, put `%s` into trust.hostKeys of the endpoint; if not, somebody may be intercepting the connection",
				address, errCertificate, gossh.FingerprintSHA256(key), strings.TrimSpace(string(gossh.MarshalAuthorizedKey(key))))
		}
	}
	line := strings.TrimSpace(string(gossh.MarshalAuthorizedKey(key)))
	if len(t.site.serials) > 0 {
		return "", refused("%s had a host certificate of this site, and now shows the host key %s, which Slipway does not know; if somebody has made new host keys, put `%s` into trust.hostKeys of the endpoint; if not, somebody may be intercepting the connection",
			address, gossh.FingerprintSHA256(key), line)
	}
	if len(t.pinned)+len(t.authorities) == 0 {
		return "", refused("no host key is pinned for %s; it shows %s; if that is its key, add `%s` to trust.hostKeys of the endpoint",
			address, gossh.FingerprintSHA256(key), line)
	}
	return "", refused("%s shows the host key %s, which is not one of the pinned ones; if the system was installed again, put `%s` into trust.hostKeys of the endpoint; if not, somebody may be intercepting the connection",
		address, gossh.FingerprintSHA256(key), line)
}

// check wants a certificate of the site's authority that was signed for the node and is not revoked.
func (t hostTrust) check(cert *gossh.Certificate) error {
	if !slices.Contains(t.serials, cert.Serial) || !slices.Contains(cert.ValidPrincipals, t.node) || t.node == "" {
		return errors.New("it is not one that counts for the node")
	}
	checker := gossh.CertChecker{IsHostAuthority: func(by gossh.PublicKey, _ string) bool { return has(t.authorities, by) }}
	return checker.CheckHostKey(net.JoinHostPort(t.node, "22"), nil, cert)
}

// checkCertificate wants a certificate that names the host. One without names
// is good for every host, so that each could pass for any other.
func (t trust) checkCertificate(address string, cert *gossh.Certificate) error {
	if len(cert.ValidPrincipals) == 0 {
		return errors.New("it names no host")
	}
	checker := gossh.CertChecker{IsHostAuthority: func(by gossh.PublicKey, _ string) bool { return has(t.authorities, by) }}
	return checker.CheckHostKey(address, nil, cert)
}

func has(keys []gossh.PublicKey, key gossh.PublicKey) bool {
	return slices.ContainsFunc(keys, func(k gossh.PublicKey) bool { return string(k.Marshal()) == string(key.Marshal()) })
}

// algorithms asks for the kinds of what is trusted before all others, so that
// a host with several keys shows the one that proves it. Plain is without certificates.
func (t trust) algorithms(plain bool) []string {
	var first []string
	all := gossh.SupportedAlgorithms().HostKeys
	certifies := func(a string) bool { return strings.Contains(a, "-cert-v") }
	switch {
	case plain:
		all = slices.DeleteFunc(all, certifies)
	case len(t.authorities)+len(t.site.serials) > 0:
		first = slices.DeleteFunc(slices.Clone(all), func(a string) bool { return !certifies(a) })
	}
	for _, key := range t.pinned {
		if key.Type() == gossh.KeyAlgoRSA {
			first = append(first, gossh.KeyAlgoRSASHA512, gossh.KeyAlgoRSASHA256)
			continue
		}
		first = append(first, key.Type())
	}
	others := slices.DeleteFunc(all, func(a string) bool { return slices.Contains(first, a) })
	return append(first, others...)
}
