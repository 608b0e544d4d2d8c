package plan

import (
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// On a machine with another system nothing is planned but an installation that
// the design asks for: of a higher generation than the machine has had.
func TestOnlyAnInstallationIsPlannedOverAnotherSystem(t *testing.T) {
	elsewhere := &site.Marker{Site: "other", Node: "x", Generation: 1}
	seen := func(f site.Facet, have site.Values) map[site.Facet]site.FacetState {
		return map[site.Facet]site.FacetState{site.FacetOS: {Seen: lookedAt}, f: {Have: have, Seen: lookedAt}}
	}
	physical := &site.Node{Name: "n1", Image: "debian", Generation: 2, Power: "on"}
	virtual := &site.Node{Name: "n1", Style: site.StyleVirtual, Image: "debian", Generation: 2, Power: "on",
		Virtual: site.Virtual{CPUs: 1, Memory: 1 << 30, Disks: map[string]site.VirtualDisk{"root": {Size: 1 << 30, Image: "overlay"}}}}
	virtual.Derive("lab")
	staged := *physical
	staged.Firmware = map[string]site.Firmware{"BMC": {Version: "2"}}
	off := seen(site.FacetPower, site.Values{"state": "off"})
	there := seen(site.FacetDefinition, site.Values{"state": "present", "generation": "1"})
	for name, c := range map[string]struct {
		n     *site.Node
		have  int
		looks map[site.Facet]site.FacetState
		want  site.Action
	}{
		"a higher generation":              {physical, 1, off, site.ActionInstall},
		"with firmware that differs":       {&staged, 1, seen(site.FacetFirmware, site.Values{"BMC": "1"}), site.ActionInstall},
		"the generation that it had":       {physical, 2, off, ""},
		"a lower generation":               {physical, 3, off, ""},
		"a higher one, virtual":            {virtual, 1, there, site.ActionDefine},
		"the one that it had, virtual":     {virtual, 2, there, ""},
		"a higher one of a machine gone":   {virtual, 1, seen(site.FacetDefinition, site.Values{"state": site.StateAbsent}), site.ActionDefine},
		"the same one of a machine gone":   {virtual, 2, seen(site.FacetDefinition, site.Values{"state": site.StateAbsent}), ""},
		"a machine whose power is unknown": {physical, 2, map[site.Facet]site.FacetState{site.FacetOS: {Seen: lookedAt}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := &site.Site{Name: "lab", Images: map[string]*site.Image{"debian": {SHA256: "aa"}}, Nodes: map[string]*site.Node{"n1": c.n}}
			m := site.Memory{
				Recorded: site.Recorded{Installed: &site.Installation{Generation: c.have, Since: lookedAt, Reported: true}},
				Observed: site.Observed{Marker: elsewhere, Facets: c.looks},
			}
			var p site.NodePlan
			planForeign(&p, s, c.n, m)
			var first site.Action
			if len(p.Steps) > 0 {
				first = p.Steps[0].Action
			}
			if first != c.want || c.want == "" && (p.Waiting != "" || len(p.Blocked) > 0) {
				t.Errorf("got steps %+v, waiting %q, blocked %q", p.Steps, p.Waiting, p.Blocked)
			}
			if (p.Foreign == "") != Absent(m.Observed) {
				t.Errorf("it is told as %q", p.Foreign)
			}
		})
	}
}

// What a machine said of itself before it was gone is no claim of the machine.
func TestMachineThatIsGoneClaimsNothing(t *testing.T) {
	n := &site.Node{Name: "n1", Image: "debian", Generation: 1}
	m := site.Memory{Observed: site.Observed{
		Marker: &site.Marker{Site: "lab", Node: "n1", Generation: 1},
		Facets: map[site.Facet]site.FacetState{site.FacetDefinition: {Have: site.Values{"state": site.StateAbsent}, Seen: lookedAt}},
	}}
	if claims(n, m) || Generation(n, m) != 0 {
		t.Errorf("generation %d", Generation(n, m))
	}
	delete(m.Observed.Facets, site.FacetDefinition)
	if !claims(n, m) || Generation(n, m) != 1 {
		t.Errorf("while it is there: generation %d", Generation(n, m))
	}
}
