package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Times of a page that keeps itself up to date.
const (
	changeEvery = 250 * time.Millisecond // how soon after a change it is shown, and how often at most
	lookAnyway  = 15 * time.Second       // how often a page is compared where nothing was told
	sendWithin  = 10 * time.Second       // how long one write may take
)

// hub renders open pages. One rendering is for all viewers who are the same caller on the same page.
type hub struct {
	site *Site

	mu     sync.Mutex
	topics map[string]*topic // by caller and page
}

// topic is one page of one caller that is open at least once.
type topic struct {
	viewers map[chan []byte]bool
	stop    context.CancelFunc
	full    []byte // the whole page as it is now; nil before it was rendered
}

// join adds a viewer. The first one has the page rendered from now on, with what its request proves.
func (h *hub) join(key string, begin func(ctx context.Context, t *topic)) (chan []byte, func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.topics == nil {
		h.topics = map[string]*topic{}
	}
	t := h.topics[key]
	if t == nil {
		ctx, cancel := context.WithCancel(context.Background())
		t = &topic{viewers: map[chan []byte]bool{}, stop: cancel}
		h.topics[key] = t
		go begin(ctx, t)
	}
	c := make(chan []byte, 8)
	if t.full != nil {
		c <- t.full
	}
	t.viewers[c] = true
	return c, func() { h.leave(key, t, c) }
}

func (h *hub) leave(key string, t *topic, c chan []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(t.viewers, c)
	if len(t.viewers) == 0 {
		t.stop()
		if h.topics[key] == t {
			delete(h.topics, key)
		}
	}
}

// give sends what has changed to all viewers of a topic, and keeps the whole for those that join later.
// One that does not keep up is closed, and comes again.
func (h *hub) give(t *topic, text, full []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t.full = full
	for c := range t.viewers {
		select {
		case c <- text:
		default:
			delete(t.viewers, c)
			close(c)
		}
	}
}

// end closes all viewers: the page cannot be made any more, for the reason that they are told first, or the
// daemon is gone, which is no reason.
func (h *hub) end(key string, t *topic, why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range t.viewers {
		if why != nil {
			select {
			case c <- over(why):
			default:
			}
		}
		close(c)
	}
	t.viewers = map[chan []byte]bool{}
	if h.topics[key] == t {
		delete(h.topics, key)
	}
}

