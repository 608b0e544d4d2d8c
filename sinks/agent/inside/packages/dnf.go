package packages

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// dnf is the package manager of the RHEL family.
type dnf struct{}

const dnfConf = "/etc/dnf/dnf.conf"

// dnfOptions apply to every dnf that changes something. It installs no recommended packages, and does not remove
// former dependencies.
var dnfOptions = []string{"-y", "--setopt=install_weak_deps=False", "--setopt=clean_requirements_on_remove=False",
	"--setopt=timeout=60", "--setopt=retries=2"}

func (dnf) check(name string) error { return check(rpmName(), name) }

// rpmFormat is the format that parseRPM reads.
const rpmFormat = `%{NAME}\t%{EPOCHNUM}\t%{VERSION}-%{RELEASE}\t%{ARCH}\t%{INSTALLTIME}\n`

func (dnf) inventory(ctx context.Context, h *inside.Host) (inventory, error) {
	out, err := h.Exec(ctx, inside.Command{Path: "rpm", Args: []string{"-qa", "--qf", rpmFormat}})
	if err := outcome("rpm -qa", out, err); err != nil {
		return inventory{}, err
	}
	conf, err := readIfThere(h, dnfConf)
	if err != nil {
		return inventory{}, err
	}
	inv := parseRPM(out.Out)
	_, excluded := excludes(conf)
	for _, name := range excluded {
		if p, ok := inv.byName[name]; ok {
			p.State = stateHeld
			inv.byName[name] = p
		}
	}
	return inv, nil
}

func (dnf) files(ctx context.Context, h *inside.Host, _ inventory, name string) ([]string, error) {
	out, err := h.Exec(ctx, inside.Command{Path: "rpm", Args: []string{"-ql", "--", name}})
	if err := outcome("rpm -ql "+name, out, err); err != nil {
		return nil, err
	}
	return strings.Fields(string(out.Out)), nil // unit paths have no blanks
}

// parseRPM reads the output of rpm -qa. Of a package with several versions, such as a kernel, the last installed
// one counts. Each package is listed by its name, and by its name and architecture.
func parseRPM(text []byte) inventory {
	inv := inventory{byName: map[string]installed{}}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimRight(line, "\r\n"), "\t")
		if len(f) != 5 || f[0] == "" || f[0] == "gpg-pubkey" {
			continue
		}
		at, _ := strconv.ParseInt(f[4], 10, 64)
		p := installed{Version: withEpoch(f[1], f[2]), State: statePresent, Time: at}
		for _, name := range []string{f[0], f[0] + "." + f[3]} {
			if other, ok := inv.byName[name]; !ok || other.Time <= p.Time {
				inv.byName[name] = p
			}
		}
	}
	return inv
}

// withEpoch is a version as in designs: without an epoch of 0.
func withEpoch(epoch, version string) string {
	if epoch == "" || epoch == "0" || epoch == "(none)" {
		return version
	}
	return epoch + ":" + version
}

// repair does nothing: rpm has no packages that wait to be configured, and installs missing requested packages
// again.
func (dnf) repair(context.Context, *inside.Host, inventory, []string) error { return nil }

func (d dnf) refresh(ctx context.Context, h *inside.Host, names []string, all bool) error {
	for _, name := range names {
		one := []string{"-q", "-y", "--disablerepo=*", "--enablerepo=" + repositoryID(name), "--setopt=skip_if_unavailable=False", "makecache", "--refresh"}
		out, err := h.Exec(ctx, inside.Command{Path: "dnf", Args: one, Timeout: 10 * time.Minute})
		if err := outcome("repository "+name+": its lists cannot be fetched: dnf makecache", out, err); err != nil {
			return err
		}
	}
	if !all {
		return nil
	}
	_, err := d.fetch(ctx, h)
	return err
}

func (dnf) fetch(ctx context.Context, h *inside.Host) (missed []string, err error) {
	h.Tell("dnf makecache")
	out, err := h.Exec(ctx, inside.Command{Path: "dnf", Args: []string{"-q", "-y", "--refresh", "makecache"}, Timeout: 10 * time.Minute})
	for line := range strings.Lines(string(out.Err)) {
		if names, ok := strings.CutPrefix(strings.TrimSpace(line), "Ignoring repositories: "); ok {
			missed = append(missed, printable(names))
		}
	}
	wrong := outcome("dnf makecache", out, err)
	if wrong == nil {
		return missed, nil
	}
	if err != nil || isBusy(wrong) {
		return nil, wrong
	}
	h.Tell(wrong.Error())
	return []string{wrong.Error()}, nil
}

