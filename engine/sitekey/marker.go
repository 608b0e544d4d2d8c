package sitekey

import "github.com/slipway-gitops/slipway/engine/site"

// installation is what a marker's token signs.
type installation struct {
	Site       string        `json:"site"`
	Node       string        `json:"node"`
	Machine    site.Identity `json:"machine"`
	Generation int           `json:"generation"`
	Image      string        `json:"image"`
	Attempt    int           `json:"attempt"`
	Term       uint64        `json:"term"`
}

func installationOf(m site.Marker) installation {
	return installation{m.Site, m.Node, m.Machine, m.Generation, m.Image, m.Attempt, m.Term}
}

// Token returns the token of a marker. It signs which machine was installed
// with what, for which site and node, by which approval, and in which term.
func (k *Key) Token(m site.Marker) (string, error) { return k.Sign(ForMarker, installationOf(m)) }

// Proves reports whether a machine's marker proves that the site installed this
// machine. A marker copied from another machine does not, nor does one that
// names no machine.
func Proves(publics []string, name string, seen site.Identity, m site.Marker) bool {
	return m.Site == name && m.Machine.Known() && m.Machine.Matches(seen) &&
		Verify(publics, ForMarker, installationOf(m), m.Token) == nil
}
