package web

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/site"
)

// searched is a page with a list that can be searched.
type searched struct {
	Find        string // what is searched for
	More, First string // addresses of other pages; empty for none
}

// linkOf is the permanent link to an entry of a list: the list searched for it, at its place.
func linkOf(what, id string) string {
	return "?" + url.Values{"q": {id}}.Encode() + "#" + what + "-" + url.PathEscape(id)
}

// ask gives what the page asks of a list for: what is given of some filters, for one entry more than a page shows, from where the
// parameter from says.
func (q *request) ask(p *searched, from string, names ...string) (kept, asked url.Values) {
	given := q.r.URL.Query()
	kept = url.Values{}
	for _, name := range append(names, "q") {
		if v := given.Get(name); v != "" {
			kept.Set(name, v)
		}
	}
	asked = maps.Clone(kept)
	asked.Set("limit", strconv.Itoa(perPage+1))
	if v := given.Get(from); v != "" {
		asked.Set(from, v)
		p.First = "?" + kept.Encode()
	}
	p.Find = kept.Get("q")
	return kept, asked
}

// next is the address of the page from some place on.
func next(kept url.Values, from, value string) string {
	more := maps.Clone(kept)
	more.Set(from, value)
	return "?" + more.Encode()
}

type historyPage struct {
	searched
	Events []site.Event
	Kind   string
	Kinds  []site.EventKind
	Base   string // of links to events
}

func history(q *request) (any, []string, error) {
	path := q.ofSite("history")
	if q.node != "" {
		path = q.ofNode("/history")
	}
	p := historyPage{Kind: q.r.URL.Query().Get("kind"), Base: q.historyPath(), Kinds: []site.EventKind{
		site.EventDesign, site.EventState, site.EventBegun, site.EventDone, site.EventFailed, site.EventDropped, site.EventOrder, site.EventRollout, site.EventMachine}}
	kept, asked := q.ask(&p.searched, "before", "kind")
	path += "?" + asked.Encode()
	if err := q.get(path, &p.Events); err != nil {
		return nil, nil, err
	}
	slices.Reverse(p.Events)
	if len(p.Events) > perPage {
		p.Events = p.Events[:perPage]
		p.More = next(kept, "before", strconv.FormatUint(p.Events[perPage-1].Seq, 10))
	}
	return p, []string{path}, nil
}

type auditPage struct {
	searched
	Entries []site.AuditEntry
	Outcome string
}

func audit(q *request) (any, []string, error) {
	p := auditPage{Outcome: q.r.URL.Query().Get("outcome")}
	kept, asked := q.ask(&p.searched, "before", "outcome")
	asked.Set("newest", "true")
	path := q.ofSite("audit?" + asked.Encode())
	if err := q.get(path, &p.Entries); err != nil {
		return nil, nil, err
	}
	slices.Reverse(p.Entries)
	if len(p.Entries) > perPage {
		p.Entries = p.Entries[:perPage]
		p.More = next(kept, "before", strconv.FormatUint(p.Entries[perPage-1].Seq, 10))
	}
	return p, []string{path}, nil
}

type findingsPage struct {
	searched
	Design []listedFinding
	// Machines are some nodes with findings, All how many there are.
	Machines               []site.NodeStatus
	All                    int
	MoreNodes, BeforeNodes string // addresses of other pages of them
}

// listedFinding is a finding with its place on the page.
type listedFinding struct {
	control.ListedFinding
	Anchor, Link string
}

func findings(q *request) (any, []string, error) {
	p := findingsPage{}
	kept, asked := q.ask(&p.searched, "skip")
	path := q.ofSite("findings?" + asked.Encode())
	var all []control.ListedFinding
	if err := q.get(path, &all); err != nil {
		return nil, nil, err
	}
	if len(all) > perPage {
		all = all[:perPage]
		p.More = next(kept, "skip", strconv.Itoa(skipped(asked)+perPage))
	}
	same := map[string]int{}
	for _, f := range all {
		same[f.ID]++
		l := listedFinding{ListedFinding: f, Anchor: "finding-" + f.ID, Link: linkOf("finding", f.ID)}
		if n := same[f.ID]; n > 1 {
			l.Anchor = fmt.Sprintf("%s-%d", l.Anchor, n)
		}
		p.Design = append(p.Design, l)
	}
	page, nodes, err := q.nodesWith("findings", &p.MoreNodes, &p.BeforeNodes)
	if err != nil {
		return nil, nil, err
	}
	p.Machines, p.All = page.Nodes, page.Total
	for i := range p.Machines {
		p.Machines[i].Findings = found(p.Machines[i].Findings, p.Find)
	}
	return p, []string{path, nodes}, nil
}

