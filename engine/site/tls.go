package site

import (
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
}

// TLS is a TLS certificate that a node is to have.
type TLS struct {
	// Names are host names and addresses; {name} stands for the node's. Without them they are those of
	// the node.
	Names []string `json:"names,omitempty"`
	// Usage is "server", "client" or "both".
	Usage string   `json:"usage"`
	Life  Duration `json:"life"`
	Owner string   `json:"owner,omitempty"`
	Group string   `json:"group,omitempty"`
	// Reload are the units that read it again.
	Reload []string `json:"reload,omitempty"`
}

// TLSCertificate is a certificate that was signed for a node's system.
type TLSCertificate struct {
	// Name is that of the design, Serial in lower-case hex.
	Name   string `json:"name"`
	Serial string `json:"serial"`
	// Authority is the fingerprint of who signed, Digest the item.Digest of what the system has as cert.pem.
	Authority string `json:"authority"`
	Digest    string `json:"digest"`
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

// Due is when it is to be replaced: at two thirds of its life.
func (c TLSCertificate) Due() time.Time { return c.Since.Add(c.Until.Sub(c.Since) * 2 / 3) }

// Late is when something is wrong if it was not replaced: at five sixths of its life.
func (c TLSCertificate) Late() time.Time { return c.Since.Add(c.Until.Sub(c.Since) * 5 / 6) }

// Revoked are certificates of an identity that has ended; nil for none.
func Revoked(all []TLSCertificate) []TLSCertificate {
	ended := slices.Clone(all)
	for i := range ended {
		ended[i].Revoked = true
	}
	return ended
}

// CertificateIn is the certificate of a name that a node's design asks for in a system of what was seen. Its names
// are those of this node.
func (n *Node) CertificateIn(seen *Platform, name string) (TLS, bool) {
	c, is := n.Families[n.familyOf(seen)].Certificates[name]
	if !is {
		c, is = n.System.Certificates[name]
	}
	c.Names = n.certificateNames(c)
	return c, is && len(n.References.TLS) > 0
}

// certificateNames are the names that a certificate is good for.
func (n *Node) certificateNames(c TLS) []string {
	if len(c.Names) == 0 {
		return n.References.TLSNames
	}
	var names []string
	for _, name := range c.Names {
		names = append(names, strings.ToLower(strings.ReplaceAll(name, "{name}", n.Name)))
	}
	return names
}

// certificateItems ask for the certificates of a system; none where no authority signs them.
func (n *Node) certificateItems(s System) (items []item.Item) {
	if len(n.References.TLS) == 0 {
		return nil
	}
	for name, c := range s.Certificates {
		body := item.Certificate{Owner: or(c.Owner, "root"), Group: or(c.Group, "root"), Trust: strings.Join(n.References.TLS, "\n"), Reload: c.Reload}
		fields := body.Fields()
		fields["names"], fields["usage"], fields["life"] = item.List(n.certificateNames(c)), c.Usage, time.Duration(c.Life).String()
		items = append(items, item.New(item.KindCertificates+"."+name, fields, body))
	}
	return items
}
