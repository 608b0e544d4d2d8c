package plan

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// markdownLimit is how much a comment may hold: GitHub takes 65,536 characters,
// and others more.
const markdownLimit = 60_000

// Markdown writes a plan as a comment of a pull request: the verdict first,
// then what is destroyed, a table by shape, how it will run, and the details
// folded. Whatever others wrote, in the design or on a machine, is only text in
// it. What does not fit is cut at the end of a part, and the last line says
// what is missing.
func Markdown(w io.Writer, p *site.Plan, v View) {
	d := document{left: markdownLimit - 500} // for that line
	d.add("", verdict(p)+"\n\n")
	d.leaving(markdownLimit/2, func() { d.destroyed(p, v) })
	if f := p.Forecast; f != nil && len(f.Warnings) > 0 {
		d.add("", "Warnings:\n\n")
		for _, x := range f.Warnings {
			d.add("warnings", "- "+escape(x)+"\n")
		}
		d.add("", "\n")
	}
	groups := group(p.Nodes)
	d.leaving(markdownLimit/4, func() { d.table(groups) })
	if p.Forecast != nil {
		d.forecast(p.Forecast, v.Site)
	}
	for _, g := range groups {
		d.details(g)
	}
	for _, r := range p.Removes {
		d.add("nodes that leave the design", removed(r))
	}
	io.WriteString(w, strings.TrimRight(d.text.String(), "\n")+"\n"+d.missing())
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
	if kind == "" {
		d.left = 0 // what follows is nothing without it
		return
	}
	d.cut = append(d.cut, shortage{kind, 1})
}

// leaving adds parts and leaves some room for others.
func (d *document) leaving(room int, add func()) {
	d.left -= room
	add()
	d.left += room
}

func (d *document) missing() string {
	var parts []string
	for _, c := range d.cut {
		parts = append(parts, fmt.Sprintf("%d %s", c.count, c.kind))
	}
	if len(parts) == 0 {
		return ""
	}
	return "\n**Cut at 60,000 characters.** Left out: " + strings.Join(parts, ", ") + ". `slipway plan` shows all.\n"
}

// verdict is the plan in one line.
func verdict(p *site.Plan) string {
	change, reboot, wiped := p.Counts()
	parts := []string{"nothing changes"}
	if change > 0 {
		parts[0] = fmt.Sprintf("%s: %s, %d wiped", changes(change), count(reboot, "reboot"), wiped)
		if p.Forecast != nil && len(p.Forecast.Order) > 0 {
			parts = append(parts, headline(p.Forecast))
		}
	}
	if n := len(p.Removes); n > 0 {
		parts = append(parts, count(n, "node")+" removed from the design")
	}
	if n := blocked(p); n > 0 {
		parts = append(parts, fmt.Sprintf("%d blocked", n))
	}
	return strings.Join(parts, "; ")
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

func (d *document) destroyed(p *site.Plan, v View) {
	all := Destroyed(p, v.Known)
	if len(all) == 0 {
		return
	}
	d.add("", fmt.Sprintf("**What is destroyed, as set `%s`:**\n\n", p.Destroys().Digest()))
	for _, x := range all {
		d.add("entries of what is destroyed", fmt.Sprintf("- **%s** (%s): **%s loses %s**; %s\n",
			escape(x.Node), escape(x.Machine.String()), escape(x.Action), escape(x.Lost), escape(x.disks())))
	}
	d.add("", "\n")
}

func (d *document) table(groups []nodeGroup) {
	if !slices.ContainsFunc(groups, func(g nodeGroup) bool { return len(g.first.Steps) > 0 }) {
		return
	}
	d.add("", "| nodes | steps | impact | about |\n|---|---|---|---|\n")
	for _, g := range groups {
		if len(g.first.Steps) > 0 {
			d.add("rows of the table", fmt.Sprintf("| %s | %s | %s | %s |\n", escape(g.head(5)), escape(actions(g.first.Steps)), worst(g.first), Brief(g.first.Expect)))
		}
	}
	d.add("", "\n")
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

func (d *document) details(g nodeGroup) {
	var b strings.Builder
	fmt.Fprintf(&b, "<details><summary>%s</summary>\n\n", escape(g.head(200)))
	for _, s := range g.first.Steps {
		b.WriteString(stepItem(s, len(g.names)))
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
	for _, x := range remarks(g.first) {
		b.WriteString("- " + escape(x) + "\n")
	}
	b.WriteString("\n</details>\n\n")
	d.add("details of "+shape(g), b.String())
}

// shape says whose details were cut.
func shape(g nodeGroup) string {
	if len(g.first.Steps) > 0 {
		return "nodes that change (by shape)"
	}
	return "other nodes (by shape)"
}

func stepItem(s site.Step, nodes int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "- **%s**: %s, about %s; %s%s\n", escape(string(s.Action)), s.Impact, Brief(s.Expect), escape(s.Reason), serves(s))
	for _, c := range s.Changes {
		fmt.Fprintf(&b, "  - %s: %s → %s", literal(c.Name()), literal(orNone(c.Have)), literal(orNone(c.Want)))
		if o := origins(c, s.Node, nodes); o != "" {
			b.WriteString(", " + escape(o))
		}
		b.WriteString("\n")
	}
	if s.Undo != "" {
		b.WriteString("  - " + escape(undo(s)) + "\n")
	}
	return b.String()
}

func removed(r site.Removal) string {
	line := "- **" + escape(r.Node) + "** leaves the design; its machine is left as it is"
	if r.Held != "" {
		line += "; held: " + escape(r.Held)
	}
	return line + "\n"
}

// literal is a value as code, in which nobody is mentioned and nothing linked.
func literal(s string) string { return "<code>" + escape(s) + "</code>" }

// special are what CommonMark, GitHub's and GitLab's Markdown and HTML make
// something of within a line. As entities they are only text (CommonMark 6.2:
// an entity never stands for structure). Text of others is never at the
// beginning of a line. References are what names people, issues and the like;
// they are found in the text that is shown, and a space without width after
// them keeps them from it.
const (
	special    = "\\`*_[]<>|:"
	references = "@#!&~$"
)

// escape is text in a line of Markdown or HTML.
func escape(s string) string {
	var b strings.Builder
	runes := []rune(clean(s))
	for i, r := range runes {
		switch {
		case strings.ContainsRune(references, r):
			fmt.Fprintf(&b, "&#%d;&#8203;", r)
		case r == ':' && i+1 < len(runes) && runes[i+1] == ' ':
			b.WriteRune(r)
		case strings.ContainsRune(special, r), r == '.' && i >= 3 && strings.EqualFold(string(runes[i-3:i]), "www"):
			fmt.Fprintf(&b, "&#%d;", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
