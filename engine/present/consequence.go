package present

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// consequenceOf is what the plan of a node does to its machine. Where it plans nothing because it cannot, that is not known.
func consequenceOf(n *site.NodePlan) site.Consequence {
	switch i := worst(*n); {
	case len(n.Steps) == 0 && unplanned(n) != "":
		return site.MergeUnknown
	case len(n.Steps) == 0:
		return site.MergeLeaves
	case n.MayRestart():
		return site.MergeMayRestart
	case i >= site.ImpactDestructive:
		return site.MergeErases
	case i >= site.ImpactReboot:
		return site.MergeStops
	case i >= site.ImpactInterrupts:
		return site.MergeInterrupts
	}
	return site.MergeChanges
}

// unplanned says why not everything is planned for a node; empty if it is.
func unplanned(n *site.NodePlan) string {
	switch {
	case len(n.Blocked) > 0:
		return shorten(n.Blocked[0])
	case n.Waiting != "":
		return shorten("not planned yet: " + n.Waiting)
	case n.Seen.IsZero():
		return "Slipway has never seen this machine"
	}
	return shorten(cmp.Or(n.Unproven, n.Foreign))
}

// Designs are those that a proposal is between: the one in force, the one of the branch, and the one of the merge. Those in force
// and of the branch are nil where there is none. Before one is in force, that of the branch stands for it.
type Designs struct{ InForce, Branch, Merged *site.Site }

// Consequences are what merging a planned proposal does to each node, by name. Nodes that stay as and where they are
// are left out. all is the plan of the merged design.
func Consequences(r *site.Review, all *site.Plan, d Designs) []site.NodeConsequence {
	planned, pending, spared, held := byNode(&r.Plan), byNode(&r.Pending), map[string]bool{}, map[string]string{}
	for _, name := range r.Spared {
		spared[name] = true
	}
	for _, x := range r.Plan.Removes {
		held[x.Node] = x.Held
	}
	d.InForce = cmp.Or(d.InForce, d.Branch, &site.Site{})
	var list []site.NodeConsequence
	for i := range all.Nodes {
		name := all.Nodes[i].Node
		c := placed(d.Merged, name)
		switch own := planned[name]; {
		case own != nil && consequenceOf(own) != site.MergeLeaves:
			c = told(c, own)
		case consequenceOf(&all.Nodes[i]) == site.MergeUnknown:
			c = told(c, &all.Nodes[i])
		case spared[name]:
			c.What = site.MergeSpares
		case pending[name] != nil && len(pending[name].Steps) > 0:
			c.What, c.Does = site.MergePending, deeds(pending[name].Steps, 1)
		}
		c = besideHost(c, d.Merged, planned)
		if c != placed(d.InForce, name) {
			c.New = d.InForce.Nodes[name] == nil
			list = append(list, c)
		}
	}
	for name := range d.InForce.Nodes {
		if d.Merged.Nodes[name] != nil {
			continue
		}
		c := placed(d.InForce, name)
		c.What, c.Why = site.MergeRemoves, held[name]
		if d.Branch != nil && d.Branch.Nodes[name] == nil {
			c.What, c.Does = site.MergePending, "leaves the design"
		}
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b site.NodeConsequence) int { return cmp.Compare(a.Node, b.Node) })
	return list
}

// besideHost is the consequence for a virtual machine that goes down with the node that it runs on.
func besideHost(c site.NodeConsequence, merged *site.Site, planned map[string]*site.NodePlan) site.NodeConsequence {
	h := merged.Hypervisors[c.Hypervisor]
	if h == nil || planned[h.Node] == nil {
		return c
	}
	host := planned[h.Node]
	what := consequenceOf(host)
	switch what {
	case site.MergeErases:
		what = site.MergeStops
		c.Why = cmp.Or(c.Why, h.Node+" is erased, and the disks of this virtual machine may be on it")
	case site.MergeStops, site.MergeMayRestart:
	default:
		return c
	}
	if slices.Index(site.Consequences, what) < slices.Index(site.Consequences, c.What) {
		c.What, c.Away = what, away(*host)
	}
	c.Does = strings.TrimPrefix(c.Does+"; goes down with "+h.Node, "; ")
	return c
}

