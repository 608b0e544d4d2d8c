package redfish

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"
	"golang.org/x/sync/semaphore"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
)

// client speaks to one BMC, for all handles that are open to it in one way.
type client struct {
	host  string // with the port, if the endpoint has one
	value secret.Value
	http  *http.Client
	wire  *wire
	shown firstUse
	// habits are the BMC's, from what is read anyway; the machines behind it
	// have theirs.
	habits habits
	in     atomic.Pointer[login] // nil before the first use
	gate   *semaphore.Weighted   // lets in one at a time
	// sessions is where to log in, once it is known.
	sessions string
	left     leftovers
	noBasic  bool         // the credential itself was not accepted in a request
	expand   string       // the query for a collection with its members, see walk
	handles  atomic.Int32 // that are open to it
	// refusal is why the last login was denied, and since when.
	refusal error
	since   time.Time
}

// login is a way in.
type login struct {
	api *gofish.APIClient
	// session is what to delete in the end, empty without a session and for one
	// that has no name.
	session string
	token   bool // by a session
}

func newClient(u *url.URL, s secret.Value, o Options, l lanes) *client {
	c := &client{host: u.Host, value: s, gate: semaphore.NewWeighted(1)}
	c.wire = &wire{host: u.Host, answer: o.Answer, habits: &c.habits, lanes: l, breaker: breaker{rest: restPolls * o.Poll}}
	c.http = &http.Client{Transport: c.wire}
	return c
}

// restPolls is how long a BMC that does not answer is left alone, in polls: 2 s.
const restPolls = 2

func (c *client) get(ctx context.Context, path string) (object, error) {
	resp, err := c.do(ctx, func(api *gofish.APIClient) (*http.Response, error) { return api.Get(path) })
	if err != nil {
		return nil, err
	}
	return decode(path, resp)
}

// members takes the members of a collection, at most so many of them, with
// their paths; in one request where the BMC can do so. One that is refused for
// good is left out.
func (c *client) members(ctx context.Context, collection string, most int, take func(path string, o object)) error {
	w := newWalk(c.get)
	w.most, w.deep = most, 1
	var failed error
	_, err := w.membersBy(ctx, collection, c.expand, func(ctx context.Context, path string) (object, error) {
		o, err := w.resource(ctx, path)
		if err == nil {
			take(path, o)
		} else if !lasting(err) {
			failed = cmp.Or(failed, err)
		}
		return o, err
	})
	return cmp.Or(err, failed)
}

func decode(path string, resp *http.Response) (object, error) {
	var o object
	if err := json.NewDecoder(resp.Body).Decode(&o); err != nil {
		return nil, refused("GET %s: the answer is not JSON: %w", path, err)
	}
	if tag, err := json.Marshal(resp.Header.Get("ETag")); err == nil && resp.Header.Get("ETag") != "" {
		o[etag] = tag
	}
	return o, nil
}

// collection is what a collection lists, on all of its pages: each names the next
// (DSP0266, Members@odata.nextLink).
func (c *client) collection(ctx context.Context, path string) ([]object, error) {
	var all []object
	read := map[string]bool{}
	for path != "" && !read[path] && len(read) < maxPages && len(all) < maxMembers {
		read[path] = true
		o, err := c.get(ctx, path)
		if err != nil {
			return nil, err
		}
		all = append(all, items(o, "Members")...)
		path = at[string](o, "Members@odata.nextLink")
	}
	return all, nil
}

// listed are the paths of what a collection lists.
func (c *client) listed(ctx context.Context, path string) ([]string, error) {
	all, err := c.collection(ctx, path)
	var paths []string
	for _, ref := range all[:min(len(all), maxLinks)] {
		if p := link(ref); p != "" {
			paths = append(paths, p)
		}
	}
	return paths, err
}

// etag is where a resource has its ETag (DSP0266 section 9.5.5).
const etag = "@odata.etag"

func (c *client) post(ctx context.Context, path string, body any) error {
	_, err := c.do(ctx, func(api *gofish.APIClient) (*http.Response, error) { return api.Post(path, body) })
	return err
}

// patch writes to a resource as it was read. What is current goes by its ETag
// (DSP0266 section 6.5), of which some BMCs want their weak ones back without
// the W/, and some none; what is written here is proven by what is read
// afterwards, so none will do.
func (c *client) patch(ctx context.Context, path string, was object, body any) error {
	_, err := c.change(ctx, path, was, body)
	return err
}

// change is patch, for those who want the answer.
func (c *client) change(ctx context.Context, path string, was object, body any) (resp *http.Response, err error) {
	for i, tag := range etags(at[string](was, etag)) {
		headers := map[string]string{}
		if tag != "" {
			headers["If-Match"] = tag
		}
		if i > 0 {
			c.habits.met(etagForm)
		}
		resp, err = c.do(ctx, func(api *gofish.APIClient) (*http.Response, error) { return api.PatchWithHeaders(path, body, headers) })
		if !hasStatus(err, http.StatusPreconditionFailed, http.StatusPreconditionRequired) {
			return resp, err
		}
	}
	return resp, err
}

