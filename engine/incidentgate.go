package engine

import (
	"fmt"
	"maps"
	"slices"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// incidentGate keeps what is new of secrets from the nodes of an incident that nobody has confirmed: whoever has their
// machines would read it before these are off. A commit may have both, the incident and the epoch of the next passwords.
// Logins go on, since by them Slipway switches the machines off.
func (e *Engine) incidentGate(w *worker, s site.Step) *held {
	if s.Action != site.ActionAccounts && s.Action != site.ActionInstall && !site.IsInside(s.Facet) {
		return nil
	}
	i := e.unconfirmedLocked(w.node)
	if i == nil {
		return nil
	}
	return &held{state: site.Blocked, person: true, release: "`" + i.Confirm() + "`",
		sentence: fmt.Sprintf("incident %s says that the machine was compromised, and waits for `%s`: until then Slipway gives it no new secret, so %s waits too", i.Name, i.Confirm(), s.Action)}
}

// unconfirmedLocked is an incident that waits for a person and is about a node, or the hypervisor of its machine; nil for
// none.
func (e *Engine) unconfirmedLocked(n *site.Node) *site.IncidentState {
	if e.design == nil || len(e.design.Incidents)+len(e.incidents) == 0 {
		return nil
	}
	about := func(i *site.IncidentState) bool {
		h := e.design.Hypervisors[n.Virtual.Host.Hypervisor]
		for _, name := range i.Incident.Nodes {
			if name == n.Name || i.Machines[name].IsThatOf(n.Machine()) || n.IsVirtual() && h != nil && h.Node == name {
				return true
			}
		}
		return false
	}
	for _, name := range slices.Sorted(maps.Keys(e.design.Incidents)) { // also before it is recorded
		in := e.design.Incidents[name]
		i, known := e.incidents[in.ID(name)]
		if !known {
			i = site.IncidentState{Name: name, ID: in.ID(name), Incident: in}
		}
		if i.Acted.IsZero() && about(&i) {
			return &i
		}
	}
	for _, id := range slices.Sorted(maps.Keys(e.incidents)) {
		if i := e.incidents[id]; i.Acted.IsZero() && e.staleLocked(&i) == "" && about(&i) {
			return &i
		}
	}
	return nil
}

// keptBack says why a node is not given a value that it did not have yet, or returns nil. It is for steps that were under way
// when an incident came: a source may have its next value by then.
func (w *worker) keptBack(is site.Delivery) error {
	had := w.e.deliveriesOf(w.name).is.Load()
	if is.As == site.AsLogin || !is.Seen.IsZero() || had != nil && is.Version != "" && slices.ContainsFunc(had.Given, func(g site.Delivery) bool { return g.Secret == is.Secret && g.Version == is.Version }) {
		return nil
	}
	if i := w.e.unconfirmed(w.name); i != nil {
		return fmt.Errorf("%w: %s was not sent to %s: incident %s says that the machine was compromised, and waits for `%s`", driver.ErrInterrupted, is.Secret, w.name, i.Name, i.Confirm())
	}
	return nil
}

// unconfirmed is unconfirmedLocked for the node of a name by the design in force.
func (e *Engine) unconfirmed(node string) *site.IncidentState {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w := e.workers[node]; w != nil {
		return e.unconfirmedLocked(w.node)
	}
	return nil
}
