package config

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// These files hold all modules of the design.
const (
	modulesLoad = "/etc/modules-load.d/slipway.conf"
	modprobe    = "/etc/modprobe.d/slipway.conf"
)

// moduleMade is the record of a module that Slipway set.
type moduleMade struct {
	Parameters string `json:"parameters"`
	// Loaded are the parameters with which the module was loaded in the boot Boot. Boot is empty if they are the
	// same.
	Loaded string `json:"loaded,omitempty"`
	Boot   string `json:"boot,omitempty"`
}

// groupBefore is shared by items in one file: the folders that Slipway created for it.
type groupBefore struct {
	Folders []string `json:"folders,omitempty"`
}

// moduleName is the canonical form of a module's names.
func moduleName(n string) string { return strings.ReplaceAll(n, "-", "_") }

func badModule(n string) bool {
	return n == "" || len(n) > 64 || n[0] == '-' || n[0] == '.' || strings.ContainsFunc(n, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.')
	})
}

// words are the words of a line of modprobe.d(5); double quotes keep spaces.
func words(line string) []string {
	quoted := false
	return strings.FieldsFunc(line, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return !quoted && (r == ' ' || r == '\t')
	})
}

// canonical is the comparable text of a module's parameters: sorted and joined by ", ". The input may also separate
// them by spaces only.
func canonical(parameters string) string {
	all := words(parameters)
	for i := range all {
		all[i] = strings.TrimSuffix(all[i], ",")
	}
	return item.List(all)
}

// builtIn lists the modules that are part of the running kernel.
func (w *work) builtIn() map[string]bool {
	found := map[string]bool{}
	release, err := w.tree.Read("/proc/sys/kernel/osrelease", 1024)
	kernel := strings.TrimSpace(string(release))
	if err != nil || kernel == "" || strings.Contains(kernel, "/") {
		return found
	}
	text, err := w.tree.Read("/lib/modules/"+kernel+"/modules.builtin", 4<<20)
	if err != nil {
		return found // a system without modules: the folders of /sys/module decide
	}
	for line := range strings.Lines(string(text)) {
		found[moduleName(strings.TrimSuffix(path.Base(strings.TrimSpace(line)), ".ko"))] = true
	}
	return found
}

func (w *work) loaded(n string) bool { return w.tree.Exists("/sys/module/" + moduleName(n)) }

func (w *work) bootID() string {
	text, _ := w.tree.Read("/proc/sys/kernel/random/boot_id", 1024)
	return strings.TrimSpace(string(text))
}

// observeModules returns the state of modules, and whether all of them are loaded.
func (w *work) observeModules(keys []string) (ready bool) {
	ready = true
	var builtIn map[string]bool
	for _, key := range keys {
		n := item.ID(key)
		if badModule(n) {
			w.seen.Cannot[key] = fmt.Sprintf("%q is not a name of a kernel module", n)
			continue
		}
		made, named, err := w.persistedModule(key)
		if err != nil {
			w.seen.Unread[key] = err.Error()
			ready = false
			continue
		}
		loaded := !w.h.Live || w.loaded(n)
		if !loaded {
			if builtIn == nil {
				builtIn = w.builtIn()
			}
			loaded = builtIn[moduleName(n)]
		}
		ready = ready && loaded
		w.tellModule(key, made, named, loaded)
	}
	return ready
}

func (w *work) tellModule(key string, made moduleMade, named, loaded bool) {
	at := item.Name(key, "parameters")
	switch {
	case !named && (!loaded || !w.h.Live):
		w.seen.Have[at] = item.Absent // distinct from a module without parameters
	case !named:
		w.seen.Have[at] = "loaded, and not at the next boot"
	case !loaded:
		w.seen.Have[at] = item.ModuleNotLoaded
	case w.h.Live && made.Boot != "" && made.Boot == w.bootID() && made.Loaded != made.Parameters:
		w.seen.Have[at], w.seen.Pending[at], w.seen.Waits = made.Loaded, made.Parameters, "reboot"
	default:
		w.seen.Have[at] = made.Parameters
	}
}

