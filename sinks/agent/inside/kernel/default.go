package kernel

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// defaultFile makes GRUB boot a kernel other than the first in its menu.
const defaultFile = "/etc/default/grub.d/61-slipway-kernel.cfg"

// flavoured matches the parts of a release: "6.1.0-49" and "-rt-amd64". Kernels of different flavours are not
// upgrades of each other, but GRUB sorts them only by version.
var flavoured = inside.Pattern(`^([0-9][^-]*(?:-[0-9][^-]*)*)(-[a-z][a-z0-9.-]*)$`)

// newest is the kernel with the highest version that a package provides; empty for none.
func (i installed) newest(n string) string {
	newest := ""
	for _, release := range slices.Concat(slices.Collect(maps.Values(i.releases))...) {
		if i.brings(n, release) && (newest == "" || inside.CompareVersions(release, newest) > 0) {
			newest = release
		}
	}
	return newest
}

// starts is the kernel of the next boot, as far as the boot loader's files tell; empty if they do not.
func (w *work) starts() string {
	if l := w.loader(); l != grub {
		text, _, err := w.defaultEntry()
		if err != nil || l == stub && w.choosesItself() {
			return ""
		}
		return releaseOf(text)
	}
	text, err := w.tree.Read(grubConfig, maxConfig)
	if err != nil {
		return ""
	}
	env, err := w.grubenv("/boot/grub/grubenv")
	if err != nil {
		return ""
	}
	return grubStarts(string(text), env)
}

// loaderDefault is where the firmware stores the choice of `bootctl set-default` (the Boot Loader Interface of
// systemd).
const loaderDefault = "/sys/firmware/efi/efivars/LoaderEntryDefault-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"

// choosesItself reports whether systemd-boot has its own default, other than the entry with the highest version
// (loader.conf(5)).
func (w *work) choosesItself() bool {
	if w.tree.Exists(loaderDefault) {
		return true
	}
	for _, folder := range entryFolders {
		text, err := w.tree.Read(path.Dir(folder)+"/loader.conf", maxConfig)
		if err == nil && (strings.HasPrefix(string(text), "default") || strings.Contains(string(text), "\ndefault")) {
			return true
		}
	}
	return false
}

// startPackage makes the next boots start the kernel of a package. If the boot loader already does, it changes
// nothing.
func (w *work) startPackage(key, n string, all installed) error {
	chosen, err := w.chosen()
	switch {
	case err != nil:
	case chosen != n:
		err = w.startAny()
	case w.tree.Exists(pendingFile):
		err = w.updateGrub()
	}
	if err != nil {
		return err
	}
	next, newest := w.starts(), all.newest(n)
	switch {
	case next == "" || all.brings(n, next):
		return nil
	case newest == "":
		return refused("%s: the boot loader starts %s next, and Slipway does not know which kernel the package %s brings, so it cannot choose that. Make it the default entry by hand", key, next, n)
	}
	switch w.loader() {
	case grub:
		return w.startWithGrub(key, n, newest, all)
	case grubby:
		if !w.tree.Exists("/boot/vmlinuz-" + newest) {
			return refused("%s: the boot loader starts %s next, and there is no /boot/vmlinuz-%s of the package %s to start instead", key, next, newest, n)
		}
		if err := w.run(5*time.Minute, "grubby", "--set-default=/boot/vmlinuz-"+newest); err != nil {
			return err
		}
	}
	return w.startsAfterAll(key, n, all)
}

// startsOther is the package whose kernel the boot loader starts instead of the package n, now or after its
// configuration is made again. It is empty if the boot loader starts n, or if that is unknown.
func (w *work) startsOther(n string, all installed) string {
	if next := w.starts(); next != "" && !all.brings(n, next) {
		return cmp.Or(all.bringer(next, ""), next)
	}
	if chosen, err := w.chosen(); err == nil && chosen != "" && chosen != n {
		return chosen
	}
	return ""
}

