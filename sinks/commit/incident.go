package commit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// incidentsFolder holds a page for each incident. Pages stay: people may need them years later.
const incidentsFolder = "incidents"

// stageIncidents writes the pages of the incidents that the daemon knows.
func (r *Reporter) stageIncidents(s *site.Status) error {
	for i := range s.Incidents {
		if err := r.tree.Set(incidentFile(&s.Incidents[i]), incidentPage(s, &s.Incidents[i])); err != nil {
			return err
		}
	}
	return nil
}

// incidentFile is the path of a page. A changed incident of the same name has a page of its own.
func incidentFile(i *site.IncidentState) string {
	return incidentsFolder + "/" + word(i.Name) + "-" + word(i.ID[:min(len(i.ID), 8)]) + ".md"
}

// incidentPage is an incident for people: what was done, what could not be, and what they have to do.
func incidentPage(s *site.Status, i *site.IncidentState) []byte {
	p := &writer{}
	p.line("# Incident %s: %s", text(i.Name), text(i.Verdict()))
	p.line("\nSite %s. Reason: %s", text(s.Site), text(i.Incident.Reason))
	p.line("\n| when | what |\n|---|---|")
	p.line("| %s | the machines may have been compromised from here on |", when(i.Incident.Since))
	switch {
	case i.By == "" && i.Commit != "":
		p.line("| %s | found in commit %s |", when(i.Found), text(i.Commit))
	default:
		p.line("| %s | ordered by %s |", when(i.Found), text(i.By))
	}
	if !i.Acted.IsZero() {
		by := ""
		if i.Confirmed != "" {
			by = ", confirmed by " + text(i.Confirmed)
		}
		p.line("| %s | Slipway began to act%s |", when(i.Acted), by)
	}
	if !i.Held.IsZero() {
		p.line("| %s | all nodes under quarantine |", when(i.Held))
	}
	if !i.Clear.IsZero() {
		p.line("| %s | all clear: all nodes released, all secrets replaced |", when(i.Clear))
	}
	if !i.Ended.IsZero() {
		p.line("| %s | ended by %s, although not all secrets are known to be replaced: %s |", when(i.Ended), text(i.EndedBy), text(i.EndedBecause))
	}
	if i.Acted.IsZero() {
		p.line("\n**Nothing was switched off.** A person has to run `%s`:\n", i.Confirm())
		for _, why := range i.Waits {
			p.line("- %s", text(why))
		}
		p.line("\nNodes: %s", text(strings.Join(i.Incident.Nodes, ", ")))
	} else {
		p.line("\n## Power\n\n| node | power |\n|---|---|")
		for _, name := range i.Incident.Nodes {
			p.line("| %s | %s |", text(name), text(i.Nodes[name].Power))
		}
	}
	if i.Removed && !i.Acted.IsZero() {
		p.line("\nThe design in force does not have this incident. That releases nothing.")
	}
	p.line("\n## Secrets to replace\n\nIn this order: those that Slipway's records show to have been given to these nodes, and every other secret that the design names for them, because records may lack something.")
	if len(i.Exposed) > 0 {
		p.line("\n| secret | read by | also held by | replaced | what to do |\n|---|---|---|---|---|")
	}
	for _, x := range i.Exposed[:min(len(i.Exposed), mostNodes)] {
		do, progress := x.Do, ""
		if x.State != "" {
			progress = x.Progress()
		}
		if x.State.IsDone() {
			do = ""
		}
		p.line("| %s | %s | %s | %s | %s |", text(x.Secret), text(x.ReadBy()), text(strings.Join(x.Holders, ", ")), text(progress), text(do))
	}
	p.rest(min(len(i.Exposed), mostNodes), len(i.Exposed))
	p.certificates(s.Nodes, i.Incident.Nodes)
	p.line("\n## Not done by Slipway\n")
	for _, left := range site.IncidentLeftOver {
		p.line("- %s", text(left))
	}
	return p.Bytes()
}

// certificates lists the TLS certificates of nodes that Slipway has revoked and that others accept until they end.
func (w *writer) certificates(all []site.NodeStatus, nodes []string) {
	var lines []string
	for i := range all {
		for _, c := range all[i].Certificates {
			if c.State == site.TLSRevoked && slices.Contains(nodes, all[i].Name) {
				lines = append(lines, fmt.Sprintf("| %s | %s | %s | %s | %s |", text(all[i].Name), text(c.Name), text(c.Serial), text(strings.Join(c.Names, ", ")), when(c.Until)))
			}
		}
	}
	if len(lines) == 0 {
		return
	}
	w.line("\n## TLS certificates to revoke elsewhere\n\nSlipway counts these no longer, signs none for these nodes under quarantine, and has them in the list of revoked certificates (`" + revokedFile + "` on this branch). " +
		"Programs that trust the authority and do not read that list accept them until they end: replace the authority by the next epoch to end them now.\n\n| node | certificate | serial number | names | ends |\n|---|---|---|---|---|")
	for _, line := range lines[:min(len(lines), mostNodes)] {
		w.line("%s", line)
	}
	w.rest(min(len(lines), mostNodes), len(lines))
}

// incidents lists the incidents on the page of the site.
func (w *writer) incidents(all []site.IncidentState) {
	if len(all) == 0 {
		return
	}
	w.line("\n## Incidents\n\n| incident | state | nodes | reason |\n|---|---|---|---|")
	shown := all[:min(len(all), mostApprovals)]
	for i := range shown {
		w.line("| [%s](%s) | %s | %s | %s |", text(all[i].Name), incidentFile(&all[i]), text(all[i].Verdict()), text(strings.Join(all[i].Incident.Nodes, ", ")), text(all[i].Incident.Reason))
	}
	w.rest(len(shown), len(all))
}
