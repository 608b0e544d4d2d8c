package config

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// maxUnlisted bounds how many units are reported.
const maxUnlisted = 500

// observeUnlisted reports units that the design does not name: those that Slipway has disabled and, if asked, all
// that start with the system except the needed ones. The design is not known here, so the daemon removes the named
// units. observeUnlisted also reports the names by which the design may mean a unit.
func (w *work) observeUnlisted(keys []string) {
	var names []string
	for _, key := range keys {
		switch n := item.ID(key); {
		case key == item.KindUnlisted:
		case badUnit(n):
			w.seen.Cannot[key] = fmt.Sprintf("%q is not a name of a systemd unit such as \"chrony.service\"", n)
		default:
			names = append(names, n)
		}
	}
	if slices.Contains(keys, item.KindUnlisted) {
		found, err := w.unlisted(names)
		if err != nil {
			w.seen.Unread[item.KindUnlisted] = err.Error()
		}
		names = append(names, found...)
	}
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if len(names) == 0 {
		return
	}
	s, err := w.lookUnits(names)
	for _, n := range names {
		key, u := item.KindUnlisted+"."+n, s.files[n]
		switch {
		case err != nil:
			w.seen.Unread[key] = err.Error()
		case s.unread != "":
			w.seen.Unread[key] = s.unread
		case u.path != "" && u.enabled == "":
			w.seen.Unread[key] = "systemctl does not tell whether the unit is enabled"
		default:
			w.seen.Have[key] = startText(u, s.states[n].active)
		}
	}
}

// startText says whether a unit starts with the system, and its state. The state is empty if services do not run.
func startText(u unitFile, state string) string {
	switch {
	case u.enabled == enabled && state == "":
		return enabled
	case u.enabled == enabled:
		return enabled + ", " + state
	case state == "" || state == "stopped" || state == "failed":
		return item.Disabled
	}
	return item.Disabled + ", " + state
}

// unlisted are the services that start with the system, except the needed ones, and the sockets, timers and paths
// that start them. It also records their packages, including for the units that Slipway has disabled.
func (w *work) unlisted(disabled []string) ([]string, error) {
	l, err := w.readLinks()
	if err != nil {
		return nil, err
	}
	started, err := w.startedUnits(l)
	if err != nil {
		return nil, err
	}
	ours, err := w.filesOf(disabled, l)
	if err != nil {
		return nil, err
	}
	files := slices.AppendSeq(slices.Collect(maps.Values(started)), maps.Values(ours))
	from, err := w.packagesOf(slices.Compact(slices.Sorted(slices.Values(files))))
	if err != nil {
		return nil, err
	}
	packages, err := w.installedPackages()
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(started, func(_, file string) bool { return packages.isBase(from[file]) })
	found := w.servicesAndStarters(started)
	if len(found) > maxUnlisted {
		return nil, fmt.Errorf("%d units that are not part of the system start with it, more than %d", len(found), maxUnlisted)
	}
	for _, n := range found {
		ours[n] = started[n]
	}
	for n, file := range ours {
		if by := from[file]; by != "" {
			w.seen.Have[item.BroughtBy(n)] = strings.Join(append([]string{by}, packages.dependents(by)...), " ")
		}
	}
	return found, w.tellMeant(slices.Sorted(maps.Keys(ours)))
}

// startedUnits maps the units that start with the system to their files, except the needed ones.
func (w *work) startedUnits(l links) (map[string]string, error) {
	presets, err := w.presets()
	if err != nil {
		return nil, err
	}
	session := w.sessionUnits()
	files := map[string]string{}
	for n := range l.configured {
		if !slices.Contains([]string{".service", ".socket", ".timer", ".path"}, path.Ext(n)) || badUnit(n) || isTemplate(n) ||
			isNeeded(n) || presets.enables(n) || slices.Contains(session, n) {
			continue
		}
		u, err := w.unit(n, l)
		if err != nil {
			return nil, err
		}
		if u.path != "" && u.enabled == enabled {
			files[n] = w.packagedFile(n, u)
		}
	}
	return files, nil
}

// filesOf maps the existing units to their files.
func (w *work) filesOf(names []string, l links) (map[string]string, error) {
	files := map[string]string{}
	for _, n := range names {
		u, err := w.unit(n, l)
		if err != nil {
			return nil, err
		}
		if u.path != "" {
			files[n] = w.packagedFile(n, u)
		}
	}
	return files, nil
}

// servicesAndStarters are the services among the units, and the other units that start one of them.
func (w *work) servicesAndStarters(files map[string]string) (found []string) {
	names := slices.Sorted(maps.Keys(files))
	for _, n := range names {
		if path.Ext(n) == ".service" {
			found = append(found, n)
		}
	}
	services := found
	for _, n := range names {
		if path.Ext(n) != ".service" && slices.Contains(services, w.startedBy(n, files[n])) {
			found = append(found, n)
		}
	}
	return found
}

