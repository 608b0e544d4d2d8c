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

// onceSite has a node with a sysctl, a kernel parameter and two boot actions.
func onceSite() (*site.Site, *site.Node) {
	n := &site.Node{
		Name: "n1", Endpoints: overSSH, Identity: site.Identity{UUID: "u1"}, Power: "on", Image: "debian", Generation: 3, Role: "compute",
		System: site.System{Sysctl: site.Scalars{"a": int64(1)}}, Kernel: site.Kernel{Parameters: site.Scalars{"quiet": true}},
	}
	at := site.Origin{File: unique.Make("site.cue"), Line: 67, Col: 2, Layer: unique.Make("site")}
	s := &site.Site{
		Name: "test", Nodes: map[string]*site.Node{"n1": n}, Images: map[string]*site.Image{"debian": {}}, Roles: map[string]*site.Role{"compute": {Enabled: true}},
		BootActions: map[string]*site.BootAction{
			"burn":   {After: "install", Run: []string{"/usr/bin/stress"}, Timeout: site.Duration(time.Hour)},
			"join":   {Run: []string{"/usr/bin/join"}, Timeout: site.Duration(time.Minute)},
			"others": {Nodes: &site.Selector{Match: site.Match{Names: []string{"n2"}}}, Run: []string{"x"}},
		},
		Origins: site.OriginsByPath(map[string]site.Origin{"bootActions.burn.run": at, "bootActions.join.run": at}),
	}
	n.References = s.ReferencesOf(n)
	return s, n
}

// onceMemory is a machine of which Slipway installed the system, as designed but for its
// actions.
func onceMemory(n *site.Node, actions site.Values) site.Memory {
	seen := time.Unix(1, 0)
	have := site.Values{"installation": "generation 3, sha256:1"}
	var absent []string
	for _, name := range []string{"burn", "join"} {
		key := "bootActions." + name
		have[key], have[key+".attempts"] = item.NotDone, "0"
	}
	for k, v := range actions {
		have[k] = v
	}
	cannot := site.Values{}
	for key, is := range have {
		if is == item.Failed || is == item.Unfinished {
			cannot[key] = "was begun at T, and its exit code is 7"
		}
	}
	return site.Memory{
		Observed: site.Observed{
			Identity: n.Identity, Marker: &site.Marker{Node: "n1", Generation: 3},
			Facets: map[site.Facet]site.FacetState{
				site.FacetPower: {Have: site.Values{"state": "on"}, Seen: seen}, site.FacetOS: {Seen: seen},
				site.FacetConfig:  {Have: site.Values{"sysctl.a": "1"}, Seen: seen},
				site.FacetKernel:  {Have: site.Values{"parameters.quiet": "true"}, Seen: seen},
				site.FacetActions: {Have: have, Absent: absent, Cannot: cannot, Seen: seen},
			},
		},
		Recorded: site.Recorded{Installed: &site.Installation{Generation: 3, Proven: true, Reported: true, Actions: true}},
	}
}

var onceServes = map[site.Facet]bool{site.FacetPower: true, site.FacetConfig: true, site.FacetKernel: true, site.FacetActions: true}

