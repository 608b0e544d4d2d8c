package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Drivers wraps drivers to measure them. driver.As still finds the optional interfaces of the drivers and of their
// machines.
func (m *Metrics) Drivers(drivers map[string]driver.Driver) map[string]driver.Driver {
	measured := make(map[string]driver.Driver, len(drivers))
	for name, d := range drivers {
		measured[name] = meteredDriver{d, &calls{m.drivers.MustCurryWith(prometheus.Labels{"driver": name})}}
	}
	return measured
}

// calls measures the requests to the machines of one driver.
type calls struct{ took prometheus.ObserverVec }

// done counts a request by its result. It ignores a request that was canceled because the daemon ends: such a
// request says nothing about the machine.
func (c *calls) done(ctx context.Context, operation string, begun time.Time, err error) {
	if err == nil || !errors.Is(ctx.Err(), context.Canceled) {
		c.took.WithLabelValues(operation, driver.Class(err)).Observe(time.Since(begun).Seconds())
	}
}

type meteredDriver struct {
	driver.Driver
	calls *calls
}

// Unwrap returns the driver itself, for driver.As.
func (d meteredDriver) Unwrap() any { return d.Driver }

func (d meteredDriver) Open(ctx context.Context, e site.Endpoint, s secret.Value) (driver.Machine, error) {
	begun := time.Now()
	m, err := d.Driver.Open(ctx, e, s)
	d.calls.done(ctx, "open", begun, err)
	if err != nil {
		return nil, err
	}
	return meteredMachine{m, d.calls}, nil
}

type meteredMachine struct {
	driver.Machine
	calls *calls
}

// Unwrap returns the machine itself, for driver.As.
func (m meteredMachine) Unwrap() any { return m.Machine }

func (m meteredMachine) Observe(ctx context.Context, n *site.Node, facets []site.Facet) (site.Observed, error) {
	begun := time.Now()
	seen, err := m.Machine.Observe(ctx, n, facets)
	m.calls.done(ctx, "observe", begun, err)
	return seen, err
}

func (m meteredMachine) Apply(ctx context.Context, step site.Step, n *site.Node, may driver.Permit) error {
	begun := time.Now()
	err := m.Machine.Apply(ctx, step, n, may)
	m.calls.done(ctx, "apply", begun, err)
	return err
}
