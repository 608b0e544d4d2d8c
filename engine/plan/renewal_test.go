package plan_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

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
				site.FacetPower: {Have: site.Values{"state": "on"}, Seen: time.Unix(1, 0)}, site.FacetBase: {Have: have, Due: []string{certificates}, Seen: time.Unix(1, 0)},
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

// What a person changed is no renewal: the design says whether it is set back.
func TestChangedHostCertificatesAreDrift(t *testing.T) {
	const certificates = item.KindSSHHost + ".certificates"
	for _, was := range []string{"changed by hand", "others than Slipway signed", "not in effect: sshd does not read /etc/ssh/sshd_config.d/61-slipway-host.conf", ""} {
		for _, policy := range []string{"report", "propose"} {
			n := &site.Node{Name: "n1", Endpoints: overSSH, Identity: site.Identity{UUID: "u1"}, Power: "on", Drift: map[site.Facet]string{site.FacetBase: policy}}
			n.System.Hostname, n.System.SSH.Accounts = "n1", []string{"root"}
			n.References.Authorities, n.References.HostNames = []string{"ssh-ed25519 AAAA"}, []string{"n1"}
			have := site.Values{}
			for field, v := range n.Want(site.FacetBase) {
				have[field] = v
			}
			have[certificates] = was
			if was == "" {
				delete(have, certificates)
			}
			m := site.Memory{
				Observed: site.Observed{Identity: n.Identity, Marker: &site.Marker{Node: "n1"}, Facets: map[site.Facet]site.FacetState{
					site.FacetPower: {Have: site.Values{"state": "on"}, Seen: time.Unix(1, 0)}, site.FacetBase: {Have: have, Seen: time.Unix(1, 0)},
				}},
				Recorded: site.Recorded{Reached: map[site.Facet]string{site.FacetBase: n.Asked(site.FacetBase)}},
			}
			p := plan.Node(&site.Site{Nodes: map[string]*site.Node{"n1": n}}, n, site.Known{Nodes: map[string]site.Memory{"n1": m}, Serves: map[site.Facet]bool{site.FacetPower: true, site.FacetBase: true}})
			if len(p.Steps) > 0 || len(p.Reported) != 1 || !strings.Contains(p.Reported[0], was) {
				t.Errorf("%s: %q: steps %+v, reported %q", policy, was, p.Steps, p.Reported)
			}
		}
	}
}

// TLS certificates are renewed past the drift policy too, where the machine has what it was given, and nothing else of
// the facet has changed. What a person changed is drift.
func TestTLSCertificatesAreRenewedPastTheDriftPolicy(t *testing.T) {
	const names = item.KindCertificates + ".web.names"
	for name, c := range map[string]struct {
		names, owner string
		due          []string
		want         string // a step's reason; empty for a report
	}{
		"due":                {"to be renewed since 2026-11-20", "", []string{names}, "its TLS certificates are to be renewed"},
		"not read":           {"n1 (a.service has not read it)", "", []string{names}, "its TLS certificates are to be renewed"},
		"due, owner changed": {"to be renewed since 2026-11-20", "ops:ops", []string{names}, ""},
		"by hand":            {"changed by hand: /etc/slipway-tls/web/key.pem is another key", "", nil, ""},
		"others":             {"others than Slipway signed", "", nil, ""},
		"other owner alone":  {"", "ops:ops", nil, ""},
	} {
		n := &site.Node{Name: "n1", Endpoints: overSSH, Identity: site.Identity{UUID: "u1"}, Power: "on", Drift: map[site.Facet]string{site.FacetConfig: "report"}}
		n.System.Certificates = map[string]site.TLS{"web": {}}
		n.References.TLS, n.References.TLSNames = []string{"x"}, []string{"n1"}
		have := site.Values{}
		maps.Copy(have, n.Want(site.FacetConfig))
		if c.names != "" {
			have[names] = c.names
		}
		if c.owner != "" {
			have[item.KindCertificates+".web.owner"] = c.owner
		}
		m := site.Memory{
			Observed: site.Observed{Identity: n.Identity, Marker: &site.Marker{Node: "n1"}, Facets: map[site.Facet]site.FacetState{
				site.FacetPower: {Have: site.Values{"state": "on"}, Seen: time.Unix(1, 0)}, site.FacetConfig: {Have: have, Due: c.due, Seen: time.Unix(1, 0)},
			}},
			Recorded: site.Recorded{Reached: map[site.Facet]string{site.FacetConfig: n.Asked(site.FacetConfig)}},
		}
		p := plan.Node(&site.Site{Nodes: map[string]*site.Node{"n1": n}}, n, site.Known{Nodes: map[string]site.Memory{"n1": m}, Serves: map[site.Facet]bool{site.FacetPower: true, site.FacetConfig: true}})
		switch {
		case c.want == "" && (len(p.Steps) > 0 || len(p.Reported) != 1):
			t.Errorf("%s: steps %+v, reported %q", name, p.Steps, p.Reported)
		case c.want != "" && (len(p.Steps) != 1 || !p.Steps[0].Renewal || p.Steps[0].Reason != c.want):
			t.Errorf("%s: steps %+v, reported %q", name, p.Steps, p.Reported)
		}
	}
}
