package config

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
)

// maxSurveyUnit bounds a unit file in a survey, in bytes.
const maxSurveyUnit = 16 << 10

// Survey lists kernel parameters and modules that a person has set in files below /etc, unit files of
// /etc/systemd/system, and units that are enabled, disabled or masked other than by default. It returns contents
// only of unit files, and only if they are small and contain nothing that looks like a secret.
func (f facet) Survey(ctx context.Context, h *inside.Host) (found item.Found, err error) {
	w, err := f.begin(ctx, h)
	if err != nil {
		return found, err
	}
	defer w.tree.Close()
	if err := w.surveySysctl(&found); err != nil {
		found.Leave("sysctl", "the settings could not be read: %v", err)
	}
	if err := w.surveyModules(&found); err != nil {
		found.Leave("modules", "the settings could not be read: %v", err)
	}
	if err := w.surveyUnits(&found); err != nil {
		found.Leave("units", "the units could not be read: %v", err)
	}
	return found, nil
}

// byHand reports whether a settings file was written by a person: it is below /etc and not as a package installed
// it.
func (w *work) byHand(file, ours string) bool {
	return strings.HasPrefix(file, "/etc/") && file != ours && !w.brought(file)
}

// designSysctl matches the name of a kernel parameter in a design.
var designSysctl = inside.Pattern(`^[a-z0-9_.*/-]+$`)

func (w *work) surveySysctl(found *item.Found) error {
	lines, err := w.sysctlLines()
	if err != nil {
		return err
	}
	byHand := map[string]bool{}
	var keys []string
	for _, a := range lines {
		mine, known := byHand[a.file]
		if !known {
			mine = w.byHand(a.file, sysctlFile)
			byHand[a.file] = mine
		}
		key := item.KindSysctl + "." + sysctlName(a.path)
		switch {
		case !mine || slices.Contains(keys, key):
		case a.exclude || isPattern(a.path):
			found.Leave(key, "%s sets it for a pattern of names, which is another thing on each machine", a.file)
		case !designSysctl().MatchString(item.ID(key)) || badSysctl(item.ID(key)) != "":
			found.Leave(key, "a design has no parameters of this name; %s sets it", a.file)
		default:
			keys = append(keys, key)
		}
	}
	if target, _ := w.tree.Look("/etc/sysctl.conf"); target.Kind == tree.File && !slices.ContainsFunc(lines, func(a assignment) bool { return path.Base(a.file) == "99-sysctl.conf" }) {
		w.surveySysctlConf(found)
	}
	w.observeSysctl(keys, true)
	for _, key := range keys {
		boot, _ := atBoot(lines, sysctlPath(item.ID(key)))
		switch have := w.seen.Have[key]; {
		case w.seen.Cannot[key] != "":
			found.Leave(key, "%s", w.seen.Cannot[key])
		case w.seen.Unread[key] != "":
			found.Leave(key, "it could not be read: %s", w.seen.Unread[key])
		case have != boot.value:
			found.Leave(key, "%s sets %q, and the system has %s", boot.file, boot.value, have)
		default:
			found.Items = append(found.Items, item.New(key, map[string]string{"": have}, nil))
		}
	}
	return nil
}

// surveySysctlConf reports a file that sysctl(8) reads but systemd does not.
func (w *work) surveySysctlConf(found *item.Found) {
	text, err := w.tree.Read("/etc/sysctl.conf", maxConfig)
	if err != nil {
		return
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if a, ok := parseSysctl("/etc/sysctl.conf", line); ok {
			found.Leave(item.KindSysctl+"."+sysctlName(a.path), "/etc/sysctl.conf sets it, which this system does not read at boot: no file of /etc/sysctl.d leads there")
		}
	}
}

// sysctlName is the name of a parameter, from its path below /proc/sys.
func sysctlName(at string) string {
	if strings.Contains(at, ".") {
		return at
	}
	return strings.ReplaceAll(at, "/", ".")
}

// designModule matches the name of a module in a design.
var designModule = inside.Pattern(`^[A-Za-z0-9_-]+$`)

