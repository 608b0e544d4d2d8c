package network

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// rival is another enabled manager that also sets up our interfaces: after each boot the slower one wins.
type rival struct {
	manager string
	links   []string // what starts it at boot
	ours    []string // designed interfaces that it sets up
	others  []string // other interfaces that it sets up
}

// These programs set up all ports that they find. Slipway writes no configuration for them.
const (
	dhcpcd  = "dhcpcd"
	connman = "connman"
)

// rivalUnits are the units that start a manager at boot, its service last.
var rivalUnits = map[string][]string{
	Ifupdown: {"networking.service"},
	Networkd: {"systemd-networkd-wait-online.service", "systemd-networkd.socket", "systemd-networkd.service"},
	dhcpcd:   {"dhcpcd.service"},
	connman:  {"connman-wait-online.service", "connman.service"},
}

// rivals are other managers that set up our interfaces. Netplan writes for systemd-networkd and NetworkManager, so
// these are not its rivals.
func rivals(h *inside.Host, manager string, all links) ([]rival, error) {
	var found []rival
	if manager != Ifupdown && enabled(h, "networking.service") {
		r := rival{manager: Ifupdown}
		names, err := ifupdownInterfaces(h)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			r.meet(name, all)
		}
		found = append(found, r)
	}
	if manager == NetworkManager && enabled(h, "systemd-networkd.service") {
		r := rival{manager: Networkd}
		paths, err := candidates(h, Networkd)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			if filepath.Ext(path) != ".network" {
				continue
			}
			text, _, err := readFile(h, path)
			if err != nil {
				return nil, err
			}
			r.meetFile(path, string(text), all)
		}
		found = append(found, r)
	}
	takers, err := takers(h, all)
	if err != nil {
		return nil, err
	}
	found = append(found, takers...)
	found = slices.DeleteFunc(found, func(r rival) bool { return len(r.ours) == 0 })
	for i := range found {
		if err := found[i].started(h); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// takers are programs that set up all ports that they find, except those excluded by their own settings.
func takers(h *inside.Host, all links) (found []rival, err error) {
	for _, of := range []struct {
		manager, settings string
		leaves            func(text, port string) bool
	}{{dhcpcd, "/etc/dhcpcd.conf", dhcpcdLeaves}, {connman, "/etc/connman/main.conf", connmanLeaves}} {
		units := rivalUnits[of.manager]
		if !enabled(h, units[len(units)-1]) {
			continue
		}
		text, _, err := readFile(h, of.settings)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		r := rival{manager: of.manager}
		for _, port := range portsOf(h, all) {
			if !of.leaves(string(text), port) {
				r.meet(port, all)
			}
		}
		found = append(found, r)
	}
	return found, nil
}

// portsOf are the system's ports and the designed ones.
func portsOf(h *inside.Host, all links) []string {
	ports := all.names("ethernet")
	found, _ := filepath.Glob(h.Path("/sys/class/net/*/device")) // the pattern is constant
	for _, at := range found {
		ports = append(ports, filepath.Base(filepath.Dir(at)))
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// dhcpcdLeaves reports whether dhcpcd.conf(5) excludes a port. The patterns of all lines count together.
func dhcpcdLeaves(text, port string) bool {
	denied, allowed, lists := false, false, false
	for line := range strings.Lines(text) {
		words := wordsOf(line)
		if len(words) == 0 {
			continue
		}
		is := slices.ContainsFunc(words[1:], func(pattern string) bool {
			matches, err := filepath.Match(pattern, port)
			return err == nil && matches
		})
		switch words[0] {
		case "denyinterfaces":
			denied = denied || is
		case "allowinterfaces":
			allowed, lists = allowed || is, true
		}
	}
	return denied || lists && !allowed
}

// connmanLeaves reports whether connman.conf(5) excludes a port, by a prefix of its name.
func connmanLeaves(text, port string) bool {
	blacklist := strings.Join(settings(text)["General.NetworkInterfaceBlacklist"], ",")
	return slices.ContainsFunc(wordsOf(blacklist), func(begins string) bool { return strings.HasPrefix(port, begins) })
}

// wordsOf splits a list at blanks and commas.
func wordsOf(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

// meet records an interface that the rival sets up.
func (r *rival) meet(name string, all links) {
	to := &r.others
	if _, ours := all[name]; ours {
		to = &r.ours
	}
	if name != "lo" && !slices.Contains(*to, name) {
		*to = append(*to, name)
	}
}

// meetFile records what a file of systemd-networkd sets up. A pattern may always match interfaces that are not
// ours.
func (r *rival) meetFile(path, text string, all links) {
	values, macs := settings(text), all.macs()
	for _, name := range strings.Fields(strings.Join(values["Match.Name"], " ")) {
		r.meet(name, all)
	}
	for _, mac := range strings.Fields(strings.ToLower(strings.Join(slices.Concat(values["Match.MACAddress"], values["Match.PermanentMACAddress"]), " "))) {
		if name := macs[mac]; name != "" {
			r.meet(name, all)
		} else {
			r.others = append(r.others, mac)
		}
	}
	if len(values["Match.Name"])+len(values["Match.MACAddress"])+len(values["Match.PermanentMACAddress"]) == 0 {
		r.others = append(r.others, "what "+path+" matches")
	}
}

// started finds what starts the rival at boot.
func (r *rival) started(h *inside.Host) error {
	for _, unit := range rivalUnits[r.manager] {
		for _, kind := range []string{"wants", "requires"} {
			found, err := filepath.Glob(h.Path("/etc/systemd/system/*." + kind + "/" + unit))
			if err != nil {
				return err
			}
			for _, at := range found {
				inRoot, err := filepath.Rel(h.Root, at)
				if err != nil {
					return err
				}
				r.links = append(r.links, "/"+inRoot)
			}
		}
	}
	return nil
}

// disable sets aside what starts other managers of our interfaces. It restores that when no interface is ours any
// more.
func (p *plan) disable(h *inside.Host) error {
	if len(p.after) == 0 {
		return p.enableAgain(h)
	}
	all, err := rivals(h, p.manager, p.all)
	if err != nil {
		return err
	}
	for _, r := range all {
		if len(r.others) > 0 {
			return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf(
				"%s and %s are both enabled and set up %s, and %s sets up %s besides. Add these to the design, or disable one of the two",
				p.manager, r.manager, strings.Join(r.ours, ", "), r.manager, strings.Join(r.others, ", "))}
		}
		for _, link := range r.links {
			to, mode, err := readFile(h, link)
			if err != nil {
				return err
			}
			p.aside = append(p.aside, link)
			p.writes = append(p.writes, write{asideFolder + link, to, mode}, write{path: link})
		}
		p.stops = append(p.stops, rivalUnits[r.manager]...)
	}
	return nil
}

func (p *plan) enableAgain(h *inside.Host) error {
	found, err := filepath.Glob(h.Path(asideFolder + "/etc/systemd/system/*/*"))
	if err != nil {
		return err
	}
	for _, at := range found {
		inRoot, err := filepath.Rel(h.Path(asideFolder), at)
		if err != nil {
			return err
		}
		link := "/" + inRoot
		to, mode, err := readFile(h, asideFolder+link)
		if err != nil {
			return err
		}
		if mode&fs.ModeSymlink == 0 {
			continue
		}
		if !exists(h.Path(link)) { // otherwise somebody has enabled it again
			p.writes = append(p.writes, write{link, to, mode})
		}
		p.writes = append(p.writes, write{path: asideFolder + link})
		if unit := filepath.Base(link); !slices.Contains(p.starts, unit) {
			p.starts = append(p.starts, unit)
		}
	}
	return nil
}

// stop stops other managers, which may take our interfaces down.
func (f *Facet) stop(ctx context.Context, h *inside.Host, units []string) error {
	for _, unit := range units {
		if f.succeeds(ctx, h, "systemctl", "is-active", "--quiet", unit) {
			if err := f.run(ctx, h, "systemctl", "stop", unit); err != nil {
				return err
			}
		}
	}
	return nil
}

// start starts units without waiting, because it may be called during boot.
func (f *Facet) start(ctx context.Context, h *inside.Host, units []string) error {
	if len(units) == 0 {
		return nil
	}
	return f.run(ctx, h, "systemctl", append([]string{"--no-block", "start"}, units...)...)
}
