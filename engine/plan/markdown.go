package plan

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// markdownLimit is how much a comment may hold: GitHub takes 65,536 characters,
// and others more.
const markdownLimit = 60_000

// Comment writes a review as a comment of a pull request: the verdict first,
// then what is erased, findings, a table of the changes by shape, how long it
// takes, the details folded, and the observations that all of it is based on.
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
	c.differences()
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
	unnamed bool                   // not all that is destroyed is named
	asked   map[string]site.Origin // what asks for what a node loses
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
	c.conflicts()
	groups := group(r.Plan.Nodes)
	c.leaving(markdownLimit/4, c.destroyed)
	c.made()
	c.leaving(markdownLimit/8, c.findings)
	c.list("rules", "This changes site-wide rules:", r.Rules, 0)
	if f := r.Plan.Forecast; f != nil {
		c.list("warnings", "Warnings:", f.Warnings, 0)
	}
	if idle(r) {
		c.add("verdicts", "Merging this does nothing to any machine.\n\n")
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

// idle says whether a proposal was planned, and changes nothing.
func idle(r *site.Review) bool {
	return r.Proposal.Number > 0 && verdictOfPlan(r) == unchanged && len(r.Plan.Removes) == 0 && blocked(&r.Plan) == 0
}

// conflicts say what is in the way of a merge, and what to do.
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

// notActedOn says what the proposal designs that no driver acts on.
func (c *comment) notActedOn() {
	var parts []string
	for _, u := range notActedOn(&c.review.Plan) {
		parts = append(parts, u.String())
	}
	c.list("parts that nothing acts on", "In the design, but no driver applies or checks it:", parts, 0)
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
		set = ", with what is erased (set `" + all.Digest() + "`)"
	}
	return fmt.Sprintf("\n**Cut at 60,000 characters.** Left out: %s. %s shows everything%s.\n", strings.Join(parts, ", "), c.whole(), set)
}

// whole is the command that shows all of a review.
func (c *comment) whole() string {
	if c.review.Proposal.Number == 0 || c.review.Landing != nil {
		return "`slipway plan`"
	}
	return "`slipway plan` in a checkout with this merged"
}

// stands says which commits a review is of.
func (c *comment) stands() string {
	r := c.review
	if r.Proposal.Head == "" || r.Base == "" {
		return ""
	}
	return fmt.Sprintf("\n<sub>%s merged into %s at %s. Planned %s.</sub>\n", literal(site.Revision{ID: r.Proposal.Head}.Short()), c.branch(),
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
	parts := []string{verdictOfPlan(r)}
	if n := len(p.Removes); n > 0 {
		parts = append(parts, count(n, "machine")+" removed from the design")
	}
	if n := blocked(p); n > 0 {
		parts = append(parts, count(n, "machine")+" blocked")
	}
	if n := len(r.Findings) - errorsOf(r); n > 0 {
		parts = append(parts, count(n, "finding"))
	}
	return strings.Join(parts, "; ")
}

// unchanged is the verdict on what does nothing.
const unchanged = "no machine changes"

// verdictOfPlan says why there is no plan, or what becomes of the machines, the
// worst first.
func verdictOfPlan(r *site.Review) string {
	switch {
	case len(r.Conflicts) > 0:
		return "no plan, this conflicts with " + escape(cmp.Or(r.Proposal.Base, "the branch")) + " in " + inFiles(r)
	case r.Problem != "":
		return "no plan"
	case errorsOf(r) > 0:
		return "no plan, the design has " + count(errorsOf(r), "error")
	}
	return becomes(&r.Plan)
}

// becomes is what becomes of the machines, the worst first.
func becomes(p *site.Plan) string {
	of := map[site.Impact][]site.NodePlan{}
	for _, n := range p.Nodes {
		if len(n.Steps) > 0 {
			i := max(worst(n), site.ImpactOnline)
			of[i] = append(of[i], n)
		}
	}
	var parts []string
	say := func(nodes []site.NodePlan, words [2]string) {
		text := fmt.Sprintf("%d ", len(nodes))
		switch {
		case len(nodes) == 0:
			return
		case len(parts) == 0 && len(nodes) == 1:
			text += "machine "
		case len(parts) == 0:
			text += "machines "
		}
		parts = append(parts, text+words[min(len(nodes), 2)-1])
	}
	erased, away := of[site.ImpactDestructive], of[site.ImpactReboot]
	interrupted, online := of[site.ImpactInterrupts], of[site.ImpactOnline]
	say(erased, [2]string{"is erased", "are erased"})
	say(away, together(away, [2]string{"is out of service for a time", "are out of service for a time"}))
	say(interrupted, [2]string{"is interrupted for a moment", "are interrupted for a moment"})
	say(online, together(online, [2]string{"changes", "change"}))
	switch {
	case len(parts) == 0:
		return unchanged
	case len(erased)+len(away)+len(interrupted) == 0:
		parts = append(parts, "all stay in service")
	case len(erased) == 0 && len(away)+len(interrupted)+len(online) > 1:
		parts = append(parts, "nothing is erased")
	}
	return strings.Join(parts, ", ")
}

// together is what happens to machines where it is the same with all, and otherwise
// something that is true of all.
func together(nodes []site.NodePlan, otherwise [2]string) [2]string {
	var same site.Action
	for _, n := range nodes {
		for _, s := range n.Steps {
			if s.Impact < worst(n) {
				continue
			}
			if same != "" && s.Action != same {
				return otherwise
			}
			same = s.Action
		}
	}
	if words, ok := deed[same]; ok {
		return words
	}
	return otherwise
}

func errorsOf(r *site.Review) int {
	errors := 0
	for _, f := range r.Findings {
		if f.Severity == site.SeverityError {
			errors++
		}
	}
	return errors
}

// inFiles names the first file that conflicts.
func inFiles(r *site.Review) string {
	file, _, _ := strings.Cut(r.Conflicts[0], ": ")
	if more := len(r.Conflicts) - 1 + r.More; more > 0 {
		return escape(file) + " and " + count(more, "more file")
	}
	return escape(file)
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
		head += fmt.Sprintf(" (%d machines)", len(g.names))
	}
	return head
}

