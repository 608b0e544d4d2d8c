package plan

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Landed writes what came of a proposal that was merged, in the place of its
// plan: how far it is on its way to the machines and what keeps it, what merging
// it has approved, and what it destroys beside that. It says the same for as
// long as it is the same, whenever it is written. It reports whether everything
// that is held is named, since only that can be approved by whoever reads it.
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
	c.add("verdicts", c.title("Slipway, site ")+Verdict(r)+"\n\n")
	if o := r.Landing.Rollout; o != nil && o.Ended.IsZero() && len(o.Nodes) > 0 {
		c.add("bars", progress(o)+"\n\n")
	}
	c.leaving(markdownLimit/4, c.held)
	if o := r.Landing.Rollout; o != nil {
		c.reasons("nodes that have failed", "**Failed:**", o.Failed)
	}
	c.reasons("nodes that wait for a person", "**Waiting for a person:**", r.Landing.Stuck)
	if o := r.Landing.Rollout; o != nil && o.Ended.IsZero() && o.Halted != "" {
		c.add("advice", halted)
	}
	c.timeline()
	c.disks = false // its plan has named them
	if len(r.Approved) > 0 {
		c.section("entries of what is approved", "What was destroyed with approval, or is to be:\n\n"+c.columns(), c.entries(r.Approved), "")
	}
}

// halted is what to do about a rollout that is.
const halted = "**What to do, one of:** correct the lines that ask for it, or revert the merge; or see to the machines, and then run `slipway retry`. Until then no other machine is begun.\n\n"

// progress is how far a rollout is, drawn.
func progress(o *site.RolloutStatus) string {
	const width = 20
	done := o.Done * width / len(o.Nodes)
	return "`" + strings.Repeat("█", done) + strings.Repeat("░", width-done) + "`"
}

// held names what is held by node and machine, or says that it is too much to be
// named.
func (c *comment) held() {
	r := c.review
	entries := c.entries(r.Held)
	size := 0
	for _, x := range entries {
		size += len(x)
	}
	heading := func(whole bool) string {
		return "> [!CAUTION]\n> **What is held, as set `" + r.Held.Digest() + "`, " + heldSince(r) + ":** " + approvedBy(r.Held.Digest(), whole) + ".\n\n" + c.columns()
	}
	c.unnamed = size+len(heading(false))+len("\n\n") > c.left
	c.section("entries of what is held", heading(!c.unnamed), entries, "")
}

// approvedBy says how a set that is held is approved: by its digest where all of
// it is named.
func approvedBy(digest string, whole bool) string {
	if !whole {
		return "too much to be named here; see `slipway plan`, then `slipway approve`"
	}
	return "`slipway approve " + digest + "` or a comment with the first line `/slipway approve " + digest + "` approves it"
}

// heldSince says why what is held was not approved by the merge.
func heldSince(r *site.Review) string {
	if r.Landing.Unapproved != "" {
		return "since the merge has approved nothing"
	}
	return "since merging has not approved it"
}

// reasons lists nodes with their reasons, those with the same together.
func (c *comment) reasons(kind, heading string, nodes map[string]string) {
	var lines []string
	for _, x := range byReason(nodes) {
		lines = append(lines, fmt.Sprintf("- **%s**: %s\n", escape(shown(x.nodes, min(c.names, 20))), escape(x.reason)))
	}
	c.section(kind, heading+"\n\n", lines, "")
}

// sharedReason is why some nodes make no progress.
type sharedReason struct {
	reason string
	nodes  []string
}

// byReason puts nodes with the same reason together, the most first.
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

// shown names some of many nodes.
func shown(names []string, some int) string {
	if len(names) <= some+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s, … (%s)", strings.Join(names[:some], ", "), count(len(names), "machine"))
}

// landedVerdict is what came of a proposal in one line.
func landedVerdict(r *site.Review) string {
	parts := []string{way(r.Landing)}
	if n := len(r.Held); n > 0 {
		parts = append(parts, "what is erased on "+count(n, "more machine")+" is held")
	}
	if n := len(r.Landing.Stuck); n > 0 {
		parts = append(parts, count(n, "machine")+" for a person")
	}
	return strings.Join(parts, "; ")
}

// way says how far a proposal is on its way to the machines.
func way(l *site.Landing) string {
	o := l.Rollout
	switch {
	case l.Refused:
		return "merged, and not in force, since the design is broken"
	case l.InForce.IsZero():
		return "merged, not in force yet"
	case o == nil && l.Done:
		return "done, no machine was to be changed"
	case o == nil:
		return "merged, in force"
	case o.Ended.IsZero() && o.Halted != "":
		return fmt.Sprintf("stopped, %d of %s done%s", o.Done, count(len(o.Nodes), "machine"), failures(o))
	case o.Ended.IsZero():
		return fmt.Sprintf("%d of %s done%s", o.Done, count(len(o.Nodes), "machine"), failures(o))
	case len(o.Failed) > 0:
		return "ended, " + nodesDone(o) + failures(o)
	}
	return "done, " + nodesDone(o)
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
	return fmt.Sprintf("%d of %s%s as designed", o.Done, count(len(o.Nodes), "machine"), is)
}