// A boot action is planned once in an installation of ours, after its phase, and never again
// by itself.
func TestOnce(t *testing.T) {
	done := site.Values{"bootActions.burn": item.Done, "bootActions.burn.attempts": "1"}
	both := site.Values{"bootActions.burn": item.Done, "bootActions.burn.attempts": "1", "bootActions.join": item.Done, "bootActions.join.attempts": "1"}
	for name, c := range map[string]struct {
		actions site.Values
		change  func(n *site.Node, m *site.Memory)
		want    []string // what is said, in order; a part of each
		phase   string
	}{
		"a new installation": {nil, nil, []string{"install: boot-action: actions.bootActions.burn not done → done (site.cue:67)", "configure: boot-action: actions.bootActions.join not done → done (site.cue:67)"}, "install"},
		"one is done":        {done, nil, []string{"configure: boot-action: actions.bootActions.join"}, "configure"},
		"both are done":      {both, nil, nil, ""},
		"what comes before it is not as designed": {done, func(_ *site.Node, m *site.Memory) {
			m.Observed.Facets[site.FacetConfig] = site.FacetState{Have: site.Values{"sysctl.a": "0"}, Seen: time.Unix(1, 0)}
		}, []string{"configure: apply-config", "configure: boot-action: actions.bootActions.join"}, "configure"},
		"the kernel has it after a boot": {nil, func(_ *site.Node, m *site.Memory) {
			m.Observed.Facets[site.FacetKernel] = site.FacetState{Absent: []string{"parameters.quiet"}, Pending: site.Values{"parameters.quiet": "true"}, Waits: site.WaitsReboot, Seen: time.Unix(1, 0)}
		}, []string{"base: restart", "install: boot-action: actions.bootActions.burn", "configure: boot-action: actions.bootActions.join"}, "base"},
		"it runs": {site.Values{"bootActions.burn": item.Running, "bootActions.burn.attempts": "1", "bootActions.burn.since": "2026-11-26T03:12:11Z"}, func(_ *site.Node, m *site.Memory) {
			m.Observed.Facets[site.FacetConfig] = site.FacetState{Have: site.Values{"sysctl.a": "0"}, Seen: time.Unix(1, 0)}
		}, []string{"waiting: the boot action burn is running since 2026-11-26 03:12:11Z, for at most 1h0m0s"}, "install"},
		"it ran when the endpoint left the design": {site.Values{"bootActions.burn": item.Running, "bootActions.burn.attempts": "1"}, func(n *site.Node, m *site.Memory) {
			n.Endpoints = nil
			m.Observed.Facets[site.FacetKernel] = site.FacetState{Absent: []string{"parameters.quiet"}, Pending: site.Values{"parameters.quiet": "true"}, Waits: site.WaitsReboot, Seen: time.Unix(1, 0)}
		}, []string{"waiting: the boot action burn is running, for at most 1h0m0s; the node has no endpoints.os, so Slipway does not see when it ends: add that again"}, "install"},
		"it ran when the machine was switched off": {site.Values{"bootActions.burn": item.Running, "bootActions.burn.attempts": "1"}, func(_ *site.Node, m *site.Memory) {
			m.Observed.Facets[site.FacetPower] = site.FacetState{Have: site.Values{"state": "off"}, Seen: time.Unix(1, 0)}
		}, []string{"base: power-on", "configure: boot-action: actions.bootActions.join"}, "base"},
		"it failed": {site.Values{"bootActions.burn": item.Failed, "bootActions.burn.attempts": "1"}, nil, []string{
			"blocked: site.cue:67:2 (site): the boot action burn was begun at T, and its exit code is 7. Slipway does not repeat it by itself. Check the machine, then run `slipway retry n1`",
			"release: `slipway retry n1`, which runs it once more", "note: the boot action join runs when everything before it is as designed"}, "base"},
		"nobody knows its end": {site.Values{"bootActions.burn": item.Unfinished, "bootActions.burn.attempts": "1"}, nil, []string{"blocked: site.cue:67:2 (site): the boot action burn was begun", "release: ", "note: "}, "base"},
		"a person asked for it again": {site.Values{"bootActions.burn": item.Failed, "bootActions.burn.attempts": "1"}, func(n *site.Node, m *site.Memory) {
			plan.AgainOnce(n, &m.Recorded, m.Observed)
		}, []string{"install: boot-action: actions.bootActions.burn failed → done", "configure: boot-action: actions.bootActions.join"}, "install"},
		"it failed once more": {site.Values{"bootActions.burn": item.Failed, "bootActions.burn.attempts": "2"}, func(n *site.Node, m *site.Memory) {
			m.Recorded.Actions = map[string]site.ActionRecord{"burn": {Attempts: 1, Again: 2}}
		}, []string{"blocked: ", "release: ", "note: "}, "base"},
		"the machine's journal is gone": {nil, func(_ *site.Node, m *site.Memory) {
			m.Recorded.Actions = map[string]site.ActionRecord{"burn": {Attempts: 1}}
		}, []string{"blocked: site.cue:67:2 (site): the boot action burn was begun in this installation, and the machine's journal of it is gone", "release: ", "note: "}, "base"},
		"it is gone and was done": {nil, func(_ *site.Node, m *site.Memory) {
			m.Recorded.Actions = map[string]site.ActionRecord{"burn": {Attempts: 1, Done: time.Unix(2, 0)}}
		}, []string{"configure: boot-action: actions.bootActions.join", "note: the boot action burn was done by 1970-01-01 00:00:02Z; the machine's journal of that is gone, and it is not done again"}, "configure"},
		"the helper does not answer": {nil, func(_ *site.Node, m *site.Memory) {
			m.Observed.Facets[site.FacetActions] = site.FacetState{Cannot: site.Values{"bootActions.burn": "no sudo", "bootActions.join": "no sudo"}}
		}, []string{"blocked: site.cue:67:2 (site): actions.bootActions.burn: no sudo", "blocked: "}, "base"},
		"its journal cannot be read": {nil, func(_ *site.Node, m *site.Memory) {
			m.Observed.Facets[site.FacetActions] = site.FacetState{Seen: time.Unix(1, 0), Unread: site.Values{"bootActions.burn": "no JSON", "bootActions.join": "no JSON"}}
		}, []string{"blocked: site.cue:67:2 (site): actions.bootActions.burn: Slipway does not know whether it was done: no JSON", "blocked: "}, "base"},
		"a machine that was met": {nil, func(n *site.Node, m *site.Memory) {
			n.Generation, n.Image, m.Recorded.Installed, m.Observed.Marker = 0, "", nil, nil
		}, []string{"note: boot actions do not run here (burn, join): they belong to an installation, and Slipway did not install this system"}, ""},
		"an installation of before": {nil, func(_ *site.Node, m *site.Memory) {
			m.Recorded.Installed.Actions = false
		}, []string{"note: boot actions do not run here (burn, join): they belong to an installation, and this system was installed before Slipway did boot actions"}, ""},
		"a system that a person accepted": {nil, func(_ *site.Node, m *site.Memory) {
			m.Recorded.Installed.Accepted = m.Observed.Marker.Digest()
		}, []string{"note: boot actions do not run here"}, ""},
		"an installation to come": {both, func(n *site.Node, m *site.Memory) {
			n.Generation = 4
			m.Recorded.Actions = map[string]site.ActionRecord{"burn": {Attempts: 1, Done: time.Unix(2, 0)}}
		}, []string{"base: install", "base: finish-install", "install: set-kernel", "install: boot-action: actions.bootActions.burn", "configure: apply-config", "configure: boot-action: actions.bootActions.join"}, "base"},
		"nobody serves it": {nil, nil, nil, ""},
	} {
		serves := maps.Clone(onceServes)
		serves[site.FacetActions] = name != "nobody serves it"
		s, n := onceSite()
		m := onceMemory(n, c.actions)
		if c.change != nil {
			c.change(n, &m)
		}
		p := plan.Node(s, n, site.Known{Nodes: map[string]site.Memory{"n1": m}, Serves: serves})
		var said []string
		for _, step := range p.Steps {
			text := step.Phase + ": " + step.Summary()
			if o := step.Changes[0].Origin; step.Once != nil {
				text += " (" + o.File.Value() + ":67)"
			}
			said = append(said, text)
		}
		for prefix, all := range map[string][]string{"blocked: ": p.Blocked, "waiting: ": {p.Waiting}} {
			for _, text := range all {
				if text != "" {
					said = append(said, prefix+text)
				}
			}
		}
		if p.Release != "" {
			said = append(said, "release: "+p.Release)
		}
		for _, text := range p.Notes {
			said = append(said, "note: "+text)
		}
		for i := range max(len(said), len(c.want)) {
			if i >= len(said) || i >= len(c.want) || !strings.HasPrefix(said[i], c.want[i]) {
				t.Errorf("%s:\n got %s\nwant %s", name, strings.Join(said, "\n     "), strings.Join(c.want, "\n     "))
				break
			}
		}
		if p.Phase != c.phase {
			t.Errorf("%s: it is before %q, want %q", name, p.Phase, c.phase)
		}
	}
}

