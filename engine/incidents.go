package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/incident"
	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// incidentsEvery is how often Slipway notes which nodes of incidents were seen off, and finishes what a
// restart or an error has interrupted.
const incidentsEvery = 2 * time.Second

// orderStands is how long an incident that a person ordered waits for its confirmation. After that it
// is forgotten.
const orderStands = 24 * time.Hour

// compromise carries out an order about an incident: it shows, confirms or begins one.
func (e *Engine) compromise(ctx context.Context, o site.Order) (string, error) {
	e.handling.Lock()
	defer e.handling.Unlock()
	switch {
	case o.End:
		return e.endIncident(ctx, o)
	case o.Digest != "":
		return e.confirmIncident(ctx, o)
	}
	i, err := e.ordered(o)
	if err != nil {
		return "", err
	}
	if o.DryRun {
		return strings.TrimSpace(incident.Text(&i)), nil
	}
	if len(i.Waits) > 0 {
		if err := e.putIncident(ctx, i); err != nil {
			return "", err
		}
		return fmt.Sprintf("nothing was switched off: incident %s waits for `%s`, because %s", i.Name, i.Confirm(), strings.Join(i.Waits, "; ")), nil
	}
	return e.act(ctx, i)
}

// ordered is the incident that a person orders.
func (e *Engine) ordered(o site.Order) (site.IncidentState, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	in := site.Incident{Nodes: o.Nodes, Since: o.CompromisedSince, Reason: o.Reason}
	i := site.IncidentState{Name: o.Incident, ID: in.ID(o.Incident), Incident: in, By: o.By, Found: time.Now(), Machines: e.machinesOfLocked(in.Nodes)}
	switch {
	case e.design == nil:
		return i, fmt.Errorf("%w: no design is in force yet, so Slipway knows no node to switch off", site.ErrRefused)
	case !site.IsIncidentName(o.Incident) || len(o.Nodes) == 0 || o.Reason == "":
		return i, fmt.Errorf("%w: an incident has a name of lower case letters, digits and hyphens, nodes and a reason", site.ErrRefused)
	case in.Since.After(i.Found.Add(10 * time.Minute)):
		return i, fmt.Errorf("%w: the machines cannot have been compromised since %s, which is in the future", site.ErrRefused, in.Since.UTC().Format(time.RFC3339))
	}
	for _, name := range o.Nodes {
		if e.workers[name] == nil {
			return i, fmt.Errorf("%w: site %s has no node %q; nothing was switched off", site.ErrNotFound, e.Site, name)
		}
	}
	if known, is := e.incidents[i.ID]; is && !known.Acted.IsZero() {
		return i, fmt.Errorf("%w: Slipway has acted on incident %s since %s; `slipway incident %[2]s` shows it", site.ErrRefused, o.Incident, known.Acted.UTC().Format(time.RFC3339))
	}
	for id, known := range e.incidents {
		if known.Name == o.Incident && id != i.ID {
			return i, fmt.Errorf("%w: there is an incident %s with other nodes or another time; give this one another name (--name)", site.ErrRefused, o.Incident)
		}
	}
	i.Waits = incident.Reasons(e.design, in, e.heldLatelyLocked(time.Now()), e.hostLocked())
	i.Exposed = incident.Exposed(e.design, in.Nodes, e.secretFactsLocked())
	return i, nil
}

// confirmIncident acts on the incident that a person was shown.
func (e *Engine) confirmIncident(ctx context.Context, o site.Order) (string, error) {
	i, known, stale := e.incidentToConfirm(o.Digest)
	moved := e.movedSince(&i)
	switch {
	case !known:
		return "", fmt.Errorf("%w: no incident has the ID %s; its lines may have changed: `slipway incident` lists what waits", site.ErrNotFound, o.Digest)
	case !i.Acted.IsZero():
		return "", fmt.Errorf("%w: Slipway has acted on incident %s already", site.ErrRefused, i.Name)
	case stale != "":
		return "", fmt.Errorf("%w: incident %s no longer waits, because %s; nothing was switched off. Order it again with `slipway compromise`", site.ErrRefused, i.Name, stale)
	case moved != "":
		return "", fmt.Errorf("%w: %s; nothing was switched off. Order an incident under another name, of the nodes that have the machines now: `slipway compromise NODE… --name NAME --reason TEXT`", site.ErrRefused, moved)
	}
	if there := e.workersThat(func(w *worker) bool { return slices.Contains(i.Incident.Nodes, w.name) }); len(there) == 0 {
		return "", fmt.Errorf("%w: site %s has none of the nodes of incident %s: %s; nothing was switched off. If their machines have other names now, order an incident of these", site.ErrRefused, e.Site, i.Name, say.Some(i.Incident.Nodes, 10))
	}
	i.Confirmed = o.By
	return e.act(ctx, i)
}

