package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// sysctlFile holds all kernel parameters of the design.
const sysctlFile = "/etc/sysctl.d/60-slipway.conf"

// sysctlFolders are those of sysctl.d(5), highest priority first.
var sysctlFolders = []string{"/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d"}

// maxParameter bounds the value of one kernel parameter, in bytes.
const maxParameter = 64 << 10

// sysctlBefore holds the earlier values, by path below /proc/sys.
type sysctlBefore struct {
	Values map[string]string `json:"values,omitempty"`
	groupBefore
}

type sysctlMade struct {
	Value string `json:"value"`
}

// assignment is one line of sysctl.d(5).
type assignment struct {
	path, value, file string
	exclude           bool // the name is excluded from patterns
}

// sysctlPath is the path of a parameter below /proc/sys. If the first separator is a dot, dots and slashes are
// swapped.
func sysctlPath(n string) string {
	if i := strings.IndexAny(n, "./"); i >= 0 && n[i] == '.' {
		n = strings.Map(func(r rune) rune {
			switch r {
			case '.':
				return '/'
			case '/':
				return '.'
			}
			return r
		}, n)
	}
	return n
}

// badSysctl says why a name is not a parameter's name; empty if it is.
func badSysctl(n string) string {
	at := sysctlPath(n)
	bad := n == "" || len(n) > 255 || n[0] == '-' || path.IsAbs(at) || path.Clean(at) != at || at == ".." || strings.HasPrefix(at, "../") ||
		strings.ContainsFunc(n, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("=#;[]\\\"'", r) })
	if bad {
		return fmt.Sprintf("%q is not a name of a kernel parameter such as \"net.ipv4.ip_forward\"", n)
	}
	return ""
}

// normal is a value with single spaces between its parts.
func normal(value string) string { return strings.Join(strings.Fields(value), " ") }

// parseSysctl reads one line of sysctl.d(5) that is not a comment.
func parseSysctl(file, line string) (a assignment, ok bool) {
	rest, ignore := strings.CutPrefix(line, "-")
	n, value, found := strings.Cut(rest, "=")
	n = strings.TrimSpace(n)
	if n == "" || !found && !ignore {
		return assignment{}, false
	}
	return assignment{path: path.Clean(sysctlPath(n)), value: normal(value), file: file, exclude: !found}, true
}

func isPattern(at string) bool { return strings.ContainsAny(at, "*?[") }

func matches(pattern, at string) bool {
	ok, err := path.Match(pattern, at)
	return ok && err == nil
}

// atBoot is the value that the files give a parameter: from the last line with its name, or else from the last
// matching pattern.
func atBoot(lines []assignment, at string) (last assignment, found bool) {
	for _, a := range lines {
		if a.path == at {
			last, found = a, true
		}
	}
	if found {
		return last, !last.exclude
	}
	for _, a := range lines {
		if isPattern(a.path) && matches(a.path, at) {
			last, found = a, true
		}
	}
	return last, found
}

func (w *work) sysctlLines() (lines []assignment, err error) {
	err = w.configLines(sysctlFolders, func(file, line string) {
		if a, ok := parseSysctl(file, line); ok {
			lines = append(lines, a)
		}
	})
	return lines, err
}

func (w *work) live(at string) (string, error) {
	text, err := w.tree.Read("/proc/sys/"+at, maxParameter)
	return normal(string(text)), err
}

// expand lists the parameters that a path or pattern stands for. A pattern does not apply to a parameter that has
// its own line.
func (w *work) expand(at string, lines []assignment) (paths []string) {
	if !isPattern(at) {
		return []string{at}
	}
	level := []string{""}
	for part := range strings.SplitSeq(at, "/") {
		var next []string
		for _, folder := range level {
			if !isPattern(part) {
				next = append(next, path.Join(folder, part))
				continue
			}
			names, _ := w.tree.Names("/proc/sys/" + folder) // an unreadable folder has no matches
			for _, n := range names {
				if matches(part, n) {
					next = append(next, path.Join(folder, n))
				}
			}
		}
		level = next
	}
	for _, p := range level {
		named := slices.ContainsFunc(lines, func(a assignment) bool { return a.path == p })
		if !named && w.tree.Exists("/proc/sys/"+p) {
			paths = append(paths, p)
		}
	}
	return paths
}

