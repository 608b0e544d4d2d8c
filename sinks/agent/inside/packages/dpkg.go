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
	// purging are packages that are removed except for dpkg's entry of them: it purges a package that has no
	// configuration files when it removes it, and was interrupted.
	purging []string
}

// files lists the files that dpkg recorded when it unpacked a package.
func (apt) files(_ context.Context, h *inside.Host, inv inventory, name string) ([]string, error) {
	bare, _, _ := strings.Cut(name, ":")
	for _, list := range []string{name, bare + ":" + inv.native, bare} {
		text, err := readIfThere(h, "/var/lib/dpkg/info/"+list+".list")
		if err != nil || text != nil {
			return strings.Fields(string(text)), err // unit paths have no blanks
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

// parseStatus reads dpkg's status file in one pass.
func parseStatus(text []byte) inventory {
	inv := inventory{byName: make(map[string]installed, len(text)/1200)}
	type entry struct {
		name, arch string
		is         installed
	}
	var foreign []entry
	for len(text) > 0 {
		var name, status, arch, version []byte
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
			}
		}
		if len(name) == 0 {
			continue
		}
		words := strings.Fields(string(status)) // "install ok installed"
		if len(words) != 3 {
			continue
		}
		is := installed{Version: string(version)}
		state, clean := dpkgStates[words[2]]
		if !clean {
			state = words[2]
		}
		if words[1] == "reinstreq" {
			state, clean = "half-installed", false
		}
		if state == statePresent && words[0] == "hold" {
			state = stateHeld
		}
		is.State = state
		if words[0] == "purge" && words[2] == "config-files" {
			inv.purging = append(inv.purging, string(name))
		}
		if !is.there() {
			continue
		}
		if string(name) == "dpkg" && inv.native == "" {
			inv.native = string(arch)
		}
		if !clean || strings.HasPrefix(words[2], "triggers-") {
			inv.broken = append(inv.broken, string(name))
		}
		foreign = append(foreign, entry{string(name), string(arch), is})
	}
	for _, e := range foreign {
		if e.arch == "all" || e.arch == inv.native || e.arch == "" {
			inv.byName[e.name] = e.is
		} else {
			inv.byName[e.name+":"+e.arch] = e.is
		}
	}
	return inv
}

// value is the field's value if the line has it, else the known value.
func value(line []byte, field string, known []byte) []byte {
	if rest, ok := bytes.CutPrefix(line, []byte(field)); ok {
		return bytes.TrimSpace(rest)
	}
	return known
}
