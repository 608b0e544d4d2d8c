package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Times of a page that keeps itself up to date.
const (
	changeEvery = 250 * time.Millisecond // how often a page changes at most
	gatherFor   = 20 * time.Millisecond  // how long after an event a page is made: until all pages were told, and share a report
	restOfTook  = 8                      // the rest after a rendering, as a multiple of its duration
	lookAnyway  = 15 * time.Second       // how often a page is compared where nothing was told
	sendWithin  = 10 * time.Second       // how long one write may take
)

// hub renders open pages. One rendering is for all viewers of a page who may do the same.
type hub struct {
	site   *Site
	shared shared

	mu     sync.Mutex
	topics map[string]*topic // by rights and page
}

// topic is one page that is open at least once.
type topic struct {
	viewers map[*viewer]bool
	stop    context.CancelFunc
	// version counts the changes. change has what the last one changed, and full the whole page.
	version      int
	change, full []byte
	ended        bool
	last         []byte // said at the end; nil for nothing
}

// viewer is somebody who has a page open. What it was not sent yet is kept once for all viewers of the page, so that a
// slow one costs nothing: when it reads again, it gets the page as it is then.
type viewer struct {
	values context.Context // of its request
	wake   chan struct{}   // has a place for one
	sent   int             // as topic.version
	left   bool            // it is no viewer any more
	last   []byte          // said to it then; nil for nothing
}

// join adds a viewer. The first one has the page rendered from now on.
func (h *hub) join(key string, values context.Context, begin func(ctx context.Context, t *topic)) (*topic, *viewer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.topics == nil {
		h.topics = map[string]*topic{}
	}
	t := h.topics[key]
	if t == nil {
		ctx, cancel := context.WithCancel(context.Background())
		t = &topic{viewers: map[*viewer]bool{}, stop: cancel}
		h.topics[key] = t
		go begin(ctx, t)
	}
	v := &viewer{values: values, wake: make(chan struct{}, 1)}
	v.wake <- struct{}{} // for what is there already
	t.viewers[v] = true
	return t, v
}

func (h *hub) leave(key string, t *topic, v *viewer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(t.viewers, v)
	if len(t.viewers) == 0 {
		t.stop()
		h.forgetLocked(key, t)
	}
}

func (h *hub) forgetLocked(key string, t *topic) {
	if h.topics[key] == t {
		delete(h.topics, key)
	}
}

// asker is somebody who has the page open: what is asked for the page is asked by one who sees it. It is nil when
// nobody has.
func (h *hub) asker(t *topic) *viewer {
	h.mu.Lock()
	defer h.mu.Unlock()
	for v := range t.viewers {
		return v
	}
	return nil
}

// drop ends the page of one viewer, who may see it no longer, and of no other. It is told why, or comes again as who it is
// now.
func (h *hub) drop(t *topic, v *viewer, why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(t.viewers, v)
	v.left = true
	if why != nil {
		v.last = over(why)
	}
	v.wakeUp()
}

// give has all viewers of a topic take what has changed.
func (h *hub) give(t *topic, change, full []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t.version++
	t.change, t.full = change, full
	t.wakeLocked()
}

func (t *topic) wakeLocked() {
	for v := range t.viewers {
		v.wakeUp()
	}
}

func (v *viewer) wakeUp() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// take is what a viewer was not sent yet: the last change, or the whole page if it missed more. At the end it is what
// was said last, and over.
func (h *hub) take(t *topic, v *viewer) (text []byte, over bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	missed := t.version - v.sent
	v.sent = t.version
	switch {
	case v.left:
		return v.last, true
	case t.ended:
		return t.last, true
	case missed == 1 && t.version > 1:
		return t.change, false
	case missed > 0:
		return t.full, false
	}
	return nil, false
}

// end has all viewers leave: the page cannot be made any more, for the reason that they are told, or the
// daemon is gone, which is no reason.
func (h *hub) end(key string, t *topic, why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t.ended = true
	if why != nil {
		t.last = over(why)
	}
	t.wakeLocked()
	h.forgetLocked(key, t)
}

