package present

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// markdownLimit is the maximum size of a comment: GitHub accepts 65,536
// characters, other forges more.
const markdownLimit = 60_000

// Comment writes a review as a comment on a pull request. It begins with the
// verdict and with what is erased. Findings, a table of the changes by shape,
// the duration, folded details, and the underlying observations follow. Text
// from others, in the design or on a machine, never acts as markup.
//
// If the comment gets too long, it says less of each part (see tiers). What
// still does not fit is cut at the end of a part, and the last line says what
// is missing. Comment reports whether everything that is destroyed is named,
// because a reader can approve only that.
func Comment(w io.Writer, r *site.Review, v View) (whole bool) {
	var c comment
	for _, t := range tiers {
		c = comment{document: document{left: markdownLimit - 1000}, tier: t, review: r, view: v} // for the last lines
		c.write()
		if len(c.cut) == 0 {
			break
		}
	}
	c.differences()
	io.WriteString(w, strings.TrimRight(c.text.String(), "\n")+"\n"+c.missing()+c.stands())
	return !c.unnamed
}

// tier is how much the comment says of each part.
type tier struct {
	names   int  // how many of many equal nodes are named
	disks   bool // include details of the erased disks besides their names
	details bool // include folded details, with the origin of each value
	apart   bool // give each erased machine its own line
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
	unnamed bool                   // something that is destroyed is not named
	asked   map[string]site.Origin // origins of the losses, by node
}

func (c *comment) write() {
	r := c.review
	c.add("verdicts", c.title("Slipway plan for site ")+Verdict(r)+"\n\n")
	if r.Problem != "" {
		c.add("problems", "Cannot plan: "+escape(r.Problem)+"\n\n")
	}
	if r.Allow != "" {
		c.add("problems", "**To plan this commit,** somebody with write access comments exactly this line, alone:\n\n"+literal("/slipway approve "+r.Allow)+"\n\n")
	}
	c.ofCommit()
	c.conflicts()
	groups := group(r.Plan.Nodes)
	c.leaving(markdownLimit/4, c.destroyed)
	c.made()
	c.leaving(markdownLimit/8, c.findings)
	c.list("warnings", "**This reports a compromise.** "+c.either("Merging switches", "It switches")+" nothing off until a person confirms it:", r.Incidents, 0)
	c.list("changes of rights", "**This gives people or programs more rights.** They count only after the "+c.either("merge", "commit is in force")+", once a person who may `grant` has approved them with `slipway grant`:", r.Access, 0)
	c.list("changes of rights", "This removes rights, as soon as it is "+c.either("merged", "in force")+":", r.Restrictions, 0)
	c.list("rules", "This changes site-wide rules:", r.Rules, 0)
	if f := r.Plan.Forecast; f != nil {
		c.list("warnings", "Warnings:", f.Warnings, 0)
	}
	if idle(r) {
		c.add("verdicts", c.either("Merging this", "This")+" does nothing to any machine.\n\n")
	}
	c.leaving(markdownLimit/8, func() { c.table(groups) })
	if f := r.Plan.Forecast; f != nil {
		c.outlook(f)
		c.order(f)
	}
	c.notActedOn()
	c.basis()
	for _, g := range groups {
		c.nodes(g)
	}
	c.removes()
	c.pending()
}

// either chooses the words for a proposal or for a commit without one.
func (c *comment) either(proposal, commit string) string {
	if c.review.Commit != nil {
		return commit
	}
	return proposal
}

// ofCommit says what a plan of a commit is, and that it approves nothing.
func (c *comment) ofCommit() {
	r := c.review
	if r.Commit == nil || !r.Planned() {
		return
	}
	c.add("notes", "**Nothing can be approved from this plan.** To approve, merge a pull request whose comment names what is erased, or run `slipway approve` once the commit is in force.\n\n")
	if r.Commit.Lacks {
		c.add("notes", "**This commit does not have "+literal(site.Revision{ID: r.Base}.Short())+", which is in force, in its history.** So the plan also takes back what only the design in force has. "+
			"To see what the commit itself changes, rebase its branch.\n\n")
	}
}

// idle reports whether a proposal or a commit was planned and changes nothing.
func idle(r *site.Review) bool {
	return (r.Proposal.Number > 0 || r.Commit != nil) && verdictOfPlan(r) == unchanged && len(r.Plan.Removes) == 0 && blocked(&r.Plan) == 0
}

// conflicts says what prevents a merge, and what to do.
func (c *comment) conflicts() {
	if len(c.review.Conflicts) == 0 {
		return
	}
	c.list("conflicts", "Changed here and on "+c.branch()+":", c.review.Conflicts, c.review.More)
	how := "rebase it, or merge the other branch into it"
	if base := c.review.Proposal.Base; base != "" {
		how = literal("git fetch origin && git rebase origin/" + base)
	}
	c.add("conflicts", "**To do:** update this branch ("+how+"), resolve the conflicts and push.\n\n")
}

