package drivertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
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
	return []site.Facet{site.FacetPower, site.FacetBoot, site.FacetImage, site.FacetHealth, site.FacetInventory,
		site.FacetFirmware, site.FacetBIOS, site.FacetLog}
}

func (d bmcDriver) Open(_ context.Context, e site.Endpoint, s secret.Value) (driver.Machine, error) {
	m, err := d.fleet.find(e)
	if err != nil {
		return nil, err
	}
	return &bmc{m: m, login: &login{m: m, value: s}}, nil
}

func (f *Fleet) find(e site.Endpoint) (*FakeMachine, error) {
	u, err := url.Parse(e.URL)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	m := f.Machine(cmp.Or(u.Query().Get("domain"), u.Hostname()))
	if m == nil {
		return nil, fmt.Errorf("%w: no machine at %s", driver.ErrUnreachable, e.URL)
	}
	return m, nil
}

// bmc is an open handle.
type bmc struct {
	m     *FakeMachine
	login *login
}

func (b *bmc) Close() error { return nil }

func (b *bmc) Observe(ctx context.Context, n *site.Node, facets []site.Facet) (site.Observed, error) {
	if err := b.read(ctx); err != nil {
		return site.Observed{}, err
	}
	defer b.m.look()()
	seen := site.Observed{Identity: b.m.answered(), Inventory: b.m.inventory(), Facets: map[site.Facet]site.FacetState{}}
	for _, f := range facets {
		if !slices.Contains(bmcDriver{}.Facets(), f) {
			continue
		}
		s := site.FacetState{Have: b.m.have(f), Seen: time.Now(), Driver: "fake"}
		if f == site.FacetBoot && n.Boot.Mode != "" {
			s.Have["mode"] = b.m.mode
		}
		if f == site.FacetPower && !b.m.changes.IsZero() && !b.m.restart {
			s.Pending = site.Values{"state": state(!b.m.on)}
		}
		if staged := b.m.pending[f]; staged != nil {
			s.Pending = maps.Clone(staged)
		}
		seen.Facets[f] = s
		if f == site.FacetLog {
			seen.Entries = slices.Clone(b.m.log)
		}
	}
	return seen, nil
}

// inspectTime is how long an inspection takes.
const inspectTime = 20 * time.Second

// Inspect implements driver.Inspector for a machine that was given parts.
func (b *bmc) Inspect(ctx context.Context, _ *site.Node) (*site.Inventory, error) {
	parts := b.m.made()
	if parts == nil {
		return nil, fmt.Errorf("inspect: %w", errors.ErrUnsupported)
	}
	if err := b.read(ctx); err != nil {
		return nil, err
	}
	b.m.countInspection()
	if err := sleep(ctx, inspectTime); err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	}
	return parts, nil
}

// made returns what an inspection reports of the machine.
func (m *FakeMachine) made() *site.Inventory {
	defer m.look()()
	return m.parts
}

func (m *FakeMachine) countInspection() {
	defer m.look()()
	m.counts.Inspections++
}

// read is a request that the BMC answers.
func (b *bmc) read(ctx context.Context) error {
	if err := wait(ctx); err != nil {
		return err
	}
	if err := b.login.exchange(ctx, b.m.latency(readRange)); err != nil {
		return err
	}
	if b.m.flake() {
		return timeout(ctx)
	}
	unlock := b.m.look()
	b.m.counts.Reads++
	unlock()
	return wait(ctx)
}

func (m *FakeMachine) inventory() *site.Inventory {
	return &site.Inventory{Manufacturer: cmp.Or(m.config.Manufacturer, "Fake"), Model: cmp.Or(m.config.Model, "Memory"), Processors: 2, MemoryGiB: 64}
}

// answered returns the identity that the machine reports.
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
	case site.FacetLog:
		if n := len(m.log); n > 0 {
			return site.Values{"last": m.log[n-1].ID}
		}
		return site.Values{"last": "none"}
	case site.FacetImage:
		if m.media != nil {
			return site.Values{"media": m.media.Image}
		}
		return site.Values{"media": ""}
	}
	return m.inside[f]
}
