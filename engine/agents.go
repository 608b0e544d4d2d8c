package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Times for Slipway's agent on a machine.
const (
	// agentPatience is how long an agent may take to call after its machine was started or its
	// connection was lost. Servers take up to ten minutes for their self-test; the agent itself
	// keeps calling for a quarter of an hour.
	agentPatience = 15 * time.Minute
	// agentIdle is how long a connected agent may wait for its installation.
	agentIdle = time.Hour
	// agentEvery is how often Slipway asks an agent that waits for something to be fixed.
	agentEvery = 15 * time.Second
	// tokenLasts is how long a token may be used for the first time, from the start's first request.
	tokenLasts = 2 * time.Hour
)

// keepAgents wakes the nodes on which an agent was started when any agent connects or is lost.
func (e *Engine) keepAgents(ctx context.Context) {
	if e.Agents == nil || e.ObserveOnly {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.Agents.Changes():
			e.mu.Lock()
			for _, w := range e.workers {
				if w.memory.Recorded.Agent.IsOn() {
					w.wakeUp()
				}
			}
			e.mu.Unlock()
		}
	}
}

// expectAgentLocked expects the node's agent as long as the records say so, and serves its medium:
// the agent reads programs from it until the installation has ended. Everything follows from the
// records. A daemon that was restarted since does not know the token; it serves the medium without
// the words of the boot, which an agent that has called has already read.
func (w *worker) expectAgentLocked() {
	if w.e.Agents == nil {
		return
	}
	medium := w.name + "/agent"
	b := w.memory.Recorded.Agent
	if !b.IsOn() {
		w.e.Agents.Forget(w.name)
		w.armLocked(b, driver.Boot{})
		if w.e.Artifacts != nil {
			w.e.Artifacts.Revoke(medium)
		}
		return
	}
	boot := w.bootLocked(b.Until, b.Network)
	boot.Daemon = b.Daemon
	w.e.Agents.Recall(boot, b.Token, b.Key)
	w.armLocked(b, boot)
	words := w.e.Agents.Words(w.name)
	switch {
	case w.e.Artifacts == nil:
	case b.Key == "" && words == nil || b.Network:
		w.e.Artifacts.Revoke(medium)
	default:
		w.e.Artifacts.Grant(artifact.Grant{Node: medium, SHA256: b.Medium, URL: b.Served, Words: words})
	}
}

// bootLocked returns a boot of the node's machine into the ramdisk, from a medium or over the
// network.
func (w *worker) bootLocked(until time.Time, network bool) driver.Boot {
	b := driver.Boot{Node: w.name, Machine: w.node.Machine(), MACs: w.node.MACs(), Until: until}
	switch {
	case w.e.design == nil:
	case network:
		b.From = networkStart(w.e.design, w.node)
	default:
		b.Address = w.e.design.BootAddress(w.node)
	}
	return b
}

// lookAtAgent asks the node's agent what the machine is, if an agent is expected.
func (w *worker) lookAtAgent(ctx context.Context, j job) *site.AgentSeen {
	before := j.memory.Observed.Agent
	if w.e.Agents == nil || !j.memory.Recorded.Agent.IsOn() {
		if before.IsConnected() {
			return &site.AgentSeen{Generation: before.Generation, Disks: before.Disks, Inventory: before.Inventory, Seen: before.Seen}
		}
		return nil
	}
	now := &site.AgentSeen{Generation: j.memory.Recorded.Agent.Generation}
	switch {
	case before != nil && !before.Seen.Before(j.memory.Recorded.Agent.Since):
		now.Disks, now.Inventory, now.Seen = before.Disks, before.Inventory, before.Seen
	case before != nil && before.Generation == now.Generation && before.LastReport() != nil:
		last := before.LastReport()
		now.Earlier = &site.AgentSeen{Generation: last.Generation, Disks: last.Disks, Seen: last.Seen}
	}
	a := w.e.Agents.Agent(w.name)
	if a == nil {
		return now
	}
	seen, err := w.observe(ctx, j, site.Agent, nil)
	switch {
	case err != nil:
		w.e.Log.Debug("the agent does not answer", "node", w.name, "err", err)
	case !j.node.Machine().Matches(seen.Identity):
		w.e.Log.Warn("the agent that answers for this node runs on another machine", "node", w.name, "is", seen.Identity.Full())
	default:
		now.Earlier = nil
		now.Connected, now.Disks, now.Inventory, now.Seen = true, a.Disks(), a.Inventory(), time.Now()
	}
	return now
}

// noteAgent records the state of the agent that was started on a machine.
func (e *Engine) noteAgent(r *site.Recorded, n *site.Node, seen site.Observed, unwanted, allowed bool, limit time.Duration, now time.Time) {
	if !r.Agent.IsOn() {
		return
	}
	b := *r.Agent
	switch a := e.agentOf(n.Name); {
	case (unwanted || b.Network && !allowed) && r.UnderWay() == 0 && !r.EraseBegun():
		b.Over = now
	case seen.Agent.IsConnected() && a != nil:
		b.Key, b.Lost, b.Refused = a.Key(), time.Time{}, ""
		if b.Started.IsZero() {
			b.Started = now // it has called, whatever its BMC says
		}
		b.Idle = b.Idle || r.UnderWay() == 0 && !r.EraseBegun() && now.Sub(b.Started) > agentIdle
	default:
		b.Refused = cmp.Or(e.refusedAgent(n.Name), b.Refused)
		if b.Key != "" && b.Lost.IsZero() {
			b.Lost = now
		}
		since := b.Started
		if !b.Lost.IsZero() {
			since = b.Lost
		}
		most := agentPatience
		if !b.Lost.IsZero() {
			most = patience(*r, seen, limit)
		}
		if !since.IsZero() && (now.Sub(since) > most || now.Before(since.Add(-most))) {
			b.Over = now
		}
	}
	if b != *r.Agent {
		r.Agent = &b
	}
}

