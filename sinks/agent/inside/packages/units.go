package packages

import (
	"context"
	"encoding/json"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/systemd"
)

// made is the record of a package while it is removed.
type made struct {
	// Units are the files of its units. Units that still run after their files are gone are stopped, even by the
	// run after an interruption.
	Units []string `json:"units,omitempty"`
}

// stopTime bounds stopping units. It is longer than systemd's default of 90 seconds.
const stopTime = 3 * time.Minute

// unitFolders are the folders of packaged units.
var unitFolders = []string{"/usr/lib/systemd/system", "/lib/systemd/system"}

// unitTypes are stopped with their package. A mount is not, because its data may be in use.
var unitTypes = []string{".service", ".socket", ".timer", ".path"}

func isUnitFile(file string) bool {
	return slices.Contains(unitFolders, path.Dir(file)) && slices.Contains(unitTypes, path.Ext(file))
}

// noteUnits records the units of packages that are about to be removed. Many packages stop their units in their
// scripts, but not all: otherwise a program would keep running without its files.
func (a *apply) noteUnits(ctx context.Context, inv inventory, remove []string) error {
	if !a.h.Live {
		return nil
	}
	for _, name := range remove {
		files, err := a.m.files(ctx, a.h, inv, name)
		if err != nil {
			return err
		}
		units := slices.DeleteFunc(files, func(f string) bool { return !isUnitFile(f) })
		key := item.KindPackages + "." + name
		if _, ours := a.h.Owned.Entry(facetName, key); !ours || len(units) == 0 {
			continue
		}
		text, err := json.Marshal(made{Units: units})
		if err == nil {
			err = a.h.Owned.Note(facetName, key, text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stopUnits stops what still runs of removed packages.
func (a *apply) stopUnits(ctx context.Context, after inventory) error {
	for _, key := range a.h.Owned.Keys(facetName) {
		e, _ := a.h.Owned.Entry(facetName, key)
		var m made
		if item.Kind(key) != item.KindPackages || len(e.Made) == 0 || json.Unmarshal(e.Made, &m) != nil || len(m.Units) == 0 {
			continue
		}
		if name := item.ID(key); a.h.Live && !after.find(name).there() {
			running, err := a.orphans(ctx, m.Units)
			if err != nil {
				return err
			}
			if len(running) > 0 {
				a.h.Tell("stop " + some(running) + ", since the package " + name + " is removed")
				out, err := a.systemctl(ctx, append([]string{"stop", "--"}, running...)...)
				if err := outcome("package "+name+" is removed, and its units still run: systemctl stop "+some(running), out, err); err != nil {
					return err
				}
			}
		}
		if err := a.h.Owned.Note(facetName, key, nil); err != nil {
			return err
		}
	}
	return nil
}

// orphans are the running units whose files are gone. It leaves out a unit with another file, such as a person's in
// /etc/systemd/system.
func (a *apply) orphans(ctx context.Context, files []string) (running []string, err error) {
	var ask []string
	for _, file := range files {
		name := path.Base(file)
		stem, kind := strings.TrimSuffix(name, path.Ext(name)), path.Ext(name)
		switch {
		case exists(a.h, file):
		case strings.HasSuffix(stem, "@"):
			out, err := a.systemctl(ctx, "list-units", "--plain", "--no-legend", "--full", "--", stem+"*"+kind)
			if err := outcome("systemctl list-units", out, err); err != nil {
				return nil, err
			}
			for line := range strings.Lines(string(out.Out)) {
				if f := strings.Fields(line); len(f) > 0 && strings.HasPrefix(f[0], stem) {
					ask = append(ask, f[0])
				}
			}
		default:
			ask = append(ask, name)
		}
	}
	if len(ask) == 0 {
		return nil, nil
	}
	told, err := systemd.Show(ctx, a.h, ask, "Id", "LoadState", "ActiveState", "FragmentPath")
	if err != nil {
		return nil, failed("%v", err)
	}
	for _, p := range told {
		isGone := p["LoadState"] == "not-found" && p["FragmentPath"] == "" || isUnitFile(p["FragmentPath"]) && !exists(a.h, p["FragmentPath"])
		if isGone && slices.Contains([]string{"active", "activating", "reloading"}, p["ActiveState"]) && slices.Contains(ask, p["Id"]) {
			running = append(running, p["Id"])
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(running))), nil
}

func (a *apply) systemctl(ctx context.Context, args ...string) (inside.Output, error) {
	return a.h.Exec(ctx, inside.Command{Path: "systemctl", Args: append([]string{"--no-pager", "--no-ask-password"}, args...), Timeout: stopTime, Env: []string{"SYSTEMD_COLORS=0"}})
}
