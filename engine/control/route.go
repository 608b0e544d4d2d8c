package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/site"
)

// scope is what a route is about, and so what a caller needs its verb for.
type scope int

const (
	// ofSite needs the verb for the whole site.
	ofSite scope = iota
	// ofNode needs it for the node in the path.
	ofNode
	// ofSome needs it for anything of the site; the answer leaves out the rest.
	ofSome
	// ofOrder needs it for what the body names.
	ofOrder
	// ofCaller needs a caller that is known, and no verb.
	ofCaller
)

// route is one thing that can be asked of a daemon.
type route struct {
	method, path string
	// verb is what a caller needs; empty for ofCaller.
	verb  access.Verb
	scope scope
	about string // a sentence
	query []parameter
	// body is a value of the type that a request has as JSON; nil for none.
	body any
	// gives is a value of the type that is answered as JSON; nil for what is no JSON.
	gives any
	// events says that it can be asked for as server-sent events too.
	events bool
	// media is what is sent or answered where that is no JSON; lines of JSON are one value each.
	media string
	// acts says that it does something: it is in the audit log.
	acts bool
	// repairs says that a full or broken disk must not keep it from being done: it is done also where the
	// audit log cannot be written.
	repairs bool
	// endless says that an answer takes as long as it takes.
	endless bool
	// serve answers. What it gives is written as JSON, unless it has written an answer itself.
	serve func(*call) (any, error)
}

// parameter is one of a query.
type parameter struct {
	name, about string
	example     string
	number      bool
}

// call is one request on its way.
type call struct {
	*api
	route  *route
	w      http.ResponseWriter
	r      *http.Request
	client context.Context // ends when the client has gone
	caller access.Caller
	policy *access.Policy
	// site and node are those of the path.
	site, node string
	order      site.Order // of a route that is ofOrder
	// placed are the nodes of the design, where many are looked at; nil where they are asked for one by
	// one. Those that left it are not there.
	placed map[string]*site.Node
}

// written is given by a serve that has written its answer itself; err is what the answer says went
// wrong.
type written struct{ err error }

// prefix begins all paths, with the version of the API.
const prefix = "/api/v1"

// onlySite is the site in a path where the daemon's only one is meant.
const onlySite = "-"

// mux serves the routes.
func (a *api) mux() *http.ServeMux {
	mux := http.NewServeMux()
	for _, rt := range routes() {
		mux.HandleFunc(rt.method+" "+prefix+rt.path, func(w http.ResponseWriter, r *http.Request) {
			c := &call{api: a, route: &rt, w: w, r: r, client: r.Context(), caller: callerOf(r.Context())}
			if a.front != nil && rt.scope != ofCaller && c.locate() == nil {
				a.front.pass(c)
				return
			}
			c.answer()
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, fmt.Errorf("%w: there is no %s %s in this API; GET %s/openapi.json describes it", site.ErrNotFound, r.Method, printablePath(r), prefix))
	})
	return mux
}

func printablePath(r *http.Request) string {
	const most = 200
	return site.Printable(r.URL.Path[:min(len(r.URL.Path), most)])
}

// answer does what is asked and writes the answer.
func (c *call) answer() {
	free, err := c.limits.begin(c.caller, c.wantsStream())
	if err != nil {
		_ = c.locate() // for the entry alone
		c.reject(err)
		fail(c.w, err)
		return
	}
	defer free()
	v, err := c.answerOf()
	if errors.Is(err, errCut) {
		panic(http.ErrAbortHandler)
	}
	if _, isWritten := v.(written); isWritten && err == nil {
		return
	}
	if err == nil {
		err = c.write(v)
	}
	if err != nil {
		fail(c.w, err)
	}
}

