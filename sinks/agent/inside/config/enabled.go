package config

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
)

// unitFolder holds the administrator's unit files.
const unitFolder = "/etc/systemd/system"

// unitFolders are those of systemd.unit(5), highest priority first.
var unitFolders = []string{
	"/etc/systemd/system.control", "/run/systemd/system.control", "/run/systemd/transient", "/run/systemd/generator.early",
	unitFolder, "/etc/systemd/system.attached", "/run/systemd/system", "/run/systemd/system.attached", "/run/systemd/generator",
	"/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system", "/run/systemd/generator.late",
}

// maxUnit bounds a unit file, in bytes.
const maxUnit = 1 << 20

// These are the words of `systemctl is-enabled` that matter here.
const (
	enabled  = "enabled"
	disabled = "disabled"
	static   = "static"
	indirect = "indirect"
	masked   = "masked"
	alias    = "alias"
)

var unitTypes = []string{"service", "socket", "device", "mount", "automount", "swap", "target", "path", "timer", "slice", "scope"}

// badUnit reports whether a name is not a valid unit name.
func badUnit(n string) bool {
	stem, kind := strings.TrimSuffix(n, path.Ext(n)), strings.TrimPrefix(path.Ext(n), ".")
	return len(n) > 255 || stem == "" || stem[0] == '@' || !slices.Contains(unitTypes, kind) ||
		strings.ContainsFunc(n, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(":-_.\\@", r))
		})
}

// template is the name of a unit's template, or the name itself.
func template(n string) string {
	if i := strings.IndexByte(n, '@'); i >= 0 {
		return n[:i+1] + path.Ext(n)
	}
	return n
}

func isTemplate(n string) bool {
	i := strings.IndexByte(n, '@')
	return i >= 0 && n[i+1:] == path.Ext(n)
}

// install is the section [Install] of a unit file.
type install struct {
	rules, also bool
	names       map[string][]string // by setting: the units of WantedBy and so on
}

// parseInstall reads the section [Install].
func parseInstall(text string) (found install) {
	section, continued := "", false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		was := continued
		if comment := line == "" || line[0] == '#' || line[0] == ';'; comment {
			continue // also inside a continued line
		}
		continued = strings.HasSuffix(line, "\\")
		if was {
			continue
		}
		if line[0] == '[' {
			section = line
			continue
		}
		n, value, ok := strings.Cut(line, "=")
		if section != "[Install]" || !ok || strings.TrimSpace(strings.TrimSuffix(value, "\\")) == "" {
			continue
		}
		switch n = strings.TrimSpace(n); n {
		case "WantedBy", "RequiredBy", "UpheldBy", "Alias":
			found.rules = true
			if found.names == nil {
				found.names = map[string][]string{}
			}
			found.names[n] = append(found.names[n], strings.Fields(value)...)
		case "Also":
			found.also = true
		}
	}
	return found
}