// incidentToConfirm is an incident with the reasons to ask of this moment, and why it cannot be confirmed
// any more although it was not forgotten yet.
func (e *Engine) incidentToConfirm(id string) (i site.IncidentState, known bool, stale string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if i, known = e.incidents[id]; !known || !i.Acted.IsZero() || e.design == nil {
		return i, known, ""
	}
	i.Waits = e.waitsLocked(&i)
	return i, known, e.staleLocked(&i)
}

// machinesOfLocked are the machines of some nodes by the design in force, without nodes whose design names none.
func (e *Engine) machinesOfLocked(nodes []string) map[string]site.Identity {
	machines := map[string]site.Identity{}
	for _, name := range nodes {
		if w := e.workers[name]; w != nil && w.node.Machine().Known() {
			machines[name] = w.node.Machine()
		}
	}
	return machines
}

// movedSince says that a node of an incident has another machine than when it was found; empty if none has. Whoever
// confirms it means the machines, and a commit may have exchanged them after it was read.
func (e *Engine) movedSince(i *site.IncidentState) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.machinesOfLocked(i.Incident.Nodes)
	for _, name := range slices.Sorted(maps.Keys(now)) {
		was, is := i.Machines[name]
		if !is || was.Matches(now[name]) {
			continue
		}
		for _, other := range e.namesLocked() {
			if was.Matches(e.workers[other].node.Machine()) {
				return fmt.Sprintf("the machine (%s) that %s had when incident %s was found is that of %s now", was, name, i.Name, other)
			}
		}
		return fmt.Sprintf("%s has another machine than the one (%s) that it had when incident %s was found", name, was, i.Name)
	}
	return ""
}

// waitsLocked says why an incident waits by the design and the incidents of this moment.
func (e *Engine) waitsLocked(i *site.IncidentState) (all []string) {
	if i.By == "" {
		all = append(all, incident.Unproven)
	}
	all = append(all, incident.Reasons(e.design, i.Incident, e.heldLatelyLocked(time.Now()), e.hostLocked())...)
	for _, known := range e.incidents {
		if i.By == "" && known.Name == i.Name && known.ID != i.ID && !known.Acted.IsZero() {
			all = append(all, fmt.Sprintf("Slipway has acted on incident %s since %s, and its lines have changed", i.Name, known.Acted.UTC().Format(time.RFC3339)))
		}
	}
	if len(all) == 0 { // what kept it is gone, and nobody has confirmed it
		return []string{"the reason to ask when it was ordered no longer applies, and nobody has confirmed it"}
	}
	return all
}

// staleLocked says why an incident that nobody confirmed waits no more; empty while it waits. An order
// that a commit has had since is withdrawn like any other incident of the design.
func (e *Engine) staleLocked(i *site.IncidentState) string {
	switch {
	case e.designsLocked(i):
		return ""
	case i.Commit != "":
		return "its lines have left the design"
	case time.Since(i.Found) > orderStands:
		return "it was ordered more than 24 hours ago"
	}
	return ""
}

// designsLocked reports whether the design in force has an incident.
func (e *Engine) designsLocked(i *site.IncidentState) bool {
	in, is := e.design.Incidents[i.Name]
	return is && in.ID(i.Name) == i.ID
}

// act puts the nodes of an incident under quarantine. It is recorded first that Slipway acts, so that a
// restart goes on, and nothing acts a second time.
func (e *Engine) act(ctx context.Context, i site.IncidentState) (string, error) {
	i.Acted = time.Now()
	var missing []string
	i.Nodes, missing = e.nodesOf(i.Incident)
	i.Follows, i.Exposed = true, e.exposedTo(i)
	if err := e.putIncident(ctx, i); err != nil {
		return "", err
	}
	if err := e.holdNodesOf(ctx, i); err != nil {
		return "", fmt.Errorf("incident %s is recorded, and Slipway keeps trying: %w", i.Name, err)
	}
	done := fmt.Sprintf("incident %s: %s under quarantine", i.Name, say.Count(len(i.Nodes)-len(missing), "node"))
	off, on := e.switchedOff(&i)
	if len(off) > 0 {
		done += ", being switched off: " + say.Some(off, 10)
	}
	for _, why := range slices.Sorted(maps.Keys(on)) {
		done += fmt.Sprintf(". NOT switched off: %s, because %s: do it by hand", say.Some(on[why], 10), why)
	}
	done += fmt.Sprintf(". `slipway incident %s` shows which are proven off, and the %s to replace", i.Name, say.Count(len(i.Exposed), "secret"))
	if len(missing) > 0 {
		done += fmt.Sprintf(". NOT held, because the design has no such node: %s; switch their machines off by hand, or order an incident of the names that they have now", say.Some(missing, 10))
	}
	return done, nil
}

