package rollout

import "github.com/slipway-gitops/slipway/engine/site"

// IsOut says whether a machine is, or has to be taken to be, out of service: a step
// of ours has it, a person keeps it off, it cannot be seen, or it is off though the
// design wants it on. A machine that was not looked at yet, or whose last look
// failed, cannot be seen, also one that never served. One that is seen and was never
// in service as designed is no outage: a new machine may wait for others that wait
// for places.
func (n *Node) IsOut() bool {
	switch {
	case n.Disrupts, n.Quarantined:
		return true
	case n.Design.Power == "off" || n.Design.Decommission:
		return false
	case !n.Seen || n.Blind:
		return true
	case !n.Settled:
		return false
	}
	return n.Design.Power == "on" && n.Power != "on"
}

// Health is how a node's system is, as far as that is known now: what was seen too
// long ago, or before a look that failed, is unknown. It is zero where its role asks
// for none.
func (f *Facts) Health(n *Node) site.SystemHealth {
	unknown := func(why string) site.SystemHealth {
		return site.SystemHealth{State: site.HealthUnknown, Why: why}
	}
	switch {
	case n.Probes.State != site.Healthy && n.Probes.State != site.Unhealthy:
		return n.Probes
	case n.Blind:
		return unknown("the machine does not answer")
	case n.Power == "off":
		return unknown("the machine is off")
	case n.BlindInside:
		return unknown("its system did not answer")
	case !n.Seen || n.AgeInside > 2*f.EveryInside+f.Every:
		return unknown("it was not looked at for too long")
	}
	return n.Probes
}

// HasLostHealth says whether a node's system was healthy and is not known to be so
// now.
func (f *Facts) HasLostHealth(n *Node) bool { return n.WasHealthy && !f.Health(n).IsFit() }

// IsLacking says whether a node is missing to others: its machine is out of service,
// or its system has lost its health.
func (f *Facts) IsLacking(n *Node) bool { return n.IsOut() || f.HasLostHealth(n) }

// IsCertain says whether what was last seen of a node counts: it is fresh, whole, of
// the design in force, and of a node that nobody holds.
func (f *Facts) IsCertain(n *Node) bool {
	_, hasOS := n.Design.Endpoints[site.OS]
	return n.Seen && !n.Blind && !n.Outdated && !n.Quarantined && !n.Paused && !n.Design.Decommission &&
		n.Age < 3*f.Every+someTime &&
		(!hasOS || !n.BlindInside && n.AgeInside < 2*f.EveryInside+f.Every) &&
		n.Power != "off"
}

// MayStepAside says whether a node that is held may give its place back: its machine
// is known to be in service and nothing is under way on it, so that others may wait
// for the place. Where its role asks for a health, a machine whose system was healthy
// once has to be healthy again, also when it was installed anew since: it is missed
// until then. One that never was healthy is missed by nobody.
func (f *Facts) MayStepAside(n *Node) bool {
	return !n.Busy && f.IsCertain(n) && (!n.EverHealthy || f.Health(n).IsFit())
}
