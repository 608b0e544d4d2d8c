package present

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// destroyed names what is erased, by node and machine, or says that there is no
// room to name it.
func (c *comment) destroyed() {
	set := c.review.Approves()
	if len(set) == 0 {
		c.grown()
		return
	}
	entries := c.entries(set)
	heading, last := c.around(set)
	size := len(heading) + len(last) + len("\n\n")
	for _, x := range entries {
		size += len(x)
	}
	c.unnamed = size > c.left
	heading, last = c.around(set)
	c.section("entries of what is erased", heading, entries, last)
	c.grown()
}

// grown names what was added to the erasures since people could first read the comment.
func (c *comment) grown() {
	set := c.review.Grown
	if len(set) == 0 {
		return
	}
	heading := caution(fmt.Sprintf("**Added since this commit was first planned: %s would be erased** (set `%s`).", say.Count(len(set), "more machine"), set.Digest()),
		"**Merging does not approve this.** To have a merge approve all of it, somebody with write access comments `/slipway plan` before the merge.")
	c.section("entries of what was added", heading+c.columns("what would be lost"), c.entries(set), "")
}

// caution returns a warning box with the given lines.
func caution(lines ...string) string {
	return "> [!CAUTION]\n> " + strings.Join(lines, "\n> ") + "\n\n"
}

// around returns the text before and after the machines of a set: what is lost,
// and how to approve it.
func (c *comment) around(set site.Losses) (before, after string) {
	digest, of := set.Digest(), say.Count(len(set), "machine")
	switch {
	case c.unnamed:
		return caution("**This erases "+of+"** (set `"+digest+"`).",
			"**Merging does not approve it,** because this comment has no room to name all of them. "+c.whole()+" shows them. After the merge, run `slipway approve "+digest+"`.") +
			c.columns("what is lost"), ""
	case c.review.Proposal.Number > 0:
		return caution("**Merging this erases "+of+".** Everything listed here is lost for good.") + c.columns("what is lost"),
			"\n**To approve:** merge. Merging approves exactly this (set `" + digest + "`). Anything added later needs its own approval.\n" +
				"**To plan again:** comment `/slipway plan`.\n"
	}
	return caution("**This erases "+of+"** (set `"+digest+"`). Everything listed here is lost for good.") + c.columns("what is lost"), ""
}

// columns begins the table of what is lost. If there is little room, machines
// that lose the same share a line and there is no table.
func (c *comment) columns(lost string) string {
	if !c.apart {
		return ""
	}
	return "| machine | " + lost + " | asked for in |\n|---|---|---|\n"
}

// entries returns the lines of a set: a row for each machine, or a line for all that
// lose the same. They name every disk, because an approval covers exactly these.
func (c *comment) entries(set site.Losses) []string {
	var lines []string
	if c.apart {
		for _, x := range withDrives(set, c.view.Known) {
			lines = append(lines, fmt.Sprintf("| **%s** (%s) | %s | %s |\n", escape(x.Node), c.machine(x.Loss), c.lost(x), c.askedFor(x.Loss)))
		}
		return lines
	}
	for _, alike := range byWhatIsLost(set) {
		lines = append(lines, "- **"+escape(alike[0].Action)+" erases "+escape(alike[0].Lost)+"**, on each of:")
		for i, l := range alike {
			end := ","
			if i == len(alike)-1 {
				end = "\n"
			}
			disks := c.lost(Destruction{Loss: site.Loss{Lost: everything, Disks: l.Disks}})
			lines = append(lines, " **"+escape(l.Node)+"** ("+c.machine(l)+"; "+disks+")"+end)
		}
	}
	return lines
}

// machine says which machine loses something, and where it is: "serial EX103, rack
// r1".
func (c *comment) machine(l site.Loss) string {
	if l.Machine.Serial != "" {
		l.Machine.UUID = "" // long
	}
	text := l.Target()
	if s := c.view.Site; s != nil && s.Nodes[l.Node] != nil && s.Nodes[l.Node].Rack != "" && c.details {
		text += ", rack " + s.Nodes[l.Node].Rack
	}
	return escape(text)
}

// everything is what installing a machine with its own disks destroys.
const everything = "everything on its disks"

