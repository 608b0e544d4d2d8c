package plan_test

import (
	"maps"
	"strings"
	"testing"
	"time"
	"unique"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// What starts with a system and is in no design is told, or disabled one by one, as the design
// asks; what is unknown is neither.
func TestUnitsThatTheDesignDoesNotName(t *testing.T) {
	at := site.Origin{File: unique.Make("nodes.cue"), Line: 7, Col: 2, Layer: unique.Make("profile/base")}
	enabled := true
	units := site.Values{
		"unlisted.a.service": "enabled, running", item.BroughtBy("a.service"): "a",
		"unlisted.b.timer":     "enabled, stopped",
		"unlisted.run@7.timer": "enabled, stopped",
		"unlisted.w.service":   "enabled, running", item.BroughtBy("w.service"): "web",
	}
	and := func(more site.Values) site.Values {
		all := maps.Clone(units)
		maps.Copy(all, more)
		return all
	}
	listed := func(have site.Values) site.FacetState {
		return site.FacetState{Have: have, Absent: []string{"unlisted"}, Seen: time.Unix(1, 0), System: &site.Platform{Family: "debian"}}
	}
	owning := func(s site.FacetState, keys ...string) site.FacetState {
		s.Owned, s.OwnedDigest = keys, "d"
		return s
	}
	disable, report := site.System{Unlisted: site.Unlisted{Units: "disable"}}, site.System{Unlisted: site.Unlisted{Units: "report"}}
	naming := func(s site.System) site.System {
		s.Packages = map[string]site.Package{"web:amd64": {}, "a": {State: "absent"}}
		s.Units = map[string]site.Unit{"run@.timer": {}}
		return s
	}
	const note = "; add them to `system.units`, or set `system.unlisted.units: \"disable\"` and Slipway disables them"
	for name, c := range map[string]struct {
		system   site.System
		families map[string]site.System
		seen     site.FacetState
		change   func(n *site.Node)
		steps    string
		notes    string
		blocked  string
		impact   site.Impact
	}{
		"nothing is asked": {seen: listed(units)},
		"reported": {system: report, seen: listed(units),
			notes: "4 units start with the system and are not in the design: a.service of the package a, b.timer, run@7.timer, w.service of the package web" + note},
		"one is reported": {system: report, seen: listed(site.Values{"unlisted.b.timer": "enabled, stopped", "unlisted.c.service": "disabled, running"}),
			notes: "b.timer starts with the system and is not in the design; add it to `system.units`, or set `system.unlisted.units: \"disable\"` and Slipway disables it"},
		"none is":          {system: report, seen: listed(nil)},
		"it was not asked": {system: report, seen: site.FacetState{Have: units, Seen: time.Unix(1, 0)}},
		"it is unknown what to report": {system: report, seen: site.FacetState{Unread: site.Values{"unlisted": "dpkg is broken"}, Seen: time.Unix(1, 0)},
			notes: "it is unknown which units start with the system and are not in the design: dpkg is broken"},
		"disabled": {system: disable, seen: listed(units), impact: site.ImpactInterrupts,
			steps: "config.unlisted.a.service enabled, running → disabled (nodes.cue:7), config.unlisted.b.timer enabled, stopped → disabled (nodes.cue:7), " +
				"config.unlisted.run@7.timer enabled, stopped → disabled (nodes.cue:7), config.unlisted.w.service enabled, running → disabled (nodes.cue:7)"},
		"the rest is named": {system: naming(disable), seen: listed(and(site.Values{"units.run@.timer.enabled": "false"})), impact: site.ImpactInterrupts,
			steps: "config.unlisted.a.service enabled, running → disabled (nodes.cue:7), config.unlisted.b.timer enabled, stopped → disabled (nodes.cue:7)"},
		"the role's health and boot actions name them": {system: disable, seen: listed(units), impact: site.ImpactOnline, change: func(n *site.Node) {
			n.References.Health = &site.Health{Units: []string{"a.service"}}
			n.References.Actions = map[string]site.BootAction{"x": {Packages: map[string]site.Package{"web": {}}, Units: map[string]site.Unit{"run@7.timer": {Enabled: &enabled}}}}
		}, steps: "config.unlisted.b.timer enabled, stopped → disabled (nodes.cue:7)"},
		"what starts a named service is named with it": {system: site.System{Unlisted: disable.Unlisted, Units: map[string]site.Unit{"c.service": {}}},
			seen: listed(site.Values{"unlisted.c.socket": "enabled, running", "unlisted.d.socket": "enabled, running"}), impact: site.ImpactInterrupts, steps: "config.unlisted.d.socket enabled, running → disabled (nodes.cue:7)"},
		"other names, what stops with it, and packages that need its package are named": {seen: listed(site.Values{
			"unlisted.a.service": "enabled, running", item.BroughtBy("a.service"): "a-common a-light a",
			"unlisted.b.service": "enabled, running", item.MeantBy("b.service"): "b-old.service other.service",
			"unlisted.d.service": "enabled, running", item.MeantBy("d.service"): "app@1.service", item.BroughtBy("d.service"): "d-common",
			"unlisted.w.service": "enabled, running", item.MeantBy("w.service"): "v.service", item.BroughtBy("w.service"): "w w-full",
		}), system: site.System{Unlisted: disable.Unlisted, Packages: map[string]site.Package{"a": {}}, Units: map[string]site.Unit{"b-old.service": {}, "app@.service": {}}},
			impact: site.ImpactInterrupts, steps: "config.unlisted.w.service enabled, running → disabled (nodes.cue:7)"},
		"in systems of one family": {families: map[string]site.System{"debian": disable}, system: report, seen: listed(site.Values{"unlisted.b.timer": "enabled, stopped"}), impact: site.ImpactOnline,
			steps: "config.unlisted.b.timer enabled, stopped → disabled (nodes.cue:7)"},
		"in systems of another":  {families: map[string]site.System{"rhel": disable}, seen: listed(units)},
		"they are disabled":      {system: disable, seen: owning(listed(site.Values{"unlisted.b.timer": "disabled"}), "unlisted.b.timer")},
		"somebody has undone it": {system: disable, seen: owning(listed(site.Values{"unlisted.b.timer": "enabled, stopped"}), "unlisted.b.timer"), impact: site.ImpactOnline, steps: "config.unlisted.b.timer enabled, stopped → disabled (nodes.cue:7)"},
		"the policy leaves": {seen: owning(listed(site.Values{"unlisted.b.timer": "disabled"}), "unlisted.b.timer"), impact: site.ImpactInterrupts,
			steps: "config.unlisted.b.timer made by Slipway → removed, or as it was before"},
		"one is named by now": {system: naming(disable), seen: owning(listed(site.Values{"unlisted.run@7.timer": "disabled", "units.run@.timer.enabled": "false"}), "unlisted.run@7.timer"), impact: site.ImpactInterrupts,
			steps: "config.unlisted.run@7.timer made by Slipway → removed, or as it was before"},
		"one that left the design comes back first": {system: disable, seen: owning(listed(site.Values{"unlisted.b.timer": "enabled, stopped", "units.b.timer.enabled": "true"}), "units.b.timer"), impact: site.ImpactInterrupts,
			steps: "config.units.b.timer made by Slipway → removed, or as it was before"},
		"it is not known yet": {system: disable, seen: site.FacetState{Have: site.Values{}, Seen: time.Unix(1, 0)}, impact: site.ImpactInterrupts, steps: "config.unlisted ? → disabled (nodes.cue:7)"},
		"it is unknown": {system: disable, seen: site.FacetState{Unread: site.Values{"unlisted": "dpkg is broken"}, Seen: time.Unix(1, 0)},
			blocked: "nodes.cue:7:2 (profile/base): config.unlisted: the units that start with the system could not be listed, so none is disabled: dpkg is broken"},
		"the helper is not there": {system: disable, seen: site.FacetState{Cannot: site.Values{"unlisted": "no sudo"}}, blocked: "nodes.cue:7:2 (profile/base): config.unlisted: no sudo"},
	} {
		n := &site.Node{Name: "n1", Endpoints: overSSH, Identity: site.Identity{UUID: "u1"}, Power: "on", System: c.system, Families: c.families, References: site.References{Family: "debian"},
			Origins: site.OriginsByPath(map[string]site.Origin{"system.unlisted.units": at})}
		if c.families != nil {
			n.Origins = site.OriginsByPath(map[string]site.Origin{"families.debian.unlisted.units": at})
		}
		if c.change != nil {
			c.change(n)
		}
		m := site.Memory{Observed: site.Observed{Identity: n.Identity, Facets: map[site.Facet]site.FacetState{
			site.FacetPower: {Have: site.Values{"state": "on"}, Seen: time.Unix(1, 0)}, site.FacetConfig: c.seen,
		}}}
		m.Recorded.Owned.Digest = c.seen.OwnedDigest
		known := site.Known{Nodes: map[string]site.Memory{"n1": m}, Serves: map[site.Facet]bool{site.FacetPower: true, site.FacetConfig: true}}
		p := plan.Node(&site.Site{Name: "test", Nodes: map[string]*site.Node{"n1": n}}, n, known)
		var steps, notes []string
		var impact site.Impact
		for _, s := range p.Steps {
			impact = max(impact, s.Impact)
			for _, c := range s.Changes {
				text := c.Field + " " + c.Have + " → " + c.Want
				if !c.Origin.IsZero() {
					text += " (nodes.cue:7)"
				}
				steps = append(steps, text)
			}
		}
		for _, text := range p.Notes {
			if strings.Contains(text, "start") {
				notes = append(notes, text)
			}
		}
		got := [3]string{strings.Join(steps, ", "), strings.Join(notes, "; "), strings.Join(p.Blocked, "; ")}
		if want := [3]string{c.steps, c.notes, c.blocked}; got != want || impact != c.impact {
			t.Errorf("%s: impact %s, want %s\n got %q\nwant %q", name, impact, c.impact, got, want)
		}
		as := plan.AsDesigned(n, site.FacetConfig, c.seen)
		if is := c.steps == "" && c.blocked == "" && n.AsksForUnits(); as != is {
			t.Errorf("%s: as designed: %v", name, as)
		}
	}
}

// A change of what becomes of such units is a change of the design, and no drift of the machine.
func TestThePolicyOfUnlistedUnitsIsAsked(t *testing.T) {
	asked := map[string]string{}
	for _, n := range []*site.Node{
		{}, {System: site.System{Unlisted: site.Unlisted{Units: "report"}}}, {System: site.System{Unlisted: site.Unlisted{Units: "disable"}}},
		{Families: map[string]site.System{"debian": {Unlisted: site.Unlisted{Units: "disable"}}}}, {Families: map[string]site.System{"rhel": {Unlisted: site.Unlisted{Units: "disable"}}}},
	} {
		digest := n.Asked(site.FacetConfig)
		if was, twice := asked[digest]; twice {
			t.Errorf("%+v asks the same as %s", n.System.Unlisted, was)
		}
		asked[digest] = n.System.Unlisted.Units
		if (digest != "") != n.Asks(site.FacetConfig) {
			t.Errorf("%+v: asked %q, asks %v", n.System, digest, n.Asks(site.FacetConfig))
		}
	}
}

// A manager of the network that sets up interfaces of the design too is disabled in the plain sight
// of the plan.
func TestOtherManagersOfTheNetworkAreInThePlan(t *testing.T) {
	n := &site.Node{Name: "n1", Endpoints: overSSH, Identity: site.Identity{UUID: "u1"}, Power: "on", References: site.References{Links: map[string]item.Link{"eth0": {Kind: "ethernet"}}}}
	seen := site.FacetState{Seen: time.Unix(1, 0), Have: site.Values{"links.eth0.kind": "ethernet", "managers.ifupdown": "enabled, sets up eth0"}}
	m := site.Memory{Observed: site.Observed{Identity: n.Identity, Facets: map[site.Facet]site.FacetState{site.FacetPower: {Have: site.Values{"state": "on"}, Seen: time.Unix(1, 0)}, site.FacetNetwork: seen}}}
	known := site.Known{Nodes: map[string]site.Memory{"n1": m}, Serves: map[site.Facet]bool{site.FacetPower: true, site.FacetNetwork: true}}
	s := &site.Site{Name: "test", Nodes: map[string]*site.Node{"n1": n}}
	p := plan.Node(s, n, known)
	if len(p.Steps) != 1 || p.Steps[0].Summary() != "apply-network: network.managers.ifupdown enabled, sets up eth0 → disabled" || p.Steps[0].Impact != site.ImpactInterrupts {
		t.Errorf("got %+v", p.Steps)
	}
	n.References.Links = nil // a network that nobody designed
	if p := plan.Node(s, n, known); len(p.Steps) > 0 {
		t.Errorf("without a design: %+v", p.Steps)
	}
}
