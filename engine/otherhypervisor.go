package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Limits for asking hypervisors whether they have a machine.
const (
	askAtOnce  = 8
	askTimeout = 20 * time.Second
)

// elsewhere refuses to create a virtual machine that another hypervisor of the
// site already has. The records say where each machine is; a daemon without its
// records would otherwise create all of them a second time. A hypervisor that
// does not answer blocks new machines only in that case.
func (w *worker) elsewhere(ctx context.Context, j job, s site.Step) error {
	if s.Action != site.ActionDefine || j.memory.Recorded.Adopted != nil || !plan.Absent(j.memory.Observed) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(askAtOnce)
	for _, name := range slices.Sorted(maps.Keys(j.site.Hypervisors)) {
		if name != j.node.Virtual.Host.Hypervisor {
			g.Go(func() error { return w.isOn(ctx, j, name) })
		}
	}
	return g.Wait()
}

// isOn returns an error if a hypervisor has the node's machine, or may have it.
func (w *worker) isOn(ctx context.Context, j job, hypervisor string) error {
	seen, err := w.seenOn(ctx, j, hypervisor)
	switch {
	case err == nil && seen.Facets[site.FacetDefinition].Have[site.FieldState] == site.StateDefined:
		return fmt.Errorf("%w: the machine is on %s already, and Slipway does not make it a second time on %s; name %s in virtual.hypervisor to keep it there, or decommission it there first",
			driver.ErrRefused, hypervisor, j.node.Virtual.Host.Hypervisor, hypervisor)
	case err != nil && w.e.isBlank():
		return fmt.Errorf("%w: the daemon began without records, and %s may have the machine already: %v", driver.ErrUnreachable, hypervisor, err)
	}
	return nil
}

// seenOn looks for the node's machine on a hypervisor.
func (w *worker) seenOn(ctx context.Context, j job, hypervisor string) (site.Observed, error) {
	ep := j.site.Hypervisors[hypervisor].Endpoint(j.site.Name, j.node.Name)
	source := loginSource{ctx: ctx, w: w, n: j.node, holders: w.holdersOfHypervisor(hypervisor), to: site.ToHypervisor}
	m, err := driver.Open(ctx, w.e.Drivers, source, ep)
	if err != nil {
		return site.Observed{}, err
	}
	defer m.Close()
	return m.Observe(ctx, j.node, []site.Facet{site.FacetDefinition})
}
