package engine

import (
	"context"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Alive is where signs of life are left. It is an optional part of what the status branch is in.
type Alive interface {
	// Alive replaces the last sign of life.
	Alive(ctx context.Context, s site.SignOfLife) error
}

// aliveTicks has the status branch brought up to date at the interval of signs of life, also if nothing changes. It never
// ticks without such an interval.
func (e *Engine) aliveTicks() (tick <-chan time.Time, stop func()) {
	if e.Alive == nil || e.AliveEvery <= 0 {
		return nil, func() {}
	}
	t := time.NewTicker(e.AliveEvery)
	return t.C, t.Stop
}

// isWritten says that the status branch was up to date at a time. Only report calls it.
func (e *Engine) isWritten(at time.Time) {
	if e.Alive == nil {
		return
	}
	select {
	case <-e.current: // an earlier time that nobody took
	default:
	}
	e.current <- at
}

// aliveRetry is how long a sign of life that could not be left is not tried again.
const aliveRetry = time.Minute

// keepAlive leaves signs of life. Each of them says when the status branch was up to date; none is left while the status
// cannot be written. A server that is slow to take one delays no status.
func (e *Engine) keepAlive(ctx context.Context) {
	if e.Alive == nil {
		return
	}
	for due := (time.Time{}); ; {
		select {
		case <-ctx.Done():
			return
		case at := <-e.current:
			if at.Before(due) || e.isBarred() || e.isSilent() {
				continue
			}
			if e.showLife(ctx, at) {
				due = at.Add(e.AliveEvery - e.AliveEvery/10) // a little early rather than one interval late
			} else {
				due = time.Now().Add(min(aliveRetry, e.AliveEvery/2))
			}
		}
	}
}

func (e *Engine) showLife(ctx context.Context, at time.Time) bool {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	err := e.Alive.Alive(ctx, site.SignOfLife{Site: e.Site, At: at, Every: site.Duration(e.AliveEvery)})
	e.setProblem("sign of life", err)
	return err == nil
}
