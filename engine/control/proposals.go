package control

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/site"
)

// ProposalPage is a part of the pull requests that Slipway has looked at, the highest number first.
type ProposalPage struct {
	Proposals []site.ProposalBrief `json:"proposals"`
	// Next is what "after" has to be for the next page; 0 on the last.
	Next int `json:"next,omitempty"`
	// Total is how many there are on all pages together, and Open how many of all are open.
	Total int `json:"total"`
	Open  int `json:"open"`
}

// ProposalView is a pull request with the plan of what merging it does, by rack.
type ProposalView struct {
	site.ProposalDetail
	ByRack
}

// ByRack is what a plan does to machines, by rack.
type ByRack struct {
	// Affected are some of the racks with a machine that does not stay as it is, in order of their names (r2 before
	// r10), each with all of its machines.
	Affected []ProposalRack `json:"affected"`
	// Next is what "after" has to be for the next racks; empty on the last. Total is how many racks are affected, and
	// Untouched how many others there are; both are 0 where that is not known.
	Next      string `json:"next,omitempty"`
	Total     int    `json:"total"`
	Untouched int    `json:"untouched"`
	// Outside are the first 100 of the machines, by name, that are in no rack and that do not stay as they are:
	// virtual machines, and those whose rack is not in the design. OutsideTotal is how many there are, and OutsideNext
	// what "outside" has to be for the next ones; empty on the last.
	Outside      []site.NodeConsequence `json:"outside"`
	OutsideTotal int                    `json:"outsideTotal"`
	OutsideNext  string                 `json:"outsideNext,omitempty"`
}

// ProposalRack is what merging a pull request, or a commit, does to the machines of a rack.
type ProposalRack struct {
	Name string `json:"name"`
	// Rack is the rack as the pull request has it; nil for one that it does not have.
	Rack *site.Rack `json:"rack,omitempty"`
	// Nodes are at most 500 of the machines: those that merging does not leave as they are, and then the others. All is how many
	// there are, and Counts how many of them have which consequence.
	Nodes  []site.NodeConsequence   `json:"nodes"`
	All    int                      `json:"all"`
	Counts map[site.Consequence]int `json:"counts"`
}

const mostOutside = 100 // machines in no rack

// byRackParameters are those of a plan by rack.
var byRackParameters = []parameter{{name: "after", about: "the name of a rack: those behind it only", example: "r1"}, {name: "limit", about: "how many racks at most, up to 100; 24 without it", example: "24", number: true},
	{name: "outside", about: "the name of a node: of the machines in no rack, those behind it only", example: "vm-1"},
	{name: "steps", about: "false: without the steps and findings of the review, which the comment sums up", example: "false"}}

// proposalRoutes are about pull requests. They need what the plan needs: to read the whole site.
func proposalRoutes() []route {
	return []route{
		{method: http.MethodGet, path: "/sites/{site}/proposals", verb: access.Read, gives: ProposalPage{}, serve: proposalsOf,
			query: []parameter{{name: "after", about: "the number of a pull request: those with a lower number only", example: "7", number: true}, {name: "limit", about: "how many at most, up to 1000; 100 without it", example: "100", number: true},
				{name: "commit", about: "a commit, or the first 4 digits of it or more: only pull requests that propose it or whose merge made it", example: "4f2a51c0"}, {name: "state", about: "open, merged or closed: only those", example: "open"}},
			about: "Lists the pull requests that Slipway has looked at since the daemon started, open ones and lately ended ones, the highest number first, a page at a time."},
		{method: http.MethodGet, path: "/sites/{site}/proposals/{number}", verb: access.Read, gives: ProposalView{}, serve: proposalOf,
			query: byRackParameters,
			about: "Returns the plan of a pull request as its comment has it, with its digest, who has approved it, and what merging does to each machine, some racks at a time."},
	}
}

var commitInQuery = regexp.MustCompile(`^[0-9a-f]{4,64}$`)

