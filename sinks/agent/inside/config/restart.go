package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// unreadText follows the state of a file that systemd does not use yet.
const unreadText = " (systemd has not read it)"

// uncreatedText follows the state of a file that systemd-tmpfiles has not processed.
const uncreatedText = " (systemd-tmpfiles has not read it)"

// tmpfiles is the folder of tmpfiles.d(5), whose files say which files and folders to create. Slipway applies a
// changed file at once; otherwise it would apply only at the next boot.
const tmpfiles = "/etc/tmpfiles.d"

// olderText follows the state of a file that a unit has not reloaded.
func olderText(unit string) string {
	return " (" + unit + " runs by an earlier one, and must be restarted)"
}

// createTime is how long systemd-tmpfiles may take.
const createTime = time.Minute

// readersOf lists the units to restart when a file changes, by path.
func readersOf(units []item.Item) map[string][]string {
	readers := map[string][]string{}
	for _, i := range units {
		var body item.Unit
		if json.Unmarshal(i.Body, &body) != nil || badUnit(item.ID(i.Key)) || isTemplate(item.ID(i.Key)) {
			continue // reported with the unit
		}
		for _, file := range body.RestartOn {
			readers[file] = append(readers[file], item.ID(i.Key))
		}
	}
	return readers
}

// noteChange records, before a file changes, what must follow: systemd reads the file again, such as a drop-in, and
// the units that use it restart.
func (w *work) noteChange(key, file string) error {
	if !w.h.Live {
		return nil
	}
	ofSystemd := slices.ContainsFunc(unitFolders, func(folder string) bool { return below(file, folder) })
	creates := isTmpfile(file)
	if !ofSystemd && !creates && len(w.readers[file]) == 0 {
		return nil
	}
	var made madeFile
	w.items.Load(key, nil, &made)
	if creates {
		made.Uncreated = w.bootID()
		w.uncreated = append(w.uncreated, key)
	}
	if ofSystemd {
		made.Unread = w.bootID()
		w.unread = append(w.unread, key)
	}
	if units := w.readers[file]; len(units) > 0 {
		if made.Boot != w.bootID() {
			made.Restart = nil
		}
		made.Restart = slices.Compact(slices.Sorted(slices.Values(slices.Concat(made.Restart, units))))
		made.Boot = w.bootID()
		w.unheard = append(w.unheard, key)
	}
	return w.items.Note(key, made)
}

// readLeft finds the files that an earlier run changed without the follow-up.
func (w *work) readLeft() {
	for _, key := range w.h.Owned.Keys(name) {
		var made madeFile
		if item.Kind(key) != item.KindFiles || !w.items.Load(key, nil, &made) {
			continue
		}
		if made.Unread != "" && made.Unread == w.bootID() {
			w.unread = append(w.unread, key)
		}
		if made.Uncreated != "" && made.Uncreated == w.bootID() {
			w.uncreated = append(w.uncreated, key)
		}
		if w.mustBeHeard(made) {
			w.unheard = append(w.unheard, key)
		}
	}
}

// mustBeHeard reports whether units must still restart for a file that changed in this boot.
func (w *work) mustBeHeard(made madeFile) bool {
	return len(made.Restart) > 0 && made.Boot == w.bootID()
}

// unheeded is the text for a file that its reader does not use yet.
func (w *work) unheeded(key string) (string, error) {
	var made madeFile
	if w.items.Load(key, nil, &made); !w.h.Live {
		return "", nil
	}
	if made.Unread != "" && made.Unread == w.bootID() {
		return unreadText, nil
	}
	if made.Uncreated != "" && made.Uncreated == w.bootID() {
		return uncreatedText, nil
	}
	if !w.mustBeHeard(made) {
		return "", nil
	}
	states, err := w.showUnits(made.Restart)
	if err != nil {
		return "", err
	}
	for _, unit := range made.Restart {
		if states[unit].active == "running" {
			return olderText(unit), nil
		}
	}
	return "", nil
}

// haveRead records that systemd has read the changed files.
func (w *work) haveRead() error {
	for _, key := range w.unread {
		if err := w.noteRead(key, func(made *madeFile) { made.Unread = "" }); err != nil {
			return err
		}
	}
	w.unread = nil
	return nil
}

// isTmpfile reports whether systemd-tmpfiles reads a file.
func isTmpfile(file string) bool { return path.Dir(file) == tmpfiles && path.Ext(file) == ".conf" }

// create makes systemd-tmpfiles process the changed files. What a removed file's lines created stays.
func (w *work) create() {
	for _, key := range slices.Compact(slices.Sorted(slices.Values(w.uncreated))) {
		file := item.ID(key)
		e, err := w.tree.Look(file)
		if err == nil && e.Kind == tree.File {
			if err = w.createBy(key, file); slices.Contains(w.gone, key) {
				err = nil // the lines are not the design's
			}
		}
		if err == nil {
			err = w.noteRead(key, func(made *madeFile) { made.Uncreated = "" })
		}
		if err != nil {
			w.fail(key, err)
		}
	}
	w.uncreated = nil
}

func (w *work) createBy(key, file string) error {
	o, err := w.run("systemd-tmpfiles", createTime, "--create", "--", file)
	if err == nil && o.Code != 0 {
		said := o.LastLines(3)
		if w.isSecret(key) {
			said = item.IsSecret
		}
		return &wire.Error{Class: wire.Failed, Text: fmt.Sprintf("systemd-tmpfiles did not carry out %s: %s. Correct its lines in the design, or restart the machine if they need something that exists only after a boot", file, said)}
	}
	return err
}

// restartReaders restarts the units that still use older files, each once.
func (w *work) restartReaders() error {
	because := map[string]string{} // files by unit
	for _, key := range w.unheard {
		var made madeFile
		w.items.Load(key, nil, &made)
		for _, unit := range made.Restart {
			because[unit] = item.ID(key)
		}
	}
	units := slices.Sorted(maps.Keys(because))
	if len(units) == 0 {
		return nil
	}
	states, err := w.showUnits(units)
	if err != nil {
		return err
	}
	for _, unit := range units {
		if states[unit].active != "running" || slices.Contains(w.started, unit) {
			continue
		}
		if err := w.do(fmt.Sprintf("restart %s, since %s changed", unit, because[unit]), startTime, "restart", "--", unit); err != nil {
			return w.notStarted(&unitGoal{key: item.KindUnits + "." + unit, name: unit}, err)
		}
	}
	for _, key := range w.unheard {
		if err := w.noteRead(key, func(made *madeFile) { made.Restart, made.Boot = nil, "" }); err != nil {
			return err
		}
	}
	w.unheard = nil
	return nil
}

// noteRead records that a changed file was read. It forgets a removed file once nothing else must read it.
func (w *work) noteRead(key string, note func(*madeFile)) error {
	var made madeFile
	if !w.items.Load(key, nil, &made) {
		return nil
	}
	if note(&made); slices.Contains(w.gone, key) && made.Unread == "" && made.Uncreated == "" && len(made.Restart) == 0 {
		return w.items.Drop(key)
	}
	return w.items.Note(key, made)
}
