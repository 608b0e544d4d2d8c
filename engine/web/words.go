package web

import (
	"fmt"
	"html/template"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// templates are the pages, each with what all of them share.
func templates(s *Site) map[string]*template.Template {
	functions := template.FuncMap{
		"ago":         func(t time.Time) template.HTML { return s.ago(t, "") },
		"agoOr":       func(t time.Time, without string) template.HTML { return s.ago(t, without) },
		"ahead":       func(t time.Time) bool { return t.After(s.now()) },
		"clock":       func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
		"state":       badge,
		"states":      func() []site.State { return site.States },
		"count":       say.Count,
		"size":        say.Size,
		"brief":       func(d site.Duration) string { return say.Rough(time.Duration(d)) },
		"disks":       present.DisksOf,
		"troubles":    func(n site.NodeStatus) []string { return present.Troubles(&n) },
		"nodeRows":    s.nodeRows,
		"lineAddress": present.LineAddress,
		"position":    present.PositionWords,
		"escape":      url.PathEscape,
		"percent":     func(n, all int) int { return n * 100 / max(all, 1) },
		"join":        func(parts []string) string { return strings.Join(parts, ", ") },
		"acts":        func() []Act { return Acts },
		"severe":      severe,
		"tone":        tone,
		"menu":        menu,
		"consequence": consequence, "consequences": consequencesIn, "verdictOf": present.VerdictOf,
		"pulls": func(name string, text template.HTML) template.HTML { return linkedPulls(name, text) },
		"word":  func(v any) string { return fmt.Sprint(v) },
		"minus": func(a, b int) int { return a - b },
		"title": func(v view) string { return v.title },
		"path":  func(v view, name string) string { return strings.Replace(v.path, "{site}", url.PathEscape(name), 1) },
		"outcomes": func() []site.AuditOutcome {
			return []site.AuditOutcome{site.AuditBegun, site.AuditDone, site.AuditRefused, site.AuditFailed, site.AuditDenied}
		},
		"pullStates": func() []site.ProposalState {
			return []site.ProposalState{site.ProposalOpen, site.ProposalMerged, site.ProposalClosed}
		},
		"checkOutcomes": func() []site.Outcome { return []site.Outcome{site.CheckWrong, site.CheckUnknown, site.CheckOK} },
		"headline":      headline,
		"linkOf":        func(what, id string) template.URL { return template.URL(linkOf(what, id)) }, // escaped there
		"timeline":      timeline, "incidentVerdict": incidentVerdict,
		"leftOver": func() []string { return site.IncidentLeftOver },
		"dict":     dict, "barof": bar, "cableSign": cableSign, "cableTone": cableTone,
		"first":       func(l site.Losses, n int) site.Losses { return l[:min(len(l), n)] },
		"isUntouched": isUntouched,
		"stuck": func(all []site.NodeStatus) []site.NodeStatus { // those that are not in a card of their own
			return slices.DeleteFunc(slices.Clone(all), func(n site.NodeStatus) bool { return n.NeedsPerson() })
		},
		"isIn":   func(v view, page string) bool { return v.name == page || v.name == "proposals" && page == "proposal" },
		"marked": marked,
	}
	shared := template.Must(template.New("").Funcs(functions).ParseFS(files, "pages/shell.html", "pages/parts.html"))
	all := map[string]*template.Template{}
	entries, _ := files.ReadDir("pages")
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), path.Ext(e.Name()))
		if name == "shell" || name == "parts" {
			continue
		}
		all[name] = template.Must(template.Must(shared.Clone()).ParseFS(files, "pages/"+e.Name()))
	}
	return all
}

