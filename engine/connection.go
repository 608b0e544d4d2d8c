package engine

import (
	"context"
	"fmt"
	"reflect"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// connection is an open handle on a machine through one endpoint.
type connection struct {
	endpoint site.Endpoint
	value    secret.Value
	machine  driver.Machine
	denied   error  // why this credential is not tried again here
	session  string // recorded for the machine
	looked   bool   // the machine was seen through it
}

// binding returns how writes through an endpoint are bound to the machine that
// was looked at, as far as the driver tells.
func (c *connection) binding() site.Binding {
	if c == nil {
		return site.BindingUnknown
	}
	b, ok := driver.As[driver.Binder](c.machine)
	if !ok {
		return site.BindingUnknown
	}
	return b.Binding()
}

// sessionless reports whether a machine opened no session when it was looked at
// with a credential.
func (c *connection) sessionless() bool {
	if c == nil || !c.looked || c.value.IsZero() {
		return false
	}
	s, ok := driver.As[driver.Sessioner](c.machine)
	return ok && s.Session() == ""
}

// open returns the handle for an endpoint. It opens a new one if the endpoint
// or its credential has changed.
func (w *worker) open(ctx context.Context, n *site.Node, kind site.EndpointKind) (driver.Machine, error) {
	if kind == site.Agent {
		return w.openAgent(n)
	}
	ep := w.e.trusted(n, kind, w.job().memory.Recorded)
	drv, value, err := driver.KeyTo(w.e.Drivers, w.e.Secrets, ep)
	if err != nil {
		return nil, err
	}
	if d := w.connections[kind]; d != nil && d.value == value && reflect.DeepEqual(d.endpoint, ep) {
		if d.denied != nil {
			return nil, d.denied
		}
		return d.machine, nil
	}
	w.closeConnection(kind)
	m, err := drv.Open(ctx, ep, value)
	if err != nil {
		return nil, err
	}
	driver.Lend(m, ep, w.e.Secrets)
	if s, ok := driver.As[driver.Supplied](m); ok && w.e.Artifacts != nil {
		s.Supply(w.e.Artifacts.Content)
	}
	if l, ok := driver.As[driver.Linked](m); ok {
		l.Targets(w.e.targets)
	}
	w.connections[kind] = &connection{endpoint: ep, value: value, machine: m}
	return m, nil
}

// remember stores that a credential was denied, so that it is not tried again.
// Trying again would lock the account on many BMCs.
func (w *worker) remember(kind site.EndpointKind, err error) error {
	d := w.connections[kind]
	if d == nil || !driver.WasDenied(err) {
		return err
	}
	d.denied = driver.Say(fmt.Sprintf("%s (credential %q); Slipway does not send it again until its file or the endpoint in the design changes, or by `slipway retry`",
		verdict(err), d.endpoint.Credential), err)
	return d.denied
}

func (w *worker) closeConnections() {
	for kind := range w.connections {
		w.closeConnection(kind)
	}
}

func (w *worker) closeConnection(kind site.EndpointKind) {
	if d := w.connections[kind]; d != nil {
		if err := d.machine.Close(); err != nil {
			w.e.Log.Debug("endpoint closed with an error", "node", w.name, "err", err)
		}
		delete(w.connections, kind)
	}
}
