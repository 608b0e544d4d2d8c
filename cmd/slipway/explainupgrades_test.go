package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Every upgrade is named with its versions, whatever the plan has room for.
func TestExplainedUpgrades(t *testing.T) {
	var out bytes.Buffer
	x := explainedUpgrades{Upgrades: &site.Upgrades{Doubt: "the lists are old", More: 2, Packages: []item.Upgrade{
		{Name: "bash", From: "5.1", To: "5.2", Security: true}, {Name: "linux-image-6.1.0-22-amd64", To: "6.1.94-1", Restart: item.RestartNeeded},
	}}}
	x.print(&screen{&out})
	explainedUpgrades{}.print(&screen{&out})
	explainedUpgrades{Unknown: "no daemon"}.print(&screen{&out})
	for _, want := range []string{
		"  bash                        5.1 → 5.2       security\n", "  linux-image-6.1.0-22-amd64  new → 6.1.94-1  needs a restart\n", "and 2 more that the machine did not name\n",
		"there may be others: the lists are old\n", "none is missing\n", "unknown: no daemon\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}
