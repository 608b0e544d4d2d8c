package redfish

import (
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
	keeps    keeping
	named    naming
	// unwritten is set when the BMC has refused the session at a write, and no
	// write was accepted since.
	unwritten atomic.Bool
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
	config  gofish.ClientConfig
	// over is set when the BMC has refused the session in the middle of a step.
	// The next read outside of one logs in anew.
	over atomic.Bool
}

func newClient(u *url.URL, s secret.Value, o Options, l lanes) *client {
	c := &client{host: u.Host, value: s, gate: semaphore.NewWeighted(1)}
	c.wire = &wire{
		host: u.Host, answer: o.Answer, habits: &c.habits, lanes: l, note: c.keeps.saw,
		breaker: &breaker{rest: restPolls * o.Poll}, writes: &atomic.Int64{},
	}
	c.http = &http.Client{Transport: c.wire}
	return c
}

// restPolls is how long a BMC that does not answer is left alone, in polls: 2 s.
const restPolls = 2

func decode(path string, resp *http.Response) (object, error) {
	var o object
	if err := json.NewDecoder(resp.Body).Decode(&o); err != nil {
		return nil, refused("GET %s: the answer is not JSON: %w", path, err)
	}
	shorten(o)
	if tag, err := json.Marshal(resp.Header.Get("ETag")); err == nil && resp.Header.Get("ETag") != "" {
		o[etag] = tag
	}
	if resp.Request != nil {
		makeRelative(o, resp.Request.URL.Host)
	}
	return o, nil
}

// etag is where a resource has its ETag (DSP0266 section 9.5.5).
const etag = "@odata.etag"

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