// persistedModule is what the files say about a module at the next boot.
func (w *work) persistedModule(key string) (made moduleMade, named bool, err error) {
	w.items.Load(key, nil, &made)
	made.Parameters = ""
	n := moduleName(item.ID(key))
	folders := []string{"/etc/modules-load.d", "/run/modules-load.d", "/usr/local/lib/modules-load.d", "/usr/lib/modules-load.d"}
	err = w.configLines(folders, func(_, line string) { named = named || moduleName(line) == n })
	if err != nil {
		return made, false, err
	}
	folders = []string{"/etc/modprobe.d", "/run/modprobe.d", "/usr/local/lib/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d"}
	var parameters []string
	err = w.configLines(folders, func(_, line string) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == "options" && moduleName(f[1]) == n {
			parameters = append(parameters, words(line)[2:]...)
		}
	})
	made.Parameters = item.List(parameters)
	return made, named, err
}

// maxConfig bounds one settings file, in bytes.
const maxConfig = 1 << 20

// configLines passes on the lines of the *.conf files of folders, without comments, in the order of application.
// That is by file name. Of files with equal names, only the first folder's counts.
func (w *work) configLines(folders []string, each func(file, line string)) error {
	files, err := w.configFiles(folders)
	if err != nil {
		return err
	}
	for _, file := range files {
		if at, _ := w.tree.Resolve(file, true); at == "dev/null" || !w.tree.Exists(file) {
			continue // masked, or a dangling link
		}
		text, err := w.tree.Read(file, maxConfig)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if line != "" && line[0] != '#' && line[0] != ';' {
				each(file, line)
			}
		}
	}
	return nil
}

func (w *work) configFiles(folders []string) ([]string, error) {
	found := map[string]string{}
	for _, folder := range folders {
		names, err := w.tree.Names(folder)
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			if _, hidden := found[n]; strings.HasSuffix(n, ".conf") && n[0] != '.' && !hidden {
				found[n] = folder + "/" + n
			}
		}
	}
	names := make([]string, 0, len(found))
	for n := range found {
		names = append(names, n)
	}
	slices.Sort(names)
	for i, n := range names {
		names[i] = found[n]
	}
	return names, nil
}

func (w *work) applyModules(items []item.Item, leaving []string) {
	builtIn := map[string]bool(nil)
	if len(items) > 0 && w.h.Live {
		builtIn = w.builtIn()
	}
	var load []item.Item
	for _, i := range items {
		ready, err := w.ownModule(i, builtIn)
		if err != nil {
			w.fail(i.Key, err)
		} else if !ready {
			load = append(load, i)
		}
	}
	if len(items) == 0 && len(leaving) == 0 {
		return
	}
	if err := w.writeModules(leaving); err != nil {
		w.fail("modules", err)
		return
	}
	for _, i := range items {
		w.checkModule(i)
	}
	for _, i := range load {
		w.loadModule(i)
	}
	for _, key := range leaving {
		if err := w.items.Drop(key); err != nil {
			w.fail(key, err)
		} else if w.h.Live && w.loaded(item.ID(key)) {
			w.h.Tell(item.ID(key) + " stays loaded until the next boot")
		}
	}
}

