package engine

import (
	"context"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// forgetMachine forgets a decommissioned virtual machine once Slipway has seen
// that it is gone, whoever removed it, and ends its approvals. Whatever is
// created under its name later is another machine.
func (w *worker) forgetMachine(ctx context.Context, j job, seen site.Observed) error {
	r := j.memory.Recorded
	if !j.node.IsVirtual() || !j.node.Decommission || !plan.Absent(seen) || plan.SeenElsewhere(j.node, r) || r.Adopted == nil && r.Installed == nil && r.Installing == nil && r.InFlight == nil {
		return nil
	}
	if err := w.e.closeAccount(ctx, w.name, "the machine is gone"); err != nil {
		return err
	}
	return w.save(ctx, func(r *site.Recorded) {
		r.Adopted, r.Installed, r.Installing, r.InFlight, r.Reached, r.Attempts, r.Actions = nil, nil, nil, nil, nil, nil, nil
		r.Owned = site.Owned{}
	})
}
