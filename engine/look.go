package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// virtualFacets are the facets that every look reads from a hypervisor.
var virtualFacets = []site.Facet{site.FacetPower, site.FacetBoot, site.FacetDefinition, site.FacetDisks, site.FacetSeed}

// usual returns the facets that every look at a node's machine reads.
func usual(n *site.Node) []site.Facet {
	if n.IsVirtual() {
		return virtualFacets
	}
	return driver.Looked
}

// enter waits for a place among those who look at machines, or who change them. A machine under quarantine waits for none:
// an installation may keep its place for hours, and a BMC that does not answer for minutes.
func enter(ctx context.Context, places *semaphore.Weighted, j job) (leave func(), err error) {
	if j.memory.Recorded.Quarantined != nil {
		return func() {}, nil
	}
	if err := places.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	return func() { places.Release(1) }, nil
}

// look observes the machine through its endpoints. Its error says why the BMC could not be
// read.
func (w *worker) look(ctx context.Context, j job) (view, error) {
	leave, err := enter(ctx, w.e.looks, j)
	if err != nil {
		return view{}, err
	}
	defer leave()
	w.e.began(LoopTurn, w.due)
	var v view
	if _, ok := j.node.Endpoints[site.Manager]; ok {
		due := w.facetsDue(j)
		seen, err := w.observe(ctx, j, site.Manager, due)
		w.heard(ctx, j.node, site.Manager, err)
		if err != nil {
			return v, fmt.Errorf("observe %s: %w", w.name, err)
		}
		w.anew = false
		w.calendar.begun(due, time.Now())
		w.tell(j, &seen)
		v.seen = seen
	}
	v.seen.Agent = w.lookAtAgent(ctx, j)
	if w.looksInside(j, v.seen) {
		facets := append(w.insideFacets(j), site.FacetOS)
		if w.looksAtHealth(j) {
			facets = append(facets, site.FacetProbes)
		}
		if _, asks := j.node.LinkProbes(); asks && w.e.serves[site.FacetLinks] {
			facets = append(facets, site.FacetLinks)
		}
		seen, err := w.observe(ctx, j, site.OS, facets)
		if needsPerson(err) {
			v.stranger = verdict(err)
		}
		if err != nil && j.memory.Recorded.UnderWay() > 0 {
			w.e.Log.Debug("the system does not answer while it is installed", "node", w.name, "err", err)
			v.dark = true
			return v, nil // an installer need not answer
		}
		w.heard(ctx, j.node, site.OS, err)
		if err != nil {
			v.inside = fmt.Errorf("look inside %s: %w", w.name, err)
		} else {
			w.inside = time.Now()
			v.seen = v.seen.Merge(seen)
		}
	}
	return v, nil
}

// looksInside reports whether this reconcile asks the installed system: when something waits
// for its answer, and every few minutes otherwise.
func (w *worker) looksInside(j job, seen site.Observed) bool {
	if _, ok := j.node.Endpoints[site.OS]; !ok {
		return false
	}
	if p, ok := seen.Facets[site.FacetPower]; ok && p.Have["state"] != "on" {
		return false
	}
	if r := j.memory.Recorded; r.Agent.IsStarted() && (r.Installing == nil || r.Installing.Ended.IsZero()) && (seen.Agent.IsConnected() || !r.MayRunAlone()) {
		return false // the machine runs the agent
	}
	return unproven(j.memory.Recorded) || j.memory.Recorded.Ports != nil || j.memory.Recorded.UnderWay() > 0 || time.Since(w.inside) > systemEvery || w.differsInside(j) || w.looksAtHealth(j)
}

// designedFacets returns the facets besides the usual ones that a driver of the endpoint serves
// and the design mentions.
func (w *worker) designedFacets(n *site.Node, kind site.EndpointKind) []site.Facet {
	var facets []site.Facet
	for _, f := range append([]site.Facet{site.FacetFirmware, site.FacetBIOS, site.FacetAccounts}, site.InsideFacets...) {
		if site.Facets[f].Endpoint == kind && w.e.serves[f] && n.Asks(f) {
			facets = append(facets, f)
		}
	}
	return facets
}