// follow sends the parts of a page that have changed, as server-sent events.
func (s *Site) follow(w http.ResponseWriter, r *http.Request) {
	page, err := pageOf(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	v, name, node := find(page.Path)
	q := &request{s: s, r: r.WithContext(control.WithCallerOfNow(r.Context()))}
	var sites []string
	if err := q.get("/sites", &sites); err != nil {
		s.fail(w, r, err)
		return
	}
	q.site, name = named(r.PathValue("site"), sites), named(name, sites)
	if v == nil || v.costly && (v.every == 0 || !isFromHere(r)) || name != q.site {
		s.fail(w, r, &answer{status: http.StatusNotFound, Text: "no such page changes"})
		return
	}
	rights, err := q.rights()
	if err != nil {
		s.fail(w, r, err)
		return
	}
	rc := http.NewResponseController(w)
	if err := errors.Join(rc.SetReadDeadline(time.Time{}), rc.SetWriteDeadline(time.Now().Add(sendWithin))); err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	send := func(text []byte) bool {
		if rc.SetWriteDeadline(time.Now().Add(sendWithin)) != nil {
			return false
		}
		_, err := w.Write(text)
		return err == nil && rc.Flush() == nil
	}
	defer func() { _ = rc.SetWriteDeadline(time.Now().Add(sendWithin)) }() // for the end of the answer: the last one may be over
	if !send([]byte("retry: 1000\n\n")) {
		return
	}
	key := rights + "\n" + page.String()
	open := openPage{*v, name, node, page.String(), rights}
	t, me := s.live.join(key, r.Context(), func(ctx context.Context, t *topic) { s.live.run(ctx, key, t, open) })
	defer s.live.leave(key, t, me)
	beat := time.NewTicker(lookAnyway)
	defer beat.Stop()
	for {
		var text []byte
		over := false
		select {
		case <-r.Context().Done():
			return
		case <-beat.C:
			if now, err := q.rights(); err != nil || now != rights {
				return // it comes again as who it is now
			}
			text = []byte(": nothing new\n\n")
		case <-me.wake:
			text, over = s.live.take(t, me)
		}
		if len(text) > 0 && !send(text) || over {
			return
		}
	}
}

// rights are those of its caller in the site, as the API knows it now. Nearly always it answers as before.
func (q *request) rights() (string, error) {
	is, err := q.answer(http.MethodGet, "/whoami", nil)
	if err != nil || bytes.Equal(is, q.is) {
		return q.may, err
	}
	if err := q.read(is, &q.who); err != nil {
		return "", err
	}
	q.is, q.may = is, rightsOf(q.who, q.site)
	return q.may, nil
}

// rightsOf are what a page depends on of its caller: what it may do, if that is the same everywhere in the site, or else
// who it is. So two who may see different things never have the same.
func rightsOf(who control.Identity, site string) string {
	verbs := who.Verbs[site]
	if len(verbs) == 0 || !slices.Equal(verbs, who.Whole[site]) {
		return fmt.Sprintf("is %s may %q whole %q", who.Key(), verbs, who.Whole[site])
	}
	return fmt.Sprintf("may %q", verbs)
}

// within is a context that ends with one and has the values of the viewer's request: who asks with it is the viewer.
func (v *viewer) within(ctx context.Context) (own context.Context, end func()) {
	own, cancel := context.WithCancel(context.WithoutCancel(v.values))
	stop := context.AfterFunc(ctx, cancel)
	return own, func() {
		stop()
		cancel()
	}
}

// run renders a page whenever something has happened, and sends what of it is different. What happens meanwhile is
// shown by the next rendering, so that many changes cost as much as four in a second.
func (h *hub) run(ctx context.Context, key string, t *topic, o openPage) {
	var why error
	defer func() { h.end(key, t, why) }()
	told := &news{woken: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if o.every == 0 {
		go h.listen(ctx, cancel, t, o, told)
	}
	var before, now rendering
	since := time.Now()
	for {
		rest, err := h.render(ctx, t, &o, since, &now)
		if err != nil {
			if ctx.Err() == nil && err != errNobody && asAnswer(err).status != http.StatusBadGateway { // a daemon that is gone is no reason
				why = err
			}
			return
		}
		if changed := differing(before.parts, now.parts); len(changed) > 0 {
			h.give(t, change(changed), change(now.parts))
		}
		before = now
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(changeEvery, rest, o.every)):
		}
		if o.every > 0 {
			since = time.Now()
			continue
		}
		if since = told.wait(ctx); ctx.Err() != nil {
			return
		}
	}
}

