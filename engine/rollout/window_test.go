package rollout_test

import (
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// What is staged and has drifted goes by its policy, the restart that it needs
// too.
func TestDriftOfWhatIsStaged(t *testing.T) {
	serves := map[site.Facet]bool{site.FacetFirmware: true}
	for _, c := range []struct {
		policy  string
		pending bool
		want    string // steps with their windows, or what is reported
	}{
		{"report", false, "reported"},
		{"report", true, "reported"},
		{"propose", true, "reported"},
		{"", true, "restart in night"},
		{"repair", false, "update-firmware in night, restart in night"},
		{"enforce", false, "update-firmware at once, restart at once"},
		{"enforce", true, "restart at once"},
	} {
		n := &site.Node{Name: "n1", Power: "on", Window: "night", Identity: site.Identity{UUID: "u"},
			Drift: map[site.Facet]string{site.FacetFirmware: c.policy}, Firmware: map[string]site.Firmware{"bmc": {Version: "2"}}}
		wish := n.Want(site.FacetFirmware)
		seen := site.FacetState{Have: site.Values{"bmc": "1"}, Seen: now}
		if c.pending {
			seen.Pending = wish
		}
		m := site.Memory{Observed: site.Observed{Facets: map[site.Facet]site.FacetState{
			site.FacetPower: {Have: site.Values{"state": "on"}, Seen: now}, site.FacetFirmware: seen,
		}}, Recorded: site.Recorded{Reached: map[site.Facet]string{site.FacetFirmware: wish.Digest()}}}
		p := plan.Node(&site.Site{}, n, site.Known{Nodes: map[string]site.Memory{"n1": m}, Serves: serves})
		var got []string
		for _, s := range p.Steps {
			when := "at once"
			if w := rollout.WindowOf(n, &s); w != "" {
				when = "in " + w
			}
			if got = append(got, string(s.Action)+" "+when); !s.Drift {
				t.Errorf("drift %q: %s is no drift", c.policy, s.Action)
			}
		}
		if len(p.Reported) > 0 {
			got = append(got, "reported")
		}
		if is := strings.Join(got, ", "); is != c.want {
			t.Errorf("drift %q, pending %t: %s, want %s", c.policy, c.pending, is, c.want)
		}
	}
}

// A renewal of host certificates waits for no window: they would be over before it opens.
func TestRenewalsWaitForNoWindow(t *testing.T) {
	t.Parallel()
	n := &site.Node{Windows: site.Windows{Online: "night"}}
	certificates := site.Change{Field: "base.sshhost.certificates"}
	for name, c := range map[string]struct {
		renewal bool
		policy  string
		want    string
	}{
		"a renewal":         {true, "", ""},
		"a renewal, repair": {true, "repair", ""},
		"changed by hand":   {false, "", "night"},
	} {
		n.Drift = map[site.Facet]string{site.FacetBase: c.policy}
		step := site.Step{Facet: site.FacetBase, Impact: site.ImpactOnline, Drift: true, Renewal: c.renewal, Changes: []site.Change{certificates}}
		if got := rollout.WindowOf(n, &step); got != c.want {
			t.Errorf("%s: waits for %q, want %q", name, got, c.want)
		}
	}
}