// words are dnf's arguments for a change. If the change both installs and removes, they also include input for
// dnf's shell, so that it stays one transaction.
func (dnf) words(c change) (args []string, stdin []byte) {
	if c.held {
		args = append(args, "--disableexcludes=main")
	}
	var install []string
	for _, name := range slices.Sorted(maps.Keys(c.install)) {
		if version := c.install[name]; version != "" {
			name += "-" + version
		}
		install = append(install, name)
	}
	remove := slices.Sorted(slices.Values(c.remove))
	switch {
	case len(remove) == 0 && c.upgrade:
		return slices.Concat(args, []string{"upgrade", "--"}, install), nil
	case len(remove) == 0:
		return slices.Concat(args, []string{"install", "--"}, install), nil
	case len(install) == 0:
		return slices.Concat(args, []string{"remove", "--"}, remove), nil
	}
	return append(args, "shell"), fmt.Appendf(nil, "install %s\nremove %s\nrun\nexit\n", strings.Join(install, " "), strings.Join(remove, " "))
}

func (d dnf) simulate(ctx context.Context, h *inside.Host, c change) ([]effect, error) {
	words, stdin := d.words(c)
	args := slices.Concat(dnfOptions[1:], []string{"--assumeno"}, d.snapshot(c.snapshot), words)
	out, err := h.Exec(ctx, inside.Command{Path: "dnf", Args: args, Stdin: stdin, Timeout: 5 * time.Minute})
	effects, shown := parseTransaction(out.Out)
	if err == nil && (shown || out.Code == 0 && nothingToDo(out)) {
		return effects, nil
	}
	if err == nil && out.Code == 0 {
		out.Code = 1 // dnf's shell exits with 0 even if it failed
	}
	return nil, outcome("dnf says that this cannot be installed: "+some(wanted(c)), out, err)
}

func nothingToDo(out inside.Output) bool {
	return bytes.Contains(out.Out, []byte("Nothing to do")) && !bytes.Contains(out.Err, []byte("Error:"))
}

func (d dnf) run(ctx context.Context, h *inside.Host, c change) error {
	words, stdin := d.words(c)
	out, err := h.Exec(ctx, inside.Command{Path: "dnf", Args: slices.Concat(dnfOptions, d.snapshot(c.snapshot), words), Stdin: stdin, Timeout: aptTime})
	return outcome("dnf, for "+some(wanted(c)), out, err)
}

// snapshot restricts dnf to one repository.
func (dnf) snapshot(url string) []string {
	if url == "" {
		return nil
	}
	return []string{"--repofrompath=slipway-snapshot," + url, "--repo=slipway-snapshot"}
}

// hold writes the packages that dnf must not change to dnf's own configuration. That needs no plugin; versionlock
// has no effect without its plugin.
func (dnf) hold(_ context.Context, h *inside.Host, names []string, on bool) error {
	conf, err := readIfThere(h, dnfConf)
	if err != nil {
		return err
	}
	changed := setExcludes(conf, names, on)
	if bytes.Equal(changed, conf) {
		return nil
	}
	return write(h, dnfConf, changed)
}

// excludes returns the line of [main] that names excluded packages, -1 for none, and the names.
func excludes(conf []byte) (line int, names []string) {
	line = -1
	section := ""
	for i, text := range strings.Split(string(conf), "\n") {
		text = strings.TrimSpace(text)
		if strings.HasPrefix(text, "[") {
			section = text
		}
		key, value, ok := strings.Cut(text, "=")
		key = strings.TrimSpace(key)
		if ok && section == "[main]" && (key == "excludepkgs" || key == "exclude") {
			line = i
			names = strings.FieldsFunc(value, func(r rune) bool { return r == ' ' || r == ',' || r == '\t' })
		}
	}
	return line, names
}

