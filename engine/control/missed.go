package control

import (
	"context"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

const (
	// missedEvery is how often an attempt that was not even looked at is recorded, of one caller.
	missedEvery = time.Minute
	// mostMissed are the callers of which that is counted at once; those of more are in the log alone.
	mostMissed = 256
)

// missed counts attempts that were not looked at: of callers who ask too much, of sites that are not there, and of callers
// whom no line of the access file names. The first of a caller is recorded at once. Those that follow within
// a minute are recorded at its end as one entry with their number, so that they flood nothing.
type missed struct {
	mu      sync.Mutex
	callers map[string]*site.AuditEntry // the last since the first one; Times is how many
}

// first counts an attempt, and says whether it is to be recorded by itself. The end of the minute is to be
// told to rest.
func (m *missed) first(who string, e site.AuditEntry) (isFirst bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, isKnown := m.callers[who]
	if !isKnown {
		if len(m.callers) >= mostMissed {
			return false
		}
		if m.callers == nil {
			m.callers = map[string]*site.AuditEntry{}
		}
		m.callers[who] = &site.AuditEntry{}
		return true
	}
	e.Times = last.Times + 1
	*last = e
	return false
}

// rest is the last attempt since the first one, with how many there were; nil for none.
func (m *missed) rest(who string) *site.AuditEntry {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.callers[who]
	delete(m.callers, who)
	if last == nil || last.Times == 0 {
		return nil
	}
	return last
}

// miss records an attempt to do something that was not looked at.
func (c *call) miss(why error) {
	own := c.daemon.Sites()
	if !c.route.acts || len(own) == 0 {
		return
	}
	e, siteName := c.entry(), c.site
	e.Outcome, e.Text = site.AuditDenied, entryText(why)
	if siteName == "" {
		siteName = own[0]
	}
	who := string(c.caller.Kind) + " " + c.caller.Name
	if !c.missed.first(who, e) {
		c.log.Debug("not looked at", "by", c.caller.String(), "from", c.caller.From, "what", e.Verb, "why", e.Text)
		return
	}
	c.record(c.r.Context(), siteName, e)
	time.AfterFunc(missedEvery, func() {
		if more := c.missed.rest(who); more != nil {
			c.record(context.Background(), siteName, *more)
		}
	})
}
