package drivertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// bmcDriver is the fleet's driver for BMCs.
type bmcDriver struct{ fleet *Fleet }

func (bmcDriver) Facets() []site.Facet {
	return []site.Facet{site.FacetPower, site.FacetBoot, site.FacetImage, site.FacetHealth, site.FacetInventory,
		site.FacetFirmware, site.FacetBIOS, site.FacetLog}
}

func (d bmcDriver) Open(_ context.Context, e site.Endpoint, s secret.Value) (driver.Machine, error) {
	m, err := d.fleet.find(e)
	if err != nil {
		return nil, err
	}
	return &bmc{m: m, login: &login{m: m, value: s}}, nil
}

func (f *Fleet) find(e site.Endpoint) (*FakeMachine, error) {
	u, err := url.Parse(e.URL)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	m := f.Machine(cmp.Or(u.Query().Get("domain"), u.Hostname()))
	if m == nil {
		return nil, fmt.Errorf("%w: no machine at %s", driver.ErrUnreachable, e.URL)
	}
	return m, nil
}

// bmc is an open handle.
type bmc struct {
	m     *FakeMachine
	login *login
}

func (b *bmc) Close() error { return nil }

// read is a question that the BMC answers.
func (b *bmc) read(ctx context.Context) error {
	if err := wait(ctx); err != nil {
		return err
	}
	if err := b.login.exchange(ctx, b.m.latency(readRange)); err != nil {
		return err
	}
	if b.m.flake() {
		return timeout(ctx)
	}
	unlock := b.m.look()
	b.m.counts.Reads++
	unlock()
	return wait(ctx)
}

// login is what a handle is logged in by.
type login struct {
	m     *FakeMachine
	value secret.Value
	in    bool
}

// exchange is one question and answer, as far as every endpoint has it. The
// first one logs in, and so does one to a machine that forgets its sessions.
func (l *login) exchange(ctx context.Context, takes time.Duration) error {
	unlock := l.m.look()
	denies := l.m.fault == Denied
	unlock()
	if l.value.IsZero() || l.in && !denies {
		return l.m.answer(ctx, l.value, takes)
	}
	return driver.Login(ctx, func() error {
		err := l.m.answer(ctx, l.value, takes)
		l.in = err == nil
		defer l.m.look()()
		if l.m.counts.Logins++; errors.Is(err, driver.ErrDenied) {
			l.m.counts.Denied++
		}
		return err
	})
}

// answer is what becomes of a request.
func (m *FakeMachine) answer(ctx context.Context, value secret.Value, takes time.Duration) error {
	if err := sleep(ctx, takes); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	}
	unlock := m.look()
	if m.requests++; m.replaced > 0 && m.requests >= m.replaced {
		m.fault = WrongMachine
	}
	fault, want := m.fault, m.config.Secret
	unlock()
	switch fault {
	case Unreachable:
		return fmt.Errorf("%w: no route to %s", driver.ErrUnreachable, m.name)
	case Busy:
		return busy{}
	case Denied:
		return fmt.Errorf("%w: the account is not known", driver.ErrDenied)
	case Garbled:
		return fmt.Errorf("%w: the answer cannot be understood", driver.ErrRefused)
	case Hangs:
		return m.hang(ctx)
	}
	if !want.IsZero() && want != value {
		return fmt.Errorf("%w: wrong user name or password", driver.ErrDenied)
	}
	return nil
}

// hang waits until the context ends, or the machine is well again: then what was
// asked of it before has come to nothing.
func (m *FakeMachine) hang(ctx context.Context) error {
	for hangs := true; hangs; {
		if err := sleep(ctx, 5*time.Second); err != nil {
			return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
		}
		unlock := m.look()
		hangs = m.fault == Hangs
		unlock()
	}
	return fmt.Errorf("%w: %s closed the connection", driver.ErrUnreachable, m.name)
}

