package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// isForgotten is the state of an action that the records know to have begun and the machine's own
// journal does not.
const isForgotten = "begun, as the records say"

// OnceIs returns the state of an item of a facet with Once in the machine's installation, as last
// seen and recorded, and how often the machine says that its command was begun.
func OnceIs(f site.Facet, key string, m site.Memory) (is string, attempts int) {
	seen, known := m.Observed.Facets[f], m.Recorded.Actions[item.ID(key)]
	attempts, _ = strconv.Atoi(seen.Have[item.Name(key, item.AttemptsField)])
	is = seen.Have[key]
	switch {
	case is == item.Done || !known.Done.IsZero():
		return item.Done, attempts
	case seen.Seen.IsZero() || seen.Unread[key] != "" || is == "" && !lookedFor(seen)[key]:
		return Unknown, attempts
	case is == item.Running:
		return is, attempts
	case attempts < known.Attempts:
		return isForgotten, attempts
	}
	return cmp.Or(is, item.NotDone), attempts
}

// IsStalledOnce reports whether such an item waits for a person: it was begun and is not done.
func IsStalledOnce(is string) bool {
	return is == item.Failed || is == item.Unfinished || is == isForgotten
}

// InstalledHere reports whether Slipway installed the machine's system and its boot actions. Boot
// actions run in no other system.
func InstalledHere(r site.Recorded) bool {
	return r.Installed != nil && r.Installed.Actions && r.Installed.Reported && r.Installed.Accepted == ""
}

// onceFacets returns the facets whose items are each done once.
func onceFacets(serves map[site.Facet]bool) []site.Facet {
	return slices.DeleteFunc(slices.Clone(site.InsideFacets), func(f site.Facet) bool { return !site.Facets[f].Once || !serves[f] })
}

// planRunning waits for a running boot action: nothing else on the machine changes meanwhile. It
// does not wait on a machine that is off, or if a designed installation replaces the system.
func planRunning(p *site.NodePlan, s *site.Site, n *site.Node, m site.Memory, serves map[site.Facet]bool) bool {
	if m.Observed.Facets[site.FacetPower].Have["state"] == "off" || n.Power == "off" || Absent(m.Observed) ||
		m.Recorded.UnderWay() > 0 || !InstalledHere(m.Recorded) || wanted(n) > Generation(n, m) {
		return false
	}
	for _, f := range onceFacets(serves) {
		seen := m.Observed.Facets[f]
		for _, i := range seen.Resolve(n, f).Items {
			if is, _ := OnceIs(f, i.Key, m); is != item.Running {
				continue
			}
			a := n.References.Actions[item.ID(i.Key)]
			p.Running = &site.Running{Action: item.ID(i.Key), Phase: n.PhaseOfItem(s.Roles[n.Role], i.Key), Timeout: a.Timeout}
			p.Waiting = fmt.Sprintf("the boot action %s is running", item.ID(i.Key))
			if since, err := time.Parse(time.RFC3339, seen.Have[item.Name(i.Key, item.SinceField)]); err == nil {
				p.Waiting += fmt.Sprintf(" since %s", moment(since))
			}
			p.Waiting += fmt.Sprintf(", for at most %s", time.Duration(a.Timeout))
			if n.Endpoints[site.OS].URL == "" {
				p.Waiting += "; the node has no endpoints.os, so Slipway does not see when it ends: add that again"
			}
			return true
		}
	}
	return false
}

func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// planOnce adds what is done once after a phase of the node's role. It begins only when everything
// before it is as designed and in effect.
func planOnce(p *site.NodePlan, s *site.Site, n *site.Node, m site.Memory, phase string, serves map[site.Facet]bool) {
	installs := slices.ContainsFunc(p.Steps, func(s site.Step) bool { return s.Action == site.ActionInstall })
	if installs { // the installation erases the system
		m.Recorded.Actions, m.Observed.Facets = nil, nil
	}
	if !installs && !InstalledHere(m.Recorded) {
		return // see onceNotes
	}
	r := s.Roles[n.Role]
	for _, f := range onceFacets(serves) {
		for _, i := range m.Observed.Facets[f].Resolve(n, f).Items {
			if n.PhaseOfItem(r, i.Key) != phase {
				continue
			}
			planOnceItem(p, s, n, m, f, i, installs, func() (isReady bool) {
				before := slices.DeleteFunc(insideUpTo(r, phase), func(f site.Facet) bool { return !serves[f] })
				planRestart(p, n, m, before)
				return !lacksAny(n, before, m)
			})
		}
	}
}

