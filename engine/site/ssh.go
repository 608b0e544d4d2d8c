package site

import (
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
)

// SSHAuthorities are who signs SSH certificates of a site.
type SSHAuthorities struct {
	// Users are the public keys whose certificates let people and the daemon in: one,
	// and a second one while it is exchanged.
	Users []string `json:"users,omitempty"`
	// Hosts are the public keys whose certificates systems prove themselves by: one, and a
	// second one while it is exchanged.
	Hosts []string `json:"hosts,omitempty"`
	// Epoch says which of the keys that follow from the root key signs; 0 is the first.
	Epoch int `json:"epoch,omitempty"`
	// Revoked is who and what may no longer log in to any node.
	Revoked SSHRevoked `json:"revoked,omitzero"`
}

// SSHRevoked is who and what may no longer log in by SSH.
type SSHRevoked struct {
	// People are those who get no certificate, and whose certificates do not count.
	People []string `json:"people,omitempty"`
	// Keys are public keys that do not count, alone or in a certificate.
	Keys []string `json:"keys,omitempty"`
}

// SSH is who may log in to a system by certificate.
type SSH struct {
	// Accounts are those that certificates of the site's authority let in.
	Accounts []string `json:"accounts,omitempty"`
}

// SSHAccounts are the accounts of a node that certificates let in, by what its system was
// seen to be, in the order of the design; none where the site names no authority.
func (n *Node) SSHAccounts(seen *Platform) []string {
	if len(n.References.Authorities) == 0 {
		return nil
	}
	return longer(n.Families[n.familyOf(seen)].SSH.Accounts, n.System.SSH.Accounts)
}

// hostName is a name or an address that one host certificate may have: no pattern.
var hostName = regexp.MustCompile(`^[A-Za-z0-9_:][A-Za-z0-9._:-]{0,252}$`)

// hostNames are the names and addresses of a node that its certificates are good for, by the
// design alone: the node's name, its full name and host name, its address to log in at, and those of its interfaces. An
// address behind another port than 22 is left out, since several systems may share it. The node's name is
// the first.
func (s *Site) hostNames(n *Node, links map[string]item.Link) []string {
	all := []string{n.Name}
	add := func(name string) {
		if ip, err := netip.ParseAddr(name); err == nil {
			name = ip.Unmap().WithZone("").String() // one form of each address, so that two nodes with it are seen
		}
		if name = strings.ToLower(strings.TrimSuffix(name, ".")); hostName.MatchString(name) {
			all = append(all, name)
		}
	}
	for _, system := range append([]System{n.System}, slices.Collect(maps.Values(n.Families))...) {
		add(strings.ReplaceAll(system.Hostname, "{name}", n.Name))
	}
	if primary := s.Networks[n.PrimaryNetwork]; primary != nil && primary.DNS.Domain != "" {
		add(n.Name + "." + primary.DNS.Domain)
	}
	if u, err := url.Parse(n.Endpoints[OS].URL); err == nil && or(u.Port(), "22") == "22" && u.Hostname() != "dhcp" {
		add(u.Hostname())
	}
	for _, l := range links {
		for _, address := range l.Addresses {
			if prefix, err := netip.ParsePrefix(address); err == nil {
				add(prefix.Addr().String())
			}
		}
	}
	others := slices.DeleteFunc(slices.Clone(all[1:]), func(name string) bool { return strings.EqualFold(name, n.Name) })
	slices.Sort(others)
	return append(all[:1], slices.Compact(others)...)
}

// HostCertificate is a certificate that was signed for a host key of a node's system.
type HostCertificate struct {
	// Key is the host key, "ssh-ed25519 AAAA…", Authority the fingerprint of who signed.
	Key       string `json:"key"`
	Authority string `json:"authority"`
	// Line is as ssh-keygen(1) writes it.
	Line   string   `json:"line"`
	Serial uint64   `json:"serial"`
	Names  []string `json:"names"`
	// Since is when it was signed, Until its last moment.
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
}

// Due is when it is to be replaced: at two thirds of its life.
func (c HostCertificate) Due() time.Time { return c.Since.Add(c.Until.Sub(c.Since) * 2 / 3) }

// HostIdentity is how a node's system proves itself by certificate.
type HostIdentity struct {
	// Names are what the certificates are good for, Authorities the public keys that sign them.
	Names       []string `json:"names"`
	Authorities []string `json:"authorities"`
	// Until is when the first of them ends.
	Until time.Time `json:"until"`
}

// Login is how Slipway logged in to a system.
type Login struct {
	// By is one of the ways below.
	By      string `json:"by"`
	Account string `json:"account,omitempty"`
	// Refused says why it was not by a certificate of the site, where one could have been
	// shown. Clock is the time by which the system's clock was off then, to the minute.
	Refused string   `json:"refused,omitempty"`
	Clock   Duration `json:"clock,omitempty"`
	// Host is how the system proved itself: ByCertificate, or ByKey for a host key that Slipway knows.
	Host string `json:"host,omitempty"`
}

// Steady is the login without what differs from look to look; nil for nil.
func (l *Login) Steady() *Login {
	if l == nil {
		return nil
	}
	steady := *l
	steady.Clock = 0
	return &steady
}

// The ways to log in.
const (
	ByCertificate = "certificate" // signed by the site's authority for this login
	ByKey         = "key"         // that of the endpoint's credential, or a certificate that is in it
	ByPassword    = "password"    // that of the endpoint's credential
)

// SSHRequest is a person's request for a certificate that logs in to a node.
type SSHRequest struct {
	Node string `json:"node"`
	// Account is one of the node's; empty for the first.
	Account string `json:"account,omitempty"`
	// Key is the public key of the person, "ssh-ed25519 AAAA…". The private one stays there.
	Key string `json:"key"`
	// Life is how long the certificate is to be valid.
	Life Duration `json:"life"`
	// By is the person, in the form by which the design can revoke them: one of item.CallersNamed.
	By string `json:"by,omitempty"`
}

// SSHGrant is a certificate, and where it logs in.
type SSHGrant struct {
	Node    string `json:"node"`
	Account string `json:"account"`
	// Host and Port are where the system is reached, HostKeys the lines that it must prove
	// itself by, as in site.Trust.
	Host     string   `json:"host"`
	Port     int      `json:"port"`
	HostKeys []string `json:"hostKeys"`
	// HostAuthorities are the public keys whose certificates the system may prove itself by too, for the
	// node's name; none where Slipway signed none, or where it knows a host key and did not see a certificate
	// at its last login. RevokedHostKeys is the list, as OpenSSH reads it, that refuses all certificates of
	// these authorities but the node's own, also where the key in one of them is known.
	HostAuthorities []string `json:"hostAuthorities,omitempty"`
	RevokedHostKeys []byte   `json:"revokedHostKeys,omitempty"`
	// Certificate is as ssh-keygen(1) writes it.
	Certificate string    `json:"certificate"`
	Serial      uint64    `json:"serial"`
	Principal   string    `json:"principal"`
	Until       time.Time `json:"until"`
}
