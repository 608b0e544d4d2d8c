package control

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// LinkPage is a part of the nodes of a site whose links are in the design, with their cables: those that differ first, then
// those of which that is not known.
type LinkPage struct {
	Nodes []NodeLinks `json:"nodes"`
	// Next is what "after" has to be for the next page; empty on the last.
	Next string `json:"next,omitempty"`
	// Total is how many nodes there are on all pages together.
	Total int `json:"total"`
	// All is how many nodes with designed links the caller may read, and Counts how many of them are in each state, whatever
	// is filtered.
	All    int                     `json:"all"`
	Counts map[site.LinksState]int `json:"counts"`
}

// NodeLinks are the cables of a node.
type NodeLinks struct {
	Node  string     `json:"node"`
	Rack  string     `json:"rack,omitempty"`
	Links site.Links `json:"links"`
	// Hidden means that the caller may not read the records: what was seen at the ports is left out, and the results are of
	// the findings alone.
	Hidden bool    `json:"hidden,omitempty"`
	Cables []Cable `json:"cables"`
}

// Cable is one port of a node, as designed and as seen.
type Cable struct {
	Interface string `json:"interface"`
	MAC       string `json:"mac,omitempty"`
	// Link is the bond or the like that the port is part of.
	Link string `json:"link,omitempty"`
	// Switch and Port are the other end as designed; empty where the design does not say it.
	Switch string `json:"switch,omitempty"`
	Port   string `json:"port,omitempty"`
	// Seen says whether the system of the node has reported the port. Carrier is what it says of the line, and Heard what
	// announces itself at the other end by LLDP.
	Seen    bool             `json:"seen"`
	Carrier string           `json:"carrier,omitempty"`
	Heard   []item.Neighbour `json:"heard,omitempty"`
	// Result is "as designed", "differs", "no carrier", "unknown", or "not designed" without a designed switch.
	Result string `json:"result"`
}

const (
	usualLinks = 20  // nodes with their cables
	mostLinks  = 100 // likewise
)

// linkOrder has those first that somebody should look at.
var linkOrder = []site.LinksState{site.LinksDiffer, site.LinksUnknown, site.LinksAsDesigned}

func linkRoute() route {
	return route{method: http.MethodGet, path: "/sites/{site}/links", verb: access.Read, scope: ofSome, gives: LinkPage{}, serve: linksOf,
		query: []parameter{
			{name: "after", about: "the \"next\" of a page: the nodes behind it only", example: "differ/compute-1"},
			{name: "limit", about: "how many nodes at most, up to 100; 20 without it", example: "20", number: true},
			{name: "state", about: "\"differ\", \"unknown\" or \"as designed\": nodes whose links are so only; \"attention\": all but those as designed", example: "differ"},
			{name: "switch", about: "a switch: the cables designed for it only", example: "leaf-1"},
			{name: "rack", about: "a rack: its nodes only", example: "r1"},
			{name: "q", about: "a text: only nodes with it in the name, the rack or the difference", example: "compute"},
		},
		about: "Lists the nodes whose links are in the design and that the caller may read, with each cable as designed and as seen, a page at a time: those that differ first. What was seen needs the verb records."}
}

// at is where a node comes in the list.
func (n *NodeLinks) at() string { return string(n.Links.State) + "/" + n.Node }