func (w *work) surveyModules(found *item.Found) error {
	var keys []string
	err := w.configLines([]string{"/etc/modules-load.d"}, func(file, line string) {
		key := item.KindModules + "." + line
		switch {
		case strings.Contains(path.Base(file), "slipway") || w.brought(file) || slices.Contains(keys, key):
		case !designModule().MatchString(line):
			found.Leave(file, "it names %q, which is not a module that a design can name", line)
		default:
			keys = append(keys, key)
		}
	})
	if err != nil {
		return err
	}
	w.observeModules(keys)
	for _, key := range keys {
		have := w.seen.Have[key+".parameters"]
		made, named, err := w.persistedModule(key)
		switch {
		case w.seen.Cannot[key] != "":
			found.Leave(key, "%s", w.seen.Cannot[key])
		case err != nil || w.seen.Unread[key] != "":
			found.Leave(key, "its settings could not be read")
		case !named || have != made.Parameters || w.seen.Pending[key+".parameters"] != "":
			found.Leave(key, "it is to be loaded at boot, and is not loaded now, or with other parameters")
		default:
			found.Items = append(found.Items, item.New(key, map[string]string{"parameters": have}, nil))
		}
	}
	return nil
}

// dshFolder is where Debian's packages record the units that they enabled.
const dshFolder = "/var/lib/systemd/deb-systemd-helper-enabled"

func (w *work) surveyUnits(found *item.Found) error {
	own, err := w.ownUnits(found)
	if err != nil {
		return err
	}
	all, err := w.changedUnits(found)
	if err != nil {
		return err
	}
	names := slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(own), all...))))
	if len(names) == 0 {
		return nil
	}
	s, err := w.lookUnits(names)
	if err != nil {
		return err
	}
	for _, n := range names {
		key := item.KindUnits + "." + n
		if err := w.tellUnit(n, s); err != nil {
			w.seen.Unread[key] = err.Error()
		}
		if why := w.seen.Unread[key]; why != "" {
			found.Leave(key, "%s", why)
			continue
		}
		if i, ok := w.unitItem(found, n, s, slices.Contains(own, n)); ok {
			found.Items = append(found.Items, i)
		}
	}
	return nil
}

// ownUnits are the units whose files are in /etc/systemd/system, or that are masked there.
func (w *work) ownUnits(found *item.Found) (own []string, err error) {
	names, err := w.tree.Names(unitFolder)
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		at := unitFolder + "/" + n
		e, err := w.tree.Look(at)
		if err != nil {
			return nil, err
		}
		switch {
		case e.Kind == tree.Folder && strings.HasSuffix(n, ".d"):
			if inner, _ := w.tree.Names(at); slices.ContainsFunc(inner, func(i string) bool { return strings.HasSuffix(i, ".conf") && i != "slipway.conf" }) {
				found.Leave(item.KindUnits+"."+strings.TrimSuffix(n, ".d"), "it has settings in %s, which a design has no unit for; they stay as they are", at)
			}
		case badUnit(n):
		case e.Kind == tree.File, e.Kind == tree.Link && e.Target == "/dev/null":
			own = append(own, n)
		}
	}
	return own, nil
}

// changedUnits are units that are enabled or disabled other than by default: other than presets say or, on Debian,
// other than packages recorded.
func (w *work) changedUnits(found *item.Found) (changed []string, err error) {
	o, err := w.h.Exec(w.ctx, w.systemctl([]string{"--no-legend", "--full"}, "list-unit-files", "--state=enabled,disabled"))
	if err == nil && o.Code != 0 {
		err = fmt.Errorf("systemctl list-unit-files: %s", o.LastLines(3))
	}
	if err != nil {
		return nil, err
	}
	noted := w.noted()
	for line := range strings.Lines(string(o.Out)) {
		f := strings.Fields(line)
		if len(f) < 2 || badUnit(f[0]) || isTemplate(f[0]) {
			continue
		}
		if _, ours := w.h.Owned.Entry(name, item.KindUnlisted+"."+f[0]); ours {
			continue // only Slipway has disabled it
		}
		first := ""
		if len(f) > 2 {
			first = f[2] // the preset
		}
		switch {
		case w.tree.Exists(dshFolder + "/" + f[0] + ".dsh-also"): // a package has decided
			first = disabled
			if noted[f[0]] {
				first = enabled
			}
		case w.tree.Exists(dshFolder) && f[1] == disabled:
			continue // Debian's presets enable everything, and not every system needs Debian's own units
		}
		if (first == enabled || first == disabled) && f[1] != first {
			changed = append(changed, f[0])
		}
	}
	return append(changed, w.instances()...), nil
}