// ownModule records the wanted state of a module, and reports whether it is loaded.
func (w *work) ownModule(i item.Item, builtIn map[string]bool) (ready bool, err error) {
	n, parameters := item.ID(i.Key), canonical(i.Fields["parameters"])
	switch {
	case badModule(n):
		return false, &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("%q is not a name of a kernel module", n)}
	case strings.ContainsAny(parameters, "\n\\#\x00"):
		return false, &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("the parameters %q cannot be written in %s: remove line breaks, \"\\\" and \"#\"", parameters, modprobe)}
	case builtIn[moduleName(n)] && parameters != "":
		return false, &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("%s is built into this kernel, so its parameters belong on the command line: kernel.parameters %q", n, n+"."+words(parameters)[0])}
	}
	folders, err := w.foldersOf(modulesLoad)
	if err != nil {
		return false, err
	}
	more, err := w.foldersOf(modprobe)
	if err != nil {
		return false, err
	}
	if err := w.items.Take(i.Key, groupBefore{append(folders, more...)}); err != nil {
		return false, err
	}
	var made moduleMade
	w.items.Load(i.Key, nil, &made)
	e, _ := w.h.Owned.Entry(name, i.Key)
	if loaded := w.h.Live && w.loaded(n); loaded && (e.Made == nil && parameters != "" || e.Made != nil && made.Parameters != parameters) {
		if boot := w.bootID(); made.Boot != boot {
			made.Loaded, made.Boot = made.Parameters, boot
		}
	}
	if made.Parameters = parameters; made.Loaded == parameters {
		made.Loaded, made.Boot = "", ""
	}
	if err := w.items.Note(i.Key, made); err != nil {
		return false, err
	}
	return !w.h.Live || w.loaded(n) || builtIn[moduleName(n)], nil
}

// writeModules writes the two files for the owned modules.
func (w *work) writeModules(leaving []string) error {
	var load, options strings.Builder
	for _, key := range w.h.Owned.Keys(name) {
		if item.Kind(key) != item.KindModules || slices.Contains(leaving, key) {
			continue
		}
		var made *moduleMade
		if w.items.Load(key, nil, &made); made == nil {
			continue
		}
		fmt.Fprintln(&load, item.ID(key))
		if made.Parameters != "" {
			fmt.Fprintf(&options, "options %s %s\n", item.ID(key), strings.ReplaceAll(made.Parameters, ", ", " "))
		}
	}
	if err := w.ourFile(modprobe, options.String(), leaving); err != nil {
		return err
	}
	return w.ourFile(modulesLoad, load.String(), leaving)
}

// head starts the files that hold several items.
const head = "# Slipway writes this file from the site's design.\n"

// ourFile writes a file that is always Slipway's. Without lines it removes the file and the folders that Slipway
// created for it.
func (w *work) ourFile(file, lines string, leaving []string) error {
	if lines != "" {
		if err := w.tree.Sweep(file); err != nil {
			return err
		}
		return w.putFile(file, []byte(head+lines), 0o644, 0, 0)
	}
	if err := w.tree.Remove(file); err != nil {
		return err
	}
	for _, key := range append(w.h.Owned.Keys(name), leaving...) {
		var before groupBefore
		if kind := item.Kind(key); kind != item.KindModules && kind != item.KindSysctl {
			continue
		}
		if w.items.Load(key, &before, nil); slices.Contains(before.Folders, path.Dir(file)) {
			if err := w.tree.RemoveFolders(before.Folders); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkModule reports parameters that other files add.
func (w *work) checkModule(i item.Item) {
	if _, ours := w.h.Owned.Entry(name, i.Key); !ours {
		return // it was refused before
	}
	made, _, err := w.persistedModule(i.Key)
	if err != nil {
		w.fail(i.Key, err)
	} else if want := canonical(i.Fields["parameters"]); made.Parameters != want {
		w.refuse(i.Key, "the files of modprobe.d(5) together give the parameters %q, and the design %q. Remove the other line", made.Parameters, want)
	}
}

func (w *work) loadModule(i item.Item) {
	n := item.ID(i.Key)
	w.h.Tell("load the kernel module " + n)
	o, err := w.run("modprobe", 2*time.Minute, "--", n)
	switch {
	case err != nil:
		w.fail(i.Key, err)
	case o.Code != 0:
		w.refuse(i.Key, "this kernel does not load the module: %s. Check its name, or add the package that brings it", o.LastLines(3))
	}
}

// run runs a program that changes the system.
func (w *work) run(program string, timeout time.Duration, args ...string) (inside.Output, error) {
	if err := w.cut(program + " " + strings.Join(args, " ")); err != nil {
		return inside.Output{}, err
	}
	return w.h.Exec(w.ctx, inside.Command{Path: program, Args: args, Timeout: timeout})
}
