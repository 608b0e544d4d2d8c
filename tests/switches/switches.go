// Package switches is a switch in memory, as unkind as real ones: it says that something is done
// which is not, takes long, refuses, forgets, and fails after it has done half of it.
package switches

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// State is what a port is set up for.
type State string

// The states of a port.
const (
	Production   State = "production" // as every port begins
	Provisioning State = "provisioning"
)

// Unkind is how a switch behaves.
type Unkind struct {
	// Takes is how long each call takes.
	Takes time.Duration
	// Lies says that a call succeeds and does nothing.
	Lies bool
	// Fails is the error of a call: before the port is changed, or after it where Late is set.
	Fails error
	Late  bool
}

// Call is one call to the switch.
type Call struct {
	Node string
	To   State
	Port site.SwitchedPort
	When time.Time
	// Failed is what it was answered.
	Failed error
}

// Switch implements driver.Switches for any number of ports.
type Switch struct {
	mu     sync.Mutex
	states map[string]State
	unkind map[State][]Unkind // of the next calls, in order; the last one stays
	calls  []Call
	told   func(Call)
}

// New is a switch whose ports are in production.
func New() *Switch { return &Switch{states: map[string]State{}, unkind: map[State][]Unkind{}} }

// Behave says how the next calls that lead to a state go, one after the other. The last stays.
func (s *Switch) Behave(to State, calls ...Unkind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unkind[to] = calls
}

// Watch has a function called with each call, when it has ended; nil for none.
func (s *Switch) Watch(told func(Call)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = told
}

// State is what the port at the other end of a node's interface is really set up for.
func (s *Switch) State(node, port string) State {
	s.mu.Lock()
	defer s.mu.Unlock()
	if is, ok := s.states[node+"/"+port]; ok {
		return is
	}
	return Production
}

// Set has a port be in a state, as a person at the switch does.
func (s *Switch) Set(node, port string, to State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.states[node+"/"+port] = to
}

// Calls are all calls, in order.
func (s *Switch) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Provision implements driver.Switches.
func (s *Switch) Provision(ctx context.Context, n *site.Node, ports []site.SwitchedPort) error {
	return s.set(ctx, n.Name, ports, Provisioning)
}

// Production implements driver.Switches.
func (s *Switch) Production(ctx context.Context, n *site.Node, ports []site.SwitchedPort) error {
	return s.set(ctx, n.Name, ports, Production)
}

func (s *Switch) set(ctx context.Context, node string, ports []site.SwitchedPort, to State) error {
	if len(ports) == 0 {
		return errors.New("no port was named")
	}
	for _, p := range ports {
		if err := s.one(ctx, node, p, to); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return nil
}

func (s *Switch) one(ctx context.Context, node string, p site.SwitchedPort, to State) (err error) {
	s.mu.Lock()
	var is Unkind
	if next := s.unkind[to]; len(next) > 0 {
		if is = next[0]; len(next) > 1 {
			s.unkind[to] = next[1:]
		}
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		c := Call{node, to, p, time.Now(), err}
		s.calls = append(s.calls, c)
		told := s.told
		s.mu.Unlock()
		if told != nil {
			told(c)
		}
	}()
	if is.Takes > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(is.Takes):
		}
	}
	if is.Fails != nil && !is.Late {
		return is.Fails
	}
	if !is.Lies {
		s.Set(node, p.Interface, to)
	}
	return is.Fails
}
