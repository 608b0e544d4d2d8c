package rollout_test

import (
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A machine on which the agent runs is out of service already. One that was started long ago, and
// is not awaited any more, is not: a window and an order of nodes hold its next start.
func TestStartsOfTheAgentThatContinue(t *testing.T) {
	began := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	on := &site.AgentBoot{Generation: 2, Tries: 1, Since: began, Started: began}
	over := *on
	over.Over = began.Add(time.Hour)
	start := site.Step{Facet: site.FacetImage, Action: site.ActionStartAgent, Generation: 2}
	back := site.Step{Facet: site.FacetImage, Action: site.ActionFinishInstall, FromMemory: true}
	for name, c := range map[string]struct {
		agent *site.AgentBoot
		step  site.Step
		want  bool
	}{
		"the first start":                {nil, start, false},
		"a start under way":              {on, start, true},
		"another one after it was over":  {&over, start, false},
		"back to the disk":               {on, back, true},
		"back to the disk when it is so": {&over, back, true},
	} {
		if got := rollout.Continues(site.Recorded{Agent: c.agent}, c.step); got != c.want {
			t.Errorf("%s: continues is %t, want %t", name, got, c.want)
		}
	}
}
