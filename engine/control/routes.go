package control

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// routes are all routes of the API.
func routes() []route {
	return slices.Concat(about(), reads(), searchRoutes(), listRoutes(), proposalRoutes(), nodeReads(), orders(), stores())
}

// Identity is what the daemon knows of who asks.
type Identity struct {
	access.Caller
	// Verbs are those that the caller may use on anything of a site, by site.
	Verbs map[string][]access.Verb `json:"verbs"`
	// Whole are those that it may use on the whole site, by site.
	Whole map[string][]access.Verb `json:"whole"`
}

func about() []route {
	return []route{
		{method: http.MethodGet, path: "/openapi.json", scope: ofCaller, about: "Returns this description as OpenAPI.", gives: map[string]any{},
			serve: func(*call) (any, error) { return prepare(openAPI), nil }},
		{method: http.MethodGet, path: "/whoami", scope: ofCaller, about: "Says who the caller is, and which verbs it may use on anything of each site, and on the whole of it.", gives: Identity{}, serve: whoAmI},
		{method: http.MethodGet, path: "/sites", scope: ofCaller, about: "Lists the names of the sites that the daemon manages.", gives: []string{},
			serve: func(c *call) (any, error) { return c.daemon.Sites(), nil }},
	}
}

func whoAmI(c *call) (any, error) {
	if c.r.Context().Value(callerOfNowKey{}) != nil {
		if err := c.identifyAgain(); err != nil {
			return nil, err
		}
	}
	is := Identity{c.caller, map[string][]access.Verb{}, map[string][]access.Verb{}}
	for _, name := range c.daemon.Sites() {
		policy := c.policyNow(name)
		for _, m := range access.Verbs {
			if !policy.MaySome(c.caller, m.Verb, name) {
				continue // nor on all of it
			}
			is.Verbs[name] = append(is.Verbs[name], m.Verb)
			if policy.Allows(c.caller, m.Verb, access.Target{Site: name}) == nil {
				is.Whole[name] = append(is.Whole[name], m.Verb)
			}
		}
	}
	return is, nil
}

var (
	afterSeq  = parameter{name: "after", about: "the seq of an entry: later ones only", example: "1700000000000000", number: true}
	limitSeq  = parameter{name: "limit", about: "how many at most, up to 1000", example: "100", number: true}
	afterRow  = parameter{name: "after", about: "the name of a node: the rows behind its own only", example: "compute-1"}
	afterNode = parameter{name: "after", about: "the name of a node: those behind it only", example: "compute-1"}
)

func reads() []route {
	return []route{
		{method: http.MethodGet, path: "/sites/{site}/report", verb: access.Read, about: "Returns the status of the site and of all nodes, the plan and the findings, with an ETag.", gives: site.Report{},
			serve: ofReport(func(r site.Report) any { return r })},
		{method: http.MethodGet, path: "/sites/{site}/status", verb: access.Read, about: "Returns the status of the site without its nodes.", gives: site.Status{},
			serve: ofReport(func(r site.Report) any { r.Status.Nodes = []site.NodeStatus{}; return r.Status })},
		overviewRoute(),
		{method: http.MethodGet, path: "/sites/{site}/access", verb: access.Read, about: "Returns what the design in force says about who may do what, and which changes of that nobody has approved.", gives: site.AccessReport{}, serve: accessOf},
		{method: http.MethodGet, path: "/sites/{site}/plan", verb: access.Read, about: "Returns the plan: what Slipway is about to do, and what it waits for.", gives: site.Plan{},
			serve: ofReport(func(r site.Report) any { return r.Plan })},
		{method: http.MethodGet, path: "/sites/{site}/rollout", verb: access.Read, about: "Returns the last rollout. Its revision is empty before the first.", gives: site.RolloutStatus{},
			serve: ofReport(func(r site.Report) any {
				if r.Status.Rollout == nil {
					return site.RolloutStatus{}
				}
				return *r.Status.Rollout
			})},
		{method: http.MethodGet, path: "/sites/{site}/rollout/chart", verb: access.Read, query: []parameter{afterRow, {name: "limit", about: "how many rows at most; all without it", example: "100", number: true}},
			about: "Returns the last rollout over time: when each node began and ended, what it waits for, and the forecast of what is left, by the rules that decide. It has no rows before the first.",
			gives: site.RolloutChart{}, serve: chartOf},
		{method: http.MethodGet, path: "/sites/{site}/design", verb: access.Read, about: "Returns the design in force without its nodes and encrypted secrets, with the origin of each value.", gives: site.Site{}, serve: designOfSite},
		{method: http.MethodGet, path: "/sites/{site}/verification", verb: access.Read, scope: ofSome, gives: site.Verification{}, serve: verificationOf,
			about: "Returns what the last looks show of the site and of the endpoints of the nodes that the caller may read. It asks no machine."},
		{method: http.MethodGet, path: "/sites/{site}/known", verb: access.Records, about: "Returns what is recorded and observed, without the URLs of media. It lists each secret that a machine was given once, without its versions.", gives: site.Known{},
			serve: func(c *call) (any, error) {
				s, err := c.knowns.get(c.r.Context(), c.site, func() (site.Known, error) {
					k, err := c.daemon.Known(c.site)
					return withoutDetails(k), err
				})
				if err != nil {
					return nil, err
				}
				return s.whole()
			}},
		{method: http.MethodGet, path: "/sites/{site}/events", verb: access.Read, scope: ofSome, events: true, query: []parameter{afterSeq, limitSeq, {name: "newest", about: "true: the last ones instead of the first", example: "true"}},
			about: "Lists the latest events of the nodes that the caller may read. With \"Accept: text/event-stream\" it streams events as they happen.",
			gives: []site.Event{}, serve: eventsOf},
	}
}

