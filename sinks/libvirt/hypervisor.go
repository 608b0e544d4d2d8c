package libvirt

import (
	"context"
	"fmt"
	"strings"
	"sync"

	golibvirt "github.com/digitalocean/go-libvirt"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// hypervisors are those with open handles.
type hypervisors struct {
	mu   sync.Mutex
	open map[doorway]*hypervisor
}

// doorway is everything that must be equal to share a connection.
type doorway struct {
	address         address
	credential      secret.Value
	ca, fingerprint string
	hostKeys        string
}

// join returns a hypervisor, and a function to release it. The last release closes its connection.
func (s *hypervisors) join(a address, e site.Endpoint, v secret.Value, opts Options) (*hypervisor, func() error, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	door := doorway{a.hypervisor(), v, e.Trust.CA, e.Trust.Fingerprint, strings.Join(e.Trust.HostKeys, "\n")}
	h := s.open[door]
	if h == nil {
		dial, err := dialer(a, e, v)
		if err != nil {
			return nil, nil, err
		}
		h = &hypervisor{opts: opts, address: a.hypervisor(), dial: dial, turn: make(chan struct{}, 1), heavy: make(chan struct{}, maxHeavy)}
		if s.open == nil {
			s.open = map[doorway]*hypervisor{}
		}
		s.open[door] = h
	}
	h.handles++
	return h, sync.OnceValue(func() error { s.leave(door, h); return nil }), nil
}

func (s *hypervisors) leave(door doorway, h *hypervisor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.handles--; h.handles == 0 {
		delete(s.open, door)
		h.close()
	}
}

// maxHeavy bounds how many machines of a hypervisor are changed at once. Libvirt handles five calls of a connection
// at a time, so one is left for looks.
const maxHeavy = 4

// hypervisor is one hypervisor, shared by all handles to its machines.
type hypervisor struct {
	opts    Options
	address address
	dial    dialFunc
	handles int // under the lock of hypervisors

	turn  chan struct{} // held while making the connection
	heavy chan struct{} // held while changing a machine

	mu   sync.Mutex
	open *connection // nil before the first use
	over bool        // no handle is left
	// What is known about its machines.
	last    *flight
	writes  uint64 // number of our writes so far
	told    *wire  // the connection that delivers events; nil for none
	records map[golibvirt.UUID]*record
}

// connection is the hypervisor's one connection, made if there is none.
func (h *hypervisor) connection(ctx context.Context) (*connection, error) {
	if err := h.take(ctx, h.turn); err != nil {
		return nil, err
	}
	defer func() { <-h.turn }()
	if c := h.alive(); c != nil {
		return c, nil
	}
	c, err := h.connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := h.follow(ctx, c); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		c.drop()
		return nil, fmt.Errorf("%w: the handle is closed", driver.ErrUnreachable)
	}
	h.open = c
	return c, nil
}

func (h *hypervisor) alive() *connection {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open != nil && h.open.alive() {
		return h.open
	}
	return nil
}

// take waits for space in a channel.
func (h *hypervisor) take(ctx context.Context, room chan struct{}) error {
	if ctx.Err() == nil {
		select {
		case room <- struct{}{}:
			return nil
		case <-ctx.Done():
		}
	}
	return fmt.Errorf("%w: %w", driver.ErrUnreachable, ctx.Err())
}

func (h *hypervisor) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	if h.open != nil {
		h.open.close()
	}
}