// switchedOff are the nodes of an incident that Slipway switches off, and those that it does not, by the reason.
func (e *Engine) switchedOff(i *site.IncidentState) (off []string, on map[string][]string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	on = map[string][]string{}
	all := cmp.Or(e.whyReadOnlyLocked(), e.mayWriteLocked(time.Now(), false, true))
	for _, name := range slices.Sorted(maps.Keys(i.Nodes)) {
		w := e.workers[name]
		switch {
		case w == nil:
		case !w.node.Machine().Known():
			on[noMachine] = append(on[noMachine], name)
		case all != "":
			on[all] = append(on[all], name)
		default:
			off = append(off, name)
		}
	}
	return off, on
}

// noMachine is why Slipway does not touch the power of a node.
const noMachine = "the design names no machine by UUID or serial number, so Slipway does not touch its power"

// nodesOf are the nodes of an incident with their machines, and the names of those that are not there.
func (e *Engine) nodesOf(in site.Incident) (nodes map[string]site.IncidentNode, missing []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	nodes = map[string]site.IncidentNode{}
	for _, name := range in.Nodes {
		if w := e.workers[name]; w != nil {
			_, generation := instanceOf(w.node, w.memory.Recorded)
			nodes[name] = site.IncidentNode{Machine: w.node.Machine(), Generation: generation}
		} else {
			nodes[name] = site.IncidentNode{}
			missing = append(missing, name)
		}
	}
	return nodes, missing
}

// holdNodesOf puts those nodes of an incident under quarantine that nobody released and that are not
// under one, and records that it did. A node that is not there is held when it comes: see inheritLocked.
func (e *Engine) holdNodesOf(ctx context.Context, i site.IncidentState) error {
	h := holdOf(&i)
	all := e.workersThat(func(w *worker) bool {
		q := w.memory.Recorded.Quarantined
		return (q == nil || w.inherited && q.Incident == i.Name) && len(heldBy(&i, w.node)) > 0
	})
	if err := e.holdAll(ctx, all, h); err != nil {
		return err
	}
	e.inherit(all)
	for _, w := range all {
		e.note(site.Event{Node: w.name, Kind: site.EventOrder, By: h.By, Text: "quarantined for " + h.Reason})
	}
	if !i.Held.IsZero() {
		return nil
	}
	i.Held = time.Now()
	return e.putIncident(ctx, i)
}

// inherit notes that the quarantines of some nodes are recorded.
func (e *Engine) inherit(those []*worker) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range those {
		w.inherited = false
	}
}

// holdOf is the quarantine of an incident.
func holdOf(i *site.IncidentState) *site.Hold {
	return &site.Hold{By: cmp.Or(i.Confirmed, i.By), Reason: fmt.Sprintf("incident %s: %s", i.Name, i.Incident.Reason), Since: i.Acted, Incident: i.Name}
}

// heldBy are the entries of an incident that hold a node: that of its name, and those of its machine
// under another name.
func heldBy(i *site.IncidentState, n *site.Node) (names []string) {
	for _, name := range i.Unreleased() {
		if name == n.Name || i.Nodes[name].Machine.IsThatOf(n.Machine()) {
			names = append(names, name)
		}
	}
	return names
}

// inheritLocked puts a node that starts under the quarantine of an incident that holds it, and reports
// whether it did. It works from the first look on; holdNodesOf records it.
func (e *Engine) inheritLocked(n *site.Node, m *site.Memory) bool {
	if m.Recorded.Quarantined != nil {
		return false
	}
	for _, i := range e.incidents {
		if !i.Acted.IsZero() && len(heldBy(&i, n)) > 0 {
			m.Recorded.Quarantined = holdOf(&i)
			cutOff(&m.Recorded)
			signal(e.acted)
			return true
		}
	}
	return false
}

// heldLatelyLocked are the nodes that incidents of the last 24 hours hold.
func (e *Engine) heldLatelyLocked(now time.Time) map[string]bool {
	held := map[string]bool{}
	for _, i := range e.incidents {
		if now.Sub(i.Acted) < 24*time.Hour {
			for _, name := range i.Unreleased() {
				held[name] = true
			}
		}
	}
	return held
}

// putIncident records an incident, then shows it.
func (e *Engine) putIncident(ctx context.Context, i site.IncidentState) error {
	if err := e.Records.PutIncident(ctx, i); err != nil {
		return fmt.Errorf("record incident %s: %w", i.Name, err)
	}
	e.mu.Lock()
	e.incidents[i.ID] = i
	delete(e.judged, i.ID)
	e.mu.Unlock()
	signal(e.acted)
	signal(e.exposed)
	e.touch()
	return nil
}

