package web

import (
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

type nodePage struct {
	control.NodeDetail
	Events []site.Event
	Losses site.Losses // of the set that waits, on this node
	// Incidents are those that hold the node.
	Incidents []site.IncidentState
	Life      lifePart
}

// lifePart is what is recorded of a node over time, as a picture and in words.
type lifePart struct {
	site.NodeTimeline
	SVG    template.HTML
	Narrow template.HTML
	Says   string
	Range  string
	Ranges []string
	// Listed are the last states, newest first, and All how many there are.
	Listed []site.StateSpan
	All    int
}

// ranges are how much of the past is shown, as the API names it.
var ranges = []string{"hour", "day", "week", "all"}

// mostListed is how many states are listed beside the picture.
const mostListed = 100

func node(q *request) (any, []string, error) {
	p := nodePage{}
	if err := q.get(q.ofNode(""), &p.NodeDetail); err != nil {
		return nil, nil, err
	}
	events := q.ofNode("/history?limit=" + strconv.Itoa(perBrief))
	if err := q.get(events, &p.Events); err != nil {
		return nil, nil, err
	}
	slices.Reverse(p.Events)
	path, err := q.life(&p.Life)
	if err != nil {
		return nil, nil, err
	}
	var s site.Status
	if err := q.getWhole("status", &s); err != nil && !isDenied(err) {
		return nil, nil, err
	}
	p.Incidents = holding(&s, q.node)
	for _, l := range s.Waiting {
		if l.Node == q.node {
			p.Losses = append(p.Losses, l)
		}
	}
	return p, []string{q.ofNode(""), events, path}, nil
}

// life loads and draws what is recorded of the node over time.
func (q *request) life(p *lifePart) (path string, err error) {
	p.Range, p.Ranges = q.r.URL.Query().Get("range"), ranges
	if !slices.Contains(ranges, p.Range) {
		p.Range = "day"
	}
	path = q.ofNode("/timeline?" + url.Values{"range": {p.Range}}.Encode())
	if err := q.get(path, &p.NodeTimeline); err != nil {
		return path, err
	}
	link := func(seq uint64) string { return q.historyPath() + linkOf("event", strconv.FormatUint(seq, 10)) }
	var wide, narrow strings.Builder
	present.DrawNodeTimeline(&wide, &p.NodeTimeline, present.NodeTimelineView{Width: 1200, Link: link})
	present.DrawNodeTimeline(&narrow, &p.NodeTimeline, present.NodeTimelineView{Width: 340, Link: link})
	p.SVG, p.Narrow = template.HTML(wide.String()), template.HTML(narrow.String()) // present escapes what is in it
	p.Says, p.All = present.NodeTimelineSays(&p.NodeTimeline), len(p.States)
	p.Listed = slices.Clone(p.States[max(0, p.All-mostListed):])
	slices.Reverse(p.Listed)
	return path, nil
}

// historyPath is the page of the history of the node of the request, or of the site.
func (q *request) historyPath() string {
	path := "/sites/" + url.PathEscape(q.site)
	if q.node != "" {
		path += "/nodes/" + url.PathEscape(q.node)
	}
	return path + "/history"
}
