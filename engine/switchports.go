package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// checkedPorts checks by LLDP that ports are plugged in as designed before anything is done with
// them. Without a driver for switches it does nothing else.
type checkedPorts struct{ then driver.Switches }

var _ driver.Switches = checkedPorts{}

// Provision refuses a port that is known to be plugged in elsewhere: the machine would boot in
// another network, and the switch would set up another machine's port.
func (c checkedPorts) Provision(ctx context.Context, n *site.Node, ports []site.SwitchedPort) error {
	for _, p := range ports {
		if why := plan.Misplaced(n, p); why != "" {
			return fmt.Errorf("%w: %s; move the cable, or correct `switch` and `port` of the interface", driver.ErrRefused, why)
		}
	}
	if c.then == nil {
		return nil
	}
	return c.then.Provision(ctx, n, ports)
}

// Production does nothing if no driver sets up ports.
func (c checkedPorts) Production(ctx context.Context, n *site.Node, ports []site.SwitchedPort) error {
	if c.then == nil {
		return nil
	}
	return c.then.Production(ctx, n, ports)
}

const (
	// longestSwitching bounds one call to a switch.
	longestSwitching = 2 * time.Minute
	// portPatience is how long the machine's system may take to show that its ports carry their
	// networks, before Slipway tells the switch once more.
	portPatience = 10 * time.Minute
	// mostSwitchings is how often Slipway tells a switch before a person has to look.
	mostSwitchings = 3
)

// provision prepares the ports from which the machine is about to boot over the network. It
// records them first, so that they are put back however the start ends.
func (w *worker) provision(ctx context.Context, j job) error {
	ports := w.startPorts(j)
	if len(ports) == 0 {
		return nil
	}
	if w.e.Switches != nil {
		if err := w.save(ctx, func(r *site.Recorded) {
			is := &site.PreparedPorts{Ports: ports, Since: time.Now()}
			if r.Ports != nil {
				is.Ports, is.Since = alsoPorts(ports, r.Ports.Ports), r.Ports.Since
			}
			r.Ports = is
		}); err != nil {
			return err
		}
	}
	return w.switched(ctx, "could not be prepared for the start over the network", ports, func(ctx context.Context) error {
		return checkedPorts{w.e.Switches}.Provision(ctx, j.node, ports)
	})
}

// alsoPorts returns ports and those of before that are not among them.
func alsoPorts(ports, before []site.SwitchedPort) []site.SwitchedPort {
	all := slices.Clone(ports)
	for _, b := range before {
		if !slices.ContainsFunc(ports, func(p site.SwitchedPort) bool {
			return p.Interface == b.Interface && p.Switch == b.Switch && p.Port == b.Port
		}) {
			all = append(all, b)
		}
	}
	return all
}

// switchPorts sets up switches for a step before its first request to the machine.
func (w *worker) switchPorts(ctx context.Context, j job, s site.Step) error {
	switch {
	case s.Action == site.ActionStartAgent && j.node.References.Start == site.StartNetwork:
		return w.provision(ctx, j)
	case s.Action == site.ActionFinishInstall:
		return w.giveBackPorts(ctx, j)
	}
	return nil
}

// startPorts returns the ports that the node boots from over the network, with the neighbours
// heard there if its system answers now.
func (w *worker) startPorts(j job) []site.SwitchedPort {
	ports := j.site.StartPorts(j.node)
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	if w.blind || w.blindInside || w.lookedInside.IsZero() {
		return ports
	}
	for i, p := range ports {
		if at, there := j.node.PortOf(p.Interface, j.memory.Observed.Links); there && at.Carrier == "up" {
			ports[i].Heard = at.Neighbours
		}
	}
	return ports
}

