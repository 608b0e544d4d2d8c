package present

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Landed writes the progress of a merged proposal in place of its plan: how far
// it has reached the machines and what stops it, what merging approved, and what
// it destroys beyond that. The text stays the same as long as the facts do.
// Landed reports whether the text names everything that is held, because a
// reader can approve only that.
func Landed(w io.Writer, r *site.Review, v View) (whole bool) {
	var c comment
	for _, t := range tiers {
		c = comment{document: document{left: markdownLimit - 1000}, tier: t, review: r, view: v}
		c.landed()
		if len(c.cut) == 0 {
			break
		}
	}
	io.WriteString(w, strings.TrimRight(c.text.String(), "\n")+"\n"+c.missing())
	return !c.unnamed
}

func (c *comment) landed() {
	r := c.review
	o := r.Landing.Rollout
	c.add("verdicts", c.title("Slipway, site ")+Verdict(r)+"\n\n")
	running := o != nil && o.Ended.IsZero() && len(o.Nodes) > 0
	stopped := running && o.Halted != ""
	if running && !stopped {
		c.add("bars", progress(o, r.Landing)+"\n\n")
	}
	c.leaving(markdownLimit/4, c.held)
	if stopped {
		c.outcome()
		c.add("advice", "**Stopped:** "+escape(o.Halted)+". Slipway starts no other machine.\n\n")
	}
	if o != nil {
		c.reasons("machines that have failed", "**Failed:**", o.Failed)
	}
	c.reasons("machines that need somebody", "**Waiting for somebody:**", r.Landing.Stuck)
	switch {
	case stopped:
		c.add("advice", halted)
	case running:
		c.now()
		c.outcome()
	default:
		c.outcome()
	}
	c.disks = false // the plan has named them
	if len(r.Approved) > 0 {
		c.section("entries of what is approved", fmt.Sprintf("<details><summary>Approved for erasure by the merge: %s (set <code>%s</code>)</summary>\n\n",
			say.Count(len(r.Approved), "machine"), r.Approved.Digest())+c.columns("what is lost"), c.entries(r.Approved), "\n</details>\n")
	}
	c.timeline()
}

// halted says what to do about a halted rollout.
const halted = "**What to do, one of:**\n\n- correct the design, or revert this pull request\n- fix the machines, then run `slipway retry`\n\n"

// progress draws how far a rollout is, and says when it is expected to end.
func progress(o *site.RolloutStatus, l *site.Landing) string {
	const width = 20
	done := o.Done * width / len(o.Nodes)
	bar := "`" + strings.Repeat("█", done) + strings.Repeat("░", width-done) + "`"
	if l.Expected.IsZero() {
		return bar
	}
	return bar + " expected to end at about " + clock(l.Expected) + " UTC"
}

// now lists what each machine of a rollout does, active machines first.
func (c *comment) now() {
	all := slices.Clone(c.review.Landing.Machines)
	if len(all) == 0 {
		return
	}
	rank := func(m site.MachineNow) int { return slices.Index(nowOrder, m.State) }
	slices.SortStableFunc(all, func(a, b site.MachineNow) int { return rank(a) - rank(b) })
	var rows []string
	most := min(c.names, 25)
	for _, m := range all[:min(len(all), most)] {
		rows = append(rows, fmt.Sprintf("| %s | %s |\n", escape(m.Node), nowOf(m)))
	}
	rest := ""
	if left := all[len(rows):]; len(left) > 0 {
		rest = "\nAnd " + tally(left) + ".\n"
	}
	c.section("rows of what machines do now", "| machine | now |\n|---|---|\n", rows, rest)
}

// nowOrder is the order in which the machines of a rollout are listed.
var nowOrder = []site.MachineState{site.MachineFailed, site.MachineRunning, site.MachineWaiting, site.MachineDone}

func nowOf(m site.MachineNow) string {
	since := ""
	if !m.Since.IsZero() {
		since = clock(m.Since)
	}
	switch {
	case m.State == site.MachineDone:
		return strings.TrimSpace("done " + since)
	case since == "":
		return escape(string(m.State) + ": " + m.What)
	case m.State == site.MachineRunning:
		return escape(m.What) + ", since " + since
	}
	return escape(string(m.State)+": "+m.What) + ", since " + since
}

