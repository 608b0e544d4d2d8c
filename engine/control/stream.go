package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Times and bounds of streams of events.
const (
	lookEvery    = 250 * time.Millisecond // how soon an event is sent
	heartbeat    = 15 * time.Second       // how often a line is sent where nothing happens
	streamLag    = 4096                   // events that a client may lag behind
	streamText   = 64 << 10               // bytes of one write, and one event more
	streamWrites = 10 * time.Second       // how long one write may take
	mostEvents   = 1000                   // in one answer
)

// hub gives events to all streams: it asks the daemon once for all of them.
type hub struct {
	*api

	mu     sync.Mutex
	topics map[string]*topic
}

// topic are the streams of one site, and the latest events that they take from it. There is a goroutine
// for it while it has any. What a stream has not taken yet is kept once for all of them, so that a slow
// client costs nothing.
type topic struct {
	streams map[*stream]bool
	latest  []told // at most streamLag
	count   int    // of all that were in latest
}

// stream is a client that follows.
type stream struct {
	wake  chan struct{} // has a place for one
	taken int           // as topic.count
}

// told is an event as it is sent; one without a Seq is a gap, which is sent to all.
type told struct {
	seq  uint64
	node string
	text []byte
}

func toldOf(e site.Event) (told, error) {
	data, err := json.Marshal(e) // without a line break
	return told{e.Seq, e.Node, []byte("id: " + strconv.FormatUint(e.Seq, 10) + "\nevent: " + string(e.Kind) + "\ndata: " + string(data) + "\n\n")}, err
}

// gapAfter says that what came after an event is not kept any more.
func gapAfter(seq uint64) told {
	return told{text: []byte("event: gap\ndata: {\"after\":" + strconv.FormatUint(seq, 10) + "}\n\n")}
}

// follow adds a stream. It is given what happens from now on, and perhaps some of what was before.
func (h *hub) follow(siteName string) *stream { return h.add(siteName, h.newest(siteName)) }

func (h *hub) add(siteName string, newest uint64) *stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.topics == nil {
		h.topics = map[string]*topic{}
	}
	t := h.topics[siteName]
	if t == nil {
		t = &topic{streams: map[*stream]bool{}}
		h.topics[siteName] = t
		go h.run(siteName, t, newest)
	}
	s := &stream{wake: make(chan struct{}, 1), taken: t.count}
	t.streams[s] = true
	return s
}

// newest is the Seq of the last event that there is.
func (h *hub) newest(siteName string) uint64 {
	events, err := h.daemon.Events(siteName, 0)
	if err != nil || len(events) == 0 {
		return 0
	}
	return events[len(events)-1].Seq
}

// leave takes a stream out.
func (h *hub) leave(siteName string, s *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics[siteName]; t != nil {
		delete(t.streams, s)
	}
}

// run gives events to the streams of a topic until it has none.
func (h *hub) run(siteName string, t *topic, last uint64) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for range tick.C {
		if h.ended(siteName, t) {
			return
		}
		// With the last one, to see that nothing between is missing.
		events, err := h.daemon.Events(siteName, max(last, 1)-1)
		if err != nil {
			continue // as the next answer says
		}
		var some []told
		if last > 0 && len(events) > 0 && events[0].Seq > last {
			some = append(some, gapAfter(last))
		}
		for _, e := range events {
			if e.Seq <= last {
				continue
			}
			last = e.Seq
			if text, err := toldOf(e); err == nil {
				some = append(some, text)
			}
		}
		if len(some) > 0 {
			h.give(t, some)
		}
	}
}

// ended forgets a topic that nobody follows.
func (h *hub) ended(siteName string, t *topic) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(t.streams) > 0 {
		return false
	}
	delete(h.topics, siteName)
	return true
}

