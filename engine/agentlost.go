package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// An agent continues its installation after its connection is lost. When it has finished and
// could not reach the daemon for long, it boots the machine into the new system, which is then in
// service. So after a long absence the daemon asks the system before it cuts the power.

// noteHostKeys records the host keys of the system being installed, immediately. The system
// proves itself by these keys if the agent can no longer report that it has finished.
func (w *worker) noteHostKeys(ctx context.Context, s site.Step, keys []string) {
	err := w.save(context.WithoutCancel(ctx), func(r *site.Recorded) {
		if r.InFlight.Is(s) {
			made := *r.InFlight
			made.FirstBoot.HostKeys = keys
			r.InFlight = &made
		}
	})
	if err != nil {
		w.e.Log.Warn("the host keys of the system that is being installed are not recorded", "node", w.name, "err", err)
	}
}

// aloneGate holds a step that cuts the power of a machine whose agent called and was lost. It
// holds the step until Slipway has asked for the system for a while. It also holds the step while
// a system answers and Slipway cannot tell whether the agent installed it.
func (w *worker) aloneGate(s site.Step) *held {
	r, o := w.memory.Recorded, w.memory.Observed
	_, asks := w.node.Endpoints[site.OS]
	starts := s.Action == site.ActionStartAgent
	switch {
	case !asks, !starts && (s.Action != site.ActionFinishInstall || !s.FromMemory),
		r.Agent == nil, !r.MayRunAlone() && r.Installing == nil,
		starts && r.Agent.Generation != s.Generation, // which has its own approval
		o.Agent.IsConnected(), o.Facets[site.FacetPower].Have["state"] == "off":
		return nil
	}
	if who := w.unknownSystem(); who != "" {
		return &held{state: site.Stalled, person: true, release: "its host key in `endpoints.os.trust.hostKeys`, the machine switched off, or a higher generation",
			sentence: fmt.Sprintf("the agent was lost, a system answers on the machine, and Slipway cannot tell whether it is the one that the agent has installed: %s. It stays on. "+
				"If it is the new system, add its SSH host key to `endpoints.os.trust.hostKeys`. If not, switch the machine off: Slipway starts the agent again, which looks for its own system before it erases anything", who)}
	}
	until := r.Agent.Over.Add(plan.Hearing)
	if r.Agent.IsOn() {
		until = r.Agent.Lost.Add(agentPatience + plan.Hearing) // it may call again
	}
	if now := time.Now(); now.Before(until) && !now.Before(until.Add(-agentPatience-plan.Hearing)) {
		return &held{state: site.Progressing, sentence: "the connection to the agent on " + w.name + " is lost, and the agent may have finished the installation; Slipway asks the installed system before it switches the machine off",
			detail: "asked until " + clock(until), until: until.Add(time.Second)}
	}
	return nil
}

// unknownSystem returns why Slipway cannot tell whether the agent installed the system that
// answers while the agent is lost. It is empty if no system answers, or if it is the previous
// one.
func (w *worker) unknownSystem() string {
	if w.stranger != "" || w.blindInside || w.memory.Observed.Facets[site.FacetOS].Seen.Before(w.memory.Recorded.Agent.Since) {
		return w.stranger
	}
	return plan.NotBefore(w.e.design, w.node, w.memory)
}
