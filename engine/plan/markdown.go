package plan

import (
	"fmt"
	"io"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// markdownLimit is how much a comment may hold: GitHub takes 65,536 characters,
// and others more.
const markdownLimit = 60_000

// Comment writes a review as a comment of a pull request: the verdict first,
// then what is taken out of service, what is destroyed, findings, a table by
// shape, how it will run, the details folded, and what all of it rests on.
// Whatever others wrote, in the design or on a machine, is only text in it.
//
// Where it gets too long it says less of each part (see tiers), and what does
// not fit even then is cut at the end of a part; the last line says what is
// missing. It reports whether everything that is destroyed is named, since
// only that can be approved by whoever reads it.
func Comment(w io.Writer, r *site.Review, v View) (whole bool) {
	var c comment
	for _, t := range tiers {
		c = comment{document: document{left: markdownLimit - 1000}, tier: t, review: r, view: v} // for the last lines
		c.write()
		if len(c.cut) == 0 {
			break
		}
	}
	io.WriteString(w, strings.TrimRight(c.text.String(), "\n")+"\n"+c.missing()+c.stands())
	return !c.unnamed
}

// tier is how much is said of each part.
type tier struct {
	names   int  // of nodes, where many are alike
	disks   bool // what is known of those that are erased, beside their names
	details bool // folded, with where each value comes from
	apart   bool // one line for each machine that is erased
}

var tiers = []tier{
	{names: 100, disks: true, details: true, apart: true},
	{names: 20, apart: true},
	{names: 5},
}

// comment is a review being written.
type comment struct {
	document
	tier
	review  *site.Review
	view    View
	unnamed bool // not all that is destroyed is named
}

func (c *comment) write() {
	r := c.review
	c.add("verdicts", c.title("Slipway plan for site ")+Verdict(r)+"\n\n")
	if r.Problem != "" {
		c.add("problems", "Cannot plan: "+escape(r.Problem)+"\n\n")
	}
	if r.Allow != "" {
		c.add("problems", "To have this commit planned, and no other, somebody who may write to the repository comments:\n\n"+literal("/slipway approve "+r.Allow)+"\n\n")
	}
	c.list("conflicts", "Conflicts, to be solved on the proposal's branch:", r.Conflicts, r.More)
	groups := group(r.Plan.Nodes)
	c.leaving(3*markdownLimit/4, func() { c.interrupted(groups) })
	c.leaving(markdownLimit/4, c.destroyed)
	c.leaving(markdownLimit/8, c.findings)
	c.list("rules", "It changes rules that other proposals are held to:", r.Rules, 0)
	if f := r.Plan.Forecast; f != nil {
		c.list("warnings", "Warnings:", f.Warnings, 0)
	}
	c.leaving(markdownLimit/8, func() { c.table(groups) })
	if f := r.Plan.Forecast; f != nil {
		c.forecast(f, c.view.Site)
	}
	c.notActedOn()
	c.basis()
	for _, g := range groups {
		c.nodes(g)
	}
	c.removes()
	c.pending()
}

// notActedOn says what the proposal designs that no driver acts on.
func (c *comment) notActedOn() {
	var parts []string
	for _, u := range notActedOn(&c.review.Plan) {
		parts = append(parts, u.String())
	}
	c.list("parts that nothing acts on", "Designed, and not acted on: no driver brings it about, and nobody looks whether it is so:", parts, 0)
}

// document is Markdown that grows part by part up to a limit in bytes.
type document struct {
	text strings.Builder
	left int
	cut  []shortage
}

// shortage is how many parts of a kind did not fit.
type shortage struct {
	kind  string
	count int
}

// add adds a part of a kind, or counts that it does not fit. Once one of a kind
// does not, no more of it follow.
func (d *document) add(kind, part string) {
	for i := range d.cut {
		if d.cut[i].kind == kind {
			d.cut[i].count++
			return
		}
	}
	if len(part) <= d.left {
		d.text.WriteString(part)
		d.left -= len(part)
		return
	}
	d.cut = append(d.cut, shortage{kind, 1})
}

// section adds parts of a kind under a heading, and a line after them. Without
// room for the first part there is no heading either.
func (d *document) section(kind, heading string, parts []string, last string) {
	if len(parts) == 0 {
		return
	}
	around := len(heading) + len(last) + len("\n\n")
	if around+len(parts[0]) > d.left {
		d.cut = append(d.cut, shortage{kind, len(parts)})
		return
	}
	d.left -= around
	d.text.WriteString(heading)
	for _, part := range parts {
		d.add(kind, part)
	}
	if !strings.HasSuffix(d.text.String(), "\n") {
		d.text.WriteString("\n") // it was cut within a line
	}
	d.text.WriteString(last + "\n")
}

// list is a section with an item for each text.
func (d *document) list(kind, heading string, texts []string, more int) {
	items := make([]string, 0, len(texts))
	for _, x := range texts {
		items = append(items, "- "+escape(x)+"\n")
	}
	last := ""
	if more > 0 {
		last = fmt.Sprintf("- and %d more\n", more)
	}
	d.section(kind, heading+"\n\n", items, last)
}

// leaving adds parts and leaves some room for others.
func (d *document) leaving(room int, add func()) {
	d.left -= room
	add()
	d.left += room
}

// missing says what was cut, and where the whole is.
func (c *comment) missing() string {
	var parts []string
	for _, x := range c.cut {
		parts = append(parts, fmt.Sprintf("%d %s", x.count, x.kind))
	}
	if len(parts) == 0 {
		return ""
	}
	set := ""
	if all := c.review.Plan.Destroys(); len(all) > 0 {
		set = ", what is destroyed as set `" + all.Digest() + "`"
	}
	return fmt.Sprintf("\n**Cut at 60,000 characters.** Left out: %s. %s shows all%s.\n", strings.Join(parts, ", "), c.whole(), set)
}

// whole is the command that shows all of a review.
func (c *comment) whole() string {
	if c.review.Proposal.Number == 0 || c.review.Landing != nil {
		return "`slipway plan`"
	}
	return "`slipway plan`, in a copy of the branch with this merged into it,"
}

// stands says which commits a review is of.
func (c *comment) stands() string {
	r := c.review
	if r.Proposal.Head == "" || r.Base == "" {
		return ""
	}
	return fmt.Sprintf("\n%s merged into %s; planned %s.\n", literal(site.Revision{ID: r.Proposal.Head}.Short()),
		literal(site.Revision{ID: r.Base}.Short()), r.When.UTC().Format("2006-01-02 15:04 MST"))
}

// title begins the heading of a comment on a proposal: a repository may have
// several sites, each with its own comment.
func (c *comment) title(what string) string {
	if c.review.Proposal.Number == 0 {
		return ""
	}
	return "### " + what + literal(c.review.Site) + ": "
}

// Verdict is a review in one line.
func Verdict(r *site.Review) string {
	if r.Landing != nil {
		return landedVerdict(r)
	}
	p := &r.Plan
	errors := 0
	for _, f := range r.Findings {
		if f.Severity == site.SeverityError {
			errors++
		}
	}
	var parts []string
	switch change, reboot, wiped := p.Counts(); {
	case len(r.Conflicts) > 0:
		parts = append(parts, "cannot plan: conflicts in "+inFiles(r))
	case r.Problem != "":
		parts = append(parts, "no plan")
	case errors > 0:
		parts = append(parts, "no plan: "+count(errors, "error")+" in the design")
	case change > 0:
		parts = append(parts, fmt.Sprintf("%s: %s, %d wiped", changes(change), count(reboot, "reboot"), wiped))
		if p.Forecast != nil && len(p.Forecast.Order) > 0 {
			parts = append(parts, headline(p.Forecast))
		}
	default:
		parts = append(parts, "nothing changes")
	}
	if n := len(p.Removes); n > 0 {
		parts = append(parts, count(n, "node")+" removed from the design")
	}
	if n := blocked(p); n > 0 {
		parts = append(parts, fmt.Sprintf("%d blocked", n))
	}
	if n := len(r.Findings); n > 0 {
		parts = append(parts, count(n, "finding"))
	}
	return strings.Join(parts, "; ")
}

// inFiles names the first file that conflicts.
func inFiles(r *site.Review) string {
	file, _, _ := strings.Cut(r.Conflicts[0], ": ")
	if more := len(r.Conflicts) - 1 + r.More; more > 0 {
		return escape(file) + " and " + count(more, "more file")
	}
	return escape(file)
}

func changes(n int) string {
	if n == 1 {
		return "1 node changes"
	}
	return fmt.Sprintf("%d nodes change", n)
}

func count(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

func blocked(p *site.Plan) int {
	blocked := 0
	for _, n := range p.Nodes {
		if len(n.Blocked) > 0 {
			blocked++
		}
	}
	return blocked
}

// interrupted names what is taken out of service and keeps its data.
func (c *comment) interrupted(groups []nodeGroup) {
	var lines []string
	for _, g := range groups {
		if worst(g.first) == site.ImpactReboot {
			lines = append(lines, fmt.Sprintf("- **%s**: %s, about %s each\n", g.named(min(c.names, 20)), escape(actions(g.first.Steps)), Brief(g.first.Expect)))
		}
	}
	c.section("machines taken out of service (by shape)", "Taken out of service:\n\n", lines, "")
}

// named is head in Markdown.
func (g nodeGroup) named(some int) string {
	if len(g.names) <= some+1 {
		some = len(g.names)
	}
	names := make([]string, some)
	for i := range names {
		names[i] = escape(g.names[i])
	}
	head := strings.Join(names, ", ")
	if some < len(g.names) {
		head += ", …"
	}
	if len(g.names) > 1 {
		head += fmt.Sprintf(" (%d nodes)", len(g.names))
	}
	return head
}

// findings tells what is wrong with the design, errors first.
func (c *comment) findings() {
	var lines []string
	for _, s := range []site.Severity{site.SeverityError, site.SeverityWarning, site.SeverityNote} {
		for _, f := range c.review.Findings {
			if f.Severity == s {
				lines = append(lines, c.finding(f))
			}
		}
	}
	before := ""
	if n := c.review.Before; n > 0 {
		before = fmt.Sprintf("- and %s that the branch has too\n", count(n, "finding"))
	}
	c.section("findings", "Findings:\n\n", lines, before)
}

func (c *comment) finding(f site.Finding) string {
	line := "- " + escape(string(f.Severity)) + " "
	if place := f.Place(); place != "" {
		line += linked(place, c.view.Pages, f.File, f.Line) + ": "
	}
	line += escape(f.Message)
	if f.Code != "" {
		line += " (" + literal(f.Code) + ")"
	}
	for _, x := range []string{f.Others(), f.Fix} {
		if x != "" {
			line += "; " + escape(x)
		}
	}
	return line + "\n"
}

func (c *comment) table(groups []nodeGroup) {
	var rows []string
	for _, g := range groups {
		if len(g.first.Steps) > 0 {
			rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s |\n",
				escape(g.shape()), escape(actions(g.first.Steps)), worst(g.first), Brief(g.first.Expect)))
		}
	}
	c.section("rows of the table", "| nodes | steps | impact | about |\n|---|---|---|---|\n", rows, "")
}

