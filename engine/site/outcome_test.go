package site_test

import (
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// The outcome of a rollout hides no failure, and says of none that it still is.
func TestOutcomeOfARollout(t *testing.T) {
	three := []string{"n1", "n2", "n3"}
	for want, r := range map[string]site.RolloutStatus{
		"3 of 3 nodes in-sync, 0 failed":                                                                    {Nodes: three, Done: 3},
		"2 of 3 nodes in-sync, 1 failed":                                                                    {Nodes: three, Done: 2, Failed: map[string]string{"n1": "why"}, Failures: 1},
		"3 of 3 nodes in-sync, 0 failed (4 failures before they were fixed)":                                {Nodes: three, Done: 3, Failures: 4},
		"2 of 3 nodes in-sync, 1 failed (1 failure before it was fixed)":                                    {Nodes: three, Done: 2, Failed: map[string]string{"n1": "why"}, Failures: 2},
		"2 of 3 nodes in-sync, 0 failed, 1 failed and has left the design":                                  {Nodes: three, Done: 2, Left: 1, Failures: 1},
		"1 of 3 nodes in-sync, 0 failed, 2 failed and have left the design (1 failure before it was fixed)": {Nodes: three, Done: 1, Left: 2, Failures: 3},
	} {
		if got := r.Outcome(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
