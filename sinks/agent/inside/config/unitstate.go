package config

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/systemd"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
)

// unitState is systemd's state of a unit.
type unitState struct {
	active  string // "running", "stopped", "failed", or systemd's word
	oneshot bool
	result  string
	reload  bool // its file is newer than systemd's copy
}

// seenUnits are units as observed.
type seenUnits struct {
	links  links
	files  map[string]unitFile
	states map[string]unitState // empty if the services do not run
	unread string               // why the states could not be read
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

// askEnabled asks systemctl for the states that the files alone do not show.
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

// systemctl is a command without prompts and pager.
func (w *work) systemctl(flags []string, args ...string) inside.Command {
	all := append([]string{"--no-pager", "--no-ask-password"}, flags...)
	if !w.h.Live {
		all = append(all, "--root=/")
	}
	return inside.Command{Path: "systemctl", Args: append(all, args...), Timeout: time.Minute, Env: []string{"SYSTEMD_COLORS=0"}}
}

// showUnits asks systemd for the states of all units at once.
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