// timeline says when a merged proposal came how far.
func (c *comment) timeline() {
	r, l := c.review, c.review.Landing
	at := func(t time.Time, what string) string { return "- " + stamp(t) + what + "\n" }
	lines := []string{at(r.Proposal.MergedAt, "merged by "+escape(cmp.Or(r.Proposal.MergedBy, "somebody"))+" as "+literal(site.Revision{ID: r.Proposal.Merge}.Short())+approves(r))}
	if l.InForce.IsZero() {
		lines = append(lines, "- not in force: "+escape(l.Waits)+"\n")
	} else {
		lines = append(lines, at(l.InForce, "in force with "+literal(site.Revision{ID: l.Revision}.Short())))
	}
	if l.ObserveOnly != "" {
		lines = append(lines, "- nothing is written to any machine: "+escape(l.ObserveOnly)+"\n")
	}
	if o := l.Rollout; o != nil {
		lines = append(lines, at(o.Since, "rollout of "+literal(o.Revision.Short())+" to "+count(len(o.Nodes), "node")))
		lines = append(lines, canaryLines(o)...)
		if o.Halted != "" {
			lines = append(lines, at(o.HaltedSince, "halted: "+escape(o.Halted)))
		}
		if !o.Ended.IsZero() {
			lines = append(lines, at(o.Ended, "ended after "+rough(o.Ended.Sub(o.Since))+sinceMerge(o.Ended, r.Proposal.MergedAt)))
		}
	}
	c.section("lines of the timeline", "", lines, "")
}

// stamp is a time in front of what happened then; nothing for one that is not
// known.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04 MST") + " "
}

// approves says what a merge has approved.
func approves(r *site.Review) string {
	switch {
	case len(r.Approved) > 0:
		return ", which approves set `" + r.Approved.Digest() + "`, as named here before"
	case r.Landing.Unapproved != "":
		return ", which approves nothing: " + escape(r.Landing.Unapproved)
	}
	return ""
}

func canaryLines(o *site.RolloutStatus) []string {
	switch {
	case len(o.Canaries) == 0:
		return nil
	case o.Proven.IsZero():
		return []string{"- canaries go first: " + escape(few(slices.Clone(o.Canaries))) + "\n"}
	}
	return []string{"- " + stamp(o.Proven) + "canaries in-sync: " + escape(few(slices.Clone(o.Canaries))) + "\n"}
}

func sinceMerge(t, merged time.Time) string {
	if merged.IsZero() || t.Before(merged) {
		return ""
	}
	return ", " + rough(t.Sub(merged)) + " after the merge"
}

// Call says what a person is needed for to have a merged proposal go on; nil
// for nothing. The most pressing need comes first, and its key stays the same
// for as long as it is the same.
func Call(r *site.Review) *site.Call {
	l := r.Landing
	o := l.Rollout
	title := func(what string) string { return "### Slipway, site " + literal(r.Site) + ": " + what + "\n\n" }
	switch {
	case l.Refused:
		return &site.Call{Key: "refused", Text: title("a person is needed, the branch is broken") + "Nothing of what this was merged into is in force.\n\n- " + escape(l.Waits) + "\n"}
	case o != nil && o.Ended.IsZero() && o.Halted != "":
		return &site.Call{Key: fmt.Sprintf("halted-%d", o.HaltedSince.Unix()), Text: title(way(l)) + "- " + escape(o.Halted) + "\n" + somewhat(o.Failed) + "\n" + strings.TrimRight(halted, "\n") + "\n"}
	case len(r.Held) > 0:
		return &site.Call{Key: "held-" + l.Asked.Digest(), Text: title("a decision is needed, "+count(len(r.Held), "machine")+" would be erased") + decision(r)}
	case o != nil && len(o.Failed)+len(l.Stuck) > 0:
		both := maps.Clone(o.Failed)
		if both == nil {
			both = map[string]string{}
		}
		maps.Copy(both, l.Stuck)
		return &site.Call{Key: fmt.Sprintf("stuck-%d-%d", o.Since.Unix(), bits.Len(uint(len(both)))), Text: title(count(len(both), "machine")+" of this rollout cannot go on") + somewhat(both) + "\n`slipway why NODE` says more.\n"}
	}
	return nil
}

// decision asks whether what is held is to be destroyed.
func decision(r *site.Review) string {
	why := ""
	if r.Landing.Unapproved != "" {
		why = ": " + escape(r.Landing.Unapproved)
	}
	text := "Merging did **not** approve this" + why + ".\n\n"
	const most = 20
	if len(r.Held) <= most {
		c := comment{tier: tier{apart: true}, review: r}
		text += c.columns() + strings.Join(c.entries(r.Held), "") + "\n"
	}
	text += "Nothing happens to them until somebody answers. They are named in the comment that is kept here.\n\n"
	if !r.Whole {
		return text + "**To erase them:** they are too many to be named there; see `slipway plan`, then `slipway approve`.\n"
	}
	digest := r.Held.Digest()
	return text + "**To erase them,** comment with this as the first line: `/slipway approve " + digest + "`, or run `slipway approve " + digest + "`.\n" +
		"**To keep them,** revert the merge.\n"
}

// somewhat lists some nodes with their reasons.
func somewhat(nodes map[string]string) string {
	const most = 20
	var b strings.Builder
	all := byReason(nodes)
	left := 0
	for i, x := range all {
		if i < most {
			fmt.Fprintf(&b, "- **%s**: %s\n", escape(shown(x.nodes, most)), escape(x.reason))
		} else {
			left += len(x.nodes)
		}
	}
	if left > 0 {
		fmt.Fprintf(&b, "- and %d more\n", left)
	}
	return b.String()
}
