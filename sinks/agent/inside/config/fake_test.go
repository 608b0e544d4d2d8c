package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// fake is a system in a folder, whose systemctl and modprobe are functions.
type fake struct {
	t        testing.TB
	host     *inside.Host
	active   map[string]string
	stale    bool              // systemctl changes nothing
	loaded   map[string]string // the unit files that systemd has read
	runs     map[string]string // the unit files that units were started with
	reads    map[string]string // the file that a unit reads when it starts
	goesBy   map[string]string // what was in it then
	calls    []string
	created  []string // the texts that systemd-tmpfiles has carried out
	told     []string
	fails    map[string]bool // units that do not start or reload
	noReload []string        // units without ExecReload
	prints   string          // what units printed before they failed
	writes   int
	limit    int                                  // writes after which everything fails; 0 for none
	requires map[string]string                    // which units require one
	parts    map[string]string                    // and are part of one
	units    string                               // what systemctl list-unit-files prints
	rpm      map[string]string                    // packages by file; nil where rpm does not start
	checks   func(c inside.Command) inside.Output // visudo and sshd
}

var errCut = errors.New("cut off")

const packageUnit = "[Unit]\nDescription=%s\n[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"

// newFake makes a small system.
func newFake(t testing.TB) *fake {
	f := &fake{t: t, active: map[string]string{"a.service": "active"}, loaded: map[string]string{}, runs: map[string]string{}, reads: map[string]string{}, goesBy: map[string]string{}, fails: map[string]bool{}}
	root := memory(t)
	f.host = &inside.Host{Root: root, Live: true, Exec: f.exec, Tell: func(s string) { f.told = append(f.told, s) }}
	f.reload()
	for path, content := range map[string]string{
		"/etc/passwd":                               "root:x:0:0:::\nops:x:1000:1000:::\n",
		"/etc/group":                                "root:x:0:\nops:x:1000:\n",
		"/etc/motd":                                 "before\n",
		"/usr/lib/systemd/system/a.service":         fmt.Sprintf(packageUnit, "a"),
		"/usr/lib/systemd/system/b.service":         fmt.Sprintf(packageUnit, "b"),
		"/usr/lib/systemd/system/static.service":    "[Service]\nExecStart=/bin/true\n",
		"/proc/sys/net/ipv4/ip_forward":             "0\n",
		"/proc/sys/net/ipv4/tcp_rmem":               "4096\t131072\t6291456\n",
		"/proc/sys/net/ipv4/conf/eth0.1/forwarding": "0\n",
		"/proc/sys/net/ipv4/conf/eth1/forwarding":   "0\n",
		"/proc/sys/vm/swappiness":                   "60\n",
		"/proc/sys/kernel/osrelease":                "6.1.0\n",
		"/proc/sys/kernel/random/boot_id":           "boot-1\n",
		"/lib/modules/6.1.0/modules.builtin":        "kernel/fs/ext4/ext4.ko\n",
		"/sys/module/dummy/initstate":               "live\n",
	} {
		f.put(path, content)
	}
	f.link("/etc/systemd/system/multi-user.target.wants/a.service", "/usr/lib/systemd/system/a.service")
	// A unit of the administrator's own, and one that is masked over its links.
	f.put("/etc/systemd/system/own.service", fmt.Sprintf(packageUnit, "own"))
	f.put("/usr/lib/systemd/system/masked.service", fmt.Sprintf(packageUnit, "masked"))
	f.link("/etc/systemd/system/masked.service", "/dev/null")
	f.link("/etc/systemd/system/multi-user.target.wants/masked.service", "/usr/lib/systemd/system/masked.service")
	return f
}

// memory is a folder that is in memory where there is one, since each write is
// put on the disk.
func memory(t testing.TB) string {
	root, err := os.MkdirTemp("/dev/shm", "slipway-config-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	if err := os.Chmod(root, 0o755); err != nil { // as a system's is
		t.Fatal(err)
	}
	return root
}

