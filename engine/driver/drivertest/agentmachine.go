package drivertest

import (
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Unkind is how the agent on a machine misbehaves; the zero value does not.
type Unkind struct {
	// Late is how much longer the agent takes to call; Silent ones never do.
	Late   time.Duration
	Silent bool
	// Vanishes has the connection be lost so long after an installation began, so often, and
	// the agent stay away unless the machine is started again. Returns has it call again with
	// the same key after a minute.
	Vanishes time.Duration
	Times    int
	Returns  bool
	// Works has an agent whose connection was lost go on installing for so long; it calls again
	// when it has ended, and not before.
	Works time.Duration
	// Tells has it tell the host keys of the new system before its connection is lost. Leaves has
	// it never call again: when it has ended, and could not call for long, it boots the machine
	// from its disk.
	Tells, Leaves bool
	// Other is the machine that the agent says it is on.
	Other site.Identity
	// Denied is why the daemon refuses the agent each time that it calls.
	Denied string
	// Lies has the agent say that it has installed, and install nothing.
	Lies bool
	// Refuses is why it refuses to install before it has written anything, Fails why it
	// fails after it has erased the disks.
	Refuses, Fails string
	// NotErased are disks that it does not manage to erase, by serial number, with the reason.
	// Without the wish of the design it erases none.
	NotErased map[string]string
	// Forgets has it erase the disks and tell nobody.
	Forgets bool
	// BootUnknown is why it does not know the entries of the firmware's boot manager.
	BootUnknown string
}

// Misbehave says how the agent on the machine behaves from now on.
func (m *FakeMachine) Misbehave(u Unkind) {
	defer m.look()()
	m.unkind, m.lost = u, time.Time{}
}

// givesUp is how long an agent without its daemon waits before it boots the machine from its
// disk, or switches it off where no system is there.
const givesUp = 15 * time.Minute

// alone is what the agent does on a machine while it cannot call.
func (m *body) alone(now time.Time) (ended bool) {
	since := m.lost
	if m.unkind.Silent || m.unkind.Denied != "" {
		since = m.booted
	}
	switch {
	case !m.on || !m.memory || m.unkind.Returns:
	case m.finishes != nil:
		return !now.Before(m.finishAt)
	case !since.IsZero() && !now.Before(since.Add(givesUp)):
		m.memory, m.lost = false, time.Time{}
		if m.booted, m.on = since.Add(givesUp), m.disk != nil; m.on {
			m.boots++
		}
	}
	return false
}

// Leave has the agent boot the machine from its disk by itself, as when it could not call for
// long.
func (m *FakeMachine) Leave() {
	defer m.look()()
	m.memory, m.lost, m.booted = false, time.Time{}, time.Now()
	m.boots++
}

// InMemory says whether the machine runs the agent's medium.
func (m *FakeMachine) InMemory() bool {
	defer m.look()()
	return m.on && m.memory
}

// HasDisks says which disks an agent on the machine tells.
func (m *FakeMachine) HasDisks(disks ...item.Disk) {
	defer m.look()()
	m.seen = disks
}

// HasNICs says which network adapters an agent on the machine tells.
func (m *FakeMachine) HasNICs(nics ...site.NIC) {
	defer m.look()()
	m.cabled = nics
}