// planOnceItem adds one item, after the restart that earlier changes may need. The function restart
// plans that, and reports whether the system has everything that it lacked before.
func planOnceItem(p *site.NodePlan, s *site.Site, n *site.Node, m site.Memory, f site.Facet, i item.Item, installs bool, restart func() (isReady bool)) {
	is, attempts := OnceIs(f, i.Key, m)
	if installs {
		is = item.NotDone
	}
	known, seen := m.Recorded.Actions[item.ID(i.Key)], m.Observed.Facets[f]
	at := onceAt(s, i.Key)
	again := known.Again == attempts+1
	switch {
	case is == item.Done || is == item.Running:
		return
	case is == Unknown && seen.Cannot[i.Key] != "":
		p.Blocked = append(p.Blocked, fmt.Sprintf("%s%s: %s", placed(at), FieldOf(f, i.Key), seen.Cannot[i.Key]))
		return
	case is == Unknown && seen.Unread[i.Key] != "":
		p.Blocked = append(p.Blocked, fmt.Sprintf("%s%s: Slipway does not know whether it was done: %s", placed(at), FieldOf(f, i.Key), seen.Unread[i.Key]))
		return
	case is == Unknown && known.Attempts > 0:
		return // look at it before doing anything
	case IsStalledOnce(is) && !again:
		if len(p.Blocked) == 0 {
			p.Release = fmt.Sprintf("`slipway retry %s`, which runs it once more", n.Name)
		}
		p.Blocked = append(p.Blocked, placed(at)+stalledOnce(n, i.Key, is, seen))
		return
	}
	if isReady := restart(); len(p.Blocked)+len(p.Reported) > 0 || p.Waiting != "" || !isReady {
		p.Notes = append(p.Notes, fmt.Sprintf("the boot action %s runs when everything before it is as designed", item.ID(i.Key)))
		return
	}
	k := workOf(f, nil)
	step := site.Step{
		Node: n.Name, Machine: n.Machine(), Facet: f, Action: k.Action, Impact: k.Impact, Expect: takes(n, k.Action, k.Expect), Undo: k.Undo,
		Changes: []site.Change{{Field: FieldOf(f, i.Key), Have: is, Want: item.Done, Origin: at}},
		Once:    &item.Once{Installation: seen.Have[item.Installation], Attempt: attempts + 1},
		Phase:   n.PhaseOfItem(s.Roles[n.Role], i.Key), Reason: "done once in this installation",
	}
	if again {
		step.Reason = fmt.Sprintf("a person asked for it again, after it was: %s", is)
	}
	p.Steps = append(p.Steps, step)
}

// stalledOnce says why an action waits for a person, and what to do.
func stalledOnce(n *site.Node, key, is string, seen site.FacetState) string {
	name := item.ID(key)
	why := fmt.Sprintf("the boot action %s %s", name, seen.Cannot[key])
	if is == isForgotten {
		why = fmt.Sprintf("the boot action %s was begun in this installation, and the machine's journal of it is gone (/var/lib/slipway-inside/actions)", name)
	}
	return fmt.Sprintf("%s. Slipway does not repeat it by itself. Check the machine, then run `slipway retry %s` to do it once more, "+
		"or leave the node out of the action's `nodes`", why, n.Name)
}

