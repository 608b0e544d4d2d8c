package web

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

// How much one page shows.
const (
	perPage   = 100
	perBrief  = 12 // events on the overview and on a node's page
	perRacks  = 24
	perRows   = 100
	mostLines = 500
)

// overviewPage is the first page of a site.
type overviewPage struct {
	control.Overview
	Events []site.Event
	Some   bool              // only some of the nodes, and nothing of the site
	from   *control.Overview // nil for some of the nodes
}

// Ongoing are the incidents that are not over.
func (p overviewPage) Ongoing() []site.IncidentState { return ongoing(&p.Status) }

// isHalted says whether the rollout begins no further node.
func (p overviewPage) isHalted() bool {
	r := p.Status.Rollout
	return r != nil && r.Ended.IsZero() && r.Halted != ""
}

// MorePersons is how many nodes wait for a person besides those that are named.
func (p overviewPage) MorePersons() int {
	named := 0
	for _, n := range p.Attention {
		if n.NeedsPerson() {
			named++
		}
	}
	return p.Persons - named
}

// Waits says whether anything waits for a person, as far as the caller may see.
func (p overviewPage) Waits() bool {
	return len(p.Status.Waiting) > 0 || p.Persons > 0 || p.isHalted() || slices.ContainsFunc(p.Status.Incidents, func(i site.IncidentState) bool { return i.Acted.IsZero() })
}

func overview(q *request) (any, []string, error) {
	if !q.maySeeWhole() {
		return partly(q)
	}
	p := overviewPage{}
	of, err := getShared[control.Overview](q, q.ofSite("overview"))
	if isDenied(err) {
		return partly(q)
	} else if err != nil {
		return nil, nil, err
	}
	p.Overview, p.from = *of, of
	events, err := q.newest()
	if err != nil {
		return nil, nil, err
	}
	p.Events = events
	return p, []string{q.ofSite("overview"), q.ofSite("events")}, nil
}

// partly is the overview for somebody who may see some nodes alone.
func partly(q *request) (any, []string, error) {
	nodes, err := q.allNodes()
	if err != nil {
		return nil, nil, err
	}
	p := overviewPage{Overview: control.OverviewOf(site.Report{Status: site.Status{Nodes: nodes}}), Some: true}
	p.Verdict = "Of the nodes that you may see: " + p.Verdict
	p.Events, err = q.newest()
	return p, []string{q.ofSite("nodes"), q.ofSite("events")}, err
}

// newest are the last events, newest first.
func (q *request) newest() ([]site.Event, error) {
	var all []site.Event
	if err := q.get(q.ofSite("events?newest=true&limit="+strconv.Itoa(perBrief)), &all); err != nil {
		return nil, err
	}
	slices.Reverse(all)
	return all, nil
}

type nodesPage struct {
	control.NodePage
	Filter url.Values
	Empty  bool // no filter
	More   string
	First  string
}

// filters are what a list of nodes is filtered by.
var filters = []string{"q", "state", "role", "rack", "label"}

func nodes(q *request) (any, []string, error) {
	given := q.r.URL.Query()
	asked := url.Values{"limit": {strconv.Itoa(perPage)}}
	kept := url.Values{}
	for _, name := range filters {
		if v := given.Get(name); v != "" {
			kept.Set(name, v)
			asked.Set(name, v)
		}
	}
	p := nodesPage{Filter: kept, Empty: len(kept) == 0}
	if after := given.Get("after"); after != "" {
		asked.Set("after", after)
		p.First = "?" + kept.Encode()
	}
	path := q.ofSite("nodes?" + asked.Encode())
	if len(asked) == 1 && q.maySeeWhole() {
		all, err := getShared[control.NodePage](q, path)
		if err != nil {
			return nil, nil, err
		}
		p.NodePage = *all
	} else if err := q.get(path, &p.NodePage); err != nil {
		return nil, nil, err
	}
	if p.Next != "" {
		more := maps.Clone(kept)
		more.Set("after", p.Next)
		p.More = "?" + more.Encode()
	}
	return p, []string{path}, nil
}

type designPage struct {
	Values []designed
	Find   string
	Total  int
}

// designed is one value of the design, and where it was set. Shown is where the forge shows that; empty where it does not.
type designed struct{ Path, Value, File, Layer, Shown string }

func nodeDesign(q *request) (any, []string, error) {
	var n site.Node
	var tree any
	if err := q.get(q.ofNode("/design"), &n); err != nil {
		return nil, nil, err
	}
	if err := q.get(q.ofNode("/design"), &tree); err != nil {
		return nil, nil, err
	}
	p := designPage{Find: q.r.URL.Query().Get("q")}
	for _, v := range flat("", tree) {
		o := nearest(n.Origins, v.Path)
		v.File, v.Layer, v.Shown = o.String(), o.LayerName(), present.LineAddress(q.files, o)
		if p.Find != "" && !strings.Contains(strings.ToLower(v.Path+" "+v.Value+" "+v.Layer+" "+v.File), strings.ToLower(p.Find)) {
			continue
		}
		if p.Total++; p.Total <= mostLines {
			p.Values = append(p.Values, v)
		}
	}
	return p, []string{q.ofNode("/design")}, nil
}