// findings tells what is wrong with the design, errors first.
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
		last = "\n" + branchHas(c.branch(), n)
	}
	if errorsOf(c.review) > 0 {
		last += "\nPush a fix; Slipway plans again by itself.\n"
	}
	c.section("findings", "", lines, last)
}

// branchHas says that a branch has so many findings without the proposal.
func branchHas(branch string, n int) string {
	if n == 1 {
		return "1 other finding is on " + branch + " already.\n"
	}
	return fmt.Sprintf("%d other findings are on %s already.\n", n, branch)
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

// sentence is a text of others with a capital letter and a full stop. A first word
// that is a name of the design stays as it is written there.
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

// table is what happens to the machines, by shape, with the changes themselves.
// Those that are erased have a table of their own.
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

// who is a group in the table: its shape, and the rack of one machine.
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

// alone shows many machines that all change alike, and are all that changes: the
// change itself before the table. It says whether it did.
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

// deed is what an action does to a machine, and to several, in words.
var deed = map[site.Action][2]string{
	site.ActionPowerOn:       {"is switched on", "are switched on"},
	site.ActionPowerOff:      {"is switched off", "are switched off"},
	site.ActionBootOrder:     {"changes its boot order", "change their boot order"},
	site.ActionStartAgent:    {"starts Slipway's agent in memory", "start Slipway's agent in memory"},
	site.ActionInstall:       {"is erased and installed", "are erased and installed"},
	site.ActionFinishInstall: {"ejects its installation medium", "eject their installation media"},
	site.ActionRestart:       {"restarts", "restart"},
	site.ActionFirmware:      {"gets new firmware", "get new firmware"},
	site.ActionBIOS:          {"gets new BIOS settings", "get new BIOS settings"},
	site.ActionPackages:      {"gets new packages", "get new packages"},
	site.ActionBase:          {"gets other accounts or basic settings", "get other accounts or basic settings"},
	site.ActionConfig:        {"gets other files, units or parameters", "get other files, units or parameters"},
	site.ActionKernel:        {"gets another kernel or command line", "get another kernel or command line"},
	site.ActionOnce:          {"runs a boot action", "run a boot action"},
	site.ActionNetwork:       {"gets a new network configuration", "get a new network configuration"},
	site.ActionDefine:        {"gets a new definition", "get a new definition"},
	site.ActionDisks:         {"gets new or larger disks", "get new or larger disks"},
	site.ActionRemoveSeed:    {"drops its first-boot seed", "drop their first-boot seeds"},
	site.ActionZeroize:       {"is erased and removed", "are erased and removed"},
	site.ActionFinishErase:   {"is left off", "are left off"},
}

// deeds are what steps do to so many machines.
func deeds(steps []site.Step, machines int) string {
	var words []string
	for _, s := range steps {
		w, ok := deed[s.Action]
		switch {
		case s.Retires():
			w = [2]string{"has its disks erased", "have their disks erased"}
		case !ok:
			w = [2]string{string(s.Action), string(s.Action)}
		}
		words = append(words, w[min(machines, 2)-1])
	}
	return strings.Join(words, ", ")
}

// changed are the first changes of machines that are alike, and the lines that
// ask for them.
func (c *comment) changed(g nodeGroup) (changes, places []string) {
	const most = 3
	more := 0
	for _, s := range g.first.Steps {
		for _, x := range s.Changes {
			if len(changes) == most || !c.details {
				more++
				continue
			}
			changes = append(changes, literal(x.Name())+" "+literal(orNone(x.Have))+" → "+literal(orNone(x.Want)))
			place := c.place(x.Origin)
			if origins(x, s.Node, len(g.names)) == "each node" {
				place = "each node"
			}
			if place != "" && !slices.Contains(places, place) {
				places = append(places, place)
			}
		}
	}
	switch {
	case more > 0 && len(changes) > 0:
		changes = append(changes, fmt.Sprintf("%d more", more))
	case more > 0:
		changes = append(changes, count(more, "change"))
	}
	return changes, places
}

// away says for how long a machine is out of service.
func away(n site.NodePlan) string {
	switch last := n.Steps[len(n.Steps)-1]; {
	case worst(n) < site.ImpactInterrupts:
		return "no"
	case worst(n) == site.ImpactInterrupts:
		return "for moments"
	case last.Action == site.ActionPowerOff:
		return "yes, until it is switched on again"
	case last.Action == site.ActionZeroize || last.Action == site.ActionFinishErase:
		return "for good"
	}
	return "about " + inWords(time.Duration(n.Expect))
}

// shape is for whom something changes: "412 machines of profile compute" where all
// of it comes from one layer that they share.
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
	if name, isProfile := strings.CutPrefix(layer, "profile/"); isProfile && len(g.names) > 1 {
		return fmt.Sprintf("%d machines of profile %s", len(g.names), name)
	}
	return g.head(5)
}

