package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// upgraded is a fleet whose upgrades bring a kernel, so that each machine has to
// be booted after them.
var upgraded = drivertest.Config{Latency: 200 * time.Millisecond, PowerTime: 5 * time.Second, PostTime: time.Minute, OSTime: 20 * time.Second,
	StepTime: map[site.Action]time.Duration{site.ActionPackages: 2 * time.Minute}, NeedsBoot: []site.Facet{site.FacetPackages}}

// wave is what a patch of a fleet looked like from outside.
type wave struct {
	most    int           // machines that did not serve at one moment
	took    time.Duration // until all were booted, or it was given up
	patched []string      // in any order
}

// patchFleet asks for security upgrades of nodes that serve, with bounds, canaries
// and a health gate, and looks at the machines themselves every five seconds.
func (w *world) patchFleet(most time.Duration, spoil func(*drivertest.FakeMachine) bool, nodes ...string) (v wave) {
	w.t.Helper()
	w.servingHealthy(nodes...)
	d := w.service(nodes...)
	healthy(nginx, "web")(d)
	d.Rollout.MaxUnavailable = "10"
	d.Rollout.Canaries = &site.Canaries{Count: 2, Soak: site.Duration(10 * time.Minute)}
	for _, n := range d.Nodes {
		n.System.Patch = &site.Patch{Level: item.PatchSecurity, Reboot: "ifNeeded"}
	}
	w.commit(d)
	isPatched := func(name string) bool {
		return w.fleet.Machine(name).Have(site.FacetPackages)[item.Name(item.KindPatch, "level")] == item.PatchSecurity
	}
	for begun := time.Now(); v.took < most; v.took = time.Since(begun) {
		w.after(5 * time.Second)
		out, all := 0, true
		for _, name := range nodes {
			m := w.fleet.Machine(name)
			if spoil != nil && isPatched(name) && spoil(m) {
				m.SetHealth(failed, "")
			}
			if !m.Serves() {
				out++
			}
			all = all && m.Serves() && isPatched(name) && m.Counts().Resets > 0
		}
		v.most = max(v.most, out)
		if all {
			break
		}
	}
	for _, name := range nodes {
		if isPatched(name) {
			v.patched = append(v.patched, name)
		}
	}
	return v
}

// A hundred nodes get their upgrades in waves: never more of them than the bound are
// out of service at one moment, each is booted once for the kernel that came, and the
// canaries are the first.
func TestAHundredNodesArePatchedInWaves(t *testing.T) {
	inBubble(t, upgraded, func(w *world) {
		all := names(100)
		v := w.patchFleet(5*time.Hour, nil, all...)
		if len(v.patched) != 100 {
			t.Fatalf("%d of 100 nodes are patched after %s: %+v", len(v.patched), v.took, w.rollout())
		}
		if v.most > 10 {
			t.Errorf("%d nodes were out of service at once, and 10 may be", v.most)
		}
		if v.most < 5 {
			t.Errorf("only %d nodes were out of service at once, and 10 may be: the waves are too small", v.most)
		}
		for _, name := range all {
			if n := w.fleet.Machine(name).Counts().Resets; n != 1 {
				t.Errorf("%s was booted %d times", name, n)
			}
		}
		w.after(10 * time.Minute)
		for _, name := range all {
			w.want(name, site.InSync)
		}
		t.Logf("a hundred nodes, at most %d of them out of service at once: %s", v.most, v.took)
	}, names(100)...)
}

// A node whose service does not come back after its upgrade ends the waves: no further node is
// upgraded.
func TestAnUpgradeThatBreaksTheServiceEndsTheWaves(t *testing.T) {
	inBubble(t, upgraded, func(w *world) {
		all := names(100)
		v := w.patchFleet(5*time.Hour, func(m *drivertest.FakeMachine) bool { return m.Counts().Resets > 0 }, all...)
		if len(v.patched) > 2 {
			t.Errorf("%d nodes were patched although the canary's service has failed", len(v.patched))
		}
		if r := w.rollout(); !strings.Contains(r.Halted, "canary") {
			t.Errorf("the rollout is %+v", r)
		}
		if i := slices.IndexFunc(all, func(name string) bool { return !slices.Contains(v.patched, name) }); i >= 0 {
			w.reason(all[i], "canar")
		}
	}, names(100)...)
}
