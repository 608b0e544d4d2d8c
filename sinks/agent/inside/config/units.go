package config

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/systemd"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// unitState is what systemd says of a unit.
type unitState struct {
	active  string // "running", "stopped", "failed", or what systemd calls it
	oneshot bool
	result  string
	reload  bool // its file is newer than what systemd has read
}

// seenUnits are units as they are.
type seenUnits struct {
	links  links
	files  map[string]unitFile
	states map[string]unitState // empty where the services do not run
	unread string               // why the states could not be read
}

// lookUnits looks at units by name.
func (w *work) lookUnits(names []string) (seenUnits, error) {
	s := seenUnits{files: map[string]unitFile{}, states: map[string]unitState{}}
	l, err := w.readLinks()
	if s.links = l; err != nil {
		return s, err
	}
	var ask, show []string
	for _, n := range names {
		u, err := w.unit(n, l)
		if err != nil {
			return s, err
		}
		s.files[n] = u
		if u.path != "" && u.enabled == "" {
			ask = append(ask, n)
		}
		if !isTemplate(n) {
			show = append(show, n)
		}
	}
	w.askEnabled(ask, s.files)
	if w.h.Live && len(show) > 0 {
		s.states, err = w.showUnits(show)
		if err != nil {
			s.unread = err.Error()
		}
	}
	return s, nil
}

// askEnabled asks systemctl about what the files alone do not tell.
func (w *work) askEnabled(names []string, files map[string]unitFile) {
	if len(names) == 0 {
		return
	}
	o, err := w.h.Exec(w.ctx, w.systemctl(nil, append([]string{"is-enabled", "--"}, names...)...))
	words := strings.Fields(string(o.Out))
	if err != nil || len(words) != len(names) {
		return // enabled stays unknown
	}
	for i, n := range names {
		u := files[n]
		u.enabled = words[i]
		files[n] = u
	}
}

// systemctl is a command that asks nobody and prints to nobody's screen.
func (w *work) systemctl(flags []string, args ...string) inside.Command {
	all := append([]string{"--no-pager", "--no-ask-password"}, flags...)
	if !w.h.Live {
		all = append(all, "--root=/")
	}
	return inside.Command{Path: "systemctl", Args: append(all, args...), Timeout: time.Minute, Env: []string{"SYSTEMD_COLORS=0"}}
}

// showUnits asks systemd for the states of units, all at once.
func (w *work) showUnits(names []string) (map[string]unitState, error) {
	told, err := systemd.Show(w.ctx, w.h, names, "ActiveState", "SubState", "Type", "Result", "NeedDaemonReload")
	if err != nil {
		return nil, err
	}
	states := map[string]unitState{}
	for i, p := range told {
		s := unitState{active: p["ActiveState"], oneshot: p["Type"] == "oneshot", result: p["Result"], reload: p["NeedDaemonReload"] == "yes"}
		switch {
		case p["SubState"] == "auto-restart":
			s.active = "failed"
		case s.active == "active", s.active == "reloading", s.active == "activating":
			s.active = "running"
		case s.active == "inactive", s.active == "deactivating":
			s.active = "stopped"
		}
		states[names[i]] = s
	}
	return states, nil
}

func (w *work) observeUnits(keys []string) {
	var names []string
	for _, key := range keys {
		if badUnit(item.ID(key)) {
			w.seen.Cannot[key] = fmt.Sprintf("%q is not a name of a systemd unit such as \"chrony.service\"", item.ID(key))
			continue
		}
		names = append(names, item.ID(key))
	}
	if len(names) == 0 {
		return
	}
	s, err := w.lookUnits(names)
	for _, n := range names {
		if err != nil {
			w.seen.Unread[item.KindUnits+"."+n] = err.Error()
		} else if err := w.tellUnit(n, s); err != nil {
			w.seen.Unread[item.KindUnits+"."+n] = err.Error()
		}
	}
}

