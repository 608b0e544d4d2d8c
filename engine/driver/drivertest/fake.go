package drivertest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// bmcDriver is the fleet's driver for BMCs.
type bmcDriver struct{ fleet *Fleet }

func (bmcDriver) Facets() []site.Facet {
	return []site.Facet{site.FacetPower, site.FacetBoot, site.FacetImage, site.FacetHealth, site.FacetInventory}
}

func (d bmcDriver) Open(_ context.Context, e site.Endpoint, s secret.Value) (driver.Machine, error) {
	m, err := d.fleet.find(e)
	if err != nil {
		return nil, err
	}
	return &bmc{m: m, value: s}, nil
}

func (f *Fleet) find(e site.Endpoint) (*FakeMachine, error) {
	u, err := url.Parse(e.URL)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	m := f.Machine(u.Hostname())
	if m == nil {
		return nil, fmt.Errorf("%w: no machine at %s", driver.ErrUnreachable, e.URL)
	}
	return m, nil
}

// bmc is an open handle.
type bmc struct {
	m     *FakeMachine
	value secret.Value
}

func (b *bmc) Close() error { return nil }

// request is what every exchange with the BMC goes through.
func (b *bmc) request(ctx context.Context, counter *int) error {
	if err := b.m.exchange(ctx, b.value); err != nil {
		return err
	}
	defer b.m.look()()
	*counter++
	return nil
}

// exchange is one question and answer, as far as every endpoint has it.
func (m *FakeMachine) exchange(ctx context.Context, value secret.Value) error {
	if err := sleep(ctx, m.config.Latency); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	}
	unlock := m.look()
	fault := m.fault
	unlock()
	switch fault {
	case Unreachable:
		return fmt.Errorf("%w: no route to %s", driver.ErrUnreachable, m.name)
	case Busy:
		return busy{}
	case Denied:
		return fmt.Errorf("%w: the account is not known", driver.ErrDenied)
	case Garbled:
		return fmt.Errorf("%w: the answer makes no sense", driver.ErrRefused)
	case Hangs:
		<-ctx.Done()
		return fmt.Errorf("%w: %w", driver.ErrUnreachable, ctx.Err())
	}
	if want := m.config.Secret; !want.IsZero() && want != value {
		return fmt.Errorf("%w: wrong user name or password", driver.ErrDenied)
	}
	return nil
}

// busy is the error of a busy machine.
type busy struct{}

func (busy) Error() string          { return "busy: try again later" }
func (busy) Unwrap() error          { return driver.ErrBusy }
func (busy) RetryAfterSeconds() int { return BusySeconds }

func sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func (b *bmc) Observe(ctx context.Context, n *site.Node, facets []site.Facet) (site.Observed, error) {
	if err := b.request(ctx, &b.m.counts.Reads); err != nil {
		return site.Observed{}, err
	}
	defer b.m.look()()
	seen := site.Observed{Identity: b.m.answered(), Facets: map[site.Facet]site.FacetState{}}
	for _, f := range facets {
		if !slices.Contains(bmcDriver{}.Facets(), f) {
			continue
		}
		s := site.FacetState{Have: b.m.have(f), Want: n.Want(f), Seen: time.Now(), Driver: "fake"}
		if f == site.FacetPower && !b.m.changes.IsZero() {
			s.Pending = site.Values{"state": state(!b.m.on)}
		}
		if f == site.FacetInventory {
			seen.Inventory = &site.Inventory{Manufacturer: "Fake", Model: "Memory", Processors: 2, MemoryGiB: 64}
		}
		seen.Facets[f] = s
	}
	return seen, nil
}

// answered is the identity that the machine gives.
func (m *FakeMachine) answered() site.Identity {
	if m.fault == WrongMachine {
		return site.Identity{UUID: "ffffffff-0000-4000-8000-000000000000", Serial: "OTHER"}
	}
	return m.identity
}

func (m *FakeMachine) have(f site.Facet) site.Values {
	switch f {
	case site.FacetPower:
		return site.Values{"state": state(m.on)}
	case site.FacetBoot:
		return site.Values{"order": m.order}
	case site.FacetHealth:
		return site.Values{"status": "OK"}
	case site.FacetImage:
		if m.media != nil {
			return site.Values{"media": m.media.Image}
		}
		return site.Values{"media": ""}
	}
	return nil
}