// interrupting are the actions whose requests interrupt what runs on a machine.
// A machine takes every other change while it serves.
var interrupting = []site.Action{
	site.ActionPowerOff, site.ActionRestart, site.ActionStartAgent, site.ActionInstall, site.ActionFinishInstall, site.ActionFinishErase, site.ActionZeroize, site.ActionPackages,
}

// write is a request for a change that the machine carries out if it gets it, and
// if it comes over a session of its own; the zero session is one. One that fails
// may have been carried out.
func (l *login) write(ctx context.Context, step site.Step, session site.Identity, first bool, change func()) error {
	send := func() error { return l.send(ctx, step, session, first, change) }
	if slices.Contains(interrupting, step.Action) {
		return driver.Interrupt(ctx, send)
	}
	return send()
}

func (l *login) send(ctx context.Context, step site.Step, session site.Identity, first bool, change func()) error {
	m, of := l.m, writeRange
	if site.Facets[step.Facet].Endpoint == site.OS {
		of = insideRange
	}
	if err := wait(ctx); err != nil {
		return err
	}
	carryOut := func() error {
		unlock := m.look()
		is, stray := m.answered(), m.fault == WrongMachine
		if session.Known() && session != is {
			unlock()
			return fmt.Errorf("%w: the session is not known here; nothing was written", driver.ErrInterrupted)
		}
		if stray {
			m.counts.Strays++
		} else {
			m.counts.Writes++
		}
		unlock()
		m.fleet.called(Call{When: time.Now(), Machine: m.name, Identity: is, Step: step, First: first})
		if !stray {
			change()
		}
		return nil
	}
	sent, takes := time.Now(), m.latency(of)
	if err := l.exchange(ctx, takes); err != nil {
		if left := takes - time.Since(sent); left > 0 && wait(ctx) != nil && m.flip() {
			time.AfterFunc(left, func() { _ = carryOut() }) // it is on its way, though nobody is there for the answer
		}
		return err
	}
	lost := m.flake()
	if lost && m.flip() {
		return fmt.Errorf("%w: 503", driver.ErrBusy)
	}
	if err := carryOut(); err != nil {
		return err
	}
	if lost {
		return timeout(ctx)
	}
	return wait(ctx)
}

func readRange(c Config) Range   { return c.Reads }
func writeRange(c Config) Range  { return c.Writes }
func insideRange(c Config) Range { return c.Inside }

// latency is how long a request takes.
func (m *FakeMachine) latency(of func(Config) Range) time.Duration {
	defer m.look()()
	r := of(m.config)
	if r == (Range{}) {
		return m.config.Latency
	}
	return r.From + time.Duration(m.dice.Float64()*float64(r.To-r.From))
}

// flake says whether a request fails.
func (m *FakeMachine) flake() bool {
	defer m.look()()
	return m.config.Flaky > 0 && m.dice.Float64() < m.config.Flaky
}

func (m *FakeMachine) flip() bool {
	defer m.look()()
	return m.dice.IntN(2) == 0
}

// timeout is the end of a request that is not answered.
func timeout(ctx context.Context) error {
	err := sleep(ctx, flakeTime)
	return fmt.Errorf("%w: no answer: %w", driver.ErrUnreachable, cmp.Or(err, context.DeadlineExceeded))
}

// busy is the error of a busy machine.
type busy struct{}

func (busy) Error() string          { return "busy: try again later" }
func (busy) Unwrap() error          { return driver.ErrBusy }
func (busy) RetryAfterSeconds() int { return BusySeconds }

func sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func (b *bmc) Observe(ctx context.Context, n *site.Node, facets []site.Facet) (site.Observed, error) {
	if err := b.read(ctx); err != nil {
		return site.Observed{}, err
	}
	defer b.m.look()()
	seen := site.Observed{Identity: b.m.answered(), Inventory: b.m.inventory(), Facets: map[site.Facet]site.FacetState{}}
	for _, f := range facets {
		if !slices.Contains(bmcDriver{}.Facets(), f) {
			continue
		}
		s := site.FacetState{Have: b.m.have(f), Seen: time.Now(), Driver: "fake"}
		if f == site.FacetBoot && n.Boot.Mode != "" {
			s.Have["mode"] = b.m.mode
		}
		if f == site.FacetPower && !b.m.changes.IsZero() && !b.m.restart {
			s.Pending = site.Values{"state": state(!b.m.on)}
		}
		if staged := b.m.pending[f]; staged != nil {
			s.Pending = maps.Clone(staged)
		}
		seen.Facets[f] = s
		if f == site.FacetLog {
			seen.Entries = slices.Clone(b.m.log)
		}
	}
	return seen, nil
}

// inspectTime is how long an inspection takes.
const inspectTime = 20 * time.Second

// Inspect implements driver.Inspector for a machine that was given parts.
func (b *bmc) Inspect(ctx context.Context, _ *site.Node) (*site.Inventory, error) {
	unlock := b.m.look()
	parts := b.m.parts
	unlock()
	if parts == nil {
		return nil, fmt.Errorf("inspect: %w", errors.ErrUnsupported)
	}
	if err := b.read(ctx); err != nil {
		return nil, err
	}
	unlock = b.m.look()
	b.m.counts.Inspections++
	unlock()
	if err := sleep(ctx, inspectTime); err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	}
	return parts, nil
}

func (m *FakeMachine) inventory() *site.Inventory {
	return &site.Inventory{Manufacturer: cmp.Or(m.config.Manufacturer, "Fake"), Model: cmp.Or(m.config.Model, "Memory"), Processors: 2, MemoryGiB: 64}
}

// answered is the identity that the machine gives.
func (m *FakeMachine) answered() site.Identity {
	if m.fault == WrongMachine {
		return site.Identity{UUID: "ffffffff-0000-4000-8000-000000000000", Serial: "OTHER"}
	}
	return m.identity
}

func (m *FakeMachine) have(f site.Facet) site.Values {
	switch f {
	case site.FacetPower:
		return site.Values{"state": state(m.on)}
	case site.FacetBoot:
		return site.Values{"order": m.order}
	case site.FacetHealth:
		return site.Values{"status": "OK"}
	case site.FacetLog:
		if n := len(m.log); n > 0 {
			return site.Values{"last": m.log[n-1].ID}
		}
		return site.Values{"last": "none"}
	case site.FacetImage:
		if m.media != nil {
			return site.Values{"media": m.media.Image}
		}
		return site.Values{"media": ""}
	}
	return m.inside[f]
}

func (b *bmc) Apply(ctx context.Context, step site.Step, n *site.Node, may driver.Permit) error {
	if err := b.read(ctx); err != nil {
		return err
	}
	w := &writer{bmc: b, step: step, may: may}
	if !step.Machine.Known() {
		return fmt.Errorf("%w: the step names no machine", driver.ErrRefused)
	}
	if err := w.compare(); err != nil {
		return err
	}
	unlock := b.m.look()
	lies := b.m.fault == Lies
	unlock()
	if lies {
		return w.write(ctx, func(*FakeMachine) {})
	}
	switch step.Action {
	case site.ActionPowerOn:
		return w.power(ctx, true)
	case site.ActionPowerOff:
		return w.power(ctx, false)
	case site.ActionBootOrder:
		return w.write(ctx, func(m *FakeMachine) { m.setBoot(n.Boot) })
	case site.ActionFirmware, site.ActionBIOS:
		return w.stage(ctx, n.Want(step.Facet))
	case site.ActionRestart:
		return w.restart(ctx)
	case site.ActionStartAgent:
		return w.startAgent(ctx, n)
	case site.ActionInstall:
		return w.install(ctx, n)
	case site.ActionFinishInstall:
		return w.finish(ctx)
	case site.ActionFinishErase:
		if err := w.power(ctx, false); err != nil {
			return err
		}
		return w.write(ctx, func(m *FakeMachine) { m.media, m.ramdisk, m.once = nil, "", false })
	}
	return errors.ErrUnsupported
}

