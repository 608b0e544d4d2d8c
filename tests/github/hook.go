package github

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// GitHub's limits of webhooks (docs.github.com, "Best practices for using
// webhooks", "Webhook events and payloads").
const (
	hookTimeout = 10 * time.Second
	hookKept    = 3 * 24 * time.Hour // how long a delivery is listed and can be repeated
	maxPayload  = 25 << 20           // a larger one is not delivered
)

// events are what the double sends, each with its actions.
var events = []struct{ name, action string }{
	{"ping", ""}, {"push", ""},
	{"pull_request", "opened"}, {"pull_request", "synchronize"}, {"pull_request", "closed"}, {"pull_request", "reopened"},
	{"pull_request", "edited"}, {"pull_request", "converted_to_draft"}, {"pull_request", "ready_for_review"},
	{"issue_comment", "created"}, {"issue_comment", "edited"}, {"issue_comment", "deleted"},
	{"check_run", "created"}, {"check_run", "completed"}, {"check_run", "rerequested"}, {"check_run", "requested_action"},
}

// Hook is a webhook of a repository or an App.
type Hook struct {
	s           *Server
	id          int64
	repo        *Repository // of one of a repository
	app         *App        // of an App's
	url, secret string
	events      []string
	held        bool
	deliveries  []*Delivery
	busy        int // deliveries under way
}

// Hook sets a webhook of the repository up, for the events named or all, and
// pings it.
func (r *Repository) Hook(url, secret string, events ...string) *Hook {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	h := r.s.hook(url, secret, events)
	h.repo = r
	h.ping(r)
	return h
}

// Hook sets the App's webhook up, for the events named or all.
func (a *App) Hook(url, secret string, events ...string) *Hook {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	h := a.s.hook(url, secret, events)
	h.app = a
	return h
}

func (s *Server) hook(url, secret string, events []string) *Hook {
	h := &Hook{s: s, id: s.nextID(), url: url, secret: secret, events: events}
	s.hooks = append(s.hooks, h)
	return h
}

func (h *Hook) ping(r *Repository) {
	config := object{"url": h.url, "content_type": "json", "insecure_ssl": "0", "secret": "********"}
	h.deliver(r, nil, "ping", "", object{
		"zen": "Keep it logically awesome.", "hook_id": h.id, "repository": r.view(), "sender": r.owner.view(),
		"hook": object{
			"id": h.id, "type": "Repository", "name": "web", "active": true, "events": []string{"*"}, "config": config,
			"created_at": stamp(born), "updated_at": stamp(born), "url": r.api("/hooks/%d", h.id),
		},
	})
}

// ID is what the API knows the hook by.
func (h *Hook) ID() int64 { return h.id }

// Hold keeps deliveries back until the test sends them.
func (h *Hook) Hold() {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	h.held = true
}

// Release sends deliveries again as they come. Those held stay so.
func (h *Hook) Release() {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	h.held = false
}

// Deliveries are all deliveries of the hook, oldest first, those held too.
func (h *Hook) Deliveries() []*Delivery {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	return slices.Clone(h.deliveries)
}

// Settle waits until no webhook is under way.
func (s *Server) Settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for slices.ContainsFunc(s.hooks, func(h *Hook) bool { return h.busy > 0 }) {
		s.moved.Wait()
	}
}

// emit sends an event to every hook that listens for it.
func (r *Repository) emit(event, action string, who *User, payload func() object) {
	for _, h := range r.s.hooks {
		install, listens := h.hears(r, event)
		if !listens {
			continue
		}
		v := payload()
		v["repository"], v["sender"] = r.view(), who.view()
		if install != nil {
			v["installation"] = object{"id": install.id, "node_id": node("I", install.id)}
		}
		h.deliver(r, install, event, action, v)
	}
}

// hears says whether a hook listens for an event of a repository, and by which
// installation.
func (h *Hook) hears(r *Repository, event string) (*Installation, bool) {
	if len(h.events) > 0 && !slices.Contains(h.events, event) {
		return nil, false
	}
	if h.app == nil {
		return nil, h.repo == r
	}
	for _, i := range h.app.installs {
		if i.has(r) && !i.suspended {
			return i, true
		}
	}
	return nil, false
}

func (h *Hook) deliver(r *Repository, install *Installation, event, action string, v object) {
	payload, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	if d := h.s.config.Description; d != nil {
		if err := d.webhook(event, action, payload); err != nil {
			h.s.violated("webhook %s %s: %s", event, action, brief(err))
		}
	}
	if len(payload) > maxPayload {
		return
	}
	h.enqueue(&Delivery{hook: h, id: h.s.nextID(), guid: guid(), event: event, action: action, repo: r, install: install, payload: payload})
}

func (h *Hook) enqueue(d *Delivery) {
	h.deliveries = append(h.deliveries, d)
	if h.held {
		return
	}
	h.busy++
	go func() {
		d.Send()
		h.s.mu.Lock()
		defer h.s.mu.Unlock()
		h.busy--
		h.s.moved.Broadcast()
	}()
}

// Sign is the HMAC-SHA256 of a webhook, in hexadecimal
// (docs.github.com, "Validating webhook deliveries").
func Sign(secret string, payload []byte) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write(payload)
	return hex.EncodeToString(m.Sum(nil))
}

func guid() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b)
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