// ago is how long ago a time was, or how long it is until then, with the time itself for whoever points
// at it. The script keeps it up to date.
func (s *Site) ago(t time.Time, without string) template.HTML {
	if t.IsZero() {
		return template.HTML(template.HTMLEscapeString(without))
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s">%s</time>`, t.UTC().Format(time.RFC3339), t.UTC().Format("2006-01-02 15:04:05 UTC"), distance(s.now().Sub(t))))
}

// distance is a time in the largest unit that has two of them.
func distance(d time.Duration) string {
	text, ahead := "", d < 0
	if ahead {
		d = -d
	}
	switch {
	case d < time.Second:
		return "now"
	case d < 2*time.Minute:
		text = fmt.Sprintf("%d s", int(d/time.Second))
	case d < 2*time.Hour:
		text = fmt.Sprintf("%d min", int(d/time.Minute))
	case d < 48*time.Hour:
		text = fmt.Sprintf("%d h", int(d/time.Hour))
	default:
		text = fmt.Sprintf("%d days", int(d/(24*time.Hour)))
	}
	if ahead {
		return "in " + text
	}
	return text + " ago"
}

// command is what a sentence says to write or to run.
var command = regexp.MustCompile("`([^`]+)`")

// marked is a sentence with its commands as code.
func marked(text string) template.HTML {
	return template.HTML(command.ReplaceAllString(template.HTMLEscapeString(text), "<code>$1</code>"))
}

// badge is a state with its shape.
func badge(s site.State) template.HTML {
	sign, known := present.StateSigns[s] // colour alone tells nothing
	if !known {
		return template.HTML(template.HTMLEscapeString(string(s)))
	}
	return template.HTML(fmt.Sprintf(`<span class="state %s"><i aria-hidden="true">%s</i>%s</span>`, s, sign, s))
}

// headline is what a person has to know first, the worst first.
func headline(p overviewPage) []string {
	c, losing := p.Counts, len(p.Status.Waiting)
	var parts []string
	add := func(n int, one, many string) {
		switch {
		case n == 1:
			parts = append(parts, "1 "+one)
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d %s", n, many))
		}
	}
	waits, loose, lasting := 0, 0, 0
	for _, i := range p.Ongoing() {
		if i.Acted.IsZero() {
			waits++
		} else {
			lasting++
		}
		loose += len(unproven(i))
	}
	add(loose, "compromised machine is not proven off", "compromised machines are not proven off")
	add(waits, "incident waits for confirmation", "incidents wait for confirmation")
	add(lasting, "incident is not over", "incidents are not over")
	if p.isHalted() {
		parts = append(parts, "the rollout is halted")
	}
	add(len(p.Status.Problems), "problem of the site", "problems of the site")
	add(losing, "machine will lose data after approval", "machines will lose data after approval")
	add(p.Persons, "node waits for a person", "nodes wait for a person")
	add(c[site.Stalled]+c[site.Foreign], "node is stuck", "nodes are stuck")
	add(c[site.Unknown], "node cannot be seen", "nodes cannot be seen")
	if why := p.Status.ObserveOnly; why != "" {
		parts = append(parts, "Slipway writes to no machine: "+why)
	}
	if len(parts) == 0 && p.Status.Paused == nil && c[site.Progressing]+c[site.Retrying] == 0 {
		add(c[site.Paused], "node is paused", "nodes are paused")
		add(c[site.Blocked], "node is blocked", "nodes are blocked")
	}
	switch {
	case len(parts) > 0:
		parts[0] = strings.ToUpper(parts[0][:1]) + parts[0][1:]
		return parts
	case p.All == 0 && p.Some:
		return []string{"You may see no node"}
	case p.All == 0:
		return []string{"No node is known"}
	case p.Status.Paused != nil:
		return []string{"The site is paused"}
	case c[site.InSync] == p.All && p.Some:
		return []string{"All nodes that you may see are in-sync"}
	case c[site.InSync] == p.All && p.Caveat != "":
		return []string{"All nodes are in-sync", p.Caveat}
	case c[site.InSync] == p.All:
		return []string{"All nodes are as designed"}
	}
	if p.Some {
		return []string{"Slipway is at work on nodes that you may see"}
	}
	return []string{"Slipway is at work, and nobody is needed"}
}

// dict has names and values in turn.
func dict(all ...any) map[string]any {
	d := map[string]any{}
	for i := 0; i+1 < len(all); i += 2 {
		d[all[i].(string)] = all[i+1]
	}
	return d
}

// bar are the nodes by state, as parts of a picture 100 wide.
func bar(counts map[site.State]int, all int) template.HTML {
	var b strings.Builder
	sum := 0
	for _, s := range site.States {
		from := float64(sum) * 100 / float64(max(all, 1))
		sum += counts[s]
		if counts[s] > 0 {
			fmt.Fprintf(&b, `<rect class="f-%s" x="%.2f" y="0" height="2" width="%.2f"/>`, s, from, float64(counts[s])*100/float64(max(all, 1)))
		}
	}
	return template.HTML(b.String())
}

// cableSign is a shape for the state of a cable, and cableTone the class of its colour.
func cableSign(match string) string {
	return map[string]string{"as designed": "✓", "differs": "✕", "no carrier": "✕", "unknown": "?", "ok": "✓", "wrong": "✕"}[match]
}

func cableTone(match string) string {
	return map[string]string{"as designed": "good", "differs": "bad", "no carrier": "bad", "ok": "good", "wrong": "bad"}[match]
}

// severe says whether an impact takes a machine out of service.
func severe(i site.Impact) bool { return i >= site.ImpactReboot }

// tone is the colour of a site's verdict, in one word: "bad" for a problem or a halt, "wait" where a
// person is waited for, "work" while something runs, "good", or "unknown".
func tone(p overviewPage) string {
	switch c := p.Counts; {
	case p.Status.Site == "" && p.All == 0:
		return "unknown"
	case len(p.Status.Problems) > 0 || p.isHalted() || len(p.Ongoing()) > 0 || c[site.Stalled]+c[site.Foreign] > 0:
		return "bad"
	case p.Persons > 0 || len(p.Status.Waiting) > 0 || p.Status.Paused != nil || p.Status.ObserveOnly != "" || c[site.Blocked]+c[site.Paused] > 0:
		return "wait"
	case c[site.Unknown] > 0 || p.All == 0:
		return "unknown"
	case c[site.InSync] < p.All:
		return "work"
	case p.Caveat != "":
		return "unknown"
	}
	return "good"
}