// nearest is the origin of a value, or of what it is in.
func nearest(o *site.Origins, path string) site.Origin {
	for {
		if at := o.Of(path); !at.IsZero() {
			return at
		}
		dot := strings.LastIndexByte(path, '.')
		if dot < 0 {
			return site.Origin{}
		}
		path = path[:dot]
	}
}

// flat are the values of a design by path. Lists of plain values stay in one.
func flat(path string, v any) (all []designed) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if path == "" && (key == "origins" || key == "references") {
				continue
			}
			all = append(all, flat(strings.TrimPrefix(path+"."+key, "."), v[key])...)
		}
		return all
	case []any:
		var parts []string
		for _, x := range v {
			if _, deep := x.(map[string]any); deep {
				for i, y := range v {
					all = append(all, flat(path+"."+strconv.Itoa(i), y)...)
				}
				return all
			}
			parts = append(parts, plain(x))
		}
		return []designed{{Path: path, Value: strings.Join(parts, ", ")}}
	}
	return []designed{{Path: path, Value: plain(v)}}
}

func plain(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	case nil:
		return "none"
	}
	return ""
}

type inventoryPage struct {
	site.Inventory
	Sides *present.Sides // nil where the caller may not see the records
}

func inventory(q *request) (any, []string, error) {
	p := inventoryPage{}
	if err := q.get(q.ofNode("/inventory"), &p.Inventory); err != nil {
		return nil, nil, err
	}
	from := []string{q.ofNode("/inventory")}
	c, err := q.closeup()
	switch {
	case isDenied(err):
		return p, from, nil
	case err != nil:
		return nil, nil, err
	}
	sides := present.CompareSides(*c)
	p.Sides = &sides
	return p, append(from, q.ofNode("/records")), nil
}

type agentLogPage struct {
	Lines []site.Said // the last ones
	Total int
}

func agentLog(q *request) (any, []string, error) {
	var lines []site.Said
	err := q.get(q.ofNode("/agent-log"), &lines)
	return agentLogPage{lines[max(0, len(lines)-mostLines):], len(lines)}, []string{q.ofNode("/agent-log")}, err
}

// machineLog shows what the BMC kept of what happened to the hardware, newest first.
func machineLog(q *request) (any, []string, error) {
	var log site.MachineLog
	err := q.get(q.ofNode("/machine-log"), &log)
	slices.Reverse(log.Entries)
	return log, []string{q.ofNode("/machine-log")}, err
}

type planPage struct {
	site.Plan
	More  string
	First string
	Total int // nodes with something to say
}

func sitePlan(q *request) (any, []string, error) {
	p := planPage{}
	if err := q.get(q.ofSite("plan"), &p.Plan); err != nil {
		return nil, nil, err
	}
	after, all := q.r.URL.Query().Get("after"), p.Nodes
	p.Nodes = nil
	if after != "" {
		p.First = "?"
	}
	for _, n := range all {
		if !n.Pends() {
			continue
		}
		p.Total++
		switch {
		case n.Node <= after:
		case len(p.Nodes) < perPage:
			p.Nodes = append(p.Nodes, n)
		case p.More == "":
			p.More = "?" + url.Values{"after": {p.Nodes[perPage-1].Node}}.Encode()
		}
	}
	return p, []string{q.ofSite("plan")}, nil
}

type verifyPage struct {
	site.Verification
	Counts map[string]int
	Only   string
	Total  int // checks that the filter leaves
}

// verify shows what the last observations say of everything around the site, what is wrong first.
func verify(q *request) (any, []string, error) {
	p := verifyPage{Counts: map[string]int{}, Only: q.r.URL.Query().Get("outcome")}
	if err := q.get(q.ofSite("verification"), &p.Verification); err != nil {
		return nil, nil, err
	}
	for _, c := range p.Checks {
		p.Counts[string(c.Outcome)]++
	}
	ranks := []site.Outcome{site.CheckWrong, site.CheckUnknown, site.CheckOK}
	p.Checks = slices.DeleteFunc(p.Checks, func(c site.Check) bool { return p.Only != "" && string(c.Outcome) != p.Only })
	slices.SortStableFunc(p.Checks, func(a, b site.Check) int {
		return slices.Index(ranks, a.Outcome) - slices.Index(ranks, b.Outcome)
	})
	p.Total = len(p.Checks)
	p.Checks = p.Checks[:min(p.Total, mostLines)]
	return p, []string{q.ofSite("verification")}, nil
}
