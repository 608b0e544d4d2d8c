package control

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/site"
)

// PagePolicy is the Content-Security-Policy of pages: everything from this host, and nothing inline.
const PagePolicy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

type (
	oneReportKey struct{}
	// oneReport is the report that a page is made of, once it is there.
	oneReport struct {
		recent bool
		since  time.Time // zero for the time of each question
		kept   atomic.Pointer[keptReport]
	}
	keptReport struct {
		site   string
		report *snapshot[site.Report]
	}
)

// WithOneReport has all reads with a context answered from one report of a site: a page that needs
// several answers waits for one snapshot, and its parts agree. It works for an API in this process.
func WithOneReport(ctx context.Context) context.Context {
	return context.WithValue(ctx, oneReportKey{}, &oneReport{})
}

// WithRecentReport is WithOneReport for a page that is opened: its report may be a quarter of a second old, but not
// older than the last act by this API. So nobody waits to see a page for a rest that spares the engine's lock.
func WithRecentReport(ctx context.Context) context.Context {
	return context.WithValue(ctx, oneReportKey{}, &oneReport{recent: true})
}

// WithReportSince is WithOneReport for an open page that was told of something at a time: its report is of then or later. So
// all pages that were told of the same are made of one report.
func WithReportSince(ctx context.Context, told time.Time) context.Context {
	return context.WithValue(ctx, oneReportKey{}, &oneReport{since: told})
}

type callerOfNowKey struct{}

// WithCallerOfNow has whoami, asked with the context of a page's request, identify the caller once more: a page may be
// open for as long as its certificate is valid, or longer.
func WithCallerOfNow(ctx context.Context) context.Context {
	return context.WithValue(ctx, callerOfNowKey{}, true)
}

// isPage says whether a request is for a page, and not for the API.
func isPage(r *http.Request) bool {
	return r.URL.Path != "/api" && !strings.HasPrefix(r.URL.Path, "/api/")
}

// isArrival says whether somebody has followed a link on another site to a page. A page does nothing
// when it is read, and what the browser shows is its user's alone: the other site cannot see it.
func isArrival(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" && r.Header.Get("Origin") == ""
}

// Overview is what a person needs to know of a site first, in an answer whose size does not grow with
// the site.
type Overview struct {
	// Status is the status of the site without its nodes.
	Status site.Status `json:"status"`
	// Verdict is the site in one line: "11/12 in-sync, 1 progressing".
	Verdict string `json:"verdict"`
	// Caveat is what no state shows: "2 whose links differ". It is empty for nothing.
	Caveat string `json:"caveat,omitempty"`
	// All is how many nodes there are, and Counts how many of them are in each state.
	All    int                `json:"all"`
	Counts map[site.State]int `json:"counts"`
	// Persons is how many nodes wait for a person. Attention are the first 50 nodes that somebody
	// should look at: those that wait for a person, then the others that are stuck, the longest first.
	Persons   int               `json:"persons"`
	Attention []site.NodeStatus `json:"attention"`
	// Pending is how many nodes the plan has steps for. Findings is how many findings the newest
	// revision has, Machines how many those of the machines are.
	Pending  int `json:"pending"`
	Findings int `json:"findings"`
	Machines int `json:"machineFindings"`
}

// mostAttention is how many nodes an overview names.
const mostAttention = 50

// OverviewOf is the overview of a report.
func OverviewOf(r site.Report) Overview {
	s := r.Status
	o := Overview{All: len(s.Nodes), Attention: []site.NodeStatus{}, Findings: len(r.Findings)}
	var sum site.Tally
	var urgent []*site.NodeStatus
	for i := range s.Nodes {
		n := &s.Nodes[i]
		sum.Add(n)
		o.Machines += len(n.Findings)
		if n.NeedsPerson() {
			o.Persons++
		}
		if n.Urgency() > site.Moving {
			urgent = append(urgent, n)
		}
	}
	o.Verdict, o.Caveat, o.Counts = sum.InWords(), strings.TrimPrefix(sum.Caveat(), ", "), sum.Counts()
	slices.SortStableFunc(urgent, func(a, b *site.NodeStatus) int {
		return cmp.Or(cmp.Compare(b.Urgency(), a.Urgency()), a.Since.Compare(b.Since), cmp.Compare(a.Name, b.Name))
	})
	for _, n := range urgent[:min(len(urgent), mostAttention)] {
		o.Attention = append(o.Attention, *n)
	}
	for i := range r.Plan.Nodes {
		if len(r.Plan.Nodes[i].Steps) > 0 {
			o.Pending++
		}
	}
	s.Nodes = []site.NodeStatus{}
	o.Status = s
	return o
}

// matches says whether a search finds a node: by its name, its role, its rack or its reason, or by what it is listed with.
func matches(n *site.NodeStatus, with string, s Search) bool {
	return s.in(n.Name, n.Role, n.Rack, n.Reason, n.Machine.Serial, n.Machine.UUID) || with == "approval" && s.in(n.Approve) ||
		with == "findings" && slices.ContainsFunc(n.Findings, func(f site.Finding) bool { return s.Finds(&f) })
}

// overviewRoute is of the whole site, as its counts are.
func overviewRoute() route {
	return route{method: http.MethodGet, path: "/sites/{site}/overview", verb: access.Read, gives: Overview{}, serve: ofReport(func(r site.Report) any { return OverviewOf(r) }),
		about: "Returns the site in brief: the verdict in one line, counts, and the first 50 nodes that somebody should look at. Its size does not grow with the site."}
}
