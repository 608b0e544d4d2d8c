package inside_test

import (
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// The level says which upgrades a system gets, and reboot whether the restart that one needs is planned.
func TestUpgradesOfASystem(t *testing.T) {
	n := start(t)
	n.Does("cp /srv/snap.asc /etc/apt/trusted.gpg.d/; dpkg -i /srv/snap-a/pool/bookworm/patched_1.0_all.deb")
	design := func(level, reboot string) *site.Node {
		return &site.Node{
			Name: "n1", Endpoints: map[site.EndpointKind]site.Endpoint{site.OS: n.endpoint}, Identity: site.Identity{UUID: "u1"}, References: site.References{Family: "debian"},
			System: site.System{Patch: &site.Patch{Level: level, Snapshot: "file:///srv/snap-a", Reboot: reboot}},
		}
	}
	const version = "cat /usr/share/patched/version"
	n.converges(design("security", "never"))
	n.Says(version, "1.0") // which is no upgrade for security
	n.converges(design("all", "never"))
	n.Says(version, "1.1")

	restarts := func(reboot string) bool {
		t.Helper()
		d := design("all", reboot)
		n.converges(d)
		m := n.open(t)
		defer m.Close()
		seen, err := look(t.Context(), n, m, d)
		if err != nil {
			t.Fatal(err)
		}
		seen.Identity = d.Identity
		seen.Facets[site.FacetPower] = site.FacetState{Have: site.Values{"state": "on"}, Seen: time.Now()}
		p := plan.Node(&site.Site{Nodes: map[string]*site.Node{"n1": d}}, d, site.Known{
			Nodes: map[string]site.Memory{"n1": {Observed: seen}}, Serves: map[site.Facet]bool{site.FacetPower: true, site.FacetPackages: true},
		})
		return len(p.Steps) == 1 && p.Steps[0].Action == site.ActionRestart
	}
	for _, reboot := range []string{"ifNeeded", "libraries", "never"} {
		if restarts(reboot) {
			t.Errorf("%s: a restart is planned that nothing asks for", reboot)
		}
	}
	n.Does("touch /run/reboot-required") // as Debian does it
	for reboot, want := range map[string]bool{"ifNeeded": true, "libraries": true, "never": false} {
		if got := restarts(reboot); got != want {
			t.Errorf("%s: a restart is planned: %v", reboot, got)
		}
	}
}
