package engine

import (
	"fmt"
	"strings"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// changeLocked says how many nodes a rollout changes. Nobody knows that of nodes that were never seen.
func (e *Engine) changeLocked(names []string) string {
	unseen := 0
	for _, name := range names {
		if e.workers[name].memory.Observed.Seen().IsZero() {
			unseen++
		}
	}
	var parts []string
	switch change := len(names) - unseen; {
	case change == 1:
		parts = append(parts, "1 node changes")
	case change > 1:
		parts = append(parts, fmt.Sprintf("%d nodes change", change))
	}
	if unseen > 0 {
		parts = append(parts, say.Count(unseen, "node")+" not seen yet")
	}
	return strings.Join(parts, ", ")
}

// rolloutLocked returns what people are shown of the rollout.
func (e *Engine) rolloutLocked() *site.RolloutStatus {
	if e.rollout == nil {
		return nil
	}
	s := e.rollout.RolloutStatus
	if e.rollout.running() {
		s.Done = e.rollout.count[done]
		return &s
	}
	for name := range s.Failed {
		switch w := e.workers[name]; {
		case w == nil: // left the design since the end
			s.Failed = without(s.Failed, name)
			s.Left++
		case w.status.State == site.InSync: // repaired since the end
			s.Failed = without(s.Failed, name)
			s.Done++
		}
	}
	return &s
}
