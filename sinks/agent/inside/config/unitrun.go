package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// runUnit starts, stops or restarts a unit.
func (w *work) runUnit(g *unitGoal, s seenUnits) error {
	var made unitMade
	w.items.Load(g.key, nil, &made)
	is := s.states[g.name].active
	var err error
	switch {
	case g.state == "stopped":
		if gone, look := w.goneUnit(g); look != nil || gone && is != "running" && is != "failed" {
			return look
		} else if is == "running" && !gone {
			err = w.do("stop "+g.name, startTime, "stop", "--", g.name)
		} else if is == "failed" {
			_ = w.do("", time.Minute, "reset-failed", "--", g.name) // a unit that systemd has forgotten is fine too
		}
	case w.mustRestart(made) && (is == "running" || g.state == "running"):
		if err = w.do("restart "+g.name+", since its unit file changed", startTime, "restart", "--", g.name); err != nil {
			return w.notStarted(g, err)
		}
		w.started = append(w.started, g.name)
	case g.state == "running" && is != "running":
		if err = w.do("start "+g.name, startTime, "start", "--", g.name); err != nil {
			return w.notStarted(g, err)
		}
		w.started = append(w.started, g.name)
	}
	if err != nil || !made.Restart {
		return err
	}
	made.Restart, made.Boot = false, ""
	return w.items.Note(g.key, made)
}

// goneUnit reports whether a unit to be restored has no file any more.
func (w *work) goneUnit(g *unitGoal) (bool, error) {
	if !g.back {
		return false, nil
	}
	u, err := w.unit(g.name, links{})
	return u.path == "", err
}

// notStarted says why a unit does not start, in the words of systemctl status.
func (w *work) notStarted(g *unitGoal, err error) error {
	o, _ := w.h.Exec(w.ctx, w.systemctl([]string{"--lines=8", "--full"}, "status", "--", g.name)) // on failure the first error is used
	status := inside.Lines(inside.Said(o.Out), 12)
	if status == "" {
		status = err.Error()
	}
	return &wire.Error{Class: wire.Failed, Text: fmt.Sprintf("%s did not start. systemctl status says:\n%s", g.name, status)}
}

// startTime bounds starting or stopping a unit. It is longer than systemd's default of 90 seconds.
const startTime = 3 * time.Minute

// mustRestart reports whether a unit runs with an earlier file since this boot.
func (w *work) mustRestart(made unitMade) bool {
	return made.Restart && (made.Boot == "" || made.Boot == w.bootID())
}

// do runs systemctl and reports its purpose.
func (w *work) do(what string, timeout time.Duration, args ...string) error {
	c := w.systemctl(nil, args...)
	if err := w.cut("systemctl " + strings.Join(args, " ")); err != nil {
		return err
	}
	if what != "" {
		w.h.Tell(what)
	}
	c.Timeout = timeout
	o, err := w.h.Exec(w.ctx, c)
	if err != nil {
		return err
	}
	if o.Code != 0 {
		return fmt.Errorf("systemctl %s: %s", strings.Join(args, " "), o.LastLines(5))
	}
	return nil
}

// verifyUnits checks again the units that should run.
func (w *work) verifyUnits(goals *[]*unitGoal) {
	var names []string
	for _, g := range *goals {
		if g.state == "running" {
			names = append(names, g.name)
		}
	}
	if len(names) == 0 {
		return
	}
	states, err := w.showUnits(names)
	if err != nil {
		w.fail(item.KindUnits, err)
		return
	}
	w.each(goals, func(g *unitGoal) error {
		s, asked := states[g.name]
		switch {
		case !asked || s.active == "running":
			return nil
		case s.oneshot && s.active == "stopped" && s.result == "success":
			return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("%s ran and ended, as a oneshot without RemainAfterExit=yes does. Leave out its `state`, or start it by a timer", g.name)}
		}
		return w.notStarted(g, fmt.Errorf("it is %s", s.active))
	})
}
