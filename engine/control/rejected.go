package control

import (
	"context"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

const (
	// rejectedEvery is how often attempts of one caller are recorded that were rejected before authorization.
	rejectedEvery = time.Minute
	// mostRejected is how many callers are counted at a time. Attempts of further ones are in the log alone.
	mostRejected = 256
)

// rejected counts attempts that were rejected before authorization: of callers who ask too much, of callers not in the
// access file, and at sites that are not there. The first of a caller is recorded at once. Those that follow within
// a minute are recorded at its end as one entry with their number, so that they flood nothing.
type rejected struct {
	mu      sync.Mutex
	callers map[string]*site.AuditEntry // the last since the first one; Times is how many
}

// first counts an attempt, and says whether it is to be recorded by itself. The end of the minute is to be
// told to rest.
func (m *rejected) first(who string, e site.AuditEntry) (isFirst bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, isKnown := m.callers[who]
	if !isKnown {
		if len(m.callers) >= mostRejected {
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
func (m *rejected) rest(who string) *site.AuditEntry {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.callers[who]
	delete(m.callers, who)
	if last == nil || last.Times == 0 {
		return nil
	}
	return last
}

// reject records an attempt to change something that was rejected before authorization.
func (c *call) reject(why error) {
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
	if !c.rejected.first(who, e) {
		c.log.Debug("rejected before authorization", "by", c.caller.String(), "from", c.caller.From, "what", e.Verb, "why", e.Text)
		return
	}
	c.record(c.r.Context(), siteName, e)
	time.AfterFunc(rejectedEvery, func() {
		if more := c.rejected.rest(who); more != nil {
			c.record(context.Background(), siteName, *more)
		}
	})
}
