// Package rollout decides which node may be changed when: bounds, needs, leaders,
// canaries, windows, failures, halts and queues. It is pure: it turns facts and a
// step into a verdict. The engine's gates ask it about the machines as they are, and
// Forecast asks it about the machines as they are expected to be.
package rollout

import (
	"iter"
	"maps"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Facts is what is known of a site at one moment. The zero value knows no nodes.
type Facts struct {
	// Site is the design in force.
	Site *site.Site
	Now  time.Time
	// Every is how often Slipway looks at a machine, and EveryInside how often at its
	// system. The rules compare each node's ages with them.
	Every, EveryInside time.Duration
	// Rollout is the last rollout, which may have ended; nil before the first.
	Rollout *site.RolloutStatus
	Nodes   Nodes

	// Cached counts of the nodes. Change keeps them up to date.
	groups   groups
	progress map[string]*progress
	leaders  map[string]string
	windows  map[string]*opening
	guests   map[string][]*Node // by the name of the node that they are placed on; nil before they were looked for
}

// Nodes gives access to the nodes of a site, including those that are leaving it.
type Nodes interface {
	// Node returns the node of that name, or nil.
	Node(name string) *Node
	// All yields all nodes, InRole those of a role; in any order.
	All() iter.Seq[*Node]
	InRole(role string) iter.Seq[*Node]
}

// Node is what is known of one node.
type Node struct {
	Design *site.Node
	// Leaving is set if the design in force no longer has the node.
	Leaving bool

	// What is recorded. Quarantined: by a person. Settled: it was in-sync once.
	// WasHealthy: its system was healthy since it was installed. EverHealthy: any
	// system of its machine was. Disrupted: from its first step that takes it out of
	// service until it is back. InHand: one of its steps was taken in the rollout
	// under way. Paused: by a person or the design, or by an incident that waits.
	Quarantined, Settled, WasHealthy, EverHealthy, Disrupted, InHand, Paused bool
	// Disrupts is set while one of Slipway's steps may have the machine out of
	// service.
	Disrupts bool
	// Rotates is set if its plan replaces derived passwords of its BMC.
	Rotates bool
	// Accounts is what is recorded of the passwords of accounts of its BMC.
	Accounts map[string]site.AccountUse
	// Busy is set while a step or an installation is under way.
	Busy bool

	// What was seen. Seen: Slipway has looked at it since the daemon started. Blind
	// and BlindInside: the last look, or the last look inside, failed. Ages count
	// from the last successful looks.
	Seen, Blind, BlindInside bool
	Age, AgeInside           time.Duration
	// Power is "on", "off", or empty while unknown.
	Power string
	// Probes is the last result of its role's probes.
	Probes site.SystemHealth

	// Phase is the first phase in which its plan has something left to do; empty for
	// none. Outdated is set until a reconcile has used the node's present design.
	Phase    string
	Outdated bool
	// Unplanned is set while the first look after a time in which nothing certain was known is in no plan yet.
	Unplanned bool

	// State is how its last reconcile ended, and Since when that state began. Person
	// is set if nothing happens without a person. Fresh is set if it is about to be
	// retried from a fresh start.
	State         site.State
	Since         time.Time
	Person, Fresh bool
	// WaitsForTime and WaitsForPlace say what holds it.
	WaitsForTime, WaitsForPlace bool
	// Part is its part in the rollout. Spent is how long it was worked on there, and
	// Patience how long that may take.
	Part            Part
	Spent, Patience time.Duration

	// What the design says of the node, for nodes that live as long as their facts, as those of a simulation do.
	// Otherwise it is looked up at each question.
	role   *site.Role
	groups [role + 1]*group
}

// Name returns the node's name.
func (n *Node) Name() string { return n.Design.Name }

// inUse reports whether the node counts: the design has it and uses it.
func (f *Facts) inUse(n *Node) bool { return !n.Leaving && f.isUsed(n) }

// isUsed reports whether the design uses the node. The machine of a node that is leaving may still be designed so.
func (f *Facts) isUsed(n *Node) bool { return n.Design.UnusedIn(f.role(n)) == "" }

// role returns the node's role, or nil.
func (f *Facts) role(n *Node) *site.Role {
	if n.role != nil {
		return n.role
	}
	return f.Site.Roles[n.Design.Role]
}

// few is how many nodes go down with one, and it, before room for them is allocated.
const few = 4

// Change changes what is known of a node, and updates all cached counts.
func (f *Facts) Change(n *Node, change func()) {
	with := append(append(make([]*Node, 0, few), n), f.guestsOf(n)...)
	shares := make([]share, 0, few)
	for _, x := range with {
		shares = append(shares, f.shareOf(x))
	}
	p, before := f.progress[n.Design.Role], 0
	if p != nil {
		before = f.through(n)
	}
	change()
	for i, x := range with {
		now := f.shareOf(x)
		if shares[i] == now {
			continue
		}
		for _, g := range f.groupsOf(x) {
			if g.counted {
				g.count.add(shares[i], -1)
				g.count.add(now, 1)
			}
		}
	}
	if p != nil {
		p.add(before, -1)
		p.add(f.through(n), 1)
	}
}

// ByName is a map of nodes by name.
type ByName map[string]*Node

// Node implements Nodes.
func (all ByName) Node(name string) *Node { return all[name] }

// All implements Nodes.
func (all ByName) All() iter.Seq[*Node] { return maps.Values(all) }

// InRole implements Nodes.
func (all ByName) InRole(role string) iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		for _, n := range all {
			if n.Design.Role == role && !yield(n) {
				return
			}
		}
	}
}