func (w *work) tellUnit(n string, s seenUnits) error {
	key, u := item.KindUnits+"."+n, s.files[n]
	if u.path == "" {
		return nil
	}
	if path.Dir(u.path) == unitFolder && path.Base(u.path) == n && u.enabled != masked {
		content := kindText(u.entry)
		if u.entry.Kind == tree.File {
			var err error
			if content, err = w.tree.Digest(w.ctx, u.path, item.MaxArtifact); err != nil {
				return err
			}
		}
		var made unitMade
		w.items.Load(key, nil, &made)
		switch {
		case !w.h.Live || isTemplate(n):
		case s.states[n].reload:
			content += unreadText
		case w.mustRestart(made) && s.states[n].active == "running":
			content += olderText(n)
		}
		w.seen.Have[item.Name(key, "content")] = content
	}
	if u.enabled == "" {
		w.seen.Unread[key] = "systemctl does not tell whether the unit is enabled"
	} else {
		w.seen.Have[item.Name(key, "enabled")] = strconv.FormatBool(u.enabled == enabled)
	}
	at := item.Name(key, "state")
	switch {
	case strings.HasPrefix(u.enabled, masked):
		w.seen.Have[at] = masked
	case isTemplate(n):
	case s.unread != "":
		w.seen.Unread[key] = s.unread
	case !w.h.Live:
		w.seen.Have[at] = "stopped"
		if u.enabled == enabled {
			w.seen.Pending[at], w.seen.Waits = "running", "reboot"
		}
	default:
		w.seen.Have[at] = s.states[n].active
	}
	return nil
}

// unitBefore is a unit as it was before it was ours.
type unitBefore struct {
	Exists  bool       `json:"exists,omitempty"` // the unit, wherever its file is
	File    place      `json:"file"`             // in /etc/systemd/system
	Links   []unitLink `json:"links,omitempty"`
	State   string     `json:"state,omitempty"` // empty where the services did not run
	Folders []string   `json:"folders,omitempty"`
}

// unitMade says which parts of a unit were made, and whether it must be restarted.
type unitMade struct {
	File    bool `json:"file,omitempty"`
	Enabled bool `json:"enabled,omitempty"`
	State   bool `json:"state,omitempty"`
	Restart bool `json:"restart,omitempty"`
	// Boot is the one in which it must be: at the next one it starts by its new file. Lists of
	// before have none.
	Boot string `json:"boot,omitempty"`
}

// unitGoal is what is to become of a unit.
type unitGoal struct {
	key, name string
	content   *string // of the file; nil for none of ours
	mask      bool
	enabled   string // the word enabled or disabled, or nothing
	state     string // "running", "stopped", or nothing
	back      bool   // the file comes back as it was
	unmask    bool   // a link to /dev/null does not
	links     bool   // the links that enable it come back as they were
	unlink    bool   // they are all that is taken away
	remove    bool
	// designed are the parts that the design asks for: no other comes back a second time.
	designed unitMade
}

// failedUnit stops the work on a unit.
func (w *work) failedUnit(goals *[]*unitGoal, g *unitGoal, err error) {
	w.fail(g.key, err)
	*goals = slices.DeleteFunc(*goals, func(o *unitGoal) bool { return o == g })
}

// each does something for every goal; those that fail are left out from then on.
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

