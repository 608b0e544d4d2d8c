package network

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// conflicts reports whether a foreign file sets up an interface of ours. It refuses a file that also sets up
// others, because moving the file aside would remove them.
func conflicts(file, text, manager string, all links, others []string) (bool, error) {
	switch manager {
	case Networkd:
		return networkdConflict(file, text, all, others)
	case Netplan:
		return netplanConflict(file, text, all)
	case NetworkManager:
		return keyfileConflict(text, all), nil
	}
	return false, nil
}

// macs maps MAC addresses to interfaces.
func (all links) macs() map[string]string {
	macs := map[string]string{}
	for name, l := range all {
		if l.MAC != "" {
			macs[strings.ToLower(l.MAC)] = name
		}
	}
	return macs
}

// settings are the values of a file with sections, by "Section.Key".
func settings(text string) map[string][]string {
	values := map[string][]string{}
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
			section = line[1 : len(line)-1]
			continue
		}
		if key, value, ok := strings.Cut(line, "="); ok && line[0] != '#' && line[0] != ';' {
			name := section + "." + strings.TrimSpace(key)
			values[name] = append(values[name], strings.TrimSpace(value))
		}
	}
	return values
}

// networkdConflict uses the order of names: of two files for an interface the first one counts. A file after ours
// does not matter.
func networkdConflict(file, text string, all links, others []string) (bool, error) {
	base, kind := path.Base(file), path.Ext(file)
	values := settings(text)
	names := strings.Fields(strings.Join(slices.Concat(values["Match.Name"], values["Match.OriginalName"], values["NetDev.Name"]), " "))
	macs := strings.Fields(strings.ToLower(strings.Join(slices.Concat(values["Match.MACAddress"], values["Match.PermanentMACAddress"]), " ")))
	var ours []string
	broad := len(names) == 0 && len(macs) == 0 // it matches by type, driver or path
	for name, l := range all {
		if base > "10-slipway-"+name+kind || kind == ".link" && l.MAC == "" && l.Functions == 0 || kind == ".netdev" && l.Kind == "ethernet" {
			continue
		}
		if broad || matches(names, name) || l.MAC != "" && slices.Contains(macs, strings.ToLower(l.MAC)) {
			ours = append(ours, name)
		}
	}
	if len(ours) == 0 {
		return false, nil
	}
	slices.Sort(ours)
	more := slices.DeleteFunc(slices.Clone(others), func(o string) bool { return !broad && !matches(names, o) })
	if broad || len(more) > 0 {
		return false, &wire.Error{Class: wire.Refused, Text: fmt.Sprintf(
			"%s sets up %s and other interfaces too. Give it a name that sorts after 10-slipway-, such as 50-%s, or design all of its interfaces", file, ours[0], base)}
	}
	return true, nil
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { ok, err := filepath.Match(p, name); return err == nil && ok })
}

// keyfileConflict reads a profile of NetworkManager, in either format.
func keyfileConflict(text string, all links) bool {
	values := settings(text)
	macs := all.macs()
	for _, key := range []string{"connection.interface-name", ".DEVICE"} {
		for _, v := range values[key] {
			if _, ours := all[strings.Trim(v, `"'`)]; ours {
				return true
			}
		}
	}
	for _, key := range []string{"ethernet.mac-address", "802-3-ethernet.mac-address", ".HWADDR"} {
		for _, v := range values[key] {
			if _, ours := macs[strings.ToLower(strings.Trim(v, `"'`))]; ours {
				return true
			}
		}
	}
	return false
}

// netplanConflict reads which interfaces a netplan file defines. netplan merges the lists of all files, so any
// mention of ours matters.
func netplanConflict(file, text string, all links) (bool, error) {
	defined, err := netplanInterfaces(text)
	if err != nil {
		return false, &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("%s cannot be read: %v. Write it as plain blocks, or remove it", file, err)}
	}
	macs := all.macs()
	var ours, others []string
	for id, d := range defined {
		_, byID := all[id]
		_, byName := all[d.setName]
		_, byMAC := macs[strings.ToLower(d.mac)]
		if byID || byName || byMAC {
			ours = append(ours, id)
		} else {
			others = append(others, id)
		}
	}
	slices.Sort(others)
	if len(ours) > 0 && len(others) > 0 {
		return false, &wire.Error{Class: wire.Refused, Text: fmt.Sprintf(
			"%s sets up %s beside interfaces of the design. Add it to the design, or move it to a file of its own", file, strings.Join(others, ", "))}
	}
	return len(ours) > 0, nil
}

