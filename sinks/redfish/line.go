package redfish

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/stmcginnis/gofish"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// line is how the requests of one handle go to its BMC: over the login that all
// handles on the BMC share, and while a step runs over its binding alone.
type line struct {
	*client
	// in is the login over which the handle has read last, nil before its first
	// request. No step writes over another.
	in *login
	// bound is that of the step that runs, nil between two.
	bound *binding
}

// do sends a read. Between two steps it logs in again when the BMC has
// forgotten the session.
func (l *line) do(ctx context.Context, call request) (resp *http.Response, err error) {
	if l.bound != nil {
		return l.bound.read(ctx, call)
	}
	resp, l.in, err = l.client.do(ctx, call)
	return resp, err
}

// write sends a write, which has to be a step's. It is never repeated by itself.
func (l *line) write(ctx context.Context, call request) (*http.Response, error) {
	if l.bound == nil {
		return nil, refused("a write outside of a step was not sent to %s", l.host)
	}
	return l.bound.write(ctx, call)
}

// request sends one request with a client that is logged in.
type request func(*gofish.APIClient) (*http.Response, error)

// enter makes sure that the handle is logged in.
func (l *line) enter(ctx context.Context) error {
	in, _, err := l.client.enter(ctx, nil)
	if err == nil {
		l.in = in
	}
	return err
}

// Session is the path of the session over which the handle has read last (DSP0266
// section 13.3.4), empty without one.
func (l *line) session() string {
	if l.in == nil {
		return ""
	}
	return l.in.session
}

func (l *line) get(ctx context.Context, path string) (object, error) {
	if err := l.here(path); err != nil {
		return nil, err
	}
	resp, err := l.do(ctx, func(api *gofish.APIClient) (*http.Response, error) { return api.Get(path) })
	if err != nil {
		return nil, err
	}
	o, err := decode(path, resp)
	if err == nil && l.bound != nil {
		err = l.bound.check(path, o)
	}
	return o, err
}

// members takes the members of a collection, at most so many of them, with
// their paths; in one request where the BMC can do so. One that is refused for
// good is left out.
func (l *line) members(ctx context.Context, collection string, most int, take func(path string, o object)) error {
	w := newWalk(l.get)
	w.most, w.deep = most, 1
	var failed error
	_, err := w.membersBy(ctx, collection, l.expand, func(ctx context.Context, path string) (object, error) {
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

// everyMember is members for those to whom a member that is left out would be one that there is
// not: it fails unless all of them were read.
func (l *line) everyMember(ctx context.Context, collection string, most int, take func(path string, o object)) error {
	w := newWalk(l.get)
	w.most, w.deep = most, 1
	var failed error
	_, err := w.membersBy(ctx, collection, l.expand, func(ctx context.Context, path string) (object, error) {
		o, err := w.resource(ctx, path)
		if err == nil {
			take(path, o)
		}
		failed = cmp.Or(failed, err)
		return o, err
	})
	if err = cmp.Or(err, failed); err == nil && w.misses > 0 {
		err = refused("%s lists more than the %d that Slipway reads", printable(collection), most)
	}
	return err
}

// collection is what a collection lists, on all of its pages: each names the next
// (DSP0266, Members@odata.nextLink).
func (l *line) collection(ctx context.Context, path string) ([]object, error) {
	var all []object
	read := map[string]bool{}
	for path != "" && !read[path] && len(read) < maxPages && len(all) < maxMembers {
		read[path] = true
		o, err := l.get(ctx, path)
		if err != nil {
			return nil, err
		}
		all = append(all, items(o, "Members")...)
		path = at[string](o, "Members@odata.nextLink")
	}
	return all, nil
}

// listed are the paths of what a collection lists.
func (l *line) listed(ctx context.Context, path string) ([]string, error) {
	all, err := l.collection(ctx, path)
	var paths []string
	for _, ref := range all[:min(len(all), maxLinks)] {
		if p := link(ref); p != "" {
			paths = append(paths, p)
		}
	}
	return paths, err
}

func (l *line) post(ctx context.Context, path string, body any) error {
	if err := l.here(path); err != nil {
		return err
	}
	_, err := l.write(ctx, func(api *gofish.APIClient) (*http.Response, error) { return api.Post(path, body) })
	return err
}

func (l *line) delete(ctx context.Context, path string) error {
	if err := l.here(path); err != nil {
		return err
	}
	_, err := l.write(ctx, func(api *gofish.APIClient) (*http.Response, error) { return api.Delete(path) })
	return err
}

// patch writes to a resource as it was read. What is current goes by its ETag
// (DSP0266 section 6.5), of which some BMCs want their weak ones back without
// the W/, and some none; what is written here is proven by what is read
// afterwards, so none will do.
func (l *line) patch(ctx context.Context, path string, was object, body any) error {
	_, err := l.change(ctx, path, was, body)
	return err
}

// change is patch, for those who want the answer.
func (l *line) change(ctx context.Context, path string, was object, body any) (*http.Response, error) {
	return l.changeBy(ctx, path, etags(at[string](was, etag)), body)
}

// changeExactly is change for what must be as it was read: it is written under one of the forms of
// its ETag, and never without one where the BMC gave one.
func (l *line) changeExactly(ctx context.Context, path string, was object, body any) (*http.Response, error) {
	tags := etags(at[string](was, etag))
	if tags[0] != "" {
		tags = slices.DeleteFunc(tags, func(tag string) bool { return tag == "" })
	}
	resp, err := l.changeBy(ctx, path, tags, body)
	if hasStatus(err, http.StatusPreconditionFailed) {
		err = fmt.Errorf("%w: %s was changed by somebody else in between, or the BMC does not take its own ETag: %w", driver.ErrInterrupted, printable(path), err)
	}
	return resp, err
}

// changeBy writes under the first of the ETags that the BMC takes; an empty one is none.
func (l *line) changeBy(ctx context.Context, path string, tags []string, body any) (resp *http.Response, err error) {
	if err := l.here(path); err != nil {
		return nil, err
	}
	for i, tag := range tags {
		headers := map[string]string{}
		if tag != "" {
			headers["If-Match"] = tag
		}
		if i > 0 {
			l.habits.met(etagForm)
		}
		resp, err = l.write(ctx, func(api *gofish.APIClient) (*http.Response, error) { return api.PatchWithHeaders(path, body, headers) })
		if !hasStatus(err, http.StatusPreconditionFailed, http.StatusPreconditionRequired) {
			return resp, err
		}
	}
	return resp, err
}

// end deletes a session that another handle has left. BMCs number sessions and
// begin anew when they restart, so one that another user has by now is left
// alone. It logs in nowhere: after a new login it might be another BMC that has
// no such session, and the one that was meant would live on.
func (l *line) end(ctx context.Context, session string) error {
	if l.in == nil {
		if err := l.enter(ctx); err != nil {
			return err
		}
	}
	_, err := l.drop(l.in.api.WithContext(ctx), session)
	switch {
	case hasStatus(err, http.StatusNotFound):
		return nil
	case l.in.token && hasStatus(err, http.StatusUnauthorized):
		l.in.over.Store(true)
		return sessionOver(l.host)
	}
	return classify(err)
}

// Binding implements driver.Binder.
func (m *machine) Binding() site.Binding {
	switch {
	case m.client.in == nil:
		return site.BindingUnknown
	case m.client.in.token:
		return site.BindingSession
	}
	return m.client.keeps.binding()
}