// tally counts machines by their states.
func tally(all []site.MachineNow) string {
	var parts []string
	for _, s := range nowOrder {
		n := 0
		for _, m := range all {
			if m.State == s {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, say.Count(n, "machine")+" "+string(s))
		}
	}
	return strings.Join(parts, ", ")
}

// outcome says who merged a proposal, what that approved, and how long it took.
func (c *comment) outcome() {
	r, l := c.review, c.review.Landing
	by := escape(cmp.Or(r.Proposal.MergedBy, "somebody"))
	text := "Merged by " + by
	if !l.InForce.IsZero() {
		text += ", in force since " + clock(l.InForce) + " UTC"
	}
	text += "."
	set := ""
	if len(r.Approved) > 0 {
		set = say.Count(len(r.Approved), "machine") + " (set `" + r.Approved.Digest() + "`)"
	}
	o := l.Rollout
	over := o != nil && !o.Ended.IsZero()
	switch {
	case l.Unapproved != "":
		text += " The merge approved nothing: " + escape(l.Unapproved) + "."
	case set != "" && over && len(o.Failed) == 0:
		var names []string
		for _, x := range r.Approved {
			names = append(names, x.Node)
		}
		text = erasedAs(r.Approved) + ": " + escape(shown(names, min(c.names, 20))) + ". Approved by " + by + " by merging (set `" + r.Approved.Digest() + "`)."
	case set != "":
		text += " The merge approved erasing " + set + "."
	}
	if over && !r.Proposal.MergedAt.IsZero() && o.Ended.After(r.Proposal.MergedAt) {
		text += " Took " + inWords(o.Ended.Sub(r.Proposal.MergedAt)) + " from the merge."
	}
	c.add("outcomes", text+"\n\n")
	if l.ObserveOnly != "" {
		c.add("outcomes", "Slipway writes to no machine: "+escape(l.ObserveOnly)+".\n\n")
	}
}

// erasedAs says what happened to the machines of a set.
func erasedAs(set site.Losses) string {
	if slices.ContainsFunc(set, func(l site.Loss) bool { return l.Generation == 0 }) {
		return "Erased"
	}
	return "Erased and installed"
}

// held names what waits for a decision by node and machine, or says that there is
// no room to name it.
func (c *comment) held() {
	r := c.review
	entries := c.entries(r.Held)
	size := 0
	for _, x := range entries {
		size += len(x)
	}
	digest := r.Held.Digest()
	heading := caution("**A decision is needed: "+say.Count(len(r.Held), "machine")+" would be erased** (set `"+digest+"`).",
		notApproved(r)+" Nothing happens to them until somebody answers.") + c.columns("what would be lost")
	last := "\n" + answers(digest, true)
	c.unnamed = size+len(heading)+len(last)+len("\n\n") > c.left
	if c.unnamed {
		last = "\n" + answers(digest, false)
	}
	c.section("entries of what waits for a decision", heading, entries, last)
}

// answers says how people decide on a set. A reader can approve it by its digest
// only if the comment names all of it.
func answers(digest string, whole bool) string {
	const keep = "**To keep them,** revert the commit.\n"
	if !whole {
		return "**To erase them:** this comment has no room to name all of them. Run `slipway plan` to see them, then `slipway approve`.\n" + keep
	}
	return "**To erase them,** comment exactly this line, alone: `/slipway approve " + digest + "`\n" + keep
}

// notApproved says why merging did not approve what waits for a decision.
func notApproved(r *site.Review) string {
	if r.Landing.Unapproved != "" {
		return "Merging did **not** approve this: " + escape(r.Landing.Unapproved) + "."
	}
	return "Merging did **not** approve this: it was not in the plan that you could read."
}

// reasons lists nodes with their reasons, grouped by reason.
func (c *comment) reasons(kind, heading string, nodes map[string]string) {
	var lines []string
	for _, x := range byReason(nodes) {
		lines = append(lines, fmt.Sprintf("- **%s%s:** %s\n", escape(shown(x.nodes, min(c.names, 20))), sameReason(x.nodes), escape(x.reason))+c.asks(x.nodes))
	}
	c.section(kind, heading+"\n\n", lines, "")
}

