// Package rollout decides which node may be changed when: bounds, needs, leaders,
// canaries, windows, failures, halts and queues. It is pure: facts and a step give
// a verdict. The engine's gates ask it about the machines as they are, and Forecast
// about the same machines as they are expected to be.
package rollout

import (
	"iter"
	"maps"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Facts are what is known of a site at one moment. The zero value knows of no node.
type Facts struct {
	// Site is the design in force.
	Site *site.Site
	Now  time.Time
	// Every is how often a machine is looked at, EveryInside its system. Each node's
	// ages are held against them.
	Every, EveryInside time.Duration
	// Rollout is the last rollout, which may have ended; nil before the first.
	Rollout *site.RolloutStatus
	Nodes   Nodes

	// What was counted of the nodes so far. Change keeps it up to date.
	tallies  map[group]*tally
	progress map[string]*progress
	leaders  map[string]string
	bounds   map[boundsOf][]*Bound
	known    map[Bound]*Bound
	windows  map[string]*opening
}

// Nodes gives the nodes of a site, also those that leave it.
type Nodes interface {
	// Node is nil where there is none of that name.
	Node(name string) *Node
	// All are all nodes, InRole those of a role; in any order.
	All() iter.Seq[*Node]
	InRole(role string) iter.Seq[*Node]
}

// Node is what is known of one node.
type Node struct {
	Design *site.Node
	// Leaving is set for a node that the design in force no longer has.
	Leaving bool

	// What is recorded: Quarantined by a person; Settled once it was in-sync;
	// WasHealthy once its system was healthy since it was installed, EverHealthy once
	// any system of its machine was; Disrupted from its
	// first step that takes it out of service until it is back; InHand when a step of
	// it was taken in the rollout under way; Paused by a person or the design.
	Quarantined, Settled, WasHealthy, EverHealthy, Disrupted, InHand, Paused bool
	// Disrupts is set while a step of ours may have the machine out of service.
	Disrupts bool
	// Busy is set while a step is under way or an installation is.
	Busy bool

	// What was seen: whether it was looked at since the daemon started, and whether
	// the last look, and the last look inside, failed. Ages count from the last looks
	// that did not.
	Seen, Blind, BlindInside bool
	Age, AgeInside           time.Duration
	// Power is "on", "off" or empty while it is unknown.
	Power string
	// Probes is what the probes of its role said last.
	Probes site.SystemHealth

	// Phase is the first phase in which its plan has something left to do; empty for
	// none. Outdated is set while the plan is of an earlier design.
	Phase    string
	Outdated bool

	// State is how its last turn ended, and since when it is so. Person says that
	// nothing goes on without one. Fresh is set when it is about to be tried afresh.
	State         site.State
	Since         time.Time
	Person, Fresh bool
	// WaitsForTime and WaitsForPlace are what it is held by.
	WaitsForTime, WaitsForPlace bool
	// Part is its part in the rollout. Spent is for how long it was worked on in it,
	// and Patience how long that may take.
	Part            Part
	Spent, Patience time.Duration
}

// Name is the node's.
func (n *Node) Name() string { return n.Design.Name }

// inUse says whether the node counts: the design has it, and uses it.
func (f *Facts) inUse(n *Node) bool { return !n.Leaving && f.Site.Unused(n.Design) == "" }

// role is the role of a node; nil for none.
func (f *Facts) role(n *Node) *site.Role { return f.Site.Roles[n.Design.Role] }

// Change changes what is known of a node, and all that was counted with it.
func (f *Facts) Change(n *Node, change func()) {
	share, through := f.shareOf(n), f.through(n)
	change()
	now, further := f.shareOf(n), f.through(n)
	for _, g := range [...]group{{}, {rack, n.Design.Rack}, {role, n.Design.Role}} {
		if t := f.tallies[g]; t != nil && share != now {
			t.add(share, -1)
			t.add(now, 1)
		}
	}
	if p := f.progress[n.Design.Role]; p != nil && through != further {
		p.add(through, -1)
		p.add(further, 1)
	}
}

// ByName are nodes in a map.
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
