package site

// Urgency is how much a node needs a person to look at it.
type Urgency int

// The urgencies, the least first.
const (
	Calm        Urgency = iota // it is in-sync, and nothing is known to be wrong
	Moving                     // it is in progress, or paused by a person
	Ailing                     // its hardware, system or links are not well
	Stuck                      // it waits, retries or is not known
	Broken                     // it cannot go on, or is another machine
	NeedsPerson                // it waits for what only a person can do
)

// Urgency is the one rule of which nodes need a look. Each has the highest that applies.
func (n *NodeStatus) Urgency() Urgency {
	if n.NeedsPerson() {
		return NeedsPerson
	}
	switch n.State {
	case Stalled, Foreign:
		return Broken
	case Unknown, Retrying, Blocked:
		return Stuck
	}
	switch {
	case len(n.Ailments()) > 0:
		return Ailing
	case n.State != InSync:
		return Moving
	}
	return Calm
}

// IsHardwareUnwell reports whether the machine says that its hardware is not well. A machine that says
// nothing is not.
func (n *NodeStatus) IsHardwareUnwell() bool { return isUnwell(n.Health) }

// IsUnwell reports whether the machine says that the part is not well.
func (p Part) IsUnwell() bool { return isUnwell(p.Health) }

// isUnwell judges a health as Redfish has it (Status.Health). Empty means that nothing was said.
func isUnwell(health string) bool { return health != "" && health != "OK" }

// Ailments are what is wrong with a node although its state does not say it, each in a few words with texts of others.
func (n *NodeStatus) Ailments() (all []string) {
	if n.Service == ServiceSilent {
		all = append(all, "its system does not answer")
	}
	switch {
	case n.IsHardwareUnwell() && !n.AsOf.IsZero():
		all = append(all, "its hardware health was "+n.Health+" when it was last seen")
	case n.IsHardwareUnwell():
		all = append(all, "its hardware health is "+n.Health)
	}
	if !n.SystemHealth.IsFit() {
		all = append(all, "its system health is "+n.SystemHealth.String())
	}
	if n.Links.State == LinksDiffer {
		all = append(all, "its links differ: "+n.Links.Why)
	}
	return all
}