// lost says what a machine loses, with each of its disks: "2 disks: 960 GB
// LAB-NVME E35E61B84E, CAE85F0D0A".
func (c *comment) lost(d Destruction) string {
	disks := ""
	switch d.Disks {
	case "":
		disks = "disks that Slipway has not read yet; nobody can approve this before it has"
	case site.DisksUnknown:
		disks = "all disks; this machine does not say which ones it has"
	default:
		names := strings.Split(d.Disks, ", ")
		told := make([]string, len(names))
		for i, name := range names {
			if told[i] = escape(name); c.details {
				told[i] = d.drive(name, c.disks)
			}
		}
		disks = say.Count(len(names), "disk") + ": "
		if last := len(names) - 1; names[last] == site.DisksUnread {
			disks = "at least " + say.Count(last, "disk") + ": "
		}
		disks += strings.Join(told, ", ")
	}
	if rest, is := strings.CutPrefix(d.Lost, everything); is {
		return disks + spaced(escape(rest))
	}
	return escape(d.Lost) + "; " + disks
}

// spaced puts a space before words, and none before what begins with a comma.
func spaced(s string) string {
	if s == "" || strings.HasPrefix(s, ",") {
		return s
	}
	return " " + s
}

// drive describes one of the lost disks by its name and what else is known of it.
func (d Destruction) drive(name string, known bool) string {
	i := slices.IndexFunc(d.Drives, func(x site.Drive) bool { return name == x.DiskName() })
	switch {
	case name == site.DisksUnread:
		return escape(name)
	case i < 0 || !known:
		return literal(name)
	}
	x := d.Drives[i]
	parts := []string{say.Size(x.Bytes), escape(x.Model), literal(name), ""}
	if x.Serial == "" {
		parts[2] = "without a serial number"
	}
	if x.Name != "" {
		parts[3] = "(" + escape(x.Name) + ")"
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " ")
}

// askedFor says what erases a machine, with a link to the line of the design that
// asks for it.
func (c *comment) askedFor(l site.Loss) string {
	if c.asked == nil {
		c.asked = map[string]site.Origin{}
		if l := c.review.Landing; l != nil {
			maps.Copy(c.asked, l.Lines)
		}
		for _, n := range c.review.Plan.Nodes {
			for _, s := range n.Steps {
				if s.Impact == site.ImpactDestructive && len(s.Changes) > 0 {
					c.asked[n.Node] = s.Changes[0].Origin
				}
			}
		}
	}
	if place := c.place(c.asked[l.Node]); place != "" && c.details {
		return place + " (" + escape(l.Action) + ")"
	}
	return escape(l.Action)
}

// place links to the line of an origin.
func (c *comment) place(o site.Origin) string {
	if o.String() == "" {
		return ""
	}
	return linked(fmt.Sprintf("%s:%d", o.File.Value(), o.Line), c.view.Pages, o.File.Value(), o.Line)
}

// byWhatIsLost groups the losses of a set that differ only in the machine.
func byWhatIsLost(set site.Losses) []site.Losses {
	index := map[[2]string]int{}
	var all []site.Losses
	for _, l := range set {
		k := [2]string{l.Action, l.Lost}
		i, ok := index[k]
		if !ok {
			i = len(all)
			index[k] = i
			all = append(all, nil)
		}
		all[i] = append(all[i], l)
	}
	return all
}