func linksOf(c *call) (any, error) {
	limit, err := c.number("limit", usualLinks, 1, mostLinks)
	if err != nil {
		return nil, err
	}
	q := c.r.URL.Query()
	state, lastName, _ := strings.Cut(q.Get("after"), "/")
	last := slices.Index(linkOrder, site.LinksState(state))
	if q.Get("after") != "" && last < 0 {
		return nil, fmt.Errorf("%w: after is the \"next\" of another page", ErrBadRequest)
	}
	if state := q.Get("state"); state != "" && state != "attention" && !slices.Contains(linkOrder, site.LinksState(state)) {
		return nil, fmt.Errorf("%w: state is \"differ\", \"unknown\", \"as designed\" or \"attention\"", ErrBadRequest)
	}
	s, err := c.report()
	if err != nil {
		return nil, err
	}
	design, err := c.design()
	if err != nil {
		return nil, err
	}
	page := LinkPage{Nodes: []NodeLinks{}, Counts: map[site.LinksState]int{}}
	var chosen []*site.NodeStatus
	shown := c.shows()
	for i := range s.value.Status.Nodes {
		n := &s.value.Status.Nodes[i]
		if n.Links.State == "" || design.Nodes[n.Name] == nil || !shown(n.Name) {
			continue
		}
		page.All++
		page.Counts[n.Links.State]++
		if hasLinks(n, design.Nodes[n.Name], q.Get("state"), q.Get("rack"), q.Get("switch"), strings.ToLower(q.Get("q"))) {
			chosen = append(chosen, n)
		}
	}
	page.Total = len(chosen)
	rank := func(n *site.NodeStatus) int { return slices.Index(linkOrder, n.Links.State) }
	slices.SortStableFunc(chosen, func(a, b *site.NodeStatus) int { return rank(a) - rank(b) })
	for _, n := range chosen {
		if cmp.Or(cmp.Compare(rank(n), last), cmp.Compare(n.Name, lastName)) <= 0 {
			continue
		}
		if uint64(len(page.Nodes)) == limit {
			page.Next = page.Nodes[limit-1].at()
			break
		}
		one, err := c.linksOfNode(n, design, q.Get("switch"))
		if err != nil {
			return nil, err
		}
		page.Nodes = append(page.Nodes, one)
	}
	return page, nil
}

// hasLinks says whether a node has the links that a query asks for.
func hasLinks(n *site.NodeStatus, d *site.Node, state, rack, aSwitch, text string) bool {
	return (state == "" || state == string(n.Links.State) || state == "attention" && n.Links.State != site.LinksAsDesigned) && (rack == "" || rack == n.Rack) &&
		(text == "" || strings.Contains(strings.ToLower(n.Name+" "+n.Rack+" "+n.Links.Why), text)) &&
		(aSwitch == "" || slices.ContainsFunc(slices.Collect(maps.Values(d.Interfaces)), func(i site.Interface) bool { return i.Switch == aSwitch }))
}

func (c *call) linksOfNode(n *site.NodeStatus, design *site.Site, aSwitch string) (NodeLinks, error) {
	d := design.Nodes[n.Name]
	is := NodeLinks{Node: n.Name, Rack: n.Rack, Links: n.Links, Cables: []Cable{}, Hidden: c.may(access.Records, n.Name) != nil}
	var seen site.Observed
	if !is.Hidden {
		all, err := c.daemon.Closeup(c.r.Context(), c.site, n.Name)
		if err != nil {
			return is, err
		}
		seen = all.Observed
	}
	for _, name := range slices.Sorted(maps.Keys(d.Interfaces)) {
		i := d.Interfaces[name]
		if !d.Carries(name) || aSwitch != "" && i.Switch != aSwitch {
			continue
		}
		link, _ := d.LinkOf(name)
		x := Cable{Interface: name, MAC: d.MACOf(name), Switch: i.Switch, Port: i.Port, Link: link}
		if is.Hidden {
			x.Result = cableResult(i, reported(n, name), n.Links.State != site.LinksAsDesigned)
		} else {
			found, unknown := plan.Port(design, d, name, seen)
			x.Result = cableResult(i, found, unknown != "")
			x.see(d, seen.Links)
		}
		is.Cables = append(is.Cables, x)
	}
	return is, nil
}

// see takes over what the system of the node has seen of the port.
func (x *Cable) see(d *site.Node, seen *item.LinksSeen) {
	if seen == nil {
		return
	}
	if port, there := d.PortOf(x.Interface, seen); there {
		x.Seen, x.Carrier, x.Heard = true, port.Carrier, port.Neighbours
	}
}

// cableResult is the verdict about a cable, from its differences and whether anything of it is unknown.
func cableResult(i site.Interface, found []site.Finding, unknown bool) string {
	switch {
	case slices.ContainsFunc(found, func(f site.Finding) bool { return f.Code == "link-carrier" }):
		return "no carrier"
	case len(found) > 0:
		return "differs"
	case unknown:
		return "unknown"
	case i.Switch == "":
		return "not designed"
	}
	return "as designed"
}

// reported are the findings of a node about the link of a port.
func reported(n *site.NodeStatus, port string) []site.Finding {
	return slices.DeleteFunc(slices.Clone(n.Findings), func(f site.Finding) bool {
		at := "interfaces." + port
		return !strings.HasPrefix(f.Code, "link-") || f.Path != at && !strings.HasPrefix(f.Path, at+".")
	})
}
