package packages

import (
	"bytes"
	"context"
	"strings"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// installed is one package that the system has or knows.
type installed struct {
	Version string
	// State is item.Present, item.Held, item.Absent, or the state after an interruption: "half-configured",
	// "unpacked", "half-installed", …
	State string
	// Time is when it was installed, in seconds. Only the rpm database has it.
	Time int64
}

// there reports whether the package manager counts it as installed, completely or not.
func (p installed) there() bool { return p.State != "" && p.State != stateAbsent }

// inventory is what is installed.
type inventory struct {
	byName map[string]installed // "libc6", or "libc6:i386" for a foreign architecture
	native string               // the system's architecture
	broken []string             // packages left half done by an interruption
	// purging are packages that are removed except for dpkg's entry of them: when it removes a package without
	// configuration files and without a script for its end it purges it too, and was interrupted. A package that
	// somebody else was purging may have a script that deletes data: it is not one of these.
	purging []string
}

// files lists the files that dpkg recorded when it unpacked a package.
func (apt) files(_ context.Context, h *inside.Host, inv inventory, name string) ([]string, error) {
	text, err := info(h, inv, name, "list")
	return strings.Fields(string(text)), err // unit paths have no blanks
}

// info reads one of dpkg's files about a package; nil if there is none.
func info(h *inside.Host, inv inventory, name, kind string) ([]byte, error) {
	bare, _, _ := strings.Cut(name, ":")
	for _, is := range []string{name, bare + ":" + inv.native, bare} {
		text, err := readIfThere(h, "/var/lib/dpkg/info/"+is+"."+kind)
		if err != nil || text != nil {
			return text, err
		}
	}
	return nil, nil
}

// find returns the package for a name in the design. "libc6:amd64" is "libc6" if amd64 is the system's own
// architecture.
func (inv inventory) find(name string) installed {
	if bare, arch, ok := strings.Cut(name, ":"); ok && (arch == inv.native || arch == "all" || arch == "any") {
		name = bare
	}
	if p, ok := inv.byName[name]; ok {
		return p
	}
	return installed{State: stateAbsent}
}

// dpkgStates maps the states of dpkg to those that are reported.
var dpkgStates = map[string]string{
	"installed":        statePresent,
	"not-installed":    stateAbsent,
	"config-files":     stateAbsent,
	"triggers-pending": statePresent,
	"triggers-awaited": statePresent,
}

// entry is one package of dpkg's status file. want is the first word of its status, as "install".
type entry struct {
	name, arch, want string
	is               installed
	clean            bool // nothing is left to do for it
	gone             bool // nothing of it is left but the entry, or its configuration files
	keeps            bool // it has configuration files
}

// parseStatus reads dpkg's status file in one pass.
func parseStatus(text []byte) inventory {
	size := len(text) / 1200
	inv := inventory{byName: make(map[string]installed, size)}
	there := make([]entry, 0, size)
	for len(text) > 0 {
		var e entry
		e, text = nextEntry(text)
		if e.gone && e.want == "purge" && !e.keeps {
			inv.purging = append(inv.purging, e.name)
		}
		if !e.is.there() {
			continue
		}
		if e.name == "dpkg" && inv.native == "" {
			inv.native = e.arch
		}
		if !e.clean {
			inv.broken = append(inv.broken, e.name)
		}
		there = append(there, e)
	}
	for _, e := range there {
		if e.arch == "all" || e.arch == inv.native || e.arch == "" {
			inv.byName[e.name] = e.is
		} else {
			inv.byName[e.name+":"+e.arch] = e.is
		}
	}
	return inv
}

// nextEntry reads the first entry of a text, and returns the rest. The entry of no package has no state.
func nextEntry(text []byte) (e entry, rest []byte) {
	var name, status, arch, version []byte
	keeps := false
	for len(text) > 0 {
		var line []byte
		if end := bytes.IndexByte(text, '\n'); end >= 0 {
			line, text = text[:end], text[end+1:]
		} else {
			line, text = text, nil
		}
		if len(line) == 0 {
			break
		}
		switch line[0] {
		case 'P':
			name = value(line, "Package:", name)
		case 'S':
			status = value(line, "Status:", status)
		case 'A':
			arch = value(line, "Architecture:", arch)
		case 'V':
			version = value(line, "Version:", version)
		case 'C':
			keeps = keeps || bytes.HasPrefix(line, []byte("Conffiles:"))
		}
	}
	words := strings.Fields(string(status)) // "install ok installed"
	if len(name) == 0 || len(words) != 3 {
		return entry{}, text
	}
	state, known := dpkgStates[words[2]]
	switch {
	case words[1] == "reinstreq":
		state, known = "half-installed", false
	case !known:
		state = words[2]
	case state == statePresent && words[0] == "hold":
		state = stateHeld
	}
	return entry{name: string(name), arch: string(arch), want: words[0], is: installed{Version: string(version), State: state},
		clean: known && !strings.HasPrefix(words[2], "triggers-"), gone: words[2] == "config-files", keeps: keeps}, text
}

// value is the field's value if the line has it, else the known value.
func value(line []byte, field string, known []byte) []byte {
	if rest, ok := bytes.CutPrefix(line, []byte(field)); ok {
		return bytes.TrimSpace(rest)
	}
	return known
}
