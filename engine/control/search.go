package control

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/site"
)

const (
	// mostSearched bounds a text that is searched for, in characters.
	mostSearched = 200
	// leastDigest is how many digits of a digest, or of the ID of a revision, find it: fewer are in too many of them.
	leastDigest = 7
)

// Parameters of lists that can be searched.
var (
	searchEvents = parameter{name: "q", about: "a text, in upper or lower case: only events with it in the text, kind, node or person; or the seq of one event; or at least 7 characters of the beginning of a revision: its events", example: "web-1"}
	searchAudit  = parameter{name: "q", about: "a text, in upper or lower case: only entries with it in who, from where, the verb, node, reason or answer; or the seq of one entry; or at least 7 characters of the beginning of a digest: its entries", example: "approve"}
	searchOthers = parameter{name: "q", about: "a text, in upper or lower case: only those with it in any of their texts; or the whole ID of one; or at least 7 characters of the beginning of a digest", example: "web-1"}
	ofKind       = parameter{name: "kind", about: "a kind of event: those only", example: "failed"}
	beforeSeq    = parameter{name: "before", about: "the seq of an entry: the last ones before it", example: "1700000000000000", number: true}
	newestFirst  = parameter{name: "newest", about: "true: the last ones instead of the first", example: "true"}
	skipRows     = parameter{name: "skip", about: "how many are left out at the beginning", example: "100", number: true}
	limitRows    = parameter{name: "limit", about: "how many at most, up to 1000; all without it", example: "100", number: true}
	limitEvents  = parameter{name: "limit", about: "how many at most, the last ones, up to 1000", example: "100", number: true}
)

// Search is a text that entries of a list are searched for, in upper or lower case. An empty one finds all.
type Search struct{ text string }

// SearchFor is a search for a text.
func SearchFor(text string) Search { return Search{strings.ToLower(text)} }

// search is what the query searches for.
func (c *call) search() (Search, error) {
	q := c.r.URL.Query().Get("q")
	if n := utf8.RuneCountInString(q); n > mostSearched {
		return Search{}, fmt.Errorf("%w: the text to search for has %d characters; it may have at most %d", ErrBadRequest, n, mostSearched)
	}
	return SearchFor(q), nil
}

// in says whether the text is in one of an entry's.
func (s Search) in(texts ...string) bool {
	return s.text == "" || slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(strings.ToLower(t), s.text) })
}

// isSeq says whether the text is the whole seq of an entry.
func (s Search) isSeq(seq uint64) bool { return s.text == strconv.FormatUint(seq, 10) }

// isID says whether the text is the whole ID of an entry. Part of one says nothing: any text of few letters may be in it.
func (s Search) isID(of func() string) bool { return len(s.text) == site.IDLength && s.text == of() }

// isDigest says whether the text is the beginning of a digest or of a revision, as long as people write it.
func (s Search) isDigest(digest string) bool {
	return len(s.text) >= leastDigest && strings.HasPrefix(digest, s.text)
}

// Finds says whether the search finds a finding.
func (s Search) Finds(f *site.Finding) bool {
	return s.in(f.Code, string(f.Severity), f.Message, f.Why, f.Fix, f.Place(), f.Node, f.Path, f.Others()) || s.isID(f.ID)
}

// part is what the query asks for of a list.
func part[T any](c *call, all []T) ([]T, error) {
	skip, err := c.number("skip", 0, 0, 1<<31)
	if err != nil {
		return nil, err
	}
	limit, err := c.number("limit", uint64(len(all)), 1, mostEvents)
	if err != nil {
		return nil, err
	}
	all = all[min(skip, uint64(len(all))):]
	return append([]T{}, all[:min(limit, uint64(len(all)))]...), nil
}

// selection is what the query asks for of a list whose entries have a seq.
type selection struct {
	Search
	before uint64 // endless where the query has none
	limit  int
}

// endless is above every seq.
const endless = 1<<64 - 1

// selects reads a selection from the query, and waits until the answer may be made.
func (c *call) selects() (s selection, free func(), err error) {
	limit, err := c.number("limit", mostEvents, 1, mostEvents)
	if err != nil {
		return s, nil, err
	}
	s.limit = int(limit)
	if s.before, err = c.number("before", endless, 0, 1<<63); err != nil {
		return s, nil, err
	}
	if s.Search, err = c.search(); err != nil {
		return s, nil, err
	}
	free, err = c.encoding.begin(c.r.Context())
	return s, free, err
}

// has says whether an entry with a digest, which may be empty, and some texts is selected.
func (s *selection) has(seq uint64, digest string, texts ...string) bool {
	return seq < s.before && (s.in(texts...) || s.isSeq(seq) || s.isDigest(digest))
}

