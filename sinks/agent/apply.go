package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// Apply makes the items of one facet match the design, and removes Slipway's items that the design no longer has.
// The helper returns once a new look confirms the result. It changes only what differs, so an interrupted step is
// repeated as a whole.
func (m *machine) Apply(ctx context.Context, step site.Step, n *site.Node, may driver.Permit) error {
	if action := site.Facets[step.Facet].Change.Action; !slices.Contains(byHelper, step.Facet) || action == "" || action != step.Action {
		return fmt.Errorf("over SSH, Slipway does not do this: %w", errors.ErrUnsupported)
	}
	if n.MayHaveDrivers() && !m.knowsHardware() { // the daemon has restarted since the last look
		if _, err := m.Observe(ctx, n, []site.Facet{step.Facet}); err != nil {
			return err
		}
	}
	if err := may.Ask(ctx, step); err != nil {
		return err
	}
	items := append(withEmptied(m.items(n, step.Facet), step), step.Unlisted()...)
	if site.Facets[step.Facet].Once {
		items = ofStep(items, step)
	}
	items = withRequests(onlyAsked(items, step), step, m.tlsCertificates())
	items, missing := giveSecrets(items, m.getter(), m.hashToSet)
	if err := unable(step, items, missing); err != nil {
		return err
	}
	request := wire.Request{Op: wire.OpApply, Node: n.Name, PCI: asksHardware(n), Apply: &wire.Apply{
		Facet: string(step.Facet), Items: items, Remove: step.Remove, Owned: step.Owned, Again: step.Again, Once: step.Once,
	}}
	if step.Facet == site.FacetNetwork {
		request.Apply.Targets = m.targetsOf(n)
	}
	a, err := m.ask(ctx, n, request)
	if step.Facet == site.FacetNetwork && (a.result == nil && errors.Is(err, errCut) || a.result != nil && a.result.Error == nil && a.result.Unconfirmed != "") {
		return m.confirm(ctx, n, a.result)
	}
	if err != nil {
		return err
	}
	m.learn(a.result)
	if step.Facet == site.FacetBase {
		m.client.Again() // it may let certificates in now
	}
	return m.classify(a.result)
}

// ofStep keeps the items that a step changes. It is for facets that are done once.
func ofStep(items []item.Item, step site.Step) []item.Item {
	return slices.DeleteFunc(items, func(i item.Item) bool {
		return !slices.ContainsFunc(step.Changes, func(c site.Change) bool { return c.Field == string(step.Facet)+"."+i.Key })
	})
}

// withEmptied sets the interface fields that the step empties. The design no longer has them.
func withEmptied(items []item.Item, step site.Step) []item.Item {
	for _, c := range step.Changes {
		for _, i := range items {
			if field, is := strings.CutPrefix(c.Field, string(step.Facet)+"."+i.Key+"."); is && c.Want == "" && item.Kind(i.Key) == item.KindLinks {
				i.Fields[field] = ""
			}
		}
	}
	return items
}

// errCut reports that the connection was lost after a request was sent.
var errCut = errors.New("the connection was lost in the middle of the step")

// ask sends a write to the helper after checking that this is the right machine. It brings a missing helper first.
func (m *machine) ask(ctx context.Context, n *site.Node, r wire.Request) (a answer, err error) {
	conn, err := connect(ctx, m.client)
	if err != nil {
		return a, err
	}
	defer conn.Close()
	r = m.named(r, conn.entry)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go conn.watch(watching)
	if err := m.giveCertificates(ctx, n, conn, r.Apply); err != nil {
		return a, err
	}
	certificates := &signing{ctx: ctx, by: m.tlsCertificates(), items: r.Apply.Items, keys: conn.entry.HostKeys, other: m.blobs(r.Apply.Items)}
	for range 2 {
		accepted := false
		_, a, err = conn.run(ctx, exchange{
			script:  markerScript + helperScript(m.helpers.known()),
			request: &r,
			accept: func(report []byte) error {
				accepted = true
				if err := m.isNode(n, report); err != nil {
					return err
				}
				// To connect, and to bring the helper, may have taken minutes.
				return driver.Interrupt(ctx, func() error { return nil })
			},
			tell:   showProgress(ctx),
			supply: certificates.supply,
		})
		if err != nil && accepted && errors.Is(err, driver.ErrUnreachable) {
			return a, fmt.Errorf("%w: %w", err, errCut)
		}
		if err != nil || !a.needsHelper() {
			break
		}
		if err := m.push(ctx, conn, a); err != nil {
			return a, err
		}
	}
	if err == nil && a.result == nil {
		err = m.trouble(a)
	}
	if err == nil && a.result.Error != nil {
		err = certificates.failed
	}
	return a, err
}

// isNode compares the system's marker with the site and the node. A system without a marker was not installed by
// Slipway; its host key identifies it.
func (m *machine) isNode(n *site.Node, report []byte) error {
	marker, unread := parseMarker(divide(string(report))["marker"])
	m.mu.Lock()
	address, own := m.client.Address(), m.site
	m.mu.Unlock()
	if unread != "" {
		return refused("the marker /etc/slipway/marker.json of the system at %s cannot be read (%s), so Slipway does not know whether it is %s: nothing is written to it", address, unread, n.Name)
	}
	if marker != nil && marker.Site != "" && own != "" && marker.Site != own {
		return refused("the system at %s belongs to site %s by its marker /etc/slipway/marker.json, and not to site %s: nothing is written to it", address, marker.Site, own)
	}
	if marker != nil && marker.Node != n.Name {
		return refused("the system at %s is that of node %s by its marker /etc/slipway/marker.json, and not of %s: nothing is written to it", address, marker.Node, n.Name)
	}
	return nil
}

// showProgress reports what the step waits for.
func showProgress(ctx context.Context) func(wire.Progress) {
	began := time.Now()
	return func(p wire.Progress) {
		driver.WaitingSince(ctx, "the system: "+brief(p.Text), began, driver.LongestStep)
	}
}

// classify converts the error of a result into a driver error.
func (m *machine) classify(r *wire.Result) error {
	if r.Error == nil {
		return nil
	}
	text := site.PrintableLines(r.Error.Text)
	m.mu.Lock()
	isOlder := r.Term > m.term
	m.mu.Unlock()
	switch {
	case r.Error.Class == wire.Refused && isOlder:
		return fmt.Errorf("%w: %s", driver.ErrOutranked, text)
	case r.Error.Class == wire.Refused, r.Error.Class == wire.Reverted:
		return fmt.Errorf("%w: %s", driver.ErrRefused, text)
	case r.Error.Class == wire.Busy:
		return fmt.Errorf("%w: %s", driver.ErrBusy, text)
	}
	return errors.New(text)
}