// writer carries out one step on a BMC.
type writer struct {
	*bmc
	step    site.Step
	may     driver.Permit
	session site.Identity // the machine that was read last
	written bool
}

func (w *writer) write(ctx context.Context, change func(*FakeMachine)) error {
	return w.ask(ctx, func() { w.m.changed(func() { change(w.m) }) })
}

// destroy is a write after which data may be lost.
func (w *writer) destroy(ctx context.Context, change func(*FakeMachine)) error {
	unlock := w.m.look()
	w.m.tellOf(cmp.Or(w.step.Machine.UUID, w.m.plate()), Asked, time.Now(), site.Marker{})
	unlock()
	return w.write(ctx, change)
}

func (w *writer) ask(ctx context.Context, change func()) error {
	first := !w.written
	return w.login.write(ctx, w.step, w.session, first, func() {
		w.written = true
		change()
	})
}

// compare refuses to go on when another machine answers, and notes which one
// does: a machine takes no change over the session of another.
func (w *writer) compare() error {
	defer w.m.look()()
	seen := w.m.answered()
	if !w.step.Machine.Matches(seen) {
		return fmt.Errorf("%w: another machine answers: the step is for %s, this machine is %s", driver.ErrRefused, w.step.Machine, seen)
	}
	w.session = seen
	return nil
}

// power asks for a power state and waits for it; an installer may have powered
// the machine off again by then. A system that does not shut down in time has
// its power cut. What somebody else takes back is not waited for for ever.
func (w *writer) power(ctx context.Context, on bool) error {
	before, now := w.m.state()
	if now == on {
		return nil
	}
	forced := on || w.step.Force
	grace := max(w.m.settings().GraceTime, 2*w.m.settings().PowerTime)
	longest := grace + max(time.Minute, 4*w.m.settings().PowerTime)
	if err := w.ask(ctx, func() { w.m.ask(on, w.step.Force) }); err != nil {
		return err
	}
	over := func() {}
	if !forced {
		over = driver.Waiting(ctx, "its system to shut down", grace)
	}
	defer func() { over() }()
	for began := time.Now(); ; {
		boots, now := w.m.state()
		if now == on || on && boots > before {
			return nil
		}
		if err := w.wait(ctx); err != nil {
			return fmt.Errorf("power %s: %w", state(on), err)
		}
		if time.Since(began) > longest {
			return fmt.Errorf("%w: the request was accepted, and the machine is not %s after %s", driver.ErrRefused, state(on), longest)
		}
		if !forced && time.Since(began) > grace {
			forced = true
			over()
			over = func() {}
			if err := w.ask(ctx, func() { w.m.ask(on, true) }); err != nil {
				return err
			}
		}
	}
}

// wait lets a little of the time pass that powers take, and looks again.
func (w *writer) wait(ctx context.Context) error {
	if err := sleep(ctx, max(time.Millisecond, w.m.settings().PowerTime/16)); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	}
	if err := w.read(ctx); err != nil {
		return err
	}
	return w.compare()
}

// ask is a request for a power state as the machine takes it.
func (m *FakeMachine) ask(on, force bool) {
	unlock := m.look()
	deaf, takes := m.fault == Rebellious && !on && !force, m.config.PowerTime
	unlock()
	if deaf {
		return
	}
	if force {
		takes /= 8
	}
	m.reset(on, takes)
}