// follow sends the parts of a page that have changed, as server-sent events.
func (s *Site) follow(w http.ResponseWriter, r *http.Request) {
	page, err := pageOf(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	v, name, node := find(page.Path)
	q := &request{s: s, r: r, site: r.PathValue("site")}
	if v == nil || v.costly || name != q.site {
		s.fail(w, r, &answer{status: http.StatusNotFound, Text: "no such page changes"})
		return
	}
	if err := q.get("/whoami", &q.who); err != nil {
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
	key := string(q.who.Kind) + " " + q.who.Name + "\n" + page.String()
	shown := func(ctx context.Context) (*http.Request, error) {
		sub, err := http.NewRequestWithContext(ctx, http.MethodGet, page.String(), nil)
		if err == nil {
			sub.SetPathValue("site", name)
			sub.SetPathValue("node", node)
		}
		return sub, err
	}
	changes, leave := s.live.join(key, func(ctx context.Context, t *topic) {
		// The caller of the first viewer stands for all of them; each proves itself when it joins.
		s.live.run(carry{ctx, r.Context()}, key, t, *v, name, shown)
	})
	defer leave()
	beat := time.NewTicker(lookAnyway)
	defer beat.Stop()
	for text := []byte("retry: 1000\n\n"); ; {
		if rc.SetWriteDeadline(time.Now().Add(sendWithin)) != nil {
			return
		}
		if _, err := w.Write(text); err != nil || rc.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-beat.C:
			text = []byte(": nothing new\n\n")
		case next, open := <-changes:
			if !open {
				return
			}
			text = next
		}
	}
}

// carry is a context that ends with one and has the values of another.
type carry struct {
	context.Context
	values context.Context
}

func (c carry) Value(key any) any { return c.values.Value(key) }

func pageOf(r *http.Request) (*url.URL, error) {
	u, err := url.Parse(r.URL.Query().Get("page"))
	if err != nil || u.Scheme != "" || u.Host != "" || u.RawPath != "" || !strings.HasPrefix(u.Path, "/sites/") || len(u.String()) > 2000 {
		return nil, &answer{status: http.StatusBadRequest, Text: "no page of this site has this address"}
	}
	return u, nil
}

// find is the view of a path, with the names in it.
func find(path string) (v *view, name, node string) {
	parts := strings.Split(path, "/")
	for i := range views {
		pattern := strings.Split(views[i].path, "/")
		if len(pattern) != len(parts) {
			continue
		}
		fits := true
		name, node = "", ""
		for j, p := range pattern {
			switch p {
			case "{site}":
				name = parts[j]
			case "{node}":
				node = parts[j]
			default:
				fits = fits && p == parts[j]
			}
		}
		if fits {
			return &views[i], name, node
		}
	}
	return nil, "", ""
}

// run renders a page whenever something has happened, and sends what of it is different.
func (h *hub) run(ctx context.Context, key string, t *topic, v view, siteName string, shown func(context.Context) (*http.Request, error)) {
	var why error
	defer func() { h.end(key, t, why) }()
	happened := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel() // the stream ended: the daemon is gone, or the caller may see nothing more
		sub, err := inside(ctx, http.MethodGet, "/sites/"+url.PathEscape(siteName)+"/events", http.NoBody)
		if err != nil {
			return
		}
		sub.Header.Set("Accept", "text/event-stream")
		h.site.handle(&listener{header: http.Header{}, happened: happened}, sub)
	}()
	anyway := time.NewTicker(lookAnyway)
	defer anyway.Stop()
	for before := map[string]string{}; ; {
		began := time.Now()
		r, err := shown(ctx)
		if err != nil {
			return
		}
		var text []byte
		page, err := h.site.shell(r, v)
		if err == nil {
			text, err = h.site.render(v.name, "main", page)
		}
		if err != nil {
			if ctx.Err() == nil && asAnswer(err).status != http.StatusBadGateway { // a daemon that is gone is no reason
				why = err
			}
			return
		}
		now := fragments(text)
		if changed := differing(before, now); len(changed) > 0 {
			h.give(t, change(changed), change(now))
		}
		before = now
		rest := max(changeEvery, 4*time.Since(began)) - time.Since(began)
		select {
		case <-ctx.Done():
			return
		case <-time.After(rest):
		}
		select {
		case <-ctx.Done():
			return
		case <-happened:
		case <-anyway.C:
		}
	}
}

// change is the message with parts of a page.
func change(parts map[string]string) []byte {
	body, err := json.Marshal(parts)
	if err != nil {
		return nil // texts always have JSON
	}
	return []byte("event: change\ndata: " + string(body) + "\n\n")
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
	header   http.Header
	happened chan struct{}
}

func (l *listener) Header() http.Header              { return l.header }
func (l *listener) WriteHeader(int)                  {}
func (l *listener) Flush()                           {}
func (l *listener) SetReadDeadline(time.Time) error  { return nil }
func (l *listener) SetWriteDeadline(time.Time) error { return nil }

func (l *listener) Write(b []byte) (int, error) {
	if !strings.HasPrefix(string(b), ":") {
		select {
		case l.happened <- struct{}{}:
		default:
		}
	}
	return len(b), nil
}

// section is a part of a page that changes by itself. No section has another one in it.
var section = regexp.MustCompile(`(?s)<section id="([a-z-]+)".*?</section>`)

func fragments(text []byte) map[string]string {
	all := map[string]string{}
	for _, m := range section.FindAllSubmatch(text, -1) {
		all[string(m[1])] = string(m[0])
	}
	return all
}

// agoText is what changes in a page by time alone: the script counts by itself.
var agoText = regexp.MustCompile(`(<time [^>]*>)[^<]*`)

func differing(before, now map[string]string) map[string]string {
	changed := map[string]string{}
	for id, text := range now {
		if agoText.ReplaceAllString(text, "$1") != agoText.ReplaceAllString(before[id], "$1") {
			changed[id] = text
		}
	}
	return changed
}
