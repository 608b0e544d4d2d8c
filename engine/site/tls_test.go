package site_test

import (
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Certificates that only systems of some family are to have are asked for as others are.
func TestCertificatesOfFamiliesAlone(t *testing.T) {
	n := &site.Node{Name: "n1", Families: map[string]site.System{"debian": {Certificates: map[string]site.TLS{"web": {}}}}, References: site.References{TLS: []string{"x"}, TLSNames: []string{"n1"}}}
	if !n.Asks(site.FacetConfig) {
		t.Error("a node whose certificates are in families alone asks for nothing")
	}
	before := n.Asked(site.FacetConfig)
	n.Families["debian"] = site.System{Certificates: map[string]site.TLS{"web": {Names: []string{"other"}}}}
	if n.Asked(site.FacetConfig) == before {
		t.Error("other names are no change of the design")
	}
}

// A name is one text, however it is written.
func TestTLSName(t *testing.T) {
	for name, want := range map[string]string{
		"Web.Example.org.": "web.example.org", "::ffff:10.1.0.12": "10.1.0.12", "2001:DB8:0::1": "2001:db8::1", "10.1.0.12": "10.1.0.12", "n1": "n1",
	} {
		if got := site.TLSName(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}
