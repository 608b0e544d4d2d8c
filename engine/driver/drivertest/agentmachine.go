package drivertest

import (
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Unkind is how the agent on a machine misbehaves; the zero value behaves.
type Unkind struct {
	// Late is how much longer the agent takes to call. A Silent agent never calls.
	Late   time.Duration
	Silent bool
	// Vanishes loses the connection this long after an installation began, Times times. The agent
	// stays away until the machine restarts. With Returns, it calls again with the same key after a
	// minute.
	Vanishes time.Duration
	Times    int
	Returns  bool
	// Works lets an agent with a lost connection continue to install for so long. It calls again
	// only when it has ended.
	Works time.Duration
	// Tells makes it report the host keys of the new system before its connection is lost. Leaves
	// makes it never call again: when it has ended, and could not call for long, it boots the
	// machine from its disk.
	Tells, Leaves bool
	// Other is the machine that the agent claims to be on.
	Other site.Identity
	// Denied is why the daemon refuses each call of the agent.
	Denied string
	// Lies makes the agent report an installation without installing anything.
	Lies bool
	// Refuses is why it refuses to install before any write, Fails why it fails after erasing the
	// disks.
	Refuses, Fails string
	// NotErased are disks that it fails to erase, with the reason by serial number. It erases none
	// unless the design asks for it.
	NotErased map[string]string
	// Forgets makes it erase the disks and report nothing.
	Forgets bool
	// BootUnknown is why it does not know the entries of the firmware's boot manager.
	BootUnknown string
}

// Misbehave sets how the agent on the machine behaves from now on.
func (m *FakeMachine) Misbehave(u Unkind) {
	defer m.look()()
	m.unkind, m.lost = u, time.Time{}
}

// givesUp is how long an agent waits without its daemon. Then it boots the machine from its disk,
// or switches it off if there is no system.
const givesUp = 15 * time.Minute

// alone is what the agent does while it cannot call.
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

// Leave makes the agent boot the machine from its disk by itself, as after a long time without a
// call.
func (m *FakeMachine) Leave() {
	defer m.look()()
	m.memory, m.lost, m.booted = false, time.Time{}, time.Now()
	m.boots++
}

// InMemory reports whether the machine runs the agent's medium.
func (m *FakeMachine) InMemory() bool {
	defer m.look()()
	return m.on && m.memory
}

// HasDisks sets the disks that an agent on the machine reports.
func (m *FakeMachine) HasDisks(disks ...item.Disk) {
	defer m.look()()
	m.seen = disks
}

// HasNICs sets the network adapters that an agent on the machine reports.
func (m *FakeMachine) HasNICs(nics ...site.NIC) {
	defer m.look()()
	m.cabled = nics
}