// ofReport answers with a part of the report, the same for all who may ask for it: it is made once for all of them.
func ofReport(part func(site.Report) any) func(*call) (any, error) {
	return func(c *call) (any, error) {
		r, err := c.report()
		if err != nil {
			return nil, err
		}
		return r.part(c.route.path, part)
	}
}

// chartOf answers with some rows of the chart. All else in it is about all rows.
func chartOf(c *call) (any, error) {
	limit, err := c.number("limit", 0, 1, 1<<31)
	if err != nil {
		return nil, err
	}
	s, err := c.charts.get(c.r.Context(), c.site, func() (site.RolloutChart, error) { return c.daemon.Chart(c.site) })
	if err != nil {
		return nil, err
	}
	after := c.r.URL.Query().Get("after")
	if limit == 0 && after == "" {
		return s.whole()
	}
	chart := s.value
	if after != "" {
		i := slices.IndexFunc(chart.Rows, func(r site.ChartRow) bool { return r.Node == after })
		if i < 0 {
			return nil, fmt.Errorf("%w: the rollout has no node of that name", site.ErrNotFound)
		}
		chart.Rows = chart.Rows[i+1:]
	}
	if limit > 0 && limit < uint64(len(chart.Rows)) {
		chart.Rows = chart.Rows[:limit]
	}
	return chart, nil
}

func designOfSite(c *call) (any, error) {
	d, err := c.design()
	if err != nil {
		return nil, err
	}
	s := *d
	s.Nodes, s.Sealed = map[string]*site.Node{}, nil
	return s, nil
}

func verificationOf(c *call) (any, error) {
	s, err := c.verifications.get(c.r.Context(), c.site, func() (site.Verification, error) { return c.daemon.Verification(c.site) })
	if err != nil {
		return nil, err
	}
	if c.may(access.Read, "") == nil {
		return s.whole()
	}
	shown := c.shows()
	v := s.value
	v.Checks = slices.DeleteFunc(slices.Clone(v.Checks), func(x site.Check) bool { return !shown(x.Node) })
	return v, nil
}

// design is the design in force.
func (c *call) design() (*site.Site, error) {
	d, err := c.daemon.Design(c.site)
	if err == nil && d == nil {
		err = fmt.Errorf("%w: no design is in force yet", site.ErrNotFound)
	}
	return d, err
}

// NodeDetail is one node.
type NodeDetail struct {
	Status site.NodeStatus `json:"status"`
	// Plan is what Slipway is about to do to it; nil for nothing.
	Plan *site.NodePlan `json:"plan,omitempty"`
	// Removal is set if the node leaves the design.
	Removal *site.Removal `json:"removal,omitempty"`
	// Proposals are the open pull requests that do something to it, for whoever may read the whole site.
	Proposals []site.NodeProposal `json:"proposals,omitempty"`
}

