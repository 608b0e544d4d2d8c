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
	Life      *lifePart
}

// lifePart is what is recorded of a node over time, as a picture and in words. It is drawn when the page is made: an open
// page is loaded far more often than it differs.
type lifePart struct {
	site.NodeTimeline
	history string // the page of it
	Range   string
	Ranges  []string
	// Listed are the last states, newest first, and All how many there are.
	Listed []site.StateSpan
	All    int
}

// ranges are how much of the past is shown, as the API names it.
var ranges = []string{"hour", "day", "week", "all"}

// mostListed is how many states are listed beside the picture.
const mostListed = 100

func node(q *request) (any, []string, error) {
	p := nodePage{Life: &lifePart{}}
	if err := q.get(q.ofNode(""), &p.NodeDetail); err != nil {
		return nil, nil, err
	}
	events := q.ofNode("/history?limit=" + strconv.Itoa(perBrief))
	if err := q.get(events, &p.Events); err != nil {
		return nil, nil, err
	}
	slices.Reverse(p.Events)
	path, err := q.life(p.Life)
	if err != nil {
		return nil, nil, err
	}
	if s := q.status; s != nil {
		p.Incidents = holding(s, q.node)
		for _, l := range s.Waiting {
			if l.Node == q.node {
				p.Losses = append(p.Losses, l)
			}
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
	p.history, p.All = q.historyPath(), len(p.States)
	p.Listed = slices.Clone(p.States[max(0, p.All-mostListed):])
	slices.Reverse(p.Listed)
	return path, nil
}

// SVG is the picture for a wide screen, and Narrow the one for a narrow one.
func (p *lifePart) SVG() template.HTML    { return p.drawn(1200) }
func (p *lifePart) Narrow() template.HTML { return p.drawn(340) }

// Says is the picture in words.
func (p *lifePart) Says() string { return present.NodeTimelineSays(&p.NodeTimeline) }

func (p *lifePart) drawn(width int) template.HTML {
	var b strings.Builder
	present.DrawNodeTimeline(&b, &p.NodeTimeline, present.NodeTimelineView{Width: width, Link: func(seq uint64) string {
		return p.history + linkOf("event", strconv.FormatUint(seq, 10))
	}})
	return template.HTML(b.String()) // present escapes what is in it
}

// historyPath is the page of the history of the node of the request, or of the site.
func (q *request) historyPath() string {
	path := "/sites/" + url.PathEscape(q.site)
	if q.node != "" {
		path += "/nodes/" + url.PathEscape(q.node)
	}
	return path + "/history"
}
