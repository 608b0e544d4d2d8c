package libvirt

import (
	"context"
	"fmt"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"github.com/slipway-gitops/slipway/engine/driver"
)

// snapshot is the result of three calls about all machines of a hypervisor. Concurrent looks share it.
type snapshot struct {
	at        time.Time
	byUUID    map[golibvirt.UUID]golibvirt.Domain
	byName    map[string]golibvirt.Domain
	autostart map[golibvirt.UUID]bool
	paused    map[golibvirt.UUID]bool
}

// flight is a snapshot in progress, or the last one.
type flight struct {
	writes uint64 // number of our writes sent before it began
	done   chan struct{}
	shot   *snapshot
	err    error
}

// look is a snapshot that includes all our earlier writes: a new one, one that others wait for, or the last if it
// is recent.
func (h *hypervisor) look(ctx context.Context) (*snapshot, error) {
	f := h.board()
	select {
	case <-f.done:
		return f.shot, f.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", driver.ErrUnreachable, ctx.Err())
	}
}

// board finds the flight to wait for, or starts one.
func (h *hypervisor) board() *flight {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f := h.last; f != nil && f.writes == h.writes && f.serves(h.opts.Share) {
		return f
	}
	f := &flight{writes: h.writes, done: make(chan struct{})}
	h.last = f
	go func() {
		defer close(f.done)
		ctx, cancel := context.WithTimeout(context.Background(), h.opts.Answer)
		defer cancel()
		f.shot, f.err = h.shoot(ctx)
	}()
	return f
}

// serves reports whether a flight is still in progress or has just succeeded.
func (f *flight) serves(share time.Duration) bool {
	select {
	case <-f.done:
		return f.err == nil && time.Since(f.shot.at) < share
	default:
		return true
	}
}

func (h *hypervisor) shoot(ctx context.Context) (*snapshot, error) {
	c, err := h.connection(ctx)
	if err != nil {
		return nil, err
	}
	s := &snapshot{at: time.Now(), byUUID: map[golibvirt.UUID]golibvirt.Domain{}, byName: map[string]golibvirt.Domain{}}
	all, err := list(ctx, c, 0)
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		s.byUUID[d.UUID], s.byName[d.Name] = d, d
	}
	if s.autostart, err = those(ctx, c, golibvirt.ConnectListDomainsAutostart); err != nil {
		return nil, err
	}
	s.paused, err = those(ctx, c, golibvirt.ConnectListDomainsPaused)
	return s, err
}

func list(ctx context.Context, c *connection, flags golibvirt.ConnectListAllDomainsFlags) ([]golibvirt.Domain, error) {
	return ask(ctx, c, func(rpc *golibvirt.Libvirt) ([]golibvirt.Domain, error) {
		all, _, err := rpc.ConnectListAllDomains(1, flags)
		return all, err
	})
}

func those(ctx context.Context, c *connection, flags golibvirt.ConnectListAllDomainsFlags) (map[golibvirt.UUID]bool, error) {
	all, err := list(ctx, c, flags)
	set := make(map[golibvirt.UUID]bool, len(all))
	for _, d := range all {
		set[d.UUID] = true
	}
	return set, err
}

// power is the state of a machine.
func (s *snapshot) power(d golibvirt.Domain) string {
	switch {
	case s.paused[d.UUID]:
		return "paused"
	case d.ID >= 0:
		return "on"
	}
	return "off"
}

// find is the domain with the machine's UUID, or else its name.
func (s *snapshot) find(uuid golibvirt.UUID, name string) (golibvirt.Domain, bool) {
	d, ok := s.byUUID[uuid]
	if !ok {
		d, ok = s.byName[name]
	}
	return d, ok
}

// record is a domain as read, with its volumes. It is valid until libvirt reports a change or it is too old.
type record struct {
	domain  *domain
	volumes map[volume]*content // nil for a missing volume
	at      time.Time
}

// recall returns the record of a domain. It reads the domain if none is cached.
func (h *hypervisor) recall(ctx context.Context, c *connection, ref golibvirt.Domain) (*record, error) {
	if r := h.remembered(c, ref); r != nil {
		return r, nil
	}
	r := &record{at: time.Now()}
	h.remember(c, ref.UUID, r) // stored before reading, so that an event meanwhile removes it
	d, err := read(ctx, c, ref, 0)
	if err == nil && d.ours {
		r.volumes, err = contents(ctx, c, d.owner)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.drop(ref.UUID, r)
		return nil, err
	}
	r.domain = d
	return r, nil
}

// remembered is the cached record of a domain, if it is still valid.
func (h *hypervisor) remembered(c *connection, ref golibvirt.Domain) *record {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.records[ref.UUID]
	if r == nil || r.domain == nil || h.told != c.wire || r.domain.ref != ref || time.Since(r.at) > h.opts.Believe {
		return nil
	}
	return r
}

func (h *hypervisor) remember(c *connection, uuid golibvirt.UUID, r *record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.told == c.wire {
		h.records[uuid] = r
	}
}

func (h *hypervisor) drop(uuid golibvirt.UUID, r *record) {
	if h.records[uuid] == r {
		delete(h.records, uuid)
	}
}

// wrote records that a machine may have been written to, so no earlier look is valid.
func (h *hypervisor) wrote(uuid golibvirt.UUID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.writes++
	delete(h.records, uuid)
}

// tidings are the events that report a changed definition. Not every change has an event, so records expire.
var tidings = []golibvirt.DomainEventID{
	golibvirt.DomainEventIDLifecycle, golibvirt.DomainEventIDDiskChange, golibvirt.DomainEventIDDeviceAdded,
	golibvirt.DomainEventIDDeviceRemoved, golibvirt.DomainEventIDMetadataChange,
}

// follow subscribes to a connection's events. Without events, nothing is cached.
func (h *hypervisor) follow(ctx context.Context, c *connection) error {
	var streams []<-chan any
	for _, id := range tidings {
		s, err := ask(ctx, c, func(rpc *golibvirt.Libvirt) (<-chan any, error) {
			return rpc.SubscribeEvents(context.Background(), id, nil)
		})
		if err != nil {
			break
		}
		streams = append(streams, s)
	}
	for _, s := range streams {
		go func() {
			for event := range s {
				h.hear(event)
			}
		}()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told, h.records = nil, map[golibvirt.UUID]*record{}
	if len(streams) == len(tidings) {
		h.told = c.wire
	}
	if !c.alive() {
		return fmt.Errorf("%w: the connection to libvirt was lost", driver.ErrUnreachable)
	}
	return nil
}

func (h *hypervisor) hear(event any) {
	var d golibvirt.Domain
	switch e := event.(type) {
	case *golibvirt.DomainEventCallbackLifecycleMsg:
		d = e.Msg.Dom
	case *golibvirt.DomainEventCallbackDiskChangeMsg:
		d = e.Msg.Dom
	case *golibvirt.DomainEventCallbackDeviceAddedMsg:
		d = e.Dom
	case *golibvirt.DomainEventCallbackDeviceRemovedMsg:
		d = e.Msg.Dom
	case *golibvirt.DomainEventCallbackMetadataChangeMsg:
		d = e.Dom
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.records, d.UUID)
}
