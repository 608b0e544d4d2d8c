package plan_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Whether a machine restarts for upgrades is planned and counted before they are made, as far as
// that is known.
func TestRestartsForUpgrades(t *testing.T) {
	upgrade := func(name, restart string, security bool) item.Upgrade {
		return item.Upgrade{Name: name, From: "1", To: "2", Security: security, Restart: restart}
	}
	kernel := upgrade("linux-image-6.1.0-22-amd64", item.RestartNeeded, true)
	plain, bus, ssl := upgrade("plain", "", true), upgrade("dbus", item.RestartPossible, true), upgrade("libssl3", item.RestartLibraries, true)
	lately := upgrade("linux-image-6.1.0-23-amd64", item.RestartNeeded, false)
	for name, c := range map[string]struct {
		patch    site.Patch
		have     string // the level, as the machine has it
		upgrades *item.Upgrades
		held     string
		waits    string
		want     site.Restarts // empty where no upgrades are planned
		steps    int
		reason   string
		note     string
	}{
		"a kernel":                      {upgrades: &item.Upgrades{Packages: []item.Upgrade{plain, kernel}}, want: site.RestartYes, steps: 2, reason: "the upgrade of linux-image-6.1.0-22-amd64 needs a restart"},
		"nothing of the kind":           {upgrades: &item.Upgrades{Packages: []item.Upgrade{plain}}, want: site.RestartNo, steps: 1},
		"of another level":              {upgrades: &item.Upgrades{Packages: []item.Upgrade{plain, lately}}, want: site.RestartNo, steps: 1},
		"of all levels":                 {patch: site.Patch{Level: "all"}, upgrades: &item.Upgrades{Packages: []item.Upgrade{plain, lately}}, want: site.RestartYes, steps: 2, reason: "linux-image-6.1.0-23-amd64 needs"},
		"a kernel that is held":         {upgrades: &item.Upgrades{Packages: []item.Upgrade{plain, kernel}}, held: kernel.Name, want: site.RestartNo, steps: 1},
		"a script decides":              {upgrades: &item.Upgrades{Packages: []item.Upgrade{bus, plain}}, want: site.RestartMaybe, steps: 2, reason: "only if it is needed after the upgrade of dbus"},
		"libraries":                     {upgrades: &item.Upgrades{Packages: []item.Upgrade{ssl}}, want: site.RestartNo, steps: 1},
		"libraries count":               {patch: site.Patch{Reboot: "libraries"}, upgrades: &item.Upgrades{Packages: []item.Upgrade{ssl}}, want: site.RestartMaybe, steps: 2, reason: "after the upgrade of libssl3"},
		"nobody looked":                 {have: "-", want: site.RestartMaybe, steps: 2, reason: "which upgrades there are is unknown"},
		"another snapshot":              {patch: site.Patch{Snapshot: "20260101T000000Z"}, have: "security", upgrades: &item.Upgrades{Packages: []item.Upgrade{kernel}}, want: site.RestartMaybe, steps: 2, reason: "which upgrades the snapshot has is unknown"},
		"old lists":                     {upgrades: &item.Upgrades{Packages: []item.Upgrade{plain}, Doubt: "the lists of packages are older than 7 days"}, want: site.RestartMaybe, steps: 2, reason: "only if an upgrade needs it: the lists of packages are older than 7 days"},
		"old lists with a kernel":       {upgrades: &item.Upgrades{Packages: []item.Upgrade{kernel}, Doubt: "the lists of packages are older than 7 days"}, want: site.RestartYes, steps: 2, reason: "needs a restart"},
		"never":                         {patch: site.Patch{Reboot: "never"}, upgrades: &item.Upgrades{Packages: []item.Upgrade{kernel}}, want: site.RestartNever, steps: 1, note: "takes effect after a restart; `system.patch.reboot` is \"never\""},
		"never, and a script decides":   {patch: site.Patch{Reboot: "never"}, upgrades: &item.Upgrades{Packages: []item.Upgrade{bus}}, want: site.RestartNever, steps: 1, note: "may need a restart"},
		"never, and nobody looked":      {patch: site.Patch{Reboot: "never"}, have: "-", want: site.RestartNo, steps: 1},
		"never, and the kernel waits":   {patch: site.Patch{Reboot: "never"}, have: "security", waits: site.WaitsReboot, note: "upgrades wait for a restart to take effect"},
		"as designed":                   {have: "security"},
		"one waits for a restart ahead": {upgrades: &item.Upgrades{Packages: []item.Upgrade{plain}}, waits: site.WaitsReboot, want: site.RestartNo, steps: 2, reason: "pending settings take effect at a boot"},
		"libraries wait, and a kernel":  {upgrades: &item.Upgrades{Packages: []item.Upgrade{kernel}}, waits: site.WaitsLibraries, want: site.RestartYes, steps: 2, reason: "needs a restart"},
	} {
		c.patch.Level = cmp.Or(c.patch.Level, "security")
		n := &site.Node{Name: "n1", Endpoints: overSSH, Identity: site.Identity{UUID: "u1"}, System: site.System{Patch: &c.patch}}
		seen := site.FacetState{Have: site.Values{"patch.level": cmp.Or(c.have, "1 upgrade: x")}, Upgrades: c.upgrades, Waits: c.waits, Seen: time.Unix(1, 0), System: &site.Platform{Family: "debian"}}
		if c.have == "-" {
			seen.Have = nil
		}
		if c.held != "" {
			n.System.Packages = map[string]site.Package{c.held: {State: item.Held}}
			seen.Have["packages."+c.held+".state"] = item.Held
		}
		m := site.Memory{Observed: site.Observed{Identity: n.Identity, Facets: map[site.Facet]site.FacetState{
			site.FacetPower: {Have: site.Values{"state": "on"}, Seen: time.Unix(1, 0)}, site.FacetPackages: seen,
		}}}
		s := &site.Site{Name: "test", Nodes: map[string]*site.Node{"n1": n}}
		p := plan.Site(s, "1", site.Known{Nodes: map[string]site.Memory{"n1": m}, Serves: map[site.Facet]bool{site.FacetPower: true, site.FacetPackages: true}})
		node := p.Nodes[0]
		got := site.Restarts("")
		if node.Upgrades != nil {
			got = node.Upgrades.Restart
		}
		if got != c.want || len(node.Steps) != c.steps {
			t.Errorf("%s: restart %q with %d steps, want %q with %d: %v", name, got, len(node.Steps), c.want, c.steps, node.Steps)
			continue
		}
		if !strings.Contains(strings.Join(node.Notes, "\n"), c.note) || c.note == "" && len(node.Notes) > 0 && c.waits != site.WaitsLibraries {
			t.Errorf("%s: the notes are %q, want %q", name, node.Notes, c.note)
		}
		_, reboots, _ := p.Counts()
		if want := max(0, c.steps-1); reboots != want {
			t.Errorf("%s: %d reboots, want %d", name, reboots, want)
		}
		if c.steps < 2 {
			continue
		}
		restart := node.Steps[1]
		if restart.Action != site.ActionRestart || !strings.Contains(restart.Reason, c.reason) {
			t.Errorf("%s: the second step is %s, %q, want the reason %q", name, restart.Action, restart.Reason, c.reason)
		}
		if may := c.want == site.RestartMaybe; restart.Maybe != may || (p.MayReboot() == 1) != may {
			t.Errorf("%s: it is possible alone: %t, counted %d", name, restart.Maybe, p.MayReboot())
		}
	}
}