// notActedOn lists what the proposal designs that no driver acts on.
func (c *comment) notActedOn() {
	var parts []string
	for _, u := range notActedOn(&c.review.Plan) {
		parts = append(parts, u.String())
	}
	c.list("parts that nothing acts on", "In the design, but no driver applies or checks it:", parts, 0)
}

// missing says what was cut, and where to see everything.
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
		set = ", with what is erased (set `" + all.Digest() + "`)"
	}
	return fmt.Sprintf("\n**Cut at 60,000 characters.** Left out: %s. %s shows everything%s.\n", strings.Join(parts, ", "), c.whole(), set)
}

// whole is the command that shows a whole review.
func (c *comment) whole() string {
	switch {
	case c.review.Commit != nil:
		return "`slipway plan` in a checkout of the commit"
	case c.review.Proposal.Number == 0 || c.review.Landing != nil:
		return "`slipway plan`"
	}
	return "`slipway plan` in a checkout with this merged"
}

// stands says which commits a review is about.
func (c *comment) stands() string {
	r := c.review
	if r.Proposal.Head == "" || r.Base == "" {
		return ""
	}
	if r.Commit != nil {
		return fmt.Sprintf("\n<sub>%s compared with %s, which is in force. Planned %s.</sub>\n", literal(r.Commit.Short()),
			literal(site.Revision{ID: r.Base}.Short()), r.When.UTC().Format("2006-01-02 15:04 MST"))
	}
	return fmt.Sprintf("\n<sub>%s merged into %s at %s. Planned %s.</sub>\n", literal(site.Revision{ID: r.Proposal.Head}.Short()), c.branch(),
		literal(site.Revision{ID: r.Base}.Short()), r.When.UTC().Format("2006-01-02 15:04 MST"))
}

// title begins the heading of a comment on a proposal. A repository may have
// several sites, each with its own comment.
func (c *comment) title(what string) string {
	if c.review.Proposal.Number == 0 {
		return ""
	}
	return "### " + what + literal(c.review.Site) + ": "
}

// named is head as Markdown.
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
		head += fmt.Sprintf(" (%d machines)", len(g.names))
	}
	return head
}

// findings lists what is wrong with the design, errors first.
func (c *comment) findings() {
	var lines []string
	for _, s := range []site.Severity{site.SeverityError, site.SeverityWarning, site.SeverityNote} {
		for _, f := range c.review.Findings {
			if f.Severity == s {
				lines = append(lines, fmt.Sprintf("%d. ", len(lines)+1)+c.finding(f))
			}
		}
	}
	last := ""
	if n := c.review.Before; n > 0 {
		last = "\n" + branchHas(c.onBranch(), n)
	}
	if errorsOf(c.review) > 0 {
		last += "\nPush a fix" + c.either("; Slipway plans again by itself.", ", and look at the plan of the new commit.") + "\n"
	}
	c.section("findings", "", lines, last)
}

// branchHas says how many findings the branch has without the proposal.
func branchHas(where string, n int) string {
	if n == 1 {
		return "1 other finding is " + where + " already.\n"
	}
	return fmt.Sprintf("%d other findings are %s already.\n", n, where)
}

func (c *comment) finding(f site.Finding) string {
	line := ""
	if place := f.Place(); place != "" {
		if f.Line > 0 {
			place = fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		line += "**" + linked(place, c.view.Pages, f.File, f.Line) + "** "
	}
	if f.Severity != site.SeverityError {
		line += escape(string(f.Severity)) + ": "
	}
	for _, x := range []string{f.Message, f.Others(), f.Fix} {
		if x != "" {
			line += sentence(x) + " "
		}
	}
	if f.Code != "" {
		line += literal(f.Code)
	}
	return strings.TrimRight(line, " ") + "\n"
}

// sentence gives foreign text a capital letter and a full stop. It leaves a first
// word that is a name of the design unchanged.
func sentence(text string) string {
	text = strings.TrimSpace(text)
	word, _, _ := strings.Cut(text, " ")
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return r < 'a' || r > 'z' }) {
		text = strings.ToUpper(word[:1]) + text[1:]
	}
	if end := escape(text); strings.HasSuffix(end, ".") || strings.HasSuffix(end, "?") || strings.HasSuffix(end, "!") {
		return end
	}
	return escape(text) + "."
}

