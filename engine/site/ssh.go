package site

import "time"

// SSHAuthorities are who signs SSH certificates of a site.
type SSHAuthorities struct {
	// Users are the public keys whose certificates let people and the daemon in: one,
	// and a second one while it is exchanged.
	Users []string `json:"users,omitempty"`
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

// Login is how Slipway logged in to a system.
type Login struct {
	// By is one of the ways below.
	By      string `json:"by"`
	Account string `json:"account,omitempty"`
	// Refused says why it was not by a certificate of the site, where one could have been
	// shown. Clock is the time by which the system's clock was off then, to the minute.
	Refused string   `json:"refused,omitempty"`
	Clock   Duration `json:"clock,omitempty"`
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
	// By is the person, as the daemon knows them.
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
	// Certificate is as ssh-keygen(1) writes it.
	Certificate string    `json:"certificate"`
	Serial      uint64    `json:"serial"`
	Principal   string    `json:"principal"`
	Until       time.Time `json:"until"`
}
