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
	c.timeline()
	c.leaving(markdownLimit/4, c.held)
	if o := r.Landing.Rollout; o != nil {
		c.reasons("nodes that have failed", "Failed:", o.Failed)
	}
	c.reasons("nodes that wait for a person", "Waiting for a person:", r.Landing.Stuck)
	c.disks = false // its plan has named them
	c.section("entries of what is approved", "What was destroyed with approval, or is to be:\n\n", c.entries(r.Approved), "")
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
		return "**What is held, as set `" + r.Held.Digest() + "`, " + heldSince(r) + ":** " + approvedBy(r.Held.Digest(), whole) + ".\n\n"
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

// reasons lists nodes, each with a reason.
func (c *comment) reasons(kind, heading string, nodes map[string]string) {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		lines = append(lines, fmt.Sprintf("- **%s**: %s\n", escape(name), escape(nodes[name])))
	}
	c.section(kind, heading+"\n\n", lines, "")
}

// landedVerdict is what came of a proposal in one line.
func landedVerdict(r *site.Review) string {
	parts := []string{"merged", way(r.Landing)}
	if n := len(r.Held); n > 0 {
		parts = append(parts, "what is destroyed on "+count(n, "more machine")+" is held")
	}
	if n := len(r.Landing.Stuck); n > 0 {
		parts = append(parts, count(n, "node")+" for a person")
	}
	return strings.Join(parts, "; ")
}

// way says how far a proposal is on its way to the machines.
func way(l *site.Landing) string {
	o := l.Rollout
	switch {
	case l.Refused:
		return "not in force, since the design is broken"
	case l.InForce.IsZero():
		return "not in force yet"
	case o == nil && l.Done:
		return "done: in force, and no node was to be changed"
	case o == nil:
		return "in force"
	case o.Ended.IsZero() && o.Halted != "":
		return "halted: " + nodesDone(o)
	case o.Ended.IsZero():
		return "in force: " + nodesDone(o)
	case len(o.Failed) > 0:
		return fmt.Sprintf("ended: %s, %d failed", nodesDone(o), len(o.Failed))
	}
	return "done: " + nodesDone(o)
}

func nodesDone(o *site.RolloutStatus) string {
	return fmt.Sprintf("%d of %s as designed", o.Done, count(len(o.Nodes), "node"))
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
	needs := "**The site " + escape(r.Site) + " needs a person:** "
	switch {
	case l.Refused:
		return &site.Call{Key: "refused", Text: needs + "what this was merged into is broken, so nothing of it is in force.\n\n- " + escape(l.Waits) + "\n"}
	case o != nil && o.Ended.IsZero() && o.Halted != "":
		return &site.Call{Key: fmt.Sprintf("halted-%d", o.HaltedSince.Unix()), Text: needs + "the rollout of this is halted, with " + nodesDone(o) + ".\n\n- " + escape(o.Halted) + "\n" +
			somewhat(o.Failed) + "\nNo further node is begun. A commit that mends the change or takes it back begins a rollout of its own; `slipway retry` lets this one go on.\n"}
	case len(r.Held) > 0:
		why := ""
		if l.Unapproved != "" {
			why = "- " + escape(l.Unapproved) + "\n\n"
		}
		return &site.Call{Key: "held-" + l.Asked.Digest(), Text: needs + fmt.Sprintf("on %s more is destroyed by this than merging it has approved, %s.\n\n%sIt is held, and named in the comment that is kept here: %s.\n",
			count(len(r.Held), "machine"), heldSince(r), why, approvedBy(r.Held.Digest(), r.Whole))}
	case o != nil && len(o.Failed)+len(l.Stuck) > 0:
		both := maps.Clone(o.Failed)
		if both == nil {
			both = map[string]string{}
		}
		maps.Copy(both, l.Stuck)
		return &site.Call{Key: fmt.Sprintf("stuck-%d-%d", o.Since.Unix(), bits.Len(uint(len(both)))), Text: needs + count(len(both), "node") + " of this rollout cannot go on.\n\n" + somewhat(both) + "\n`slipway why NODE` says more.\n"}
	}
	return nil
}

// somewhat lists some nodes, each with a reason.
func somewhat(nodes map[string]string) string {
	const most = 20
	var b strings.Builder
	names := slices.Sorted(maps.Keys(nodes))
	for _, name := range names[:min(len(names), most)] {
		fmt.Fprintf(&b, "- **%s**: %s\n", escape(name), escape(nodes[name]))
	}
	if more := len(names) - most; more > 0 {
		fmt.Fprintf(&b, "- and %d more\n", more)
	}
	return b.String()
}
