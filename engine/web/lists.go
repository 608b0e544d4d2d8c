package web

import (
	"net/url"
	"slices"
	"strconv"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/site"
)

type findingsPage struct {
	Design []site.Finding
	Total  int
	// Machines are some nodes with findings, All how many there are.
	Machines    []site.NodeStatus
	All         int
	More, First string
}

// nodesWith are the nodes of a page that have something, with how many there are and the addresses of other pages.
func (q *request) nodesWith(what string) (page control.NodePage, more, first, path string, err error) {
	asked := url.Values{"with": {what}, "limit": {strconv.Itoa(perPage)}}
	if after := q.r.URL.Query().Get("after"); after != "" {
		asked.Set("after", after)
		first = "?"
	}
	path = q.ofSite("nodes?" + asked.Encode())
	if err = q.get(path, &page); page.Next != "" {
		more = "?" + url.Values{"after": {page.Next}}.Encode()
	}
	return page, more, first, path, err
}

func findings(q *request) (any, []string, error) {
	p := findingsPage{}
	if err := q.get(q.ofSite("findings"), &p.Design); err != nil {
		return nil, nil, err
	}
	p.Total = len(p.Design)
	p.Design = p.Design[:min(len(p.Design), mostLines)]
	page, more, first, path, err := q.nodesWith("findings")
	if err != nil {
		return nil, nil, err
	}
	p.Machines, p.All, p.More, p.First = page.Nodes, page.Total, more, first
	return p, []string{q.ofSite("findings"), path}, nil
}

type approvalsPage struct {
	Set    string
	Losses site.Losses
	// Nodes are some that wait for an approval of their own, All is how many do. Ledger are the last approvals of Entries.
	Nodes       []site.NodeStatus
	All         int
	More, First string
	Ledger      []site.LedgerEntry
	Entries     int
	Some        bool // nothing of the whole site
}

func approvals(q *request) (any, []string, error) {
	p := approvalsPage{}
	page, more, first, path, err := q.nodesWith("approval")
	if err != nil {
		return nil, nil, err
	}
	p.Nodes, p.All, p.More, p.First = page.Nodes, page.Total, more, first
	if !q.maySeeWhole() {
		p.Some = true
		return p, []string{path}, nil
	}
	s, err := getShared[site.Status](q, q.ofSite("status"))
	if err != nil {
		return nil, nil, err
	}
	p.Set, p.Losses, p.Entries = s.Approve, s.Waiting, len(s.Ledger)
	p.Ledger = slices.Clone(s.Ledger[p.Entries-min(p.Entries, mostLines):])
	slices.Reverse(p.Ledger)
	return p, []string{q.ofSite("status"), path}, nil
}
