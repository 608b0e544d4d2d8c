package design

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/site"
)

// addressed is a site of which one line of a profile says how every node is
// reached.
const addressed = `package small

roles: compute: {}
racks: r1: {}
credentials: bmc: {}
networks: bmc: {cidr: "10.0.0.0/24", ranges: nodes: {from: "10.0.0.11", to: "10.0.0.99", use: "static"}}
networks: bmc6: cidr: "fd00::/64"
data: ipam: path: "ipam.json"
allocations: bmc: n2: "10.0.0.12"
profiles: base: {
	role: "compute"
	rack: "r1"
	endpoints: manager: url: "redfish+https://{addresses.bmc}:8443/redfish/v1/Systems/{name}"
}
nodes: {
	n1: {profiles: ["base"], addresses: bmc: "10.0.0.11"}
	n2: {profiles: ["base"], addresses: bmc: "allocate"}
	n3: profiles: ["base"]
	n4: {profiles: ["base"], addresses: bmc6: "fd00::14", endpoints: manager: url: "redfish+https://{addresses.bmc6}/redfish/v1/Systems/1"}
}
`

func addressedSite(more string) map[string]string {
	return map[string]string{"site.cue": addressed + more, "ipam.json": `{"n3": {"addresses": {"bmc": "10.0.0.13"}}}`}
}

// A reference stands for what the node has in the end, whoever says it, and is
// another text for every node that has the line from its profile.
func TestURLsReferToTheEffectiveNode(t *testing.T) {
	e := newEvaluator(t, Limits{})
	r := evaluateIn(t, e, addressedSite(""))
	if r.Site == nil {
		t.Fatalf("not clean:\n%s", describe(r.Findings))
	}
	got := map[string]string{}
	for name, n := range r.Site.Nodes {
		got[name] = n.Endpoints[site.Manager].URL + " " + n.Origins.Of("endpoints.manager.url").LayerName()
	}
	want := map[string]string{
		"n1": "redfish+https://10.0.0.11:8443/redfish/v1/Systems/n1 profile/base",
		"n2": "redfish+https://10.0.0.12:8443/redfish/v1/Systems/n2 profile/base",
		"n3": "redfish+https://10.0.0.13:8443/redfish/v1/Systems/n3 profile/base",
		"n4": "redfish+https://[fd00::14]/redfish/v1/Systems/1 node/n4",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	x, _, err := e.Explain(t.Context(), repository(addressedSite("")), "", "n2.endpoints.manager.url")
	if diff := cmp.Diff("endpoints.manager.url \"redfish+https://10.0.0.12:8443/redfish/v1/Systems/n2\" profile/base\n", told(x)); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// A policy sees what a reference stands for.
func TestPoliciesSeeResolvedURLs(t *testing.T) {
	e := newEvaluator(t, Limits{})
	r := evaluateIn(t, e, addressedSite(`policies: bmcs: {require: endpoints: manager: url: =~"//10[.]", why: "it is their network"}`))
	if len(r.Findings) != 1 || r.Findings[0].Node != "n4" || r.Findings[0].Code != "policy/bmcs" {
		t.Errorf("not the one node in another network:\n%s", describe(r.Findings))
	}
}

// Nothing that a commit says becomes a text of megabytes in every node.
func TestURLsAreBounded(t *testing.T) {
	for _, path := range []string{strings.Repeat("{name}", 900), strings.Repeat("{name}", 300), strings.Repeat("x", 3000) + "{name}"} {
		text := strings.Replace(addressed, "{name}", path, 1)
		text = strings.ReplaceAll(text, "n1", `"a-name-of-some-letters"`)
		files := addressedSite("")
		files["site.cue"] = text
		codes := map[string]bool{}
		for _, f := range EvaluateHere(repository(files), "").Findings {
			codes[f.Code] = true
		}
		if diff := cmp.Diff([]string{"endpoint-reference"}, slices.Sorted(maps.Keys(codes))); diff != "" {
			t.Errorf("a URL of %d letters: %s", len(path), diff)
		}
	}
}

// What was said of a broken value, or will be of a missing one, is not said
// again of the URL.
func TestReferenceToWhatIsReportedIsSilent(t *testing.T) {
	for more, code := range map[string]string{
		`nodes: n5: {profiles: ["base"], addresses: bmc: "allocate"}`: "allocation-missing",
		`nodes: n5: {profiles: ["base"], addresses: bmc: "10.0.0"}`:   "invalid-value",
		`nodes: n5: profiles: ["bas"]`:                                "unknown-profile",
	} {
		r := EvaluateHere(repository(addressedSite(more)), "")
		if len(r.Findings) != 1 || r.Findings[0].Code != code {
			t.Errorf("%s: not %s alone:\n%s", more, code, describe(r.Findings))
		}
	}
}
