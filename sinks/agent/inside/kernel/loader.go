package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// loader is the boot loader of a system.
type loader string

// The boot loaders.
const (
	noLoader loader = ""
	grub     loader = "grub"         // Debian's, with update-grub
	grubby   loader = "grubby"       // of the RHEL family
	stub     loader = "systemd-boot" // with /etc/kernel/cmdline
)

// Parameters are written to these files.
const (
	grubFile    = "/etc/default/grub.d/60-slipway.cfg"
	grubConfig  = "/boot/grub/grub.cfg"
	cmdlineFile = "/etc/kernel/cmdline"
)

// maxConfig bounds a boot loader's configuration, in bytes.
const maxConfig = 4 << 20

var entryFolders = []string{"/boot/loader/entries", "/efi/loader/entries", "/boot/efi/loader/entries"}

func (w *work) loader() loader {
	has := func(program string) bool {
		return w.tree.Exists("/usr/sbin/"+program) || w.tree.Exists("/sbin/"+program) || w.tree.Exists("/usr/bin/"+program)
	}
	switch {
	case has("grubby"):
		return grubby
	case has("update-grub"):
		return grub
	case has("kernel-install") && slices.ContainsFunc(entryFolders, w.tree.Exists):
		return stub
	}
	return noLoader
}

// nextBoot is the command line of the next boot, as far as the boot loader's files tell.
func (w *work) nextBoot(l loader) ([]parameter, error) {
	switch l {
	case grub:
		text, err := w.tree.Read(grubConfig, maxConfig)
		if err != nil {
			return nil, err
		}
		return parseGrub(string(text)), nil
	default:
		return w.bootEntry()
	}
}

// parseGrub is the command line of the first entry of a grub.cfg.
func parseGrub(text string) []parameter {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) >= 2 && (f[0] == "linux" || f[0] == "linuxefi" || f[0] == "linux16") {
			_, rest, _ := strings.Cut(line, f[1])
			return parse(rest)
		}
	}
	return nil
}

// bootEntry is the command line of the default boot entry: the saved entry, or else the one with the highest
// version in its name.
func (w *work) bootEntry() ([]parameter, error) {
	text, env, err := w.defaultEntry()
	if err != nil {
		return nil, err
	}
	return parseEntry(text, env), nil
}

// defaultEntry is the text of the default boot entry, with GRUB's variables.
func (w *work) defaultEntry() (text string, env map[string]string, err error) {
	if env, err = w.grubenv("/boot/grub2/grubenv", "/boot/efi/EFI/redhat/grubenv"); err != nil {
		return "", nil, err
	}
	for _, folder := range entryFolders {
		names, err := w.tree.Names(folder)
		if err != nil {
			return "", nil, err
		}
		chosen := ""
		slices.SortStableFunc(names, inside.CompareVersions) // like GRUB and systemd-boot: 6.10 comes after 6.9
		for _, n := range names {
			if strings.HasSuffix(n, ".conf") && !strings.Contains(n, "rescue") {
				chosen = n
				if strings.TrimSuffix(n, ".conf") == env["saved_entry"] {
					break
				}
			}
		}
		if chosen == "" {
			continue
		}
		text, err := w.tree.Read(folder+"/"+chosen, maxConfig)
		return string(text), env, err
	}
	return "", nil, fmt.Errorf("no boot entry in %s", strings.Join(entryFolders, ", "))
}

// parseEntry reads the options of a boot entry. The variables are those of grubenv.
func parseEntry(text string, env map[string]string) (all []parameter) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "options"); ok && (rest == "" || rest[0] == ' ' || rest[0] == '\t') {
			for word := range strings.FieldsSeq(rest) {
				if variable, ok := strings.CutPrefix(word, "$"); ok {
					rest = strings.Replace(rest, word, env[variable], 1)
				}
			}
			all = append(all, parse(rest)...)
		}
	}
	return all
}

// wrong says why parameters are not available; empty if they are.
func (w *work) wrong(l loader) string {
	switch {
	case l != noLoader:
		return ""
	case w.container():
		return noKernel
	}
	return "Slipway found neither update-grub, grubby nor systemd-boot on this system, so it cannot set kernel parameters. Add the package of the boot loader"
}