// found are the findings that a search finds, or all where it finds none of them: then it found the node.
func found(all []site.Finding, text string) []site.Finding {
	s := control.SearchFor(text)
	some := slices.DeleteFunc(slices.Clone(all), func(f site.Finding) bool { return !s.Finds(&f) })
	if len(some) == 0 {
		return all
	}
	return some
}

func skipped(asked url.Values) int {
	n, _ := strconv.Atoi(asked.Get("skip")) // or the API refuses it
	return max(0, n)
}

// nodesWith are the nodes of a page that have something, among those that are searched for, with the addresses of other pages
// and the path that they come from.
func (q *request) nodesWith(what string, more, first *string) (page control.NodePage, path string, err error) {
	asked, kept := url.Values{"with": {what}, "limit": {strconv.Itoa(perPage)}}, url.Values{}
	if text := q.r.URL.Query().Get("q"); text != "" {
		asked.Set("q", text)
		kept.Set("q", text)
	}
	if after := q.r.URL.Query().Get("after"); after != "" {
		asked.Set("after", after)
		*first = "?" + kept.Encode()
	}
	path = q.ofSite("nodes?" + asked.Encode())
	if err = q.get(path, &page); page.Next != "" {
		*more = next(kept, "after", page.Next)
	}
	return page, path, err
}

type approvalsPage struct {
	searched
	Set    string
	Losses site.Losses
	Whole  int // how many losses the set has
	// Nodes are some that wait for an approval of their own, All is how many do. Ledger are some of the approvals of Entries.
	Nodes                  []site.NodeStatus
	All                    int
	MoreNodes, BeforeNodes string // addresses of other pages of nodes
	Ledger                 []control.ListedApproval
	Entries                int
	Some                   bool // nothing of the whole site
}

func approvals(q *request) (any, []string, error) {
	p := approvalsPage{}
	kept, asked := q.ask(&p.searched, "skip")
	page, nodes, err := q.nodesWith("approval", &p.MoreNodes, &p.BeforeNodes)
	if err != nil {
		return nil, nil, err
	}
	p.Nodes, p.All = page.Nodes, page.Total
	if !q.maySeeWhole() {
		p.Some = true
		return p, []string{nodes}, nil
	}
	asked.Set("limit", strconv.Itoa(perPage))
	path := q.ofSite("approvals?" + asked.Encode())
	var given control.ApprovalPage
	if err := q.get(path, &given); err != nil {
		return nil, nil, err
	}
	p.Set, p.Losses, p.Whole, p.Ledger, p.Entries = given.Set, given.Waiting, given.All, given.Ledger, given.Total
	if end := skipped(asked) + len(p.Ledger); end < p.Entries && len(p.Ledger) > 0 {
		p.More = next(kept, "skip", strconv.Itoa(end)) + "#ledger"
	}
	return p, []string{path, nodes}, nil
}

type incidentsPage struct {
	searched
	All []site.IncidentState
	// Name is that of the incidents that are shown whole; empty for the list.
	Name string
}

// incidents lists the incidents, or shows those of one name whole.
func incidents(q *request) (any, []string, error) {
	p := incidentsPage{Name: q.r.URL.Query().Get("name")}
	kept, asked := q.ask(&p.searched, "skip")
	if p.Name != "" {
		asked = url.Values{"q": {p.Name}}
	}
	path := q.ofSite("incidents?" + asked.Encode())
	if err := q.get(path, &p.All); err != nil {
		return nil, nil, err
	}
	if p.Name == "" && len(p.All) > perPage {
		p.All = p.All[:perPage]
		p.More = next(kept, "skip", strconv.Itoa(skipped(asked)+perPage))
	}
	if p.Name != "" {
		p.All = slices.DeleteFunc(p.All, func(i site.IncidentState) bool { return i.Name != p.Name })
		if len(p.All) == 0 {
			return nil, nil, &answer{status: 404, Text: "neither the records nor the design in force has an incident of this name: the page Incidents lists all"}
		}
	}
	return p, []string{path}, nil
}
