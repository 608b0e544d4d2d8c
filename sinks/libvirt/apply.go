package libvirt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Apply does one step. It relies on what it reads itself, not on earlier looks.
func (m *machine) Apply(ctx context.Context, step site.Step, n *site.Node, may driver.Permit) error {
	m.called(n)
	m.may = may
	return m.apply(ctx, step, n)
}

// acting does a step of one action.
type acting func(*machine, context.Context, *connection, site.Step, *site.Node) error

var actions = map[site.Action]acting{
	site.ActionPowerOn:    (*machine).powerOn,
	site.ActionPowerOff:   (*machine).powerOff,
	site.ActionRestart:    (*machine).restart,
	site.ActionBootOrder:  (*machine).setBoot,
	site.ActionDefine:     (*machine).define,
	site.ActionDisks:      (*machine).setDisks,
	site.ActionInstall:    (*machine).install,
	site.ActionRemoveSeed: (*machine).removeSeed,
	site.ActionZeroize:    (*machine).zeroize,
}

func (m *machine) apply(ctx context.Context, step site.Step, n *site.Node) error {
	if err := m.meant(step); err != nil {
		return err
	}
	act := actions[step.Action]
	if act == nil {
		return fmt.Errorf("a hypervisor does not take this step: %w", errors.ErrUnsupported)
	}
	if err := m.hypervisor.take(ctx, m.hypervisor.heavy); err != nil {
		return err
	}
	defer func() { <-m.hypervisor.heavy }()
	c, err := m.connection(ctx)
	if err != nil {
		return err
	}
	return act(m, ctx, c, step, n)
}

// until polls until look is done, and reports whether it is within the limit. The first look is immediate.
func (m *machine) until(ctx context.Context, limit time.Duration, look func() (bool, error)) (bool, error) {
	end := time.Now().Add(limit)
	for {
		done, err := look()
		if done || err != nil || time.Now().After(end) {
			return done, err
		}
		if err := sleep(ctx, m.opts.Poll); err != nil {
			return false, err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", driver.ErrUnreachable, ctx.Err())
	case <-t.C:
		return nil
	}
}