func (w *work) observeParameters(keys []string) {
	if len(keys) == 0 {
		return
	}
	l := w.loader()
	if why := w.wrong(l); why != "" {
		for _, key := range keys {
			w.seen.Cannot[key] = why
		}
		return
	}
	var now []parameter
	next, err := w.nextBoot(l)
	if err == nil && w.h.Live {
		var text []byte
		text, err = w.tree.Read("/proc/cmdline", 64<<10)
		now = parse(string(text))
	} else {
		now = next
	}
	for _, key := range keys {
		n := item.ID(key)
		if why := bad(n, ""); why != "" {
			w.seen.Cannot[key] = why
			continue
		}
		if err != nil {
			w.seen.Unread[key] = err.Error()
			continue
		}
		is, has := find(now, n)
		will, comes := find(next, n)
		if has {
			w.seen.Have[key] = is
		}
		if comes && (!has || will != is) {
			w.seen.Pending[key] = will
		}
		if has != comes || is != will {
			w.seen.Waits = "reboot"
		}
	}
}

// parameterBefore is a parameter's setting before Slipway took it.
type parameterBefore struct {
	Value   *string  `json:"value,omitempty"` // at the next boot
	Folders []string `json:"folders,omitempty"`
	Created bool     `json:"created,omitempty"` // of /etc/kernel/cmdline
}

type parameterMade struct {
	Value string `json:"value"`
}

// applyParameters sets and removes parameters with one run of the boot loader's program.
func (w *work) applyParameters(items []item.Item, leaving []string) error {
	if len(items) == 0 && len(leaving) == 0 {
		return nil
	}
	l := w.loader()
	if why := w.wrong(l); why != "" {
		return refused("%s", why)
	}
	for _, i := range items {
		if why := bad(item.ID(i.Key), i.Fields[""]); why != "" {
			return refused("%s: %s", i.Key, why)
		}
	}
	next, err := w.nextBoot(l)
	if l == grub && errors.Is(err, fs.ErrNotExist) {
		err = nil // update-grub creates the file
	}
	if err != nil {
		return err
	}
	if err := w.own(l, items, next); err != nil {
		return err
	}
	switch l {
	case grub:
		err = w.writeGrub(items, leaving)
	case grubby:
		err = w.runGrubby(items, leaving, next)
	case stub:
		err = w.writeCmdline(items, leaving, next)
	}
	if err != nil {
		return err
	}
	for _, key := range leaving {
		if err := w.items.Drop(key); err != nil {
			return err
		}
	}
	return w.check(l, items)
}

