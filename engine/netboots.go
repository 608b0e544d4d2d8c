package engine

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// NetBoots start Slipway's agent on machines over the network. All methods return at once.
type NetBoots interface {
	// Serving is the address of this host in the first of some networks in which machines can
	// be told to start the agent, or says why they can in none of them.
	Serving(networks []string) (host string, err error)
	// Arm has a machine start the agent when it starts over the network next, once. Armed again
	// with the same boot, nothing changes.
	Arm(NetBoot) error
	// Disarm ends that.
	Disarm(node string)
	// Odd is what was refused of the node's boot, because somebody else has asked for it;
	// empty for nothing.
	Odd(node string) string
}

// NetBoot is one boot of a machine over the network.
type NetBoot struct {
	// ID tells it from others of the node.
	ID, Node string
	// MACs are the addresses of the ports that the firmware starts from, and UUID is that of
	// the machine, empty where it is not known.
	MACs []string
	UUID string
	// Words are what the agent is told when it asks where the daemon is.
	Words string
	Until time.Time
}

// netbootAgain is how long a start waits before it looks again whether its network is served.
const netbootAgain = 15 * time.Second

// networkStart are the ranges of the networks that a node starts over.
func networkStart(s *site.Site, n *site.Node) (ranges []netip.Prefix) {
	networks, _ := s.NetworkStart(n)
	for _, name := range networks {
		if p, err := netip.ParsePrefix(s.Networks[name].CIDR); err == nil {
			ranges = append(ranges, p)
		}
	}
	return ranges
}

// servingNetwork is the address of this host in a network that a node starts over.
func (w *worker) servingNetwork(s *site.Site, n *site.Node) (string, error) {
	if w.e.NetBoots == nil {
		return "", errors.New("this daemon does not serve network boot")
	}
	networks, _ := s.NetworkStart(n)
	return w.e.NetBoots.Serving(networks)
}

// unserved says why the node cannot start over the network. The caller has the lock.
func (w *worker) unserved() error {
	_, err := w.servingNetwork(w.e.design, w.node)
	return err
}

// armLocked has the machine start the agent over the network while that is recorded and no agent
// has called, and at no other time. All of it follows from the records: a daemon that was started
// since arms the same boot, unless it has another ramdisk by now.
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

// armed says why the machine would not start the agent over the network, although it is to.
func (w *worker) armed() error {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	if w.unarmed == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", driver.ErrBusy, w.unarmed)
}

// startNoteLocked says what a person should know of a start of the agent beside the state of the
// node: somebody else has asked for it. Empty for nothing.
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
