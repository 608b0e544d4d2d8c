package redfish

import (
	"net/url"
	"sync"

	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// clients are those to the BMCs that handles are open to. The nodes of an
// enclosure with one BMC have one session together, and their requests take
// turns.
type clients struct {
	mu   sync.Mutex
	open map[string]*enclosure // by host
}

// enclosure is one BMC as handles are open to it: mostly in one way, with one
// credential. Its lanes are those of all.
type enclosure struct {
	lanes   lanes
	clients map[doorway]*client
}

// doorway is all that has to be the same for a client to be shared.
type doorway struct {
	value           secret.Value
	ca, fingerprint string
	firstUse        bool
}

// join gives a client to the BMC, and what gives it back. The last who does
// ends its session.
func (s *clients) join(u *url.URL, trust site.Trust, v secret.Value, make func(lanes) (*client, error)) (c *client, leave func() error, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.open[u.Host]
	if e == nil {
		e = &enclosure{newLanes(), map[doorway]*client{}}
	}
	door := doorway{v, trust.CA, trust.Fingerprint, trust.FirstUse}
	if c = e.clients[door]; c == nil {
		if c, err = make(e.lanes); err != nil {
			return nil, nil, err
		}
		e.clients[door] = c
	}
	c.handles.Add(1)
	if s.open == nil {
		s.open = map[string]*enclosure{}
	}
	s.open[u.Host] = e
	return c, sync.OnceValue(func() error { return s.leave(u.Host, door, c) }), nil
}

func (s *clients) leave(host string, door doorway, c *client) error {
	if !s.last(host, door, c) {
		return nil
	}
	return c.close()
}

// last takes a handle's leave, and says whether no other is open.
func (s *clients) last(host string, door doorway, c *client) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.handles.Add(-1) > 0 {
		return false
	}
	e := s.open[host]
	if delete(e.clients, door); len(e.clients) == 0 {
		delete(s.open, host)
	}
	return true
}
