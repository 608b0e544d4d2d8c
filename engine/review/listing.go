package review

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Bounds of what a Listing keeps in memory: of a large site a plan takes tens of megabytes.
const (
	// mostEnded is how many proposals are kept after their end, the latest ones.
	mostEnded = 50
	// mostStepsKept is of how many nodes the steps are kept, of all proposals together. The plans that were made last are kept
	// first, each whole or not at all.
	mostStepsKept = 2000
	// mostNodesKept is for how many nodes and racks the consequences are kept, in the same way.
	mostNodesKept = 100_000
	// mostFindings is how many findings of a proposal are kept.
	mostFindings = 500
	// longestField is how many characters of a title or a name of the forge are kept.
	longestField = 300
)

// Listing holds what people were last told of each proposal, for those who ask the daemon. It is in memory alone: after a
// start it fills as the proposals are planned again. What it gives is never written to. Its methods may be called by several
// goroutines at once.
type Listing struct{ listed listed }

// listed are the proposals, by number. A value is replaced, and never written to.
type listed struct {
	mu sync.Mutex
	by map[int]site.ProposalDetail
}

// NewListing returns an empty Listing.
func NewListing() *Listing { return &Listing{listed{by: map[int]site.ProposalDetail{}}} }

// All returns all proposals in brief, the highest number first.
func (l *Listing) All() []site.ProposalBrief {
	l.listed.mu.Lock()
	defer l.listed.mu.Unlock()
	all := make([]site.ProposalBrief, 0, len(l.listed.by))
	for _, d := range l.listed.by {
		all = append(all, d.ProposalBrief)
	}
	slices.SortFunc(all, func(a, b site.ProposalBrief) int { return b.Proposal.Number - a.Proposal.Number })
	return all
}

// Of returns a proposal; false for one that is not there.
func (l *Listing) Of(number int) (site.ProposalDetail, bool) {
	l.listed.mu.Lock()
	defer l.listed.mu.Unlock()
	d, known := l.listed.by[number]
	return d, known
}

// OfNode returns the open proposals that do something to a node, the highest number first.
func (l *Listing) OfNode(node string) []site.NodeProposal {
	l.listed.mu.Lock()
	defer l.listed.mu.Unlock()
	all := []site.NodeProposal{}
	for number, d := range l.listed.by {
		if d.Proposal.State != site.ProposalOpen || d.Ended {
			continue
		}
		i, does := slices.BinarySearchFunc(d.Nodes, node, func(c site.NodeConsequence, name string) int { return cmp.Compare(c.Node, name) })
		if does && d.Nodes[i].What != site.MergeLeaves && d.Nodes[i].What != site.MergePending && d.Nodes[i].What != site.MergeUnknown {
			all = append(all, site.NodeProposal{Number: number, Title: d.Proposal.Title, What: d.Nodes[i].What})
		}
	}
	slices.SortFunc(all, func(a, b site.NodeProposal) int { return b.Number - a.Number })
	return all
}

// change replaces a proposal by what is made of it. Without one it is made of an empty one.
func (l *Listing) change(number int, to func(d *site.ProposalDetail)) {
	l.listed.mu.Lock()
	defer l.listed.mu.Unlock()
	d := l.listed.by[number]
	to(&d)
	l.listed.by[number] = d
	l.listed.trimLocked()
}

// begin notes that a proposal is about to be planned.
func (l *Listing) begin(p site.Proposal) {
	l.change(p.Number, func(d *site.ProposalDetail) {
		d.Proposal, d.Planning, d.Ended = named(p), true, false
		d.Waits = waitsForPlan(p)
	})
}

func waitsForPlan(p site.Proposal) string {
	return "Slipway, which is planning " + site.Revision{ID: p.Head}.Short()
}

// planned notes a review that people are told of, with what it does to nodes; nil where nothing is planned.
func (l *Listing) planned(v site.Review, nodes []site.NodeConsequence, racks map[string]*site.Rack) {
	l.change(v.Proposal.Number, func(d *site.ProposalDetail) {
		v.Proposal = named(v.Proposal)
		*d = site.ProposalDetail{PlanDetail: kept(v, nodes, racks), ProposalBrief: site.ProposalBrief{
			Proposal: v.Proposal, Verdict: site.PlainLine(v.Verdict), Waits: present.WaitsFor(&v), Planned: v.When, Set: v.Set, Erases: len(v.Destroys())}}
	})
}

// kept is a review as it is kept, with what it does to nodes; nil where nothing is planned.
func kept(v site.Review, nodes []site.NodeConsequence, racks map[string]*site.Rack) site.PlanDetail {
	if !v.Planned() {
		nodes = nil
	}
	if len(nodes) == 0 {
		racks = nil
	}
	left := max(0, len(v.Findings)-mostFindings)
	v.Findings = v.Findings[:len(v.Findings)-left]
	d := site.PlanDetail{Review: v, FindingsLeftOut: left, Losses: v.Approves(), Nodes: nodes, Racks: racks}
	if v.Planned() {
		d.Counts = present.CountConsequences(nodes)
	}
	return d
}

// room is what kept plans take so far, of those that were made last to those before them.
type room struct{ steps, nodes int }