// etags are the ways to give an ETag back, the right one first; then comes to
// give none, and at last one without its quotes, which some want (gofish found
// so). Some add "-gzip" to those of compressed answers. A resource that has none
// yet is written whatever it is, where a condition is called for.
func etags(tag string) []string {
	if tag == "" || tag == `""` {
		return []string{"", "*"}
	}
	plain := strings.Replace(strings.TrimPrefix(tag, "W/"), `-gzip"`, `"`, 1)
	return slices.Compact([]string{tag, plain, "", strings.Trim(plain, `"`)})
}

// do sends one request, logged in. When the BMC has forgotten the session it
// logs in once more; never twice, because accounts are locked after a few
// attempts.
func (c *client) do(ctx context.Context, call func(*gofish.APIClient) (*http.Response, error)) (*http.Response, error) {
	in, fresh, err := c.enter(ctx, nil)
	if err != nil {
		return nil, err
	}
	resp, err := call(in.api.WithContext(ctx))
	if fresh || !in.token || !hasStatus(err, http.StatusUnauthorized) {
		return resp, classify(err)
	}
	again, fresh, err := c.enter(ctx, in)
	if err != nil {
		return nil, err
	}
	if fresh && in.session != "" {
		// A BMC that merely refused the session for a moment still has it, and
		// has few; what becomes of it is no reason to fail.
		c.drop(again.api.WithContext(ctx), in.session)
	}
	resp, err = call(again.api.WithContext(ctx))
	return resp, classify(err)
}

// enter is the login that there is, or a fresh one where there is none, or only
// one that is refused by now. Of several who want one, one makes it.
func (c *client) enter(ctx context.Context, refused *login) (in *login, fresh bool, err error) {
	if in := c.in.Load(); in != nil && in != refused {
		return in, false, nil
	}
	if err := c.gate.Acquire(ctx, 1); err != nil {
		return nil, false, classify(err)
	}
	defer c.gate.Release(1)
	if in := c.in.Load(); in != nil && in != refused {
		return in, false, nil
	}
	if c.handles.Load() > 1 && c.refusal != nil && time.Since(c.since) < refusalLasts {
		return nil, false, c.refusal
	}
	in, err = c.login(ctx)
	c.in.Store(in)
	if c.refusal = nil; errors.Is(err, driver.ErrDenied) {
		c.refusal, c.since = err, time.Now()
	}
	return in, true, err
}

// refusalLasts is for how long the nodes of an enclosure take the refusal of one
// for their own: each would try the same password, and accounts are locked after
// three tries.
const refusalLasts = time.Minute

// session is the path of the session, empty without one.
func (c *client) session() string {
	if in := c.in.Load(); in != nil {
		return in.session
	}
	return ""
}

// login opens a session (DSP0266 section 13.3.4), or turns to basic
// authentication when the BMC has no session service at all. A BMC without room
// for a session is given room, once.
func (c *client) login(ctx context.Context) (*login, error) {
	if c.value.IsZero() {
		return c.connect(gofish.ClientConfig{})
	}
	if err := c.findSessions(ctx); err != nil {
		return nil, err
	}
	if c.sessions == "" {
		return c.connect(c.basic())
	}
	s, err := c.openSession(ctx)
	if errors.Is(err, driver.ErrBusy) && c.makeRoom(ctx) {
		s, err = c.openSession(ctx)
	}
	if hasStatus(err, http.StatusNotFound) {
		c.sessions = "" // an update of the BMC may have moved it
	}
	if err != nil {
		return nil, err
	}
	c.left.take() // the engine ends them in its own time
	return c.connect(gofish.ClientConfig{Session: s})
}

func (c *client) basic() gofish.ClientConfig {
	return gofish.ClientConfig{Username: c.value.Username(), Password: c.value.Reveal(), BasicAuth: true}
}

// openSession logs in. The session's name is in Location, or, where a BMC leaves
// that out, in the resource that it answers with; without a name it cannot be
// ended.
func (c *client) openSession(ctx context.Context) (*gofish.Session, error) {
	anonymous, err := c.offline(gofish.ClientConfig{})
	if err != nil {
		return nil, err
	}
	resp, err := anonymous.WithContext(ctx).Post(c.sessions, map[string]string{"UserName": c.value.Username(), "Password": c.value.Reveal()})
	if err != nil {
		return nil, c.denied(err)
	}
	s := &gofish.Session{Token: resp.Header.Get("X-Auth-Token")}
	if s.Token == "" {
		return nil, refused("POST %s accepted the login and gave no X-Auth-Token", c.sessions)
	}
	var o object
	_ = json.NewDecoder(resp.Body).Decode(&o) // some answer with nothing
	s.ID = link(o)
	if at, err := resp.Location(); err == nil {
		s.ID = at.EscapedPath()
	}
	return s, nil
}

// leftovers are the sessions that earlier terms have left.
type leftovers struct {
	mu       sync.Mutex
	sessions []string
}

func (l *leftovers) add(sessions []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range sessions {
		if !slices.Contains(l.sessions, s) {
			l.sessions = append(l.sessions, s)
		}
	}
}