// give has all streams take events.
func (h *hub) give(t *topic, some []told) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t.count += len(some)
	t.latest = append(t.latest, some...) // what a stream has taken is never written again
	t.latest = t.latest[max(0, len(t.latest)-streamLag):]
	for s := range t.streams {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// take gives a stream what it has not taken yet. It has lagged where some of that is not kept any more.
func (h *hub) take(siteName string, s *stream) (some []told, lagged bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[siteName]
	new := t.count - s.taken
	s.taken = t.count
	return t.latest[max(0, len(t.latest)-new):], new > len(t.latest)
}

// eventsOf answers with events, or streams them where that is asked for.
func eventsOf(c *call) (any, error) {
	after, err := c.number("after", 0, 0, 1<<63)
	if err != nil {
		return nil, err
	}
	if c.wantsStream() {
		return written{}, c.stream(after)
	}
	limit, err := c.number("limit", mostEvents, 1, mostEvents)
	if err != nil {
		return nil, err
	}
	all, err := c.daemon.Events(c.site, after)
	if err != nil {
		return nil, err
	}
	shown := c.shows()
	if c.r.URL.Query().Get("newest") == "true" {
		return newestOf(all, limit, shown), nil
	}
	some := make([]site.Event, 0, min(uint64(len(all)), limit))
	for _, e := range all {
		if uint64(len(some)) == limit {
			break
		}
		if shown(e.Node) {
			some = append(some, e)
		}
	}
	return some, nil
}

// newestOf are the last events that are shown, oldest first.
func newestOf(all []site.Event, limit uint64, shown func(string) bool) []site.Event {
	some := []site.Event{}
	for i := len(all) - 1; i >= 0 && uint64(len(some)) < limit; i-- {
		if shown(all[i].Node) {
			some = append(some, all[i])
		}
	}
	slices.Reverse(some)
	return some
}

// wantsStream says whether server-sent events are asked for.
func (c *call) wantsStream() bool {
	return c.route.events && strings.Contains(c.r.Header.Get("Accept"), "text/event-stream")
}

// shows says of which nodes the caller may see something; "" is the site as a whole.
func (c *call) shows() func(node string) bool {
	if c.may(access.Read, "") == nil {
		return func(string) bool { return true }
	}
	if d, err := c.daemon.Design(c.site); err == nil && d != nil {
		c.placed = d.Nodes // one look for all of them
	}
	known := map[string]bool{}
	return func(node string) bool {
		shown, asked := known[node]
		if !asked {
			shown = node != "" && c.may(access.Read, node) == nil
			known[node] = shown
		}
		return shown
	}
}

// stream sends events as they happen, as server-sent events: https://html.spec.whatwg.org/#server-sent-events
// A client that was interrupted goes on with Last-Event-ID. Where events in between are not kept any
// more, it is sent an event of type "gap" in their place.
func (c *call) stream(after uint64) error {
	resumed := after > 0
	if id := c.r.Header.Get("Last-Event-ID"); id != "" {
		n, err := strconv.ParseUint(id, 10, 64)
		if err != nil {
			return fmt.Errorf("%w: Last-Event-ID is the id of an event", ErrBadRequest)
		}
		after, resumed = n, n > 0
	}
	s := c.events.follow(c.site)
	defer c.events.leave(c.site, s)
	c.w.Header().Set("Content-Type", "text/event-stream")
	c.w.Header().Set("X-Accel-Buffering", "no") // or a proxy keeps events back
	out := &eventWriter{c.w, http.NewResponseController(c.w)}
	// The time for a request is over long before a stream is, and a client that leaves is to be noticed.
	if err := out.rc.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	if out.write([]byte(": events of site "+c.site+"\n\n")) != nil {
		return nil
	}
	eyes := &sight{c: c, shown: c.shows(), looked: time.Now()}
	if resumed {
		last, err := c.catchUp(out, after, eyes)
		if err != nil {
			return nil
		}
		after = last
	}
	c.forward(out, s, after, eyes)
	return nil
}

// sight is what the caller of a stream may see, which is looked at again each heartbeat: a right may have
// been taken away, and nodes may have moved.
type sight struct {
	c      *call
	shown  func(node string) bool
	looked time.Time
}

// errBlind ends the stream of a caller that may see nothing any more.
var errBlind = errors.New("the caller may no longer see anything")

// sees says whether the caller may see something of a node, by a look that is not older than a heartbeat.
func (s *sight) sees(node string) (bool, error) {
	if time.Since(s.looked) >= heartbeat {
		if err := s.look(); err != nil {
			return false, err
		}
	}
	return s.shown(node), nil
}

func (s *sight) look() error {
	if !s.c.stillMay() {
		return errBlind
	}
	s.shown, s.looked = s.c.shows(), time.Now()
	return nil
}

// catchUp sends what has happened since an event, and gives the Seq of the last.
func (c *call) catchUp(out *eventWriter, after uint64, eyes *sight) (uint64, error) {
	events, err := c.daemon.Events(c.site, after-1)
	if err != nil {
		return after, err
	}
	if len(events) == 0 || events[0].Seq != after {
		if err := out.write(gapAfter(after).text); err != nil {
			return after, err
		}
	}
	for _, e := range events {
		if e.Seq <= after {
			continue
		}
		after = e.Seq
		switch isSeen, err := eyes.sees(e.Node); {
		case err != nil:
			return after, err
		case !isSeen:
			continue
		}
		t, err := toldOf(e)
		if err == nil {
			err = out.write(t.text)
		}
		if err != nil {
			return after, err
		}
	}
	return after, nil
}

// forward sends what comes until the client leaves, cannot keep up, or may see it no more.
func (c *call) forward(out *eventWriter, s *stream, after uint64, eyes *sight) {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		var err error
		select {
		case <-c.r.Context().Done():
			return
		case <-s.wake:
			after, err = c.pass(out, s, after, eyes)
		case <-beat.C:
			if err = eyes.look(); err == nil {
				err = out.write([]byte(": nothing new\n\n"))
			}
		}
		if err != nil {
			return
		}
	}
}

