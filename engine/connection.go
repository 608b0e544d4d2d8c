package engine

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// certifyAgain is how long after a system let nobody in by certificate or credential both are
// tried again. Some systems bar an address from which a login fails more often.
const certifyAgain = 5 * time.Minute

// connection is an open handle on a machine through one endpoint.
type connection struct {
	endpoint site.Endpoint
	value    secret.Value
	as       secret.Of // which derived password the value is; zero for another value
	machine  driver.Machine
	denied   error     // why this credential is not tried again here
	session  string    // recorded for the machine
	looked   bool      // the machine was seen through it
	since    time.Time // when it first was
	// until is when it is tried again by itself; zero for never.
	until time.Time
	// certified says that logins show a certificate of the site's authority.
	certified bool
}

// read notes that the machine was seen through it.
func (c *connection) read() {
	if c.looked = true; c.since.IsZero() {
		c.since = time.Now()
	}
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
	if err := w.forgetIdentity(ctx); err != nil {
		return nil, err
	}
	drv, value, as, err := w.keyTo(ctx, n, kind, w.e.trusted(n, kind, w.job().memory.Recorded))
	if err != nil {
		return nil, noKey{err}
	}
	ep := w.e.trusted(n, kind, w.job().memory.Recorded) // with what the key has brought back
	if d := w.connections[kind]; d != nil && d.value == value && reflect.DeepEqual(d.endpoint, ep) {
		if d.denied != nil && (d.until.IsZero() || time.Now().Before(d.until)) {
			return nil, d.denied
		}
		d.denied = nil
		w.certify(n, kind, d)
		return d.machine, nil
	}
	w.closeConnection(kind)
	m, err := drv.Open(ctx, ep, value)
	if err != nil {
		return nil, err
	}
	w.lend(m, ep)
	if s, ok := driver.As[driver.Supplied](m); ok && w.e.Artifacts != nil {
		s.Supply(w.e.Artifacts.Content)
	}
	if l, ok := driver.As[driver.Linked](m); ok {
		l.Targets(w.e.targets)
	}
	d := &connection{endpoint: ep, value: value, as: as, machine: m}
	w.certify(n, kind, d)
	w.connections[kind] = d
	return m, nil
}

// noKey is why there is no driver or no credential for an endpoint, which was not asked then.
type noKey struct{ error }

func (e noKey) Unwrap() error { return e.error }

// remember keeps a credential that was not accepted from being tried again,
// which would lock the account on many BMCs. Where certificates log in, the next one is shown
// after a while, since what a system disliked passes: a clock is set, a step is made by hand.
// The guard of passwords keeps a password that was denied from being sent then.
func (w *worker) remember(kind site.EndpointKind, err error) error {
	d := w.connections[kind]
	if d == nil || !driver.WasDenied(err) {
		return err
	}
	if d.certified {
		d.denied, d.until = err, time.Now().Add(certifyAgain)
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
