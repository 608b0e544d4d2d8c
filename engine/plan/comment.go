package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// destroyed names what is destroyed, by node and machine, or says that it is
// too much to be named.
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
	c.section("entries of what is destroyed", heading, entries, last)
	c.grown()
}

// grown names what is destroyed as well, and was not when it was first read.
func (c *comment) grown() {
	set := c.review.Grown
	if len(set) == 0 {
		return
	}
	heading := fmt.Sprintf("**What has come to it since it was first planned at this commit, as set `%s`, on %s:** merging does not approve this, so that it is held. "+
		"After a comment with the first line `/slipway plan`, by somebody who may write to the repository, merging approves all of it.\n\n", set.Digest(), count(len(set), "machine"))
	c.section("entries of what has come to it", heading+c.columns(), c.entries(set), "")
}

// around is what stands before and after the machines of a set: what is lost, and
// what is needed before anything is.
func (c *comment) around(set site.Losses) (before, after string) {
	digest := set.Digest()
	of := count(len(set), "machine")
	switch {
	case c.unnamed:
		return fmt.Sprintf("**What is destroyed, as set `%s`, on %s:** too many to be named here, so that merging does not approve it: %s shows them; once it is merged, `slipway approve %s`.\n\n",
			digest, of, c.whole(), digest) + c.columns(), ""
	case c.review.Proposal.Number > 0:
		return fmt.Sprintf("> [!CAUTION]\n> **Merging this erases %s.** What is on their disks is lost for good.\n\n", of) + c.columns(),
			fmt.Sprintf("\n**To approve:** merge. That approves exactly this, as set `%s`, and nothing else; what is more by then is held.\n", digest) +
				"**To plan again:** comment `/slipway plan`.\n"
	}
	return fmt.Sprintf("**What is destroyed, as set `%s`:**\n\n", digest) + c.columns(), ""
}

// columns begins the table of what is lost; where machines that lose the same stand
// together there is none.
func (c *comment) columns() string {
	if !c.apart {
		return ""
	}
	return "| machine | what is lost | its disks | asked for in |\n|---|---|---|---|\n"
}

// entries are the lines of a set: a row for each machine, or a line for all that
// lose the same. They name every disk, since that is a part of what is approved.
func (c *comment) entries(set site.Losses) []string {
	var lines []string
	if c.apart {
		for _, x := range withDrives(set, c.view.Known) {
			disks := DisksOf(x.Loss)
			if c.disks {
				disks = x.disks()
			}
			lines = append(lines, fmt.Sprintf("| **%s** (%s) | %s loses %s | %s | %s |\n", escape(x.Node), escape(x.Target()),
				escape(x.Action), escape(x.Lost), escape(strings.TrimPrefix(disks, "disks: ")), c.askedFor(x.Node)))
		}
		return lines
	}
	for _, alike := range byWhatIsLost(set) {
		lines = append(lines, "- **"+escape(alike[0].Action)+" loses "+escape(alike[0].Lost)+"**, on each of:")
		for i, l := range alike {
			end := ","
			if i == len(alike)-1 {
				end = "\n"
			}
			lines = append(lines, " **"+escape(l.Node)+"** ("+escape(l.Target())+"; "+escape(DisksOf(l))+")"+end)
		}
	}
	return lines
}

// askedFor links to the line that asks for what a node loses; empty where none
// does, or where there is no room for it.
func (c *comment) askedFor(node string) string {
	if c.asked == nil {
		c.asked = map[string]site.Origin{}
		for _, n := range c.review.Plan.Nodes {
			for _, s := range n.Steps {
				if s.Impact == site.ImpactDestructive && len(s.Changes) > 0 {
					c.asked[n.Node] = s.Changes[0].Origin
				}
			}
		}
	}
	if !c.details {
		return ""
	}
	return c.place(c.asked[node])
}

// place links to the line of an origin.
func (c *comment) place(o site.Origin) string {
	if o.String() == "" {
		return ""
	}
	return linked(fmt.Sprintf("%s:%d", o.File.Value(), o.Line), c.view.Pages, o.File.Value(), o.Line)
}

// byWhatIsLost are the losses of a set that are alike but for the machine.
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

// basis says what the plan could not see, and how old what it saw is.
func (c *comment) basis() {
	var nodes []site.NodePlan
	for _, n := range c.review.Plan.Nodes {
		if len(n.Steps)+len(n.Blocked) > 0 || n.Seen.IsZero() {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) == 0 {
		return
	}
	c.add("notes on what was seen", "Rests on what was seen of the machines: "+seen(nodes, c.view.Now)+"\n\n")
}

// seen says how many of some nodes were never seen, and how long ago the others
// were.
func seen(nodes []site.NodePlan, now time.Time) string {
	var never []string
	var met []site.NodePlan
	for _, n := range nodes {
		if n.Seen.IsZero() {
			never = append(never, n.Node)
		} else {
			met = append(met, n)
		}
	}
	switch {
	case len(met) == 0 && len(never) == 1:
		return "never"
	case len(met) == 0:
		return count(len(never), "node") + " never"
	case len(never) == 0:
		return ages(met, now)
	}
	return fmt.Sprintf("%s; %s never (%s)", ages(met, now), count(len(never), "node"), escape(few(never)))
}

// ages says how long ago nodes were seen, and which of them before the others.
func ages(nodes []site.NodePlan, now time.Time) string {
	bySeen := func(a, b site.NodePlan) int { return a.Seen.Compare(b.Seen) }
	oldest := slices.MinFunc(nodes, bySeen)
	newest := slices.MaxFunc(nodes, bySeen)
	from, to := rough(now.Sub(newest.Seen)), rough(now.Sub(oldest.Seen))
	switch {
	case len(nodes) == 1:
		return to + " ago"
	case from == to:
		return count(len(nodes), "node") + " " + to + " ago"
	}
	return fmt.Sprintf("%s %s to %s ago (%s first)", count(len(nodes), "node"), from, to, escape(oldest.Node))
}

// pending tells, folded, what is to be done without the proposal as well, and
// what it makes needless.
func (c *comment) pending() {
	r := c.review
	c.list("nodes left as they are", "To be changed on the branch, and left as they are by this:", named(r.Spared), 0)
	if change, _, _ := r.Pending.Counts(); change == 0 {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<details><summary>Pending with or without this: %s</summary>\n\n", becomes(&r.Pending))
	for _, g := range group(r.Pending.Nodes) {
		if len(g.first.Steps) > 0 {
			fmt.Fprintf(&b, "- %s: %s\n", escape(g.shape()), escape(deeds(g.first.Steps, len(g.names))))
		}
	}
	if len(r.Waiting) > 0 {
		fmt.Fprintf(&b, "\nWhat it destroys is not approved by merging this: set `%s`.\n", r.Waiting.Digest())
	}
	b.WriteString("\n</details>\n\n")
	c.add("lists of what is to be done without this too", b.String())
}

// named is a list of names in one text, or nothing.
func named(names []string) []string {
	if len(names) == 0 {
		return nil
	}
	return []string{few(names)}
}