func (b *bmc) Apply(ctx context.Context, step site.Step, n *site.Node, _ site.Observed) error {
	if err := b.request(ctx, &b.m.counts.Reads); err != nil {
		return err
	}
	unlock := b.m.look()
	seen, lies := b.m.answered(), b.m.fault == Lies
	unlock()
	if !step.Machine.Known() || !step.Machine.Matches(seen) {
		return fmt.Errorf("%w: the step is for %s, this machine is %s", driver.ErrRefused, step.Machine, seen)
	}
	if lies {
		return b.write(ctx, func(*FakeMachine) {})
	}
	switch step.Action {
	case site.ActionPowerOn:
		return b.power(ctx, true)
	case site.ActionPowerOff:
		return b.power(ctx, false)
	case site.ActionBootOrder:
		return b.write(ctx, func(m *FakeMachine) { m.order = n.Want(site.FacetBoot)["order"] })
	case site.ActionInstall:
		return b.install(ctx, step, n)
	case site.ActionFinishInstall:
		return b.finish(ctx)
	}
	return fmt.Errorf("%s: %w", step.Action, errors.ErrUnsupported)
}

func (b *bmc) write(ctx context.Context, change func(*FakeMachine)) error {
	if err := b.request(ctx, &b.m.counts.Writes); err != nil {
		return err
	}
	defer b.m.look()()
	change(b.m)
	return nil
}

// power asks for a power state and waits for it; an installer may have powered
// the machine off again by then.
func (b *bmc) power(ctx context.Context, on bool) error {
	before, now := b.m.state()
	if now == on {
		return nil
	}
	if err := b.request(ctx, &b.m.counts.Writes); err != nil {
		return err
	}
	b.m.reset(on)
	for {
		boots, now := b.m.state()
		if now == on || on && boots > before {
			return nil
		}
		if err := sleep(ctx, max(time.Millisecond, b.m.config.PowerTime/16)); err != nil {
			return fmt.Errorf("power %s: %w: %w", state(on), driver.ErrUnreachable, err)
		}
		if err := b.request(ctx, &b.m.counts.Reads); err != nil {
			return err
		}
	}
}

// install goes off, override, medium, on: in this order what is seen tells
// how far an interrupted one came.
func (b *bmc) install(ctx context.Context, step site.Step, n *site.Node) error {
	image := site.Marker{Node: n.Name, Generation: step.Generation, Image: step.Image.SHA256}
	unlock := b.m.look()
	inserted := step.Resumed && b.m.media != nil && *b.m.media == image
	once, on := b.m.once, b.m.on
	unlock()
	switch {
	case inserted && !once && !on:
		return nil // the installer has come and gone
	case inserted:
		return b.power(ctx, true)
	case !step.Resumed:
		if err := b.write(ctx, func(m *FakeMachine) { m.media = nil }); err != nil {
			return err
		}
	}
	if err := b.power(ctx, false); err != nil {
		return err
	}
	if err := b.write(ctx, func(m *FakeMachine) { m.once = true }); err != nil {
		return err
	}
	if err := b.write(ctx, func(m *FakeMachine) { m.media = &image }); err != nil {
		return err
	}
	return b.power(ctx, true)
}

func (b *bmc) finish(ctx context.Context) error {
	if b.m.Power() == "on" {
		if b.m.Media() == nil {
			return nil
		}
		return fmt.Errorf("%w: the machine is on with the medium inserted", driver.ErrBusy)
	}
	if err := b.write(ctx, func(m *FakeMachine) { m.media = nil }); err != nil {
		return err
	}
	return b.power(ctx, true)
}

// osDriver is the fleet's driver for installed systems.
type osDriver struct{ fleet *Fleet }

func (osDriver) Facets() []site.Facet { return []site.Facet{site.FacetOS} }

func (d osDriver) Open(_ context.Context, e site.Endpoint, s secret.Value) (driver.Machine, error) {
	m, err := d.fleet.find(e)
	if err != nil {
		return nil, err
	}
	return system{m, s}, nil
}

type system struct {
	m     *FakeMachine
	value secret.Value
}

func (s system) Close() error { return nil }

func (s system) Apply(context.Context, site.Step, *site.Node, site.Observed) error {
	return fmt.Errorf("the os endpoint is only observed: %w", errors.ErrUnsupported)
}

func (s system) Observe(ctx context.Context, _ *site.Node, facets []site.Facet) (site.Observed, error) {
	if err := s.m.exchange(ctx, s.value); err != nil {
		return site.Observed{}, err
	}
	defer s.m.look()()
	if !s.m.answers() {
		return site.Observed{}, fmt.Errorf("%w: no system answers", driver.ErrUnreachable)
	}
	seen := site.Observed{Facets: map[site.Facet]site.FacetState{}}
	if slices.Contains(facets, site.FacetOS) {
		have := site.Values{"bootID": fmt.Sprint(s.m.boots), "release": "fake 1", "kernel": "6.1.0"}
		seen.Facets[site.FacetOS] = site.FacetState{Have: have, Seen: time.Now(), Driver: "fake"}
	}
	if s.m.disk.Node != "" {
		marker := *s.m.disk
		seen.Marker = &marker
	}
	return seen, nil
}
