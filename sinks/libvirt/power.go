package libvirt

import (
	"context"
	"errors"
	"fmt"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

func (m *machine) powerOn(ctx context.Context, c *connection, _ site.Step, _ *site.Node) error {
	d, err := m.existing(ctx, c)
	if err != nil {
		return err
	}
	return m.start(ctx, c, d)
}

func (m *machine) powerOff(ctx context.Context, c *connection, step site.Step, _ *site.Node) error {
	d, err := m.existing(ctx, c)
	if err != nil {
		return err
	}
	return m.stop(ctx, c, d, step.Force, m.opts.Grace)
}

// restart powers the machine off and on, because a reboot would keep the old definition. If it was interrupted
// after the machine started with the designed definition, it does not restart again.
func (m *machine) restart(ctx context.Context, c *connection, step site.Step, n *site.Node) error {
	d, err := m.existing(ctx, c)
	if err != nil {
		return err
	}
	if !(step.Resumed && d.active() && upToDate(d, n)) {
		if err := m.stop(ctx, c, d, step.Force, m.opts.Grace); err != nil {
			return err
		}
	}
	return m.start(ctx, c, d)
}

// upToDate reports whether a running machine already has its definition for the next start.
func upToDate(d *domain, n *site.Node) bool {
	return len(differing(described(d.live, n), described(d.next, n))) == 0
}

// start starts a machine, and resumes a paused one. If a start is already in progress, it waits for that.
func (m *machine) start(ctx context.Context, c *connection, d *domain) error {
	return m.startBy(ctx, c, d, func(rpc *golibvirt.Libvirt) error { return rpc.DomainCreate(d.ref) })
}

// startBy also waits for a start that somebody else began. A start that does not end was interrupted together with
// libvirtd, which may keep reporting it. Nothing ran in that machine, so startBy stops it and starts it again.
func (m *machine) startBy(ctx context.Context, c *connection, d *domain, create func(*golibvirt.Libvirt) error) error {
	defer m.hypervisor.wrote(d.ref.UUID)
	is, err := m.startOnce(ctx, c, d, create)
	if err == nil && is == "starting" {
		if err = interrupt(ctx, c, func(rpc *golibvirt.Libvirt) error { return rpc.DomainDestroy(d.ref) }); says(err, golibvirt.ErrOperationInvalid) {
			err = nil // it is already off
		}
		if err == nil {
			is, err = m.startOnce(ctx, c, d, create)
		}
	}
	if err == nil && is != "on" {
		err = fmt.Errorf("%w: after %s the machine is %s and not on", driver.ErrBusy, m.opts.Start, is)
	}
	return err
}

// startOnce starts a machine, or waits for a start in progress. It returns the final state: "on", or "starting" if
// nothing more was seen.
func (m *machine) startOnce(ctx context.Context, c *connection, d *domain, create func(*golibvirt.Libvirt) error) (is string, err error) {
	var under error
	done, err := m.until(ctx, m.opts.Start, func() (bool, error) {
		var err error
		is, err = state(ctx, c, d.ref)
		switch {
		case err != nil || is == "on" || is == "starting":
			return is == "on", err
		case is == "paused":
			is = "on"
			return true, resume(ctx, c, d)
		}
		under = tell(ctx, c.within(m.opts.Start), create)
		if says(under, golibvirt.ErrOperationInvalid) { // somebody else is starting it
			return false, nil
		}
		is = "on"
		return under == nil, under
	})
	if err == nil && !done && under != nil {
		err = fmt.Errorf("after %s the machine is %s and not on: %w", m.opts.Start, is, under)
	}
	return is, err
}

func resume(ctx context.Context, c *connection, d *domain) error {
	err := tell(ctx, c, func(rpc *golibvirt.Libvirt) error { return rpc.DomainResume(d.ref) })
	if err == nil {
		var s string
		if s, err = state(ctx, c, d.ref); err == nil && s != "on" {
			err = refused("the machine is paused and does not continue; check whether a pool of its disks is full")
		}
	}
	return err
}

// stop powers a machine off and returns when it is off. Unless force is set, the operating system gets time to shut
// down.
func (m *machine) stop(ctx context.Context, c *connection, d *domain, force bool, grace time.Duration) error {
	defer m.hypervisor.wrote(d.ref.UUID)
	off := func() (bool, error) {
		s, err := state(ctx, c, d.ref)
		return s == "off", err
	}
	if done, err := off(); done || err != nil {
		return err
	}
	if !force {
		if done, err := m.shutDown(ctx, c, d, grace, off); done || err != nil {
			return err
		}
	}
	err := interrupt(ctx, c, func(rpc *golibvirt.Libvirt) error { return rpc.DomainDestroy(d.ref) })
	if err != nil && !says(err, golibvirt.ErrOperationInvalid) { // this means that it was already off
		return err
	}
	done, err := m.until(ctx, settle, off)
	if err == nil && !done {
		err = refused("the power was cut, and after %s the machine is not off; look at it on the hypervisor", settle)
	}
	return err
}

// interrupt runs a call that interrupts a machine, if that is allowed.
func interrupt(ctx context.Context, c *connection, call func(*golibvirt.Libvirt) error) error {
	return driver.Interrupt(ctx, func() error { return tell(ctx, c, call) })
}

// settle bounds how long a forced stop may take to show.
const settle = time.Minute

// shutDown asks the operating system to shut down, and reports whether it did. A paused machine, or a hypervisor
// without support for this, gets no grace period.
func (m *machine) shutDown(ctx context.Context, c *connection, d *domain, grace time.Duration, off func() (bool, error)) (bool, error) {
	err := interrupt(ctx, c, func(rpc *golibvirt.Libvirt) error {
		return rpc.DomainShutdownFlags(d.ref, golibvirt.DomainShutdownAcpiPowerBtn)
	})
	if errors.Is(err, errors.ErrUnsupported) || says(err, golibvirt.ErrInvalidArg) {
		err = interrupt(ctx, c, func(rpc *golibvirt.Libvirt) error { return rpc.DomainShutdown(d.ref) })
	}
	switch {
	case says(err, golibvirt.ErrOperationInvalid): // off, or paused
		return off()
	case err != nil:
		return false, fmt.Errorf("ask the operating system to shut down: %w", err)
	}
	defer driver.Waiting(ctx, "its system to shut down", grace)()
	return m.until(ctx, grace, off)
}
