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
	// Asked: the first of the requests is sent that lead to a loss of data on the
	// machine. It may come to another one, or to none.
	Asked EventKind = "asked"
	// Armed: the next boot is that of an installer.
	Armed EventKind = "armed"
	// TakenBack: it is not any more, and nothing was lost.
	TakenBack EventKind = "taken back"
	// Installed: an installer has booted, and what was on the disks is lost.
	Installed EventKind = "installed"
	// Erased: what was on the disks is lost otherwise.
	Erased EventKind = "erased"
	// Disks: other disks are in the machine.
	Disks EventKind = "disks"
)

// Event is something that truly happened to a machine, whatever its BMC says.
type Event struct {
	When time.Time
	Kind EventKind
	// Machine is the machine by what is printed on its plate, which it keeps
	// wherever it goes.
	Machine string
	// Medium is what is or was installed.
	Medium site.Marker
	// Disks are the serial numbers of those in the machine.
	Disks []string
}

// Witness has every event told, in the order in which they happen to a machine.
// It is called while the machine is locked.
func (f *Fleet) Witness(told func(Event)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.witness = told
}

// tell tells of an event; the machine is locked.
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

// Plate is what is printed on the machine, as a person beside it reads it.
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

// armed says whether the next boot is that of an installer.
func (m *FakeMachine) armed() bool { return m.once && m.media != nil }

// changed carries out a change, and tells what it means for the data on the
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

// Wait is asked wherever a daemon waits for an answer: before a request is sent,
// and once more before its answer is given. Its error means that the daemon is no
// more.
type Wait func(ctx context.Context) error

type waitKey struct{}

// WithWait gives a context in which every request to a machine asks.
func WithWait(ctx context.Context, w Wait) context.Context {
	return context.WithValue(ctx, waitKey{}, w)
}

func wait(ctx context.Context) error {
	if w, ok := ctx.Value(waitKey{}).(Wait); ok {
		return w(ctx)
	}
	return nil
}
