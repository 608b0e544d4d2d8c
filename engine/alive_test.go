package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// lively is a status branch with signs of life beside it.
type lively struct {
	board
	at    []site.SignOfLife
	err   error
	hangs bool
	last  site.Report
}

func (l *lively) Report(ctx context.Context, r site.Report) error {
	l.mu.Lock()
	l.last = r
	l.mu.Unlock()
	return l.board.Report(ctx, r)
}

func (l *lively) Alive(ctx context.Context, s site.SignOfLife) error {
	l.mu.Lock()
	hangs := l.hangs
	l.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.at = append(l.at, s)
	}
	return l.err
}

func (l *lively) shown() []site.SignOfLife {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at
}

func (l *lively) goes(away, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away, l.err = away, err
}

// Signs of life are left at their interval while nothing changes, and not while the status cannot be written: what people
// elsewhere read would be older than they think.
func TestSignsOfLife(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		l := &lively{}
		w.anchor, w.aliveEvery = l, 10*time.Minute
		w.commit(w.design("n1"))
		w.up()
		w.after(time.Minute)
		w.until("it is in-sync", 10*time.Minute, w.is(site.InSync, "n1"))
		begun := time.Now()
		w.after(2 * time.Hour)
		all := l.shown()
		if n := len(all); n < 12 || n > 14 {
			t.Errorf("%d signs of life in two hours", n)
		}
		for i, s := range all {
			if s.Site != "test" || time.Duration(s.Every) != 10*time.Minute || i > 0 && s.At.Sub(all[i-1].At) > 11*time.Minute {
				t.Errorf("%d: %+v, %s after the last one", i, s, s.At.Sub(all[max(i-1, 0)].At))
			}
		}
		if last := all[len(all)-1].At; time.Since(last) > 11*time.Minute || last.Before(begun) {
			t.Errorf("the last one is of %s", last)
		}

		l.goes(errors.New("away"), nil)
		w.after(time.Hour)
		if n := len(l.shown()); n > len(all)+1 {
			t.Errorf("%d signs of life while the status cannot be written", n-len(all))
		}
		l.goes(nil, errors.New("the server refuses refs/slipway"))
		w.until("people read why", 15*time.Minute, func() bool {
			for _, p := range w.engine.Report().Status.Problems {
				if p.About == "sign of life" && strings.Contains(p.What, "refuses refs/slipway") {
					return true
				}
			}
			return false
		})
		w.want("n1", site.InSync)
		l.goes(nil, nil)
		w.until("it is over", 30*time.Minute, func() bool { return len(w.engine.Report().Status.Problems) == 0 })
	}, "n1")
}

// A server that does not answer a sign of life delays no status, and is not asked again at once. Signs of life give the other
// reporters nothing to do.
func TestSlowSignsOfLife(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		l := &lively{hangs: true}
		w.anchor, w.aliveEvery = l, time.Minute
		w.commit(w.design("n1"))
		w.up()
		w.after(time.Minute)
		w.until("it is in-sync", 10*time.Minute, w.is(site.InSync, "n1"))
		for i := range 8 {
			about := fmt.Sprintf("test %d", i)
			w.engine.Problem(about, errors.New("x"))
			w.after(30 * time.Second)
			l.mu.Lock()
			if !slices.ContainsFunc(l.last.Status.Problems, func(p site.Problem) bool { return p.About == about }) {
				t.Errorf("%s is not on the status branch after 30 s", about)
			}
			l.hangs = i < 6
			l.mu.Unlock()
		}
		w.until("a sign of life is left", 15*time.Minute, func() bool { return len(l.shown()) > 0 })
		w.after(time.Hour)
		signs, reports := len(l.shown()), w.told.reports()
		w.after(2 * time.Hour)
		if signs, reports = len(l.shown())-signs, w.told.reports()-reports; signs < 100 || reports > 20 {
			t.Errorf("in two hours, %d signs of life and %d reports to others", signs, reports)
		}
	}, "n1")
}
