package web

import (
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

type racksPage struct {
	Racks   []rackPicture
	Shapes  template.HTML // which the pictures use
	Filter  url.Values
	Total   int
	More    string
	First   string
	Outside int  // nodes that are in no rack
	Some    bool // the design is not for the caller
}

type rackPicture struct {
	Name, Summary string
	Nodes         []*site.NodeStatus
	SVG           template.HTML
}

// allNodes are the nodes that the caller may see, a thousand at a time.
func (q *request) allNodes() ([]site.NodeStatus, error) {
	var all []site.NodeStatus
	for after := ""; ; {
		var page control.NodePage
		if err := q.get(q.ofSite("nodes?"+url.Values{"limit": {"1000"}, "after": {after}}.Encode()), &page); err != nil {
			return nil, err
		}
		all = append(all, page.Nodes...)
		if after = page.Next; after == "" {
			return all, nil
		}
	}
}

func racks(q *request) (any, []string, error) {
	given, kept := q.r.URL.Query(), url.Values{}
	for _, name := range filters {
		if v := given.Get(name); v != "" {
			kept.Set(name, v)
		}
	}
	asked := maps.Clone(kept)
	asked.Set("limit", strconv.Itoa(perRacks))
	if after := given.Get("after"); after != "" {
		asked.Set("after", after)
	}
	path := q.ofSite("racks?" + asked.Encode())
	var found control.RackPage
	if err := q.get(path, &found); err != nil {
		return nil, nil, err
	}
	p := racksPage{Filter: kept, Total: found.Total, Outside: found.Outside, Some: found.Some}
	if asked.Has("after") {
		p.First = "?" + kept.Encode()
	}
	if found.Next != "" {
		more := maps.Clone(kept)
		more.Set("after", found.Next)
		p.More = "?" + more.Encode()
	}
	v := present.ElevationView{Shared: present.Symbols{}, Apart: true, Link: func(node string) string { return "nodes/" + url.PathEscape(node) }} // from this page
	for i := range found.Racks {
		drawn, err := picture(&found.Racks[i], v, len(kept) > 0)
		if err != nil {
			return nil, nil, err
		}
		p.Racks = append(p.Racks, drawn)
	}
	p.Shapes = template.HTML(v.Shared.SVG()) // of present alone
	return p, []string{path}, nil
}

// picture draws a rack. With a filter the nodes that it does not choose are faint.
func picture(r *control.RackNodes, v present.ElevationView, filtered bool) (rackPicture, error) {
	if filtered {
		chosen := map[string]bool{}
		for _, name := range r.Chosen {
			chosen[name] = true
		}
		v.Only = func(n *site.NodeStatus) bool { return chosen[n.Name] || len(chosen) == 0 } // those that it chooses may be among those that are left out
	}
	p := rackPicture{Name: r.Name, Summary: present.SummaryOf(r.All, r.Counts, r.Unseen)}
	var b strings.Builder
	for _, e := range present.Elevations(map[string]*site.Rack{r.Name: r.Rack}, r.Nodes, v) { // one
		e.More = r.All - len(r.Nodes)
		p.Nodes = e.Nodes()
		if err := e.WriteSVG(&b); err != nil {
			return p, err
		}
	}
	p.SVG = template.HTML(b.String()) // present escapes what is in it
	return p, nil
}

type rolloutPage struct {
	site.RolloutChart
	Headline []string
	SVG      template.HTML
	Narrow   template.HTML
	More     string
	First    string
}

func rollout(q *request) (any, []string, error) {
	p := rolloutPage{}
	asked := url.Values{"limit": {strconv.Itoa(perRows)}}
	if after := q.r.URL.Query().Get("after"); after != "" {
		asked.Set("after", after)
		p.First = "?"
	}
	path := q.ofSite("rollout/chart?" + asked.Encode())
	if err := q.get(path, &p.RolloutChart); err != nil {
		return nil, nil, err
	}
	if len(p.Rows) == perRows {
		p.More = "?" + url.Values{"after": {p.Rows[perRows-1].Node}}.Encode()
	}
	if !p.Since.IsZero() {
		p.Headline = present.Headline(&p.RolloutChart)
	}
	link := func(node string) string { return "/sites/" + url.PathEscape(q.site) + "/nodes/" + url.PathEscape(node) }
	var wide, narrow strings.Builder
	present.Gantt(&wide, &p.RolloutChart, present.GanttView{Width: 1200, Link: link})
	present.Gantt(&narrow, &p.RolloutChart, present.GanttView{Width: 340, Link: link})
	p.SVG, p.Narrow = template.HTML(wide.String()), template.HTML(narrow.String()) // present escapes what is in it
	return p, []string{path}, nil
}

type networkPage struct {
	control.LinkPage
	Networks []*networkLine
	Some     bool // the networks are not for the caller
	Switches []switchLines
	Hidden   bool // what was seen is not for the caller
	Filter   url.Values
	More     string
	First    string
	States   []site.LinksState
}

type networkLine struct {
	Name string
	*site.Network
}

type switchLines struct {
	Name  string
	Ports []cable
}

// cable is one port of a node, at the switch that the design has at the other end.
type cable struct {
	Node, Rack string
	control.Cable
}

// Said is what was heard by LLDP.
func (c cable) Said() string {
	var heard []string
	for _, h := range c.Heard {
		heard = append(heard, strings.TrimSpace(h.System+" "+h.Port))
	}
	switch {
	case len(heard) > 0:
		return strings.Join(heard, ", ")
	case c.Seen && c.Carrier != "":
		return "nothing"
	}
	return "unknown"
}

// linkFilters are what the list of cables is filtered by.
var linkFilters = []string{"q", "state", "switch", "rack"}

func network(q *request) (any, []string, error) {
	given, kept := q.r.URL.Query(), url.Values{}
	for _, name := range linkFilters {
		if v := given.Get(name); v != "" {
			kept.Set(name, v)
		}
	}
	if given.Has("differ") { // as links of before say it
		kept.Set("state", "attention")
	}
	asked := maps.Clone(kept)
	p := networkPage{Filter: kept, Some: !q.maySeeWhole(), States: []site.LinksState{site.LinksDiffer, site.LinksUnknown, site.LinksAsDesigned}}
	if after := given.Get("after"); after != "" {
		asked.Set("after", after)
		p.First = "?" + kept.Encode()
	}
	path := q.ofSite("links")
	if len(asked) > 0 {
		path += "?" + asked.Encode()
	}
	if err := q.get(path, &p.LinkPage); err != nil {
		return nil, nil, err
	}
	from := []string{path}
	if !p.Some {
		design, err := getShared[site.Site](q, q.ofSite("design"))
		if err != nil {
			return nil, nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(design.Networks)) {
			p.Networks = append(p.Networks, &networkLine{Name: name, Network: design.Networks[name]})
		}
		from = append(from, q.ofSite("design"))
	}
	if p.Next != "" {
		more := maps.Clone(kept)
		more.Set("after", p.Next)
		p.More = "?" + more.Encode()
	}
	p.group()
	return p, from, nil
}

// group sorts the cables of the page by their switches.
func (p *networkPage) group() {
	by := map[string][]cable{}
	for _, n := range p.Nodes {
		p.Hidden = p.Hidden || n.Hidden
		for _, c := range n.Cables {
			by[c.Switch] = append(by[c.Switch], cable{n.Node, n.Rack, c})
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(by), site.CompareNumbered) {
		p.Switches = append(p.Switches, switchLines{name, by[name]})
	}
}