func byNode(p *site.Plan) map[string]*site.NodePlan {
	by := make(map[string]*site.NodePlan, len(p.Nodes))
	for i := range p.Nodes {
		by[p.Nodes[i].Node] = &p.Nodes[i]
	}
	return by
}

// placed is a node that is left as it is, where a design has it.
func placed(s *site.Site, name string) site.NodeConsequence {
	c := site.NodeConsequence{Node: name, What: site.MergeLeaves}
	if n := s.Nodes[name]; n != nil {
		c.Role, c.Rack, c.Position, c.Hypervisor = n.Role, n.Rack, n.Position, n.Virtual.Host.Hypervisor
	}
	return c
}

// told adds what a node's plan does.
func told(c site.NodeConsequence, n *site.NodePlan) site.NodeConsequence {
	c.What = consequenceOf(n)
	if len(n.Steps) > 0 {
		c.Does, c.Away = deeds(n.Steps, 1), away(*n)
	}
	for _, s := range n.Steps {
		if s.Impact == site.ImpactDestructive && c.Loses == "" {
			c.Loses = s.Loses
		}
	}
	c.Why = unplanned(n)
	return c
}

// CountConsequences counts nodes by what merging does to them. It is not nil.
func CountConsequences(all []site.NodeConsequence) map[site.Consequence]int {
	counts := map[site.Consequence]int{}
	for i := range all {
		counts[all[i].What]++
	}
	return counts
}

// consequenceWords say what a consequence is, for one machine and for several.
var consequenceWords = map[site.Consequence][2]string{
	site.MergeErases:     {"is erased", "are erased"},
	site.MergeRemoves:    {"leaves the design", "leave the design"},
	site.MergeStops:      {"is out of service for a time", "are out of service for a time"},
	site.MergeMayRestart: {"may restart", "may restart"},
	site.MergeInterrupts: {"is interrupted for a moment", "are interrupted for a moment"},
	site.MergeUnknown:    {"cannot be planned", "cannot be planned"},
	site.MergeChanges:    {"changes", "change"},
	site.MergeSpares:     {"stays as it is, and its pending change is dropped", "stay as they are, and their pending changes are dropped"},
	site.MergePending:    {"changes with or without this", "change with or without this"},
	site.MergeLeaves:     {"stays as it is", "stay as they are"},
}

// ConsequenceWords says how many machines have a consequence: "3 are erased".
func ConsequenceWords(c site.Consequence, machines int) string {
	return strconv.Itoa(machines) + " " + consequenceWords[c][min(max(machines, 1), 2)-1]
}

// SummaryOfMerging says in one line how many machines there are, and what merging does to them.
func SummaryOfMerging(all int, counts map[site.Consequence]int) string {
	parts := []string{say.Count(all, "node")}
	for _, c := range site.Consequences {
		if n := counts[c]; n > 0 {
			parts = append(parts, ConsequenceWords(c, n))
		}
	}
	return strings.Join(parts, ", ")
}

// WaitsFor says what a proposal waits for, in a clause; empty for nothing.
func WaitsFor(r *site.Review) string {
	if r.Landing != nil {
		return landedWaitsFor(r)
	}
	switch set := r.Approves(); {
	case r.Proposal.State == site.ProposalClosed:
		return ""
	case r.Allow != "":
		return "somebody with write access, to allow planning this commit of a fork"
	case len(r.Conflicts) > 0:
		return "an update of its branch, which conflicts with " + cmp.Or(r.Proposal.Base, "the branch")
	case r.Ours:
		return "Slipway, which tries to plan it again"
	case r.Problem != "" || errorsOf(r) > 0:
		return "a correction that is pushed"
	case len(set) > 0 && r.Set == "":
		return "a merge, and then an approval: its comment has no room to name all that is erased"
	case len(set) > 0:
		return "a merge, which approves erasing " + say.Count(len(set), "machine")
	}
	return "a merge"
}