// defined is how a netplan file describes an interface.
type defined struct{ mac, setName string }

var netplanSections = []string{"ethernets", "bonds", "bridges", "vlans", "wifis", "modems", "tunnels", "vrfs", "dummy-devices", "nm-devices"}

// netplanInterfaces are the interfaces of a file: block YAML, as people and cloud-init write it, or JSON.
func netplanInterfaces(text string) (map[string]defined, error) {
	var asJSON struct {
		Network map[string]json.RawMessage `json:"network"`
	}
	if json.Unmarshal([]byte(withoutComments(text)), &asJSON) == nil {
		return netplanJSON(asJSON.Network)
	}
	all := map[string]defined{}
	var at []string // the keys that lead to a line
	var depths []int
	for line := range strings.Lines(withoutComments(text)) {
		line = strings.TrimRight(line, " \r\n")
		body := strings.TrimLeft(line, " ")
		if body == "" || body == "---" {
			continue
		}
		if strings.HasPrefix(body, "\t") {
			return nil, fmt.Errorf("it is indented by tabs")
		}
		depth := len(line) - len(body)
		for len(depths) > 0 && depths[len(depths)-1] >= depth {
			depths, at = depths[:len(depths)-1], at[:len(at)-1]
		}
		if strings.HasPrefix(body, "-") {
			continue // lists name no interface
		}
		key, value, ok := strings.Cut(body, ":")
		if !ok {
			continue
		}
		key, value = unquote(key), unquote(value)
		if len(at) < 2 && (strings.HasPrefix(value, "{") && value != "{}" || strings.ContainsAny(value, "&*!|>")) {
			return nil, fmt.Errorf("%q is not a plain block", printable([]byte(body)))
		}
		at, depths = append(at, key), append(depths, depth)
		if len(at) < 3 || at[0] != "network" || !slices.Contains(netplanSections, at[1]) {
			continue
		}
		d := all[at[2]]
		switch {
		case len(at) == 3 && strings.HasPrefix(value, "{") && value != "{}":
			return nil, fmt.Errorf("%q is not a plain block", printable([]byte(body)))
		case len(at) == 4 && key == "set-name":
			d.setName = value
		case len(at) == 4 && key == "match" && value != "":
			_, mac, _ := strings.Cut(value, "macaddress:")
			d.mac = unquote(strings.Trim(mac, "{} "))
		case len(at) == 5 && at[3] == "match" && key == "macaddress":
			d.mac = value
		}
		all[at[2]] = d
	}
	return all, nil
}

func netplanJSON(network map[string]json.RawMessage) (map[string]defined, error) {
	all := map[string]defined{}
	for _, section := range netplanSections {
		var ids map[string]struct {
			Match   struct{ MACAddress string }
			SetName string `json:"set-name"`
		}
		if len(network[section]) == 0 {
			continue
		}
		if err := json.Unmarshal(network[section], &ids); err != nil {
			return nil, err
		}
		for id, d := range ids {
			all[id] = defined{d.Match.MACAddress, d.SetName}
		}
	}
	return all, nil
}

func withoutComments(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if at := strings.IndexByte(line, '#'); at == 0 || at > 0 && line[at-1] == ' ' {
			line = line[:at] + "\n"
		}
		b.WriteString(line)
	}
	return b.String()
}

func unquote(s string) string { return strings.Trim(strings.TrimSpace(s), `"'`) }

// sourceLine makes ifupdown read our file's folder.
const sourceLine = "source " + ifupdownFile

// foreignStanzas cuts the stanzas of our interfaces out of ifupdown's files and sets them aside. It restores those
// of interfaces that are no longer ours.
func foreignStanzas(h *inside.Host, p *plan) ([]write, error) {
	var writes []write
	paths, err := ifupdownFiles(h)
	if err != nil {
		return nil, err
	}
	sourced := false
	for _, path := range paths {
		text, mode, err := readFile(h, path)
		if err != nil {
			return nil, err
		}
		stays, cut := cutStanzas(string(text), func(name string) bool { _, ours := p.all[name]; return ours })
		aside := ""
		if kept, _, err := readFile(h, asideFolder+path); err == nil {
			aside = string(kept)
		}
		aside = joined(aside, cut)
		left, back := cutStanzas(aside, func(name string) bool { _, ours := p.all[name]; return !ours })
		stays = joined(stays, back)
		if cut == "" && back == "" {
			stays = string(text)
		}
		if path == interfacesFile {
			stays = withSource(stays, len(p.after) > 0)
			sourced = true
		}
		if cut != "" {
			p.aside = append(p.aside, path)
		}
		if strings.TrimSpace(left) != "" {
			writes = append(writes, write{asideFolder + path, []byte(left), 0o600})
		}
		writes = append(writes, write{path, []byte(stays), mode})
		if strings.TrimSpace(left) == "" {
			writes = append(writes, write{path: asideFolder + path})
		}
	}
	if !sourced && len(p.after) > 0 {
		writes = append(writes, write{interfacesFile, []byte("auto lo\niface lo inet loopback\n\n" + sourceLine + "\n"), 0o644})
	}
	return writes, nil
}

