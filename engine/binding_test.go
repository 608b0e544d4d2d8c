package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// sessioned is a driver of machines that say how writes to them are bound, and by
// whom their sessions are named.
type sessioned struct {
	logins
	binding site.Binding

	mu    sync.Mutex
	named []string
	// later is the term that another controller's session is named for, on the
	// machines laterOn.
	later   uint64
	laterOn []string
	// interrupt is how many steps find their session gone.
	interrupt int
}

func (b *sessioned) Open(ctx context.Context, e site.Endpoint, s secret.Value) (driver.Machine, error) {
	m, err := b.logins.Open(ctx, e, s)
	name, _, _ := strings.Cut(strings.TrimPrefix(e.URL, "redfish+https://"), "/")
	return &boundMachine{login: m.(*login), b: b, name: name}, err
}

type boundMachine struct {
	*login
	b    *sessioned
	name string
	term uint64
}

func (m *boundMachine) Binding() site.Binding { return m.b.binding }

func (m *boundMachine) Name(site string, term uint64) {
	m.b.mu.Lock()
	defer m.b.mu.Unlock()
	if m.term != term {
		m.b.named = append(m.b.named, fmt.Sprintf("%s %d", site, term))
	}
	m.term = term
}

func (m *boundMachine) Outranked(context.Context) error {
	m.b.mu.Lock()
	defer m.b.mu.Unlock()
	if m.term < m.b.later && slices.Contains(m.b.laterOn, m.name) {
		return &driver.LaterTermError{Term: m.b.later, Host: m.name}
	}
	return nil
}

func (m *boundMachine) Apply(ctx context.Context, s site.Step, n *site.Node, may driver.Permit) error {
	m.b.mu.Lock()
	interrupted := m.b.interrupt > 0
	if interrupted {
		m.b.interrupt--
	}
	m.b.mu.Unlock()
	if !interrupted {
		return m.login.Apply(ctx, s, n, may)
	}
	m.l.mu.Lock()
	defer m.l.mu.Unlock()
	m.l.events = append(m.l.events, fmt.Sprintf("%s interrupted in %s", s.Action, m.session))
	delete(m.l.open, m.session)
	m.session = ""
	return fmt.Errorf("%w: the session is over", driver.ErrInterrupted)
}

func withSessions(w *world, b *sessioned) *sessioned {
	b.logins.Driver, b.logins.open = w.fleet.Driver(), map[string]bool{}
	w.bmcs = b
	return b
}

// A step whose session ended is resumed over another, once the machine was looked
// at and that session is recorded: the next life ends it.
func TestInterruptedStepIsResumed(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		b := withSessions(w, &sessioned{})
		w.commit(w.design("a"))
		w.up()
		w.after(2 * time.Minute)
		w.want("a", site.InSync)
		b.events, b.interrupt = nil, 1
		w.fleet.Machine("a").SetPower("off")
		w.after(3 * time.Minute)
		w.want("a", site.InSync)
		if got := strings.Join(b.events, ", "); got != "power-on interrupted in session 1, power-on by session 2" {
			t.Errorf("what was done is %s", got)
		}
		b.events = nil
		w.crash()
		w.up()
		w.after(2 * time.Minute)
		if got := strings.Join(b.events, ", "); got != "end of session 2" {
			t.Errorf("in the next life was done %s", got)
		}
	}, "a")
}

// Each life names its sessions for the site and its own term.
func TestSessionsAreNamedForTheTerm(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		b := withSessions(w, &sessioned{})
		w.commit(w.design("a"))
		for term := 1; term <= 3; term++ {
			b.named = nil
			w.up()
			w.after(time.Minute)
			if got := strings.Join(b.named, ", "); got != fmt.Sprintf("test %d", term) {
				t.Errorf("in life %d sessions were named for %s", term, got)
			}
			w.crash()
		}
	}, "a")
}

// While a later term acts on a machine nothing is written to it.
func TestNothingIsWrittenUnderALaterTerm(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		b := withSessions(w, &sessioned{later: 9, laterOn: []string{"a"}})
		w.commit(w.design("a"))
		w.fleet.Machine("a").SetPower("off")
		w.up()
		w.after(10 * time.Minute)
		if n := w.node("a"); n.State == site.InSync || !strings.Contains(n.Reason, "a session of term 9 of this site is open") {
			t.Errorf("a is %s: %s", n.State, n.Reason)
		}
		if len(b.events) > 0 || w.fleet.Machine("a").Counts().Writes > 0 {
			t.Errorf("was done: %s", b.events)
		}
	}, "a")
}

