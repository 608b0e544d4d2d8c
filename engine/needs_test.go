package engine

import (
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

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
