package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/site"
)

// mostStarts is how often Slipway starts the agent for one installation, and mostFailures how often
// the agent may fail to install, before a person has to look.
const (
	mostStarts   = 3
	mostFailures = 3
)

// agentGate holds steps that need Slipway's agent until the agent can be started or has called.
func (e *Engine) agentGate(w *worker, s site.Step) *held {
	starts := s.Action == site.ActionStartAgent
	if !starts && !s.ByAgent() {
		return nil
	}
	if e.Agents == nil {
		what := "image " + w.node.Image + " is installed"
		if w.node.Retires() {
			what = "the disks are erased"
		}
		return &held{state: site.Blocked, person: true, release: "`slipway run` with --ramdisk FILE",
			sentence: fmt.Sprintf("%s by Slipway's agent, and this daemon listens to no agents: start it with --ramdisk FILE, which `slipway ramdisk build` makes. To listen at an address other than :9481, add --agent-listen ADDRESS", what)}
	}
	if err := e.Agents.Serving(); err != nil {
		return &held{state: site.Blocked, sentence: retry.Steady(err)}
	}
	if starts {
		return e.agentStartGate(w, s)
	}
	return e.agentWorkGate(w, s)
}

// agentWorkGate holds a step of the agent until the agent has called.
func (e *Engine) agentWorkGate(w *worker, s site.Step) *held {
	b := w.memory.Recorded.Agent
	switch {
	case b != nil && b.Generation == s.Generation && b.Failed >= mostFailures:
		return &held{state: site.Stalled, person: true, release: "`slipway retry " + w.name + "`",
			sentence: fmt.Sprintf("%s has failed %d times, and the data on the machine's disks may be incomplete: %s. Once that is repaired, run `slipway retry %s`", workOf(s), b.Failed, b.Why, w.name)}
	case e.Agents.Agent(w.name) != nil:
		return nil
	case b.IsStarted() && !b.Lost.IsZero():
		until := patience(w.memory.Recorded, w.memory.Observed, installTimeout(job{site: w.e.design, node: w.node}))
		return &held{state: site.Progressing, sentence: "the connection to the agent on " + w.name + " is lost; the agent calls again",
			detail: fmt.Sprintf("lost at %s, awaited until %s", clock(b.Lost), clock(b.Lost.Add(until))), until: b.Lost.Add(until + time.Second)}
	case b.IsStarted():
		return &held{state: site.Progressing, sentence: "the machine boots Slipway's agent, which has not called yet",
			detail: fmt.Sprintf("started at %s, awaited until %s", clock(b.Started), clock(b.Started.Add(agentPatience))), until: b.Started.Add(agentPatience + time.Second)}
	}
	return &held{state: site.Progressing, sentence: "Slipway has to start the agent on " + w.name + " first"}
}

// agentStartGate holds a start of the agent that would be one too many, or that this daemon cannot serve.
func (e *Engine) agentStartGate(w *worker, s site.Step) *held {
	b := w.memory.Recorded.Agent
	switch {
	case b != nil && b.Generation == s.Generation && !b.Over.IsZero() && b.Tries >= mostStarts:
		why := "no agent has called"
		switch {
		case b.Key != "":
			why = "the connection to it was lost each time"
		case b.Refused != "":
			why = "no agent that called was accepted: " + strings.TrimSuffix(b.Refused, ".")
		}
		return &held{state: site.Stalled, person: true, release: "`slipway retry " + w.name + "`",
			sentence: fmt.Sprintf("Slipway's agent was started %d times, and %s. Check the console of the machine, and whether it reaches the daemon, then run `slipway retry %s`", b.Tries, why, w.name)}
	case w.node.References.Start == site.StartNetwork && !e.design.Install.Allows(site.TrustNetwork):
		return &held{state: site.Blocked, person: true, release: "a commit",
			sentence: `this node starts Slipway's agent over the network, and the site allows installation only through the BMC (trust "bmc"): write site: install: trust: "network", or boot: start: "media" for the node`}
	case w.node.References.Start == site.StartNetwork && e.NetBoots == nil:
		networks, _ := e.design.NetworkStart(w.node)
		return &held{state: site.Blocked, person: true, release: "`slipway run` with --netboot",
			sentence: fmt.Sprintf("this node starts Slipway's agent over the network, and this daemon does not serve network boot: start the daemon with --netboot INTERFACE=%s", strings.Join(networks, ",INTERFACE="))}
	case w.node.References.Start == site.StartNetwork && w.unserved() != nil:
		return &held{state: site.Blocked, sentence: "this node starts Slipway's agent over the network, and " + retry.Steady(w.unserved()), until: time.Now().Add(netbootAgain)}
	case !e.Artifacts.State(e.Agents.Medium()).Ready:
		return &held{state: site.Blocked, person: true, release: "a restart of the daemon",
			sentence: "the medium of Slipway's agent is no longer in the artifact store: restart the daemon, which adds it again"}
	}
	e.Artifacts.Use(e.Agents.Medium())
	return nil
}

// cablesGate holds an installation by the agent while a designed port has no link or its cable is
// plugged in elsewhere. The approval stays open.
func (w *worker) cablesGate(s site.Step) *held {
	if s.Action != site.ActionInstall || !s.ByAgent() || w.memory.Recorded.InstallBegun() {
		return nil
	}
	why := plan.Unplugged(w.node, w.memory)
	if len(why) == 0 {
		return nil
	}
	h := &held{state: site.Blocked, person: true, release: "the cabling as designed, or a commit that changes what the reason names", sentence: why[0], until: time.Now().Add(agentEvery)}
	if len(why) > 1 {
		h.detail = strings.Join(why[1:], "; ")
	}
	return h
}

// workOf returns words for what the agent does in a step.
func workOf(s site.Step) string {
	if s.Retires() {
		return "erasing the disks"
	}
	return "the installation"
}

func clock(t time.Time) string { return t.UTC().Format(time.TimeOnly) + "Z" }

// mayStart returns the check that an installation is still permitted. The driver asks it right
// before it takes the machine out of service to start the agent.
func (w *worker) mayStart(j job) driver.Permit {
	return func(ctx context.Context) error {
		e := w.e
		e.checkAnchor(ctx)
		e.mu.Lock()
		defer e.mu.Unlock()
		s, ok := installOf(w.plan.Steps)
		if !ok {
			return fmt.Errorf("%w: what the agent would be started for is no longer planned", driver.ErrNotPermitted)
		}
		if h := e.mayDestroyLocked(w, j, s, used(w.memory.Recorded, s)); h != nil {
			return fmt.Errorf("%w: %w: %s", driver.ErrNotPermitted, site.ErrRefused, h.sentence)
		}
		return nil
	}
}

// installOf returns the step of a plan that the agent is started for.
func installOf(steps []site.Step) (site.Step, bool) {
	i := slices.IndexFunc(steps, site.Step.ByAgent)
	if i < 0 {
		return site.Step{}, false
	}
	return steps[i], true
}
