package site

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
)

// TLSAuthorities are who signs the TLS certificates of a site.
type TLSAuthorities struct {
	// Authorities are the certificates to trust, in PEM: one, and a second one while it is exchanged.
	Authorities []string `json:"authorities,omitempty"`
	// Epoch says which of the keys that follow from the root key signs; 0 is the first.
	Epoch int `json:"epoch,omitempty"`
	// RevocationListLife is how long a list of revoked certificates counts; 0 is revocationListLife.
	RevocationListLife Duration `json:"revocationListLife,omitempty"`
}

// revocationListLife is the life of a list of revoked certificates where the design sets none.
const revocationListLife = 14 * 24 * time.Hour

// ListLifeOrDefault is how long a list of revoked certificates counts.
func (a TLSAuthorities) ListLifeOrDefault() Duration {
	if a.RevocationListLife == 0 {
		return Duration(revocationListLife)
	}
	return a.RevocationListLife
}

// TLS is a TLS certificate that a node is to have.
type TLS struct {
	// Names are host names and addresses; {name} stands for the node's. Without them they are those of
	// the node.
	Names []string `json:"names,omitempty"`
	// Usage is "server", also when empty, "client" or "both".
	Usage string `json:"usage,omitempty"`
	// Life is how long it counts; 0 is certificateLife.
	Life  Duration `json:"life,omitempty"`
	Owner string   `json:"owner,omitempty"`
	Group string   `json:"group,omitempty"`
	// Reload are the units that read it again.
	Reload []string `json:"reload,omitempty"`
	// RevocationList has the node keep the lists of revoked certificates beside it.
	RevocationList bool `json:"revocationList,omitempty"`
}

// certificateLife is the life of a certificate where the design sets none. A third of it outlasts a long weekend in
// which nobody mends what keeps it from being renewed.
const certificateLife = 14 * 24 * time.Hour

// LifeOrDefault is how long the certificate counts.
func (c TLS) LifeOrDefault() Duration {
	if c.Life == 0 {
		return Duration(certificateLife)
	}
	return c.Life
}

// TLSCertificate is a certificate that was signed for a node's system.
type TLSCertificate struct {
	// Name is that of the design, Serial in lower-case hex.
	Name   string `json:"name"`
	Serial string `json:"serial"`
	// Authority is the fingerprint of who signed, Digest the item.Digest of what the system has as cert.pem.
	Authority string `json:"authority"`
	Digest    string `json:"digest"`
	// Key identifies its public key, as tlsca.Certificate has it.
	Key string `json:"key,omitempty"`
	// Names, Usage and Life are as designed then.
	Names []string `json:"names"`
	Usage string   `json:"usage"`
	Life  Duration `json:"life"`
	// Since is when it was signed, Until its last moment.
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// Revoked says that the identity of the system has ended. It counts for Slipway no longer; others accept
	// it until it is over.
	Revoked bool `json:"revoked,omitempty"`
}

// The states of a certificate.
const (
	TLSValid    = "valid"
	TLSDue      = "due"      // it is to be renewed
	TLSLate     = "late"     // it was not renewed in time
	TLSOver     = "over"     // programs refuse it
	TLSUnseen   = "unseen"   // it was signed, and not seen on the system yet
	TLSReplaced = "replaced" // a later one is there
	TLSUnused   = "unused"   // the design does not ask for it any more
	TLSRevoked  = "revoked"  // the identity of the system has ended
)

// TLSState is what people see of a certificate that others may still accept.
type TLSState struct {
	Name   string   `json:"name"`
	Serial string   `json:"serial"`
	Names  []string `json:"names"`
	// Authority is the fingerprint of who signed.
	Authority string    `json:"authority"`
	Since     time.Time `json:"since"`
	Until     time.Time `json:"until"`
	// State is one of the states above.
	State string `json:"state"`
	// ListUntil is when the list of revoked certificates that the system has beside it is over: from then on programs
	// that read it refuse everybody. It is zero where the system was seen to have none.
	ListUntil time.Time `json:"listUntil,omitzero"`
}

// IsInUse reports whether the system is to have it.
func (s TLSState) IsInUse() bool {
	return s.State == TLSValid || s.State == TLSDue || s.State == TLSLate || s.State == TLSOver
}

// Late is when something is wrong if it was not replaced, as that of TLSCertificate.
func (s TLSState) Late() time.Time { return s.Since.Add(s.Until.Sub(s.Since) * 3 / 4) }

// Due is when it is to be replaced: at two thirds of its life.
func (c TLSCertificate) Due() time.Time { return c.Since.Add(c.Until.Sub(c.Since) * 2 / 3) }

// Late is when something is wrong if it was not replaced: at three quarters of its life.
func (c TLSCertificate) Late() time.Time { return c.Since.Add(c.Until.Sub(c.Since) * 3 / 4) }

// Revoked are certificates of an identity that has ended; nil for none.
func Revoked(all []TLSCertificate) []TLSCertificate {
	ended := slices.Clone(all)
	for i := range ended {
		ended[i].Revoked = true
	}
	return ended
}

// CertificateIn is the certificate of a name that a node's design asks for in a system of what was seen. Its names
// are those of this node, and its usage and life are set.
func (n *Node) CertificateIn(seen *Platform, name string) (TLS, bool) {
	c, is := n.Families[n.familyOf(seen)].Certificates[name]
	if !is {
		c, is = n.System.Certificates[name]
	}
	c.Names, c.Usage, c.Life = n.certificateNames(c), or(c.Usage, "server"), c.LifeOrDefault()
	return c, is && len(n.References.TLS) > 0
}

// certificateNames are the names that a certificate is good for.
func (n *Node) certificateNames(c TLS) []string {
	if len(c.Names) == 0 {
		return n.References.TLSNames
	}
	var names []string
	for _, name := range c.Names {
		names = append(names, TLSName(strings.ReplaceAll(name, "{name}", n.Name)))
	}
	return names
}

// TLSName is a name or an address in the one form that certificates have it in, so that two that mean the same are
// the same text: 10.1.0.12 for ::ffff:10.1.0.12.
func TLSName(name string) string {
	if a, err := netip.ParseAddr(name); err == nil {
		return a.Unmap().String()
	}
	return strings.ToLower(strings.TrimSuffix(name, "."))
}

// tlsNames are the names and addresses of a node in that form, its name first.
func tlsNames(hostNames []string) (names []string) {
	for _, name := range hostNames {
		if name = TLSName(name); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// certificateItems ask for the certificates of a system; none where no authority signs them.
func (n *Node) certificateItems(s System) (items []item.Item) {
	if len(n.References.TLS) == 0 {
		return nil
	}
	for name, c := range s.Certificates {
		body := item.Certificate{Owner: or(c.Owner, "root"), Group: or(c.Group, "root"), Trust: strings.Join(n.References.TLS, "\n"), Reload: c.Reload, HasList: c.RevocationList}
		fields := body.Fields()
		fields["names"], fields["usage"], fields["life"] = item.List(n.certificateNames(c)), or(c.Usage, "server"), time.Duration(c.LifeOrDefault()).String()
		items = append(items, item.New(item.KindCertificates+"."+name, fields, body))
	}
	return items
}
