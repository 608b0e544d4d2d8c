package control

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/site"
)

// NodePage is a part of the nodes of a site.
type NodePage struct {
	Nodes []site.NodeStatus `json:"nodes"`
	// Next is what "after" has to be for the next page; empty on the last.
	Next string `json:"next,omitempty"`
	// Total is how many nodes there are on all pages together.
	Total int `json:"total"`
	// All is how many nodes the caller may read, and Counts how many of them are in each state, whatever is filtered.
	All    int                `json:"all"`
	Counts map[site.State]int `json:"counts"`
}

// RackPage are some racks of a site, in order of their names (r2 before r10).
type RackPage struct {
	Racks []RackNodes `json:"racks"`
	// Next is what "after" has to be for the next page; empty on the last.
	Next string `json:"next,omitempty"`
	// Total is how many racks there are on all pages together.
	Total int `json:"total"`
	// Outside is how many nodes that the caller may read are in no rack.
	Outside int `json:"outside"`
	// Some means that the caller may not read the whole site: racks are left out of which it may read no node, and none is as
	// designed.
	Some bool `json:"some,omitempty"`
}

// RackNodes are the nodes of one rack. Virtual machines are in no rack themselves.
type RackNodes struct {
	Name string `json:"name"`
	// Rack is the rack as designed; nil for one that the design does not have.
	Rack *site.Rack `json:"rack,omitempty"`
	// Nodes are those that the caller may read, at most 500 of them: by their units from the lowest one up, and then those
	// whose position is not known, by name. All is how many there are, Counts how many of
	// them are in each state, and Unseen how many were never seen.
	Nodes  []site.NodeStatus  `json:"nodes"`
	All    int                `json:"all"`
	Counts map[site.State]int `json:"counts"`
	Unseen int                `json:"unseen,omitempty"`
	// Chosen are the nodes among them that the filter chooses; nil without one.
	Chosen []string `json:"chosen,omitempty"`
}

// Bounds on pages of nodes.
const (
	usualPage  = "100" // nodes, as most people ask for them
	mostRacks  = 100   // racks
	mostOfRack = 500   // nodes of one rack
)

var nodeFilters = []parameter{
	{name: "state", about: "a state: nodes in it only", example: "blocked"},
	{name: "role", about: "a role: its nodes only", example: "compute"}, {name: "rack", about: "a rack: its nodes only", example: "r1"},
	{name: "label", about: "a label of the design, NAME=VALUE or NAME: nodes that have it only", example: "zone=a"},
	{name: "q", about: "a text: only nodes with it in the name, role, rack, reason, serial number or UUID; with findings or an approval, also in these", example: "compute"},
	{name: "with", about: "findings: only nodes that have some; approval: only nodes that wait for an approval of their own", example: "findings"},
}

// listRoutes list the nodes of a site.
func listRoutes() []route {
	return []route{
		{method: http.MethodGet, path: "/sites/{site}/nodes", verb: access.Read, scope: ofSome, gives: NodePage{}, serve: nodesOf,
			query: append([]parameter{afterNode, {name: "limit", about: "how many at most, up to 1000; 100 without it", example: "100", number: true}}, nodeFilters...),
			about: "Lists the nodes that the caller may read, by name, a page at a time."},
		{method: http.MethodGet, path: "/sites/{site}/racks", verb: access.Read, scope: ofSome, gives: RackPage{}, serve: racksOf,
			query: append([]parameter{{name: "after", about: "the name of a rack: those behind it only", example: "r1"}, {name: "limit", about: "how many racks at most, up to 100; 24 without it", example: "24", number: true}}, nodeFilters...),
			about: "Lists racks with the nodes in them that the caller may read, some racks at a time. With a filter it lists the racks that have a node of it."},
		linkRoute(),
	}
}

// chooser says which nodes the query chooses; nil for all.
func (c *call) chooser() (func(*site.NodeStatus) bool, error) {
	q := c.r.URL.Query()
	label, value, valued := strings.Cut(q.Get("label"), "=")
	var design *site.Site
	if label != "" {
		var err error
		if design, err = c.design(); err != nil {
			return nil, err
		}
	}
	isLabelled := func(node string) bool {
		n := design.Nodes[node] // nil for one that has left the design
		if n == nil {
			return false
		}
		own, has := n.Labels[label]
		return has && (!valued || own == value)
	}
	s, err := c.search()
	if err != nil {
		return nil, err
	}
	state, role, rack, with := q.Get("state"), q.Get("role"), q.Get("rack"), q.Get("with")
	switch with {
	case "", "findings", "approval":
	default:
		return nil, fmt.Errorf("%w: with is \"findings\" or \"approval\"", ErrBadRequest)
	}
	if state+role+rack+s.text+with+label == "" {
		return nil, nil
	}
	return func(n *site.NodeStatus) bool {
		return (state == "" || state == string(n.State)) && (role == "" || role == n.Role) && (rack == "" || rack == n.Rack) && matches(n, with, s) &&
			(label == "" || isLabelled(n.Name)) &&
			(with != "findings" || len(n.Findings) > 0) && (with != "approval" || n.Approve != "")
	}, nil
}

