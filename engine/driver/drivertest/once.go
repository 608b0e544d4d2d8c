package drivertest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// action is what was done once inside a system.
type action struct {
	attempts int
	ends     time.Time
	fails    bool
	boot     int // the boot in which it began
}

// FailActions makes boot actions that end from now on fail, or succeed.
func (m *FakeMachine) FailActions(fail bool) {
	defer m.look()()
	m.failActions = fail
}

// Actions returns how often the command of a boot action was begun, in all installations.
func (m *FakeMachine) Actions(name string) int {
	defer m.look()()
	return m.began[name]
}

// ForgetActions removes the journal of boot actions.
func (m *FakeMachine) ForgetActions() {
	defer m.look()()
	clear(m.actions)
}

// once begins what is done once, as the helper does: an attempt begins once, and whoever asks for
// it again joins it.
func (s system) once(ctx context.Context, step site.Step) error {
	unlock := s.m.look()
	seen := s.m.answered()
	unlock()
	if !step.Machine.Matches(seen) {
		return fmt.Errorf("%w: the step is for %s, this machine is %s", driver.ErrRefused, step.Machine, seen)
	}
	return s.login.write(ctx, step, seen, true, func() {
		defer s.m.look()()
		name := strings.TrimPrefix(step.Changes[0].Field, string(step.Facet)+"."+item.KindBootActions+".")
		if !s.m.answers() || s.m.actions[name].attempts+1 != step.Once.Attempt {
			return
		}
		s.m.actions[name] = action{attempts: step.Once.Attempt, ends: time.Now().Add(s.m.config.StepTime[step.Action]), fails: s.m.failActions, boot: s.m.boots}
		s.m.began[name]++
	})
}

// onces fills in the states of a node's items that are done once.
func (m *FakeMachine) onces(n *site.Node, f site.Facet, state *site.FacetState) {
	state.Have, state.Cannot, state.Absent = site.Values{}, site.Values{}, nil
	for _, i := range n.Items(f) {
		a := m.actions[item.ID(i.Key)]
		state.Have[item.Name(i.Key, item.AttemptsField)] = fmt.Sprint(a.attempts)
		switch {
		case a.attempts == 0:
			state.Have[i.Key] = item.NotDone
		case a.boot != m.boots && m.booted.Before(a.ends):
			state.Have[i.Key], state.Cannot[i.Key] = item.Unfinished, "was begun, and the machine went down meanwhile"
		case time.Now().Before(a.ends):
			state.Have[i.Key] = item.Running
			state.Have[item.Name(i.Key, item.SinceField)] = a.ends.Add(-m.config.StepTime[site.ActionOnce]).UTC().Format(time.RFC3339)
		case a.fails:
			state.Have[i.Key], state.Cannot[i.Key] = item.Failed, "failed: its exit code is 7"
		default:
			state.Have[i.Key] = item.Done
		}
	}
}
