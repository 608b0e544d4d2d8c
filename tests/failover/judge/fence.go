package judge

import (
	"slices"
	"strings"
	"time"
)

// start is a request that boots a machine from the medium in its drive. From then on the disk is written. A machine is
// switched off before, and its medium is taken out before its own system starts.
type start struct {
	Call
	inserted Call      // the request that put the medium in
	own      time.Time // when the machine last booted without a medium; zero for never
}

// boots are the kinds of resets after which a machine boots (DSP2046, ResetType).
var boots = []string{"On", "ForceOn", "ForceRestart", "GracefulRestart", "PowerCycle", "FullPowerCycle"}

// starts finds the starts of installations.
func (c *court) starts() map[string][]start {
	all, inserted, own := map[string][]start{}, map[string]Call{}, map[string]time.Time{}
	for _, x := range c.byArrival() {
		switch m := x.Machine; {
		case !x.isAccepted() || x.Method != "POST":
		case strings.HasSuffix(x.Path, ".InsertMedia"):
			inserted[m] = x
		case strings.HasSuffix(x.Path, ".EjectMedia"):
			delete(inserted, m)
		case !strings.HasSuffix(x.Path, "ComputerSystem.Reset") || !slices.Contains(boots, x.Reset):
		case inserted[m].When.IsZero():
			own[m] = x.When
		default:
			all[m] = append(all[m], start{x, inserted[m], own[m]})
		}
	}
	return all
}

// continues reports whether a start repeats one of an earlier controller, and loses nothing: that one was lost before it
// recorded how far it was, the later one put in a medium of its own, and the machine was not started from its disk since.
func (c *court) continues(before, now start) bool {
	i, j := c.indexAt(before.When), c.indexAt(now.When)
	return i >= 0 && j > i && c.terms[i].holder != c.terms[j].holder &&
		now.inserted.When.After(before.When) && now.inserted.host() == now.host() && !now.own.After(before.When)
}

func (c *court) byArrival() []Call {
	calls := slices.Clone(c.history.Calls)
	slices.SortStableFunc(calls, func(a, b Call) int { return a.When.Compare(b.When) })
	return calls
}

// session is a session on a machine, as the controller of a term recorded it before it changed the machine.
type session struct {
	Term uint64 `json:"term"`
	ID   string `json:"id"` // the path of its resource
}

// readSessions reads all sessions that were ever recorded, by machine.
func (c *court) readSessions() {
	c.sessions = map[string][]session{}
	for _, w := range c.history.Writes {
		_, machine, is := strings.Cut(w.Key, "/sessions/")
		var now struct {
			Manager []session `json:"manager"`
		}
		if is && c.decode(w, &now) {
			c.sessions[machine] = append(c.sessions[machine], now.Manager...)
		}
	}
}

// checkFence makes sure that nothing of an earlier controller can be under way when an installation is started:
// each session of an earlier term was ended on the machine, or the machine knew it no more, or the last write of that
// controller must have taken effect. A controller that goes on with a higher number is no other one.
func (c *court) checkFence(s Call) {
	i := c.indexAt(s.When)
	if i < 0 {
		return // reported elsewhere
	}
	for ; i > 0 && c.terms[i-1].holder == c.terms[i].holder; i-- {
	}
	now := c.terms[i]
	if i == 0 || !c.terms[i-1].released.IsZero() || s.When.Sub(now.began) >= lease+longestWrite {
		return
	}
	for _, left := range c.sessions[s.Machine] {
		if left.Term < now.number && !c.isEnded(left, s) {
			c.broken("%s was installed at %s, %s after %s began to lead, and the session %s of term %d was not ended there",
				s.Machine, clock(s.When), s.When.Sub(now.began).Round(time.Millisecond), now.address, left.ID, left.Term)
			return
		}
	}
}

// isEnded reports whether a session was ended before a call, or was found to be none.
func (c *court) isEnded(left session, before Call) bool {
	return slices.ContainsFunc(c.history.Calls, func(x Call) bool {
		return x.Machine == before.Machine && x.Method == "DELETE" && x.Path == left.ID && (x.isAccepted() || x.Status == 404) && x.When.Before(before.When)
	})
}
