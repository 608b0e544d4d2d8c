package engine

import (
	"context"
	"fmt"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/firstboot"
	"github.com/slipway-gitops/slipway/engine/firstboot/seed"
	"github.com/slipway-gitops/slipway/engine/site"
)

// seed gives a machine what its installation hands to the system's first boot.
// It first records what the system can be identified by. A resumed try gets a
// new seed, since nobody keeps the keys of the one before. The machine shows
// which of the seeds it booted with.
func (w *worker) seed(ctx context.Context, m driver.Machine, j job, s site.Step) error {
	seeder, ok := driver.As[driver.Seeder](m)
	if s.Action != site.ActionInstall || !ok {
		return nil
	}
	made, identity, err := seed.Make(j.site, j.node, s, w.e.Key, w.e.termNumber())
	if err != nil {
		return fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	err = w.save(ctx, func(r *site.Recorded) {
		if r.InFlight == nil {
			return
		}
		begun := *r.InFlight
		begun.FirstBoot = begun.FirstBoot.With(identity.HostKey, identity.Token, firstboot.Given(j.site, j.node))
		r.InFlight = &begun
	})
	if err != nil {
		return err
	}
	if err := w.deliver(ctx, j.node, site.ToSystem, site.SecretHostKey, made.UserData); err != nil {
		return err
	}
	seeder.Seed(made)
	return nil
}