// shape is what changes and for whom: "profile compute: 412 nodes, one
// difference" where all of it comes from one layer that nodes share.
func (g nodeGroup) shape() string {
	layer, differences := "", 0
	for _, s := range g.first.Steps {
		for _, c := range s.Changes {
			differences++
			if l := c.Origin.LayerName(); differences == 1 {
				layer = l
			} else if l != layer {
				layer = ""
			}
		}
	}
	name, isProfile := strings.CutPrefix(layer, "profile/")
	head := g.head(5)
	if isProfile && len(g.names) > 1 {
		head = fmt.Sprintf("profile %s: %d nodes", name, len(g.names))
	}
	switch differences {
	case 0:
		return head
	case 1:
		return head + ", one difference"
	}
	return fmt.Sprintf("%s, %d differences", head, differences)
}

func (d *document) forecast(f *site.Forecast, s *site.Site) {
	if len(f.Order) == 0 {
		return
	}
	var b strings.Builder
	b.WriteString("<details><summary>How it runs: " + escape(headline(f)) + "</summary>\n\n")
	rows := rowsOf(f, s)
	for _, r := range rows[:min(len(rows), pictureRows)] {
		fmt.Fprintf(&b, "- %s to %s: %s: %s\n", since(r.from), since(r.to), escape(r.name), escape(r.what))
	}
	if more := len(rows) - pictureRows; more > 0 {
		fmt.Fprintf(&b, "- … %d more\n", more)
	}
	if len(f.Order) > 1 {
		b.WriteString("\nCritical path:\n\n")
		for _, line := range pathLines(f) {
			b.WriteString("- " + escape(line) + "\n")
		}
	}
	b.WriteString("\nBasis: " + escape(f.Basis) + "\n\n</details>\n\n")
	d.add("forecasts", b.String())
}

