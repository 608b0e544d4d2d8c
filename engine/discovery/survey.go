// Package discovery finds machines. It asks ranges of addresses, logs in to the
// controllers that answer where it may, and recognizes which node of a design each
// machine is. It writes to none.
package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Survey looks for machines in ranges of addresses, and then looks at those whose
// controllers it may log in to. It writes to none.
type Survey struct {
	Drivers map[string]driver.Driver
	Ranges  []netip.Prefix
	// Port is the port of the controllers, 0 for the protocol's default. AtOnce
	// limits how many addresses are asked at a time; 0 picks a harmless number.
	Port, AtOnce int
	// Credential names the credential to log in with; if empty, the survey logs in
	// nowhere.
	Credential string
	Secrets    secret.Source
	// Trust returns how a controller has to prove itself before it is sent the
	// credential.
	Trust func(driver.Found) (site.Trust, error)
	// Denied remembers, by address, credentials that were not accepted, so that a
	// later survey does not send them again. It also keeps how the trial of a
	// credential went. It may be nil for a single survey.
	Denied *sync.Map
	// Guard decides about logins to an address beyond the survey's own checks; may
	// be nil.
	Guard func(address string, v secret.Value) driver.Guard
	// Skip reports whether to leave out a controller that others look at; may be
	// nil.
	Skip func(driver.Found) bool
	// Progress receives how far the survey is, one call at a time; may be nil.
	Progress func(what string, done, all int)
}

// Addresses returns how many addresses the survey asks.
func (s Survey) Addresses() int {
	all, err := driver.Sweep{Ranges: s.Ranges}.Addresses()
	if err != nil {
		return 0 // none; Run returns the error
	}
	return len(all)
}

// The phases of a survey, as passed to Progress.
const (
	Sweeping = "asking addresses"
	Looking  = "looking at machines"
)

// surveyedAtOnce is how many controllers the survey logs in to at a time.
const surveyedAtOnce = 64

// Run sweeps the ranges and returns the discovered machines, sorted by address,
// and how many addresses answered.
func (s Survey) Run(ctx context.Context) (met []site.Met, answered int, err error) {
	if s.Progress == nil {
		s.Progress = func(string, int, int) {}
	}
	found, err := s.sweep(ctx)
	if err != nil {
		return nil, 0, err
	}
	answered = len(found)
	if s.Skip != nil {
		found = slices.DeleteFunc(found, s.Skip)
	}
	if s.Denied == nil {
		s.Denied = &sync.Map{}
	}
	return s.lookAtAll(ctx, found), answered, ctx.Err()
}

// sweep asks every address by every protocol that supports discovery.
func (s Survey) sweep(ctx context.Context) ([]driver.Found, error) {
	var all []driver.Found
	for _, scheme := range slices.Sorted(maps.Keys(s.Drivers)) {
		d, ok := driver.As[driver.Discoverer](s.Drivers[scheme])
		if !ok {
			continue
		}
		err := d.Discover(ctx, driver.Sweep{
			Ranges: s.Ranges, Port: s.Port, AtOnce: s.AtOnce,
			Found: func(f driver.Found) { all = append(all, f) },
			Asked: func(done, all int) { s.Progress(Sweeping, done, all) },
		})
		if err != nil {
			return nil, fmt.Errorf("sweep: %w", err)
		}
	}
	slices.SortFunc(all, func(a, b driver.Found) int {
		return cmp.Or(a.Address.Compare(b.Address), strings.Compare(a.URL, b.URL))
	})
	return all, nil
}

func (s Survey) lookAtAll(ctx context.Context, found []driver.Found) []site.Met {
	met := make([][]site.Met, len(found))
	var mu sync.Mutex
	done := 0
	var g errgroup.Group
	g.SetLimit(surveyedAtOnce)
	for i, f := range found {
		g.Go(func() error {
			met[i] = s.look(ctx, f)
			mu.Lock()
			defer mu.Unlock()
			done++
			s.Progress(Looking, done, len(found))
			return nil
		})
	}
	g.Wait()
	return slices.Concat(met...)
}

// look returns the machines behind a controller, or the controller alone with the
// reason why it was not read.
func (s Survey) look(ctx context.Context, f driver.Found) []site.Met {
	m := site.Met{
		Address: f.Address.String(), Vendor: f.Vendor, Product: f.Product, Controller: f.UUID, Fingerprint: f.Fingerprint,
		Endpoint: site.Endpoint{URL: f.URL, Credential: s.Credential},
	}
	met, err := s.lookInto(ctx, m, f)
	if err != nil {
		m.Why = retry.Steady(err)
		return []site.Met{m}
	}
	return met
}

var errNoCredential = errors.New("no credential was named to log in with")

func (s Survey) lookInto(ctx context.Context, m site.Met, f driver.Found) ([]site.Met, error) {
	if s.Credential == "" {
		return nil, errNoCredential
	}
	trust, err := s.Trust(f)
	if err != nil {
		return nil, err
	}
	m.Endpoint.Trust = trust
	value, err := s.credential(f)
	if err != nil {
		return nil, err
	}
	if s.denied(f, value) {
		return nil, fmt.Errorf("%w: credential %q was not accepted before, and Slipway does not send it again until its file changes", driver.ErrDenied, s.Credential)
	}
	h, urls, err := s.logIn(ctx, m.Endpoint, f, value)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	met, err := s.seeEach(ctx, m, h, urls, value)
	return met, s.remember(f, value, err)
}