// answerOf does what is asked, if the caller may.
func (c *call) answerOf() (v any, err error) {
	if err := c.locate(); err != nil {
		c.reject(err)
		return nil, err
	}
	c.policy = c.policyNow(c.site)
	var wrong error
	if c.route.scope == ofOrder {
		c.order, wrong = readOrder(c)
	}
	if c.route.scope != ofCaller && !c.policy.MaySome(c.caller, c.route.verb, c.site) {
		return nil, c.denied(c.may(c.route.verb, cmp.Or(c.order.Node, c.node))) // before anything else is looked at
	}
	if wrong != nil {
		return nil, c.refused(wrong)
	}
	if err := c.authorize(); err != nil {
		return nil, c.denied(err)
	}
	ctx, cancel := c.r.Context(), func() {}
	if c.route.scope == ofOrder {
		ctx = context.WithoutCancel(ctx) // one that was begun is not cut off by a client that leaves
	}
	if !c.route.endless && !c.wantsStream() {
		ctx, cancel = context.WithTimeout(ctx, orderTimeout)
	}
	defer cancel()
	c.r = c.r.WithContext(ctx)
	if c.route.acts {
		return c.audited()
	}
	return c.route.serve(c)
}

var (
	siteInPath = regexp.MustCompile(`^[A-Za-z0-9._-]{1,63}$`)
	nodeInPath = regexp.MustCompile(`^[A-Za-z0-9._-]{1,253}$`)
)

// locate reads the site and the node of the path. Neither has characters that a path escapes.
func (c *call) locate() error {
	own, name := c.daemon.Sites(), c.r.PathValue("site")
	if !strings.Contains(c.route.path, "{site}") {
		name = cmp.Or(c.r.Header.Get(siteHeader), onlySite)
	}
	switch {
	case c.route.scope == ofCaller:
		return nil // of no site
	case name == onlySite && len(own) == 0:
		return fmt.Errorf("%w: this daemon manages no site yet", site.ErrNotFound)
	case name == onlySite && len(own) > 1:
		return fmt.Errorf("%w: this daemon manages %d: %s", ErrWhichSite, len(own), strings.Join(own, ", "))
	case name == onlySite:
		c.site = own[0]
	case !siteInPath.MatchString(name):
		return fmt.Errorf("%w: that cannot be the name of a site", site.ErrNotFound)
	case !slices.Contains(own, name):
		return fmt.Errorf("%w: this daemon manages site %s, not %s", site.ErrNotFound, strings.Join(own, ", "), name)
	default:
		c.site = name
	}
	if !strings.Contains(c.route.path, "{node}") {
		return nil
	}
	if c.node = c.r.PathValue("node"); !nodeInPath.MatchString(c.node) {
		return fmt.Errorf("%w: site %s has no node of that name", site.ErrNotFound, c.site)
	}
	return nil
}

// authorize says whether the caller may ask this.
func (c *call) authorize() error {
	switch c.route.scope {
	case ofCaller:
		return nil
	case ofSite:
		return c.may(c.route.verb, "")
	case ofNode:
		return c.may(c.route.verb, c.node)
	case ofSome:
		if c.policy.MaySome(c.caller, c.route.verb, c.site) {
			return nil
		}
		return c.may(c.route.verb, "") // says why not
	}
	nodes, err := c.orderedNodes()
	if err != nil {
		return err
	}
	for _, node := range nodes {
		if err := c.may(c.route.verb, node); err != nil { // of many it is enough to name one
			return err
		}
	}
	return nil
}

// may says whether the caller may use a verb on a node, or on the whole site without one.
func (c *call) may(v access.Verb, node string) error {
	t := access.Target{Site: c.site, Node: node}
	if n := c.placed[node]; n != nil {
		t.Rack, t.Role = n.Rack, n.Role
	} else if node != "" {
		t.Rack, t.Role, _ = c.daemon.Where(c.site, node)
	}
	return c.policy.Allows(c.caller, v, t)
}

// number is a parameter of the query that is a whole number; without it, it is usual.
func (c *call) number(name string, usual, least, most uint64) (uint64, error) {
	text := c.r.URL.Query().Get(name)
	if text == "" {
		return usual, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%w: %s is a whole number from %d to %d", ErrBadRequest, name, least, most)
	}
	return n, nil
}

// Bounds on how long an answer may take.
const orderTimeout = 30 * time.Second