// stage has values take effect with the next boot.
func (w *writer) stage(ctx context.Context, want site.Values) error {
	unlock := w.m.look()
	pending, have := w.m.pending[w.step.Facet], w.m.inside[w.step.Facet]
	staged := maps.Equal(pending, want) || pending == nil && maps.Equal(have, want)
	unlock()
	if staged {
		return nil
	}
	if err := w.write(ctx, func(*FakeMachine) {}); err != nil {
		return err
	}
	if err := sleep(ctx, w.m.settings().StepTime[w.step.Action]); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	}
	return w.write(ctx, func(m *FakeMachine) {
		if m.pending[w.step.Facet] = want; maps.Equal(m.inside[w.step.Facet], want) {
			delete(m.pending, w.step.Facet) // what was staged is taken back
		}
	})
}

// restart boots the machine and waits until what was staged is in effect, and what
// was made inside and waits for a boot. Nothing of either means that it was booted
// already. It gives up when somebody
// switches the machine off.
func (w *writer) restart(ctx context.Context) error {
	staged := func() bool {
		defer w.m.look()()
		return len(w.m.pending) > 0 || slices.Contains(slices.Collect(maps.Values(w.m.waits)), true)
	}
	if !staged() {
		return nil
	}
	if err := w.ask(ctx, w.m.boot); err != nil {
		return err
	}
	for staged() {
		if err := w.wait(ctx); err != nil {
			return fmt.Errorf("restart: %w", err)
		}
		if w.m.staysOff() {
			return fmt.Errorf("%w: restart: the machine went off and stays off", driver.ErrUnreachable)
		}
	}
	defer w.m.look()()
	if w.m.fault == Failing {
		return fmt.Errorf("%w: the job that applies the settings completed with errors", driver.ErrRefused)
	}
	return nil
}

// install goes off, override, medium, on: in this order what is seen tells
// how far an interrupted one came.
func (w *writer) install(ctx context.Context, n *site.Node) error {
	step := w.step
	image := site.Marker{Node: n.Name, Generation: step.Generation, Image: step.Image.SHA256}
	unlock := w.m.look()
	inserted := step.Resumed && w.m.media != nil && *w.m.media == image
	once, on, holds := w.m.once, w.m.on, w.m.media != nil
	unlock()
	switch {
	case inserted && !once && !on:
		return nil // the installer has come and gone
	case inserted:
		return w.start(ctx)
	case !step.Resumed || holds:
		if err := w.write(ctx, func(m *FakeMachine) { m.media = nil }); err != nil {
			return err
		}
	}
	if err := w.power(ctx, false); err != nil {
		return err
	}
	if err := w.may.Ask(ctx, step); err != nil {
		return err
	}
	if err := w.destroy(ctx, func(m *FakeMachine) { m.once = true }); err != nil {
		return err
	}
	if err := w.destroy(ctx, func(m *FakeMachine) { m.media = &image }); err != nil {
		return err
	}
	return w.power(ctx, true)
}

// start boots the installer whose medium is inserted, or takes that out when it
// may not.
func (w *writer) start(ctx context.Context) error {
	err := w.may.Ask(ctx, w.step)
	if err == nil {
		return w.power(ctx, true)
	}
	if w.m.Power() == "off" {
		err = errors.Join(err, w.write(ctx, func(m *FakeMachine) { m.media, m.once = nil, false }))
	}
	return err
}

// startAgent boots the machine once from the medium of the agent. It joins a start with the
// same medium. Without one it boots it over the network, where that is designed.
func (w *writer) startAgent(ctx context.Context, n *site.Node) error {
	url := OverNetwork + w.m.name
	switch {
	case w.step.OverNetwork() && n.References.Start == site.StartNetwork:
	case w.step.Image == nil || w.step.Image.URL == "":
		return fmt.Errorf("%w: the step names no medium of the agent", driver.ErrRefused)
	default:
		url = w.step.Image.URL
	}
	unlock := w.m.look()
	joins := w.step.Resumed && w.m.ramdisk == url && !w.m.once && w.m.on
	unlock()
	if joins {
		return nil
	}
	if err := w.power(ctx, false); err != nil {
		return err
	}
	if err := w.may.Ask(ctx, w.step); err != nil {
		return err
	}
	if err := w.write(ctx, func(m *FakeMachine) { m.media, m.ramdisk, m.once = nil, url, true }); err != nil {
		return err
	}
	return w.power(ctx, true)
}