// startedBy is the service that a socket, timer or path starts.
func (w *work) startedBy(n, file string) string {
	starts := strings.TrimSuffix(n, path.Ext(n)) + ".service"
	text, err := w.tree.Read(file, maxUnit)
	if err != nil {
		return starts
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if name = strings.TrimSpace(name); (name == "Service" || name == "Unit") && strings.TrimSpace(value) != "" {
			starts = strings.TrimSpace(value)
		}
	}
	return starts
}

// packagedFile is the file of a unit that a package may have installed. A person may have put another file over it.
func (w *work) packagedFile(n string, u unitFile) string {
	for _, folder := range []string{"/usr/lib/systemd/system", "/lib/systemd/system"} {
		for _, name := range []string{n, template(n)} {
			if at := folder + "/" + name; w.tree.Exists(at) {
				return at
			}
		}
	}
	return u.path
}

// unlistedGoal is the goal for a unit that the design does not name.
func (w *work) unlistedGoal(i item.Item) (*unitGoal, error) {
	n := item.ID(i.Key)
	refused := func(format string, args ...any) (*unitGoal, error) {
		return nil, &wire.Error{Class: wire.Refused, Text: fmt.Sprintf(format, args...)}
	}
	switch {
	case badUnit(n):
		return refused("%q is not a name of a systemd unit such as \"chrony.service\"", n)
	case i.Fields[""] != item.Disabled:
		return refused("a unit that the design does not name cannot be made %q", i.Fields[""])
	case isNeeded(n) || slices.Contains(w.sessionUnits(), n):
		return refused("the system needs %s, so that Slipway does not disable it", n)
	}
	if _, ours := w.h.Owned.Entry(name, item.KindUnits+"."+n); ours {
		return nil, &wire.Error{Class: wire.Failed, Text: fmt.Sprintf("%s left the design, and Slipway has not yet set it back to what it was before: that comes first", n)}
	}
	return &unitGoal{key: i.Key, name: n, enabled: disabled, unlink: true, state: "stopped"}, nil
}

// goals are the goals for the requested units.
func (w *work) goals(items []item.Item) (goals []*unitGoal) {
	for _, i := range items {
		goal := goalOf
		if item.Kind(i.Key) == item.KindUnlisted {
			goal = w.unlistedGoal
		}
		g, err := goal(i)
		if err != nil {
			w.fail(i.Key, err)
			continue
		}
		goals = append(goals, g)
	}
	return goals
}

// servicesLast sorts keys so that a unit which starts services comes before them.
func servicesLast(a, b string) int {
	is := func(key string) int {
		if path.Ext(key) == ".service" {
			return 1
		}
		return 0
	}
	return is(a) - is(b)
}

// listed hands the earlier state of a disabled unit to its new item if the design now names the unit. It returns
// the keys of the other units, which are to be restored.
func (w *work) listed(leaving []string, units []item.Item) (rest []string) {
	for _, key := range leaving {
		named := item.KindUnits + "." + item.ID(key)
		if !slices.ContainsFunc(units, func(i item.Item) bool { return i.Key == named }) {
			rest = append(rest, key)
			continue
		}
		var before unitBefore
		var made unitMade
		w.items.Load(key, &before, nil)
		err := w.items.Take(named, before)
		if err == nil {
			w.items.Load(named, nil, &made)
			made.Enabled, made.State = true, true
			err = w.items.Note(named, made)
		}
		if err == nil {
			err = w.items.Drop(key)
		}
		if err != nil {
			w.fail(key, err)
		}
	}
	return rest
}

// sessionUnits are the services that started this program, directly or not: the SSH server's, whatever its name.
func (w *work) sessionUnits() (units []string) {
	if !w.h.Live {
		return nil
	}
	for pid, depth := w.pid, 0; pid != "" && pid != "0" && pid != "1" && depth < 32; depth++ {
		groups, _ := w.tree.Read("/proc/"+pid+"/cgroup", maxUnit) // an unreadable file means no group
		for _, part := range strings.FieldsFunc(string(groups), func(r rune) bool { return r == '/' || r == '\n' }) {
			if path.Ext(part) == ".service" {
				units = append(units, part)
			}
		}
		status, _ := w.tree.Read("/proc/"+pid+"/status", maxUnit)
		_, rest, _ := strings.Cut(string(status), "\nPPid:")
		parent, _, _ := strings.Cut(rest, "\n")
		pid = strings.TrimSpace(parent)
	}
	return slices.Compact(slices.Sorted(slices.Values(units)))
}
