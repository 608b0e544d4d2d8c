package github

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"strconv"
	"strings"
)

// apiRoot is where a GitHub Enterprise Server has its REST API.
const apiRoot = "/api/v3"

// maxBody is how much of a request is read; no request of the API needs more.
const maxBody = 1 << 20

// quiet drops what net/http would log of broken connections.
var quiet = log.New(io.Discard, "", 0)

// call is a request, and who made it.
type call struct {
	*Server
	r       *http.Request
	who     *identity
	unknown error  // why it is not known who made it
	crowded bool   // whether too many of the account's requests were under way when it came
	path    string // below the API's root
	body    []byte
	route   *route
	params  map[string]string
	repo    *Repository // of a route on one
}

// ServeHTTP answers as GitHub would, or as an outage has it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, o := s.enter(r)
	defer c.leave()
	if o != nil && !o.carriesOut() {
		s.log.add(Call{When: s.Now(), Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery})
		o.fail(w, r)
		return
	}
	o.wait(r)
	c.serve(o.around(w))
	o.after()
}

// enter finds out who makes a request, and which outage it meets. It is under
// way until it leaves.
func (s *Server) enter(r *http.Request) (*call, *outage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &call{Server: s, r: r}
	if c.who, c.unknown = s.identify(r); c.who == nil {
		c.who = &identity{}
	}
	b := s.budgetOf(c.who)
	b.under++
	c.crowded = b.under > maxAtOnce
	return c, s.outageFor(r)
}

func (c *call) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.budgetOf(c.who).under--
}

func (c *call) serve(w http.ResponseWriter) {
	path, isAPI := strings.CutPrefix(c.r.URL.EscapedPath(), apiRoot+"/")
	if !isAPI {
		c.serveGit(w)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, c.r.Body, maxBody))
	if err != nil {
		return // the caller has gone, or sends what nothing needs
	}
	if string(bytes.TrimSpace(body)) == "null" {
		body = nil // what clients send for options that nobody gave
	}
	c.path, c.body = "/"+path, body
	a := c.logged()
	a.write(w)
}

// logged finds the answer, and logs both. A panic is the double's mistake, or
// the test's.
func (c *call) logged() answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() {
		if p := recover(); p != nil {
			c.violated("%s %s: %v", c.r.Method, c.path, p)
			panic(http.ErrAbortHandler)
		}
	}()
	c.passes()
	a := c.answer()
	l := Call{When: c.now(), Method: c.r.Method, Path: c.path, Query: c.r.URL.RawQuery, Account: c.who.account(), Status: a.status, Body: string(c.body), Limit: a.limit}
	if c.route != nil {
		l.Route = c.route.path
	}
	c.log.add(l)
	return a
}

// answer is what is said to the request, and has its headers.
func (c *call) answer() answer {
	h := http.Header{"Content-Type": {"application/json; charset=utf-8"}, "X-Github-Media-Type": {"github.v3; format=json"}}
	h.Set("X-GitHub-Request-Id", fmt.Sprintf("%04X:%06X", c.nextID(), len(c.path)))
	a := c.admitted()
	maps.Copy(h, a.header)
	a.encode()
	a.conditional(c.r, h)
	if a.status == http.StatusNoContent || a.status == http.StatusNotModified {
		h.Del("Content-Type")
	}
	c.charge(a)
	c.budgetOf(c.who).headers(h, c.now())
	c.check(a, h)
	a.header = h
	return a
}

// charge counts the request against the primary limit: not a conditional one
// that found nothing new, and none that was not carried out for a limit.
func (c *call) charge(a answer) {
	free := a.limit != "" || (a.status == http.StatusNotModified && c.who.user != nil) || (c.route != nil && c.route.free)
	if !free {
		c.budgetOf(c.who).spend(c.now(), 1)
	}
}

