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

// Health is what the system of a role's node must pass to count as in service.
// Probes check it from inside.
type Health struct {
	// Units are systemd units that must be active.
	Units []string `json:"units,omitempty"`
	// Ports are TCP ports that must answer on the node itself.
	Ports []int `json:"ports,omitempty"`
	// HTTP are requests that the node itself must answer.
	HTTP map[string]HealthHTTP `json:"http,omitempty"`
	// Command is a program of the site, with arguments, that must exit with 0.
	// It runs as the user nobody.
	Command []string `json:"command,omitempty"`
	// Timeout is how long a node may take to become healthy after a change; 0 means
	// defaultHealthTimeout.
	Timeout Duration `json:"timeout,omitempty"`
}

// defaultHealthTimeout is how long a node may take to become healthy if the design does not say.
const defaultHealthTimeout = 10 * time.Minute

// HealthHTTP is one HTTP request.
type HealthHTTP struct {
	Port int `json:"port"`
	// Path defaults to "/", Status to 200.
	Path   string `json:"path,omitempty"`
	Status int    `json:"status,omitempty"`
	// Host is the host name in the request, "localhost" by default.
	Host string `json:"host,omitempty"`
}

// Probes returns the probes in order: the units, the ports, the requests by name,
// and the command. A nil Health has none.
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

// Wait returns how long a node may take to become healthy after a change.
func (h *Health) Wait() time.Duration {
	if h == nil {
		return defaultHealthTimeout
	}
	return cmp.Or(time.Duration(h.Timeout), defaultHealthTimeout)
}

// Health returns what the node's system must pass to count as in service. It is nil
// if nothing is asked, as when the machine is to be off or to leave.
func (n *Node) Health() *Health {
	if h := n.References.Health; n.Power != "off" && !n.Decommission && h.Asks() {
		return h
	}
	return nil
}

// Asks reports whether h asks for anything; nil asks for nothing.
func (h *Health) Asks() bool {
	return h != nil && len(h.Units)+len(h.Ports)+len(h.HTTP)+len(h.Command) > 0
}

// Probes returns the probes of the node's system; false if there are none.
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

// HealthState is the health of a node's system.
type HealthState string

// The health states. Unknown means that nobody could look: neither healthy nor unhealthy.
const (
	Healthy       HealthState = "healthy"
	Unhealthy     HealthState = "unhealthy"
	HealthUnknown HealthState = "unknown"
)

// HealthStates are all states.
var HealthStates = []HealthState{Healthy, Unhealthy, HealthUnknown}

// SystemHealth is the health of a node's system by the probes of its role. It is
// zero if the design asks for no probes.
type SystemHealth struct {
	State HealthState `json:"state"`
	// Why is the first failed probe, or why the health is unknown; empty for a
	// healthy system.
	Why string `json:"why,omitempty"`
}

// IsFit reports whether the system's health permits it to be in service.
func (h SystemHealth) IsFit() bool { return h.State == "" || h.State == Healthy }

// String returns the state and the reason.
func (h SystemHealth) String() string {
	if h.Why == "" {
		return string(h.State)
	}
	return fmt.Sprintf("%s: %s", h.State, h.Why)
}

// HealthSeen returns the health that a facet's state shows, given the facets that
// drivers serve. All probes have to pass. The age of the observation is ignored.
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

// firstOf returns the first sentence and how many more there are.
func firstOf(all []string) string {
	if more := len(all) - 1; more > 0 {
		return fmt.Sprintf("%s, and %d more", all[0], more)
	}
	return all[0]
}