// noteIncidents records the incidents of the design in force that are not recorded yet, also those
// that a stop has kept from it. None of them acts before a
// person confirms it: nothing proves that whoever merged them may order it. It forgets those that
// wait and are not in the design any more.
func (e *Engine) noteIncidents(ctx context.Context) error {
	e.handling.Lock()
	defer e.handling.Unlock()
	fresh, gone := e.comparedIncidents()
	for _, i := range fresh {
		if err := e.putIncident(ctx, i); err != nil {
			return err
		}
		e.note(site.Event{Kind: site.EventDesign, Revision: i.Commit, Text: fmt.Sprintf("incident %s waits for `%s`", i.Name, i.Confirm())})
	}
	for _, id := range gone {
		if err := e.Records.ForgetIncident(ctx, id); err != nil {
			return fmt.Errorf("forget an incident that nobody confirmed: %w", err)
		}
		e.dropIncident(id)
	}
	return nil
}

func (e *Engine) comparedIncidents() (fresh []site.IncidentState, gone []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	rev, design := e.applied, e.design
	if design == nil {
		return nil, nil
	}
	for _, name := range slices.Sorted(maps.Keys(design.Incidents)) {
		in := design.Incidents[name]
		id := in.ID(name)
		if known, is := e.incidents[id]; is {
			if known.Acted.IsZero() && known.Commit == "" {
				known.Commit = rev.ID
				fresh = append(fresh, known)
			}
			continue
		}
		i := site.IncidentState{Name: name, ID: id, Incident: in, Commit: rev.ID, Found: time.Now(), Machines: e.machinesOfLocked(in.Nodes)}
		i.Waits = e.waitsLocked(&i)
		fresh = append(fresh, i)
	}
	for id, i := range e.incidents {
		if i.Acted.IsZero() && e.staleLocked(&i) != "" {
			gone = append(gone, id)
		}
	}
	return fresh, gone
}

func (e *Engine) dropIncident(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.incidents, id)
	e.touch()
}

// hostLocked is the node of the design that the daemon runs on; empty if none is known to be it.
func (e *Engine) hostLocked() string {
	for _, n := range e.design.Nodes {
		if slices.Contains(e.Host, n.Name) {
			return n.Name
		}
		for _, address := range n.Addresses {
			if slices.Contains(e.Host, address) {
				return n.Name
			}
		}
		if u, err := url.Parse(n.Endpoints[site.OS].URL); err == nil && u.Host != "" && slices.Contains(e.Host, u.Hostname()) {
			return n.Name
		}
	}
	return ""
}

// keepIncidents finishes what was begun, and notes which machines were seen off, until ctx ends. It
// sleeps while nothing is left to do.
func (e *Engine) keepIncidents(ctx context.Context) {
	for {
		err := errors.Join(e.noteIncidents(ctx), e.tendIncidents(ctx))
		e.setProblem("incidents", err)
		if err != nil || e.awaitsPower() {
			if !retry.Sleep(ctx, incidentsEvery) {
				return
			}
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-e.acted:
		case <-time.After(time.Hour): // those that nobody confirmed expire
		}
	}
}

// awaitsPower reports whether an incident has a quarantine to record or a machine to be seen off.
func (e *Engine) awaitsPower() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, i := range e.incidents {
		for _, n := range i.Nodes {
			if n.Released.IsZero() && (i.Held.IsZero() || n.Off.IsZero()) {
				return true
			}
		}
	}
	return false
}

func (e *Engine) tendIncidents(ctx context.Context) (err error) {
	e.handling.Lock()
	defer e.handling.Unlock()
	if e.Design() == nil {
		return nil // no node is known
	}
	for _, i := range e.activeIncidents() {
		err = errors.Join(err, e.holdNodesOf(ctx, i))
	}
	for _, i := range e.seenOff() {
		err = errors.Join(err, e.putIncident(ctx, i))
	}
	return err
}

// activeIncidents are the incidents whose nodes are to be under quarantine.
func (e *Engine) activeIncidents() (all []site.IncidentState) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, i := range e.incidents {
		if i.IsActive() {
			all = append(all, i)
		}
	}
	return all
}

func sortIncidents(all []site.IncidentState) {
	slices.SortFunc(all, func(a, b site.IncidentState) int { return cmp.Or(b.Found.Compare(a.Found), cmp.Compare(a.ID, b.ID)) })
}

func incidentNames(all []site.IncidentState) string {
	var names []string
	for _, i := range all {
		names = append(names, i.Name)
	}
	return "incident " + say.Some(names, 5)
}