// A step names the attempt and the installation, so that a machine makes no attempt twice.
func TestOnceNamesItsAttempt(t *testing.T) {
	s, n := onceSite()
	m := onceMemory(n, site.Values{"bootActions.burn": item.Failed, "bootActions.burn.attempts": "2"})
	plan.AgainOnce(n, &m.Recorded, m.Observed)
	p := plan.Node(s, n, site.Known{Nodes: map[string]site.Memory{"n1": m}, Serves: onceServes})
	if len(p.Steps) == 0 || p.Steps[0].Once == nil || *p.Steps[0].Once != (item.Once{Installation: "generation 3, sha256:1", Attempt: 3}) {
		t.Errorf("got %+v", p.Steps)
	}
	if plan.IsDoneOnce(p.Steps[0], m) {
		t.Error("it counts as done")
	}
}

// What a machine told is recorded, and goes with its installation.
func TestNoteOnce(t *testing.T) {
	_, n := onceSite()
	m := onceMemory(n, site.Values{"bootActions.burn": item.Done, "bootActions.burn.attempts": "1", "bootActions.join": item.Failed, "bootActions.join.attempts": "2"})
	for _, now := range []int64{5, 6} {
		plan.NoteOnce(&m.Recorded, m.Observed, time.Unix(now, 0))
	}
	if a := m.Recorded.Actions; len(a) != 2 || a["burn"] != (site.ActionRecord{Attempts: 1, Done: time.Unix(5, 0)}) || a["join"] != (site.ActionRecord{Attempts: 2}) {
		t.Errorf("got %+v", a)
	}
	if plan.ForgetInside(&m.Recorded); m.Recorded.Actions != nil {
		t.Error("the next installation has the actions of this one")
	}
	m.Recorded.Installed.Reported = false
	if plan.NoteOnce(&m.Recorded, m.Observed, time.Unix(7, 0)); m.Recorded.Actions != nil {
		t.Error("a system that has not proven itself says what was done in it")
	}
}
