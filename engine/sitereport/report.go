// Package sitereport writes the state of a site as one page, for a ticket or an audit: HTML that needs nothing else, or
// Markdown. It is pure: facts in, text out. Both forms are made of the same parts, so that one says what the other says.
package sitereport

import (
	"cmp"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Facts are what a report is made of.
type Facts struct {
	site.Report
	// Events are the latest events, oldest first.
	Events []site.Event
	// Chart is the last rollout over time, and Racks are those of the design; both are drawn in HTML alone.
	Chart site.RolloutChart
	Racks map[string]*site.Rack
	// Version is that of the program that writes the report.
	Version string
	// Made is when the daemon was asked.
	Made time.Time
}

// Bounds on a page. What is left out is counted on it.
const (
	mostNodes    = 2000
	mostLosses   = 1000
	mostFindings = 500
	mostWarnings = 20
	mostEvents   = 200
	mostRacks    = 40
	mostText     = 500 // characters of one text
)

// part is a section of the page.
type part struct {
	Title string
	// Says are sentences before the table.
	Says []string
	Head []string
	Rows [][]cell
	// Pictures are SVG, which Markdown has no room for.
	Pictures []template.HTML
	// Left says what is left out; empty for nothing.
	Left string
}

// cell is one text of a table. State is the state that it names, if it names one.
type cell struct {
	Text  string
	State site.State
}

// page is the whole report.
type page struct {
	Site, Made, Version string
	Verdict             string
	Counts              []count
	Parts               []part
}

// Class is the style of the state; empty for a text that is none.
func (c cell) Class() site.State {
	if slices.Contains(site.States, c.State) {
		return c.State
	}
	return ""
}

// count is how many nodes are in a state, with its part of the bar in thousandths.
type count struct {
	State    site.State
	Text     string
	From, To int
}

// pageOf sorts facts into a page.
func pageOf(f Facts) page {
	s := &f.Status
	p := page{Site: clean(s.Site), Made: stamp(f.Made), Version: clean(f.Version), Verdict: s.InWords()}
	sum, counts := 0, s.Counts()
	for _, c := range s.Verdict() {
		from := sum
		sum += counts[c.State]
		p.Counts = append(p.Counts, count{c.State, c.Text, from * 1000 / max(1, len(s.Nodes)), sum * 1000 / max(1, len(s.Nodes))})
	}
	for _, one := range []part{inForce(f), waiting(s), forNodes(s), problems(f), rollout(f), racks(f), nodes(f), notActedOn(s), findings(f), machineFindings(s), approvals(s), events(f)} {
		if len(one.Says)+len(one.Rows)+len(one.Pictures) > 0 {
			p.Parts = append(p.Parts, one)
		}
	}
	return p
}

// clean is foreign text as one printable line, and bounded.
func clean(text string) string {
	if len(text) > 4*mostText { // so that a huge text costs no more than a long one
		end := 4 * mostText
		for !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	text = site.Printable(text)
	if runes := []rune(text); len(runes) > mostText {
		return string(runes[:mostText]) + " … (cut)"
	}
	return text
}

// stamp is a time that means the same everywhere.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// brief is a stamp for a column that says that it is in UTC.
func brief(t time.Time) string { return strings.TrimSuffix(stamp(t), " UTC") }

// add adds a row of foreign texts.
func (p *part) add(texts ...string) {
	row := make([]cell, len(texts))
	for i, text := range texts {
		row[i].Text = clean(text)
	}
	p.Rows = append(p.Rows, row)
}

// known adds a row of a name and a text, if there is one.
func (p *part) known(name, text string) {
	if text != "" {
		p.add(name, text)
	}
}

// leave counts what is beyond a bound, and says where it is.
func (p *part) leave(n, most int, what, where string) int {
	if n > most {
		p.Left = fmt.Sprintf("… and %s: %s", say.Count(n-most, "more "+what), where)
	}
	return min(n, most)
}

func inForce(f Facts) part {
	s := &f.Status
	p := part{Title: "In force"}
	p.known("revision", present.RevisionLine(s.Applied))
	if s.Applied.ID != "" {
		p.known("commit", s.Applied.ID)
		p.known("author", s.Applied.Author)
		p.known("committed", stamp(s.Applied.When))
	}
	if s.Attempted.ID != s.Applied.ID && s.Attempted.ID != "" {
		p.known("newest, not in force", present.RevisionLine(s.Attempted))
	}
	p.known("not acting", s.ObserveOnly)
	if s.Paused != nil {
		p.known("paused", hold(*s.Paused))
	}
	if s.Term > 0 {
		p.known("controller", fmt.Sprintf("term %d", s.Term))
	}
	p.known("report", "made at "+stamp(f.Made)+" with Slipway "+f.Version+", schema "+site.SchemaVersion)
	return p
}

// hold is who holds something, since when, and why.
func hold(h site.Hold) string {
	until := ""
	if !h.Until.IsZero() {
		until = ", until " + stamp(h.Until)
	}
	return fmt.Sprintf("by %s since %s%s: %s", h.By, stamp(h.Since), until, h.Reason)
}

func waiting(s *site.Status) part {
	p := part{Title: "Waits for approval: what would be erased", Head: []string{"node", "machine", "action", "is lost", "disks"}}
	if len(s.Waiting) == 0 {
		return p
	}
	p.Says = []string{fmt.Sprintf("%s. Digest of the set: %s", say.Count(len(s.Waiting), "machine"), clean(s.Approve))}
	for _, l := range s.Waiting[:p.leave(len(s.Waiting), mostLosses, "machine", "slipway approve")] {
		p.add(l.Node, l.Target(), l.Action, l.Lost, strings.TrimPrefix(present.DisksOf(l), "disks: "))
	}
	return p
}

func forNodes(s *site.Status) part {
	p := part{Title: "Waits for approval of a node", Head: []string{"node", "what approval causes"}}
	n := 0
	for _, node := range s.Nodes {
		if node.Approve == "" {
			continue
		}
		if n++; n <= mostLosses {
			p.add(node.Name, node.Approve)
		}
	}
	p.leave(n, mostLosses, "node", "slipway approve")
	return p
}

func problems(f Facts) part {
	p := part{Title: "Problems and notes"}
	for _, x := range f.Status.Problems {
		p.add("problem", fmt.Sprintf("%s (since %s)", clean(x.What), stamp(x.Since)))
	}
	for _, n := range f.Status.Notes {
		p.add("note", n)
	}
	return p
}

func rollout(f Facts) part {
	p, r := part{Title: "Rollout"}, f.Status.Rollout
	if r == nil {
		return p
	}
	p.known("revision", present.RevisionLine(r.Revision))
	p.known("outcome", r.Outcome())
	p.known("began", stamp(r.Since))
	p.known("ended", stamp(r.Ended))
	p.known("halted", r.Halted)
	p.known("canaries", say.Some(r.Canaries, 20))
	if len(r.Canaries) > 0 {
		p.known("canaries proven", cmp.Or(stamp(r.Proven), "not yet"))
	}
	if r.Queued != nil {
		p.known("queued", present.RevisionLine(*r.Queued))
	}
	p.forecast(&f.Chart)
	if svg := drawn(func(w io.Writer) { present.Gantt(w, &f.Chart, present.GanttView{}) }); svg != "" {
		p.Pictures = append(p.Pictures, svg)
	}
	failed := slices.Sorted(maps.Keys(r.Failed))
	for _, name := range failed[:p.leave(len(failed), mostFindings, "failed node", "slipway status")] {
		p.add("failed: "+name, r.Failed[name])
	}
	return p
}

// forecast is what is expected of a rollout under way.
func (p *part) forecast(c *site.RolloutChart) {
	if c.Since.IsZero() || !c.Ended.IsZero() {
		return
	}
	ends := "not known"
	if !c.Ends.IsZero() {
		ends = stamp(c.Ends) + ", in " + say.Rough(c.Ends.Sub(c.Now))
	}
	p.known("expected to end", ends)
	p.known("forecast", c.Basis)
	for i, warning := range c.Warnings {
		if i == mostWarnings {
			p.add("warning", fmt.Sprintf("… and %s: slipway rollout", say.Count(len(c.Warnings)-i, "more warning")))
			return
		}
		p.add("warning", warning)
	}
}

// drawn is a picture as text. Its drawing escapes the texts of others.
func drawn(draw func(io.Writer)) template.HTML {
	var b strings.Builder
	draw(&b)
	return template.HTML(b.String())
}

// racks are the pictures of the racks of which the design says where nodes are.
func racks(f Facts) part {
	p := part{Title: "Racks"}
	var placed []present.Elevation
	for _, e := range present.Elevations(f.Racks, f.Status.Nodes, present.ElevationView{Shared: present.Symbols{}}) {
		if len(e.Placed) > 0 {
			placed = append(placed, e)
		}
	}
	for _, e := range placed[:p.leave(len(placed), mostRacks, "rack", "slipway racks")] {
		p.Pictures = append(p.Pictures, drawn(func(w io.Writer) { e.WriteSVG(w) }))
	}
	return p
}

// nodes are all nodes, those that need a look first.
func nodes(f Facts) part {
	p := part{Title: "Nodes", Head: []string{"node", "role", "rack", "state", "since (UTC)", "power", "last seen (UTC)", "reason"}}
	all := slices.Clone(f.Status.Nodes)
	slices.SortStableFunc(all, func(a, b site.NodeStatus) int {
		return cmp.Compare(bit(present.NeedsALook(b)), bit(present.NeedsALook(a)))
	})
	for _, n := range all[:p.leave(len(all), mostNodes, "node", "slipway status --all")] {
		retry := n.Retry
		n.Retry = time.Time{} // a clock without its zone says nothing to those who read this elsewhere
		reason := present.ReasonOf(n, f.Made)
		if retry.After(f.Made) {
			reason += "; again at " + stamp(retry)
		}
		if n.Paused != nil {
			reason += "; paused " + hold(*n.Paused)
		}
		if n.Quarantined != nil {
			reason += "; quarantined " + hold(*n.Quarantined)
		}
		p.add(n.Name, n.Role, n.Rack, string(n.State), brief(n.Since), present.PowerOf(&n, f.Made), cmp.Or(brief(n.Seen), "never"), reason)
		p.Rows[len(p.Rows)-1][3].State = n.State
	}
	return p
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func notActedOn(s *site.Status) part {
	p := part{Title: "Designed, and not acted on"}
	all := s.NotActedOn()
	for _, u := range all[:p.leave(len(all), mostFindings, "part", "slipway status --output json")] {
		p.add(u.String())
	}
	return p
}

func findings(f Facts) part {
	p := part{Title: "Findings about the design", Head: []string{"severity", "place", "finding", "why", "what to do"}}
	for _, x := range f.Findings[:p.leave(len(f.Findings), mostFindings, "finding", "slipway check")] {
		p.add(string(x.Severity), x.Place(), x.Message, x.Why, x.Fix)
	}
	return p
}

func machineFindings(s *site.Status) part {
	p := part{Title: "Findings about machines", Head: []string{"node", "finding"}}
	n := 0
	for _, node := range s.Nodes {
		for _, x := range node.Findings {
			if n++; n <= mostFindings {
				p.add(node.Name, x.Message)
			}
		}
	}
	p.leave(n, mostFindings, "finding", "slipway why NODE")
	return p
}

func approvals(s *site.Status) part {
	p := part{Title: "Approvals that were given", Head: []string{"node", "action", "is lost", "approved by", "at (UTC)", "outcome", "note"}}
	newest := slices.Clone(s.Ledger)
	slices.Reverse(newest)
	for _, e := range newest[:p.leave(len(newest), mostFindings, "approval", "slipway audit")] {
		p.add(e.Loss.Node, e.Loss.Action, e.Loss.Lost, e.Source.String(), brief(e.Opened), e.Result(), e.Note)
	}
	return p
}

func events(f Facts) part {
	p := part{Title: "Latest events", Head: []string{"when (UTC)", "node", "kind", "what", "took"}}
	newest := slices.Clone(f.Events)
	slices.Reverse(newest)
	for _, e := range newest[:p.leave(len(newest), mostEvents, "event", "slipway events")] {
		took := ""
		if e.Took > 0 {
			took = say.Rough(time.Duration(e.Took))
		}
		p.add(brief(e.When), cmp.Or(e.Node, "site"), string(e.Kind), present.EventLine(e), took)
	}
	return p
}
