package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// TLS certificates are renewed past the drift policy too, unless something else of the facet has changed.
func TestTLSCertificatesAreRenewedPastTheDriftPolicy(t *testing.T) {
	names := site.Change{Field: "config.certificates.web.names", Have: "to be renewed since 2026-11-20"}
	for name, c := range map[string]struct {
		facet   site.Facet
		changes []site.Change
		renews  bool
	}{
		"due":             {site.FacetConfig, []site.Change{names}, true},
		"nothing":         {site.FacetConfig, nil, false},
		"with a file":     {site.FacetConfig, []site.Change{names, {Field: "config.files./etc/motd.content"}}, false},
		"for whom":        {site.FacetConfig, []site.Change{{Field: "config.certificates.web.owner"}}, false},
		"absent":          {site.FacetConfig, []site.Change{{Field: "config.certificates.web"}}, false},
		"a file so named": {site.FacetConfig, []site.Change{{Field: "config.files./etc/config.certificates.x.names"}}, false},
		"another facet":   {site.FacetBase, []site.Change{names}, false},
		"of host keys":    {site.FacetBase, []site.Change{{Field: "base.sshhost.certificates"}}, true},
	} {
		if got := (site.Step{Facet: c.facet, Drift: true, Changes: c.changes}).Renews(); got != c.renews {
			t.Errorf("%s: renews %t", name, got)
		}
		if (site.Step{Facet: c.facet, Changes: c.changes}).Renews() {
			t.Errorf("%s: a change of the design is no renewal", name)
		}
	}
}

// Certificates that are due are no change of the machine: they are renewed whatever the design asks for drift. What
// else has changed in the facet goes by the policy.
func TestHostCertificatesAreRenewedPastTheDriftPolicy(t *testing.T) {
	const due, certificates = "to be renewed since 2026-11-20", item.KindSSHHost + ".certificates"
	for name, c := range map[string]struct {
		policy, hostname string
		reached          bool
		want             string // what is said; a part of it
	}{
		"report":               {"report", "n1", true, "step with drift: its host certificates are to be renewed"},
		"propose":              {"propose", "n1", true, "step with drift: its host certificates are to be renewed"},
		"repair":               {"repair", "n1", true, "step with drift: its host certificates are to be renewed"},
		"enforce":              {"enforce", "n1", true, "step with drift: its host certificates are to be renewed"},
		"report of more":       {"report", "other", true, "reported: base.hostname is other"},
		"enforced with more":   {"enforce", "other", true, "step with drift: was as designed and has changed on the machine"},
		"a change of a design": {"report", "n1", false, "step: differs from the design"},
	} {
		n := &site.Node{Name: "n1", Endpoints: overSSH, Identity: site.Identity{UUID: "u1"}, Power: "on", Drift: map[site.Facet]string{site.FacetBase: c.policy}}
		n.System.Hostname, n.System.SSH.Accounts = "n1", []string{"root"}
		n.References.Authorities, n.References.HostNames = []string{"ssh-ed25519 AAAA"}, []string{"n1"}
		have := site.Values{}
		for field, v := range n.Want(site.FacetBase) {
			have[field] = v
		}
		have["hostname"], have[certificates] = c.hostname, due
		m := site.Memory{
			Observed: site.Observed{Identity: n.Identity, Marker: &site.Marker{Node: "n1"}, Facets: map[site.Facet]site.FacetState{
				site.FacetPower: {Have: site.Values{"state": "on"}, Seen: time.Unix(1, 0)}, site.FacetBase: {Have: have, Seen: time.Unix(1, 0)},
			}},
			Recorded: site.Recorded{Reached: map[site.Facet]string{}},
		}
		if c.reached {
			m.Recorded.Reached[site.FacetBase] = n.Asked(site.FacetBase)
		}
		p := plan.Node(&site.Site{Nodes: map[string]*site.Node{"n1": n}}, n, site.Known{Nodes: map[string]site.Memory{"n1": m}, Serves: map[site.Facet]bool{site.FacetPower: true, site.FacetBase: true}})
		got := p.Blocked
		for _, s := range p.Steps {
			drift := ""
			if s.Drift {
				drift = " with drift"
			}
			got = append(got, "step"+drift+": "+s.Reason)
		}
		for _, r := range p.Reported {
			got = append(got, "reported: "+r)
		}
		if is := strings.Join(got, "; "); len(got) != 1 || !strings.HasPrefix(is, c.want) {
			t.Errorf("%s: %q, want %q", name, is, c.want)
		}
	}
}
