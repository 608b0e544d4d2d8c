package engine

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// NetBoots starts Slipway's agent on machines over the network. Its methods return at once.
type NetBoots interface {
	// Serving returns this host's address in the first of some networks in which machines can be
	// told to start the agent. If there is none, the error says why.
	Serving(networks []string) (host string, err error)
	// Arm makes a machine start the agent once, when it next boots over the network. Arming the
	// same boot again changes nothing.
	Arm(NetBoot) error
	// Disarm ends that.
	Disarm(node string)
	// Odd returns what was refused of the node's boot because somebody else asked for it; empty
	// for nothing.
	Odd(node string) string
}

// NetBoot is one boot of a machine over the network.
type NetBoot struct {
	// ID distinguishes it from the node's other boots.
	ID, Node string
	// MACs are the addresses of the ports that the firmware boots from. UUID is the machine's;
	// empty if unknown.
	MACs []string
	UUID string
	// Words is what the agent is told when it asks where the daemon is.
	Words string
	Until time.Time
}

// netbootAgain is how long a start waits before it checks again whether its network is served.
const netbootAgain = 15 * time.Second

// networkStart returns the address ranges of the networks that a node boots over.
func networkStart(s *site.Site, n *site.Node) (ranges []netip.Prefix) {
	networks, _ := s.NetworkStart(n)
	for _, name := range networks {
		if p, err := netip.ParsePrefix(s.Networks[name].CIDR); err == nil {
			ranges = append(ranges, p)
		}
	}
	return ranges
}

// servingNetwork returns this host's address in a network that a node boots over.
func (w *worker) servingNetwork(s *site.Site, n *site.Node) (string, error) {
	if w.e.NetBoots == nil {
		return "", errors.New("this daemon does not serve network boot")
	}
	networks, _ := s.NetworkStart(n)
	return w.e.NetBoots.Serving(networks)
}

// unserved returns why the node cannot boot over the network. The caller holds the lock.
func (w *worker) unserved() error {
	_, err := w.servingNetwork(w.e.design, w.node)
	return err
}

// armLocked arms the machine to start the agent over the network while the records say so and no
// agent has called, and at no other time. A daemon restarted since arms the same boot, unless its
// ramdisk has changed.
func (w *worker) armLocked(b *site.AgentBoot, boot driver.Boot) {
	if w.e.NetBoots == nil {
		return
	}
	if !b.IsOn() || !b.Network || b.Key != "" || b.Medium != w.e.Agents.Medium() || w.e.design == nil {
		w.e.NetBoots.Disarm(w.name)
		w.unarmed = nil
		return
	}
	words, err := w.e.Agents.Directions(boot)
	if err == nil {
		_, macs := w.e.design.NetworkStart(w.node)
		err = w.e.NetBoots.Arm(NetBoot{ID: b.Token, Node: w.name, MACs: macs, UUID: boot.Machine.UUID, Words: words, Until: b.Until})
	}
	if w.unarmed = err; err != nil {
		w.e.Log.Warn("the machine is not armed for network boot", "node", w.name, "err", err)
	}
}

// armed returns why the machine would not start the agent over the network although it should.
func (w *worker) armed() error {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	if w.unarmed == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", driver.ErrBusy, w.unarmed)
}

// startNoteLocked returns what a person should know about a start of the agent besides the node's
// state: somebody else asked for the boot, or an agent that called was refused. It is empty if
// there is nothing.
func (w *worker) startNoteLocked() string {
	if !w.memory.Recorded.Agent.IsOn() || w.e.Agents == nil {
		return ""
	}
	if w.e.NetBoots != nil {
		if odd := w.e.NetBoots.Odd(w.name); odd != "" {
			return "network boot: " + odd
		}
	}
	return w.e.Agents.Refused(w.name)
}
