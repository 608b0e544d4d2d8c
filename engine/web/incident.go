package web

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// moment is one line of what happened when.
type moment struct {
	When time.Time
	What string
}

// timeline is what is known to have happened in an incident, the first first.
func timeline(i site.IncidentState) []moment {
	all := []moment{{i.Incident.Since, "the machines may be in other hands from here on"}}
	switch {
	case i.Commit != "":
		all = append(all, moment{i.Found, "found in commit " + i.Commit[:min(len(i.Commit), 12)]})
	default:
		all = append(all, moment{i.Found, "reported by " + i.By})
	}
	switch {
	case i.Acted.IsZero():
	case i.Confirmed != "":
		all = append(all, moment{i.Acted, "confirmed by " + i.Confirmed + "; Slipway began to act"})
	default:
		all = append(all, moment{i.Acted, "Slipway began to act"})
	}
	all = append(all, moment{i.Held, "all nodes under quarantine"})
	for _, name := range slices.Sorted(maps.Keys(i.Nodes)) {
		n := i.Nodes[name]
		all = append(all, moment{n.Off, name + ": power seen off"}, moment{n.Released, name + ": released by " + n.ReleasedBy})
	}
	all = append(all, moment{i.Clear, "all clear: all nodes released, all secrets replaced"}, moment{i.Ended, "ended by " + i.EndedBy + ": " + i.EndedBecause})
	all = slices.DeleteFunc(all, func(m moment) bool { return m.When.IsZero() })
	slices.SortStableFunc(all, func(a, b moment) int { return a.When.Compare(b.When) })
	return all
}

// unproven are the nodes of an incident whose power is not known to be off now, and which nobody released.
func unproven(i site.IncidentState) (names []string) {
	for name, n := range i.Nodes {
		if !n.StaysOff && n.Released.IsZero() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// incidentVerdict is an incident in a few words.
func incidentVerdict(i site.IncidentState) string {
	if i.Acted.IsZero() {
		return "Waits for confirmation. Nothing was switched off."
	}
	says := i.Verdict()
	if left := unproven(i); len(left) > 0 {
		says += "; not proven off now: " + say.Some(left, 10)
	}
	return strings.ToUpper(says[:1]) + says[1:]
}

// ongoing are the incidents that are not over.
func ongoing(s *site.Status) (all []site.IncidentState) {
	if s == nil {
		return nil
	}
	for _, i := range s.Incidents {
		if !i.IsOver() {
			all = append(all, i)
		}
	}
	return all
}

// holding are the incidents that hold a node.
func holding(s *site.Status, node string) (all []site.IncidentState) {
	for _, i := range ongoing(s) {
		if slices.Contains(i.Unreleased(), node) {
			all = append(all, i)
		}
	}
	return all
}

// loadIncident finds out what an incident would be about, or which one is confirmed.
func (c *question) loadIncident(page *Shell) {
	c.Confirm = c.Given.Get("confirm")
	if c.Confirm != "" {
		c.Label = "Confirm the incident"
		c.Incidents = slices.DeleteFunc(ongoing(page.Status), func(i site.IncidentState) bool { return i.ID != c.Confirm || !i.Acted.IsZero() })
		if len(c.Incidents) == 0 {
			c.Gone = "No incident waits as it was shown. Somebody has confirmed it, or its lines have changed."
		}
		return
	}
	given := url.Values{"nodes": {c.Node}, "since": {page.Now.UTC().Format(time.RFC3339)}, "name": {"incident-" + page.Now.UTC().Format("20060102-150405")}}
	for name, v := range c.Given {
		given[name] = v
	}
	c.Given = given
}

// isLook says whether a form asks what would happen, and for nothing to be done.
func isLook(a Act, f url.Values) bool { return a.Verb == site.VerbIncident && f.Get("step") == "look" }

// incidentOrder is the body of the API's route for the form of an incident, or says what is missing.
func incidentOrder(f url.Values, look bool) (body map[string]any, wrong string) {
	if f.Get("sure") != "yes" && !look {
		return nil, "Tick the box to confirm."
	}
	if id := f.Get("confirm"); id != "" {
		return map[string]any{"confirm": id}, ""
	}
	since, err := time.Parse(time.RFC3339, strings.TrimSpace(f.Get("since")))
	nodes := strings.FieldsFunc(f.Get("nodes"), func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\r' || r == '\t' })
	reason := strings.TrimSpace(f.Get("reason"))
	switch {
	case len(nodes) == 0:
		return nil, "Name the nodes that were compromised."
	case reason == "":
		return nil, "Write what is known: the next person on call will want to know."
	case err != nil:
		return nil, "The time since when is one like 2026-03-01T18:00:00Z."
	}
	body = map[string]any{"incident": strings.TrimSpace(f.Get("name")), "nodes": nodes, "since": since.UTC(), "reason": reason}
	if look {
		body["dryRun"] = true
	}
	return body, ""
}