// takeUnit owns a unit that is not as asked for, and adds to the goal what comes
// back since the design says nothing of it any more.
func (w *work) takeUnit(g *unitGoal, s seenUnits) error {
	u, at := s.files[g.name], unitFolder+"/"+g.name
	var before unitBefore
	var made unitMade
	owned := w.items.Load(g.key, &before, &made)
	if g.remove {
		if g.comeBack(before, made); u.path == "" && g.state != "stopped" {
			g.state = "" // a package took the unit away, and cannot have it started
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
	asked := (g.enabled != "" || g.state != "") && item.Kind(g.key) == item.KindUnits // a mask of one that is not named stays
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

// comeBack asks for what was there before, where the design says nothing.
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

// unitIs tells whether a unit is as asked for.
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

// enabledIs tells whether a unit is enabled as asked for. What cannot be enabled,
// or is so by a generator alone, is as good as disabled.
func enabledIs(is, want string) bool {
	if want == disabled {
		return is != enabled
	}
	return is == want
}

// unitNow is a unit as it is, to be put back one day.
func (w *work) unitNow(g *unitGoal, u unitFile, e tree.Entry, s seenUnits) (unitBefore, error) {
	file, err := w.kept(unitFolder+"/"+g.name, e)
	if err != nil {
		return unitBefore{}, err
	}
	folders, err := w.foldersOf(unitFolder + "/" + g.name)
	return unitBefore{Exists: u.path != "", File: file, Links: s.links.configured[g.name], State: s.states[g.name].active, Folders: folders}, err
}

// retireUnit stops a unit whose last file is about to go. One that a package brought can
// have lost its other files since.
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

// hasOtherFile says whether a unit has a file besides that in /etc/systemd/system.
func (w *work) hasOtherFile(n string) bool {
	return slices.ContainsFunc(unitFolders, func(folder string) bool {
		return folder != unitFolder && (w.tree.Exists(folder+"/"+n) || w.tree.Exists(folder+"/"+template(n)))
	})
}

// fileOfUnit makes the file in /etc/systemd/system so.
func (w *work) fileOfUnit(g *unitGoal, s seenUnits) (changed bool, err error) {
	at := unitFolder + "/" + g.name
	was, err := w.tree.Look(at)
	if err != nil {
		return false, err
	}
	var before unitBefore
	w.items.Load(g.key, &before, nil)
	isMask := was.Kind == tree.Link && was.Target == "/dev/null"
	switch {
	case g.content != nil:
		p := place{Kind: tree.File, Content: []byte(*g.content), Mode: 0o644}
		return w.placeUnit(g, at, p, s)
	case g.mask && isMask:
		return false, w.tree.Sweep(at)
	case g.mask:
		return true, w.tree.PutLink(at, "/dev/null", 0, 0)
	case !g.back && !(g.unmask && isMask):
		return false, nil
	case !g.back, g.unmask && before.File.Target == "/dev/null":
		return w.placeUnit(g, at, place{}, s)
	}
	if changed, err = w.placeUnit(g, at, before.File, s); err == nil && before.File.Kind == tree.Nothing {
		err = w.tree.RemoveFolders(before.Folders)
	}
	return changed, err
}

// placeUnit puts a unit file in place. A unit that runs is to be restarted, which
// is noted first.
func (w *work) placeUnit(g *unitGoal, at string, p place, s seenUnits) (changed bool, err error) {
	if !w.differs(at, p) {
		return false, w.putBack(at, p)
	}
	if s.states[g.name].active == "running" && g.state != "stopped" {
		var made unitMade
		w.items.Load(g.key, nil, &made)
		made.Restart, made.Boot = true, w.bootID()
		if err := w.items.Note(g.key, made); err != nil {
			return false, err
		}
	}
	return true, w.putBack(at, p)
}

// differs tells whether a path has another content than a place.
func (w *work) differs(at string, p place) bool {
	e, err := w.tree.Look(at)
	if err != nil || e.Kind != p.Kind {
		return true
	}
	if e.Kind != tree.File {
		return e.Target != p.Target
	}
	if p.Secret {
		return true
	}
	digest, err := w.tree.Digest(w.ctx, at, item.MaxArtifact)
	return err != nil || digest != item.Digest(p.Content)
}

// enableUnit enables or disables a unit.
func (w *work) enableUnit(g *unitGoal) error {
	if g.links {
		var before unitBefore
		w.items.Load(g.key, &before, nil)
		u, err := w.unit(g.name, links{})
		if err != nil {
			return err
		}
		if before.Exists && u.path == "" { // a package took the unit away, and its links with it
			before.Links = nil
		}
		return w.restoreLinks(g.name, before.Links)
	}
	if g.unlink { // exactly these come back, and nothing else that systemctl would take away
		return w.restoreLinks(g.name, nil)
	}
	if g.enabled == "" {
		return nil
	}
	if g.enabled == enabled && (g.content != nil || g.back) {
		if err := w.dropOldLinks(g.name); err != nil {
			return err
		}
	}
	is, err := w.isEnabled(g.name)
	if strings.HasPrefix(is, masked) { // by intent, or else starting it tells
		return err
	}
	if err != nil || enabledIs(is, g.enabled) || is == "" && g.enabled == disabled {
		return err
	}
	refused := func(format string, args ...any) error {
		return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf(format, args...)}
	}
	switch {
	case g.enabled == enabled && is == static:
		return refused("%s cannot be enabled: its unit file has no section [Install]. Leave out `enabled`, or enable the unit that starts it", g.name)
	case g.enabled == enabled && is == alias:
		return refused("%s is another name of a unit. Write that unit's own name", g.name)
	}
	verb := map[string]string{enabled: "enable", disabled: "disable"}[g.enabled]
	if err := w.do(verb+" "+g.name, time.Minute, "--no-reload", verb, "--", g.name); err != nil {
		return err
	}
	if is, err = w.isEnabled(g.name); err == nil && !enabledIs(is, g.enabled) {
		return refused("systemctl %s left %s %q", verb, g.name, orElse(is, "as it was"))
	}
	return err
}

// dropOldLinks disables a unit that an earlier unit file enabled in another way.
func (w *work) dropOldLinks(n string) error {
	l, err := w.readLinks()
	if err != nil || len(l.configured[n]) == 0 {
		return err
	}
	u, err := w.unit(n, l)
	if err != nil || u.path == "" {
		return err
	}
	text, err := w.tree.Read(u.path, maxUnit)
	if err != nil {
		return err
	}
	want, known := parseInstall(string(text)).links(n)
	var now []string
	for _, link := range l.configured[n] {
		now = append(now, link.Path)
	}
	if slices.Sort(now); !known || slices.Equal(now, want) {
		return nil
	}
	return w.do("", time.Minute, "--no-reload", "disable", "--", n)
}

func (w *work) isEnabled(n string) (string, error) {
	l, err := w.readLinks()
	if err != nil {
		return "", err
	}
	u, err := w.unit(n, l)
	if err != nil || u.path == "" || u.enabled != "" {
		return u.enabled, err
	}
	files := map[string]unitFile{n: u}
	w.askEnabled([]string{n}, files)
	return files[n].enabled, nil
}

// do runs systemctl and tells what it is for.
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

// startTime is how long a unit may take to start or stop: more than systemd's own
// bound of 90 seconds.
const startTime = 3 * time.Minute

// mustRestart says whether a unit runs by an earlier file of this boot.
func (w *work) mustRestart(made unitMade) bool {
	return made.Restart && (made.Boot == "" || made.Boot == w.bootID())
}

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
			_ = w.do("", time.Minute, "reset-failed", "--", g.name) // one that systemd has forgotten is as good
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

// goneUnit tells whether a unit to be set back has no file any more.
func (w *work) goneUnit(g *unitGoal) (bool, error) {
	if !g.back {
		return false, nil
	}
	u, err := w.unit(g.name, links{})
	return u.path == "", err
}

// notStarted tells why a unit does not start, in the words of systemctl status.
func (w *work) notStarted(g *unitGoal, err error) error {
	o, _ := w.h.Exec(w.ctx, w.systemctl([]string{"--lines=8", "--full"}, "status", "--", g.name)) // without it the first error tells
	status := inside.Lines(inside.Said(o.Out), 12)
	if status == "" {
		status = err.Error()
	}
	return &wire.Error{Class: wire.Failed, Text: fmt.Sprintf("%s did not start. systemctl status says:\n%s", g.name, status)}
}

// verifyUnits looks once more at what was to run.
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

// finishUnit forgets a unit that was set back.
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

// keepDesigned forgets the parts of a unit that have come back: what becomes of them from
// now on is nothing to Slipway.
func (w *work) keepDesigned(g *unitGoal) error {
	var before unitBefore
	var made unitMade
	if !w.items.Load(g.key, &before, &made) {
		return nil
	}
	kept := g.designed
	kept.Restart, kept.Boot = made.Restart, made.Boot
	kept.File = kept.File || made.File && g.unmask && before.File.Target == "/dev/null" // the mask comes back with all else
	kept.State = kept.State || made.State && !w.h.Live                                  // which comes back where services run
	return w.items.Note(g.key, kept)
}

func (w *work) noUnit(n string) error {
	return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("no unit %s on this system; add the package that brings it, or its `content`", n)}
}