// do sends one read, logged in, and gives the login that it went over. When the
// BMC has forgotten the session it logs in once more; never twice, because
// accounts are locked after a few attempts.
func (c *client) do(ctx context.Context, call request) (*http.Response, *login, error) {
	in, fresh, err := c.enter(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	resp, err := call(in.api.WithContext(ctx))
	if in.config.BasicAuth && hasStatus(err, http.StatusUnauthorized) {
		c.in.CompareAndSwap(in, nil) // the next request asks the guard before it sends the password again
	}
	if fresh || !in.token || !hasStatus(err, http.StatusUnauthorized) {
		return resp, in, classify(err)
	}
	again, _, err := c.enter(ctx, in)
	if err != nil {
		return nil, nil, err
	}
	resp, err = call(again.api.WithContext(ctx))
	return resp, again, classify(err)
}

// enter is the login that there is, or a fresh one where there is none, or only
// one that is refused by now. Of several who want one, one makes it.
func (c *client) enter(ctx context.Context, refused *login) (in *login, fresh bool, err error) {
	usable := func(in *login) bool { return in != nil && in != refused && !in.over.Load() }
	if in := c.in.Load(); usable(in) {
		return in, false, nil
	}
	if err := c.gate.Acquire(ctx, 1); err != nil {
		return nil, false, classify(err)
	}
	defer c.gate.Release(1)
	old := c.in.Load()
	if usable(old) {
		return old, false, nil
	}
	if c.handles.Load() > 1 && c.refusal != nil && time.Since(c.since) < refusalLasts {
		return nil, false, c.refusal
	}
	if in, err = c.findAndLogin(ctx); err != nil {
		in = nil
	}
	c.in.Store(in)
	if c.refusal = nil; errors.Is(err, driver.ErrDenied) {
		c.refusal, c.since = err, time.Now()
	}
	if err == nil && old != nil && old.session != "" {
		// A BMC that merely refused the session for a moment still has it, and
		// has few; what becomes of it is no reason to fail.
		c.drop(in.api.WithContext(ctx), old.session)
	}
	return in, true, err
}

// refusalLasts is for how long the nodes of an enclosure take the refusal of one
// for their own: each would try the same password, and accounts are locked after
// three tries.
const refusalLasts = time.Minute

// findAndLogin logs in with the consent of the context's driver.Guard. A BMC that
// does not answer is found out before the guard is asked.
func (c *client) findAndLogin(ctx context.Context) (in *login, err error) {
	if c.value.IsZero() {
		return c.connect(gofish.ClientConfig{})
	}
	if err := c.findSessions(ctx); err != nil {
		return nil, err
	}
	err = driver.Login(ctx, func() (err error) { in, err = c.login(ctx); return err })
	return in, err
}

// current is the path of the newest session, empty without one.
func (c *client) current() string {
	if in := c.in.Load(); in != nil {
		return in.session
	}
	return ""
}

// login opens a session (DSP0266 section 13.3.4), or turns to basic
// authentication when the BMC has no session service at all. A BMC without room
// for a session is given room, once.
func (c *client) login(ctx context.Context) (*login, error) {
	if c.sessions == "" {
		return c.loginBasic(ctx)
	}
	s, err := c.newSession(ctx)
	if errors.Is(err, driver.ErrBusy) && c.makeRoom(ctx) {
		s, err = c.newSession(ctx)
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
	return gofish.ClientConfig{Username: c.value.Username(), Password: c.password(), BasicAuth: true}
}

// password is what is sent; Open refuses a secret that is none.
func (c *client) password() string {
	password, _ := c.value.Password()
	return password
}

// loginBasic turns to basic authentication, in which every request carries the
// credential. One read tells whether the BMC accepts it.
func (c *client) loginBasic(ctx context.Context) (*login, error) {
	in, err := c.connect(c.basic())
	if err != nil {
		return nil, err
	}
	_, err = in.api.WithContext(ctx).Get(systemsPath)
	if err == nil || hasStatus(err, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed) {
		return in, nil // it knows the account, whatever that may do
	}
	return nil, c.denied(err)
}

// openSession logs in, with the context for people and other controllers to read
// if one is given. The session's name is in Location, or, where a BMC leaves that
// out, in the resource that it answers with; without a name it cannot be ended.
func (c *client) openSession(ctx context.Context, context string) (s *gofish.Session, made object, err error) {
	anonymous, err := c.offline(gofish.ClientConfig{})
	if err != nil {
		return nil, nil, err
	}
	account := map[string]string{"UserName": c.value.Username(), "Password": c.password()}
	if context != "" {
		account[sessionContext] = context
	}
	resp, err := anonymous.WithContext(ctx).Post(c.sessions, account)
	if err != nil {
		return nil, nil, c.denied(err)
	}
	s = &gofish.Session{Token: resp.Header.Get("X-Auth-Token")}
	if s.Token == "" {
		return nil, nil, refused("POST %s accepted the login and gave no X-Auth-Token", c.sessions)
	}
	_ = json.NewDecoder(resp.Body).Decode(&made) // some answer with nothing
	makeRelative(made, c.host)
	s.ID = c.sessionPath(resp, link(made))
	return s, made, nil
}

// sessionPath is where a session is that was just opened: where the answer says so
// in its Location, or else what it calls the session itself. It is on this BMC even
// where a BMC names itself otherwise than it was addressed.
func (c *client) sessionPath(resp *http.Response, named string) string {
	at, err := resp.Location()
	if err != nil {
		return named
	}
	path, own := pathOn(c.host, at.String())
	if !own && strings.HasPrefix(key(at.EscapedPath()), key(c.sessions)+"/") {
		path, own = at.EscapedPath(), true
	}
	if !own {
		return named
	}
	return path
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
	in := &login{api: api, config: config}
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

// drop deletes a session if it is the user's and not the handle's own, and says
// whether it was.
func (c *client) drop(api *gofish.APIClient, session string) (dropped bool, err error) {
	resp, err := api.Get(session)
	if err != nil {
		return false, err
	}
	o, err := decode(session, resp)
	if user := at[string](o, "UserName"); err != nil || session == c.current() || user != "" && user != c.value.Username() {
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