func (w *work) observeSysctl(keys []string, modulesReady bool) {
	if len(keys) == 0 {
		return
	}
	lines, err := w.sysctlLines()
	for _, key := range keys {
		if why := badSysctl(item.ID(key)); why != "" {
			w.seen.Cannot[key] = why
		} else if err != nil {
			w.seen.Unread[key] = err.Error()
		} else {
			w.tellSysctl(key, lines, modulesReady)
		}
	}
}

// tellSysctl reports the current value, and the value at the next boot if it differs.
func (w *work) tellSysctl(key string, lines []assignment, modulesReady bool) {
	at := sysctlPath(item.ID(key))
	boot, set := atBoot(lines, at)
	if !w.h.Live {
		if set {
			w.seen.Have[key] = boot.value
		}
		return
	}
	var now []string
	for _, p := range w.expand(at, lines) {
		value, err := w.live(p)
		switch {
		case errors.Is(err, fs.ErrNotExist) && modulesReady:
			w.seen.Cannot[key] = fmt.Sprintf("this kernel has no parameter %s (there is no /proc/sys/%s); a module that is not loaded may bring it: system.modules", item.ID(key), p)
			return
		case errors.Is(err, fs.ErrNotExist):
			return // a module that the design loads may add the parameter
		case err != nil:
			w.seen.Unread[key] = err.Error()
			return
		}
		now = append(now, value)
	}
	slices.Sort(now)
	text := strings.Join(slices.Compact(now), " and ")
	switch {
	case len(now) == 0 && set:
		text = boot.value
	case len(now) == 0:
		return // a pattern without matches
	case !set:
		text += ", and the kernel's own value at the next boot"
	case boot.value != text:
		text += ", and " + boot.value + " at the next boot"
	}
	w.seen.Have[key] = text
}

func (w *work) applySysctl(items []item.Item, leaving []string) {
	if len(items) == 0 && len(leaving) == 0 {
		return
	}
	lines, err := w.sysctlLines()
	if err != nil {
		w.fail(item.KindSysctl, err)
		return
	}
	for _, i := range items { // patterns skip names that have their own line, in any order
		lines = append(lines, assignment{path: sysctlPath(item.ID(i.Key)), value: normal(i.Fields[""]), file: sysctlFile})
	}
	leaving = slices.DeleteFunc(slices.Clone(leaving), func(key string) bool {
		err := w.restoreSysctl(key)
		if err != nil {
			w.fail(key, err)
		}
		return err != nil
	})
	for _, i := range items {
		if err := w.setSysctl(i, lines); err != nil {
			w.fail(i.Key, err)
		}
	}
	if err := w.writeSysctl(leaving); err != nil {
		w.fail(item.KindSysctl, err)
		return
	}
	for _, key := range leaving {
		if err := w.items.Drop(key); err != nil {
			w.fail(key, err)
		}
	}
}

// overridden finds a line that is read after Slipway's.
func overridden(lines []assignment, at, value string) (by assignment, found bool) {
	for _, a := range lines {
		if a.path == at && !a.exclude && path.Base(a.file) > path.Base(sysctlFile) {
			by, found = a, a.value != value
		}
	}
	return by, found
}