// sameReason says that several machines share a reason.
func sameReason(nodes []string) string {
	if len(nodes) < 2 {
		return ""
	}
	return ", all for the same reason"
}

// asks is the first line of the design that asks for what some machines fail to do.
func (c *comment) asks(nodes []string) string {
	for _, m := range c.review.Landing.Machines {
		if x := m.Change; x != nil && slices.Contains(nodes, m.Node) {
			line := "  - asked for: " + literal(x.Name()) + " " + literal(say.OrNone(x.Want))
			if place := c.place(x.Origin); place != "" {
				line += " in " + place
			}
			return line + "\n"
		}
	}
	return ""
}

// sharedReason is why some nodes make no progress.
type sharedReason struct {
	reason string
	nodes  []string
}

// byReason groups nodes by reason, largest group first.
func byReason(nodes map[string]string) []sharedReason {
	index := map[string]int{}
	var all []sharedReason
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		i, ok := index[nodes[name]]
		if !ok {
			i = len(all)
			index[nodes[name]] = i
			all = append(all, sharedReason{reason: nodes[name]})
		}
		all[i].nodes = append(all[i].nodes, name)
	}
	slices.SortStableFunc(all, func(a, b sharedReason) int { return len(b.nodes) - len(a.nodes) })
	return all
}

// shown names a few of many nodes.
func shown(names []string, some int) string {
	if len(names) <= some+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s, … (%s)", strings.Join(names[:some], ", "), say.Count(len(names), "machine"))
}

// landedVerdict summarizes the progress of a merged proposal in one line.
func landedVerdict(r *site.Review) string {
	parts := []string{way(r.Landing)}
	if n := len(r.Held); n > 0 {
		parts = append(parts, "erasing "+say.Count(n, "more machine")+" needs a decision")
	}
	if n := len(r.Landing.Stuck); n > 0 {
		parts = append(parts, say.Count(n, "machine")+" waiting for somebody")
	}
	return strings.Join(parts, "; ")
}

// way says how far a proposal has reached the machines.
func way(l *site.Landing) string {
	o := l.Rollout
	switch {
	case l.Refused:
		return "merged, not in force, because the design on the branch is broken"
	case l.InForce.IsZero():
		return "merged, not in force yet"
	case o == nil && l.Done:
		return "done, no machine had to change"
	case o == nil:
		return "merged, in force"
	case o.Ended.IsZero() && o.Halted != "" && len(o.Failed) > 0:
		return fmt.Sprintf("stopped, %d of %s failed", len(o.Failed), say.Count(len(o.Nodes), "machine")) + doneOf(o)
	case o.Ended.IsZero() && o.Halted != "":
		return fmt.Sprintf("stopped, %d of %s done", o.Done, say.Count(len(o.Nodes), "machine"))
	case o.Ended.IsZero():
		return fmt.Sprintf("%d of %s done%s", o.Done, say.Count(len(o.Nodes), "machine"), failures(o))
	case len(o.Failed) > 0:
		return "ended, " + nodesDone(o) + failures(o)
	}
	return "done, " + nodesDone(o)
}

func doneOf(o *site.RolloutStatus) string {
	if o.Done == 0 {
		return ""
	}
	return fmt.Sprintf(", %d done", o.Done)
}

func failures(o *site.RolloutStatus) string {
	if len(o.Failed) == 0 {
		return ""
	}
	return fmt.Sprintf(", %d failed", len(o.Failed))
}

func nodesDone(o *site.RolloutStatus) string {
	is := " are"
	if len(o.Nodes) == 1 {
		is = " is"
	}
	return fmt.Sprintf("%d of %s%s as designed", o.Done, say.Count(len(o.Nodes), "machine"), is)
}

