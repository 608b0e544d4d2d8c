package site

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Outcome is what came of a check.
type Outcome string

// The outcomes. Unknown means that nobody could look, or that the last look is too old:
// neither well nor wrong.
const (
	CheckOK      Outcome = "ok"
	CheckWrong   Outcome = "wrong"
	CheckUnknown Outcome = "unknown"
)

// The kinds of checks.
const (
	CheckEndpoint = "endpoint" // the driver of a node's endpoint reads the machine
	CheckSite     = "site"     // a problem of the site as a whole
)

// Check is one thing that was verified.
type Check struct {
	Kind string `json:"kind"`
	// Node and Subject say what it is about: a node's endpoint by name, or what of
	// the site has a problem. Node is empty for the site.
	Node    string  `json:"node,omitempty"`
	Subject string  `json:"subject"`
	Outcome Outcome `json:"outcome"`
	// Sentence says what was seen, or why nothing is known, without a final stop.
	Sentence string `json:"sentence"`
	// Release says what to do; empty where nothing is known to help.
	Release string `json:"release,omitempty"`
	// Seen is when this was last observed; for a problem of the site, since when
	// there is one. It is zero if it never was.
	Seen time.Time `json:"seen,omitzero"`
}

// Verification is what is known of a site's surroundings at a time.
type Verification struct {
	Site   string    `json:"site"`
	When   time.Time `json:"when"`
	Checks []Check   `json:"checks"`
}

// Verify judges what the last observations of a site show. It asks no machine and
// tries no password. An endpoint is well if its driver read something of the node's
// machine lately. An endpoint that the design moved since then is not told apart.
func Verify(design *Site, r Report, k Known, now time.Time) Verification {
	v := Verification{Site: design.Name, When: now, Checks: []Check{}}
	for _, p := range r.Status.Problems {
		v.Checks = append(v.Checks, Check{Kind: CheckSite, Subject: cmp.Or(p.About, "site"), Outcome: CheckWrong, Sentence: p.What, Seen: p.Since})
	}
	shown := make(map[string]NodeStatus, len(r.Status.Nodes))
	for _, s := range r.Status.Nodes {
		shown[s.Name] = s
	}
	fresh := 3 * cmp.Or(time.Duration(design.Rollout.ObserveEvery), time.Minute)
	for _, name := range design.NodeNames() {
		endpoints := design.Nodes[name].Endpoints
		for _, which := range slices.Sorted(maps.Keys(endpoints)) {
			c := Check{Kind: CheckEndpoint, Node: name, Subject: string(which)}
			c.Seen = lastRead(k.Nodes[name].Observed, endpoints[which])
			c.judge(shown[name], k.Unseen[name], now.Sub(c.Seen) <= fresh)
			v.Checks = append(v.Checks, c)
		}
	}
	return v
}

// judge sets the outcome for an endpoint of a node. A node that could not be looked at
// does not say which of its endpoints is the cause.
func (c *Check) judge(s NodeStatus, unseen, fresh bool) {
	switch {
	case unseen:
		c.Outcome = CheckUnknown
		c.Sentence = "the last look at the node failed: " + cmp.Or(s.Reason, "no reason was recorded")
		c.Release = cmp.Or(s.Release, fmt.Sprintf("see `slipway why %s`", c.Node))
	case c.Seen.IsZero():
		c.Outcome, c.Sentence = CheckUnknown, "nothing was read through it yet"
	case !fresh:
		c.Outcome, c.Sentence = CheckUnknown, "nothing was read through it lately"
		c.Release = fmt.Sprintf("see `slipway why %s`", c.Node)
	default:
		c.Outcome, c.Sentence = CheckOK, "its driver read the machine"
	}
}

// lastRead returns when the endpoint's driver last read something; zero for never.
func lastRead(o Observed, e Endpoint) time.Time {
	u, err := url.Parse(e.URL)
	if err != nil {
		return time.Time{}
	}
	driver, _, _ := strings.Cut(u.Scheme, "+")
	var last time.Time
	for _, f := range o.Facets {
		if f.Driver == driver && len(f.Have) > 0 && f.Seen.After(last) {
			last = f.Seen
		}
	}
	return last
}
