package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/incident"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// release ends a quarantine. A node under an incident takes the incident's name: whoever releases
// it has to know what has not been done. The quarantine ends with the last incident of the node.
func (e *Engine) release(ctx context.Context, w *worker, o site.Order) (string, error) {
	e.handling.Lock()
	defer e.handling.Unlock()
	under := e.incidentsOf(w, o.Node)
	named := slices.DeleteFunc(slices.Clone(under), func(i site.IncidentState) bool { return i.Name != o.Incident })
	switch {
	case o.Node == "" && len(under) > 0:
		return "", fmt.Errorf("%w: %s is not over, so nothing was released; release each node by its name, with `--incident NAME` where one has it", site.ErrRefused, incidentNames(under))
	case o.Incident != "" && len(under) == 0:
		return "", fmt.Errorf("%w: no incident %s holds this node; if it is still under quarantine, run `slipway release %s`", site.ErrRefused, site.Printable(o.Incident), o.Node)
	case len(under) > 0 && len(named) == 0:
		first, _ := e.judgedIncident(under[0].ID)
		return "", fmt.Errorf("%w: %s is part of %s, and what could be read there may still be known: %s %s If people have done what has to be done, run `slipway release %s --incident %s`",
			site.ErrRefused, o.Node, incidentNames(under), say.Count(first.ToReplace(), "secret"), "to replace, and "+strings.Join(site.IncidentLeftOver, " "), o.Node, first.Name)
	}
	if err := e.endIncidents(ctx, named, w, o); err != nil {
		return "", err
	}
	if rest := e.incidentsOf(w, o.Node); o.Node != "" && len(rest) > 0 {
		if w != nil && ownHold(w) == nil {
			if err := e.holdAll(ctx, []*worker{w}, holdOf(&rest[0])); err != nil {
				return "", fmt.Errorf("incident %s no longer holds %s, and %s does, which could not be recorded: %w", o.Incident, o.Node, incidentNames(rest), err)
			}
		}
		return fmt.Sprintf("ended the part of %s in incident %s; it stays under quarantine, because %s holds it", o.Node, o.Incident, incidentNames(rest)) + e.notClear(named), nil
	}
	if o.Node != "" && w == nil {
		return fmt.Sprintf("ended the part of %s in incident %s; the design has no such node, so Slipway touches no machine", o.Node, o.Incident) + e.notClear(named), nil
	}
	if w != nil && len(named) > 0 {
		if own := ownHold(w); own != nil {
			return fmt.Sprintf("ended the part of %s in incident %s; it stays under quarantine, because %s ordered that apart from the incident: %s. To end it too, run `%s`", o.Node, o.Incident, own.By, own.Reason, own.Release(o.Node)) + e.notClear(named), nil
		}
	}
	done, err := e.hold(ctx, w, o)
	if err != nil {
		if len(named) > 0 {
			err = fmt.Errorf("incident %s no longer holds %s, but it is still under quarantine; run `slipway release %[2]s`: %[3]w", o.Incident, o.Node, err)
		}
		return "", err
	}
	return done + e.notClear(named), nil
}

// notClear names those of some incidents that a release has left without nodes, and whose secrets are not all known to
// be replaced.
func (e *Engine) notClear(those []site.IncidentState) (text string) {
	for _, i := range those {
		if i, _ := e.judgedIncident(i.ID); i.IsReleased() && !incident.AllClear(&i, i.Exposed) && !i.IsOver() {
			text += fmt.Sprintf(". Incident %s is %s. `slipway incident %[1]s` says what is left", i.Name, i.Verdict())
		}
	}
	return text
}

// ownHold is the quarantine of a node that a person ordered apart from incidents; nil for none.
func ownHold(w *worker) *site.Hold {
	if q := w.job().memory.Recorded.Quarantined; q != nil && q.Incident == "" {
		return q
	}
	return nil
}

// endIncidents records that a person released a node from some incidents. It comes before the end of
// the quarantine: what nobody released is put under it again.
func (e *Engine) endIncidents(ctx context.Context, those []site.IncidentState, w *worker, o site.Order) error {
	for _, i := range those {
		names, now := e.endedBy(&i, w, o.Node)
		if len(names) == 0 {
			return fmt.Errorf("%w: the machine that %s had in incident %s is that of node %s now, and it stays under quarantine. If people have done what has to be done, run `slipway release %[4]s --incident %[3]s`", site.ErrRefused, o.Node, i.Name, now)
		}
		i.Nodes = maps.Clone(i.Nodes)
		for _, name := range names {
			n := i.Nodes[name]
			n.Released, n.ReleasedBy = time.Now(), o.By
			i.Nodes[name] = n
		}
		if err := e.putIncident(ctx, i); err != nil {
			return fmt.Errorf("%s was not released: %w", o.Node, err)
		}
	}
	return nil
}

// endedBy are the entries of an incident that the release of a node ends. An entry stands for its machine
// too: while another node has that machine, only the release of that node, now, ends it.
func (e *Engine) endedBy(i *site.IncidentState, w *worker, node string) (names []string, now string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	names = []string{node}
	if w != nil {
		names = heldBy(i, w.node)
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		other := e.hasMachineLocked(i.Nodes[name].Machine, node)
		now = cmp.Or(other, now)
		return other != ""
	})
	return names, now
}

// hasMachineLocked is the node of the design that has a machine, when that is another one than the node
// of the name given; empty if that node has it itself, or nobody.
func (e *Engine) hasMachineLocked(machine site.Identity, than string) string {
	if w := e.workers[than]; w != nil && !w.leaving && machine.IsThatOf(w.node.Machine()) {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(e.workers)) {
		if w := e.workers[name]; name != than && !w.leaving && machine.IsThatOf(w.node.Machine()) {
			return name
		}
	}
	return ""
}

// incidentsOf are the incidents that hold a node, or any node without a name, latest first. The
// worker is nil for a node that has left.
func (e *Engine) incidentsOf(w *worker, name string) (all []site.IncidentState) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, i := range e.incidents {
		if i.IsActive() && (name == "" || slices.Contains(i.Unreleased(), name) || w != nil && len(heldBy(&i, w.node)) > 0) {
			all = append(all, i)
		}
	}
	sortIncidents(all)
	return all
}