// insideFacets returns the facets to ask the installed system for: those that the design
// mentions. If Slipway has made something there, it returns all served facets, since that may
// have left the design.
func (w *worker) insideFacets(j job) []site.Facet {
	facets := w.designedFacets(j.node, site.OS)
	if owned := j.memory.Recorded.Owned; owned.Digest != "" || owned.Changing {
		facets = slices.DeleteFunc(slices.Clone(site.InsideFacets), func(f site.Facet) bool { return !w.e.serves[f] })
	}
	if !plan.InstalledHere(j.memory.Recorded) {
		facets = slices.DeleteFunc(facets, func(f site.Facet) bool { return site.Facets[f].Once })
	}
	return facets
}

// differsInside reports whether something inside was not seen as designed.
func (w *worker) differsInside(j job) bool {
	for _, f := range w.insideFacets(j) {
		seen := j.memory.Observed.Facets[f]
		if j.node.Asks(f) && !plan.AsDesigned(j.node, f, seen) || len(seen.Left(j.node, f))+len(seen.Returning(j.node, f)) > 0 {
			return true
		}
	}
	return false
}

func unproven(r site.Recorded) bool { return r.Installed != nil && !r.Installed.Proven }

func (w *worker) observe(ctx context.Context, j job, kind site.EndpointKind, facets []site.Facet) (site.Observed, error) {
	m, err := w.open(ctx, j.node, kind)
	if err != nil {
		err = endpointError{endpointName(j.node, kind), err}
		w.noteLook(ctx, j, kind, site.Observed{}, err, false)
		return site.Observed{}, err
	}
	w.bequeath(w.connections[kind], kind)
	ctx = driver.WithPasswords(w.guarded(ctx, kind), w.passwords(j.node))
	octx, stop := context.WithTimeout(ctx, driver.LongestLook)
	defer stop()
	seen, err := m.Observe(octx, j.node, facets)
	if err != nil {
		err = endpointError{endpointName(j.node, kind), err}
	} else {
		w.connections[kind].read()
		if err := w.fence(ctx, kind); err != nil { // retried before a write
			w.e.Log.Debug("session not recorded", "node", w.name, "err", err)
		}
		if err := errors.Join(w.loginAccepted(ctx, j.node, kind), w.foundInside(ctx, j, &seen)); err != nil { // the next look tries again
			w.e.Log.Debug("what was found of secrets is not recorded", "node", w.name, "err", err)
		}
		if err := w.trust(ctx, kind); err != nil {
			w.noteLook(ctx, j, kind, site.Observed{}, err, true)
			return site.Observed{}, err
		}
	}
	w.noteLook(ctx, j, kind, seen, err, true)
	return seen, w.remember(kind, err)
}

// tell adds events for new entries in the machine's own log. Entries from before the first
// reading are not news.
func (w *worker) tell(j job, seen *site.Observed) {
	last := j.memory.Observed.Facets[site.FacetLog].Have["last"]
	fresh := seen.Entries
	seen.Entries = nil
	if _, read := seen.Facets[site.FacetLog]; read {
		w.e.machineLogs.keep(w.name, fresh, time.Now())
	}
	if last == "" {
		return
	}
	for i, e := range fresh {
		if e.ID == last {
			fresh = fresh[i+1:]
			break
		}
	}
	for _, e := range fresh {
		if e.Severity == "" || e.Severity == "OK" {
			continue
		}
		text := strings.ToLower(e.Severity) + ": " + e.Text
		if !e.When.IsZero() {
			text += " (" + e.When.UTC().Format(time.DateTime) + "Z)"
		}
		w.warn(site.EventMachine, "", text)
	}
}

// view is the result of a look at a machine.
type view struct {
	seen site.Observed
	// inside is why the installed system could not be read; by itself it stops nothing.
	inside error
	// dark is set if the installed system did not answer and need not.
	dark bool
	// stranger is why Slipway cannot tell which system answers; empty if none does, or if it
	// can tell.
	stranger string
}