func nodeReads() []route {
	node := func(path string, v access.Verb, about string, gives any, serve func(*call) (any, error)) route {
		return route{method: http.MethodGet, path: "/sites/{site}/nodes/{node}" + path, verb: v, scope: ofNode, about: about, gives: gives, serve: serve}
	}
	file := node("/file", access.Files, "Returns the content of a designed file on the node, if it may be shown.", item.Content{},
		func(c *call) (any, error) {
			return c.daemon.File(c.r.Context(), c.site, c.node, c.r.URL.Query().Get("key"))
		})
	file.query = []parameter{{name: "key", about: "the file as the design names it", example: "files./etc/motd"}}
	return []route{
		node("", access.Read, "Returns the status of a node and its part of the plan.", NodeDetail{}, nodeOf),
		node("/design", access.Read, "Returns the node as the design in force has it, with the origin of each value.", site.Node{}, designOfNode),
		node("/allowed", access.Read, "Lists the verbs that the caller may use on the node.", []access.Verb{}, allowedOf),
		node("/inventory", access.Read, "Returns the inventory of the machine; empty before the first look.", site.Inventory{}, func(c *call) (any, error) {
			all, err := c.daemon.Closeup(c.r.Context(), c.site, c.node)
			if err != nil || all.Inventory == nil {
				return site.Inventory{}, err
			}
			return *all.Inventory, nil
		}),
		node("/records", access.Records, "Returns everything that is recorded and observed of a node, with its inventory.", site.Closeup{}, func(c *call) (any, error) {
			all, err := c.daemon.Closeup(c.r.Context(), c.site, c.node)
			all.Memory = withoutMedium(all.Memory)
			return all, err
		}),
		node("/console", access.Logs, "Returns the last of what the machine wrote to its serial console, as bytes in base64.", []byte{}, func(c *call) (any, error) {
			return c.console()
		}),
		node("/machine-log", access.Logs, "Returns the newest entries of the machine's own log, as its BMC gave them when Slipway last read it. It asks no machine.", site.MachineLog{}, func(c *call) (any, error) {
			return c.daemon.MachineLog(c.site, c.node)
		}),
		node("/agent-log", access.Logs, "Lists the latest messages of the agent in the machine's memory.", []site.Said{}, func(c *call) (any, error) {
			lines, err := c.daemon.Said(c.r.Context(), c.site, c.node)
			return append([]site.Said{}, lines...), err
		}),
		file,
	}
}

func nodeOf(c *call) (any, error) {
	s, err := c.report()
	if err != nil {
		return nil, err
	}
	r := &s.value
	n := r.Status.Node(c.node)
	if n == nil {
		return nil, c.noNode()
	}
	d := NodeDetail{Status: *n}
	if i := slices.IndexFunc(r.Plan.Nodes, func(n site.NodePlan) bool { return n.Node == c.node }); i >= 0 {
		d.Plan = &r.Plan.Nodes[i]
	}
	if i := slices.IndexFunc(r.Plan.Removes, func(x site.Removal) bool { return x.Node == c.node }); i >= 0 {
		d.Removal = &r.Plan.Removes[i]
	}
	if c.may(access.Read, "") == nil {
		d.Proposals, err = c.daemon.ProposalsOf(c.site, c.node)
	}
	return d, err
}

// allowedOf are the verbs that the caller may use on a node.
func allowedOf(c *call) (any, error) {
	all := []access.Verb{}
	for _, m := range access.Verbs {
		if c.policy.MaySome(c.caller, m.Verb, c.site) && c.may(m.Verb, c.node) == nil {
			all = append(all, m.Verb)
		}
	}
	return all, nil
}

func accessOf(c *call) (any, error) {
	return c.daemon.AccessReport(c.site)
}

func (c *call) noNode() error {
	return fmt.Errorf("%w: site %s has no node %q", site.ErrNotFound, c.site, c.node)
}

func designOfNode(c *call) (any, error) {
	d, err := c.design()
	if err != nil {
		return nil, err
	}
	n := d.Nodes[c.node]
	if n == nil {
		return nil, c.noNode()
	}
	return *n, nil
}

// withoutMedium is what is known of a node without the URLs of media, which open what is served there, and without the
// marker by which a system that is being installed proves itself.
func withoutMedium(m site.Memory) site.Memory {
	if b := m.Recorded.Agent; b != nil && b.Served != "" {
		hidden := *b
		hidden.Served = ""
		m.Recorded.Agent = &hidden
	}
	if f := m.Recorded.InFlight; f != nil && f.Served+f.Marker != "" {
		hidden := *f
		hidden.Served, hidden.Marker = "", ""
		m.Recorded.InFlight = &hidden
	}
	if i := m.Recorded.Installing; i != nil && i.Served != "" {
		hidden := *i
		hidden.Served = ""
		m.Recorded.Installing = &hidden
	}
	return m
}

// withoutDetails is what is known of a site with its nodes as withoutMedium has them, and with deliveries in brief.
func withoutDetails(k site.Known) site.Known {
	nodes := make(map[string]site.Memory, len(k.Nodes))
	for name, m := range k.Nodes {
		nodes[name] = withoutMedium(m)
	}
	k.Nodes = nodes
	if k.Delivered != nil {
		brief := make(map[string]site.Delivered, len(k.Delivered))
		for holder, d := range k.Delivered {
			brief[holder] = d.Brief()
		}
		k.Delivered = brief
	}
	return k
}