// noted are the units that Debian's packages have enabled.
func (w *work) noted() map[string]bool {
	units := map[string]bool{}
	folders, _ := w.tree.Names(dshFolder) // an unreadable folder counts as empty
	for _, folder := range folders {
		if ext := path.Ext(folder); ext == ".wants" || ext == ".requires" {
			names, _ := w.tree.Names(dshFolder + "/" + folder)
			for _, n := range names {
				units[n] = true
			}
		}
	}
	return units
}

// instances are the enabled units of templates, except a template's default instance.
func (w *work) instances() (all []string) {
	l, err := w.readLinks()
	if err != nil {
		return nil
	}
	for n := range l.configured {
		if !strings.Contains(n, "@") || isTemplate(n) || badUnit(n) {
			continue
		}
		u, err := w.unit(n, l)
		if err != nil || u.path == "" {
			continue
		}
		text, err := w.tree.Read(u.path, maxUnit)
		_, instance, _ := strings.Cut(strings.TrimSuffix(n, path.Ext(n)), "@")
		if err == nil && !strings.Contains(string(text), "DefaultInstance="+instance+"\n") {
			all = append(all, n)
		}
	}
	return all
}

// unitItem is a unit as a design item.
func (w *work) unitItem(found *item.Found, n string, s seenUnits, own bool) (item.Item, bool) {
	key, u := item.KindUnits+"."+n, s.files[n]
	fields, body := map[string]string{}, item.Unit{}
	if u.enabled == masked {
		return item.New(key, map[string]string{"state": masked}, body), true
	}
	if have, told := w.seen.Have[key+".enabled"]; told && (u.enabled == enabled || u.enabled == disabled) {
		fields["enabled"] = have
	}
	if own {
		if u.path != unitFolder+"/"+n {
			return item.Item{}, false
		}
		text, why := w.unitText(u)
		if why != "" {
			found.Leave(key+".content", "%s", why)
		} else {
			body.Content, fields["content"] = &text, item.Digest([]byte(text))
		}
		if state := s.states[n]; state.active == "running" && !state.oneshot && u.enabled == enabled {
			fields["state"] = "running"
		}
	}
	if len(fields) == 0 {
		return item.Item{}, false
	}
	return item.New(key, fields, body), true
}

// secretWord matches words that a unit file with a secret is likely to contain. It may match too much: the survey
// reports a file that it leaves out.
var secretWord = inside.Pattern(`(?i)pass(word|wd|phrase)?\b|passw|secret|token|credential|private.?key|api.?key|access.?key|auth|bearer|key=|://[^/\s]*:[^/\s]*@|-----BEGIN|[A-Za-z0-9+/_=-]{40}`)

// unitText is the content of a unit file, or why it is not shown.
func (w *work) unitText(u unitFile) (text, why string) {
	if u.entry.Size > maxSurveyUnit {
		return "", fmt.Sprintf("the unit file has %d bytes, more than %d: write it to the design yourself", u.entry.Size, maxSurveyUnit)
	}
	content, err := w.tree.Read(u.path, maxSurveyUnit)
	if err != nil {
		return "", err.Error()
	}
	text = string(content)
	switch {
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }):
		return "", "the unit file is not plain text: write it to the design yourself"
	case secretWord().MatchString(withoutPaths(text)):
		return "", "the unit file has what may be a secret, so Slipway does not copy its content: write it to the design yourself, without the secret"
	}
	return text, ""
}

// longPath matches a path, which is not a secret at any length.
var longPath = inside.Pattern(`(^|[\s=:"'])(/[A-Za-z0-9._-]+)+`)

func withoutPaths(text string) string { return longPath().ReplaceAllString(text, "$1") }
