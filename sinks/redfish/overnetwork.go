package redfish

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// errNoNetworkBoot says that a machine cannot be told to start over the network.
var errNoNetworkBoot = fmt.Errorf("the machine cannot be told to boot from the network once: %w", errors.ErrUnsupported)

// networkTarget is what a machine that starts over the network boots from: by PXE, or by HTTP
// boot where the design's boot order names that and not PXE, or where the BMC knows nothing else.
func (s system) networkTarget(n *site.Node) (schemas.BootSource, error) {
	targets := []schemas.BootSource{schemas.PxeBootSource, schemas.UefiHTTPBootSource}
	if pxe, http := slices.Index(n.Boot.Order, "Pxe"), slices.Index(n.Boot.Order, "UefiHttp"); http >= 0 && (pxe < 0 || http < pxe) {
		slices.Reverse(targets)
	}
	if target, ok := s.override(targets...); ok {
		return target, nil
	}
	return "", errNoNetworkBoot
}

// startOverNetwork boots the machine once over the network, where others have what it starts
// ready. The order is off, override, on. Nothing that can be seen tells a machine that runs what
// it was given from one that runs its system, so a start that is gone on with begins anew, but for
// a machine that is off and has the override.
func (m *machine) startOverNetwork(ctx context.Context, step site.Step, n *site.Node, s system, may driver.Permit) error {
	target, err := s.networkTarget(n)
	if err != nil {
		return err
	}
	err = m.bootOverNetwork(ctx, step, n, target, s, may)
	if errors.Is(err, driver.ErrRefused) || errors.Is(err, driver.ErrNotPermitted) || errors.Is(err, errors.ErrUnsupported) {
		return m.withdrawOverride(ctx, target, err)
	}
	return err
}

func (m *machine) bootOverNetwork(ctx context.Context, step site.Step, n *site.Node, target schemas.BootSource, s system, may driver.Permit) error {
	if err := may.Ask(ctx, step); err != nil {
		return err
	}
	if err := m.switchOff(ctx, step, s); err != nil {
		return err
	}
	if err := m.ejectAll(ctx, s); err != nil { // a medium of somebody may come before the network
		return err
	}
	if err := m.unload(ctx, way{target: target}, s); err != nil { // the URL of an earlier start
		return err
	}
	if err := may.Ask(ctx, step); err != nil {
		return err
	}
	s, err := m.bootNext(ctx, n, target)
	if err != nil {
		return err
	}
	return m.powerOn(ctx, s, func(s system) bool { return s.on() || s.off() && !s.bootsNext(target) })
}

// withdrawOverride takes the override back from a machine that is off and whose start was refused.
func (m *machine) withdrawOverride(ctx context.Context, target schemas.BootSource, refusal error) error {
	if m.client.bound.ended != nil {
		return fmt.Errorf("%w; Slipway left the boot override of an earlier try set, so the machine may boot from the network when somebody switches it on", refusal)
	}
	s, err := m.reread(ctx)
	if err == nil && s.off() && s.bootsNext(target) {
		if err = m.override(ctx, s, boot{Enabled: schemas.DisabledBootSourceOverrideEnabled}); err == nil {
			_, err = m.until(ctx, m.opts.Settle, "the boot override to be disabled", func(s system) bool { return !s.bootsNext(target) })
		}
	}
	if err != nil {
		return fmt.Errorf("%w; Slipway could not take back the boot override, so the machine may boot from the network when somebody switches it on: %v", refusal, err)
	}
	return refusal
}