func (f *fake) put(path, content string) {
	f.t.Helper()
	at := f.host.Path(path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(content), 0o644)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fake) link(path, target string) {
	f.t.Helper()
	at := f.host.Path(path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.Symlink(target, at)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fake) read(path string) string {
	f.t.Helper()
	text, err := os.ReadFile(f.host.Path(path))
	if err != nil {
		f.t.Fatal(err)
	}
	return string(text)
}

// reload reads the list of what Slipway made, as a new run does.
func (f *fake) reload() {
	f.t.Helper()
	owned, err := inside.LoadOwned(f.host.Root)
	if err != nil {
		f.t.Fatal(err)
	}
	f.host.Owned = owned
}

func (f *fake) before(string) error {
	if f.writes++; f.limit > 0 && f.writes > f.limit {
		return errCut
	}
	return nil
}

func (f *fake) facet() facet { return facet{before: f.before} }

func (f *fake) apply(items []item.Item, remove ...string) error {
	return f.facet().Apply(context.Background(), f.host, items, remove)
}

func (f *fake) observe(keys ...string) inside.Seen {
	f.t.Helper()
	seen, err := f.facet().Observe(context.Background(), f.host, keys)
	if err != nil {
		f.t.Fatal(err)
	}
	return seen
}

func (f *fake) exec(_ context.Context, c inside.Command) (inside.Output, error) {
	if f.limit > 0 && f.writes > f.limit {
		return inside.Output{}, errCut
	}
	f.calls = append(f.calls, c.Path+" "+strings.Join(c.Args, " "))
	args := slices.DeleteFunc(slices.Clone(c.Args), func(a string) bool { return strings.HasPrefix(a, "--") })
	switch c.Path {
	case "modprobe":
		if strings.HasPrefix(args[0], "no") {
			return inside.Output{Code: 1, Err: []byte("modprobe: FATAL: Module " + args[0] + " not found")}, nil
		}
		f.put("/sys/module/"+args[0]+"/initstate", "live\n")
		return inside.Output{}, nil
	case "systemctl":
		return f.systemctl(args[0], args[1:])
	case "systemd-tmpfiles":
		file := args[len(args)-1]
		text := f.read(file)
		if strings.Contains(text, "bad") {
			return inside.Output{Code: 65, Err: []byte(file + ":1: Unknown command type 'bad'.")}, nil
		}
		f.created = append(f.created, text)
		return inside.Output{}, nil
	case "rpm":
		return f.rpmSays(c.Args)
	case "visudo", "/usr/sbin/sshd":
		if f.checks != nil {
			return f.checks(c), nil
		}
	}
	return inside.Output{Code: 127}, errors.New(c.Path + ": not found")
}

func (f *fake) systemctl(verb string, units []string) (inside.Output, error) {
	failed := func(text string) (inside.Output, error) {
		return inside.Output{Code: 1, Err: []byte(text)}, nil
	}
	var out strings.Builder
	if s := f.stale && (verb == "daemon-reload" || verb == "restart" || verb == "start"); s {
		return failed("Failed: systemd is busy")
	}
	switch verb {
	case "list-unit-files":
		out.WriteString(f.units)
	case "daemon-reload":
		for u := range f.loaded {
			f.loaded[u] = f.content(u)
		}
	}
	for _, u := range units {
		unit := f.unit(u)
		switch verb {
		case "show":
			state := f.active[u]
			if state == "" {
				state = "inactive"
			}
			stale := "no"
			if was, isLoaded := f.loaded[u]; isLoaded && was != f.content(u) {
				stale = "yes"
			}
			fmt.Fprintf(&out, "Id=%s\nType=simple\nResult=success\nActiveState=%s\nSubState=x\nNeedDaemonReload=%s\n", u, state, stale)
			load, can := "loaded", "yes"
			if unit == "" {
				load = "not-found"
			}
			if slices.Contains(f.noReload, u) {
				can = "no"
			}
			fmt.Fprintf(&out, "LoadState=%s\nCanReload=%s\n", load, can)
			fmt.Fprintf(&out, "RequiredBy=%s\nConsistsOf=%s\n\n", f.requires[u], f.parts[u])
		case "start", "restart":
			if unit == "" || f.fails[u] {
				f.active[u] = "failed"
				return failed("Job for " + u + " failed.")
			}
			if _, isLoaded := f.loaded[u]; !isLoaded {
				f.loaded[u] = f.content(u)
			}
			f.active[u], f.runs[u] = "active", f.loaded[u]
			text, _ := os.ReadFile(f.host.Path(f.reads[u]))
			f.goesBy[u] = string(text)
		case "reload":
			if f.fails[u] {
				return failed("Job for " + u + " failed.")
			}
		case "stop":
			if f.active[u] == "" {
				return failed("Unit " + u + " not loaded.")
			}
			delete(f.active, u)
			delete(f.loaded, u) // nothing needs it any more
		case "reset-failed":
			delete(f.active, u)
		case "status":
			fmt.Fprintf(&out, "× %s\n   Active: %s\n\x1b[31msecond line\n%s", u, f.active[u], f.prints)
		case "enable":
			if unit == "" {
				return failed("Unit file " + u + " does not exist.")
			}
			for _, target := range wantedBy(f.read(unit)) {
				at := f.host.Path(unitFolder + "/" + target + ".wants/" + u)
				_ = os.Remove(at)
				f.link(unitFolder+"/"+target+".wants/"+u, unit)
			}
		case "disable":
			found, _ := filepath.Glob(f.host.Path(unitFolder + "/*.wants/" + u))
			for _, at := range found {
				_ = os.Remove(at)
				_ = os.Remove(filepath.Dir(at)) // only an empty one goes
			}
		}
	}
	return inside.Output{Out: []byte(out.String())}, nil
}

// content is what is in the file of a unit.
func (f *fake) content(u string) string {
	if at := f.unit(u); at != "" {
		return f.read(at)
	}
	return ""
}

func (f *fake) unit(n string) string {
	for _, folder := range []string{unitFolder, "/usr/lib/systemd/system"} {
		at := f.host.Path(folder + "/" + n)
		if target, err := os.Readlink(at); err == nil && target == "/dev/null" {
			return ""
		}
		if _, err := os.Lstat(at); err == nil {
			return folder + "/" + n
		}
	}
	return ""
}

func wantedBy(text string) (targets []string) {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "WantedBy="); ok {
			targets = append(targets, strings.Fields(v)...)
		}
	}
	return targets
}