// done is the answer to an order.
type done struct {
	// Done says in a sentence what was done.
	Done string `json:"done"`
}

// orders are the routes of all orders. Each has a path of its own, which says what is done.
func orders() []route {
	order := func(v site.Verb, body any, about string) route {
		return route{method: http.MethodPost, path: "/sites/{site}/" + string(v), verb: access.Verb(v), scope: ofOrder, body: body, gives: done{}, acts: true, about: about, serve: carryOut}
	}
	return []route{
		order(site.VerbApprove, approveBody{}, "Approves what a person was shown: a set of losses by its digest, or what a node waits for."),
		order(site.VerbDisapprove, disapproveBody{}, "Takes back what was approved and not used: a set, or all of a node."),
		order(site.VerbPause, pauseBody{}, "Pauses a node or the site."),
		order(site.VerbResume, allOrOne{}, "Ends a pause."),
		order(site.VerbRetry, allOrOne{}, "Tries a node again now; for all nodes it also continues a halted rollout."),
		{method: http.MethodPost, path: "/sites/{site}/verification", verb: access.Verify, scope: ofOrder, body: verifyBody{}, gives: site.VerificationRun{}, acts: true, serve: verify,
			about: "Has nodes looked at now, and returns at once. GET of the same path shows what was seen. During a run it joins that run."},
		order(site.VerbQuarantine, withReason{}, "Switches a machine off at once and keeps it off."),
		order(site.VerbRelease, releaseBody{}, "Ends a quarantine."),
		order(site.VerbIncident, incidentBody{}, "Acts on a compromise: puts nodes under quarantine, and shows which secrets they could read; confirms an incident that waits; or ends one of which secrets are not known to be replaced."),
		order(site.VerbGrant, grantBody{}, "Approves what the design in force says about who may do what, as the person was shown it."),
		order(site.VerbTakeOver, takeOverBody{}, "Takes the site over from a daemon that is gone."),
		{method: http.MethodPost, path: "/sites/{site}/nodes/{node}/ssh", verb: access.SSH, scope: ofNode, body: sshBody{}, gives: site.SSHGrant{}, acts: true, serve: certifyLogin,
			about: "Signs a short-lived certificate that logs a person in to the node's system."},
	}
}

// stores are the routes of the daemon's stores.
func stores() []route {
	const octets, lines = "application/octet-stream", "application/jsonlines"
	digest := parameter{name: "sha256", about: "the digest that the file must have", example: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
	return []route{
		{method: http.MethodPost, path: "/state", verb: access.Export, acts: true, repairs: true, endless: true, media: octets, about: "Copies all records, as `slipway state export` writes them.", serve: exportState},
		{method: http.MethodGet, path: "/artifacts", verb: access.Read, about: "Lists the artifact store.", gives: artifact.Listing{}, serve: ofShelf(func(k artifact.Keeper, c *call) (any, error) { return k.Listing(c.r.Context()) })},
		{method: http.MethodPut, path: "/artifacts", verb: access.Artifacts, acts: true, endless: true, media: octets, query: []parameter{digest, {name: "name", about: "what people call it", example: "debian.raw"}},
			about: "Puts a file into the artifact store.", gives: artifact.Info{}, serve: ofShelf(addArtifact)},
		{method: http.MethodPost, path: "/artifacts/fetch", verb: access.Artifacts, acts: true, endless: true, media: lines, query: []parameter{{name: "url", about: "where it is", example: "https://images.example.org/debian.raw"}, digest},
			about: "Fetches a file into the store. Each line of the answer is a value, the last one has \"done\" or \"failure\".", gives: line{}, serve: ofShelf(fetchArtifact)},
		{method: http.MethodPost, path: "/artifacts/verify", verb: access.Artifacts, acts: true, repairs: true, endless: true, media: lines,
			about: "Reads all files of the store again, and removes damaged ones. It answers in lines as well.", gives: line{}, serve: ofShelf(verifyArtifacts)},
		{method: http.MethodPost, path: "/artifacts/collect", verb: access.Artifacts, acts: true, repairs: true, query: []parameter{{name: "unused", about: "for how long a file was not used", example: "720h"}, {name: "dry", about: "true: only say what would be removed", example: "true"}},
			about: "Removes files that nothing names and that were not used for some time.", gives: []artifact.Info{}, serve: ofShelf(collectArtifacts)},
	}
}
