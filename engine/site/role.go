package site

import (
	"cmp"
	"slices"
)

// Role is what a group of nodes does, and what must be there before.
type Role struct {
	Description string `json:"description,omitempty"`
	Enabled     bool   `json:"enabled"`
	// Phases are what its nodes go through, in this order.
	Phases []string `json:"phases,omitempty"`
	// Needs are what a phase waits for: by the phase that waits and the role
	// that it waits for.
	Needs map[string]map[string]Need `json:"needs,omitempty"`
	// LeaderFirst says that one node goes through all phases before the
	// others: Leader or, without it, the first by name.
	LeaderFirst bool   `json:"leaderFirst,omitempty"`
	Leader      string `json:"leader,omitempty"`
	Minimum     int    `json:"minimum,omitempty"`
	Majority    bool   `json:"majority,omitempty"`
	// MaxUnavailable bounds how many of its nodes may be out of service at
	// once, beside the site's bound: a count or a share; empty for no bound of
	// its own. A role that decides by majority never loses it.
	MaxUnavailable string `json:"maxUnavailable,omitempty"`
	// Health is what the systems of its nodes must be to count as in service; nil for
	// nothing.
	Health *Health `json:"health,omitempty"`
	// Placement is how those of its nodes that are virtual are placed.
	Placement Placement `json:"placement,omitzero"`
}

// everyPhase is what a node without a role goes through.
var everyPhase = []string{"base", "network", "install", "configure"}

// AllPhases are the phases of a role in their order; the usual ones for no role,
// and for one that does not say.
func (r *Role) AllPhases() []string {
	if r == nil || len(r.Phases) == 0 {
		return everyPhase
	}
	return r.Phases
}

// PhaseOf is the phase of a role that a facet belongs to.
func (r *Role) PhaseOf(f Facet) string {
	if p := Facets[f].Phase; p != "" && slices.Contains(r.AllPhases(), p) {
		return p
	}
	return r.AllPhases()[0]
}

// PhasesOf are the phases of a role in which something is done where some facets are acted
// on, in their order. Each boot action has its own.
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

// Need is what a phase waits for of another role: that Quorum of its nodes have
// gone through Phase.
type Need struct {
	Phase  string `json:"phase"`
	Quorum Quorum `json:"quorum"`
}

// Window is when something may be done: From to To on Days, or for Length from
// each time that Cron names.
type Window struct {
	// Days are those on which it begins ("mon"); every day when empty.
	Days []string `json:"days,omitempty"`
	// From and To are times of day ("22:00"); a To before From is on the next
	// day.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Cron has five fields, as crontab(5): "0 22 * * 1-5".
	Cron   string   `json:"cron,omitempty"`
	Length Duration `json:"length,omitempty"`
	// Overrun says what becomes of a node that was begun when the window ends:
	// "finish" (also when empty) brings it to its end, "stop" leaves it
	// between two steps until the next one.
	Overrun string `json:"overrun,omitempty"`
	// Zone is a time zone of tzdata; "UTC" when empty.
	Zone string `json:"zone,omitempty"`
}

// Windows are the windows of steps by their impact, by name. An empty name is
// no window of its own.
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
