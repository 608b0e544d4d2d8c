package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// A window that has ended holds what is new, and with "stop" also what is next
// of a node that was begun; never a step that was begun itself.
func TestOverrun(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		overrun         string
		begun, disrupts bool
		holds           bool
	}{
		{"", false, false, true},
		{"", false, true, false},
		{"finish", false, true, false},
		{"stop", false, true, true},
		{"stop", true, true, false},
		{"finish", true, true, false},
	} {
		s := &site.Site{Windows: map[string]*site.Window{"night": {From: "22:00", To: "04:00", Overrun: c.overrun}}}
		n := &site.Node{Name: "n1", Window: "night"}
		w := &worker{}
		if c.disrupts {
			w.memory.Recorded.Disrupted = noon.Add(-time.Hour)
		}
		h := windowGate(w, try{job: job{site: s, node: n}, step: site.Step{Impact: site.ImpactReboot}, begun: c.begun, inHand: c.disrupts}, noon)
		if (h != nil) != c.holds {
			t.Errorf("overrun %q, begun %t, disrupts %t: held %v, want %t", c.overrun, c.begun, c.disrupts, h, c.holds)
		}
	}
}

// At first whom others need is looked at before them, however they are called,
// so that those who wait for it do not keep it from getting on.
func TestWhomOthersNeedIsLookedAtFirst(t *testing.T) {
	needs := func(role string) map[string]map[string]site.Need {
		return map[string]map[string]site.Need{"up": {role: {Phase: "up"}}}
	}
	s := &site.Site{
		Roles: map[string]*site.Role{"worker": {Needs: needs("store")}, "store": {Needs: needs("base")}, "base": {}},
		Nodes: map[string]*site.Node{"a": {Role: "worker"}, "b": {Role: "store"}, "c": {Role: "base"}, "d": {}, "e": {Role: "store"}},
	}
	if got := strings.Join(startOrder(s), " "); got != "c d b e a" {
		t.Errorf("the order is %s", got)
	}
}