// listen tells of the events of the site, for as long as one of the viewers may see them.
func (h *hub) listen(ctx context.Context, cancel context.CancelFunc, t *topic, o openPage, told *news) {
	defer cancel()
	for v := h.asker(t); v != nil; v = h.asker(t) {
		own, end := v.within(ctx)
		sub, err := inside(own, http.MethodGet, "/sites/"+url.PathEscape(o.site)+"/events", http.NoBody)
		if err != nil {
			end()
			return
		}
		sub.Header.Set("Accept", "text/event-stream")
		h.site.handle(&listener{header: http.Header{}, node: o.node, told: told}, sub)
		end()
		if ctx.Err() != nil {
			return
		}
		h.drop(t, v, nil) // the stream ended: the daemon is gone, or who asked may see nothing more
	}
}

// errRights is told to a viewer who has lost a right.
var errRights = &answer{status: http.StatusForbidden, Text: "you may no longer see this page"}

// errNobody says that all viewers of a page were dropped. Who comes meanwhile comes again.
var errNobody = errors.New("nobody has the page open")

// rendering are the parts of a page as they were made of what the API has answered.
type rendering struct {
	answers uint64 // as Shell.answers
	parts   map[string]string
}

// render renders a page as it is now, unless the API answers as it did, and says how long to rest after that. The more
// pages are open and the busier the host is, the longer a rendering takes, and the longer all of them rest. To load a page
// is mostly to wait.
func (h *hub) render(ctx context.Context, t *topic, o *openPage, since time.Time, now *rendering) (rest time.Duration, err error) {
	asker := h.asker(t)
	if asker == nil {
		return 0, errNobody
	}
	own, end := asker.within(ctx)
	defer end()
	r, err := o.request(control.WithReportSince(own, since))
	if err != nil {
		return 0, err
	}
	began := time.Now()
	page, err := h.site.shell(r, o.view)
	switch {
	case err != nil && asAnswer(err).status == http.StatusForbidden:
		h.drop(t, asker, errRights)
		return h.render(ctx, t, o, since, now)
	case err != nil && asAnswer(err).status == http.StatusTooManyRequests: // the others have asked for less
		h.drop(t, asker, err)
		return h.render(ctx, t, o, since, now)
	case err != nil:
		return 0, err
	case page.rights != o.rights:
		h.drop(t, asker, nil) // it comes again as who it is now, and nobody else is sent what it sees
		return h.render(ctx, t, o, since, now)
	}
	loaded := time.Now()
	page.open = true
	if now.parts == nil || now.answers != page.answers {
		text, err := h.site.render(o.name, "main", page)
		if err != nil {
			return 0, err
		}
		*now = rendering{page.answers, fragments(text)}
	}
	return max(loaded.Sub(began), restOfTook*time.Since(loaded)), nil
}

// change is the message with parts of a page. It is JSON with the characters of markup as they are: it is in no page.
func change(parts map[string]string) []byte {
	var b bytes.Buffer
	b.WriteString("event: change\ndata: ")
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(parts) != nil { // which ends the line
		return nil // texts always have JSON
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// over is the message that a page is kept up to date no longer, and why.
func over(why error) []byte {
	body, err := json.Marshal(site.Printable(asAnswer(why).Text))
	if err != nil {
		return nil // texts always have JSON
	}
	return []byte("event: over\ndata: " + string(body) + "\n\n")
}

// listener is told that something has happened by a stream of events of the API.
type listener struct {
	header http.Header
	node   string // of whose page it is; empty for a page that shows many
	told   *news
	opened bool
	rest   []byte // of a line whose end did not come yet
}

func (l *listener) Header() http.Header              { return l.header }
func (l *listener) WriteHeader(int)                  {}
func (l *listener) Flush()                           {}
func (l *listener) SetReadDeadline(time.Time) error  { return nil }
func (l *listener) SetWriteDeadline(time.Time) error { return nil }

func (l *listener) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	end := bytes.LastIndexByte(l.rest, '\n') + 1
	concerns := !l.opened || l.concerns(l.rest[:end]) // what happened before it was opened is not told
	l.opened = true
	l.rest = append(l.rest[:0], l.rest[end:]...)
	if concerns {
		l.told.tell()
	}
	return len(b), nil
}

// concerns says whether some of the events are about the page. Events of other nodes change no page of a node. In JSON
// no text can have a key in it: its quotation marks are escaped.
func (l *listener) concerns(events []byte) bool {
	own := []byte(`"node":"` + l.node + `"`)
	for line := range bytes.Lines(events) {
		data, isData := bytes.CutPrefix(line, []byte("data: "))
		if isData && (l.node == "" || bytes.Contains(data, own) || !bytes.Contains(data, []byte(`"node":"`))) {
			return true
		}
	}
	return false
}
