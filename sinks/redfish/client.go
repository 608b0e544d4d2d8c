package redfish

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
)

// client speaks to one BMC.
type client struct {
	host  string // with the port, if the endpoint has one
	value secret.Value
	http  *http.Client
	api   *gofish.APIClient // logged in; nil before the first use
	// sessions is where to log in, once it is known; session is what to
	// delete in the end, empty without a session.
	sessions, session string
	expand            string  // the query for a collection with its members, see walk
	habits            *habits // of the BMC, filled from what is read anyway
	wire              *wire
}

func newClient(u *url.URL, t *tls.Config, s secret.Value, o Options, h *habits) *client {
	w := &wire{host: u.Host, next: newTransport(t), answer: o.Answer, habits: h, lanes: newLanes(), breaker: breaker{rest: restPolls * o.Poll}}
	return &client{host: u.Host, value: s, http: &http.Client{Transport: w}, wire: w, habits: h}
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
// their paths; in one request where the BMC can do so.
func (c *client) members(ctx context.Context, collection string, most int, take func(path string, o object)) error {
	w := newWalk(c.get)
	w.most = most
	var failed error
	_, err := w.membersBy(ctx, collection, c.expand, func(ctx context.Context, path string) (object, error) {
		o, err := w.resource(ctx, path)
		if failed = cmp.Or(failed, err); err == nil {
			take(path, o)
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

// etags are the ways to give an ETag back, the right one first; the last is to
// give none. Some add "-gzip" to those of compressed answers. A resource that
// has none yet is written whatever it is, where a condition is called for.
func etags(tag string) []string {
	if tag == "" || tag == `""` {
		return []string{"", "*"}
	}
	plain := strings.Replace(strings.TrimPrefix(tag, "W/"), `-gzip"`, `"`, 1)
	return slices.Compact([]string{tag, plain, ""})
}

// do sends one request, logged in. When the BMC has forgotten the session it
// logs in once more; never twice, because accounts are locked after a few
// attempts.
func (c *client) do(ctx context.Context, call func(*gofish.APIClient) (*http.Response, error)) (*http.Response, error) {
	if c.api == nil {
		if err := c.login(ctx); err != nil {
			return nil, err
		}
		resp, err := call(c.api.WithContext(ctx))
		return resp, classify(err)
	}
	resp, err := call(c.api.WithContext(ctx))
	if c.session != "" && hasStatus(err, http.StatusUnauthorized) {
		if err := c.relogin(ctx); err != nil {
			return nil, err
		}
		resp, err = call(c.api.WithContext(ctx))
	}
	return resp, classify(err)
}

// relogin logs in once more. A BMC that merely refused the session for a moment
// still has it, and has few; what becomes of it is no reason to fail.
func (c *client) relogin(ctx context.Context) error {
	old := c.session
	if err := c.login(ctx); err != nil {
		return err
	}
	c.drop(c.api.WithContext(ctx), old)
	return nil
}

// login opens a session (DSP0266 section 13.3.4), or turns to basic
// authentication when the BMC has no session service at all.
func (c *client) login(ctx context.Context) error {
	c.api, c.session = nil, ""
	if c.value.IsZero() {
		return c.connect(gofish.ClientConfig{})
	}
	if err := c.findSessions(ctx); err != nil {
		return err
	}
	if c.sessions == "" {
		return c.connect(gofish.ClientConfig{Username: c.value.Username(), Password: c.value.Reveal(), BasicAuth: true})
	}
	anonymous, err := c.offline(gofish.ClientConfig{})
	if err != nil {
		return err
	}
	auth, err := schemas.CreateSession(anonymous.WithContext(ctx), c.sessions, c.value.Username(), c.value.Reveal())
	if err != nil {
		return c.denied(err)
	}
	if auth.Token == "" {
		return refused("POST %s accepted the login and gave no X-Auth-Token", c.sessions)
	}
	c.session = auth.Session
	return c.connect(gofish.ClientConfig{Session: &gofish.Session{ID: auth.Session, Token: auth.Token}})
}

// denied is why a login failed. Some BMCs answer 400 to a wrong password, and
// what they say must not repeat it.
func (c *client) denied(err error) error {
	var e *answerError
	if !errors.As(err, &e) {
		return classify(err)
	}
	if e.status == http.StatusBadRequest && e.class == driver.ErrRefused {
		e.class = driver.ErrDenied
	}
	e.said = strings.ReplaceAll(e.said, c.value.Reveal(), "[redacted]")
	return e
}

// findSessions reads from the service root, which needs no login, where
// sessions are made.
func (c *client) findSessions(ctx context.Context) error {
	if c.sessions != "" {
		return nil
	}
	anonymous, err := c.offline(gofish.ClientConfig{})
	if err != nil {
		return err
	}
	resp, err := anonymous.WithContext(ctx).Get(schemas.DefaultServiceRoot)
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

func (c *client) connect(config gofish.ClientConfig) error {
	api, err := c.offline(config)
	c.api = api
	return err
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
	_, err := c.do(ctx, func(api *gofish.APIClient) (*http.Response, error) { return c.drop(api, session) })
	if hasStatus(err, http.StatusNotFound) {
		return nil
	}
	return err
}

// drop deletes a session if it is the user's and not the handle's own.
func (c *client) drop(api *gofish.APIClient, session string) (*http.Response, error) {
	resp, err := api.Get(session)
	if err != nil {
		return nil, err
	}
	o, err := decode(session, resp)
	if user := at[string](o, "UserName"); err != nil || session == c.session || user != "" && user != c.value.Username() {
		return resp, err
	}
	return api.Delete(session)
}

// close deletes the session: BMCs have few, and keep them for long.
func (c *client) close() error {
	defer c.http.CloseIdleConnections()
	if c.session == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err := c.api.WithContext(ctx).Delete(c.session)
	c.api, c.session = nil, ""
	return classify(err)
}