// links are the paths of the links that enable a unit. known is false if only systemd can tell.
func (i install) links(n string) (paths []string, known bool) {
	for setting, ending := range map[string]string{"WantedBy": ".wants/", "RequiredBy": ".requires/", "UpheldBy": ".upholds/", "Alias": ""} {
		for _, target := range i.names[setting] {
			if strings.ContainsAny(target, "%\\") || setting != "Alias" && isTemplate(target) {
				return nil, false
			}
			at := unitFolder + "/" + target
			if ending != "" {
				at += ending + n
			}
			paths = append(paths, at)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths), !strings.Contains(n, "@")
}

// unitFile is a unit as found in the files.
type unitFile struct {
	path    string // of the first file found; empty if there is no unit
	entry   tree.Entry
	enabled string // a word of `systemctl is-enabled`; empty if only systemctl can tell
}

// unitLink is a symbolic link that enables a unit.
type unitLink struct {
	Path   string `json:"path"`
	Target string `json:"target"`
}

// links are the links that enable units, by unit: those in folders such as multi-user.target.wants, and aliases.
type links struct{ configured, runtime map[string][]unitLink }

func (w *work) readLinks() (l links, err error) {
	if l.configured, err = w.linksBelow(unitFolder); err != nil {
		return l, err
	}
	l.runtime = map[string][]unitLink{}
	for _, folder := range []string{"/run/systemd/system", "/run/systemd/generator.early", "/run/systemd/generator", "/run/systemd/generator.late"} {
		found, err := w.linksBelow(folder)
		if err != nil {
			return l, err
		}
		for n, all := range found {
			l.runtime[n] = append(l.runtime[n], all...)
		}
	}
	return l, nil
}

func (w *work) linksBelow(folder string) (map[string][]unitLink, error) {
	found := map[string][]unitLink{}
	names, err := w.tree.Names(folder)
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		at := folder + "/" + n
		if ext := path.Ext(n); ext != ".wants" && ext != ".requires" && ext != ".upholds" {
			e, err := w.tree.Look(at)
			if err != nil {
				return nil, err
			}
			if target := path.Base(e.Target); e.Kind == tree.Link && target != n && e.Target != "/dev/null" {
				found[target] = append(found[target], unitLink{at, e.Target})
			}
			continue
		}
		inner, err := w.tree.Names(at)
		if err != nil {
			return nil, err
		}
		for _, i := range inner {
			e, err := w.tree.Look(at + "/" + i)
			if err != nil {
				return nil, err
			}
			if e.Kind == tree.Link {
				found[i] = append(found[i], unitLink{at + "/" + i, e.Target})
			}
		}
	}
	return found, nil
}

// restoreLinks restores the links that enable a unit.
func (w *work) restoreLinks(n string, before []unitLink) error {
	now, err := w.linksBelow(unitFolder)
	if err != nil {
		return err
	}
	for _, l := range now[n] {
		if slices.Contains(before, l) {
			continue
		}
		if err := w.tree.Remove(l.Path); err != nil {
			return err
		}
		if folder := path.Dir(l.Path); folder != unitFolder {
			if err := w.tree.RemoveFolders([]string{folder}); err != nil { // like systemctl disable
				return err
			}
		}
	}
	for _, l := range before {
		if slices.Contains(now[n], l) {
			continue
		}
		if err := w.tree.PutLink(l.Path, l.Target, 0, 0); err != nil {
			return err
		}
	}
	return nil
}

// unit finds a unit and how it is enabled.
func (w *work) unit(n string, l links) (unitFile, error) {
	for _, candidate := range slices.Compact([]string{n, template(n)}) {
		for _, folder := range unitFolders {
			at := folder + "/" + candidate
			e, err := w.tree.Look(at)
			if err != nil {
				return unitFile{}, err
			}
			if e.Kind == tree.Nothing || e.Kind == tree.Folder {
				continue
			}
			u := unitFile{path: at, entry: e}
			u.enabled, err = w.enabled(n, u, l)
			return u, err
		}
	}
	return unitFile{}, nil
}

func (w *work) enabled(n string, u unitFile, l links) (string, error) {
	target, err := w.tree.Resolve(u.path, true)
	if err != nil {
		return "", err
	}
	run := strings.HasPrefix(u.path, "/run/")
	switch {
	case target == "dev/null" && run, u.entry.Kind == tree.File && u.entry.Size == 0 && run:
		return "masked-runtime", nil
	case target == "dev/null", u.entry.Kind == tree.File && u.entry.Size == 0:
		return masked, nil
	case strings.HasPrefix(u.path, "/run/systemd/generator"), strings.HasPrefix(u.path, "/run/systemd/transient"), isTemplate(n):
		return "", nil
	case u.entry.Kind == tree.Link && path.Base(u.entry.Target) != path.Base(u.path):
		return alias, nil
	case len(l.configured[n]) > 0:
		return enabled, nil
	case len(l.runtime[n]) > 0:
		return "enabled-runtime", nil
	case u.entry.Kind == tree.Link && path.Dir(u.path) == unitFolder:
		return "linked", nil
	}
	text, err := w.tree.Read(u.path, maxUnit)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // a dangling link
	}
	if err != nil {
		return "", err
	}
	switch i := parseInstall(string(text)); {
	case i.rules:
		return disabled, nil
	case i.also:
		return indirect, nil
	}
	return static, nil
}
