package e2e

import "testing"

// A BMC has room for few sessions. However often the daemon is killed, each
// life ends what the one before has left, and none is locked out.
func TestKilledDaemonsLeaveNoSessions(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.start()
	w.converge()
	for range 20 {
		w.daemon.kill()
		logins := map[string]int{}
		for _, name := range names {
			logins[name] = w.fleet.Machine(name).State().Counts.Sessions
		}
		w.start()
		w.eventually("one session on each machine", func() bool {
			for _, name := range names {
				s := w.fleet.Machine(name).State()
				if s.Sessions != 1 || s.Counts.Sessions == logins[name] {
					return false
				}
			}
			return true
		})
	}
	w.converge()
	w.stop()
	w.intact(0)
}
