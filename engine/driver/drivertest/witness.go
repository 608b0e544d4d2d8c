package drivertest

import (
	"context"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// EventKind is something that a person beside a machine sees.
type EventKind string

// The kinds of events.
const (
	// Asked: the first of the requests that lead to a loss of data on the machine
	// is sent. It may reach another machine, or none.
	Asked EventKind = "asked"
	// Armed: the next boot is that of an installer.
	Armed EventKind = "armed"
	// TakenBack: the machine is no longer armed, and nothing was lost.
	TakenBack EventKind = "taken back"
	// Installed: an installer has booted, and what was on the disks is lost.
	Installed EventKind = "installed"
	// Erased: what was on the disks is lost in another way.
	Erased EventKind = "erased"
	// Disks: other disks are in the machine.
	Disks EventKind = "disks"
)

// Event is something that truly happened to a machine, whatever its BMC says.
type Event struct {
	When time.Time
	Kind EventKind
	// Machine is the machine by the text on its plate, which it keeps wherever
	// it goes.
	Machine string
	// Medium is what is or was installed.
	Medium site.Marker
	// Disks are the serial numbers of the disks in the machine.
	Disks []string
}

// Witness calls told with every event, in the order in which they happen to a
// machine. The machine is locked during the call.
func (f *Fleet) Witness(told func(Event)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.witness = told
}

// tell reports an event; the machine is locked.
func (m *FakeMachine) tell(kind EventKind, at time.Time, medium site.Marker) {
	m.tellOf(m.plate(), kind, at, medium)
}

func (m *FakeMachine) tellOf(plate string, kind EventKind, at time.Time, medium site.Marker) {
	m.fleet.mu.Lock()
	told := m.fleet.witness
	m.fleet.mu.Unlock()
	if told != nil {
		told(Event{When: at, Kind: kind, Machine: plate, Medium: medium, Disks: m.disks()})
	}
}

// Plate returns the text on the machine's plate, as a person beside it reads it.
func (m *FakeMachine) Plate() string {
	defer m.look()()
	return m.plate()
}

func (m *FakeMachine) plate() string { return m.identity.UUID }

func (m *FakeMachine) disks() (serials []string) {
	if m.parts == nil {
		return nil
	}
	for _, d := range m.parts.Drives {
		serials = append(serials, d.Serial)
	}
	return serials
}

// armed reports whether the next boot is that of an installer.
func (m *FakeMachine) armed() bool { return m.once && m.media != nil }

// changed carries out a change, and reports what it means for the data on the
// machine.
func (m *FakeMachine) changed(change func()) {
	defer m.look()()
	armed, prepared := m.armed(), m.once || m.media != nil
	change()
	switch now := time.Now(); {
	case !armed && m.armed():
		m.tell(Armed, now, *m.media)
	case prepared && m.media == nil && !m.once:
		m.tell(TakenBack, now, site.Marker{})
	}
}

// Wait is called wherever a daemon waits for an answer: before a request is sent,
// and again before its answer is returned. Its error means that the daemon is
// gone.
type Wait func(ctx context.Context) error

type waitKey struct{}

// WithWait returns a context in which every request to a machine calls w.
func WithWait(ctx context.Context, w Wait) context.Context {
	return context.WithValue(ctx, waitKey{}, w)
}

func wait(ctx context.Context) error {
	if w, ok := ctx.Value(waitKey{}).(Wait); ok {
		return w(ctx)
	}
	return nil
}
