package agent

import (
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
)

// A machine may name as many upgrades as it likes: what is kept of them has its bounds, is
// printable, and a word that nobody knows does not say that no restart is needed.
func TestUpgradesAreBounded(t *testing.T) {
	told := &item.Upgrades{More: -7, Doubt: strings.Repeat("a\x1b", 5000)}
	for range item.MaxUpgrades + 3 {
		told.Packages = append(told.Packages, item.Upgrade{Name: "a\x1b[1m", From: "1\n", To: "2", Restart: "sometimes"})
	}
	told.Packages[0].Name = strings.Repeat("a", maxUpgrade)
	got := upgrades(told)
	if len(got.Packages) != item.MaxUpgrades || got.More != 3 || len(got.Doubt) > 2000 {
		t.Fatalf("%d packages, %d more, %d bytes of doubt", len(got.Packages), got.More, len(got.Doubt))
	}
	if u := got.Packages[0]; strings.ContainsAny(u.Name+u.From+got.Doubt, "\x1b\n") || u.Restart != item.RestartPossible {
		t.Errorf("%+v", u)
	}
	if upgrades(nil) != nil {
		t.Error("nobody looked, and there are upgrades")
	}
}