// Sessions of a later term on two machines are no lie of one BMC: nothing is
// written to any machine, until a person says that nobody else acts.
func TestLaterTermOnTwoMachines(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		b := withSessions(w, &sessioned{later: 9, laterOn: []string{"a", "b"}})
		w.commit(w.design("a", "b", "c"))
		w.up()
		w.after(10 * time.Minute)
		w.fleet.Machine("c").SetPower("off")
		w.after(10 * time.Minute)
		if n := w.node("c"); n.State != site.Blocked || !strings.Contains(n.Reason, "sessions of a later term are open on the machines of a and b") {
			t.Errorf("c is %s: %s", n.State, n.Reason)
		}
		if got := w.fleet.Machine("c").Power(); got != "off" {
			t.Errorf("c is %s", got)
		}
		w.do(site.Order{Verb: site.VerbTakeOver, Reason: "the other one is scrapped"})
		w.after(10 * time.Minute)
		w.want("c", site.InSync)
		if got := b.named[len(b.named)-1]; got != "test 10" {
			t.Errorf("sessions are named for %s", got)
		}
	}, "a", "b", "c")
}

// A credential that changes between a look and its step does not have the step
// log in by itself, with a session that nobody recorded.
func TestEndpointIsOpenedAnewBeforeAStep(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		b := withSessions(w, &sessioned{})
		w.commit(w.design("a"))
		w.up()
		w.after(2 * time.Minute)
		w.want("a", site.InSync)
		b.events = nil
		changed, n := false, 0
		w.fleet.Machine("a").SetPower("off")
		// The first value is for a look, the second for the step that follows.
		change := func(v secret.Value) secret.Value {
			if n++; n < 2 {
				return v
			}
			changed = true
			return secret.New("admin", "changed")
		}
		w.secrets.change.Store(&change)
		w.after(3 * time.Minute)
		w.want("a", site.InSync)
		for _, e := range b.events {
			if strings.HasSuffix(e, "by ") {
				t.Errorf("a step was taken without a session: %s", b.events)
			}
		}
		if !changed || len(b.events) == 0 {
			t.Errorf("changed %t, was done: %s", changed, b.events)
		}
	}, "a")
}

// The status says how writes are bound, and what is missing where nothing does.
func TestStatusSaysHowWritesAreBound(t *testing.T) {
	for binding, c := range map[site.Binding]struct{ unbound, says string }{
		site.BindingSession:    {"", ""},
		site.BindingConnection: {"", "its BMC has no sessions, so Slipway cannot tell a late request"},
		site.BindingNone:       {"", "destructive steps are refused until the design accepts this"},
		site.BindingNone + " ": {site.UnboundAccept, "the design accepts this for destructive steps"},
	} {
		t.Run(string(binding), func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				binding := site.Binding(strings.TrimSpace(string(binding)))
				withSessions(w, &sessioned{binding: binding, logins: logins{basic: binding != site.BindingSession}})
				d := w.design("a")
				e := d.Nodes["a"].Endpoints[site.Manager]
				e.Unbound = c.unbound
				d.Nodes["a"].Endpoints[site.Manager] = e
				w.commit(d)
				w.up()
				w.after(2 * time.Minute)
				n := w.node("a")
				if notes := fmt.Sprint(n.Notes); n.Binding != binding || !strings.Contains(notes, c.says) || c.says == "" && strings.Contains(notes, "its BMC") {
					t.Errorf("bound by %q, and the notes are %s", n.Binding, notes)
				}
			}, "a")
		})
	}
}

// A node whose design names more of its machine than before keeps it: the name
// was bound by less, at the same endpoint.
func TestIdentityThatNamesMore(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		serial := w.fleet.Machine("a").Identity().Serial
		d := w.design("a")
		d.Nodes["a"].Identity = site.Identity{Serial: serial}
		bySerial := &showing{Driver: w.fleet.Driver(), is: site.Identity{Serial: serial}}
		w.bmcs = bySerial
		w.commit(d)
		w.up()
		w.after(2 * time.Minute)
		w.want("a", site.InSync)
		more := site.Identity{Serial: serial, Slot: "Node1"}
		next := w.design("a")
		next.Nodes["a"].Identity = more
		bySerial.show(more)
		w.commit(next)
		w.after(3 * time.Minute)
		w.want("a", site.InSync)
		if a := w.engine.Known().Nodes["a"].Recorded.Adopted; a == nil || a.Machine != more {
			t.Errorf("the name is bound to %+v", a)
		}
	}, "a")
}

// showing is a driver whose machines show an identity.
type showing struct {
	driver.Driver
	mu sync.Mutex
	is site.Identity
}

func (s *showing) show(i site.Identity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.is = i
}

func (s *showing) Open(ctx context.Context, e site.Endpoint, v secret.Value) (driver.Machine, error) {
	m, err := s.Driver.Open(ctx, e, v)
	return shown{m, s}, err
}

type shown struct {
	driver.Machine
	s *showing
}

func (m shown) Observe(ctx context.Context, n *site.Node, f []site.Facet) (site.Observed, error) {
	o, err := m.Machine.Observe(ctx, n, f)
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	o.Identity = m.s.is
	return o, err
}