// outlook says whether anything is erased, and how long all of it takes.
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

// order is how a plan will run, folded.
func (c *comment) order(f *site.Forecast) {
	if len(f.Order) < 2 {
		return // it takes as long as that one
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

// atOnce says how many machines are out of service at once, where there are more.
func atOnce(f *site.Forecast, s *site.Site) string {
	if s == nil || s.Rollout.MaxUnavailable == "" {
		return ""
	}
	if most := max(1, site.Bound(s.Rollout.MaxUnavailable, len(s.Nodes))); most < len(f.Order) {
		return fmt.Sprintf(", at most %d out of service at once (%s)", most, literal("maxUnavailable "+s.Rollout.MaxUnavailable))
	}
	return ""
}

// estimate says what the times are based on.
func estimate(f *site.Forecast) string {
	if f.Basis == "" {
		return "This is an estimate."
	}
	return "This is an estimate: " + escape(f.Basis) + "."
}

// nodes are the details of nodes that are alike.
func (c *comment) nodes(g nodeGroup) {
	var b strings.Builder
	const headed = 5 // more are within
	fmt.Fprintf(&b, "<details><summary>%s</summary>\n\n", g.named(headed))
	if len(g.names) > headed+1 && c.names > headed {
		b.WriteString("- machines: " + g.named(c.names) + "\n")
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
		b.WriteString("- " + observed(g.nodes, c.view.Now) + "\n")
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
	fmt.Fprintf(&b, "- **%s** (%s, about %s): %s%s\n", escape(string(s.Action)), s.Impact, inWords(time.Duration(s.Expect)), escape(s.Reason), serves(s))
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

// differences are those of files, folded, as far as there is room for them beside all
// else.
func (c *comment) differences() {
	if !c.tier.details {
		return
	}
	for _, d := range Differences(&c.review.Plan, c.view) {
		on := escape(d.Nodes[0])
		if n := len(d.Nodes); n > 1 {
			on = count(n, "machine")
		}
		part := fmt.Sprintf("<details><summary>Difference of %s on %s</summary>\n\n", literal(d.Path), on)
		if d.Text == "" {
			part += "Not shown (" + d.sizes() + "): " + escape(d.Why) + ".\n"
		} else {
			part += fenced("diff", d.Text)
		}
		c.add("differences of files", part+"\n</details>\n\n")
	}
}

func (c *comment) removes() {
	var lines []string
	for _, r := range c.review.Plan.Removes {
		line := "- **" + escape(r.Node) + "** leaves the design. Slipway does not touch its machine."
		if r.Held != "" {
			line += " Not removed yet: " + escape(r.Held)
		}
		lines = append(lines, line+"\n")
	}
	c.section("nodes that leave the design", "", lines, "")
}