func proposalsOf(c *call) (any, error) {
	after, err := c.number("after", 0, 1, 1<<53)
	if err != nil {
		return nil, err
	}
	limit, err := c.number("limit", 100, 1, mostEvents)
	if err != nil {
		return nil, err
	}
	state := site.ProposalState(c.r.URL.Query().Get("state"))
	if state != "" && !slices.Contains([]site.ProposalState{site.ProposalOpen, site.ProposalMerged, site.ProposalClosed}, state) {
		return nil, fmt.Errorf("%w: state is \"open\", \"merged\" or \"closed\"", ErrBadRequest)
	}
	commit := c.r.URL.Query().Get("commit")
	if commit != "" && !commitInQuery.MatchString(commit) {
		return nil, fmt.Errorf("%w: commit is 4 to 64 digits of a commit, 0-9 and a-f", ErrBadRequest)
	}
	all, err := c.daemon.Proposals(c.site)
	if err != nil {
		return nil, err
	}
	page := ProposalPage{Proposals: []site.ProposalBrief{}}
	for _, p := range all {
		if p.Proposal.State == site.ProposalOpen {
			page.Open++
		}
		if state != "" && p.Proposal.State != state || !strings.HasPrefix(p.Proposal.Head, commit) && !strings.HasPrefix(p.Proposal.Merge, commit) {
			continue
		}
		page.Total++
		switch {
		case after > 0 && uint64(p.Proposal.Number) >= after:
		case uint64(len(page.Proposals)) < limit:
			page.Proposals = append(page.Proposals, p)
		default:
			page.Next = page.Proposals[len(page.Proposals)-1].Proposal.Number
		}
	}
	return page, nil
}

func proposalOf(c *call) (any, error) {
	number, err := strconv.Atoi(c.r.PathValue("number"))
	if err != nil || number < 1 {
		return nil, fmt.Errorf("%w: a pull request has a number, such as 7", site.ErrNotFound)
	}
	limit, err := c.number("limit", 24, 1, mostRacks)
	if err != nil {
		return nil, err
	}
	d, err := c.daemon.Proposal(c.site, number)
	if err != nil {
		return nil, err
	}
	v := ProposalView{ProposalDetail: d}
	v.ByRack, err = c.byRack(&v.PlanDetail, int(limit))
	return v, err
}

// byRack is what a plan does, as the query asks for it, which may leave out the steps.
func (c *call) byRack(d *site.PlanDetail, limit int) (ByRack, error) {
	v, q := ByRack{Affected: []ProposalRack{}, Outside: []site.NodeConsequence{}}, c.r.URL.Query()
	if r := &d.Review; q.Get("steps") == "false" { // many megabytes, of a large plan
		r.Plan.Nodes, r.Pending.Nodes, r.Plan.Forecast, r.Pending.Forecast, r.Findings = nil, nil, nil, nil, nil
	}
	if d.Counts == nil || d.NodesLeftOut > 0 { // then it is not known which racks stay as they are
		return v, nil
	}
	report, err := c.report()
	if err != nil {
		return v, err
	}
	v.placeIn(d, report.value.Status.Nodes, q.Get("after"), limit, q.Get("outside"))
	return v, nil
}

