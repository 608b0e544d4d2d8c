package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/site"
)

// The times of Slipway's agent on a machine.
const (
	// agentPatience is how long an agent may take to call after its machine was started, or
	// after its connection was lost. Servers take up to ten minutes for their self-test; the
	// agent itself goes on calling for a quarter of an hour.
	agentPatience = 15 * time.Minute
	// agentIdle is how long an agent that is connected waits for its installation.
	agentIdle = time.Hour
	// agentEvery is how often an agent is asked that waits until something is put right.
	agentEvery = 15 * time.Second
	// tokenLasts is how long a token can be used first, from the start's first request on.
	tokenLasts = 2 * time.Hour
)

// longestErase is how long an installation may take besides that erases the disks first: a large
// disk is written over in a day or two.
const longestErase = 7 * 24 * time.Hour

// agentLimit is how long the agent may take to install.
func agentLimit(j job) time.Duration {
	if j.node.Storage.Erase != "" || j.node.Retires() {
		return installTimeout(j) + longestErase
	}
	return installTimeout(j)
}

// mostStarts is how often the agent is started for one installation, and mostFailures how often
// it fails to install, before a person has to look.
const (
	mostStarts   = 3
	mostFailures = 3
)

// keepAgents wakes the nodes on which an agent was started when one has connected or is lost.
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

// expectAgentLocked has the node's agent expected as long as the records say, and serves its
// medium: the agent reads programs from it until the installation has ended. All of it follows
// from the records. A daemon that was started since does not know the token; it serves the medium
// without the words of the boot, which an agent that has called has read already.
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

// bootLocked is a boot of the node's machine into the ramdisk, from a medium or over the network.
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

// controller is the host of the node's BMC.
func (w *worker) controller() string {
	u, err := url.Parse(w.node.Endpoints[site.Manager].URL)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// lookAtAgent asks the node's agent what the machine is, where one is expected.
func (w *worker) lookAtAgent(ctx context.Context, j job) *site.AgentSeen {
	before := j.memory.Observed.Agent
	if w.e.Agents == nil || !j.memory.Recorded.Agent.IsOn() {
		if before.IsConnected() {
			return &site.AgentSeen{Generation: before.Generation, Disks: before.Disks, Inventory: before.Inventory, Seen: before.Seen}
		}
		return nil
	}
	now := &site.AgentSeen{Generation: j.memory.Recorded.Agent.Generation}
	if before != nil && !before.Seen.Before(j.memory.Recorded.Agent.Since) {
		now.Disks, now.Inventory, now.Seen = before.Disks, before.Inventory, before.Seen
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
		now.Connected, now.Disks, now.Inventory, now.Seen = true, a.Disks(), a.Inventory(), time.Now()
	}
	return now
}

// noteAgent records what became of the agent that was started on a machine.
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
// more: the machine is not armed any longer, and its ports go back. That needs no look.
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

// patience is how long an agent may be lost. One that was asked to install goes on with that, and
// calls again when it has ended: as long as disks are to be erased whose end it has not told, that
// may take days. One whose machine is off goes on with nothing.
func patience(r site.Recorded, o site.Observed, installTimeout time.Duration) time.Duration {
	switch {
	case !r.AgentWorks():
		return agentPatience
	case o.Facets[site.FacetPower].Have["state"] != "off" && r.Erases(r.InFlight.Step):
		return max(agentPatience, installTimeout+longestErase)
	}
	return max(agentPatience, installTimeout)
}

// refusedAgent says why the last agent was refused that called for a node; empty for none.
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

// openAgent is the connection to the agent that has called from the machine's memory.
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
	driver.Lend(a, n.Endpoints[site.OS], w.e.Secrets)
	if s, ok := driver.As[driver.Supplied](driver.Machine(a)); ok && w.e.Artifacts != nil {
		s.Supply(w.e.Artifacts.Content)
	}
	w.connections[site.Agent] = &connection{machine: a}
	return a, nil
}

// startAgent makes the boot of a start of the agent: a new one, or that of the try that this
// process has begun and goes on with.
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

