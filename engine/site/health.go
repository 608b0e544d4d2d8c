package site

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
)

// Health is what the systems of a role's nodes must be before they count as in
// service. It is looked at from inside, by probes.
type Health struct {
	// Units are units of systemd that are active.
	Units []string `json:"units,omitempty"`
	// Ports are TCP ports that answer on the node itself.
	Ports []int `json:"ports,omitempty"`
	// HTTP are requests that the node itself answers.
	HTTP map[string]HealthHTTP `json:"http,omitempty"`
	// Command is a program of the site's with its arguments that ends with 0. It
	// runs as the user nobody.
	Command []string `json:"command,omitempty"`
	// Timeout is how long a node may take to become healthy after a change; empty is
	// DefaultHealthTimeout.
	Timeout Duration `json:"timeout,omitempty"`
}

// DefaultHealthTimeout is how long a node may take to become healthy.
const DefaultHealthTimeout = 10 * time.Minute

// HealthHTTP is one request.
type HealthHTTP struct {
	Port int `json:"port"`
	// Path is "/" where it is empty, and Status 200 where it is 0.
	Path   string `json:"path,omitempty"`
	Status int    `json:"status,omitempty"`
	// Host is the name that is asked for; empty is "localhost".
	Host string `json:"host,omitempty"`
}

// Probes are what is asked of a system, in order: the units, then the ports, then
// the requests by name, and last the command. They are none for nil.
func (h *Health) Probes() []item.Probe {
	if h == nil {
		return nil
	}
	var all []item.Probe
	for _, name := range h.Units {
		all = append(all, item.UnitProbe(name))
	}
	for _, port := range h.Ports {
		all = append(all, item.PortProbe(port))
	}
	for _, name := range slices.Sorted(maps.Keys(h.HTTP)) {
		r := h.HTTP[name]
		all = append(all, item.HTTPProbe(r.Port, r.Host, cmp.Or(r.Path, "/"), cmp.Or(r.Status, 200)))
	}
	if len(h.Command) > 0 {
		all = append(all, item.CommandProbe(h.Command))
	}
	return all
}

// Wait is how long a node may take to become healthy after a change.
func (h *Health) Wait() time.Duration {
	if h == nil {
		return DefaultHealthTimeout
	}
	return cmp.Or(time.Duration(h.Timeout), DefaultHealthTimeout)
}

// Health is what the node's system must be to count as in service; nil for nothing,
// as where the machine is to be off or to leave.
func (n *Node) Health() *Health {
	if h := n.References.Health; n.Power != "off" && !n.Decommission && h.Asks() {
		return h
	}
	return nil
}

// Asks says whether it asks for anything; nil does not.
func (h *Health) Asks() bool {
	return h != nil && len(h.Units)+len(h.Ports)+len(h.HTTP)+len(h.Command) > 0
}

// Probes are what is asked of the node's system to know its health; false for
// nothing.
func (n *Node) Probes() (item.Probes, bool) {
	h := n.Health()
	if h == nil {
		return item.Probes{}, false
	}
	p := item.Probes{Probes: h.Probes()}
	for _, network := range slices.Sorted(maps.Keys(n.Addresses)) {
		if a, err := netip.ParseAddr(n.Addresses[network]); err == nil && !n.BootsOnly(network) {
			p.Addresses = append(p.Addresses, a.String())
		}
	}
	return p, true
}

// HealthState is how the system of a node is.
type HealthState string

// The states. What nobody could look at is unknown: neither healthy nor not.
const (
	Healthy       HealthState = "healthy"
	Unhealthy     HealthState = "unhealthy"
	HealthUnknown HealthState = "unknown"
)

// HealthStates are all of them.
var HealthStates = []HealthState{Healthy, Unhealthy, HealthUnknown}

// SystemHealth is how the system of a node is, by the probes of its role. It is zero
// where the design asks for none.
type SystemHealth struct {
	State HealthState `json:"state"`
	// Why is the first probe that fails, or why it is unknown, in words; empty for a
	// healthy one.
	Why string `json:"why,omitempty"`
}

// IsFit says whether nothing of its health keeps a system from being in service.
func (h SystemHealth) IsFit() bool { return h.State == "" || h.State == Healthy }

// String is the state and why.
func (h SystemHealth) String() string {
	if h.Why == "" {
		return string(h.State)
	}
	return fmt.Sprintf("%s: %s", h.State, h.Why)
}

// HealthSeen is what a facet's state says of the node's health, where the drivers
// serve some facets. All probes have to pass. It does not ask how long ago that was.
func (n *Node) HealthSeen(seen FacetState, serves map[Facet]bool) SystemHealth {
	h := n.Health()
	if h == nil {
		return SystemHealth{}
	}
	if _, reachable := n.Endpoints[OS]; !reachable {
		return SystemHealth{HealthUnknown, "Slipway cannot look at it: the design has no endpoint os for the node"}
	}
	if !serves[FacetProbes] {
		return SystemHealth{HealthUnknown, "Slipway cannot look at it: the daemon runs without helpers (--agents)"}
	}
	var fails, unread []string
	for _, p := range h.Probes() {
		said, told := seen.Have[p.Key]
		switch {
		case told && said == item.Passed:
		case told:
			fails = append(fails, said)
		default:
			unread = append(unread, cmp.Or(seen.Unread[p.Key], p.Key+" was not looked at yet"))
		}
	}
	switch {
	case len(fails) > 0:
		return SystemHealth{Unhealthy, firstOf(fails)}
	case len(unread) > 0:
		return SystemHealth{HealthUnknown, firstOf(unread)}
	}
	return SystemHealth{State: Healthy}
}

// firstOf is the first of some sentences, and how many more there are.
func firstOf(all []string) string {
	if more := len(all) - 1; more > 0 {
		return fmt.Sprintf("%s, and %d more", all[0], more)
	}
	return all[0]
}

// HasLost says whether a system that was healthy since it was installed is not known
// to be so now: the node is out of service.
func (r Recorded) HasLost(h SystemHealth) bool { return !r.Healthy.IsZero() && !h.IsFit() }
