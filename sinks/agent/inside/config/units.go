package config

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// unitBefore is a unit before Slipway took it.
type unitBefore struct {
	Exists  bool       `json:"exists,omitempty"` // the unit, in any folder
	File    place      `json:"file"`             // in /etc/systemd/system
	Links   []unitLink `json:"links,omitempty"`
	State   string     `json:"state,omitempty"` // empty if the services did not run
	Folders []string   `json:"folders,omitempty"`
}

// unitMade says which parts of a unit Slipway made, and whether the unit must restart.
type unitMade struct {
	File    bool `json:"file,omitempty"`
	Enabled bool `json:"enabled,omitempty"`
	State   bool `json:"state,omitempty"`
	Restart bool `json:"restart,omitempty"`
	// Boot is the boot in which the unit must restart: at the next boot it starts with its new file. Lists from
	// older versions have none.
	Boot string `json:"boot,omitempty"`
}

// unitGoal is the goal for a unit.
type unitGoal struct {
	key, name string
	content   *string // of the file; nil if Slipway makes none
	mask      bool
	enabled   string // the word enabled or disabled, or empty
	state     string // "running", "stopped" or empty
	back      bool   // restore the file
	unmask    bool   // but do not restore a link to /dev/null
	links     bool   // restore the links that enable the unit
	unlink    bool   // remove only these links
	remove    bool
	// designed are the parts that the design asks for. Slipway restores every other part only once.
	designed unitMade
}

// failedUnit records an error and stops the work on a unit.
func (w *work) failedUnit(goals *[]*unitGoal, g *unitGoal, err error) {
	w.fail(g.key, err)
	*goals = slices.DeleteFunc(*goals, func(o *unitGoal) bool { return o == g })
}

// each calls a function for every goal, and drops the goals that fail.
func (w *work) each(goals *[]*unitGoal, do func(g *unitGoal) error) {
	for _, g := range slices.Clone(*goals) {
		if err := do(g); err != nil {
			w.failedUnit(goals, g, err)
		}
	}
}

func (w *work) applyUnits(items []item.Item, leaving []string) {
	goals := w.goals(items)
	for _, key := range leaving {
		goals = append(goals, &unitGoal{key: key, name: item.ID(key), remove: true})
	}
	reload := len(w.unread) > 0
	if len(goals) == 0 && !reload {
		return
	}
	var names []string
	for _, g := range goals {
		names = append(names, g.name)
	}
	s, err := w.lookUnits(names)
	if err == nil && s.unread != "" {
		err = fmt.Errorf("%s", s.unread)
	}
	if err != nil {
		w.fail(item.KindUnits, err)
		return
	}
	w.each(&goals, func(g *unitGoal) error { return w.takeUnit(g, s) })
	w.each(&goals, func(g *unitGoal) error { return w.retireUnit(g, s) })
	w.each(&goals, func(g *unitGoal) error {
		changed, err := w.fileOfUnit(g, s)
		reload = reload || changed || s.states[g.name].reload
		return err
	})
	w.each(&goals, w.enableUnit)
	if reload && w.h.Live {
		err := w.do("", time.Minute, "daemon-reload")
		if err == nil {
			err = w.haveRead()
		}
		if err != nil {
			w.fail(item.KindUnits, err)
			return
		}
	}
	if w.h.Live {
		w.each(&goals, func(g *unitGoal) error { return w.runUnit(g, s) })
		w.verifyUnits(&goals)
	}
	w.each(&goals, w.finishUnit)
}

func goalOf(i item.Item) (*unitGoal, error) {
	g := &unitGoal{key: i.Key, name: item.ID(i.Key), state: i.Fields["state"]}
	refused := func(format string, args ...any) (*unitGoal, error) {
		return nil, &wire.Error{Class: wire.Refused, Text: fmt.Sprintf(format, args...)}
	}
	if badUnit(g.name) {
		return refused("%q is not a name of a systemd unit such as \"chrony.service\"", g.name)
	}
	var body item.Unit
	if len(i.Body) > 0 {
		if err := json.Unmarshal(i.Body, &body); err != nil {
			return nil, fmt.Errorf("the body of the item: %w", err)
		}
	}
	g.content = body.Content
	if g.state == masked {
		g.mask, g.state = true, "stopped"
	}
	switch want := i.Fields["enabled"]; want {
	case "":
	case "true":
		g.enabled = enabled
	case "false":
		g.enabled = disabled
	default:
		return refused("`enabled` is %q: use true or false", want)
	}
	switch {
	case g.mask && g.content != nil:
		return refused("a masked unit has no content: leave out `content` or the state \"masked\"")
	case g.state != "" && g.state != "running" && g.state != "stopped":
		return refused("a unit cannot be made %q: the states are running, stopped and masked", g.state)
	case g.content != nil && strings.TrimSpace(*g.content) == "":
		return refused("the unit file would be empty, which masks the unit. Use the state \"masked\" for that")
	case isTemplate(g.name) && g.state != "" && !g.mask:
		return refused("%s is a template, which cannot run. Name an instance such as %q", g.name, strings.Replace(g.name, "@", "@1", 1))
	}
	return g, nil
}