// ifupdownFiles are the files of ifupdown except ours.
func ifupdownFiles(h *inside.Host) ([]string, error) {
	var paths []string
	found, err := filepath.Glob(h.Path(interfacesFolder + "/*"))
	if err != nil {
		return nil, err
	}
	for _, at := range append(found, h.Path(interfacesFile)) {
		inRoot, err := filepath.Rel(h.Root, at)
		if err != nil {
			return nil, err
		}
		path := "/" + inRoot
		if _, mode, err := readFile(h, path); err == nil && mode&fs.ModeSymlink == 0 && path != ifupdownFile {
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// withSource adds the line that makes ifupdown read our file exactly if it is needed.
func withSource(text string, wanted bool) string {
	has := false
	var b strings.Builder
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 2 && words[0] == "source" && (words[1] == interfacesFolder+"/*" || words[1] == "interfaces.d/*") ||
			len(words) == 2 && words[0] == "source-directory" && strings.TrimSuffix(words[1], "/") == interfacesFolder {
			has = true
		}
		if strings.TrimSpace(line) != sourceLine {
			b.WriteString(line)
		}
	}
	if wanted && !has {
		return strings.TrimRight(b.String(), "\n") + "\n" + sourceLine + "\n"
	}
	return b.String()
}

// stanzaWords start a stanza or a setting in interfaces(5).
var stanzaWords = []string{"iface", "mapping", "auto", "source", "source-directory", "no-auto-down", "no-scripts", "template", "rename"}

// cutStanzas cuts the stanzas of some interfaces out of an ifupdown file.
func cutStanzas(text string, of func(name string) bool) (stays, cut string) {
	var in, out strings.Builder
	to := &in
	for _, line := range logicalLines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			to.WriteString(line)
			continue
		}
		starts := slices.Contains(stanzaWords, words[0]) || strings.HasPrefix(words[0], "allow-")
		if !starts {
			to.WriteString(line)
			continue
		}
		to = &in
		switch {
		case words[0] == "iface" && len(words) > 1:
			name, _, _ := strings.Cut(words[1], ":")
			if of(name) {
				to = &out
			}
			to.WriteString(line)
		case words[0] == "auto" || strings.HasPrefix(words[0], "allow-"):
			mine := slices.DeleteFunc(slices.Clone(words[1:]), func(w string) bool { n, _, _ := strings.Cut(w, ":"); return !of(n) })
			if len(mine) == 0 {
				in.WriteString(line)
				break
			}
			out.WriteString(words[0] + " " + strings.Join(mine, " ") + "\n")
			if rest := slices.DeleteFunc(words[1:], func(w string) bool { return slices.Contains(mine, w) }); len(rest) > 0 {
				in.WriteString(words[0] + " " + strings.Join(rest, " ") + "\n")
			}
		default:
			in.WriteString(line)
		}
	}
	return in.String(), out.String()
}

// logicalLines joins lines that end with a backslash with the next line.
func logicalLines(text string) []string {
	var lines []string
	more := false
	for line := range strings.Lines(text) {
		if more {
			lines[len(lines)-1] += line
		} else {
			lines = append(lines, line)
		}
		more = strings.HasSuffix(strings.TrimRight(line, "\n"), `\`)
	}
	if n := len(lines); n > 0 && !strings.HasSuffix(lines[n-1], "\n") {
		lines[n-1] += "\n"
	}
	return lines
}

// joined appends a text to another, unless it already contains the text.
func joined(text, more string) string {
	switch {
	case strings.TrimSpace(more) == "" || strings.Contains(text, strings.TrimRight(more, "\n")):
		return text
	case strings.TrimSpace(text) == "":
		return more
	}
	return strings.TrimRight(text, "\n") + "\n\n" + strings.TrimLeft(more, "\n")
}