// setExcludes adds packages to the excluded ones of a configuration, or removes them. It changes nothing else.
func setExcludes(conf []byte, names []string, on bool) []byte {
	at, have := excludes(conf)
	then := slices.DeleteFunc(slices.Clone(have), func(name string) bool { return slices.Contains(names, name) })
	if on {
		then = append(then, slices.Sorted(slices.Values(names))...)
	}
	lines := strings.Split(string(conf), "\n")
	text := "excludepkgs=" + strings.Join(then, " ")
	switch {
	case at >= 0 && len(then) == 0:
		lines = slices.Delete(lines, at, at+1)
	case at >= 0:
		lines[at] = text
	case len(then) == 0:
		return conf
	default:
		main := slices.IndexFunc(lines, func(line string) bool { return strings.TrimSpace(line) == "[main]" })
		if main < 0 {
			lines = append([]string{"[main]", text}, lines...)
		} else {
			lines = slices.Insert(lines, main+1, text)
		}
	}
	return []byte(strings.Join(lines, "\n"))
}

// upgrades lists upgrades with two simulations, to identify those for security. It uses the machine's cache as it
// is.
func (d dnf) upgrades(ctx context.Context, h *inside.Host, inv inventory, snapshot string) ([]effect, error) {
	ask := func(more ...string) ([]effect, error) {
		args := slices.Concat([]string{"--assumeno", "--cacheonly", "--setopt=install_weak_deps=False"}, d.snapshot(snapshot), more, []string{"upgrade"})
		out, err := h.Exec(ctx, inside.Command{Path: "dnf", Args: args, Timeout: 5 * time.Minute})
		effects, shown := parseTransaction(out.Out)
		if err == nil && (shown || out.Code == 0) {
			return slices.DeleteFunc(effects, func(e effect) bool { return e.to == "" }), nil
		}
		return nil, outcome("dnf upgrade --assumeno", out, err)
	}
	all, err := ask()
	if err != nil || len(all) == 0 {
		return nil, err
	}
	urgent, err := ask("--security")
	if err != nil {
		return nil, err
	}
	for i, e := range all {
		all[i].security = slices.ContainsFunc(urgent, func(u effect) bool { return u.name == e.name })
		all[i].from = inv.find(e.name).Version // a kernel is installed beside the existing one
	}
	return all, nil
}

func (dnf) listsTime(h *inside.Host) time.Time {
	if info, err := stat(h, "/var/cache/dnf/last_makecache"); err == nil {
		return info.ModTime()
	}
	info, err := stat(h, "/var/cache/dnf")
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// stamp is empty: rpm's database changes when it is read.
func (dnf) stamp(*inside.Host) string { return "" }

// dnfHeadings are the headings of dnf's plan, and whether they install.
var dnfHeadings = map[string]string{
	"Installing:": "new", "Installing dependencies:": "new", "Installing weak dependencies:": "new", "Installing group packages:": "new", "Installing group/module packages:": "new",
	"Upgrading:": "other", "Downgrading:": "other", "Reinstalling:": "other",
	"Removing:": "gone", "Removing dependent packages:": "gone", "Removing unused dependencies:": "gone", "Removing depended packages:": "gone",
	"Skipping packages with conflicts:": "", "Skipping packages with broken dependencies:": "",
}

var rpmArch = inside.Pattern(`^(noarch|x86_64|i[3-6]86|aarch64|armv7hl|ppc64le|s390x|riscv64|src)$`)

// parseTransaction reads the table of dnf --assumeno, and reports whether there was one. A long name has its own
// line.
func parseTransaction(text []byte) (effects []effect, shown bool) {
	kind, before := "", ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		f := strings.Fields(line)
		if heading, ok := dnfHeadings[strings.TrimSpace(line)]; ok {
			kind, before, shown = heading, "", true
			continue
		}
		if len(f) == 0 || strings.HasPrefix(line, "Transaction Summary") {
			kind, before = "", ""
			continue
		}
		if kind == "" || !strings.HasPrefix(line, " ") {
			continue
		}
		if len(f) == 1 {
			before = f[0]
			continue
		}
		if before != "" {
			f, before = append([]string{before}, f...), ""
		}
		if len(f) < 4 || !rpmArch().MatchString(f[1]) || f[0] == "replacing" {
			continue
		}
		version := strings.TrimPrefix(f[2], "0:")
		switch kind {
		case "new":
			effects = append(effects, effect{name: f[0], to: version})
		case "other":
			effects = append(effects, effect{name: f[0], from: "?", to: version})
		case "gone":
			effects = append(effects, effect{name: f[0], from: version})
		}
	}
	return effects, shown
}
