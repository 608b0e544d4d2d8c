package watch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// mostIncidents is how many incidents the head of a page names, each in at most mostOfIncident lines.
const mostIncidents, mostOfIncident = 2, 2

// ongoing are the incidents that are not over, those that wait for a person first.
func ongoing(s *site.Status) (all []site.IncidentState) {
	for _, i := range s.Incidents {
		if !i.IsOver() {
			all = append(all, i)
		}
	}
	slices.SortStableFunc(all, func(a, b site.IncidentState) int {
		switch {
		case a.Acted.IsZero() == b.Acted.IsZero():
			return 0
		case a.Acted.IsZero():
			return -1
		}
		return 1
	})
	return all
}

// incidentLines name the incidents that are not over, at the head of every page.
func (m *model) incidentLines() (lines []string) {
	all, most, lengths := m.sum.incidents, mostIncidents, mostOfIncident
	if m.height < small {
		most, lengths = 1, 1
	}
	for _, i := range all[:min(len(all), most)] {
		text := fmt.Sprintf("INCIDENT %s: %s", i.Name, i.Verdict())
		if !i.Acted.IsZero() {
			text += fmt.Sprintf("; `slipway incident %s`", i.Name)
		}
		parts := wrapped(clean(text), m.width)
		if len(parts) > lengths {
			parts[lengths-1] += " …"
			parts = parts[:lengths]
		}
		for _, part := range parts {
			lines = append(lines, m.in(red+";"+reverse, fit(part, m.width)))
		}
	}
	if rest := len(all) - most; rest > 0 && m.height >= small {
		lines = append(lines, m.in(red, fit(say.Count(rest, "more incident")+": press 1", m.width)))
	}
	return lines
}

// incidentRows say of each incident that is not over what waits for a person and what is proven.
func (m *model) incidentRows(s *sheet) {
	for _, i := range m.sum.incidents {
		s.title(fmt.Sprintf("Incident %s, found %s ago", clean(i.Name), present.Age(i.Found, m.now)))
		s.row("reason", "", i.Incident.Reason)
		if i.Acted.IsZero() {
			s.waitingIncident(&i)
		} else {
			s.activeIncident(&i)
		}
	}
}

// waitingIncident is an incident that Slipway does not act on before a person confirms it.
func (s *sheet) waitingIncident(i *site.IncidentState) {
	s.row("waits", red, "for a person to confirm it. Slipway has switched nothing off for it")
	s.row("confirm", red, fmt.Sprintf("`%s` switches the nodes off; `slipway incident %s` shows all of it first", i.Confirm(), i.Name))
	s.row("nodes", "", say.Some(i.Incident.Nodes, mostTroubles))
	for _, why := range i.Waits {
		s.row("because", "", why)
	}
}

// activeIncident is an incident that Slipway acts on: its nodes, those that are not proven off first.
func (s *sheet) activeIncident(i *site.IncidentState) {
	s.row("proven", red, i.Verdict())
	names := slices.SortedFunc(maps.Keys(i.Nodes), func(a, b string) int {
		return cmp.Or(i.Nodes[a].Off.Compare(i.Nodes[b].Off), strings.Compare(a, b))
	})
	for _, name := range names[:min(len(names), mostTroubles)] {
		s.item("-", name+": "+cmp.Or(i.Nodes[name].Power, "its power is not known"))
	}
	s.more(len(names)-mostTroubles, "in `slipway incident "+clean(i.Name)+"`")
	if i.Removed {
		s.row("removed", yellow, "the design no longer has this incident. That releases no node")
	}
	s.row("to do", "", fmt.Sprintf("`slipway incident %s` lists what people have to do: %s to replace, and what Slipway did not do", i.Name, say.Count(len(i.Exposed), "secret")))
}

// holding are the incidents that hold a node: under its name, or its machine under another one.
func (m *model) holding(n *site.NodeStatus) (all []site.IncidentState) {
	for _, i := range m.sum.incidents {
		if slices.ContainsFunc(i.Unreleased(), func(name string) bool {
			return name == n.Name || n.Quarantined != nil && i.Nodes[name].Machine.IsThatOf(n.Machine)
		}) {
			all = append(all, i)
		}
	}
	return all
}

// releaseUnder is the command that releases a node from an incident.
func releaseUnder(node, incident string) string {
	return fmt.Sprintf("`slipway release %s --incident %s`", clean(node), clean(incident))
}

// heldByIncident says why the daemon will refuse a release that names no incident, and the command that names one;
// empty for any other order, and where no incident holds the node, or any node of the site.
func (m *model) heldByIncident(o site.Order) string {
	if o.Verb != site.VerbRelease {
		return ""
	}
	if o.Node == "" {
		for _, i := range m.sum.incidents {
			if i.IsActive() {
				return fmt.Sprintf("Incident %s is not over, so the whole site cannot be released. Nothing was sent. Release each of its nodes by name, after what `slipway incident %[1]s` lists is done: %[2]s",
					clean(i.Name), releaseUnder("NODE", i.Name))
			}
		}
		return ""
	}
	n := m.status(o.Node)
	if n == nil {
		return ""
	}
	held := m.holding(n)
	if len(held) == 0 {
		return ""
	}
	return fmt.Sprintf("Incident %s holds %s, so its release has to name the incident. Nothing was sent. After what `slipway incident %[1]s` lists is done, run %[3]s",
		clean(held[0].Name), clean(n.Name), releaseUnder(n.Name, held[0].Name))
}