// credential returns the value to log in to a controller with, for the address
// that answered.
func (s Survey) credential(f driver.Found) (secret.Value, error) {
	r, err := secret.ForEndpoint(s.Credential, f.URL)
	if err != nil {
		return secret.Value{}, err
	}
	r.Host = f.Address.String()
	return s.Secrets.Get(r)
}

func (s Survey) denied(f driver.Found, value secret.Value) bool {
	before, ok := s.Denied.Load(f.Address)
	return ok && before == value
}

// remember stores that a credential was not accepted.
func (s Survey) remember(f driver.Found, value secret.Value, err error) error {
	if driver.WasDenied(err) {
		s.Denied.Store(f.Address, value)
	}
	return err
}

// trial returns the trial of the credential's present value.
func (s Survey) trial(value secret.Value) *trial {
	t, _ := s.Denied.LoadOrStore(value, newTrial(s.Credential))
	return t.(*trial)
}

// logIn opens a controller, and returns the endpoints of the machines behind it.
func (s Survey) logIn(ctx context.Context, e site.Endpoint, f driver.Found, value secret.Value) (h driver.Machine, urls []string, err error) {
	if s.Guard != nil {
		ctx = driver.Guarded(ctx, s.Guard(f.Address.String(), value))
	}
	err = s.trial(value).send(ctx, f.Address.String(), func() error {
		ctx, cancel := context.WithTimeout(ctx, driver.LongestLook)
		defer cancel()
		h, urls, err = openAndList(ctx, s.Drivers[driver.Protocol(f.URL)], e, value)
		return s.remember(f, value, err)
	})
	return h, urls, err
}

func openAndList(ctx context.Context, drv driver.Driver, e site.Endpoint, value secret.Value) (driver.Machine, []string, error) {
	h, err := drv.Open(ctx, e, value)
	if err != nil {
		return nil, nil, err
	}
	urls, err := behind(ctx, h, e.URL)
	if err != nil {
		h.Close()
	}
	return h, urls, err
}

// longestSurvey limits the look at the machines behind one controller.
const longestSurvey = 5 * driver.LongestLook

// seeEach looks at the machines behind a controller.
func (s Survey) seeEach(ctx context.Context, m site.Met, h driver.Machine, urls []string, value secret.Value) ([]site.Met, error) {
	ctx, cancel := context.WithTimeout(ctx, longestSurvey)
	defer cancel()
	drv := s.Drivers[driver.Protocol(m.Endpoint.URL)]
	var met []site.Met
	for _, u := range urls {
		one := m
		one.Endpoint.URL = u
		var err error
		if len(urls) == 1 {
			one.Observed, err = seeAll(ctx, drv, h, one.Endpoint)
		} else {
			one.Observed, err = openAndTell(ctx, drv, one.Endpoint, value)
		}
		if errors.Is(err, driver.ErrDenied) {
			return nil, err // not retried for the next machine
		}
		if err != nil {
			one.Why = retry.Steady(err)
		}
		met = append(met, one)
	}
	return met, nil
}

// behind returns the endpoints of the machines behind a handle.
func behind(ctx context.Context, h driver.Machine, url string) ([]string, error) {
	l, ok := driver.As[driver.Lister](h)
	if !ok {
		return []string{url}, nil
	}
	urls, err := l.List(ctx)
	if err == nil && len(urls) == 0 {
		return nil, errors.New("it serves no machine")
	}
	return urls, err
}

// openAndTell looks at one of several machines behind a controller, and reads
// everything that distinguishes it from the others.
func openAndTell(ctx context.Context, drv driver.Driver, e site.Endpoint, value secret.Value) (site.Observed, error) {
	h, err := drv.Open(ctx, e, value)
	if err != nil {
		return site.Observed{}, err
	}
	defer h.Close()
	seen, err := seeAll(ctx, drv, h, e)
	if i, ok := driver.As[driver.Identifier](h); ok && err == nil {
		seen.Identity, err = i.Identify(ctx, site.Identity{})
	}
	return seen, err
}

// seeAll returns what a machine shows without a design, with its full inventory if
// that can be read.
func seeAll(ctx context.Context, drv driver.Driver, h driver.Machine, e site.Endpoint) (site.Observed, error) {
	n := &site.Node{Endpoints: map[site.EndpointKind]site.Endpoint{site.Manager: e}}
	seen, err := h.Observe(ctx, n, driver.Looked)
	if err != nil {
		return seen, err
	}
	i, ok := driver.As[driver.Inspector](h)
	if !ok {
		return seen, nil
	}
	inventory, err := i.Inspect(ctx, n)
	if err == nil {
		seen.Inventory = inventory
	}
	return seen, nil // its parts are not needed to identify it
}
