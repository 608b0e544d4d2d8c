package engine

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/discovery"
	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// The daemon sweeps slowly, so that sweeps delay nothing else: a thousand
// silent addresses take three minutes.
const (
	sweptAtOnce = 16
	// discoverCheck is how often the loop checks whether a sweep is due.
	discoverCheck = time.Minute
	// discoverEvery is how often ranges are swept if the design does not say.
	discoverEvery = 24 * time.Hour
	// mostMet bounds how many discovered machines the status lists.
	mostMet = 500
)

// discover sweeps the ranges that the design names, for as long as it does.
func (e *Engine) discover(ctx context.Context) {
	dice := e.dice("discover")
	var last *site.Discovery
	var denied *sync.Map // reset when the design's discovery changes
	var next time.Time
	for retry.Sleep(ctx, retry.Jitter(dice, discoverCheck)) {
		s := e.designInForce()
		switch {
		case s == nil || s.Discovery == nil:
			last = nil
			e.setSwept(nil)
			e.setProblem("discovery", nil)
		case !reflect.DeepEqual(last, s.Discovery), time.Now().After(next):
			if !reflect.DeepEqual(last, s.Discovery) {
				last, denied = s.Discovery, &sync.Map{}
				e.mu.Lock()
				clear(e.met)
				e.mu.Unlock()
			}
			e.setProblem("discovery", e.sweep(ctx, s, denied))
			next = time.Now().Add(retry.Jitter(dice, cmp.Or(time.Duration(last.Every), discoverEvery)))
		}
	}
}

// designInForce returns the design in force, or nil.
func (e *Engine) designInForce() *site.Site {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.design
}

// sweep looks for machines, and reports in the status those that are not where
// the design has them. It skips the controllers of nodes: their workers look at
// those.
func (e *Engine) sweep(ctx context.Context, s *site.Site, denied *sync.Map) error {
	d := s.Discovery
	survey := discovery.Survey{
		Drivers: e.Drivers, Port: d.Port, AtOnce: sweptAtOnce, Credential: d.Credential, Secrets: e.Secrets, Denied: denied,
		Guard: func(address string, v secret.Value) driver.Guard {
			return guard{login: login{e: e, who: address, url: address, credential: d.Credential, value: v}}
		},
		Trust: func(driver.Found) (site.Trust, error) { return d.Trust, strangers(d.Trust) },
	}
	for _, text := range d.Ranges {
		r, err := netip.ParsePrefix(text)
		if err != nil {
			return err // a design with a bad range has a finding
		}
		survey.Ranges = append(survey.Ranges, r)
	}
	theirs := controllers(s)
	known := 0
	survey.Skip = func(f driver.Found) bool {
		if theirs[f.Address] {
			known++
		}
		return theirs[f.Address]
	}
	met, answered, err := survey.Run(ctx)
	if err != nil {
		return err
	}
	discovery.Recognize(s, e.Known().Nodes, met)
	swept := &site.Swept{When: time.Now(), Addresses: survey.Addresses(), Answered: answered, Known: known}
	for _, m := range met {
		if m.Standing.Kind == site.StandingKnown && m.Standing.Text == "" {
			swept.Known++
		} else if len(swept.Met) < mostMet {
			swept.Met = append(swept.Met, inBrief(m))
		}
	}
	e.Log.Info("networks swept", "addresses", swept.Addresses, "answered", answered, "unexpected", len(swept.Met))
	e.setSwept(swept)
	return nil
}

// strangers returns why the sweep logs in nowhere: trusting on first use would
// send the credential to whoever answers.
func strangers(t site.Trust) error {
	if t.OnFirstUse() {
		return errors.New("site.discovery.trust trusts on first use, which a sweep never does: name the authority of the controllers there")
	}
	return nil
}

// inBrief returns a discovered machine without its parts, which the proposed
// lines contain.
func inBrief(m site.Met) site.Met {
	if i := m.Observed.Inventory; i != nil {
		m.Observed.Inventory = &site.Inventory{Manufacturer: i.Manufacturer, Model: i.Model}
	}
	m.Observed.Facets = nil
	return m
}

// controllers returns the addresses at which a design has a controller.
func controllers(s *site.Site) map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	for _, n := range s.Nodes {
		u, err := url.Parse(n.Endpoints[site.Manager].URL)
		if err != nil {
			continue
		}
		if a, err := netip.ParseAddr(u.Hostname()); err == nil {
			all[a] = true
		}
	}
	return all
}

func (e *Engine) setSwept(s *site.Swept) {
	e.mu.Lock()
	defer e.mu.Unlock()
	same := e.swept == nil && s == nil || e.swept != nil && s != nil && e.swept.Answered == s.Answered &&
		slices.EqualFunc(e.swept.Met, s.Met, func(a, b site.Met) bool { return reflect.DeepEqual(a.Standing, b.Standing) && a.Why == b.Why })
	e.swept = s
	if !same {
		e.touch()
	}
}