// onceAt returns the origin of a boot action: of its command, or else its first one.
func onceAt(s *site.Site, key string) site.Origin {
	if o := s.Origins.Of(key + ".run"); !o.IsZero() {
		return o
	}
	if o := s.Origins.Of(key); !o.IsZero() {
		return o
	}
	var first site.Origin
	for _, o := range s.Origins.Within(key) {
		if o.LayerName() != "schema" && (first.IsZero() || o.Before(first)) {
			first = o
		}
	}
	return first
}

// onceNotes reports boot actions that do not run on this machine, and actions that were done
// although the machine does not know of them.
func onceNotes(n *site.Node, m site.Memory, serves map[site.Facet]bool) (notes []string) {
	for _, f := range onceFacets(serves) {
		seen := m.Observed.Facets[f]
		items := seen.Resolve(n, f).Items
		isSeen := !m.Observed.Facets[site.FacetOS].Seen.IsZero()
		if names := namesOf(items); len(items) > 0 && isSeen && m.Recorded.UnderWay() == 0 && wanted(n) <= Generation(n, m) && !InstalledHere(m.Recorded) {
			why := "Slipway did not install this system"
			if r := m.Recorded.Installed; r != nil && r.Reported && r.Accepted == "" {
				why = "this system was installed before Slipway did boot actions"
			}
			notes = append(notes, fmt.Sprintf("boot actions do not run here (%s): they belong to an installation, and %s", someOf(names), why))
			continue
		}
		for _, i := range items {
			done := m.Recorded.Actions[item.ID(i.Key)].Done
			if is := seen.Have[i.Key]; !done.IsZero() && !seen.Seen.IsZero() && is != item.Done && lookedFor(seen)[i.Key] {
				notes = append(notes, fmt.Sprintf("the boot action %s was done by %s; the machine's journal of that is gone, and it is not done again", item.ID(i.Key), moment(done)))
			}
		}
	}
	return notes
}

func namesOf(items []item.Item) (names []string) {
	for _, i := range items {
		names = append(names, item.ID(i.Key))
	}
	return names
}

// NoteOnce records what a machine reports of the boot actions of its installation.
func NoteOnce(r *site.Recorded, seen site.Observed, now time.Time) {
	if !InstalledHere(*r) {
		return
	}
	for _, f := range site.InsideFacets {
		state, asked := seen.Facets[f]
		if !site.Facets[f].Once || !asked || state.Seen.IsZero() {
			continue
		}
		for key, is := range state.Have {
			attempts, told := strconv.Atoi(state.Have[item.Name(key, item.AttemptsField)])
			name := item.ID(key)
			known := r.Actions[name]
			if told != nil || attempts <= known.Attempts && !(is == item.Done && known.Done.IsZero()) {
				continue
			}
			known.Attempts = max(known.Attempts, attempts)
			if is == item.Done {
				known.Done = now
			}
			setOnce(r, name, known)
		}
	}
}

// AgainOnce notes that a person wants unfinished actions to run once more.
func AgainOnce(n *site.Node, r *site.Recorded, o site.Observed) {
	m := site.Memory{Observed: o, Recorded: *r}
	for _, f := range site.InsideFacets {
		if !site.Facets[f].Once {
			continue
		}
		for _, i := range o.Facets[f].Resolve(n, f).Items {
			if is, attempts := OnceIs(f, i.Key, m); IsStalledOnce(is) {
				setOnce(r, item.ID(i.Key), site.ActionRecord{Attempts: attempts, Again: attempts + 1})
			}
		}
	}
}

func setOnce(r *site.Recorded, name string, known site.ActionRecord) {
	r.Actions = maps.Clone(r.Actions)
	if r.Actions == nil {
		r.Actions = map[string]site.ActionRecord{}
	}
	r.Actions[name] = known
}

// IsDoneOnce reports whether a step of a facet with Once has had its effect; true for others.
func IsDoneOnce(s site.Step, m site.Memory) bool {
	if !site.Facets[s.Facet].Once || len(s.Changes) == 0 {
		return true
	}
	is, _ := OnceIs(s.Facet, strings.TrimPrefix(s.Changes[0].Field, string(s.Facet)+"."), m)
	return is == item.Done
}
