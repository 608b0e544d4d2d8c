package engine

import (
	"cmp"
	"fmt"
	"maps"
	"time"

	"github.com/slipway-gitops/slipway/engine/incident"
	"github.com/slipway-gitops/slipway/engine/site"
)

// seenOff are the incidents of which more machines were seen off, noted in them.
func (e *Engine) seenOff() (all []site.IncidentState) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, i := range e.incidents {
		if nodes, more := e.seenOffLocked(i); more {
			i.Nodes = nodes
			all = append(all, i)
		}
	}
	return all
}

func (e *Engine) seenOffLocked(i site.IncidentState) (nodes map[string]site.IncidentNode, more bool) {
	nodes = maps.Clone(i.Nodes)
	for name, n := range i.Nodes {
		w := e.workerOfLocked(name, n)
		if w == nil || !n.Off.IsZero() || !n.Released.IsZero() || !w.isThere() {
			continue
		}
		if p := w.memory.Observed.Facets[site.FacetPower]; p.Have["state"] == "off" && p.Pending["state"] != "on" && p.Seen.After(i.Acted) {
			n.Off = p.Seen
			nodes[name], more = n, true
		}
	}
	return nodes, more
}

// isThere reports whether the machine that answered last is that of the node's design.
func (w *worker) isThere() bool {
	designed, seen := w.node.Machine(), w.memory.Observed.Identity
	return designed.Known() && seen.Known() && designed.Matches(seen)
}

// workerOfLocked is the worker of the node that has the machine of an entry of an incident now; nil if no
// node has. An entry without a machine stands for its name.
func (e *Engine) workerOfLocked(name string, n site.IncidentNode) *worker {
	if w := e.workers[e.hasMachineLocked(n.Machine, name)]; w != nil {
		return w
	}
	if w := e.workers[name]; w != nil && (!n.Machine.Known() || w.node.Machine() == n.Machine || n.Machine.IsThatOf(w.node.Machine())) {
		return w
	}
	return nil
}

// incidentsLocked are the incidents as the status has them.
func (e *Engine) incidentsLocked() (all []site.IncidentState) {
	for _, i := range e.incidents {
		if e.design != nil {
			i.Removed = !e.designsLocked(&i)
			if i.Acted.IsZero() {
				i.Waits = e.waitsLocked(&i)
				i.Exposed = incident.Exposed(e.design, i.Incident.Nodes, e.secretFactsLocked())
			}
			i.Exposed = e.judgedLastLocked(&i)
		}
		i.Exposed = withoutVersions(i.Exposed)
		i.Nodes = maps.Clone(i.Nodes)
		for name, n := range i.Nodes {
			n.Power, n.StaysOff = e.powerOfLocked(name, n)
			i.Nodes[name] = n
		}
		all = append(all, i)
	}
	sortIncidents(all)
	return all
}

// powerOfLocked says what is known of the power of a node of an incident, and whether it is off now.
func (e *Engine) powerOfLocked(name string, n site.IncidentNode) (says string, isOff bool) {
	w := e.workerOfLocked(name, n)
	off := "not proven off"
	if !n.Off.IsZero() {
		off = "power seen off at " + n.Off.UTC().Format(time.RFC3339)
	}
	switch {
	case !n.Released.IsZero():
		return fmt.Sprintf("%s; released at %s by %s", off, n.Released.UTC().Format(time.RFC3339), n.ReleasedBy), false
	case w == nil && e.workers[name] != nil:
		return off + "; the node has another machine now, and no node has this one (" + n.Machine.Full() + "): check it by hand", false
	case w == nil:
		return off + "; the node has left the design, and Slipway does not reach its machine: check it by hand", false
	}
	if w.name != name {
		off += " (its machine is that of node " + w.name + " now)"
	}
	p, seen := w.memory.Observed.Facets[site.FacetPower], w.memory.Observed.Seen()
	switch {
	case !w.node.Machine().Known():
		return off + ": " + noMachine + ": switch it off by hand", false
	case w.blind && seen.IsZero():
		return off + ": the BMC has never answered: " + w.status.Reason, false
	case w.blind:
		return fmt.Sprintf("%s: the BMC does not answer since %s: %s", off, seen.UTC().Format(time.RFC3339), w.status.Reason), false
	case n.Off.IsZero():
		return off + " yet: " + cmp.Or(w.status.Reason, "the machine was not looked at since"), false
	case p.Have["state"] != "off":
		return fmt.Sprintf("%s, and %s again since: Slipway switches it off again", off, cmp.Or(p.Have["state"], "unknown")), false
	}
	return off, true
}
