package plan

import (
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// What a machine is known not to be able to do is not planned, and so not approved.
func TestImpossibleStepsAreNotPlanned(t *testing.T) {
	serves := map[site.Facet]bool{site.FacetPower: true, site.FacetBoot: true}
	lacks := func(by string, a site.Action) *site.Lacks {
		return &site.Lacks{InstallBy: by, Steps: map[site.Action]string{a: "the BMC has no slot"}}
	}
	for name, c := range map[string]struct {
		lacks   *site.Lacks
		change  func(*site.Recorded)
		blocked bool
	}{
		"nobody has looked":     {nil, nil, false},
		"no slot":               {lacks("", site.ActionInstall), nil, true},
		"another way":           {lacks("http", site.ActionInstall), nil, false},
		"another step":          {lacks("", site.ActionRestart), nil, false},
		"an installer that ran": {lacks("", site.ActionInstall), func(r *site.Recorded) { r.Installing = &site.Installation{Generation: 1} }, false},
	} {
		n := &site.Node{Name: "n1", Generation: 1, Image: "debian", Identity: site.Identity{UUID: "4c4c4544-0051-4810-8057-b4c04f4a4e33"}}
		s := &site.Site{Name: "lab", Images: map[string]*site.Image{"debian": {URL: "http://x/y", SHA256: "0"}}, Nodes: map[string]*site.Node{"n1": n}}
		m := site.Memory{Observed: site.Observed{Identity: n.Identity, Lacks: c.lacks}}
		if c.change != nil {
			c.change(&m.Recorded)
		}
		var p site.NodePlan
		planNode(&p, s, n, m, serves)
		installs := len(p.Steps) > 0 && p.Steps[0].Action == site.ActionInstall
		if got := len(p.Blocked) > 0 && strings.Contains(p.Blocked[0], "install is not possible: the BMC has no slot"); got != c.blocked || installs == c.blocked && c.change == nil {
			t.Errorf("%s: blocked %q, steps %+v", name, p.Blocked, p.Steps)
		}
	}
}