// take gives all of them, none of which is kept.
func (l *leftovers) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.sessions
	l.sessions = nil
	return all
}

// makeRoom ends the sessions that earlier terms have left, and says whether any
// was. Without a session that takes the credential in each request; a BMC that
// does not have it so is not asked again, for accounts are locked after a few
// attempts. Vendors say in many ways that there is no room; where a BMC was busy
// with something else nothing is lost.
func (c *client) makeRoom(ctx context.Context) (ended bool) {
	api, err := c.offline(c.basic())
	if err != nil {
		return false
	}
	for _, session := range c.left.take() {
		if c.noBasic || ctx.Err() != nil {
			break
		}
		gone, err := c.drop(api.WithContext(ctx), session)
		c.noBasic = hasStatus(err, http.StatusUnauthorized)
		ended = ended || gone
	}
	return ended
}

// denied is why a login failed. Some BMCs answer 400 to a wrong password, and
// what they say must not repeat it.
func (c *client) denied(err error) error {
	var e *answerError
	if !errors.As(err, &e) {
		return classify(err)
	}
	if e.class == driver.ErrRefused && (e.status == http.StatusBadRequest || e.status == http.StatusForbidden) {
		e.class = driver.ErrDenied
	}
	e.said = strings.ReplaceAll(e.said, c.value.Reveal(), "[redacted]")
	if e.class == driver.ErrDenied && e.status == http.StatusUnauthorized {
		e.said = strings.TrimPrefix(e.said+"; the user name or the password is not the BMC's, or the account is locked", "; ")
	}
	return e
}

// defaultSessions is where sessions are made unless a service root says
// otherwise (DSP0266 section 13.3.4).
const defaultSessions = "/redfish/v1/SessionService/Sessions"

// findSessions reads from the service root, which needs no login, where
// sessions are made. Some BMCs want a login even for that.
func (c *client) findSessions(ctx context.Context) error {
	if c.sessions != "" {
		return nil
	}
	anonymous, err := c.offline(gofish.ClientConfig{})
	if err != nil {
		return err
	}
	resp, err := anonymous.WithContext(ctx).Get(schemas.DefaultServiceRoot)
	if hasStatus(err, http.StatusUnauthorized) {
		c.habits.met(hiddenRoot)
		c.sessions = defaultSessions
		return nil
	}
	if err != nil {
		return classify(err)
	}
	root, err := decode(schemas.DefaultServiceRoot, resp)
	if err != nil {
		return err
	}
	c.habits.learn(rootMakers(root))
	asks := newWalk(nil)
	asks.learn(root)
	c.expand = asks.expand
	c.sessions = link(root, "Links", "Sessions")
	if service := link(root, "SessionService"); c.sessions == "" && service != "" {
		c.sessions = strings.TrimRight(service, "/") + "/Sessions"
	}
	return nil
}

func (c *client) connect(config gofish.ClientConfig) (*login, error) {
	api, err := c.offline(config)
	if err != nil {
		return nil, err
	}
	in := &login{api: api}
	if config.Session != nil {
		in.session, in.token = config.Session.ID, true
	}
	return in, nil
}

// offline makes a gofish client without a request. By itself gofish reads and
// keeps the whole service root, and fails on any field it cannot decode; here
// it is given an empty one.
func (c *client) offline(config gofish.ClientConfig) (*gofish.APIClient, error) {
	config.Endpoint = "https://" + c.host
	config.HTTPClient = &http.Client{Transport: emptyRoot{}}
	config.ReuseConnections = true
	api, err := gofish.Connect(config)
	if err != nil {
		return nil, err
	}
	api.HTTPClient, api.Service = c.http, nil
	return api, nil
}

// emptyRoot answers every request with an empty object.
type emptyRoot struct{}

func (emptyRoot) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
}

// end deletes a session that another handle has left. BMCs number sessions and
// begin anew when they restart, so one that another user has by now is left
// alone.
func (c *client) end(ctx context.Context, session string) error {
	_, err := c.do(ctx, func(api *gofish.APIClient) (*http.Response, error) {
		_, err := c.drop(api, session)
		return nil, err
	})
	if hasStatus(err, http.StatusNotFound) {
		return nil
	}
	return err
}

// drop deletes a session if it is the user's and not the handle's own, and says
// whether it was.
func (c *client) drop(api *gofish.APIClient, session string) (dropped bool, err error) {
	resp, err := api.Get(session)
	if err != nil {
		return false, err
	}
	o, err := decode(session, resp)
	if user := at[string](o, "UserName"); err != nil || session == c.session() || user != "" && user != c.value.Username() {
		return false, err
	}
	_, err = api.Delete(session)
	return err == nil, err
}

// close deletes the session: BMCs have few, and keep them for long. One that the
// BMC has forgotten by itself is over.
func (c *client) close() error {
	defer c.http.CloseIdleConnections()
	in := c.in.Swap(nil)
	if in == nil || in.session == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err := in.api.WithContext(ctx).Delete(in.session)
	if hasStatus(err, http.StatusNotFound, http.StatusUnauthorized) {
		return nil
	}
	return classify(err)
}
