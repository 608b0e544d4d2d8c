package author_test

import (
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/design/author"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A model's name is in one word of it, and what is not known is not said.
func TestNodesAreNamedForTheirModels(t *testing.T) {
	for model, want := range map[string]string{
		"ProLiant DL385 Gen10 Plus v2": "dl385-s1", "ThinkSystem SR670 V2": "sr670-s1", "PowerEdge R750": "r750-s1",
		"SYS-821GE-TNHR": "sys-821ge-tnhr-s1", "Blank Server": "server-s1", "": "s1",
	} {
		lines := author.Declaration(site.Met{Observed: site.Observed{Identity: site.Identity{Serial: "S1"}, Inventory: &site.Inventory{Model: model}}})
		if !strings.Contains(lines, `"`+want+`": {`) || strings.Contains(lines, "0 processors") || strings.Contains(lines, "0 GiB") {
			t.Errorf("%q: got %s, want %s", model, lines, want)
		}
	}
}
