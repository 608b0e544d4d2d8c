package site

import (
	"cmp"
	"slices"
)

// Role is what a group of nodes does, and what it needs first.
type Role struct {
	Description string `json:"description,omitempty"`
	Enabled     bool   `json:"enabled"`
	// Phases are the phases that its nodes go through, in order.
	Phases []string `json:"phases,omitempty"`
	// Needs are what a phase waits for, by the waiting phase and the role that
	// it waits for.
	Needs map[string]map[string]Need `json:"needs,omitempty"`
	// LeaderFirst means that one node goes through all phases before the
	// others: Leader or, if that is empty, the first by name.
	LeaderFirst bool   `json:"leaderFirst,omitempty"`
	Leader      string `json:"leader,omitempty"`
	Minimum     int    `json:"minimum,omitempty"`
	Majority    bool   `json:"majority,omitempty"`
	// MaxUnavailable limits how many of its nodes may be out of service at
	// once, in addition to the site's limit: a count or a percentage; empty for
	// no limit. A role with Majority never loses its majority.
	MaxUnavailable string `json:"maxUnavailable,omitempty"`
	// Health is what the systems of its nodes must pass to count as in service; nil
	// for nothing.
	Health *Health `json:"health,omitempty"`
	// Placement is how its virtual nodes are placed.
	Placement Placement `json:"placement,omitzero"`
}

// everyPhase lists the phases of a node without a role.
var everyPhase = []string{"base", "network", "install", "configure"}

// AllPhases returns the phases of a role in order. A nil role, or one without
// phases, has the default phases.
func (r *Role) AllPhases() []string {
	if r == nil || len(r.Phases) == 0 {
		return everyPhase
	}
	return r.Phases
}

// UnusedIn is Unused for a node whose role was looked up before; nil where the design has no such role.
func (n *Node) UnusedIn(r *Role) string {
	switch {
	case !n.InUse():
		return "the node is disabled"
	case r != nil && !r.Enabled:
		return "its role " + n.Role + " is disabled"
	case n.Away != "":
		return "the machine is away: " + n.Away
	}
	return ""
}

// PhaseOf returns the phase of the role that a facet belongs to.
func (r *Role) PhaseOf(f Facet) string {
	if p := Facets[f].Phase; p != "" && slices.Contains(r.AllPhases(), p) {
		return p
	}
	return r.AllPhases()[0]
}

// PhasesOf returns the phases of a role that have something to do, given the facets that
// drivers act on, in order. Each boot action names its own phase.
func (s *Site) PhasesOf(role string, facets map[Facet]bool) []string {
	r, does := s.Roles[role], map[string]bool{}
	for f, is := range facets {
		if is && !Facets[f].Once {
			does[r.PhaseOf(f)] = true
		}
	}
	if facets[FacetActions] {
		for _, n := range s.Nodes {
			for _, i := range n.Items(FacetActions) {
				if n.Role == role {
					does[n.PhaseOfItem(r, i.Key)] = true
				}
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(r.AllPhases()), func(phase string) bool { return !does[phase] })
}

// Need is what a phase waits for of another role: Quorum of its nodes must have
// gone through Phase.
type Need struct {
	Phase  string `json:"phase"`
	Quorum Quorum `json:"quorum"`
}

// Window is when something may be done: From to To on Days, or for Length from
// each time that Cron names.
type Window struct {
	// Days are the days on which the window begins ("mon"); empty means every day.
	Days []string `json:"days,omitempty"`
	// From and To are times of day ("22:00"); a To before From is on the next
	// day.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Cron has five fields, as crontab(5): "0 22 * * 1-5".
	Cron   string   `json:"cron,omitempty"`
	Length Duration `json:"length,omitempty"`
	// Overrun says what happens to a node that was begun when the window ends:
	// "finish" (the default) completes it, "stop" leaves it between two steps
	// until the next window.
	Overrun string `json:"overrun,omitempty"`
	// Zone is a time zone of tzdata; empty means "UTC".
	Zone string `json:"zone,omitempty"`
}

// Windows names the windows of steps by their impact. An empty name means no
// window for that impact.
type Windows struct {
	Online      string `json:"online,omitempty"`
	Reboot      string `json:"reboot,omitempty"`
	Destructive string `json:"destructive,omitempty"`
}

// WindowFor names the window in which steps of an impact may be taken; empty
// for any time.
func (n *Node) WindowFor(i Impact) string {
	switch i {
	case ImpactOnline:
		return n.Windows.Online
	case ImpactInterrupts, ImpactReboot:
		return cmp.Or(n.Windows.Reboot, n.Window)
	case ImpactDestructive:
		return cmp.Or(n.Windows.Destructive, n.Window)
	}
	return ""
}
