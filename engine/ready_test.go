package engine_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// clock is a meter that keeps the greatest lateness of each loop.
type clock struct {
	mu     sync.Mutex
	rounds map[string]int
	late   map[string]time.Duration
}

func (c *clock) Late(loop string, by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rounds == nil {
		c.rounds, c.late = map[string]int{}, map[string]time.Duration{}
	}
	c.rounds[loop]++
	c.late[loop] = max(c.late[loop], by)
}

func (c *clock) Ended(site.RolloutStatus) {}

func TestMeterSeesEveryRoundBegin(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		c := &clock{}
		w.meter = c
		w.commit(w.design("n1", "n2"))
		w.up()
		w.after(10 * time.Minute)
		c.mu.Lock()
		defer c.mu.Unlock()
		if turns, polls := c.rounds[engine.LoopTurn], c.rounds[engine.LoopPoll]; turns < 18 || polls < 54 {
			t.Errorf("%d looks at two machines and %d polls in ten minutes", turns, polls)
		}
		if c.late[engine.LoopTurn] != 0 || c.late[engine.LoopPoll] != 0 {
			t.Errorf("late on an idle host: %v", c.late)
		}
	}, "n1", "n2")
}

func TestUnreadyUntilADesignIsInForce(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.up()
		w.after(time.Minute)
		w.unready("no design is in force")
		w.commit(w.design("n1"))
		w.after(2 * time.Minute)
		w.unready("")
		w.commit(w.design()) // refused or held: another design is in force
		w.source.vanish(errors.New("no route to host"))
		w.after(time.Hour)
		w.unready("")
	}, "n1")
}

func TestEngineThatHangsIsUnready(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.commit(w.design("n1"))
		w.up()
		w.after(5 * time.Minute)
		w.fleet.Machine("n1").SetFault(drivertest.Hangs)
		w.after(time.Hour)
		w.unready("") // a machine that hangs is no reason
		w.want("n1", site.Retrying)
		w.source.hang()
		w.commit(w.design("n1"))
		w.after(20 * time.Minute)
		w.unready("")
		w.after(19 * time.Minute)
		w.unready("Slipway has not looked for a new revision for 3")
	}, "n1")
}

// unready holds the engine to one reason why it is not ready, or to none.
func (w *world) unready(want string) {
	w.t.Helper()
	got := w.engine.Unready()
	if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], want)) {
		w.t.Errorf("unready: %q, want %q", got, want)
	}
}
