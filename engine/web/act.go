package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Act is one thing that a page can have the daemon do. Its route is the one of the API with its verb.
type Act struct {
	Verb site.Verb
	// Label is what the button says; Does what happens then, and Until what ends it.
	Label, Does, Until string
	// Site says that it can be asked for the whole site, and Node for one node.
	Site, Node bool
	// Reason says that a reason has to be given.
	Reason bool
	// Grave says that it can lose data or take machines out of service.
	Grave bool
}

// Acts are all of them.
var Acts = []Act{
	{Verb: site.VerbApprove, Label: "Approve", Does: "Slipway carries out exactly what is listed here, as soon as windows and limits allow it.", Until: "An approval that was not used can be taken back.", Site: true, Node: true, Grave: true},
	{Verb: site.VerbDisapprove, Label: "Take back approval", Does: "Approvals that were not used yet end. Nothing that has begun is undone.", Site: true, Node: true},
	{Verb: site.VerbPause, Label: "Pause", Does: "Slipway continues to look at machines and stops changing them. What is in progress on a machine stops before its next request. Machines keep running.", Until: "Resume ends the pause.", Site: true, Node: true, Reason: true},
	{Verb: site.VerbResume, Label: "Resume", Does: "Slipway works again, and begins with what is pending.", Site: true, Node: true},
	{Verb: site.VerbRetry, Label: "Retry now", Does: "Slipway tries now instead of waiting, and tries a refused credential once more. For the whole site this also continues a halted rollout.", Site: true, Node: true},
	{Verb: site.VerbQuarantine, Label: "Quarantine", Does: "Slipway forces the power off at once, without a shutdown, and keeps it off. Running work on the machine is cut off, and unsaved data is lost.", Until: "Release ends the quarantine.", Site: true, Node: true, Reason: true, Grave: true},
	{Verb: site.VerbRelease, Label: "Release", Does: "The quarantine ends. Slipway powers the machine on if the design says so.", Site: true, Node: true},
	{Verb: site.VerbIncident, Label: "Report a compromise", Does: "Slipway puts the nodes under quarantine: it forces their power off at once through their BMCs, and keeps it off. Running work is cut off, and unsaved data is lost. Windows, pauses and limits do not delay this. Slipway gives no secret a new value: it lists those that count as read, and shows which are replaced since.", Until: "A person releases each node, with the name of the incident.", Site: true, Node: true, Reason: true, Grave: true},
	{Verb: site.VerbVerify, Label: "Verify now", Does: "Slipway looks at the machines now. The next page shows what is wrong or unknown. It changes no design and sends no password that was denied.", Site: true, Node: true},
	{Verb: site.VerbTakeOver, Label: "Take over", Does: "This daemon continues for the site although another one acted for it later. Do this only if the other daemon is gone: two daemons for one site undo each other's work.", Site: true, Reason: true, Grave: true},
}

// route is the last part of its route's path.
func (a Act) route() string {
	if a.Verb == site.VerbVerify {
		return "verification"
	}
	return string(a.Verb)
}

func actOf(verb string) (Act, bool) {
	i := slices.IndexFunc(Acts, func(a Act) bool { return string(a.Verb) == verb })
	if i < 0 {
		return Act{}, false
	}
	return Acts[i], true
}

// question is what a person confirms.
type question struct {
	Act
	Node   string
	Digest string // of a set
	Shown  string // the digest of what a node waits for
	Losses site.Losses
	What   string // what is approved of a node
	Status *site.NodeStatus
	// Plan is all that the approval of a node is for; nil for nothing. Revision is the one in force, where the
	// caller may read it.
	Plan     *site.NodePlan
	Removal  *site.Removal
	Revision site.Revision
	All      int
	// Incidents are those that hold the node, or the one that is confirmed by its ID Confirm. Look is
	// what a daemon says that it would do.
	Incidents []site.IncidentState
	Confirm   string
	Look      string
	// Note says what the form cannot show. Gone says why there is nothing to confirm.
	Note  string
	Gone  string
	Error string
	Given url.Values
	Done  string
	Back  string
}

// ask shows what an act would do, and its form.
func (s *Site) ask(w http.ResponseWriter, r *http.Request) {
	s.confirm(w, r, r.URL.Query(), question{}, http.StatusOK)
}