// giveBackPorts puts prepared ports back on the networks of the design. It does so once each time
// they were prepared or not proven. If nothing can tell the switch, a person has to do it.
func (w *worker) giveBackPorts(ctx context.Context, j job) error {
	is := w.job().memory.Recorded.Ports
	if is == nil || !is.Back.IsZero() {
		return nil
	}
	if w.e.Switches == nil {
		return w.save(ctx, func(r *site.Recorded) {
			if r.Ports != nil {
				r.Ports = &site.PreparedPorts{Ports: r.Ports.Ports, Since: r.Ports.Since, Back: time.Now(), Tries: mostSwitchings}
			}
		})
	}
	ports := j.site.PortsBack(j.node, is.Ports)
	if err := w.switched(ctx, "could not be put back on their networks", ports, func(ctx context.Context) error {
		return checkedPorts{w.e.Switches}.Production(ctx, j.node, ports)
	}); err != nil {
		return err
	}
	return w.save(ctx, func(r *site.Recorded) {
		if r.Ports != nil {
			r.Ports = &site.PreparedPorts{Ports: ports, Since: r.Ports.Since, Back: time.Now(), Tries: r.Ports.Tries + 1}
		}
	})
}

// switched calls a switch, while the term is held.
func (w *worker) switched(ctx context.Context, what string, ports []site.SwitchedPort, call func(context.Context) error) error {
	ctx, stop := w.e.whileHeld(ctx)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, longestSwitching)
	defer cancel()
	err := call(ctx)
	if err == nil {
		return nil
	}
	text := site.PortsText(ports)
	return driver.Say(fmt.Sprintf("%s %s: %s", text, what, strings.TrimPrefix(verdict(err), driver.Class(err)+": ")), fmt.Errorf("%s: %w", text, err))
}

// tendPorts puts ports back once their network start is over, and forgets those proven to be
// back. They stay prepared while the machine is about to start over the network, or runs the
// agent.
func (w *worker) tendPorts(ctx context.Context, j job) error {
	r := j.memory.Recorded
	if r.Ports == nil || r.Quarantined != nil || r.Agent.IsOn() && r.Agent.Network && r.Ports.Back.IsZero() {
		return nil
	}
	w.e.mu.Lock()
	why := w.e.whyReadOnlyLocked()
	if why == "" {
		why = w.e.mayWriteLocked(time.Now(), false, true)
	}
	w.e.mu.Unlock()
	switch {
	case why != "":
		return nil
	case r.Ports.Back.IsZero():
		return w.giveBackPorts(ctx, j)
	case j.leaving || j.node.Decommission || j.site.Unused(j.node) != "" || j.node.Power == "off" || w.unprovenPorts(j) == "":
		return w.save(ctx, func(r *site.Recorded) { r.Ports = nil })
	case time.Since(r.Ports.Back) > portPatience && r.Ports.Tries < mostSwitchings:
		if err := w.save(ctx, func(r *site.Recorded) {
			again := *r.Ports
			again.Back = time.Time{}
			r.Ports = &again
		}); err != nil {
			return err
		}
		return w.giveBackPorts(ctx, j)
	}
	return nil
}

// unprovenPorts returns why it is unknown whether the prepared ports are back; empty if they are,
// or if none were prepared.
func (w *worker) unprovenPorts(j job) string {
	is := j.memory.Recorded.Ports
	if is == nil {
		return ""
	}
	if is.Back.IsZero() {
		return "the switch was not configured yet"
	}
	return plan.PortsProven(j.site, j.node, j.memory.Observed, is.Ports, is.Back, w.e.serves)
}

// awaitPorts returns the outcome for a node whose ports are not proven to be back.
func (w *worker) awaitPorts(j job, why string) outcome {
	is := j.memory.Recorded.Ports
	reason := fmt.Sprintf("%s was prepared for the start over the network, and is not proven to be back on its networks: %s", site.PortsText(is.Ports), why)
	if w.e.Switches == nil {
		return outcome{state: site.Stalled, person: true, reason: fmt.Sprintf("%s. This daemon cannot configure the switch; set the port there, then run `slipway retry %s`", reason, w.name),
			release: "`slipway retry " + w.name + "`", wait: observeEvery(j.site)}
	}
	if is.Tries >= mostSwitchings && time.Since(is.Back) > portPatience {
		return outcome{state: site.Stalled, person: true, reason: fmt.Sprintf("%s. Slipway configured the switch %d times; check it, then run `slipway retry %s`", reason, is.Tries, w.name),
			release: "`slipway retry " + w.name + "`", wait: observeEvery(j.site)}
	}
	return outcome{state: site.Progressing, reason: reason, release: "what the system sees of its networks", wait: soonEnough(j, time.Since(is.Back))}
}