// setSysctl sets a parameter now, and records it for the file. A value that the kernel rejects is not written to
// the file.
func (w *work) setSysctl(i item.Item, lines []assignment) error {
	n, value := item.ID(i.Key), normal(i.Fields[""])
	at := sysctlPath(n)
	if why := badSysctl(n); why != "" {
		return &wire.Error{Class: wire.Refused, Text: why}
	}
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("the value %q has characters that a kernel parameter cannot have", value)}
	}
	if by, found := overridden(lines, at, value); found {
		return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("%s sets %s to %q after Slipway's file. Remove that line, or take the file into the design", by.file, n, by.value)}
	}
	_, ours := w.h.Owned.Entry(name, i.Key)
	before, change := sysctlBefore{Values: map[string]string{}}, []string(nil)
	if w.h.Live {
		for _, p := range w.expand(at, lines) {
			now, err := w.live(p)
			if errors.Is(err, fs.ErrNotExist) {
				return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("this kernel has no parameter %s (there is no /proc/sys/%s); a module that is not loaded may bring it: system.modules", n, p)}
			}
			if err != nil {
				return err
			}
			before.Values[p] = now
			if now != value {
				change = append(change, p)
			}
		}
	}
	var err error
	if before.Folders, err = w.foldersOf(sysctlFile); err != nil {
		return err
	}
	if err := w.items.Take(i.Key, before); err != nil {
		return err
	}
	for _, p := range change {
		if err := w.setLive(p, value); err != nil {
			return w.refusedValue(i.Key, ours, err)
		}
	}
	return w.items.Note(i.Key, sysctlMade{value})
}

// setLive sets a parameter and reads it back.
func (w *work) setLive(at, value string) error {
	err := w.setAlone(at, value)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ERANGE) {
		return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("the kernel does not take %q for /proc/sys/%s: %v", value, at, err)}
	}
	if err != nil {
		return err
	}
	if now, err := w.live(at); err != nil || now != value {
		return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("the kernel made %q of %q in /proc/sys/%s. Write the value as the kernel has it", now, value, at)}
	}
	return nil
}

// acceptRedirects is reset by the kernel whenever forwarding is switched (ip-sysctl in the kernel's documentation),
// even if a person has set it.
const acceptRedirects = "net/ipv4/conf/all/accept_redirects"

// setAlone sets a parameter without changing another.
func (w *work) setAlone(at, value string) error {
	if at != "net/ipv4/ip_forward" && at != "net/ipv4/conf/all/forwarding" {
		return w.tree.Set("/proc/sys/"+at, value)
	}
	was, unread := w.live(acceptRedirects)
	if err := w.tree.Set("/proc/sys/"+at, value); err != nil || unread != nil {
		return err
	}
	if now, err := w.live(acceptRedirects); err != nil || now == was {
		return nil
	}
	return w.tree.Set("/proc/sys/"+acceptRedirects, was)
}

// refusedValue restores a new item whose value the kernel rejects.
func (w *work) refusedValue(key string, ours bool, why error) error {
	if ours {
		return why
	}
	if err := w.restoreSysctl(key); err != nil {
		return errors.Join(why, err)
	}
	if err := w.items.Drop(key); err != nil {
		return errors.Join(why, err)
	}
	return why
}

// restoreSysctl restores the earlier values.
func (w *work) restoreSysctl(key string) error {
	if !w.h.Live {
		return nil
	}
	var before sysctlBefore
	w.items.Load(key, &before, nil)
	for at, value := range before.Values {
		now, err := w.live(at)
		if errors.Is(err, fs.ErrNotExist) || err == nil && now == value {
			continue
		}
		if err == nil {
			err = w.setAlone(at, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeSysctl writes the file for the owned parameters.
func (w *work) writeSysctl(leaving []string) error {
	var lines strings.Builder
	for _, key := range w.h.Owned.Keys(name) {
		if item.Kind(key) != item.KindSysctl || slices.Contains(leaving, key) {
			continue
		}
		var made *sysctlMade
		if w.items.Load(key, nil, &made); made != nil {
			fmt.Fprintf(&lines, "%s = %s\n", item.ID(key), made.Value)
		}
	}
	return w.ourFile(sysctlFile, lines.String(), leaving)
}
