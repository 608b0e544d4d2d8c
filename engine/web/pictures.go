package web

import (
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

type racksPage struct {
	Racks   []rackPicture
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
	link := func(node string) string { return "/sites/" + url.PathEscape(q.site) + "/nodes/" + url.PathEscape(node) }
	for i := range found.Racks {
		drawn, err := picture(&found.Racks[i], present.ElevationView{Link: link}, len(kept) > 0)
		if err != nil {
			return nil, nil, err
		}
		p.Racks = append(p.Racks, drawn)
	}
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
	Networks []*networkLine
	Switches []switchLines
	Only     bool // differences alone
	Unseen   bool // what was seen is not for the caller
	Total    int
	Shown    int
}

type networkLine struct {
	Name string
	*site.Network
}

type switchLines struct {
	Name  string
	Ports []cable
}

// cable is one port of a node, as designed and as seen.
type cable struct {
	Node, Interface, MAC string
	Switch, Port         string // as designed
	Link                 string
	Carrier              string
	Heard                string // by LLDP; "unknown" where nobody looked
	// Match is "as designed", "differs", "no carrier", "unknown", or "not designed" without a designed switch.
	Match string
}

func network(q *request) (any, []string, error) {
	var design site.Site
	if err := q.get(q.ofSite("design"), &design); err != nil {
		return nil, nil, err
	}
	p := networkPage{Only: q.r.URL.Query().Has("differ")}
	for _, name := range slices.Sorted(maps.Keys(design.Networks)) {
		p.Networks = append(p.Networks, &networkLine{Name: name, Network: design.Networks[name]})
	}
	all, err := q.allNodes()
	if err != nil {
		return nil, nil, err
	}
	wired := slices.DeleteFunc(slices.Clone(all), func(n site.NodeStatus) bool { return n.Links.State == "" })
	p.Total = len(wired)
	if p.Only || q.r.URL.Query().Get("q") != "" {
		find := strings.ToLower(q.r.URL.Query().Get("q"))
		wired = slices.DeleteFunc(wired, func(n site.NodeStatus) bool {
			return p.Only && n.Links.State == site.LinksAsDesigned || !strings.Contains(strings.ToLower(n.Name+" "+n.Rack+" "+n.Links.Why), find)
		})
	}
	slices.SortStableFunc(wired, func(a, b site.NodeStatus) int { return linkRank(a) - linkRank(b) })
	const most = 20 // nodes whose cables are asked for one by one
	wired = wired[:min(len(wired), most)]
	p.Shown = len(wired)
	by := map[string][]cable{}
	for _, n := range wired {
		if err := q.cables(n, &design, by, &p); err != nil {
			return nil, nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		p.Switches = append(p.Switches, switchLines{name, by[name]})
	}
	return p, []string{q.ofSite("design"), q.ofSite("nodes")}, nil
}

// linkRank has those first that somebody should look at.
func linkRank(n site.NodeStatus) int {
	return slices.Index([]site.LinksState{site.LinksDiffer, site.LinksUnknown, site.LinksAsDesigned}, n.Links.State)
}

// cables adds those of a node, by the switch that the design has at the other end.
func (q *request) cables(n site.NodeStatus, design *site.Site, by map[string][]cable, p *networkPage) error {
	defer func(own string) { q.node = own }(q.node)
	q.node = n.Name
	var d site.Node
	if err := q.get(q.ofNode("/design"), &d); err != nil {
		return err
	}
	c, err := q.closeup()
	switch {
	case isDenied(err): // c is nil
		p.Unseen = true
	case err != nil:
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(d.Interfaces)) {
		if !d.Carries(name) {
			continue
		}
		i := d.Interfaces[name]
		link, _ := d.LinkOf(name)
		x := cable{Node: n.Name, Interface: name, MAC: d.MACOf(name), Switch: i.Switch, Port: i.Port, Link: link, Heard: "unknown"}
		if c == nil {
			x.Match = matchOf(i, reported(n, name), n.Links.State != site.LinksAsDesigned)
		} else {
			found, unknown := plan.Port(design, &d, name, c.Observed)
			x.Match = matchOf(i, found, unknown != "")
			x.see(&d, c.Observed.Links)
		}
		by[i.Switch] = append(by[i.Switch], x)
	}
	return nil
}

// see takes over what the system of the node has seen of the port.
func (x *cable) see(d *site.Node, seen *item.LinksSeen) {
	if seen == nil {
		return
	}
	port, there := d.PortOf(x.Interface, seen)
	if !there {
		return
	}
	x.Carrier = port.Carrier
	var heard []string
	for _, h := range port.Neighbours {
		heard = append(heard, strings.TrimSpace(h.System+" "+h.Port))
	}
	switch {
	case len(heard) > 0:
		x.Heard = strings.Join(heard, ", ")
	case port.Carrier != "":
		x.Heard = "nothing"
	}
}

// matchOf is the verdict about a cable, from its differences and whether anything of it is unknown.
func matchOf(i site.Interface, found []site.Finding, unknown bool) string {
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
func reported(n site.NodeStatus, port string) []site.Finding {
	return slices.DeleteFunc(slices.Clone(n.Findings), func(f site.Finding) bool {
		at := "interfaces." + port
		return !strings.HasPrefix(f.Code, "link-") || f.Path != at && !strings.HasPrefix(f.Path, at+".")
	})
}