// admitted is what is said to a request once it is known who asks, and what.
func (c *call) admitted() answer {
	if c.unknown != nil {
		return *failed(http.StatusUnauthorized, c.unknown.Error(), "/rest")
	}
	if c.r.UserAgent() == "" {
		return *refused("Request forbidden by administrative rules. Please make sure your request has a User-Agent header.")
	}
	c.find()
	b := c.budgetOf(c.who)
	if limit := b.admit(c.now(), c.r.Method, c.makesContent(), c.crowded); limit != "" && (c.route == nil || !c.route.free) {
		a := *b.limited(c.now(), limit, c.who)
		a.limit = limit
		return a
	}
	if c.route == nil {
		c.violated("the double does not serve %s %s", c.r.Method, c.path)
		return notFound
	}
	return c.routed()
}

// find finds the route. A path of /repositories/ID stands for the repository's
// present name.
func (c *call) find() {
	if rest, ok := strings.CutPrefix(c.path, "/repositories/"); ok {
		id, tail, _ := strings.Cut(rest, "/")
		for _, r := range c.repos {
			if strconv.FormatInt(r.id, 10) == id {
				c.path = strings.TrimSuffix("/repos/"+r.fullName()+"/"+tail, "/")
			}
		}
	}
	c.route, c.params = match(c.r.Method, c.path)
}

func (c *call) makesContent() bool {
	return c.route != nil && c.route.as == onRepo && c.r.Method == http.MethodPost
}

// routed is what is said to a request of a known route: first whether it is
// well formed, then whether the caller may.
func (c *call) routed() answer {
	if a := c.checkRequest(); a != nil {
		return *a
	}
	switch c.route.as {
	case somebody:
		if c.who.user == nil {
			return unauthorized
		}
	case appItself:
		if c.who.app == nil || c.who.install != nil {
			return *failed(http.StatusUnauthorized, "A JSON web token could not be decoded", "/rest")
		}
	case anInstallation:
		if c.who.install == nil {
			return *refused("You must authenticate with an installation access token in order to list repositories for an installation.")
		}
	case onRepo:
		return c.onRepo()
	}
	return c.route.handle(c)
}

func (c *call) onRepo() answer {
	r := c.repository(c.params["owner"] + "/" + c.params["repo"])
	if r == nil {
		return notFound
	}
	if a := c.who.may(r, c.route); a != nil {
		return *a
	}
	c.repo = r
	if !strings.EqualFold(r.fullName(), c.params["owner"]+"/"+c.params["repo"]) {
		return c.redirected()
	}
	return c.route.handle(c)
}

// redirected sends the caller to where a renamed repository is now: 301 for a read,
// 307 for what must be repeated as it is.
func (c *call) redirected() answer {
	a := *failed(http.StatusMovedPermanently, "Moved Permanently", "/rest")
	if c.route.writes() {
		a = *failed(http.StatusTemporaryRedirect, "Temporary Redirect", "/rest")
	}
	to := c.self()
	if c.r.URL.RawQuery != "" {
		to += "?" + c.r.URL.RawQuery
	}
	a.body.(object)["url"] = to
	a.header = http.Header{"Location": {to}}
	return a
}

// checkRequest holds the request against GitHub's description.
func (c *call) checkRequest() *answer {
	if c.config.Description == nil {
		return nil
	}
	err := c.config.Description.exchange(c.r, c.route, c.params).request(c.body)
	if err == nil {
		return nil
	}
	c.violated("request %s %s: %s", c.route.method, c.path, brief(err))
	a := invalid("Request", "", brief(err))
	return &a
}

// check holds an answer against GitHub's description.
func (c *call) check(a answer, h http.Header) {
	if c.config.Description == nil || c.route == nil {
		return
	}
	if err := c.config.Description.exchange(c.r, c.route, c.params).answer(a, h); err != nil {
		c.violated("answer to %s %s: %d %s", c.route.method, c.path, a.status, brief(err))
	}
}

// read fills in what the body says.
func (c *call) read(v any) bool { return json.Unmarshal(c.body, v) == nil }

// id is a number in the path.
func (c *call) id(name string) int64 {
	n, err := strconv.ParseInt(c.params[name], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (a *answer) write(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.raw)
}