// takeUnit takes ownership of a unit that differs from the request. It adds to the goal the parts to restore,
// because the design no longer mentions them.
func (w *work) takeUnit(g *unitGoal, s seenUnits) error {
	u, at := s.files[g.name], unitFolder+"/"+g.name
	var before unitBefore
	var made unitMade
	owned := w.items.Load(g.key, &before, &made)
	if g.remove {
		if g.comeBack(before, made); u.path == "" && g.state != "stopped" {
			g.state = "" // a package removed the unit, so it cannot be started
		}
		return nil
	}
	if u.path == "" && g.content == nil && !g.mask {
		return w.noUnit(g.name)
	}
	e, err := w.tree.Look(at)
	if err != nil {
		return err
	}
	if other(e.Kind) {
		return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("%s is %s, which Slipway does not replace. Move it away", at, kindText(e))}
	}
	asked := (g.enabled != "" || g.state != "") && item.Kind(g.key) == item.KindUnits // an unlisted unit that is masked stays masked
	g.designed = unitMade{File: g.content != nil || g.mask, Enabled: g.enabled != "", State: g.state != ""}
	if owned {
		g.comeBack(before, made)
	} else if !w.unitIs(g, u, e, s) {
		if before, err = w.unitNow(g, u, e, s); err == nil {
			err = w.items.Take(g.key, before)
		}
		if err != nil {
			return err
		}
	} else {
		return nil
	}
	w.items.Load(g.key, nil, &made)
	g.unmask = g.content == nil && !g.mask && asked
	made.File = made.File || g.content != nil || g.mask || e.Target == "/dev/null" && g.unmask
	made.Enabled = made.Enabled || g.enabled != ""
	made.State = made.State || g.state != ""
	return w.items.Note(g.key, made)
}

// comeBack sets the goal to the earlier state for the parts that the design does not mention.
func (g *unitGoal) comeBack(before unitBefore, made unitMade) {
	g.back = made.File && g.content == nil && !g.mask
	g.links = made.Enabled && g.enabled == "" || g.remove
	if made.State && g.state == "" {
		g.state = before.State
		if before.State == "" && len(before.Links) > 0 {
			g.state = "running"
		}
		if g.state != "running" {
			g.state = "stopped"
		}
	}
	if g.back && !before.Exists {
		g.links, g.enabled, g.state = true, "", "stopped"
	}
}

// unitIs reports whether a unit matches the request.
func (w *work) unitIs(g *unitGoal, u unitFile, e tree.Entry, s seenUnits) bool {
	if g.mask != (u.enabled == masked) {
		return false
	}
	if g.content != nil {
		so, err := w.isFile(unitFolder+"/"+g.name, e, []byte(*g.content), 0o644, 0, 0)
		if err != nil || !so {
			return false
		}
	}
	state := s.states[g.name].active
	return (g.enabled == "" || enabledIs(u.enabled, g.enabled)) && (g.state == "" || !w.h.Live || state == g.state)
}

// enabledIs reports whether a unit is enabled as requested. A unit that cannot be enabled, or that only a generator
// enables, counts as disabled.
func enabledIs(is, want string) bool {
	if want == disabled {
		return is != enabled
	}
	return is == want
}

// unitNow is a unit's current state, kept for a later restore.
func (w *work) unitNow(g *unitGoal, u unitFile, e tree.Entry, s seenUnits) (unitBefore, error) {
	at := unitFolder + "/" + g.name
	file, err := w.kept(at, e, w.isSecret(item.KindFiles+"."+at))
	if err != nil {
		return unitBefore{}, err
	}
	folders, err := w.foldersOf(at)
	return unitBefore{Exists: u.path != "", File: file, Links: s.links.configured[g.name], State: s.states[g.name].active, Folders: folders}, err
}

// retireUnit stops a unit whose last file is about to be removed. A unit from a package may have lost its other
// files since.
func (w *work) retireUnit(g *unitGoal, s seenUnits) error {
	var before unitBefore
	w.items.Load(g.key, &before, nil)
	if !g.back || !w.h.Live || s.states[g.name].active != "running" {
		return nil
	}
	if isLast := before.File.Kind == tree.Nothing && path.Dir(s.files[g.name].path) == unitFolder; before.Exists && !(isLast && !w.hasOtherFile(g.name)) {
		return nil
	}
	return w.do("stop "+g.name, startTime, "stop", "--", g.name)
}

// finishUnit forgets a unit that was restored.
func (w *work) finishUnit(g *unitGoal) error {
	if g.remove {
		return w.items.Drop(g.key)
	}
	if err := w.keepDesigned(g); err != nil {
		return err
	}
	if u, err := w.unit(g.name, links{}); err != nil || u.path != "" {
		return err
	}
	return w.noUnit(g.name)
}

// keepDesigned forgets the restored parts of a unit. Slipway no longer manages them.
func (w *work) keepDesigned(g *unitGoal) error {
	var before unitBefore
	var made unitMade
	if !w.items.Load(g.key, &before, &made) {
		return nil
	}
	kept := g.designed
	kept.Restart, kept.Boot = made.Restart, made.Boot
	kept.File = kept.File || made.File && g.unmask && before.File.Target == "/dev/null" // the mask is restored with everything else
	kept.State = kept.State || made.State && !w.h.Live                                  // restored once services run
	return w.items.Note(g.key, kept)
}

func (w *work) noUnit(n string) error {
	return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("no unit %s on this system; add the package that brings it, or its `content`", n)}
}