// pass sends what a stream has not taken yet, many events in one write, and gives the Seq of the last.
func (c *call) pass(out *eventWriter, s *stream, after uint64, eyes *sight) (uint64, error) {
	some, lagged := c.events.take(c.site, s)
	var text []byte
	if lagged {
		text = gapAfter(after).text
	}
	for _, e := range some {
		if e.seq > 0 {
			if e.seq <= after {
				continue
			}
			after = e.seq
			switch isSeen, err := eyes.sees(e.node); {
			case err != nil:
				return after, err
			case !isSeen:
				continue
			}
		}
		if text = append(text, e.text...); len(text) >= streamText {
			if err := out.write(text); err != nil {
				return after, err
			}
			text = text[:0]
		}
	}
	if len(text) == 0 {
		return after, nil
	}
	return after, out.write(text)
}

// stillMay says whether the caller is still who it was, and may still see what it sees.
func (c *call) stillMay() bool {
	if c.identifyAgain() != nil {
		return false
	}
	c.policy = c.policyNow(c.site)
	return c.authorize() == nil
}

// identifyAgain says why the caller is not known any more as who it was when its request began, which may
// be long ago.
func (c *call) identifyAgain() error {
	again := identifierOf(c.r.Context())
	if again == nil {
		return nil
	}
	who, err := again(c.r)
	if err == nil && !who.Is(c.caller) {
		err = fmt.Errorf("%w: %s began this request, and %s sends it now", ErrWhoAreYou, c.caller, who)
	}
	return err
}

// eventWriter writes events to a client that keeps reading.
type eventWriter struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func (o *eventWriter) write(text []byte) error {
	if err := o.rc.SetWriteDeadline(time.Now().Add(streamWrites)); err != nil {
		return err
	}
	if _, err := o.w.Write(text); err != nil {
		return err
	}
	return o.rc.Flush()
}

// identifierKey is the context's key for what identifies a caller again.
type identifierKey struct{}

type identifier func(*http.Request) (access.Caller, error)

func identifierOf(ctx context.Context) identifier {
	again, _ := ctx.Value(identifierKey{}).(identifier)
	return again
}