func nodesOf(c *call) (any, error) {
	limit, err := c.number("limit", 100, 1, mostEvents)
	if err != nil {
		return nil, err
	}
	q := c.r.URL.Query()
	chooses, err := c.chooser()
	if err != nil {
		return nil, err
	}
	s, err := c.report()
	if err != nil {
		return nil, err
	}
	if len(q) == 1 && q.Get("limit") == usualPage && c.may(access.Read, "") == nil { // made once for all who ask so
		return s.part(c.route.path, func(r site.Report) any {
			return pageOfNodes(r.Status.Nodes, nil, "", limit, func(string) bool { return true })
		})
	}
	return pageOfNodes(s.value.Status.Nodes, chooses, q.Get("after"), limit, c.shows()), nil
}

// pageOfNodes are nodes behind one, that are chosen and shown.
func pageOfNodes(nodes []site.NodeStatus, chooses func(*site.NodeStatus) bool, after string, limit uint64, shown func(node string) bool) NodePage {
	page := NodePage{Nodes: []site.NodeStatus{}}
	var sum site.Tally
	for i := range nodes {
		n := &nodes[i]
		if !shown(n.Name) {
			continue
		}
		sum.Count(n.State)
		page.All++
		if chooses != nil && !chooses(n) {
			continue
		}
		page.Total++
		switch {
		case n.Name <= after:
		case uint64(len(page.Nodes)) < limit:
			page.Nodes = append(page.Nodes, *n)
		case page.Next == "":
			page.Next = page.Nodes[len(page.Nodes)-1].Name
		}
	}
	page.Counts = sum.Counts()
	return page
}

func racksOf(c *call) (any, error) {
	limit, err := c.number("limit", 24, 1, mostRacks)
	if err != nil {
		return nil, err
	}
	chooses, err := c.chooser()
	if err != nil {
		return nil, err
	}
	s, err := c.report()
	if err != nil {
		return nil, err
	}
	page := RackPage{Racks: []RackNodes{}, Some: c.may(access.Read, "") != nil}
	in := map[string][]*site.NodeStatus{}
	var designed map[string]*site.Rack
	if !page.Some {
		d, err := c.daemon.Design(c.site)
		if err != nil {
			return nil, err
		}
		if d != nil { // there are nodes of before
			designed = d.Racks
		}
		for name := range designed {
			in[name] = nil
		}
	}
	shown, chosen := c.shows(), map[string]bool{}
	for i := range s.value.Status.Nodes {
		n := &s.value.Status.Nodes[i]
		switch {
		case !shown(n.Name):
		case n.Rack == "":
			page.Outside++
		case n.Hypervisor == "":
			in[n.Rack] = append(in[n.Rack], n)
			chosen[n.Rack] = chosen[n.Rack] || chooses != nil && chooses(n)
		}
	}
	after := c.r.URL.Query().Get("after")
	for _, name := range slices.SortedFunc(maps.Keys(in), site.CompareNumbered) {
		if chooses != nil && !chosen[name] {
			continue
		}
		page.Total++
		switch {
		case after != "" && site.CompareNumbered(name, after) <= 0:
		case uint64(len(page.Racks)) < limit:
			page.Racks = append(page.Racks, nodesOfRack(name, designed[name], in[name], chooses))
		default:
			page.Next = page.Racks[len(page.Racks)-1].Name
		}
	}
	return page, nil
}

func nodesOfRack(name string, designed *site.Rack, nodes []*site.NodeStatus, chooses func(*site.NodeStatus) bool) RackNodes {
	slices.SortStableFunc(nodes, func(a, b *site.NodeStatus) int { return byUnit(a) - byUnit(b) })
	r := RackNodes{Name: name, Rack: designed, Nodes: []site.NodeStatus{}, All: len(nodes), Counts: map[site.State]int{}}
	for _, n := range nodes {
		r.Counts[n.State]++
		if n.Seen.IsZero() {
			r.Unseen++
		}
		if len(r.Nodes) == mostOfRack {
			continue
		}
		r.Nodes = append(r.Nodes, *n)
		if chooses != nil && chooses(n) {
			r.Chosen = append(r.Chosen, n.Name)
		}
	}
	return r
}

// byUnit has nodes in the order of their lowest units, and those without one last.
func byUnit(n *site.NodeStatus) int {
	if u := n.Position.Unit; u >= 1 && u <= site.MaxUnits {
		return u
	}
	return site.MaxUnits + 1
}