// listing is the whole system but for what Slipway keeps and the kernel's files
// of modules; with times it tells every write.
func (f *fake) listing(times bool) string {
	f.t.Helper()
	var lines []string
	err := filepath.WalkDir(f.host.Root, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(at, f.host.Root)
		if !times && (strings.HasPrefix(name, "/var") || strings.HasPrefix(name, "/sys")) {
			return nil
		}
		if inner, _ := os.ReadDir(at); len(inner) == 0 && strings.HasSuffix(name, ".wants") && !times {
			return nil // a cut may leave an empty one, which says nothing
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		stat := info.Sys().(*syscall.Stat_t)
		line := fmt.Sprintf("%s %v %d:%d", name, info.Mode(), stat.Uid, stat.Gid)
		if times {
			line += fmt.Sprintf(" %d %d.%d", stat.Ino, stat.Ctim.Sec, stat.Ctim.Nsec)
		}
		if info.Mode().IsRegular() {
			text, err := os.ReadFile(at)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %q", text)
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			target, _ := os.Readlink(at)
			if strings.HasSuffix(filepath.Dir(name), ".wants") && !times {
				target = filepath.Base(target) // systemd knows the unit by that alone
			}
			line += " -> " + target
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, u := range slices.Sorted(maps.Keys(f.active)) {
		lines = append(lines, "active "+u+" "+f.active[u])
	}
	return strings.Join(lines, "\n")
}

func file(path, content, mode, owner string) item.Item {
	body, _ := json.Marshal(item.File{Content: []byte(content), Mode: mode, Owner: owner, Group: owner})
	return item.Item{Key: "files." + path, Body: body, Fields: map[string]string{
		"content": item.Digest([]byte(content)), "mode": mode, "owner": owner + ":" + owner}}
}

func absent(path string) item.Item {
	return item.Item{Key: "files." + path, Fields: map[string]string{"state": "absent"}}
}

func unit(n, content, enabled, state string) item.Item {
	i := item.Item{Key: "units." + n, Fields: map[string]string{}}
	var body item.Unit
	if content != "" {
		body.Content = &content
		i.Fields["content"] = item.Digest([]byte(content))
	}
	if enabled != "" {
		i.Fields["enabled"] = strconv.FormatBool(enabled == "enabled")
	}
	if state != "" {
		i.Fields["state"] = state
	}
	i.Body, _ = json.Marshal(body)
	return i
}

func unlisted(n string) item.Item {
	return item.Item{Key: "unlisted." + n, Fields: map[string]string{"": "disabled"}}
}

func sysctl(n, value string) item.Item {
	return item.Item{Key: "sysctl." + n, Fields: map[string]string{"": value}}
}

func module(n, parameters string) item.Item {
	return item.Item{Key: "modules." + n, Fields: map[string]string{"parameters": parameters}}
}

// met says which fields are not as the items want them.
func (f *fake) met(items []item.Item) (wrong []string) {
	f.t.Helper()
	seen := f.observe(item.Keys(items)...)
	for n, want := range item.Values(items) {
		have, there := seen.Have[n]
		if !there || have != want && seen.Pending[n] != want {
			wrong = append(wrong, fmt.Sprintf("%s is %q, want %q", n, have, want))
		}
	}
	for key, why := range seen.Unread {
		wrong = append(wrong, key+": "+why)
	}
	slices.Sort(wrong)
	return wrong
}
