package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Records of which secrets machines were given. A value passes here before it is sent: as the login of a connection,
// lent to a driver for a step, as the password of an account of a BMC, or made for an installation. It is
// recorded first, and what cannot be recorded is not sent. So a record may name a value that never arrived, and never
// lacks one that did. What only compares a value with what a machine reports records nothing.

// delivered is the record of one holder: a node, or a hypervisor.
type delivered struct {
	mu sync.Mutex // held while it is changed and recorded
	is atomic.Pointer[site.Delivered]
}

// deliveriesOf returns the record of a holder, which may be empty.
func (e *Engine) deliveriesOf(holder string) *delivered {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.delivered[holder] == nil {
		e.delivered[holder] = &delivered{}
	}
	return e.delivered[holder]
}

// restoreDeliveredLocked takes over the records of before.
func (e *Engine) restoreDeliveredLocked(all map[string]site.Delivered) {
	for holder, d := range all {
		e.delivered[holder] = &delivered{}
		e.delivered[holder].is.Store(&d)
	}
}

// deliveredLocked are the records of all holders.
func (e *Engine) deliveredLocked() map[string]site.Delivered {
	all := map[string]site.Delivered{}
	for holder, d := range e.delivered {
		if is := d.is.Load(); is != nil {
			all[holder] = *is
		}
	}
	return all
}

// add records a delivery to a holder, if that is news.
func (d *delivered) add(ctx context.Context, e *Engine, holder string, is site.Delivery) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.is.Load()
	if was == nil {
		was = &site.Delivered{Since: is.When.Add(-1)} // this one is in it
	}
	now, news := was.With(is)
	if !news {
		return nil
	}
	if err := e.Records.PutDelivered(ctx, holder, now); err != nil {
		return fmt.Errorf("%s was not sent to %s: Slipway records a secret before it sends it, and could not: %w", is.Secret, holder, err)
	}
	d.is.Store(&now)
	return nil
}

// deliveriesLast is how long what a holder was given is kept after the holder has left the design.
const deliveriesLast = 400 * 24 * time.Hour

// forgetDelivered forgets what holders were given that left the design long ago.
func (e *Engine) forgetDelivered(ctx context.Context) error {
	now := time.Now()
	for _, holder := range e.holdersGone(now) {
		if err := e.deliveriesOf(holder).forget(ctx, e, holder, now); err != nil {
			return err
		}
	}
	return nil
}

// forget forgets a holder, unless it was given something meanwhile.
func (d *delivered) forget(ctx context.Context, e *Engine, holder string, now time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if is := d.is.Load(); is == nil || !isOld(is, now) {
		return nil
	}
	if err := e.Records.ForgetDelivered(ctx, holder); err != nil {
		return fmt.Errorf("forget what %s was given: %w", holder, err)
	}
	d.is.Store(nil)
	return nil
}

// isOld reports whether a holder was given nothing for long.
func isOld(is *site.Delivered, now time.Time) bool {
	return !slices.ContainsFunc(is.Given, func(g site.Delivery) bool { return now.Sub(g.When) < deliveriesLast })
}

// holdersGone are the holders that are in no design and were given nothing for long; none while an incident is not over,
// whose secrets any of them may still have.
func (e *Engine) holdersGone(now time.Time) (gone []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.design == nil {
		return nil
	}
	for _, i := range e.incidents {
		if !i.IsOver() {
			return nil
		}
	}
	for holder, d := range e.delivered {
		is := d.is.Load()
		hypervisor, isOne := strings.CutPrefix(holder, "hypervisor ")
		switch {
		case is == nil, e.workers[holder] != nil, isOne && e.design.Hypervisors[hypervisor] != nil:
		case isOld(is, now):
			gone = append(gone, holder)
		}
	}
	return gone
}

// version is the version of a secret's value; empty without a site key.
func (e *Engine) version(secretName string, v secret.Value) string {
	return e.versions.Of(secretName, v)
}

// instanceOf is the machine of a node, and the generation of its system or of the one that is being installed.
func instanceOf(n *site.Node, r site.Recorded) (machine string, generation int) {
	switch {
	case r.InFlight != nil && r.InFlight.Step.Action == site.ActionInstall:
		generation = r.InFlight.Step.Generation
	case r.Installing != nil:
		generation = r.Installing.Generation
	case r.Installed != nil:
		generation = r.Installed.Generation
	}
	return n.Machine().String(), generation
}

// deliver records that a node is about to be given a secret's value. Nothing may be sent after an error.
func (w *worker) deliver(ctx context.Context, n *site.Node, to site.Recipient, name string, v secret.Value) error {
	return w.deliverTo(ctx, []string{w.name}, n, site.Delivery{Secret: name, To: to}, v)
}

// deliverTo is deliver for some holders, of a delivery with its secret, its recipient and what it is there. With a time
// seen the value is known to be there.
func (w *worker) deliverTo(ctx context.Context, holders []string, n *site.Node, is site.Delivery, v secret.Value) error {
	is.Version, is.When = w.e.version(is.Secret, v), time.Now()
	is.Machine, is.Generation = instanceOf(n, w.job().memory.Recorded)
	switch is.To {
	case site.ToBMC: // which keeps it when the system is installed again
		is.Generation = 0
	case site.ToHypervisor: // which serves many nodes
		is.Machine, is.Generation = "", 0
	}
	if err := w.keptBack(is); err != nil {
		return err
	}
	for _, holder := range holders {
		if err := w.e.deliveriesOf(holder).add(ctx, w.e, holder, is); err != nil {
			return err
		}
	}
	return nil
}

// loginSource gives the secrets with which Slipway logs in, and records each for those who receive it. A private key
// is never sent by a login.
type loginSource struct {
	ctx     context.Context
	w       *worker
	n       *site.Node
	holders []string
	to      site.Recipient
}

