package review

import (
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// A proposal that has machines be installed at less trust is told as one that changes the rules of
// the whole site, and so is one that takes it back.
func TestTrustIsASiteWideRule(t *testing.T) {
	media, network := &site.Site{}, &site.Site{Install: site.Install{Start: site.StartNetwork, Trust: site.TrustNetwork}}
	says := func(was, is *site.Site, want string) bool {
		return slices.ContainsFunc(changedRules(was, is), func(s string) bool { return strings.Contains(s, want) })
	}
	if !says(media, network, `also at the trust "network"`) {
		t.Errorf("got %q", changedRules(media, network))
	}
	if !says(network, media, "site.install") || says(network, media, "also at the trust") {
		t.Errorf("got %q", changedRules(network, media))
	}
	if says(network, network, "install") || says(media, &site.Site{}, "install") {
		t.Error("told without a change")
	}
}
