package plan_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"
	"unique"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// overSSH are the endpoints of a node whose system is looked at.
var overSSH = map[site.EndpointKind]site.Endpoint{site.OS: {URL: "ssh://192.0.2.1"}}

// The inside of a system is planned item by item, by what was seen of each.
func TestItems(t *testing.T) {
	motd, enabled := "hello", true
	at := site.Origin{File: unique.Make("nodes.cue"), Line: 7, Col: 2, Layer: unique.Make("node/n1")}
	n := &site.Node{
		Name: "n1", Endpoints: overSSH, Identity: site.Identity{UUID: "u1"}, Power: "on",
		System: site.System{
			Files:  map[string]site.File{"/etc/motd": {Content: &motd}},
			Sysctl: site.Scalars{"net.core.somaxconn": int64(1024)},
			Units:  map[string]site.Unit{"a.service": {Enabled: &enabled}},
		},
		Kernel:  site.Kernel{Parameters: site.Scalars{"quiet": true}},
		Origins: site.OriginsByPath(map[string]site.Origin{"system.files./etc/motd.mode": at, "system.files./etc/motd.content": at}),
	}
	s := &site.Site{Name: "test", Nodes: map[string]*site.Node{"n1": n}}
	whole := site.Values{"sysctl.net.core.somaxconn": "1024", "files./etc/motd.content": n.Want(site.FacetConfig)["files./etc/motd.content"],
		"files./etc/motd.mode": "0644", "files./etc/motd.owner": "root:root", "files./etc/motd.state": "present", "units.a.service.enabled": "true"}
	but := func(field, value string) site.Values {
		v := site.Values{}
		for f, is := range whole {
			v[f] = is
		}
		if v[field] = value; value == "" {
			delete(v, field)
		}
		return v
	}
	quiet := site.FacetState{Have: site.Values{"parameters.quiet": "true"}}
	for name, c := range map[string]struct {
		config, kernel site.FacetState
		owned          string
		want           string
	}{
		"as designed":  {site.FacetState{Have: whole}, quiet, "", ""},
		"a mode":       {site.FacetState{Have: but("files./etc/motd.mode", "0600")}, quiet, "", "apply-config: config.files./etc/motd.mode 0600 → 0644 (nodes.cue:7)"},
		"a file":       {site.FacetState{Have: site.Values{"sysctl.net.core.somaxconn": "1024", "units.a.service.enabled": "true"}, Absent: []string{"files./etc/motd"}}, quiet, "", "apply-config: config.files./etc/motd absent → content sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e, mode 0644, owner root:root (nodes.cue:7)"},
		"unread":       {site.FacetState{Have: but("sysctl.net.core.somaxconn", ""), Unread: site.Values{"sysctl.net.core.somaxconn": "no"}}, quiet, "", "apply-config: config.sysctl.net.core.somaxconn ? → 1024"},
		"field unread": {site.FacetState{Have: but("files./etc/motd.mode", ""), Unread: site.Values{"files./etc/motd.mode": "no"}}, quiet, "", "apply-config: config.files./etc/motd.mode ? → 0644 (nodes.cue:7)"},
		"it cannot":    {site.FacetState{Have: whole, Cannot: site.Values{"files./etc/motd": "/etc is read-only"}}, quiet, "", "blocked: nodes.cue:7"},
		"left":         {site.FacetState{Have: whole, Owned: []string{"files./old"}, OwnedDigest: "d"}, quiet, "d", "apply-config: config.files./old made by Slipway → removed, or as it was before"},
		"left, edited": {site.FacetState{Have: whole, Owned: []string{"files./old"}, OwnedDigest: "e"}, quiet, "d", "reported: config files./old left the design"},
		"a field left": {site.FacetState{Have: but("units.a.service.state", "running"), Asked: map[string][]string{"units.a.service": {"enabled", "state"}, "files./etc/motd": {"gone"}}}, quiet, "",
			"apply-config: config.units.a.service.state running → as it was before"},
		"a mode, edited": {site.FacetState{Have: but("files./etc/motd.mode", "0600"), OwnedDigest: "e"}, quiet, "d", "apply-config: config.files./etc/motd.mode 0600 → 0644 (nodes.cue:7)"},
		"a field left, edited": {site.FacetState{Have: but("units.a.service.state", "running"), OwnedDigest: "e", Asked: map[string][]string{"units.a.service": {"enabled", "state"}}}, quiet, "d",
			"reported: config.units.a.service.state left the design and Slipway does not set it back"},
		"not asked for": {site.FacetState{Have: site.Values{"sysctl.net.core.somaxconn": "1024", "units.a.service.enabled": "true"}}, quiet, "", "apply-config: config.files./etc/motd ? → content sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e, mode 0644, owner root:root (nodes.cue:7)"},
		"a parameter":   {site.FacetState{Have: whole}, site.FacetState{Absent: []string{"parameters.quiet"}}, "", "set-kernel: kernel.parameters.quiet none → true; restart: kernel.parameters.quiet none → true"},
		"it is pending": {site.FacetState{Have: whole}, site.FacetState{Absent: []string{"parameters.quiet"}, Pending: site.Values{"parameters.quiet": "true"}, Waits: site.WaitsReboot}, "", "restart: kernel.parameters.quiet none → true"},
	} {
		c.config.Seen, c.kernel.Seen = time.Unix(1, 0), time.Unix(1, 0)
		m := site.Memory{Observed: site.Observed{Identity: n.Identity, Facets: map[site.Facet]site.FacetState{
			site.FacetPower: {Have: site.Values{"state": "on"}, Seen: time.Unix(1, 0)}, site.FacetConfig: c.config, site.FacetKernel: c.kernel,
		}}}
		m.Recorded.Owned.Digest = c.owned
		serves := map[site.Facet]bool{site.FacetPower: true, site.FacetConfig: true, site.FacetKernel: true}
		p := plan.Node(s, n, site.Known{Nodes: map[string]site.Memory{"n1": m}, Serves: serves})
		var said []string
		for _, step := range p.Steps {
			text := step.Summary()
			if o := step.Changes[0].Origin; !o.IsZero() && step.Action == site.ActionConfig {
				text += " (" + o.File.Value() + ":7)"
			}
			// A step for a machine with another list than the recorded names neither: the machine's
			// own journal could lead from the recorded one to any.
			list := m.Observed.Facets[step.Facet].OwnedDigest
			if site.IsInside(step.Facet) && (step.Owned == c.owned) != (list == c.owned) || list != "" && step.Owned == list && list != c.owned {
				t.Errorf("%s: the step is for the list %q, on record is %q, on the machine %q", name, step.Owned, c.owned, list)
			}
			said = append(said, text)
		}
		for _, b := range p.Blocked {
			said = append(said, "blocked: "+b)
		}
		for _, r := range p.Reported {
			said = append(said, "reported: "+r)
		}
		if got := strings.Join(said, "; "); got != c.want && (c.want == "" || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

// Units that restart or stop, replaced packages and a changed network interrupt services; what
// only comes into being does not.
func TestWhatInterruptsServices(t *testing.T) {
	text, units := "[Service]", func(u site.Unit) site.System { return site.System{Units: map[string]site.Unit{"a.service": u}} }
	packages := func(p site.Package) site.System { return site.System{Packages: map[string]site.Package{"a": p}} }
	there := site.Values{"units.a.service.content": "sha256:other", "units.a.service.state": "running"}
	for name, c := range map[string]struct {
		system site.System
		links  map[string]item.Link
		facet  site.Facet
		have   site.Values
		absent string
		owned  []string
		asked  map[string][]string
		want   site.Impact
	}{
		"another unit file":     {system: units(site.Unit{Content: &text}), have: there, want: site.ImpactInterrupts},
		"a unit that stops":     {system: units(site.Unit{State: "stopped"}), have: there, want: site.ImpactInterrupts},
		"a unit that is masked": {system: units(site.Unit{State: "masked"}), have: there, want: site.ImpactInterrupts},
		"a unit that starts":    {system: units(site.Unit{State: "running"}), have: site.Values{"units.a.service.state": "stopped"}, want: site.ImpactOnline},
		"a new unit":            {system: units(site.Unit{Content: &text, State: "running"}), absent: "units.a.service", want: site.ImpactOnline},
		"a field that leaves": {system: units(site.Unit{State: "running"}), have: site.Values{"units.a.service.state": "running", "units.a.service.enabled": "true"},
			asked: map[string][]string{"units.a.service": {"enabled", "state"}}, want: site.ImpactInterrupts},
		"a unit that leaves": {have: there, owned: []string{"units.a.service"}, want: site.ImpactInterrupts},
		"a file that one reads": {
			system: site.System{Files: map[string]site.File{"/a": {Content: &text}}, Units: map[string]site.Unit{"a.service": {State: "running", RestartOn: []string{"/a"}}}},
			have:   site.Values{"units.a.service.state": "running", "files./a.content": "other", "files./a.mode": "0644", "files./a.owner": "root:root", "files./a.state": "present"}, want: site.ImpactInterrupts,
		},
		"a kernel setting": {system: site.System{Sysctl: site.Scalars{"a": int64(1)}}, have: site.Values{"sysctl.a": "2"}, want: site.ImpactOnline},
		"another version":  {system: packages(site.Package{Version: "2"}), facet: site.FacetPackages, have: site.Values{"packages.a.version": "1", "packages.a.state": "present"}, want: site.ImpactInterrupts},
		"another MTU": {links: map[string]item.Link{"eth0": {Kind: "ethernet", MTU: 9000}}, facet: site.FacetNetwork,
			have: site.Values{"links.eth0.kind": "ethernet", "links.eth0.mtu": "1500"}, want: site.ImpactInterrupts},
		"a new package": {system: packages(site.Package{}), facet: site.FacetPackages, absent: "packages.a", want: site.ImpactOnline},
	} {
		n := &site.Node{Name: "n1", Endpoints: overSSH, Identity: site.Identity{UUID: "u1"}, Power: "on", System: c.system, References: site.References{Links: c.links}}
		f := cmp.Or(c.facet, site.FacetConfig)
		seen := site.FacetState{Seen: time.Unix(1, 0), Have: c.have, Owned: c.owned, OwnedDigest: "d", Asked: c.asked}
		if c.absent != "" {
			seen.Absent = []string{c.absent}
		}
		m := site.Memory{Observed: site.Observed{Identity: n.Identity, Facets: map[site.Facet]site.FacetState{site.FacetPower: {Have: site.Values{"state": "on"}, Seen: time.Unix(1, 0)}, f: seen}}}
		m.Recorded.Owned.Digest = "d"
		known := site.Known{Nodes: map[string]site.Memory{"n1": m}, Serves: map[site.Facet]bool{site.FacetPower: true, f: true}}
		p := plan.Node(&site.Site{Name: "test", Nodes: map[string]*site.Node{"n1": n}}, n, known)
		if len(p.Steps) != 1 || p.Steps[0].Impact != c.want {
			t.Errorf("%s: want one step that is %q, got %+v", name, c.want, p)
		}
	}
}

// A restart for a facet that no driver looks at any more rests on what was seen long
// ago, and is not planned.
func TestNothingRestartsForAFacetThatNobodyServes(t *testing.T) {
	n := &site.Node{Name: "n1", Endpoints: overSSH, Identity: site.Identity{UUID: "u1"}, Kernel: site.Kernel{Parameters: site.Scalars{"quiet": true}}}
	m := site.Memory{Observed: site.Observed{Identity: n.Identity, Facets: map[site.Facet]site.FacetState{
		site.FacetPower:  {Have: site.Values{"state": "on"}, Seen: time.Unix(1, 0)},
		site.FacetKernel: {Absent: []string{"parameters.quiet"}, Pending: site.Values{"parameters.quiet": "true"}, Waits: site.WaitsReboot, Seen: time.Unix(1, 0)},
	}}}
	for served, want := range map[bool]int{true: 1, false: 0} {
		known := site.Known{Nodes: map[string]site.Memory{"n1": m}, Serves: map[site.Facet]bool{site.FacetPower: true, site.FacetKernel: served}}
		if p := plan.Node(&site.Site{Nodes: map[string]*site.Node{"n1": n}}, n, known); len(p.Steps) != want {
			t.Errorf("served %t: got %v, want %d steps", served, p.Steps, want)
		}
	}
}

// A machine is booted for upgrades as the design of its family says, or else that of
// every family; never for packages that were only designed.
func TestUpgradesBootTheMachine(t *testing.T) {
	all := func(reboot string) *site.Patch { return &site.Patch{Level: "all", Reboot: reboot} }
	for name, c := range map[string]struct {
		every, debian *site.Patch
		boots         bool
		waits         string
	}{
		"old libraries":         {every: all("libraries"), boots: true, waits: site.WaitsLibraries},
		"old libraries are not": {every: all("ifNeeded"), waits: site.WaitsLibraries},
		"a kernel as well":      {every: all("libraries"), boots: true},
		"none":                  {nil, nil, false, ""},
		"not said":              {all(""), nil, true, ""},
		"if needed":             {all("ifNeeded"), nil, true, ""},
		"never":                 {all("never"), nil, false, ""},
		"for the family":        {nil, all(""), true, ""},
		"never for the family":  {all("ifNeeded"), all("never"), false, ""},
		"but for the family it": {all("never"), all("ifNeeded"), true, ""},
	} {
		n := &site.Node{Name: "n1", Endpoints: overSSH, Identity: site.Identity{UUID: "u1"}, System: site.System{Patch: c.every, Packages: map[string]site.Package{"one": {}}},
			Families: map[string]site.System{"debian": {Patch: c.debian}}}
		seen := site.FacetState{Have: site.Values{"packages.one.version": "1", "patch.level": "all"}, Waits: cmp.Or(c.waits, site.WaitsReboot), Seen: time.Unix(1, 0), System: &site.Platform{Family: "debian"}}
		m := site.Memory{Observed: site.Observed{Identity: n.Identity, Facets: map[site.Facet]site.FacetState{
			site.FacetPower: {Have: site.Values{"state": "on"}, Seen: time.Unix(1, 0)}, site.FacetPackages: seen,
		}}}
		known := site.Known{Nodes: map[string]site.Memory{"n1": m}, Serves: map[site.Facet]bool{site.FacetPower: true, site.FacetPackages: true}}
		p := plan.Node(&site.Site{Nodes: map[string]*site.Node{"n1": n}}, n, known)
		if boots := len(p.Steps) == 1 && p.Steps[0].Action == site.ActionRestart; boots != c.boots {
			t.Errorf("%s: got %v", name, p.Steps)
		}
		if told := strings.Contains(strings.Join(p.Notes, ""), "still use libraries that an upgrade replaced"); told != (c.waits != "" && !c.boots) {
			t.Errorf("%s: the notes are %q", name, p.Notes)
		}
	}
}

// What is designed for a family alone is unknown until the family is.
func TestItemsOfAFamily(t *testing.T) {
	n := &site.Node{Name: "n1", Endpoints: overSSH, Families: map[string]site.System{"debian": {Sysctl: site.Scalars{"a": int64(1)}}}}
	seen := site.FacetState{Seen: time.Unix(1, 0)}
	if r := seen.Resolve(n, site.FacetConfig); !r.Unread || r.Want != nil || !n.Asks(site.FacetConfig) {
		t.Errorf("of an unknown family: %+v", r)
	}
	seen.System = &site.Platform{Family: "debian"}
	if r := seen.Resolve(n, site.FacetConfig); r.Unread || r.Want["sysctl.a"] != "1" {
		t.Errorf("of Debian's: %+v", r)
	}
	seen.System.Family = "rhel"
	if r := seen.Resolve(n, site.FacetConfig); r.Unread || r.Want != nil {
		t.Errorf("of another: %+v", r)
	}
}

// What the system cannot have yet stops nothing while something else is to be done, which
// may bring it; then the node waits for a person. A boot action waits for it too.
func TestFieldsThatTheSystemLacks(t *testing.T) {
	n := &site.Node{Name: "n1", Endpoints: overSSH, Power: "on", Identity: site.Identity{UUID: "u1"}, System: site.System{
		Users:    map[string]site.User{"ops": {Groups: []string{"docker"}, Shell: "/bin/zsh"}},
		Time:     site.Time{Servers: []string{"10.0.0.1"}},
		Packages: map[string]site.Package{"docker.io": {}},
	}}
	s := &site.Site{Name: "test", Nodes: map[string]*site.Node{"n1": n}}
	noDocker, noShell, noClock := `there is no group "docker"`, "there is no shell /bin/zsh", "there is no time service"
	account := site.Values{"users.ops.state": "present", "users.ops.sudo": "false", "users.ops.keys": "", "users.ops.groups": "", "users.ops.shell": "/bin/sh"}
	cannot := site.Values{"users.ops.groups=docker": noDocker, "users.ops.shell=/bin/zsh": noShell, "time.servers": noClock}
	missing := site.FacetState{Absent: []string{"packages.docker.io"}}
	installed := site.FacetState{Have: site.Values{"packages.docker.io.version": "1"}}
	for name, c := range map[string]struct {
		base, packages site.FacetState
		steps, blocked string
		notes          int
		phase          string
	}{
		"no account":       {site.FacetState{Absent: []string{"users.ops", "time"}, Cannot: cannot}, missing, "apply-base: base.users.ops.state absent → present, base.users.ops.sudo none → false; install-packages: packages.docker.io.state absent → present", "", 3, "base"},
		"the rest is set":  {site.FacetState{Have: account, Absent: []string{"time"}, Cannot: cannot}, missing, "install-packages: packages.docker.io.state absent → present", "", 3, "base"},
		"nothing is left":  {site.FacetState{Have: account, Absent: []string{"time"}, Cannot: cannot}, installed, "", "base.time.servers: " + noClock + "; base.users.ops.groups: " + noDocker + "; base.users.ops.shell: " + noShell, 0, "base"},
		"it came":          {site.FacetState{Have: account, Absent: []string{"time"}}, installed, "apply-base: base.time.servers none → 10.0.0.1, base.users.ops.groups none → docker, base.users.ops.shell /bin/sh → /bin/zsh", "", 0, "base"},
		"of another value": {site.FacetState{Have: account, Absent: []string{"time"}, Cannot: site.Values{"users.ops.groups=wheel": "no wheel"}}, installed, "apply-base: base.time.servers none → 10.0.0.1, base.users.ops.groups none → docker, base.users.ops.shell /bin/sh → /bin/zsh", "", 0, "base"},
	} {
		c.base.Seen, c.packages.Seen = time.Unix(1, 0), time.Unix(1, 0)
		c.packages.System = &site.Platform{Family: "debian"}
		m := site.Memory{Observed: site.Observed{Identity: n.Identity, Facets: map[site.Facet]site.FacetState{
			site.FacetPower: {Have: site.Values{"state": "on"}, Seen: time.Unix(1, 0)}, site.FacetBase: c.base, site.FacetPackages: c.packages,
		}}}
		p := plan.Node(s, n, site.Known{Nodes: map[string]site.Memory{"n1": m}, Serves: map[site.Facet]bool{site.FacetPower: true, site.FacetBase: true, site.FacetPackages: true}})
		var steps []string
		for _, step := range p.Steps {
			steps = append(steps, step.Summary())
		}
		if got := strings.Join(steps, "; "); got != c.steps || strings.Join(p.Blocked, "; ") != c.blocked || len(p.Notes) != c.notes || p.Phase != c.phase {
			t.Errorf("%s:\nsteps %s\n want %s\nblocked %q\nnotes %q\nphase %q", name, got, c.steps, p.Blocked, p.Notes, p.Phase)
		}
		if plan.AsDesigned(n, site.FacetBase, c.base) {
			t.Errorf("%s: it is as designed", name)
		}
	}
}

// A file whose credential cannot be read is told once, with what is wrong, and the rest of its
// facet is made as designed.
func TestAFileWhoseCredentialCannotBeRead(t *testing.T) {
	const key, why = "files./etc/app/key", `its content cannot be set: credential "app": there is no file`
	motd := "x"
	n := &site.Node{Name: "n1", Endpoints: overSSH, Power: "on", Identity: site.Identity{UUID: "u1"},
		System: site.System{Files: map[string]site.File{"/etc/app/key": {Credential: "app"}, "/etc/motd": {Content: &motd}}}}
	s := &site.Site{Name: "test", Nodes: map[string]*site.Node{"n1": n}}
	cannot := site.Values{}
	for field := range n.Items(site.FacetConfig)[0].Fields {
		cannot[item.Name(key, field)] = why
	}
	have := site.Values{"files./etc/motd.state": "present", "files./etc/motd.content": item.Digest([]byte("x")), "files./etc/motd.mode": "0644", "files./etc/motd.owner": "root:root"}
	for name, c := range map[string]struct {
		seen           site.FacetState
		steps, blocked string
		notes          int
	}{
		"it can be read":  {site.FacetState{Have: have, Absent: []string{key}}, "apply-config: config.files./etc/app/key absent → content that of credential app, mode 0600, owner root:root", "", 0},
		"the rest is set": {site.FacetState{Absent: []string{key, "files./etc/motd"}, Cannot: cannot}, "apply-config: config.files./etc/motd absent → content " + item.Digest([]byte("x")) + ", mode 0644, owner root:root", "", 1},
		"nothing is left": {site.FacetState{Have: have, Absent: []string{key}, Cannot: cannot}, "", "config." + key + ".content: " + why, 0},
	} {
		c.seen.Seen = time.Unix(1, 0)
		m := site.Memory{Observed: site.Observed{Identity: n.Identity, Facets: map[site.Facet]site.FacetState{
			site.FacetPower: {Have: site.Values{"state": "on"}, Seen: time.Unix(1, 0)}, site.FacetConfig: c.seen,
		}}}
		p := plan.Node(s, n, site.Known{Nodes: map[string]site.Memory{"n1": m}, Serves: map[site.Facet]bool{site.FacetPower: true, site.FacetConfig: true}})
		var steps []string
		for _, step := range p.Steps {
			steps = append(steps, step.Summary())
		}
		if got := strings.Join(steps, "; "); got != c.steps || strings.Join(p.Blocked, "; ") != c.blocked || len(p.Notes) != c.notes || plan.AsDesigned(n, site.FacetConfig, c.seen) {
			t.Errorf("%s:\nsteps %s\n want %s\nblocked %q\nnotes %q", name, got, c.steps, p.Blocked, p.Notes)
		}
	}
}

// An interface to which no server gave an address is as designed, and said to lack it, as long
// as somebody looks.
func TestInterfacesThatAreGivenNothing(t *testing.T) {
	for name, change := range map[string]func(*site.Node, site.Observed){
		"":            func(*site.Node, site.Observed) {},
		"no endpoint": func(n *site.Node, _ site.Observed) { n.Endpoints = nil },
		"the machine is off": func(_ *site.Node, o site.Observed) {
			o.Facets[site.FacetPower] = site.FacetState{Have: site.Values{"state": "off"}}
		},
		"it is not as designed":   func(_ *site.Node, o site.Observed) { delete(o.Facets[site.FacetNetwork].Have, "links.eth0.dhcp") },
		"nothing of it was asked": func(n *site.Node, _ site.Observed) { n.References.Links = nil },
	} {
		n := &site.Node{Name: "n1", Identity: site.Identity{UUID: "u1"}, Endpoints: overSSH, Interfaces: map[string]site.Interface{"eth0": {}},
			References: site.References{Links: map[string]item.Link{"eth0": {Kind: "ethernet", DHCP4: true}}}}
		seen := site.Observed{Identity: n.Identity, Facets: map[site.Facet]site.FacetState{site.FacetNetwork: {
			Seen: time.Unix(1, 0), Have: site.Values{"links.eth0.kind": "ethernet", "links.eth0.dhcp": "4", item.Asked("eth0"): "no lease"},
		}}}
		change(n, seen)
		known := site.Known{Serves: map[site.Facet]bool{site.FacetNetwork: true}, Nodes: map[string]site.Memory{"n1": {Observed: seen}}}
		p := plan.Node(&site.Site{Name: "test", Nodes: map[string]*site.Node{"n1": n}}, n, known)
		if told := slices.Contains(p.Notes, "the interface eth0: no lease"); told != (name == "") {
			t.Errorf("%s: steps %v, notes %q", name, p.Steps, p.Notes)
		}
	}
}