// own takes ownership of items that are not set, and records the values of the owned ones.
func (w *work) own(l loader, items []item.Item, next []parameter) error {
	for _, i := range items {
		value, set := find(next, item.ID(i.Key))
		_, ours := w.h.Owned.Entry(name, i.Key)
		if !ours && set && value == i.Fields[""] {
			continue
		}
		before := parameterBefore{}
		if set {
			before.Value = &value
		}
		var err error
		switch l {
		case grub:
			before.Folders, err = w.folders(grubFile)
		case stub:
			before.Created = w.cmdlineCreated()
			before.Folders, err = w.folders(cmdlineFile)
		}
		if err == nil {
			err = w.items.Take(i.Key, before)
		}
		if err == nil {
			err = w.items.Note(i.Key, parameterMade{i.Fields[""]})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// folders are the folders above a file that Slipway has created or would create.
func (w *work) folders(file string) ([]string, error) {
	folders, err := w.tree.MissingFolders(file)
	for _, key := range w.h.Owned.Keys(name) {
		var before parameterBefore
		w.items.Load(key, &before, nil)
		folders = append(folders, before.Folders...)
	}
	slices.Sort(folders)
	return slices.Compact(folders), err
}

// ours are the parameters that Slipway set and that stay, sorted.
func (w *work) ours(leaving []string) (all []parameter) {
	for _, key := range w.h.Owned.Keys(name) {
		var made *parameterMade
		if item.Kind(key) != item.KindParameters || slices.Contains(leaving, key) {
			continue
		}
		if w.items.Load(key, nil, &made); made != nil {
			all = append(all, want(item.ID(key), made.Value))
		}
	}
	return all
}

// pendingFile marks that the boot loader's program has not run since the last write.
const pendingFile = inside.Folder + "/boot-loader"

// writeGrub writes the file of /etc/default/grub.d and runs update-grub.
func (w *work) writeGrub(items []item.Item, leaving []string) error {
	text := ""
	if all := w.ours(leaving); len(all) > 0 {
		text = "# Slipway writes this file from the site's design.\nGRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX \"'" + join(all) + "'\n"
	}
	changed, err := w.putText(grubFile, text, leaving)
	if err != nil || !changed && !w.tree.Exists(pendingFile) {
		return err
	}
	return w.updateGrub()
}

// putText writes a file; an empty text removes it. It first records that the boot loader's program must run.
func (w *work) putText(file, want string, leaving []string) (changed bool, err error) {
	have, err := w.tree.Read(file, maxConfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if string(have) == want {
		return false, w.tree.Sweep(file)
	}
	if err := w.tree.Put(pendingFile, []byte(file+"\n"), 0o600, 0, 0); err != nil {
		return false, err
	}
	if want != "" {
		return true, w.tree.Put(file, []byte(want), 0o644, 0, 0)
	}
	if err := w.tree.Remove(file); err != nil {
		return false, err
	}
	for _, key := range leaving {
		var before parameterBefore
		w.items.Load(key, &before, nil)
		if err := w.tree.RemoveFolders(before.Folders); err != nil {
			return true, err
		}
	}
	return true, nil
}

// runGrubby updates all boot entries that differ.
func (w *work) runGrubby(items []item.Item, leaving []string, next []parameter) error {
	var set, drop []string
	for _, i := range items {
		n, text := item.ID(i.Key), i.Fields[""]
		if value, is := find(next, n); !is || value != text {
			set = append(set, want(n, text).text())
		}
	}
	for _, key := range leaving {
		var before parameterBefore
		w.items.Load(key, &before, nil)
		value, is := find(next, item.ID(key))
		switch {
		case before.Value != nil && (!is || value != *before.Value):
			set = append(set, want(item.ID(key), *before.Value).text())
		case before.Value == nil && is:
			drop = append(drop, item.ID(key))
		}
	}
	args := []string{"--update-kernel=ALL"}
	if len(drop) > 0 {
		args = append(args, "--remove-args="+strings.Join(drop, " "))
	}
	if len(set) > 0 {
		args = append(args, "--args="+strings.Join(set, " "))
	}
	if len(args) == 1 {
		return nil
	}
	return w.run(5*time.Minute, "grubby", args...)
}

// cmdlineCreated reports whether Slipway created, or would create, /etc/kernel/cmdline.
func (w *work) cmdlineCreated() bool {
	for _, key := range w.h.Owned.Keys(name) {
		var before parameterBefore
		if w.items.Load(key, &before, nil); before.Created {
			return true
		}
	}
	return !w.tree.Exists(cmdlineFile)
}

// writeCmdline writes /etc/kernel/cmdline and makes the boot entries again.
func (w *work) writeCmdline(items []item.Item, leaving []string, next []parameter) error {
	base, err := w.tree.Read(cmdlineFile, maxConfig)
	all := parse(string(base))
	if errors.Is(err, fs.ErrNotExist) {
		all, err = next, nil
	}
	if err != nil {
		return err
	}
	last := len(w.ours(leaving)) == 0
	created := false
	for _, p := range w.ours(leaving) {
		text, _ := find([]parameter{p}, p.name)
		if value, is := find(all, p.name); !is || value != text {
			all = append(without(all, p.name), p)
		}
	}
	for _, key := range leaving {
		var before parameterBefore
		w.items.Load(key, &before, nil)
		created = created || before.Created
		all = without(all, item.ID(key))
		if before.Value != nil {
			all = append(all, want(item.ID(key), *before.Value))
		}
	}
	text := join(all) + "\n"
	if last && created {
		text = ""
	}
	if string(base) != text && join(parse(string(base))) == strings.TrimSpace(text) && text != "" {
		text = string(base) // only whitespace differs
	}
	changed, err := w.putText(cmdlineFile, text, leaving)
	if err != nil || !changed && !w.tree.Exists(pendingFile) {
		return err
	}
	kernels, err := w.tree.Names("/lib/modules")
	if err != nil {
		return err
	}
	for _, version := range kernels {
		for _, image := range []string{"/boot/vmlinuz-" + version, "/lib/modules/" + version + "/vmlinuz"} {
			if w.tree.Exists(image) {
				if err := w.run(5*time.Minute, "kernel-install", "add", version, image); err != nil {
					return err
				}
				break
			}
		}
	}
	return w.tree.Remove(pendingFile)
}

// check verifies that the next boot uses what was written.
func (w *work) check(l loader, items []item.Item) error {
	next, err := w.nextBoot(l)
	if err != nil || len(items) == 0 {
		return err
	}
	for _, i := range items {
		value, set := find(next, item.ID(i.Key))
		if set && value == i.Fields[""] {
			continue
		}
		if set {
			return refused("%s: the next boot has %q, since another place sets it after Slipway. On Debian that is GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub; remove it there", i.Key, value)
		}
		return refused("%s: the next boot does not have it, although it was written. Check the default entry of the boot loader (%s)", i.Key, l)
	}
	return nil
}
