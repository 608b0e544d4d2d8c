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
	streamQueue  = 256                    // events that a client may lag behind
	streamWrites = 10 * time.Second       // how long one write may take
	mostEvents   = 1000                   // in one answer
)

// hub gives events to all streams: it asks the daemon once for all of them.
type hub struct {
	*api

	mu     sync.Mutex
	topics map[string]*topic
}

// topic are the streams of one site. There is a goroutine for it while it has any.
type topic struct {
	streams map[*stream]bool
}

// stream is a client that follows. Its queue is closed when the client cannot keep up.
type stream struct{ queue chan told }

// told is an event with its JSON.
type told struct {
	site.Event
	text []byte
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
	s := &stream{make(chan told, streamQueue)}
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
		events, err := h.daemon.Events(siteName, last)
		if err != nil {
			continue // as the next answer says
		}
		for _, e := range events {
			text, err := json.Marshal(e)
			if err == nil {
				h.give(t, told{e, text})
			}
			last = e.Seq
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

// give puts an event into the queues. A stream whose queue is full ends: its client resumes.
func (h *hub) give(t *topic, e told) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range t.streams {
		select {
		case s.queue <- e:
		default:
			delete(t.streams, s)
			close(s.queue)
		}
	}
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
// more, the first thing that it is sent is an event of type "gap".
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
	if out.write(": events of site "+c.site+"\n\n") != nil {
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
		if err := out.write("event: gap\ndata: {\"after\":" + strconv.FormatUint(after, 10) + "}\n\n"); err != nil {
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
		text, err := json.Marshal(e)
		if err == nil {
			err = out.event(told{e, text})
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
		select {
		case <-c.r.Context().Done():
			return
		case e, ok := <-s.queue:
			if !ok {
				return
			}
			if e.Seq <= after {
				continue
			}
			isSeen, err := eyes.sees(e.Node)
			if err == nil && isSeen {
				err = out.event(e)
			}
			if err != nil {
				return
			}
		case <-beat.C:
			if eyes.look() != nil || out.write(": nothing new\n\n") != nil {
				return
			}
		}
	}
}

// stillMay says whether the caller is still who it was, and may still see what it sees.
func (c *call) stillMay() bool {
	if again := identifierOf(c.r.Context()); again != nil {
		who, err := again(c.r)
		if err != nil || !who.Is(c.caller) {
			return false
		}
	}
	c.policy = c.policyNow(c.site)
	return c.authorize() == nil
}

// eventWriter writes events to a client that keeps reading.
type eventWriter struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func (o *eventWriter) write(text string) error {
	if err := o.rc.SetWriteDeadline(time.Now().Add(streamWrites)); err != nil {
		return err
	}
	if _, err := o.w.Write([]byte(text)); err != nil {
		return err
	}
	return o.rc.Flush()
}

// event writes one. Its JSON has no line break.
func (o *eventWriter) event(e told) error {
	return o.write("id: " + strconv.FormatUint(e.Seq, 10) + "\nevent: " + string(e.Kind) + "\ndata: " + string(e.text) + "\n\n")
}

// identifierKey is the context's key for what identifies a caller again.
type identifierKey struct{}

type identifier func(*http.Request) (access.Caller, error)

func identifierOf(ctx context.Context) identifier {
	again, _ := ctx.Value(identifierKey{}).(identifier)
	return again
}