// nodes are the details of nodes that are alike.
func (c *comment) nodes(g nodeGroup) {
	var b strings.Builder
	const headed = 5 // more are within
	fmt.Fprintf(&b, "<details><summary>%s</summary>\n\n", g.named(headed))
	if len(g.names) > headed+1 && c.names > headed {
		b.WriteString("- nodes: " + g.named(c.names) + "\n")
	}
	for _, s := range g.first.Steps {
		b.WriteString(c.step(s, len(g.names)))
	}
	for _, x := range g.first.Blocked {
		b.WriteString("- blocked: " + escape(x) + "\n")
	}
	if x := g.first.Waiting; x != "" {
		b.WriteString("- waiting: " + escape(x) + "\n")
	}
	for _, x := range g.first.Reported {
		b.WriteString("- reported: " + escape(x) + "\n")
	}
	if c.tier.details {
		for _, x := range remarks(g.first) {
			b.WriteString("- " + escape(x) + "\n")
		}
		b.WriteString("- seen: " + seen(g.nodes, c.view.Now) + "\n")
	}
	b.WriteString("\n</details>\n\n")
	c.add("details of "+kindOf(g), b.String())
}

// kindOf says whose details were cut.
func kindOf(g nodeGroup) string {
	if len(g.first.Steps) > 0 {
		return "nodes that change (by shape)"
	}
	return "other nodes (by shape)"
}

func (c *comment) step(s site.Step, nodes int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "- **%s**: %s, about %s; %s%s\n", escape(string(s.Action)), s.Impact, Brief(s.Expect), escape(s.Reason), serves(s))
	for _, x := range s.Changes {
		fmt.Fprintf(&b, "  - %s: %s → %s", literal(x.Name()), literal(orNone(x.Have)), literal(orNone(x.Want)))
		if o := origins(x, s.Node, nodes); o != "" && c.tier.details {
			b.WriteString(", " + escape(o))
		}
		b.WriteString("\n")
	}
	if s.Undo != "" && c.tier.details {
		b.WriteString("  - " + escape(undo(s)) + "\n")
	}
	return b.String()
}

func (c *comment) removes() {
	var lines []string
	for _, r := range c.review.Plan.Removes {
		line := "- **" + escape(r.Node) + "** leaves the design; its machine is left as it is"
		if r.Held != "" {
			line += "; held: " + escape(r.Held)
		}
		lines = append(lines, line+"\n")
	}
	c.section("nodes that leave the design", "", lines, "")
}
