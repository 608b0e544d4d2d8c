package drivertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// login is the login of a handle.
type login struct {
	m     *FakeMachine
	value secret.Value
	in    bool
}

// interrupting are the actions whose requests interrupt what runs on a machine.
// A machine accepts every other change while it serves.
var interrupting = []site.Action{
	site.ActionPowerOff, site.ActionRestart, site.ActionStartAgent, site.ActionInstall, site.ActionFinishInstall, site.ActionFinishErase, site.ActionZeroize, site.ActionPackages,
}

// write requests a change. The machine carries it out if the request arrives over
// a session of this machine; the zero session counts as one. A failed request may
// have been carried out.
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
			time.AfterFunc(left, func() { _ = carryOut() }) // it is on its way, though nobody waits
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

// exchange is one request and answer, as every endpoint has it. The first one
// logs in, and so does one to a machine that forgets its sessions.
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

// answer is the outcome of a request.
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

// hang waits until the context ends or the machine recovers. What was asked of
// it before has failed then.
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

func readRange(c Config) Range { return c.Reads }

func writeRange(c Config) Range { return c.Writes }

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

// flake reports whether a request fails.
func (m *FakeMachine) flake() bool {
	defer m.look()()
	return m.config.Flaky > 0 && m.dice.Float64() < m.config.Flaky
}

func (m *FakeMachine) flip() bool {
	defer m.look()()
	return m.dice.IntN(2) == 0
}

// timeout is the end of a request without an answer.
func timeout(ctx context.Context) error {
	err := sleep(ctx, flakeTime)
	return fmt.Errorf("%w: no answer: %w", driver.ErrUnreachable, cmp.Or(err, context.DeadlineExceeded))
}

// busy is the error of a busy machine.
type busy struct{}

func (busy) Error() string { return "busy: try again later" }

func (busy) Unwrap() error { return driver.ErrBusy }

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