// placeIn adds the consequences by rack: those of the plan, with the other nodes of the site beside them.
func (v *ByRack) placeIn(d *site.PlanDetail, nodes []site.NodeStatus, after string, limit int, outside string) {
	in, planned := map[string][]site.NodeConsequence{}, make(map[string]bool, len(d.Nodes))
	for name := range d.Racks {
		in[name] = nil
	}
	affected := map[string]bool{}
	for _, n := range d.Nodes {
		planned[n.Node] = true
		switch {
		case n.Hypervisor == "" && n.Rack != "":
			in[n.Rack] = append(in[n.Rack], n)
			affected[n.Rack] = affected[n.Rack] || n.What != site.MergeLeaves
		case n.What != site.MergeLeaves:
			v.addOutside(n, outside)
		}
	}
	for i := range nodes {
		if n := &nodes[i]; n.Rack != "" && n.Hypervisor == "" && !planned[n.Name] {
			in[n.Rack] = append(in[n.Rack], site.NodeConsequence{Node: n.Name, Role: n.Role, Rack: n.Rack, Position: n.Position, What: site.MergeLeaves})
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(in), site.CompareNumbered) {
		if !affected[name] {
			v.Untouched++
			continue
		}
		v.Total++
		switch {
		case after != "" && site.CompareNumbered(name, after) <= 0:
		case len(v.Affected) < limit:
			v.Affected = append(v.Affected, rackOfProposal(name, d.Racks[name], in[name]))
		default:
			v.Next = v.Affected[len(v.Affected)-1].Name
		}
	}
}

func (v *ByRack) addOutside(n site.NodeConsequence, after string) {
	v.OutsideTotal++
	switch {
	case n.Node <= after:
	case len(v.Outside) < mostOutside:
		v.Outside = append(v.Outside, n)
	default:
		v.OutsideNext = v.Outside[mostOutside-1].Node
	}
}

func rackOfProposal(name string, designed *site.Rack, nodes []site.NodeConsequence) ProposalRack {
	r := ProposalRack{Name: name, Rack: designed, Nodes: nodes, All: len(nodes), Counts: map[site.Consequence]int{}}
	for _, n := range nodes {
		r.Counts[n.What]++
	}
	slices.SortStableFunc(r.Nodes, func(a, b site.NodeConsequence) int { return rankOf(a.What) - rankOf(b.What) })
	r.Nodes = r.Nodes[:min(len(r.Nodes), mostOfRack)]
	return r
}

// rankOf has those last that merging leaves as they are.
func rankOf(c site.Consequence) int {
	if c == site.MergeLeaves {
		return 1
	}
	return 0
}

// Proposals are the pull requests that the daemon has looked at, the highest number first.
func (c *Client) Proposals(ctx context.Context, siteName string) ([]site.ProposalBrief, error) {
	all := []site.ProposalBrief{}
	for query := "limit=1000"; ; {
		var page ProposalPage
		if _, err := c.get(ctx, ofSitePath(siteName, "proposals?"+query), "", &page); err != nil {
			return nil, err
		}
		all = append(all, page.Proposals...)
		if page.Next == 0 {
			return all, nil
		}
		query = "limit=1000&after=" + strconv.Itoa(page.Next)
	}
}

// Proposal is a pull request with the plan of what merging it does, and all racks that it affects.
func (c *Client) Proposal(ctx context.Context, siteName string, number int) (ProposalView, error) {
	var all ProposalView
	var v *ProposalView
	err := everyRack(&all.ByRack, func(query string) (*ByRack, time.Time, error) {
		v = &ProposalView{}
		_, err := c.get(ctx, ofSitePath(siteName, "proposals/"+strconv.Itoa(number)+query), "", v)
		return &v.ByRack, v.Planned, err
	}, func() { all = *v })
	return all, err
}

// everyRack gets all racks and machines of a plan, page by page. It begins again where it was planned again meanwhile. Get
// gets a page with the time of its plan, and first takes over the first one, of which all is a part.
func everyRack(all *ByRack, get func(query string) (*ByRack, time.Time, error), first func()) error {
	var planned time.Time
	for after, outside := "", ""; ; {
		query := url.Values{"limit": {strconv.Itoa(mostRacks)}, "after": {after}, "outside": {outside}}
		v, when, err := get("?" + query.Encode())
		switch {
		case err != nil:
			return err
		case after+outside == "":
			planned = when
			first()
		case !when.Equal(planned):
			after, outside = "", ""
			continue
		default:
			all.Affected, all.Outside = append(all.Affected, v.Affected...), append(all.Outside, v.Outside...)
		}
		if v.Next == "" && v.OutsideNext == "" {
			all.Next, all.OutsideNext = "", ""
			return nil
		}
		if n := len(v.Affected); n > 0 {
			after = v.Affected[n-1].Name
		}
		if n := len(v.Outside); n > 0 {
			outside = v.Outside[n-1].Node
		}
	}
}