// history are the last events of a node, or of the site, that the query chooses, oldest first.
func (c *call) history(node string) (any, error) {
	s, free, err := c.selects()
	if err != nil {
		return nil, err
	}
	defer free()
	events, err := c.daemon.History(c.r.Context(), c.site, node)
	if err != nil {
		return nil, err
	}
	kind, some := c.r.URL.Query().Get("kind"), []site.Event{}
	for i := len(events) - 1; i >= 0 && len(some) < s.limit; i-- {
		e := &events[i]
		if (kind == "" || kind == string(e.Kind)) && s.has(e.Seq, e.Revision, e.Text, string(e.Kind), e.Node, e.By) {
			some = append(some, *e)
		}
	}
	slices.Reverse(some)
	return some, nil
}

func auditOf(c *call) (any, error) {
	after, err := c.number("after", 0, 0, 1<<63)
	if err != nil {
		return nil, err
	}
	s, free, err := c.selects()
	if err != nil {
		return nil, err
	}
	defer free()
	q := c.r.URL.Query()
	outcome := q.Get("outcome")
	chosen := func(e *site.AuditEntry) bool {
		return (outcome == "" || outcome == string(e.Outcome)) &&
			s.has(e.Seq, e.Digest, e.By, e.Kind, e.Issuer, e.From, e.Verb, e.Node, e.Reason, string(e.Outcome), e.Text)
	}
	return c.auditPage(after, s.limit, s.before < endless || q.Get("newest") == "true", chosen)
}

// auditPage are the first entries behind one that are chosen, or the last ones.
func (c *call) auditPage(after uint64, limit int, newest bool, chosen func(*site.AuditEntry) bool) ([]site.AuditEntry, error) {
	page := []site.AuditEntry{}
	for {
		some, err := c.daemon.Audit(c.r.Context(), c.site, after, mostEvents)
		if err != nil || len(some) == 0 { // one is short also where the oldest were removed meanwhile
			return page, err
		}
		for i := range some {
			if !chosen(&some[i]) {
				continue
			}
			if page = append(page, some[i]); newest && len(page) >= 2*limit {
				page = append(page[:0], page[len(page)-limit:]...)
			}
			if !newest && len(page) == limit {
				return page, nil
			}
		}
		if newest {
			page = page[max(0, len(page)-limit):]
		}
		last := some[len(some)-1].Seq
		if last <= after {
			return page, nil // or it would ask for the same again
		}
		after = last
	}
}

// ListedFinding is a finding in a list.
type ListedFinding struct {
	site.Finding
	// ID is the same as long as the finding is; a search for it finds it.
	ID string `json:"id"`
}

func findingsOf(c *call) (any, error) {
	r, err := c.report()
	if err != nil {
		return nil, err
	}
	if c.r.URL.RawQuery == "" { // made once for all who ask so
		return r.part(c.route.path, func(r site.Report) any { return listed(r.Findings) })
	}
	s, err := c.search()
	if err != nil {
		return nil, err
	}
	all := r.value.Findings
	if s.text != "" {
		free, err := c.encoding.begin(c.r.Context())
		if err != nil {
			return nil, err
		}
		defer free()
		all = slices.DeleteFunc(slices.Clone(all), func(f site.Finding) bool { return !s.Finds(&f) })
	}
	some, err := part(c, all)
	return listed(some), err
}

func listed(all []site.Finding) []ListedFinding {
	some := make([]ListedFinding, len(all))
	for i := range all {
		some[i] = ListedFinding{all[i], all[i].ID()}
	}
	return some
}

// ApprovalPage is what waits for approval and what was approved.
type ApprovalPage struct {
	// Set is the digest by which all that waits is approved; empty where nothing does.
	Set string `json:"set,omitempty"`
	// Waiting is what of the set the search chooses, and All how many losses the set has.
	Waiting site.Losses `json:"waiting"`
	All     int         `json:"all"`
	// Ledger are some of the approvals that the search chooses, newest first, and Total how many it chooses.
	Ledger []ListedApproval `json:"ledger"`
	Total  int              `json:"total"`
}

// ListedApproval is an approval in a list.
type ListedApproval struct {
	site.LedgerEntry
	// ID is the same for ever; a search for it finds it.
	ID string `json:"id"`
}

func approvalsOf(c *call) (any, error) {
	s, err := c.search()
	if err != nil {
		return nil, err
	}
	r, err := c.report()
	if err != nil {
		return nil, err
	}
	is := &r.value.Status
	p := ApprovalPage{Set: is.Approve, Waiting: site.Losses{}, All: len(is.Waiting)}
	ofLoss := func(l *site.Loss) []string {
		return []string{l.Node, string(l.Action), l.Lost, l.Disks, l.Target(), l.Breaks}
	}
	for i := range is.Waiting {
		if s.in(ofLoss(&is.Waiting[i])...) || s.isDigest(is.Approve) {
			p.Waiting = append(p.Waiting, is.Waiting[i])
		}
	}
	var all []ListedApproval
	for i := len(is.Ledger) - 1; i >= 0; i-- {
		e := ListedApproval{is.Ledger[i], is.Ledger[i].ID()}
		if s.in(append(ofLoss(&e.Loss), e.Source.String(), e.Note, e.Result())...) || s.isDigest(e.Set) || s.isID(e.LedgerEntry.ID) {
			all = append(all, e)
		}
	}
	p.Total = len(all)
	p.Ledger, err = part(c, all)
	return p, err
}