// table lists what happens to the machines, by shape, with the changes. Erased
// machines have their own table.
func (c *comment) table(groups []nodeGroup) {
	var shown []nodeGroup
	erased := 0
	for _, g := range groups {
		switch {
		case len(g.first.Steps) == 0:
		case worst(g.first) == site.ImpactDestructive && c.apart && !c.unnamed:
			erased++
		default:
			shown = append(shown, g)
		}
	}
	if len(shown) == 0 && erased > 0 {
		c.add("verdicts", "No other machine changes.\n\n")
		return
	}
	if len(shown) == 1 && erased == 0 && c.alone(shown[0]) {
		return
	}
	var rows []string
	for _, g := range shown {
		changes, places := c.changed(g)
		what := escape(deeds(g.first.Steps, len(g.names)))
		if len(changes) > 0 {
			what += ": " + strings.Join(changes, "; ")
		}
		rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s |\n", c.who(g), what, strings.Join(places, ", "), away(g.first)))
	}
	c.section("rows of the table", "| machines | what happens | asked for in | out of service |\n|---|---|---|---|\n", rows, "")
}

// who names a group in the table: its shape, and the rack of a single machine.
func (c *comment) who(g nodeGroup) string {
	text := escape(g.shape())
	if len(g.names) > 1 {
		return text
	}
	if s := c.view.Site; s != nil && s.Nodes[g.first.Node] != nil && s.Nodes[g.first.Node].Rack != "" {
		return "**" + text + "** (rack " + escape(s.Nodes[g.first.Node].Rack) + ")"
	}
	return "**" + text + "**"
}

// alone shows the change itself before the table, if all changing machines
// change alike. It reports whether it did.
func (c *comment) alone(g nodeGroup) bool {
	const most = 3
	changes, places := c.changed(g)
	if len(g.names) < 2 || len(changes) == 0 || len(changes) > most {
		return false
	}
	text := ""
	for _, x := range changes {
		text += "**" + x + "**\n"
	}
	on := "on all " + escape(g.shape())
	if len(g.names) == 2 {
		on = "on " + escape(g.shape())
	}
	if len(places) > 0 {
		on += " (" + strings.Join(places, ", ") + ")"
	}
	each := "out of service each"
	c.section("rows of the table", text+on+"\n\n| machines | what happens | "+each+" |\n|---|---|---|\n",
		[]string{fmt.Sprintf("| %s | %s | %s |\n", escape(g.shape()), escape(deeds(g.first.Steps, len(g.names))), away(g.first))}, "")
	return true
}

// outlook says whether anything is erased, and how long everything takes.
func (c *comment) outlook(f *site.Forecast) {
	if len(f.Order) == 0 {
		return
	}
	text := ""
	if _, _, destructive := c.review.Plan.Counts(); destructive == 0 {
		text = "Nothing is erased. "
	}
	takes := inWords(time.Duration(f.Makespan))
	if wait := begin(f); wait > 0 {
		text += "Begins in " + inWords(wait) + " and then takes about **" + takes + "**"
	} else {
		text += "Takes about **" + takes + "**"
	}
	c.add("forecasts", text+atOnce(f, c.view.Site)+". "+estimate(f)+"\n\n")
}

// order shows, folded, the order in which a plan will run.
func (c *comment) order(f *site.Forecast) {
	if len(f.Order) < 2 {
		return // the forecast says it all
	}
	var b strings.Builder
	b.WriteString("<details><summary>In which order</summary>\n\n")
	rows := rowsOf(f, c.view.Site)
	for _, r := range rows[:min(len(rows), pictureRows)] {
		fmt.Fprintf(&b, "- %s to %s: %s: %s\n", since(r.from), since(r.to), escape(r.name), escape(r.what))
	}
	if more := len(rows) - pictureRows; more > 0 {
		fmt.Fprintf(&b, "- … %d more\n", more)
	}
	b.WriteString("\nCritical path:\n\n")
	for _, line := range pathLines(f) {
		b.WriteString("- " + escape(line) + "\n")
	}
	b.WriteString("\n</details>\n\n")
	c.add("forecasts", b.String())
}

// atOnce says how many machines are out of service at once, if that limits the plan.
func atOnce(f *site.Forecast, s *site.Site) string {
	if s == nil || s.Rollout.MaxUnavailable == "" {
		return ""
	}
	if most := max(1, site.Bound(s.Rollout.MaxUnavailable, len(s.Nodes))); most < len(f.Order) {
		return fmt.Sprintf(", at most %d out of service at once (%s)", most, literal("maxUnavailable "+s.Rollout.MaxUnavailable))
	}
	return ""
}

// estimate says what the durations are based on.
func estimate(f *site.Forecast) string {
	if f.Basis == "" {
		return "This is an estimate."
	}
	return "This is an estimate: " + escape(f.Basis) + "."
}
