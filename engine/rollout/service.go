package rollout

import "github.com/slipway-gitops/slipway/engine/site"

// IsOut reports whether a machine is out of service, or must be assumed to be. That
// is so if a step of Slipway has it, a person keeps it off, it cannot be seen, or it
// is off although the design wants it on. A machine not looked at yet, or whose last
// look failed, cannot be seen, even if it never served. A machine that is seen and
// was never in service as designed does not count as out: a new machine may wait for
// others that wait for places.
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

// Health returns the health of a node's system, as far as it is known now. A result
// from too long ago, or from before a failed look, is unknown. It is zero if the
// node's role asks for no health.
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

// HasLostHealth reports whether a node's system was healthy and is not known to be
// healthy now.
func (f *Facts) HasLostHealth(n *Node) bool { return n.WasHealthy && !f.Health(n).IsFit() }

// IsLacking reports whether others miss a node: its machine is out of service, or its
// system has lost its health.
func (f *Facts) IsLacking(n *Node) bool { return n.IsOut() || f.HasLostHealth(n) }

// IsCertain reports whether the last observation of a node counts: it is fresh,
// complete and of the design in force, and no person holds the node.
func (f *Facts) IsCertain(n *Node) bool {
	_, hasOS := n.Design.Endpoints[site.OS]
	return n.Seen && !n.Blind && !n.Outdated && !n.Unplanned && !n.Quarantined && !n.Paused && !n.Design.Decommission &&
		n.Age < 3*f.Every+someTime &&
		(!hasOS || !n.BlindInside && n.AgeInside < 2*f.EveryInside+f.Every) &&
		n.Power != "off"
}

// MayStepAside reports whether a held node may give back its place: its machine is
// known to be in service and nothing is under way on it, so others may use the place.
// If its role asks for health and a system of the machine was ever healthy, the
// present system must be healthy, even if installed since. A machine that never was
// healthy is not missed.
func (f *Facts) MayStepAside(n *Node) bool {
	return !n.Busy && f.IsCertain(n) && (!n.EverHealthy || f.Health(n).IsFit())
}