func (w *writer) finish(ctx context.Context) error {
	if w.step.FromMemory && w.m.fromMemory() {
		if err := w.power(ctx, false); err != nil {
			return err
		}
	}
	if w.m.Power() == "on" {
		if w.m.Media() == nil {
			return nil
		}
		return fmt.Errorf("%w: the machine is on with the medium inserted", driver.ErrBusy)
	}
	if err := w.write(ctx, func(m *FakeMachine) { m.media, m.ramdisk, m.once = nil, "", false }); err != nil {
		return err
	}
	return w.power(ctx, true)
}

// fromMemory says whether the machine runs the agent, or has its medium in.
func (m *FakeMachine) fromMemory() bool {
	defer m.look()()
	return m.on && (m.memory || m.ramdisk != "")
}

// osDriver is the fleet's driver for installed systems.
type osDriver struct{ fleet *Fleet }

func (osDriver) Facets() []site.Facet {
	return []site.Facet{site.FacetOS, site.FacetProbes, site.FacetLinks, site.FacetBase, site.FacetNetwork, site.FacetPackages, site.FacetConfig, site.FacetActions}
}

func (d osDriver) Open(_ context.Context, e site.Endpoint, s secret.Value) (driver.Machine, error) {
	m, err := d.fleet.find(e)
	if err != nil {
		return nil, err
	}
	return system{m, &login{m: m, value: s}, e.Trust.HostKeys}, nil
}

type system struct {
	m      *FakeMachine
	login  *login
	pinned []string
}

func (s system) Close() error { return nil }

// insideActions are the steps that are taken inside the system, by facet.
var insideActions = map[site.Facet]site.Action{
	site.FacetBase: site.ActionBase, site.FacetNetwork: site.ActionNetwork,
	site.FacetPackages: site.ActionPackages, site.FacetConfig: site.ActionConfig,
}

// Apply begins a step that then goes on by itself, joins one that does, and
// waits for its end. A facet is left in between when the machine is restarted.
func (s system) Apply(ctx context.Context, step site.Step, n *site.Node, _ driver.Permit) error {
	if err := s.ask(ctx); err != nil {
		return err
	}
	if step.Action == site.ActionOnce {
		return s.once(ctx, step)
	}
	unlock := s.m.look()
	seen, lies, have := s.m.answered(), s.m.fault == Lies, s.m.inside[step.Facet]
	running, runs := s.m.runs[step.Facet]
	want, owned, err := s.m.intent(step, n)
	unlock()
	if runs {
		want = running.want
	}
	switch {
	case insideActions[step.Facet] != step.Action:
		return errors.ErrUnsupported
	case !step.Machine.Matches(seen):
		return fmt.Errorf("%w: the step is for %s, this machine is %s", driver.ErrRefused, step.Machine, seen)
	case runs && !has(want, n.Want(step.Facet)):
		return fmt.Errorf("%w: something else is being done", driver.ErrBusy)
	case err != nil && !runs:
		return err
	case maps.Equal(have, want):
		return nil
	case lies:
		return s.login.write(ctx, step, seen, true, func() {})
	case !runs:
		if err := s.login.write(ctx, step, seen, true, func() { s.m.begin(step, want, owned) }); err != nil {
			return err
		}
	}
	return s.join(ctx, step.Facet, want)
}

// begin has a step go on inside the system.
func (m *FakeMachine) begin(step site.Step, want site.Values, owned []string) {
	defer m.look()()
	if !m.answers() {
		return
	}
	m.set(step.Facet, site.Values{"design": interrupted}, time.Now())
	m.runs[step.Facet] = run{want, time.Now().Add(m.config.StepTime[step.Action]), owned}
}