// The plan names every upgrade that it makes, with its versions.
func TestAPlanNamesItsUpgrades(t *testing.T) {
	n := &site.Node{Name: "n1", Endpoints: overSSH, Identity: site.Identity{UUID: "u1"}, System: site.System{Patch: &site.Patch{Level: "security"}, Packages: map[string]site.Package{"pinned": {Version: "1"}}}}
	all := &item.Upgrades{More: 3, Packages: []item.Upgrade{
		{Name: "a", From: "1", To: "2", Security: true}, {Name: "b", From: "1", To: "2"}, {Name: "new", To: "2", Security: true}, {Name: "pinned", From: "1", To: "2", Security: true},
	}}
	m := site.Memory{Observed: site.Observed{Identity: n.Identity, Facets: map[site.Facet]site.FacetState{
		site.FacetPower:    {Have: site.Values{"state": "on"}, Seen: time.Unix(1, 0)},
		site.FacetPackages: {Have: site.Values{"patch.level": "none", "packages.pinned.version": "1"}, Upgrades: all, Seen: time.Unix(1, 0), System: &site.Platform{Family: "debian"}},
	}}}
	known := site.Known{Nodes: map[string]site.Memory{"n1": m}, Serves: map[site.Facet]bool{site.FacetPower: true, site.FacetPackages: true}}
	p := plan.Node(&site.Site{Nodes: map[string]*site.Node{"n1": n}}, n, known)
	if p.Upgrades == nil || p.Upgrades.More != 3 || !slices.Equal(p.Upgrades.Packages, []item.Upgrade{all.Packages[0], all.Packages[2]}) {
		t.Errorf("the plan has %+v", p.Upgrades)
	}
}