// Get implements secret.Source.
func (l loginSource) Get(r secret.Request) (secret.Value, error) {
	v, err := l.w.e.Secrets.Get(r)
	if err != nil || v.IsPEM() {
		return v, err
	}
	if err := l.w.deliverTo(l.ctx, l.holders, l.n, l.delivery(r.Name, v), v); err != nil {
		return secret.Value{}, fmt.Errorf("%w: %w", secret.ErrUnavailable, err) // and not denied: it is tried again
	}
	return v, nil
}

func (l loginSource) delivery(credential string, v secret.Value) site.Delivery {
	is := site.Delivery{Secret: site.SecretOfCredential(credential), To: l.to, As: site.AsLogin}
	if l.to == site.ToBMC {
		is.User = v.Username()
	}
	return is
}

// loginsTo is the source of the logins through an endpoint of a node.
func (w *worker) loginsTo(ctx context.Context, n *site.Node, kind site.EndpointKind) loginSource {
	l := loginSource{ctx: ctx, w: w, n: n, holders: []string{w.name}, to: site.ToSystem}
	switch {
	case kind == site.Manager && n.IsVirtual():
		l.holders, l.to = w.holdersOfHypervisor(n.Virtual.Host.Hypervisor), site.ToHypervisor
	case kind == site.Manager:
		l.to = site.ToBMC
	}
	return l
}

// holdersOfHypervisor are those who receive the logins to a hypervisor: it, and the node that it runs on.
func (w *worker) holdersOfHypervisor(name string) []string {
	holders := []string{"hypervisor " + name}
	if h := w.job().site.Hypervisors[name]; h != nil && h.Node != "" {
		holders = append(holders, h.Node)
	}
	return holders
}

// loginAccepted notes that the value of a connection opened the machine that was looked at through it. Where a login shows
// a certificate, it says nothing of the value.
func (w *worker) loginAccepted(ctx context.Context, n *site.Node, kind site.EndpointKind) error {
	d := w.connections[kind]
	if d == nil || d.certified || d.value.IsZero() || d.value.IsPEM() || d.endpoint.Credential == "" {
		return nil
	}
	l := w.loginsTo(ctx, n, kind)
	is := l.delivery(d.endpoint.Credential, d.value)
	is.Seen = time.Now()
	return w.deliverTo(ctx, l.holders, n, is, d.value)
}

// lending is what a driver was lent of secrets that it sets.
type lending struct {
	mu sync.Mutex
	// step is the context of the step under way; nil while the driver only looks.
	step context.Context
	// read are the values that were read last, by credential.
	read map[string]secret.Value
}

// begin notes that values are sent from now on, until end.
func (l *lending) begin(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.step = ctx
}

func (l *lending) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.step = nil
}

// note keeps a value that was read, and returns the context of the step under way.
func (l *lending) note(name string, v secret.Value) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.read == nil {
		l.read = map[string]secret.Value{}
	}
	l.read[name] = v
	return l.step
}

// isUnused reports whether no value was read: then nothing was compared.
func (l *lending) isUnused() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.read) == 0
}

func (l *lending) last(name string) secret.Value {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.read[name]
}

// lent gives a driver the secrets that it sets in a node's machine. During a step each one that it reads counts as given.
// Passwords of accounts of BMCs are compared in steps too: see accountPasswords, which records those that are sent.
type lent struct{ w *worker }

// Get implements secret.Source.
func (l lent) Get(r secret.Request) (secret.Value, error) {
	v, err := l.w.e.Secrets.Get(r)
	if err != nil || r.Use == secret.Redfish {
		return v, err
	}
	if ctx := l.w.lending.note(r.Name, v); ctx != nil {
		if err := l.w.deliver(ctx, l.w.job().node, site.ToSystem, site.SecretOfCredential(r.Name), v); err != nil {
			return secret.Value{}, fmt.Errorf("%w: %w", secret.ErrUnavailable, err)
		}
	}
	return v, nil
}

// lend gives a handle the secrets that its driver sets.
func (w *worker) lend(m driver.Machine, ep site.Endpoint) {
	if w.e.Secrets != nil {
		driver.Lend(m, ep, lent{w})
	}
}

// foundInside notes which secrets a look found inside the system: every field that is to have the value of a credential
// was compared with it in this look, and has it.
func (w *worker) foundInside(ctx context.Context, j job, seen *site.Observed) error {
	if w.lending.isUnused() {
		return nil
	}
	found := map[string]bool{}
	for _, facet := range site.InsideFacets {
		if !j.node.Asks(facet) {
			continue
		}
		for _, i := range j.node.ItemsOn(facet, seen.Facets[facet].System) {
			name, designed := i.Credential()
			if !designed {
				continue
			}
			is := seen.Facets[facet].Have[i.Key+"."+item.CredentialField(item.Kind(i.Key))]
			all, met := found[name]
			found[name] = (all || !met) && is == item.ValueOf(name)
		}
	}
	for name, all := range found {
		v := w.lending.last(name)
		if !all || v.IsZero() || inBootAction(j, name) {
			continue
		}
		is := site.Delivery{Secret: site.SecretOfCredential(name), To: site.ToSystem, Seen: time.Now()}
		if err := w.deliverTo(ctx, []string{w.name}, j.node, is, v); err != nil {
			return err
		}
	}
	return nil
}

// inBootAction reports whether a boot action of a node has a credential in its files, which no look compares.
func inBootAction(j job, credential string) bool {
	for _, a := range j.site.BootActions {
		if a.Nodes != nil && !a.Nodes.Selects(j.node) {
			continue
		}
		for _, f := range a.Files {
			if f.Credential == credential {
				return true
			}
		}
	}
	return false
}
