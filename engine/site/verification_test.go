package site_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

func TestVerifyClaimsOnlyWhatWasSeen(t *testing.T) {
	now := time.Date(2026, 11, 28, 6, 0, 0, 0, time.UTC)
	read := func(ago time.Duration) site.Memory {
		return site.Memory{Observed: site.Observed{Facets: map[site.Facet]site.FacetState{
			site.FacetPower: {Have: site.Values{"state": "on"}, Seen: now.Add(-ago), Driver: "redfish"}}}}
	}
	d := &site.Site{Name: "s", Nodes: map[string]*site.Node{}, Rollout: site.Rollout{ObserveEvery: site.Duration(time.Minute)}}
	for _, name := range []string{"denied", "never", "old", "well"} {
		d.Nodes[name] = &site.Node{Name: name, Endpoints: map[site.EndpointKind]site.Endpoint{
			"bmc": {URL: "redfish+https://192.0.2.1/redfish/v1/Systems/1"}, "os": {URL: "ssh://192.0.2.2"}}}
	}
	k := site.Known{Nodes: map[string]site.Memory{"denied": read(time.Second), "old": read(time.Hour), "well": read(time.Second)},
		Unseen: map[string]bool{"denied": true}}
	r := site.Report{Status: site.Status{Problems: []site.Problem{{About: "source", What: "the remote is silent", Since: now}},
		Nodes: []site.NodeStatus{{Name: "denied", Reason: "wrong BMC password", Release: "a new password"}}}}

	got := map[string]site.Check{}
	for _, c := range site.Verify(d, r, k, now).Checks {
		got[c.Node+"/"+c.Subject] = c
	}
	for which, want := range map[string]site.Outcome{"/source": site.CheckWrong, "denied/bmc": site.CheckUnknown, "never/bmc": site.CheckUnknown,
		"old/bmc": site.CheckUnknown, "well/bmc": site.CheckOK, "well/os": site.CheckUnknown} {
		if c := got[which]; c.Outcome != want || c.Sentence == "" {
			t.Errorf("%s: %+v, want %s with a sentence", which, c, want)
		}
	}
	if c := got["denied/bmc"]; !strings.Contains(c.Sentence, "wrong BMC password") || c.Release != "a new password" {
		t.Errorf("a failed look does not say why and what to do: %+v", c)
	}
}
