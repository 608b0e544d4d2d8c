package drivertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// osDriver is the fleet's driver for installed systems.
type osDriver struct{ fleet *Fleet }

func (osDriver) Facets() []site.Facet {
	return []site.Facet{site.FacetOS, site.FacetProbes, site.FacetLinks, site.FacetBase, site.FacetNetwork, site.FacetPackages, site.FacetConfig, site.FacetActions}
}

func (d osDriver) Open(_ context.Context, e site.Endpoint, s secret.Value) (driver.Machine, error) {
	m, err := d.fleet.find(e)
	if err != nil {
		return nil, err
	}
	return system{m, &login{m: m, value: s}, e.Trust.HostKeys}, nil
}

type system struct {
	m      *FakeMachine
	login  *login
	pinned []string
}

func (s system) Close() error { return nil }

// insideActions are the steps inside the system, by facet.
var insideActions = map[site.Facet]site.Action{
	site.FacetBase: site.ActionBase, site.FacetNetwork: site.ActionNetwork,
	site.FacetPackages: site.ActionPackages, site.FacetConfig: site.ActionConfig,
}

// Apply begins a step that then continues by itself, or joins one under way,
// and waits for its end. A restart of the machine leaves a facet in between.
func (s system) Apply(ctx context.Context, step site.Step, n *site.Node, _ driver.Permit) error {
	if err := s.ask(ctx); err != nil {
		return err
	}
	if step.Action == site.ActionOnce {
		return s.once(ctx, step)
	}
	unlock := s.m.look()
	seen, lies, have := s.m.answered(), s.m.fault == Lies, s.m.inside[step.Facet]
	running, runs := s.m.runs[step.Facet]
	want, owned, err := s.m.intent(step, n)
	unlock()
	if runs {
		want = running.want
	}
	switch {
	case insideActions[step.Facet] != step.Action:
		return errors.ErrUnsupported
	case !step.Machine.Matches(seen):
		return fmt.Errorf("%w: the step is for %s, this machine is %s", driver.ErrRefused, step.Machine, seen)
	case runs && !has(want, n.Want(step.Facet)):
		return fmt.Errorf("%w: something else is being done", driver.ErrBusy)
	case err != nil && !runs:
		return err
	case maps.Equal(have, want):
		return nil
	case lies:
		return s.login.write(ctx, step, seen, true, func() {})
	case !runs:
		if err := s.login.write(ctx, step, seen, true, func() { s.m.begin(step, want, owned) }); err != nil {
			return err
		}
	}
	return s.join(ctx, step.Facet, want)
}

// begin starts a step inside the system.
func (m *FakeMachine) begin(step site.Step, want site.Values, owned []string) {
	defer m.look()()
	if !m.answers() {
		return
	}
	m.set(step.Facet, site.Values{"design": interrupted}, time.Now())
	m.runs[step.Facet] = run{want, time.Now().Add(m.config.StepTime[step.Action]), owned}
}

// has reports whether all contains the given values.
func has(all, some site.Values) bool {
	for field, v := range some {
		if all[field] != v {
			return false
		}
	}
	return true
}

// join waits for the end of a running step.
func (s system) join(ctx context.Context, f site.Facet, want site.Values) error {
	if err := sleep(ctx, time.Until(s.m.endOf(f))); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	}
	if err := s.ask(ctx); err != nil {
		return err
	}
	defer s.m.look()()
	if !maps.Equal(s.m.inside[f], want) {
		return fmt.Errorf("%w: it was interrupted", driver.ErrUnreachable)
	}
	return nil
}

// endOf returns when the running step of a facet inside the system ends.
func (m *FakeMachine) endOf(f site.Facet) time.Time {
	defer m.look()()
	return m.runs[f].ends
}

// interrupted is the value of a facet during a step on it.
const interrupted = "interrupted"

// ask is a request that the system answers.
func (s system) ask(ctx context.Context) error {
	if err := wait(ctx); err != nil {
		return err
	}
	if err := s.login.exchange(ctx, s.m.latency(insideRange)); err != nil {
		return err
	}
	if s.m.flake() {
		return timeout(ctx)
	}
	if err := wait(ctx); err != nil {
		return err
	}
	defer s.m.look()()
	if !s.m.answers() {
		return fmt.Errorf("%w: no system answers", driver.ErrUnreachable)
	}
	key := s.m.hostKey
	if v := s.m.virtual; v != nil {
		key = v.hostKey
	}
	if key != "" && !slices.Contains(s.pinned, key) {
		return fmt.Errorf("%w: it shows a host key that is none of the pinned ones", driver.ErrRefused)
	}
	return nil
}

func (s system) Observe(ctx context.Context, n *site.Node, facets []site.Facet) (site.Observed, error) {
	if err := s.ask(ctx); err != nil {
		return site.Observed{}, err
	}
	targets := s.targets(n)
	defer s.m.look()()
	if !s.m.answers() {
		return site.Observed{}, fmt.Errorf("%w: no system answers", driver.ErrUnreachable)
	}
	seen := site.Observed{Facets: map[site.Facet]site.FacetState{}}
	for _, f := range facets {
		if !slices.Contains(osDriver{}.Facets(), f) {
			continue
		}
		have := s.m.inside[f]
		if f == site.FacetOS {
			have = site.Values{"bootID": fmt.Sprint(s.m.boots), "release": "fake 1", "kernel": "6.1.0"}
		}
		state := site.FacetState{Have: maps.Clone(have), Seen: time.Now(), Driver: "fake"}
		if site.IsInside(f) {
			state.Owned, state.OwnedDigest = slices.Clone(s.m.owned[f]), s.m.ownedDigest()
			state.Absent = item.Missing(item.Keys(n.Items(f)), have)
			if s.m.waits[f] {
				state.Waits = site.WaitsReboot
			}
		}
		if site.Facets[f].Once {
			s.m.onces(n, f, &state)
		}
		if f == site.FacetProbes {
			s.m.probe(&state, n)
		}
		if asked, asks := n.LinkProbes(); f == site.FacetLinks && asks {
			asked.Targets, s.m.links.tried = targets, targets
			seen.Links = s.m.sees(asked)
		}
		seen.Facets[f] = state
	}
	if marker := *cmp.Or(s.m.forged, s.m.disk); marker.Node != "" {
		seen.Marker = &marker
	}
	return seen, nil
}

// probe answers the health probes.
func (m *FakeMachine) probe(state *site.FacetState, n *site.Node) {
	asked, _ := n.Probes()
	state.Have, state.Unread = site.Values{}, site.Values{}
	for i, p := range asked.Probes {
		switch {
		case m.unread != "":
			state.Unread[p.Key] = m.unread
		case i == 0 && m.unwell != "":
			state.Have[p.Key] = m.unwell
		default:
			state.Have[p.Key] = item.Passed
		}
	}
}
