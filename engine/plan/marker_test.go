package plan_test

import (
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A marker that was not read proves nothing where ours was read before, and
// accuses nobody where there never was one.
func TestMarkerThatWasNotRead(t *testing.T) {
	installed := func(reported bool) *site.Installation {
		return &site.Installation{Generation: 1, Image: "aa", Since: now, Proven: true, Reported: reported}
	}
	for name, c := range map[string]struct {
		installed *site.Installation
		foreign   bool
	}{
		"ours had one":    {installed(true), true},
		"ours had none":   {installed(false), false},
		"none recorded":   {nil, false},
		"it was accepted": {&site.Installation{Generation: 1, Since: now, Proven: true, Accepted: (*site.Marker)(nil).Digest()}, false},
	} {
		t.Run(name, func(t *testing.T) {
			design := &site.Site{
				Name:   "s",
				Images: map[string]*site.Image{"debian": {URL: "http://images.example/debian.iso", SHA256: "aa"}},
				Nodes: map[string]*site.Node{"n1": {Name: "n1", Identity: site.Identity{UUID: "u1"}, Power: "on",
					Image: "debian", Generation: 1}},
			}
			known := site.Known{Nodes: map[string]site.Memory{"n1": {
				Recorded: site.Recorded{Installed: c.installed},
				Observed: site.Observed{
					Identity:     site.Identity{UUID: "u1"},
					MarkerUnread: "Slipway's account may not read it",
					Facets: map[site.Facet]site.FacetState{
						site.FacetOS:    {Have: site.Values{"bootID": "b"}, Seen: now},
						site.FacetPower: {Have: site.Values{"state": "on"}, Seen: now},
					},
				},
			}}}
			p := plan.Site(design, "r1", known)
			if got := p.Nodes[0].Foreign; (got != "") != c.foreign || c.foreign && !strings.Contains(got, "may not read it") {
				t.Errorf("foreign: %q", got)
			}
		})
	}
}