func landedWaitsFor(r *site.Review) string {
	l := r.Landing
	switch o := l.Rollout; {
	case l.Done:
		return ""
	case len(r.Held) > 0:
		return "an approval: " + say.Count(len(r.Held), "machine") + " would be erased"
	case o != nil && o.Ended.IsZero() && o.Halted != "":
		return "a person: the rollout is halted"
	case len(l.Stuck) > 0:
		return "a person, for " + say.Count(len(l.Stuck), "machine")
	case l.Waits != "":
		return l.Waits
	}
	return "its rollout"
}

// ApprovalOf says in a clause whether what a proposal erases is approved by merging it, and by whom.
func ApprovalOf(d *site.ProposalDetail) string {
	r, rest := &d.Review, ""
	if n := len(r.Held); n > 0 {
		rest = ", and erasing " + say.Count(n, "machine") + " needs another approval"
	}
	switch {
	case d.ApprovedBy != "":
		return "by " + d.ApprovedBy + " by merging (set " + d.Set + ")" + rest
	case r.Landing != nil && r.Landing.Unapproved != "":
		return "not by merging: " + r.Landing.Unapproved + rest
	case r.Landing != nil:
		return "nothing by merging" + rest
	case d.Proposal.State == site.ProposalClosed:
		return "no, it was closed without being merged"
	case d.Set != "":
		return "not yet (set " + d.Set + ")"
	case d.Erases > 0:
		return "no, merging does not approve what is erased"
	case d.Counts == nil:
		return "not known, there is no plan"
	}
	return "nothing to approve"
}

// VerdictOf is the verdict of a proposal, or says why there is none.
func VerdictOf(p site.ProposalBrief) string {
	switch {
	case p.Verdict != "":
		return p.Verdict
	case p.Proposal.State == site.ProposalOpen:
		return "not planned yet"
	}
	return "not known"
}

// PlanningOf says that a proposal is being planned, and what its reader sees until then; empty if it is not.
func PlanningOf(p *site.ProposalBrief) string {
	switch planning := "Slipway is planning " + (site.Revision{ID: p.Proposal.Head}).Short() + "."; {
	case !p.Planning:
		return ""
	case p.Planned.IsZero():
		return planning
	default:
		return planning + " Until then, this shows the last plan, which is of an earlier commit of the pull request or of the branch."
	}
}

// Unlisted says why it is not shown what merging a proposal does to each machine; empty where it is.
func Unlisted(d *site.ProposalDetail) string {
	const large = "No longer known: Slipway keeps what merging does to each machine for the last large plans only."
	switch {
	case d.NodesLeftOut > 0 && d.Proposal.State == site.ProposalOpen:
		return large + " To see it, have this pull request planned again: comment `/slipway plan`."
	case d.NodesLeftOut > 0:
		return large
	case d.Counts != nil:
		return ""
	case d.Planned.IsZero():
		return "Not known: Slipway has not planned this commit of the pull request since the daemon started."
	}
	return "There is no plan, so it is not known what merging does to a machine."
}

// CommitPlanning says that a commit is being planned, and what its reader sees until then; empty if it is not.
func CommitPlanning(d *site.CommitDetail) string {
	switch planning := "Slipway is planning " + d.Commit.Short() + "."; {
	case !d.Planning:
		return ""
	case d.Planned.IsZero():
		return planning
	default:
		return planning + " Until then, this shows the last plan, which was compared with " + d.InForce.Short() + "."
	}
}

// UnlistedOfCommit says why it is not shown what a commit does to each machine; empty where it is.
func UnlistedOfCommit(d *site.CommitDetail) string {
	switch {
	case d.Commit.Problem != "":
		return "There is no plan: " + d.Commit.Problem
	case d.NodesLeftOut > 0:
		return "No longer known: Slipway keeps what a commit does to each machine for the last large plans only. To see it, ask for the plan again 10 minutes after it was made."
	case d.Counts != nil:
		return ""
	case d.Planned.IsZero():
		return "Not known yet: Slipway has not planned this commit."
	}
	return "There is no plan, so it is not known what the commit does to a machine."
}
