package network

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// resolvFile names the DNS servers of the system's programs (resolv.conf(5)). resolvBefore is its content before
// Slipway wrote it.
const (
	resolvFile   = "/etc/resolv.conf"
	resolvBefore = inside.Folder + "/network-aside-resolv.conf"
	// resolvedFile has the servers that systemd-resolved asks.
	resolvedFile = "/run/systemd/resolve/resolv.conf"
)

// resolver is the program that writes /etc/resolv.conf.
type resolver string

const (
	byNobody     resolver = "" // so Slipway does, if the design names servers or domains
	byDesign     resolver = "system.files of the design"
	byResolved   resolver = "systemd-resolved"
	byResolvconf resolver = "resolvconf"
	byManager    resolver = "NetworkManager"
	byLease      resolver = "the DHCP client"
	byOthers     resolver = "another program"
)

// resolverOf finds the writer, by the file's kind and what is installed.
func resolverOf(h *inside.Host, manager string, all links) resolver {
	if _, ours := h.Owned.Entry("config", item.KindFiles+"."+resolvFile); ours {
		return byDesign
	}
	text, mode, err := readFile(h, resolvFile)
	if leads := string(text); err == nil && mode&fs.ModeSymlink != 0 {
		switch {
		case strings.Contains(leads, "systemd/resolve/"):
			return byResolved
		case strings.Contains(leads, "resolvconf/"):
			return byResolvconf
		case strings.Contains(leads, "NetworkManager/"):
			return byManager
		}
		return byOthers
	}
	switch {
	case enabled(h, "NetworkManager.service"):
		return byManager
	case hasProgram(h, "/sbin/resolvconf", "/usr/sbin/resolvconf"):
		return byResolvconf
	case enabled(h, rivalUnits[dhcpcd][0]) || manager == Ifupdown && asksByClient(h, all):
		return byLease
	}
	return byNobody
}

// hasProgram reports whether one of the paths is a program, not a link: systemd-resolved installs a link named
// resolvconf too.
func hasProgram(h *inside.Host, paths ...string) bool {
	return slices.ContainsFunc(paths, func(path string) bool {
		_, mode, err := readFile(h, path)
		return err == nil && mode&fs.ModeSymlink == 0
	})
}

// resolvText is Slipway's /etc/resolv.conf: the servers and domains of all interfaces, those with a default route
// first. What the design does not name stays as before. It is empty if the design names neither.
func resolvText(all links, before string) string {
	var servers, search []string
	for _, leaves := range []bool{true, false} {
		for _, id := range all.names() {
			l := all[id]
			if leaves == slices.ContainsFunc(l.Routes, func(r item.Route) bool { return defaultRoute(r.To) }) {
				servers, search = more(servers, l.Servers), more(search, l.Search)
			}
		}
	}
	if len(servers)+len(search) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(header)
	if len(search) > 0 {
		b.WriteString("search " + strings.Join(search, " ") + "\n")
	}
	for _, s := range servers {
		b.WriteString("nameserver " + s + "\n")
	}
	for line := range strings.Lines(before) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		switch words[0] {
		case "options", "sortlist":
		case "nameserver":
			if len(servers) > 0 {
				continue
			}
		case "search", "domain":
			if len(search) > 0 {
				continue
			}
		default:
			continue
		}
		b.WriteString(strings.Join(words, " ") + "\n")
	}
	return b.String()
}