// basis says what the plan could not see, and how old its observations are.
func (c *comment) basis() {
	var nodes []site.NodePlan
	for _, n := range c.review.Plan.Nodes {
		if len(n.Steps)+len(n.Blocked) > 0 || n.Seen.IsZero() {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) > 0 {
		c.add("notes on what was observed", observed(nodes, c.view.Now)+"\n\n")
	}
}

// observed says when Slipway saw the machines of some nodes, and which it never
// saw.
func observed(nodes []site.NodePlan, now time.Time) string {
	var never []string
	var met []site.NodePlan
	for _, n := range nodes {
		if n.Seen.IsZero() {
			never = append(never, n.Node)
		} else {
			met = append(met, n)
		}
	}
	unseen := fmt.Sprintf("Slipway has never seen %s (%s).", say.Count(len(never), "node"), escape(say.Few(never)))
	switch {
	case len(met) == 0:
		return unseen
	case len(never) == 0:
		return "Based on observations " + ages(met, now) + "."
	}
	return "Based on observations " + ages(met, now) + ". " + unseen
}

// ages says when nodes were seen, and how long ago.
func ages(nodes []site.NodePlan, now time.Time) string {
	bySeen := func(a, b site.NodePlan) int { return a.Seen.Compare(b.Seen) }
	oldest := slices.MinFunc(nodes, bySeen)
	newest := slices.MaxFunc(nodes, bySeen)
	from, to := inWords(now.Sub(newest.Seen)), inWords(now.Sub(oldest.Seen))
	when, old := "from "+clock(oldest.Seen), to+" old"
	if first, last := clock(oldest.Seen), clock(newest.Seen); first != last {
		when = "between " + first + " and " + last
	}
	if from != to {
		old = from + " to " + old + ", oldest " + escape(oldest.Node)
	}
	return fmt.Sprintf("%s UTC (%s, %s)", when, say.Count(len(nodes), "node"), old)
}

// clock is a time of day.
func clock(t time.Time) string { return t.UTC().Format("15:04") }

// inWords writes a duration for people: "40 s", "6 min", "2 h 6 min".
func inWords(d time.Duration) string {
	switch d = d.Round(time.Second); {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 10*time.Minute && d%time.Minute != 0:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	d = d.Round(time.Minute)
	days, hours, minutes := int(d.Hours())/24, int(d.Hours())%24, int(d.Minutes())%60
	switch {
	case days > 0:
		return fmt.Sprintf("%d d %d h", days, hours)
	case hours > 0 && minutes > 0:
		return fmt.Sprintf("%d h %d min", hours, minutes)
	case hours > 0:
		return fmt.Sprintf("%d h", hours)
	}
	return fmt.Sprintf("%d min", minutes)
}

// pending lists, folded, what the branch asks for without the proposal too, and
// what the proposal cancels.
func (c *comment) pending() {
	r := c.review
	c.list("nodes that stay as they are", "Pending "+c.onBranch()+", and dropped by this "+c.either("pull request", "commit")+":", named(r.Spared), 0)
	if change, _, _ := r.Pending.Counts(); change == 0 {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<details><summary>Already pending %s, with or without this: %s</summary>\n\n", c.onBranch(), becomes(&r.Pending))
	for _, g := range group(r.Pending.Nodes) {
		if len(g.first.Steps) > 0 {
			fmt.Fprintf(&b, "- %s: %s\n", escape(g.shape()), escape(deeds(g.first.Steps, len(g.names))))
		}
	}
	if len(r.Waiting) > 0 {
		fmt.Fprintf(&b, "\n%s does not approve what is erased there (set `%s`).\n", c.either("Merging this", "This plan"), r.Waiting.Digest())
	}
	b.WriteString("\n</details>\n\n")
	c.add("lists of what is pending already", b.String())
}

// onBranch says where what is there without the proposal or the commit is.
func (c *comment) onBranch() string { return c.either("on "+c.branch(), "in the design in force") }

// branch is the target branch of the proposal.
func (c *comment) branch() string { return branchOf(c.review) }

func branchOf(r *site.Review) string {
	if r.Proposal.Base == "" {
		return "the branch"
	}
	return literal(r.Proposal.Base)
}

// named joins names into one text, or returns nothing.
func named(names []string) []string {
	if len(names) == 0 {
		return nil
	}
	return []string{say.Few(names)}
}

// made says what disks become that are laid out anew, with equal machines together.
func (c *comment) made() {
	of := map[string][]string{}
	for _, n := range c.review.Plan.Nodes {
		for _, s := range n.Steps {
			if len(s.Makes) > 0 {
				text := strings.Join(s.Makes, "\n")
				of[text] = append(of[text], n.Node)
			}
		}
	}
	var parts []string
	for _, text := range slices.SortedFunc(maps.Keys(of), func(a, b string) int { return strings.Compare(of[a][0], of[b][0]) }) {
		var lines []string
		for line := range strings.SplitSeq(text, "\n") {
			lines = append(lines, escape(line))
		}
		parts = append(parts, "- **"+escape(say.Few(of[text]))+"**: "+strings.Join(lines, "; ")+"\n")
	}
	c.section("lines on what disks become", "What the disks become:\n\n", parts, "")
}