// confirm shows the form of an act, with what is known already: what was wrong, or what it would do.
func (s *Site) confirm(w http.ResponseWriter, r *http.Request, given url.Values, known question, status int) {
	a, is := actOf(r.PathValue("verb"))
	if !is {
		s.fail(w, r, &answer{status: http.StatusNotFound, Text: "there is no such action"})
		return
	}
	q := &request{s: s, r: r.WithContext(control.WithOneReport(r.Context())), site: r.PathValue("site"), node: given.Get("node"), whole: true}
	page, err := q.shell("do", a.Label)
	if err == nil && !page.mayAsk(a, given) {
		err = &answer{status: http.StatusForbidden, Text: page.Who + " may not " + string(a.Verb) + " here"}
	}
	c := &known
	c.Act, c.Node, c.Given, c.Back = a, q.node, given, back(q)
	if err == nil {
		err = c.load(q, page)
	}
	if err != nil && c.Error != "" { // what became of an order is more than why its form is not shown again
		err = &answer{status: status, Text: c.Error}
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	page.Content = c
	if a.Verb == site.VerbIncident {
		page.Title = c.Label
	} else if c.Node != "" {
		page.Title += " " + c.Node
	} else if c.Verb != site.VerbApprove && c.Verb != site.VerbDisapprove {
		page.Title += ": whole site " + page.Site
	}
	s.write(w, r, "do", page, status)
}

// mayAsk says whether the caller may ask for an act. The API decides: this is what a page offers.
func (p *Shell) mayAsk(a Act, given url.Values) bool {
	switch {
	case given.Get("node") != "", a.Verb == site.VerbApprove, a.Verb == site.VerbIncident && given.Get("confirm") == "":
		return p.May[string(a.Verb)] // which nodes it is about is in the form
	}
	return p.Whole[string(a.Verb)]
}

func back(q *request) string {
	if q.node != "" {
		return "/sites/" + q.site + "/nodes/" + url.PathEscape(q.node)
	}
	return "/sites/" + q.site
}

// load finds out what the act is about now.
func (c *question) load(q *request, page *Shell) error {
	digest := c.Given.Get("digest")
	if c.Verb == site.VerbIncident {
		c.loadIncident(page)
		return nil
	}
	if c.Verb == site.VerbRelease && c.Node != "" {
		c.Incidents = holding(page.Status, c.Node)
	}
	if c.Node != "" {
		var d control.NodeDetail
		if err := q.get(q.ofNode(""), &d); err != nil {
			return err
		}
		c.Status = &d.Status
		if c.Verb == site.VerbApprove {
			c.What, c.Shown, c.Plan, c.Removal = d.Status.Approve, d.Status.Approval, d.Plan, d.Removal
			if page.Status != nil {
				c.Revision = page.Status.Applied
			}
			if c.What == "" {
				c.Gone = "Nothing of " + c.Node + " waits for approval now."
			}
		}
		if c.Verb == site.VerbDisapprove {
			c.loadOpen(page.Status, "")
		}
		return nil
	}
	switch c.Verb {
	case site.VerbApprove:
		c.loadSet(page.Status, digest)
		return nil
	case site.VerbDisapprove:
		c.loadOpen(page.Status, digest)
		return nil
	}
	var o control.Overview
	if err := q.get(q.ofSite("overview"), &o); err != nil {
		return err
	}
	c.All = o.All
	return nil
}

// loadSet finds out what the set that waits destroys. Its digest is in the form only with its losses.
func (c *question) loadSet(s *site.Status, shown string) {
	switch {
	case s == nil:
		c.Gone = "You may not read what this set destroys, so you cannot approve it here."
		return
	case s.Approve == "":
		c.Gone = "Nothing waits for approval now."
		return
	case shown != "" && shown != s.Approve:
		c.Error = strings.TrimSpace(c.Error + " What waits for approval has changed since you read it. This is what waits now.")
	}
	c.Losses, c.Digest = s.Waiting, s.Approve
}

// loadOpen finds out which approvals end: those of a set or of a node. A set that the records do not list
// can be taken back too, as a merged proposal may approve it.
func (c *question) loadOpen(s *site.Status, digest string) {
	c.Digest = digest
	switch {
	case digest == "" && c.Node == "":
		c.Gone = "Choose an approval on the page of approvals, or a node, to take it back."
		return
	case s == nil:
		c.Note = "You may not read the records of approvals, so what ends is not shown."
		return
	}
	for _, e := range s.Ledger {
		if e.IsOpen() && (c.Node != "" && e.Loss.Node == c.Node || c.Node == "" && e.Set == digest) {
			c.Losses = append(c.Losses, e.Loss)
		}
	}
	switch {
	case len(c.Losses) > 0:
	case c.Node != "":
		c.Note = "No open approval of " + c.Node + " is in the records."
	default:
		c.Note = "No open approval with this digest is in the records. If a merged proposal approved it, that ends."
	}
}

// act asks the API to act, as the form says.
func (s *Site) act(w http.ResponseWriter, r *http.Request) {
	a, known := actOf(r.PathValue("verb"))
	if !known {
		s.fail(w, r, &answer{status: http.StatusNotFound, Text: "there is no such action"})
		return
	}
	if !control.IsOwnForm(r) {
		s.fail(w, r, &answer{status: http.StatusForbidden, Text: "this form was not sent by a page of this host; nothing was done"})
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	if err := r.ParseForm(); err != nil {
		s.fail(w, r, &answer{status: http.StatusBadRequest, Text: "the form cannot be read; nothing was done"})
		return
	}
	body, wrong := orderOf(a, r.PostForm, s.now())
	if wrong != "" {
		s.confirm(w, r, r.PostForm, question{Error: wrong}, http.StatusBadRequest)
		return
	}
	q := &request{s: s, r: r, site: r.PathValue("site"), node: r.PostForm.Get("node"), whole: true}
	var done struct {
		Done string `json:"done"`
	}
	if err := q.do(http.MethodPost, q.ofSite(a.route()), body, &done); err != nil {
		e := asAnswer(err)
		says := "Nothing was done: " + e.Text
		if e.status >= http.StatusInternalServerError { // it may have failed after it was done
			says = "Slipway does not know whether this was done. Look at the node and the audit log before you repeat it: " + e.Text
		}
		s.confirm(w, r, r.PostForm, question{Error: says}, e.status)
		return
	}
	if a.Verb == site.VerbVerify {
		http.Redirect(w, r, "/sites/"+url.PathEscape(q.site)+"/verify", http.StatusSeeOther)
		return
	}
	if isLook(a, r.PostForm) {
		s.confirm(w, r, r.PostForm, question{Look: done.Done}, http.StatusOK)
		return
	}
	page, err := q.shell("do", a.Label)
	if err != nil { // which changes nothing about the order
		page = s.bare(r, "do", a.Label)
	}
	page.Content = &question{Act: a, Node: q.node, Done: done.Done, Back: back(q)}
	s.write(w, r, "do", page, http.StatusOK)
}

// orderOf is the body of the API's route for what a form asks, or says what is missing.
func orderOf(a Act, f url.Values, now time.Time) (body map[string]any, wrong string) {
	body = map[string]any{}
	if a.Verb == site.VerbIncident {
		return incidentOrder(f, isLook(a, f))
	}
	reason := strings.TrimSpace(f.Get("reason"))
	node, digest := f.Get("node"), f.Get("digest")
	switch {
	case a.Reason && reason == "":
		return nil, "Write a reason: the next person on call will want to know."
	case f.Get("sure") != "yes":
		return nil, "Tick the box to confirm."
	case node == "" && !a.Site, node == "" && digest == "" && (a.Verb == site.VerbApprove || a.Verb == site.VerbDisapprove):
		return nil, "The form names neither a node nor what was shown."
	}
	if a.Reason || reason != "" && (a.Verb == site.VerbApprove || a.Verb == site.VerbDisapprove) {
		body["reason"] = reason
	}
	switch a.Verb {
	case site.VerbTakeOver:
		return body, ""
	case site.VerbApprove, site.VerbDisapprove:
		if node == "" {
			body["digest"] = digest
			return body, ""
		}
		body["node"] = node
		if a.Verb == site.VerbApprove {
			body["shown"] = f.Get("shown")
		}
		return body, ""
	}
	switch {
	case node == "":
		body["all"] = true
	case a.Verb == site.VerbVerify:
		body["nodes"] = []string{node}
	default:
		body["node"] = node
	}
	if name := strings.TrimSpace(f.Get("incident")); a.Verb == site.VerbRelease && name != "" {
		body["incident"] = name
	}
	if length := f.Get("for"); a.Verb == site.VerbPause && length != "" {
		d, err := time.ParseDuration(length)
		if err != nil || d <= 0 {
			return nil, "The length of the pause is a time like 30m or 8h."
		}
		body["until"] = now.Add(d).UTC()
	}
	return body, ""
}