// more appends texts that are not there yet.
func more(all, others []string) []string {
	for _, text := range others {
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// resolv is /etc/resolv.conf, which Slipway may write.
type resolv struct {
	text   string // current content
	mode   fs.FileMode
	there  bool
	ours   bool
	before string // content before Slipway wrote it, or current content
}

func readResolv(h *inside.Host) (r resolv, err error) {
	text, mode, err := readFile(h, resolvFile)
	if errors.Is(err, fs.ErrNotExist) {
		text, mode, err = nil, 0o644, nil
	} else {
		r.there = err == nil
	}
	r.text, r.mode, r.before = string(text), mode, string(text)
	if r.ours = r.there && mode&fs.ModeSymlink == 0 && strings.HasPrefix(r.text, header); r.ours {
		before, _, asideErr := readFile(h, resolvBefore)
		if r.before = string(before); asideErr != nil && !errors.Is(asideErr, fs.ErrNotExist) {
			err = asideErr
		}
	}
	return r, err
}

// names plans /etc/resolv.conf. It writes the file if nothing else on the system does. It restores the file when
// the design names nothing any more, or something else writes it.
func (p *plan) names(h *inside.Host) error {
	r, err := readResolv(h)
	if err != nil {
		return err
	}
	by, want := resolverOf(h, p.manager, p.after), ""
	if by == byNobody {
		want = resolvText(p.after, r.before)
	}
	switch {
	case want != "":
		if r.there && !r.ours {
			p.add(h, write{resolvBefore, []byte(r.text), r.mode})
		}
		p.add(h, write{resolvFile, []byte(want), 0o644})
	case r.ours:
		back, mode, err := readFile(h, resolvBefore)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		p.add(h, write{resolvFile, back, mode}) // if it did not exist before, it is removed
		p.add(h, write{path: resolvBefore})
	case by != byDesign || len(p.after) == 0:
		p.add(h, write{path: resolvBefore})
	}
	return nil
}

// inUse are the servers that the system's programs ask. They are unknown if a local program forwards the queries.
func inUse(h *inside.Host) (servers []string, known bool) {
	servers = nameservers(h, resolvFile)
	if slices.ContainsFunc(servers, func(s string) bool { return s == "127.0.0.53" || s == "127.0.0.54" }) {
		servers = nameservers(h, resolvedFile)
	}
	return servers, !slices.ContainsFunc(servers, func(s string) bool {
		a, err := netip.ParseAddr(s)
		return err == nil && a.IsLoopback()
	})
}

// nameservers are the servers in a file, or in the file that it links to.
func nameservers(h *inside.Host, file string) (servers []string) {
	text, mode, err := readFile(h, file)
	if err == nil && mode&fs.ModeSymlink != 0 {
		to := string(text)
		if !path.IsAbs(to) {
			to = path.Join(path.Dir(file), to)
		}
		text, mode, err = readFile(h, to)
	}
	if err != nil || mode&fs.ModeSymlink != 0 {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "nameserver" {
			servers = append(servers, words[1])
		}
	}
	return servers
}

// seeNames reports the DNS servers of an interface that Slipway set up. If Slipway writes the file, a deviation is
// a normal difference. If something else writes it and the interface's servers are not in use, seeNames says what
// is missing.
func (m *machine) seeNames(h *inside.Host, seen *inside.Seen, id, manager string, made links) {
	l, field := made[id], item.Name(item.KindLinks+"."+id, "dns")
	if len(l.Servers)+len(l.Search) == 0 {
		return
	}
	by := resolverOf(h, manager, made)
	asked, known := inUse(h)
	if by == byNobody {
		r, err := readResolv(h)
		switch {
		case err != nil:
			delete(seen.Have, field)
			seen.Unread[field] = err.Error()
		case r.text != resolvText(made, r.before) && len(asked) == 0:
			seen.Have[field] = resolvFile + " has no name server"
		case r.text != resolvText(made, r.before):
			seen.Have[field] = strings.Join(asked, ", ") + ", as " + resolvFile + " says"
		}
		return
	}
	if r := m.links[id]; !known || r == nil || !r.up || !r.carrier {
		return
	}
	if lost := unused(l.Servers, asked); len(lost) > 0 {
		seen.Cannot[field] = fmt.Sprintf("programs on this machine do not ask the name servers %s. %s", strings.Join(lost, ", "), advice(by, manager, asked))
	}
}

// advice says which servers are asked instead, and what to do.
func advice(by resolver, manager string, asked []string) string {
	now := "They ask " + strings.Join(asked, ", ")
	if len(asked) == 0 {
		now = "They have none to ask"
	}
	switch {
	case by == byDesign:
		return fmt.Sprintf("%s: system.files of the design has its own %s. Name the servers there, or remove it", now, resolvFile)
	case by == byResolvconf && (manager == Networkd || manager == Netplan):
		return fmt.Sprintf("%s: the package resolvconf writes %s, and systemd-networkd does not tell it any. Add the package systemd-resolved to the design, or remove resolvconf", now, resolvFile)
	case by == byResolved && manager == Ifupdown:
		return fmt.Sprintf("%s: %s points to systemd-resolved, and ifupdown gives it no name servers. Add the package resolvconf to the design, or remove systemd-resolved", now, resolvFile)
	case by == byResolved:
		return fmt.Sprintf("%s: %s leads to systemd-resolved. Add the package systemd-resolved to the design where it is not there, and enable and start systemd-resolved.service", now, resolvFile)
	case by == byLease:
		return fmt.Sprintf("%s: the DHCP client writes %s. Add the package resolvconf to the design, which puts both together", now, resolvFile)
	}
	return fmt.Sprintf("%s: %s writes %s, and does not take them from %s. Correct its settings, or name the servers in the design that are in use", now, by, resolvFile, manager)
}