func incidentsOf(c *call) (any, error) {
	s, err := c.search()
	if err != nil {
		return nil, err
	}
	r, err := c.report()
	if err != nil {
		return nil, err
	}
	var all []site.IncidentState
	for _, i := range r.value.Status.Incidents {
		if s.in(append([]string{i.Name, i.Incident.Reason, i.By, i.Verdict()}, i.Incident.Nodes...)...) || s.isDigest(i.ID) || s.isDigest(i.Commit) {
			all = append(all, i)
		}
	}
	return part(c, all)
}

// searchRoutes are the lists that can be searched.
func searchRoutes() []route {
	events := []parameter{searchEvents, ofKind, beforeSeq, limitEvents}
	return []route{
		{method: http.MethodGet, path: "/sites/{site}/findings", verb: access.Read, about: "Lists the findings of the newest revision.", gives: []ListedFinding{}, serve: findingsOf,
			query: []parameter{searchOthers, skipRows, limitRows}},
		{method: http.MethodGet, path: "/sites/{site}/approvals", verb: access.Read, gives: ApprovalPage{}, serve: approvalsOf, query: []parameter{searchOthers, skipRows, limitRows},
			about: "Returns which losses wait for approval, and lists the approvals in the ledger, newest first. Skip and limit are of the ledger."},
		{method: http.MethodGet, path: "/sites/{site}/incidents", verb: access.Read, about: "Lists the incidents that the daemon knows, latest first.", gives: []site.IncidentState{}, serve: incidentsOf,
			query: []parameter{searchOthers, skipRows, limitRows}},
		{method: http.MethodGet, path: "/sites/{site}/history", verb: access.Read, about: "Lists the last events of the site itself, and all orders, oldest first, also over restarts.", gives: []site.Event{}, query: events,
			serve: func(c *call) (any, error) { return c.history("") }},
		{method: http.MethodGet, path: "/sites/{site}/nodes/{node}/history", verb: access.Read, scope: ofNode, about: "Lists the last events of a node, oldest first, also over restarts.", gives: []site.Event{}, query: events,
			serve: func(c *call) (any, error) { return c.history(c.node) }},
		{method: http.MethodGet, path: "/sites/{site}/nodes/{node}/timeline", verb: access.Read, scope: ofNode, gives: site.NodeTimeline{}, serve: timelineOf,
			query: []parameter{{name: "range", about: "hour, day, week or all: how much of the past; a day without it", example: "week"}},
			about: "Returns what is recorded of a node over time: its states, with the times of which nothing is known, its steps, and its last events."},
		{method: http.MethodGet, path: "/sites/{site}/audit", verb: access.Audit, query: []parameter{afterSeq, limitSeq, searchAudit, {name: "outcome", about: "an outcome: those only", example: "denied"}, beforeSeq, newestFirst},
			about: "Lists who tried to do what, with what came of it, oldest first.", gives: []site.AuditEntry{}, serve: auditOf},
	}
}

// ranges are how much of the past a timeline shows; all has no length.
var ranges = map[string]time.Duration{"hour": time.Hour, "day": 24 * time.Hour, "week": 7 * 24 * time.Hour, "all": 0}

// timelineSteps is how many presents a timeline has in its length: as exactly as one can be drawn. So an answer stays the
// same for some time.
const timelineSteps = 500

func timelineOf(c *call) (any, error) {
	name := c.r.URL.Query().Get("range")
	if name == "" {
		name = "day"
	}
	length, known := ranges[name]
	if !known {
		return nil, fmt.Errorf("%w: there is no range %q: it is \"hour\", \"day\", \"week\" or \"all\"", ErrBadRequest, name)
	}
	watched, err := c.daemon.Watched(c.site)
	if err != nil {
		return nil, err
	}
	events, err := c.daemon.History(c.r.Context(), c.site, c.node)
	if err != nil {
		return nil, err
	}
	r, err := c.report()
	if err != nil {
		return nil, err
	}
	now, from := time.Now().UTC(), time.Time{}
	if length > 0 {
		now = now.Truncate(length / timelineSteps)
	} else {
		now = now.Truncate(time.Minute)
	}
	if n := len(events); n > 0 && events[n-1].When.After(now) { // it has just happened
		now = events[n-1].When.UTC()
	}
	if length > 0 {
		from = now.Add(-length)
	}
	return site.TimelineOf(c.node, r.value.Status.Node(c.node), events, watched, from, now), nil
}