// fit forgets of a plan what is more than is kept of all together.
func (r *room) fit(d *site.PlanDetail) {
	whole := len(d.Review.Plan.Nodes) + len(d.Review.Pending.Nodes)
	if r.steps += whole; whole > 0 && r.steps > mostStepsKept {
		r.steps -= whole
		d.StepsLeftOut = len(d.Review.Plan.Nodes)
		d.Review.Plan.Nodes, d.Review.Pending.Nodes, d.Review.Plan.Forecast, d.Review.Pending.Forecast = nil, nil, nil, nil
	}
	more := len(d.Nodes) + len(d.Racks) + len(d.Review.Approved)
	if r.nodes += more; more > 0 && r.nodes > mostNodesKept {
		r.nodes -= more
		d.NodesLeftOut = max(d.NodesLeftOut, len(d.Nodes)) // they may be gone already
		d.Nodes, d.Racks, d.Losses, d.Review.Approved = nil, nil, nil, nil
	}
}

// landed notes the news of a merged proposal. The plan stays as people read it before the merge.
func (l *Listing) landed(v site.Review) {
	l.change(v.Proposal.Number, func(d *site.ProposalDetail) {
		endAt(d, v.Proposal.Head)
		r := d.Review
		r.Site, r.Proposal, r.Verdict, r.Comment, r.Whole, r.Call = v.Site, named(v.Proposal), v.Verdict, v.Comment, v.Whole, v.Call
		r.Approved, r.Held, r.Landing = v.Approved, v.Held, v.Landing
		d.Review, d.Proposal, d.Planning = r, r.Proposal, false
		d.Verdict, d.Waits, d.Ended = site.PlainLine(v.Verdict), present.WaitsFor(&v), v.Landing.Done
		d.Losses, d.Set, d.Erases = v.Approved, "", len(v.Approved.With(v.Held)) // not what the comment named: the merge may have approved less
		if len(v.Approved) > 0 {
			d.Set = v.Approved.Digest()
			d.ApprovedBy, d.ApprovedAt = cmp.Or(v.Proposal.MergedBy, "somebody"), v.Proposal.MergedAt
		}
	})
}

// endAt forgets what a proposal does to machines if it has ended at another commit than the planned one.
func endAt(d *site.ProposalDetail, head string) {
	if d.Review.Proposal.Head == head {
		return
	}
	d.Planned, d.Set, d.Erases, d.Losses = time.Time{}, "", 0, nil
	d.Nodes, d.Racks, d.Counts, d.NodesLeftOut, d.StepsLeftOut = nil, nil, nil, 0, 0
	d.Review.Plan, d.Review.Pending = site.Plan{}, site.Plan{}
}

// isOpen notes how open proposals are now: others change their titles.
func (l *Listing) isOpen(open []site.Proposal) {
	l.listed.mu.Lock()
	defer l.listed.mu.Unlock()
	for _, p := range open {
		if d, known := l.listed.by[p.Number]; known {
			if d.Proposal.Head != p.Head { // what is known is not about this commit
				d.Planning, d.Waits = true, waitsForPlan(p)
			}
			d.Proposal = named(p)
			l.listed.by[p.Number] = d
		}
	}
}

// drop notes that nothing further happens with a proposal. One that is not at its end, and is only not this site's any more,
// is forgotten.
func (l *Listing) drop(number int, p site.Proposal) {
	l.listed.mu.Lock()
	defer l.listed.mu.Unlock()
	d, known := l.listed.by[number]
	switch {
	case !known:
	case p.Number != number || p.State == site.ProposalOpen || p.Base != d.Proposal.Base:
		delete(l.listed.by, number)
	default:
		endAt(&d, p.Head)
		d.Proposal, d.Ended, d.Waits, d.Planning = named(p), true, "", false
		l.listed.by[number] = d
		l.listed.trimLocked()
	}
}

// named is a proposal whose texts of others have bounds.
func named(p site.Proposal) site.Proposal {
	p.Title, p.Author, p.MergedBy = site.Shorten(p.Title, longestField), site.Shorten(p.Author, longestField), site.Shorten(p.MergedBy, longestField)
	return p
}

// trimLocked forgets the oldest of what is more than a Listing keeps.
func (l *listed) trimLocked() {
	var order []int
	for number := range l.by {
		order = append(order, number)
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(lastOf(l.by[b]).Compare(lastOf(l.by[a])), b-a)
	})
	ended, room := 0, room{}
	for _, number := range order {
		d := l.by[number]
		if d.Ended {
			if ended++; ended > mostEnded {
				delete(l.by, number)
				continue
			}
		}
		if l := d.Review.Landing; d.Ended && l != nil && len(l.Machines)+len(l.Lines) > 0 { // of what machines did meanwhile
			end := *l
			end.Machines, end.Lines = nil, nil
			d.Review.Landing = &end
		}
		room.fit(&d.PlanDetail)
		l.by[number] = d
	}
}

// lastOf is when something was last told of a proposal.
func lastOf(d site.ProposalDetail) time.Time {
	if d.Proposal.MergedAt.After(d.Planned) {
		return d.Proposal.MergedAt
	}
	return cmp.Or(d.Planned, d.Proposal.Changed)
}