// towards is the address of this host towards the machine of a node that starts the agent.
func (w *worker) towards(j job, own site.BootAddress) (string, error) {
	switch {
	case j.node.References.Start == site.StartNetwork:
		return w.servingNetwork(j.site, j.node)
	case own.Prefix.IsValid():
		return w.e.Artifacts.Towards(own.Prefix.Addr().String())
	}
	return w.e.Artifacts.Towards(w.controller())
}

// agentGate holds what needs Slipway's agent until that can be started, or has called.
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
	b, until := w.memory.Recorded.Agent, patience(w.memory.Recorded, w.memory.Observed, installTimeout(job{site: w.e.design, node: w.node}))
	switch {
	case !starts && b != nil && b.Generation == s.Generation && b.Failed >= mostFailures:
		return &held{state: site.Stalled, person: true, release: "`slipway retry " + w.name + "`",
			sentence: fmt.Sprintf("%s has failed %d times, and the data on the machine's disks may be incomplete: %s. Once that is repaired, run `slipway retry %s`", workOf(s), b.Failed, b.Why, w.name)}
	case !starts && e.Agents.Agent(w.name) != nil:
		return nil
	case !starts && b.IsStarted() && !b.Lost.IsZero():
		return &held{state: site.Progressing, sentence: "the connection to the agent on " + w.name + " is lost; the agent calls again",
			detail: fmt.Sprintf("lost at %s, awaited until %s", clock(b.Lost), clock(b.Lost.Add(until))), until: b.Lost.Add(until + time.Second)}
	case !starts && b.IsStarted():
		return &held{state: site.Progressing, sentence: "the machine boots Slipway's agent, which has not called yet",
			detail: fmt.Sprintf("started at %s, awaited until %s", clock(b.Started), clock(b.Started.Add(agentPatience))), until: b.Started.Add(agentPatience + time.Second)}
	case !starts:
		return &held{state: site.Progressing, sentence: "Slipway has to start the agent on " + w.name + " first"}
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

// cablesGate holds an installation by the agent while a designed port has no link, or is plugged in
// elsewhere. Its approval stays open.
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

// workOf is what the agent does in a step, for people.
func workOf(s site.Step) string {
	if s.Retires() {
		return "erasing the disks"
	}
	return "the installation"
}

// noteInstallFailed counts an installation that the agent has tried and that failed. One whose
// connection was lost may go on.
func noteInstallFailed(r *site.Recorded, s site.Step, err error) {
	if !s.ByAgent() || r.Agent == nil || !r.AgentWorks() || errors.Is(err, driver.ErrUnreachable) || errors.Is(err, driver.ErrInterrupted) || errors.Is(err, driver.ErrBusy) {
		return
	}
	b := *r.Agent
	b.Failed++
	b.Why = verdict(err)
	r.Agent = &b
}

func clock(t time.Time) string { return t.UTC().Format(time.TimeOnly) + "Z" }

// installOf is the installation that a start of the agent is for, of the steps of one plan.
func installOf(steps []site.Step) (site.Step, bool) {
	i := slices.IndexFunc(steps, site.Step.ByAgent)
	if i < 0 {
		return site.Step{}, false
	}
	return steps[i], true
}

// mayStart says whether the installation is still permitted that an agent is started for: the
// machine is about to be taken out of service for it.
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

// prepare tells the agent what its installation is made of: exactly what was approved. The
// marker is recorded before, so that each try has the same one.
func (w *worker) prepare(ctx context.Context, m driver.Machine, j job, s site.Step) error {
	to, ok := driver.As[driver.Installer](m)
	if !s.ByAgent() || !ok {
		return nil
	}
	r := w.job().memory.Recorded
	f, untouched := r.InFlight, "; nothing was erased"
	if r.AgentWorks() { // by an earlier try
		untouched = ""
	}
	l, wrong, known := plan.Layout(s.Of(j.node), w.job().memory.Observed)
	switch {
	case !f.Is(s):
		return fmt.Errorf("%w: the step is not recorded as begun", driver.ErrInterrupted)
	case s.Retires() != j.node.Retires():
		return fmt.Errorf("%w: the design no longer asks for what this step began with", driver.ErrRefused)
	case !s.Retires() && !j.node.References.ByAgent:
		return fmt.Errorf("%w: the design names an image of another kind than the one that this installation began with", driver.ErrRefused)
	case !known:
		return fmt.Errorf("%w: the agent has not reported the disks of the machine yet", driver.ErrInterrupted)
	case len(wrong) > 0:
		return fmt.Errorf("%w: %s%s", driver.ErrRefused, wrong[0].Message, untouched)
	}
	if why := plan.NotApproved(s, f.FirstBoot.Design, j.node, w.job().memory.Observed); why != "" {
		return fmt.Errorf("%w: %s%s", driver.ErrRefused, why, untouched)
	}
	if s.Retires() {
		to.Prepare(driver.Installation{Layout: l, Medium: r.Agent.Ramdisk(), Marker: fmt.Sprintf("erase %d %s", s.Attempt, s.Records), Limit: agentLimit(j), Erased: r.ErasedIn(s)})
		return w.save(ctx, func(r *site.Recorded) { r.NoteErasing(s, l, plan.UnseenDisks(w.job().memory.Observed), time.Now()) })
	}
	marker := f.Marker
	if marker == "" {
		text, token, err := w.markerOf(j, s)
		if err != nil {
			return fmt.Errorf("%w: %w", driver.ErrRefused, err)
		}
		if err := w.save(ctx, func(r *site.Recorded) {
			if r.InFlight == nil {
				return
			}
			begun := *r.InFlight
			begun.Marker, begun.FirstBoot = text, site.FirstBoot{Tokens: []string{token}, Design: plan.LaidOut(j.node)}
			r.InFlight = &begun
		}); err != nil {
			return err
		}
		marker = text
	}
	var facets []site.Facet
	for _, facet := range site.InsideFacets {
		reaches := facet == site.FacetBase || facet == site.FacetNetwork // the others a system on a whole disk gets by itself
		if w.e.serves[facet] && j.node.Asks(facet) && !site.Facets[facet].Once && (reaches || !s.Image.IsDisk()) {
			facets = append(facets, facet)
		}
	}
	digest, ok := w.e.fileOf(s.Image)
	if !ok {
		return fmt.Errorf("%w: the frames of the image are no longer in the artifact store%s", driver.ErrBusy, untouched)
	}
	image, size, err := w.e.Artifacts.Content(digest)
	if err != nil {
		return fmt.Errorf("%w: the image cannot be read in the artifact store: %w%s", driver.ErrBusy, err, untouched)
	}
	image.Close()
	to.Prepare(driver.Installation{
		Layout: l, Medium: r.Agent.Ramdisk(), SHA256: digest, Bytes: size, URL: f.Served, CA: w.e.Artifacts.Authority(), Marker: marker, Facets: facets, Limit: agentLimit(j),
		Erased: r.ErasedIn(s),
	})
	return w.save(ctx, func(r *site.Recorded) { r.NoteErasing(s, l, nil, time.Now()) })
}

// noteErased records what came of erasing a disk, at once.
func (w *worker) noteErased(ctx context.Context, s site.Step, d item.Erasure) {
	if err := w.save(context.WithoutCancel(ctx), func(r *site.Recorded) { r.NoteErased(s, d, time.Now()) }); err != nil {
		w.e.Log.Warn("the result of erasing a disk could not be recorded", "node", w.name, "disk", d.ID(), "err", err)
	}
}

// markerOf is the marker of an installation, with the digest of its token. The site's key has
// signed it; without one its token is one that nobody else has.
func (w *worker) markerOf(j job, s site.Step) (text, token string, err error) {
	m := site.Marker{Site: j.site.Name, Node: j.node.Name, Machine: s.Machine, Generation: s.Generation, Image: s.Image.SHA256,
		Attempt: s.Attempt, Term: w.e.termNumber(), Token: rand.Text()}
	if w.e.Key != nil {
		if m.Token, err = w.e.Key.Token(m); err != nil {
			return "", "", fmt.Errorf("marker of %s: %w", w.name, err)
		}
	}
	made, err := json.Marshal(m)
	return string(made) + "\n", site.TokenDigest(m.Token), err
}
