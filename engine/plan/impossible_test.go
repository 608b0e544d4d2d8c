package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// What a machine is known not to be able to do is not planned, and so not approved.
func TestImpossibleStepsAreNotPlanned(t *testing.T) {
	serves := map[site.Facet]bool{site.FacetPower: true, site.FacetBoot: true}
	lacks := func(a site.Action) *site.Lacks {
		return &site.Lacks{Steps: map[site.Action]string{a: "the BMC has no slot"}}
	}
	noWay := func(by string) *site.Lacks { return &site.Lacks{Install: map[string]string{by: "the BMC has no slot"}} }
	for name, c := range map[string]struct {
		lacks   *site.Lacks
		change  func(*site.Recorded)
		blocked bool
	}{
		"nobody has looked":     {nil, nil, false},
		"no slot":               {noWay(""), nil, true},
		"another way":           {noWay("http"), nil, false},
		"no reset":              {lacks(site.ActionInstall), nil, true},
		"another step":          {lacks(site.ActionRestart), nil, false},
		"an installer that ran": {noWay(""), func(r *site.Recorded) { r.Installing = &site.Installation{Generation: 1} }, false},
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

// A boot source that the machine does not list blocks the boot order, also that of
// a proposal. What the machine does not tell is left to the attempt.
func TestBootSourcesThatTheMachineLacks(t *testing.T) {
	hdd := site.FacetState{Have: site.Values{"order": "Hdd"}, Seen: now, Sources: []string{"Hdd", "Usb"}}
	of := func(change func(*site.FacetState)) site.FacetState {
		state := hdd
		change(&state)
		return state
	}
	for name, c := range map[string]struct {
		boot site.Boot
		seen site.FacetState
		says string // "" plans the step
	}{
		"lacking":              {site.Boot{Order: []string{"Pxe", "Hdd"}}, hdd, "boot.order: the machine cannot boot from Pxe, only from Hdd, Usb; change the design's boot.order"},
		"a proposal":           {site.Boot{Order: []string{"Pxe"}}, hdd, "cannot boot from Pxe"},
		"two":                  {site.Boot{Order: []string{"UefiHttp", "Pxe"}}, hdd, "cannot boot from UefiHttp, Pxe, only"},
		"there":                {site.Boot{Order: []string{"Usb", "Hdd"}}, hdd, ""},
		"nobody knows":         {site.Boot{Order: []string{"Pxe"}}, of(func(s *site.FacetState) { s.Sources = nil }), ""},
		"it keeps one":         {site.Boot{Order: []string{"Usb", "Pxe"}}, of(func(s *site.FacetState) { s.OneSource = true }), ""},
		"it keeps one, lacked": {site.Boot{Order: []string{"Pxe", "Usb"}}, of(func(s *site.FacetState) { s.OneSource = true }), "cannot boot from Pxe"},
		"another mode":         {site.Boot{Order: []string{"Pxe"}, Mode: "uefi"}, of(func(s *site.FacetState) { s.Have = site.Values{"order": "Hdd", "mode": "bios"} }), ""},
		"the same mode":        {site.Boot{Order: []string{"Pxe"}, Mode: "uefi"}, of(func(s *site.FacetState) { s.Have = site.Values{"order": "Hdd", "mode": "uefi"} }), "cannot boot from Pxe"},
	} {
		n := &site.Node{Name: "n1", Boot: c.boot, Identity: site.Identity{UUID: "4c4c4544-0051-4810-8057-b4c04f4a4e33"}}
		s := &site.Site{Name: "lab", Nodes: map[string]*site.Node{"n1": n}}
		m := site.Memory{Observed: site.Observed{Identity: n.Identity, Facets: map[site.Facet]site.FacetState{site.FacetBoot: c.seen}}}
		var p site.NodePlan
		planNode(&p, s, n, m, map[site.Facet]bool{site.FacetBoot: true})
		if blocked := strings.Join(p.Blocked, "; "); len(p.Steps) > 0 != (c.says == "") || (c.says == "") != (blocked == "") || !strings.Contains(blocked, c.says) {
			t.Errorf("%s: blocked %q, steps %+v", name, p.Blocked, p.Steps)
		}
	}
}

// The disk of a machine without a system may appear among its boot sources only
// when one is installed.
func TestDiskWithoutASystemIsNoBootSource(t *testing.T) {
	n := &site.Node{Name: "n1", Generation: 1, Image: "debian", Boot: site.Boot{Order: []string{"Hdd"}}, Identity: site.Identity{UUID: "4c4c4544-0051-4810-8057-b4c04f4a4e33"}}
	s := &site.Site{Name: "lab", Images: map[string]*site.Image{"debian": {URL: "http://x/y", SHA256: "0"}}, Nodes: map[string]*site.Node{"n1": n}}
	state := site.FacetState{Have: site.Values{"order": "Pxe"}, Seen: now, Sources: []string{"Pxe"}}
	m := site.Memory{Observed: site.Observed{Identity: n.Identity, Facets: map[site.Facet]site.FacetState{site.FacetBoot: state}}}
	for _, order := range []string{"Hdd", "Usb"} {
		n.Boot.Order = []string{order}
		var p site.NodePlan
		planNode(&p, s, n, m, map[site.Facet]bool{site.FacetBoot: true})
		if len(p.Blocked) > 0 != (order == "Usb") || p.Steps[0].Action != site.ActionInstall {
			t.Errorf("%s: blocked %q, steps %+v", order, p.Blocked, p.Steps)
		}
	}
}