// timeline lists, folded, when a merged proposal reached each stage.
func (c *comment) timeline() {
	r, l := c.review, c.review.Landing
	at := func(t time.Time, what string) string { return "- " + stamp(t) + what + "\n" }
	lines := []string{at(r.Proposal.MergedAt, "merged by "+escape(cmp.Or(r.Proposal.MergedBy, "somebody"))+" as "+literal(site.Revision{ID: r.Proposal.Merge}.Short()))}
	if l.InForce.IsZero() {
		c.add("outcomes", "Not in force: "+escape(l.Waits)+".\n\n")
	} else {
		lines = append(lines, at(l.InForce, "in force with "+literal(site.Revision{ID: l.Revision}.Short())))
	}
	if o := l.Rollout; o != nil {
		lines = append(lines, at(o.Since, "rollout of "+literal(o.Revision.Short())+" to "+say.Count(len(o.Nodes), "machine")))
		lines = append(lines, canaryLines(o)...)
		if o.Halted != "" {
			lines = append(lines, at(o.HaltedSince, "stopped: "+escape(o.Halted)))
		}
		if !o.Ended.IsZero() {
			lines = append(lines, at(o.Ended, "ended after "+inWords(o.Ended.Sub(o.Since))))
		}
	}
	c.section("lines of the timeline", "<details><summary>Timeline</summary>\n\n", lines, "\n</details>\n")
}

// stamp returns a time as the beginning of a line; nothing for an unknown time.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04 MST") + " "
}

func canaryLines(o *site.RolloutStatus) []string {
	switch {
	case len(o.Canaries) == 0:
		return nil
	case o.Proven.IsZero():
		return []string{"- canaries go first: " + escape(say.Few(slices.Clone(o.Canaries))) + "\n"}
	}
	return []string{"- " + stamp(o.Proven) + "canaries are in sync: " + escape(say.Few(slices.Clone(o.Canaries))) + "\n"}
}

// Call says why a person is needed to let a merged proposal continue; nil for
// no reason. It picks the most urgent need. Its key stays the same as long as
// the need does.
func Call(r *site.Review) *site.Call {
	l := r.Landing
	o := l.Rollout
	title := func(what string) string { return "### Slipway, site " + literal(r.Site) + ": " + what + "\n\n" }
	switch {
	case l.Refused:
		return &site.Call{Key: "refused", Text: title("action is needed, the design on the branch is broken") + "Nothing that was merged since then is in force.\n\n- " + escape(l.Waits) + "\n"}
	case o != nil && o.Ended.IsZero() && o.Halted != "":
		return &site.Call{Key: fmt.Sprintf("halted-%d", o.HaltedSince.Unix()), Text: title(way(l)) + "**Stopped:** " + escape(o.Halted) + ". Slipway starts no other machine.\n\n" + somewhat(r, o.Failed) + "\n" + strings.TrimRight(halted, "\n") + "\n"}
	case len(r.Held) > 0:
		return &site.Call{Key: "held-" + l.Asked.Digest(), Text: title("a decision is needed, "+say.Count(len(r.Held), "machine")+" would be erased") + decision(r)}
	case o != nil && len(o.Failed)+len(l.Stuck) > 0:
		both := maps.Clone(o.Failed)
		if both == nil {
			both = map[string]string{}
		}
		maps.Copy(both, l.Stuck)
		return &site.Call{Key: fmt.Sprintf("stuck-%d-%d", o.Since.Unix(), bits.Len(uint(len(both)))), Text: title(say.Count(len(both), "machine")+" of this rollout cannot continue") + somewhat(r, both) + "\nRun `slipway why NODE` for details.\n"}
	}
	return nil
}

// decision asks whether the held losses are to happen.
func decision(r *site.Review) string {
	text := notApproved(r) + "\n\n"
	const most = 20
	if len(r.Held) <= most {
		c := comment{tier: tier{apart: true, details: true}, review: r}
		text += c.columns("what would be lost") + strings.Join(c.entries(r.Held), "") + "\nNothing happens to them until somebody answers.\n\n"
	} else {
		text += "Nothing happens to them until somebody answers. Slipway's other comment here lists them.\n\n"
	}
	return text + answers(r.Held.Digest(), r.Whole)
}

// somewhat lists some nodes with their reasons.
func somewhat(r *site.Review, nodes map[string]string) string {
	c := comment{tier: tier{details: true}, review: r}
	const most = 20
	var b strings.Builder
	all := byReason(nodes)
	left := 0
	for i, x := range all {
		if i < most {
			fmt.Fprintf(&b, "- **%s%s:** %s\n%s", escape(shown(x.nodes, most)), sameReason(x.nodes), escape(x.reason), c.asks(x.nodes))
		} else {
			left += len(x.nodes)
		}
	}
	if left > 0 {
		fmt.Fprintf(&b, "- and %d more\n", left)
	}
	return b.String()
}