// has says whether values are among others.
func has(all, some site.Values) bool {
	for field, v := range some {
		if all[field] != v {
			return false
		}
	}
	return true
}

// join waits for the end of what goes on.
func (s system) join(ctx context.Context, f site.Facet, want site.Values) error {
	unlock := s.m.look()
	left := time.Until(s.m.runs[f].ends)
	unlock()
	if err := sleep(ctx, left); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	}
	if err := s.ask(ctx); err != nil {
		return err
	}
	defer s.m.look()()
	if !maps.Equal(s.m.inside[f], want) {
		return fmt.Errorf("%w: it was interrupted", driver.ErrUnreachable)
	}
	return nil
}

// interrupted is what a facet is while a step is taken on it.
const interrupted = "interrupted"

// ask is a question that the system answers.
func (s system) ask(ctx context.Context) error {
	if err := wait(ctx); err != nil {
		return err
	}
	if err := s.login.exchange(ctx, s.m.latency(insideRange)); err != nil {
		return err
	}
	if s.m.flake() {
		return timeout(ctx)
	}
	if err := wait(ctx); err != nil {
		return err
	}
	defer s.m.look()()
	if !s.m.answers() {
		return fmt.Errorf("%w: no system answers", driver.ErrUnreachable)
	}
	key := s.m.hostKey
	if v := s.m.virtual; v != nil {
		key = v.hostKey
	}
	if key != "" && !slices.Contains(s.pinned, key) {
		return fmt.Errorf("%w: it shows a host key that is none of the pinned ones", driver.ErrRefused)
	}
	return nil
}

// probe answers what is asked of the system's health.
func (m *FakeMachine) probe(state *site.FacetState, n *site.Node) {
	asked, _ := n.Probes()
	state.Have, state.Unread = site.Values{}, site.Values{}
	for i, p := range asked.Probes {
		switch {
		case m.unread != "":
			state.Unread[p.Key] = m.unread
		case i == 0 && m.unwell != "":
			state.Have[p.Key] = m.unwell
		default:
			state.Have[p.Key] = item.Passed
		}
	}
}

func (s system) Observe(ctx context.Context, n *site.Node, facets []site.Facet) (site.Observed, error) {
	if err := s.ask(ctx); err != nil {
		return site.Observed{}, err
	}
	targets := s.targets(n)
	defer s.m.look()()
	if !s.m.answers() {
		return site.Observed{}, fmt.Errorf("%w: no system answers", driver.ErrUnreachable)
	}
	seen := site.Observed{Facets: map[site.Facet]site.FacetState{}}
	for _, f := range facets {
		if !slices.Contains(osDriver{}.Facets(), f) {
			continue
		}
		have := s.m.inside[f]
		if f == site.FacetOS {
			have = site.Values{"bootID": fmt.Sprint(s.m.boots), "release": "fake 1", "kernel": "6.1.0"}
		}
		state := site.FacetState{Have: maps.Clone(have), Seen: time.Now(), Driver: "fake"}
		if site.IsInside(f) {
			state.Owned, state.OwnedDigest = slices.Clone(s.m.owned[f]), s.m.ownedDigest()
			state.Absent = item.Missing(item.Keys(n.Items(f)), have)
			if s.m.waits[f] {
				state.Waits = site.WaitsReboot
			}
		}
		if site.Facets[f].Once {
			s.m.onces(n, f, &state)
		}
		if f == site.FacetProbes {
			s.m.probe(&state, n)
		}
		if asked, asks := n.LinkProbes(); f == site.FacetLinks && asks {
			asked.Targets, s.m.links.tried = targets, targets
			seen.Links = s.m.sees(asked)
		}
		seen.Facets[f] = state
	}
	if marker := *cmp.Or(s.m.forged, s.m.disk); marker.Node != "" {
		seen.Marker = &marker
	}
	return seen, nil
}