// chosen is the package that GRUB's default was chosen for; empty for none.
func (w *work) chosen() (string, error) {
	text, err := w.tree.Read(defaultFile, maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	_, rest, _ := strings.Cut(string(text), chosenBy)
	n, _, _ := strings.Cut(rest, " ")
	return n, err
}

// chosenBy precedes the name of the package in the file.
const chosenBy = "the design has the kernel of "

// startWithGrub writes a file that is part of making GRUB's configuration, also after later kernel upgrades: each
// time it selects the newest kernel of the flavour.
func (w *work) startWithGrub(key, n, newest string, all installed) error {
	parts := flavoured().FindStringSubmatch(newest)
	if parts == nil {
		return refused("%s: GRUB starts %s next, and Slipway does not know how to choose %s of %s instead, since its name has no flavour such as -amd64. Set GRUB_DEFAULT in /etc/default/grub by hand", key, w.starts(), newest, n)
	}
	for _, other := range slices.Concat(slices.Collect(maps.Values(all.releases))...) {
		if of := flavoured().FindStringSubmatch(other); of != nil && of[2] == parts[2] && inside.CompareVersions(other, newest) > 0 {
			return refused("%s: the package %s brings the kernel %s, and %s of the same flavour is newer and installed, so GRUB starts that. Name the package that follows new kernels, or remove the newer one", key, n, newest, other)
		}
	}
	if _, err := w.putText(defaultFile, grubDefault(n, parts[2]), nil); err != nil {
		return err
	}
	if err := w.updateGrub(); err != nil {
		return err
	}
	return w.startsAfterAll(key, n, all)
}

// grubDefault is the file, which grub-mkconfig(8) reads as part of its script.
func grubDefault(n, flavour string) string {
	return `# Slipway writes this file: ` + chosenBy + n + ` started.
if command -v grub_get_device_id >/dev/null 2>&1; then # other programs read this file too
slipway_id=$(grub_get_device_id "$GRUB_DEVICE")
slipway_menu="gnulinux-advanced-$slipway_id>"
case "$GRUB_DISABLE_SUBMENU" in y|true) slipway_menu= ;; esac
for slipway_kernel in $(ls /boot | sed -n 's/^vmlinuz-\([0-9][^-]*\(-[0-9][^-]*\)*` + strings.ReplaceAll(flavour, ".", `\.`) + `\)$/\1/p' | sort -V); do
	GRUB_DEFAULT="${slipway_menu}gnulinux-$slipway_kernel-advanced-$slipway_id"
done
fi
`
}

// startsAfterAll returns an error if the boot loader still starts another kernel.
func (w *work) startsAfterAll(key, n string, all installed) error {
	if next := w.starts(); next != "" && !all.brings(n, next) {
		return refused("%s: the boot loader (%s) still starts %s, which is not of the package %s. Make that kernel its default entry by hand, or remove the package of the other", key, w.loader(), next, n)
	}
	return nil
}

// startAny removes the file, because its package left the design or has changed.
func (w *work) startAny() error {
	if w.loader() != grub {
		return nil
	}
	changed, err := w.putText(defaultFile, "", nil)
	if err != nil || !changed && !w.tree.Exists(pendingFile) {
		return err
	}
	return w.updateGrub()
}

// updateGrub makes GRUB's configuration again, now or, if interrupted, at the next step.
func (w *work) updateGrub() error {
	if err := w.run(5*time.Minute, "update-grub"); err != nil {
		return err
	}
	return w.tree.Remove(pendingFile)
}

// grubenv reads the variables that GRUB keeps across boots; none if there is no such file.
func (w *work) grubenv(files ...string) (map[string]string, error) {
	env := map[string]string{}
	for _, file := range files {
		text, err := w.tree.Read(file, maxConfig)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
				env[k] = v
			}
		}
	}
	return env, nil
}

// menuEntry is an entry of GRUB's menu, or a submenu.
type menuEntry struct {
	title, id string
	release   string       // of the kernel of an entry
	entries   []*menuEntry // of a submenu
}

var (
	menuLine    = inside.Pattern(`^(menuentry|submenu)\s+(?:'((?:[^'\\]|\\.|'\\'')*)'|"([^"]*)")`)
	menuID      = inside.Pattern(`(?:--id|\$\{?menuentry_id_option\}?)\s+(?:'([^']*)'|"([^"]*)"|(\S+))`)
	defaultLine = inside.Pattern(`^set default="([^"]*)"$`)
)

// grubStarts is the kernel of the default entry of a grub.cfg. It ignores a choice for only one boot.
func grubStarts(text string, env map[string]string) string {
	menu, chosen := &menuEntry{}, "0"
	open := []*menuEntry{menu} // nil for blocks outside the menu
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		words := strings.Fields(line)
		at := open[len(open)-1]
		switch {
		case len(open) == 1 && defaultLine().MatchString(line):
			if to := defaultLine().FindStringSubmatch(line)[1]; to != "${next_entry}" {
				chosen = to
			}
		case strings.HasSuffix(line, "{"):
			var e *menuEntry
			if m := menuLine().FindStringSubmatch(line); m != nil && at != nil {
				e = &menuEntry{title: m[2] + m[3]}
				if id := menuID().FindStringSubmatch(line); id != nil {
					e.id = id[1] + id[2] + id[3]
				}
				at.entries = append(at.entries, e)
			}
			open = append(open, e)
		case line == "}" && len(open) > 1:
			open = open[:len(open)-1]
		case at != nil && len(words) > 1 && strings.HasPrefix(words[0], "linux") && at.release == "":
			at.release = releaseOf(line)
		}
	}
	if chosen == "${saved_entry}" {
		chosen = env["saved_entry"]
	}
	if chosen == "" {
		chosen = "0"
	}
	if e := menu.find(strings.Split(chosen, ">")); e != nil {
		return e.release
	}
	return menu.first().release
}

// find returns the entry that a default names, by the ID, title or number of each part of its path.
func (m *menuEntry) find(way []string) *menuEntry {
	for i, e := range m.entries {
		if way[0] == "" || way[0] != e.id && way[0] != e.title && way[0] != strconv.Itoa(i) {
			continue
		}
		if len(way) > 1 {
			return e.find(way[1:])
		}
		return e.first()
	}
	return nil
}

// first is the entry itself, or the first entry of a submenu.
func (m *menuEntry) first() *menuEntry {
	for len(m.entries) > 0 {
		m = m.entries[0]
	}
	return m
}

// releaseOf is the release of the kernel that a boot entry starts: "6.1.0-49-amd64" for "linux
// /boot/vmlinuz-6.1.0-49-amd64 root=…"; empty if its file does not tell.
func releaseOf(text string) string {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "linux" && words[0] != "linuxefi" && words[0] != "linux16" {
			continue
		}
		for _, prefix := range []string{"vmlinuz-", "vmlinux-", "kernel-"} {
			if release, ok := strings.CutPrefix(path.Base(words[1]), prefix); ok {
				return release
			}
		}
		if path.Base(words[1]) == "linux" { // "/MACHINE/RELEASE/linux", as kernel-install writes it
			return path.Base(path.Dir(words[1]))
		}
	}
	return ""
}