// endStart ends a start of the agent that was not seen to begin and that nobody wants or permits any
// more. The machine is then disarmed, and its ports go back. This needs no look at the machine.
func (w *worker) endStart(ctx context.Context, j job) error {
	b := j.memory.Recorded.Agent
	if !b.IsOn() || b.IsStarted() || b.Key != "" {
		return nil
	}
	w.e.mu.Lock()
	m := w.memory
	m.Account = w.e.accountLocked(w.name)
	w.e.mu.Unlock()
	if plan.WantsAgent(j.site, j.node, m) && (b.Until.IsZero() || time.Now().Before(b.Until)) {
		return nil
	}
	return w.save(ctx, func(r *site.Recorded) {
		if r.Agent.IsOn() && !r.Agent.IsStarted() {
			over := *r.Agent
			over.Over = time.Now()
			r.Agent = &over
		}
	})
}

// patience returns how long an agent may stay lost. An agent that was asked to install continues,
// and calls again when it has finished. That may take days while disks are still being erased. An
// agent on a machine that is off does nothing.
func patience(r site.Recorded, o site.Observed, installTimeout time.Duration) time.Duration {
	switch {
	case !r.AgentWorks():
		return agentPatience
	case o.Facets[site.FacetPower].Have["state"] != "off" && r.Erases(r.InFlight.Step):
		return max(agentPatience, installTimeout+longestErase)
	}
	return max(agentPatience, installTimeout)
}

// refusedAgent returns why the last agent that called for a node was refused; empty if none was.
func (e *Engine) refusedAgent(node string) string {
	if e.Agents == nil {
		return ""
	}
	return e.Agents.Refused(node)
}

func (e *Engine) agentOf(node string) driver.Agent {
	if e.Agents == nil {
		return nil
	}
	return e.Agents.Agent(node)
}

// openAgent returns the connection to the agent that called from the machine's memory.
func (w *worker) openAgent(n *site.Node) (driver.Machine, error) {
	a := w.e.agentOf(w.name)
	if a == nil {
		w.closeConnection(site.Agent)
		return nil, fmt.Errorf("%w: no agent of %s is connected", driver.ErrUnreachable, w.name)
	}
	if d := w.connections[site.Agent]; d != nil && d.machine == driver.Machine(a) {
		return a, nil
	}
	w.closeConnection(site.Agent)
	w.lend(a, n.Endpoints[site.OS])
	if s, ok := driver.As[driver.Supplied](driver.Machine(a)); ok && w.e.Artifacts != nil {
		s.Supply(w.e.Artifacts.Content)
	}
	w.connections[site.Agent] = &connection{machine: a}
	return a, nil
}

// startAgent makes the boot for a start of the agent. If this process began the try and resumes it,
// startAgent returns the same boot.
func (w *worker) startAgent(j job, s site.Step) (*site.AgentBoot, error) {
	e, now := w.e, time.Now()
	if e.Agents == nil || e.Artifacts == nil {
		return nil, errors.New("this daemon does not listen to agents")
	}
	b, network := j.memory.Recorded.Agent, j.node.References.Start == site.StartNetwork
	if s.Resumed && !network && b != nil && !b.Network && e.Agents.Words(w.name) != nil && e.Artifacts.Reaches(b.Served) && now.Add(agentPatience).Before(b.Until) {
		return b, nil
	}
	e.mu.Lock()
	boot := w.bootLocked(now.Add(tokenLasts), network)
	e.mu.Unlock()
	var err error
	if boot.Daemon, err = w.towards(j, boot.Address); err != nil {
		return nil, err
	}
	token, err := e.Agents.Expect(boot)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	is := &site.AgentBoot{Generation: s.Generation, Tries: 1, Token: token, Daemon: boot.Daemon, Network: network, Medium: e.Agents.Medium(), Since: now, Until: boot.Until}
	if b != nil && b.Generation == s.Generation {
		is.Tries += b.Tries
		is.Failed, is.Why, is.Refused = b.Failed, b.Why, b.Refused
	}
	if s.Resumed {
		is.Tries = b.Tries // the same try, by another process
	}
	if !network {
		is.Served, err = e.Artifacts.URL(w.controller(), is.Medium)
	}
	return is, err
}

// towards returns this host's address as seen from the machine of a node that starts the agent.
func (w *worker) towards(j job, own site.BootAddress) (string, error) {
	switch {
	case j.node.References.Start == site.StartNetwork:
		return w.servingNetwork(j.site, j.node)
	case own.Prefix.IsValid():
		return w.e.Artifacts.Towards(own.Prefix.Addr().String())
	}
	return w.e.Artifacts.Towards(w.controller())
}

// controller returns the host of the node's BMC.
func (w *worker) controller() string {
	u, err := url.Parse(w.node.Endpoints[site.Manager].URL)
	if err != nil {
		return ""
	}
	return u.Hostname()
}
