package network

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// Survey lists the interfaces that the system's network manager has set up, from their kernel state. The field
// "leased", which no design has, lists the addresses that are not permanent.
func (f *Facet) Survey(_ context.Context, h *inside.Host) (found item.Found, err error) {
	if !h.Live {
		return found, nil
	}
	m, err := f.tables.look(h)
	if err != nil {
		return found, err
	}
	manager := Manager(h)
	if manager == "" {
		found.Leave("network", "Slipway sets up networks through systemd-networkd, netplan, NetworkManager or ifupdown, and this system has none of them enabled")
		return found, nil
	}
	for _, what := range slices.Sorted(maps.Keys(m.unread)) {
		found.Leave("network", "%s", m.unread[what])
		return found, nil
	}
	text := configuration(h)
	for _, id := range slices.Sorted(maps.Keys(m.links)) {
		r := m.links[id]
		isPort := exists(filepath.Join(h.Path("/sys/class/net/"+id), "device"))
		isUsed := len(r.Addresses)+len(r.dynamic)+len(r.Members) > 0 || r.Kind == "vlan" || m.isPart(id)
		switch {
		case !isUsed:
			continue
		case !isPort && !names(text, id) && !names(text, r.MAC):
			found.Leave(item.KindLinks+"."+id, "no settings of %s name it, so something else makes it", manager)
			continue
		}
		l := m.guessed(id, func(port string) bool { return names(text, port) || names(text, m.links[port].MAC) })
		fields := l.Fields()
		var leased []string
		for _, p := range r.dynamic {
			leased = append(leased, p.String())
		}
		if len(leased) > 0 {
			fields["leased"] = item.List(leased)
		}
		if len(r.hosts) > 0 {
			found.Leave(item.KindLinks+"."+id, "its addresses %s of full length belong to something that shares them, and stay as they are", item.List(r.hosts))
		}
		found.Items = append(found.Items, item.New(item.KindLinks+"."+id, fields, l))
	}
	return found, nil
}

// isPart reports whether an interface is part of another one, or carries a VLAN.
func (m *machine) isPart(id string) bool {
	for _, r := range m.links {
		if r.Parent == id || slices.Contains(r.Members, id) {
			return true
		}
	}
	return false
}

// maxConfiguration bounds what is read of the manager's settings, in bytes.
const maxConfiguration = 4 << 20

// configuration is the settings of all managers as one text, which never leaves the machine.
func configuration(h *inside.Host) string {
	paths, err := treeFiles(h)
	if err != nil {
		return ""
	}
	var b strings.Builder
	for _, path := range paths {
		text, _, err := readFile(h, path)
		if err == nil && b.Len()+len(text) < maxConfiguration {
			b.Write(text)
			b.WriteString("\n" + filepath.Base(path) + "\n")
		}
	}
	return strings.ToLower(withoutComments(b.String()))
}

// names reports whether a text contains a name as a word.
func names(text, name string) bool {
	name = strings.ToLower(name)
	isPart := func(at int) bool {
		if at < 0 || at >= len(text) {
			return false
		}
		c := text[at]
		return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_'
	}
	for from := 0; name != ""; {
		at := strings.Index(text[from:], name)
		if at < 0 {
			return false
		}
		at += from
		if !isPart(at-1) && !isPart(at+len(name)) {
			return true
		}
		from = at + 1
	}
	return false
}

// nameService returns the DNS servers and domains of an interface that Slipway did not set up: from
// systemd-networkd's state, or from the settings of NetworkManager or ifupdown.
func nameService(h *inside.Host, manager, id string, r *real) (servers, search []string) {
	switch manager {
	case Networkd, Netplan:
		return networkdNames(inside.Text(h.Path("/run/systemd/netif/links/" + number(r.index))))
	case NetworkManager:
		return keyfileNames(h, id)
	case Ifupdown:
		return ifupdownNames(h, id)
	}
	return nil, nil
}

// networkdNames reads systemd-networkd's state file of a link.
func networkdNames(text string) (servers, search []string) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "DNS":
			servers = strings.Fields(value)
		case "DOMAINS":
			search = strings.Fields(value)
		}
	}
	return servers, search
}

func keyfileNames(h *inside.Host, id string) (servers, search []string) {
	files, err := filepath.Glob(h.Path("/etc/NetworkManager/system-connections/*.nmconnection"))
	if err != nil {
		return nil, nil
	}
	for _, at := range files {
		path, err := filepath.Rel(h.Root, at)
		if err != nil {
			continue
		}
		text, _, err := readFile(h, "/"+path)
		if err != nil {
			continue
		}
		v := settings(string(text))
		if !slices.Contains(v["connection.interface-name"], id) {
			continue
		}
		for _, section := range []string{"ipv4", "ipv6"} {
			servers = append(servers, listed(v[section+".dns"])...)
			search = append(search, listed(v[section+".dns-search"])...)
		}
	}
	return servers, search
}

// listed splits values at semicolons.
func listed(values []string) (all []string) {
	for _, v := range values {
		for word := range strings.SplitSeq(v, ";") {
			if word = strings.TrimSpace(word); word != "" && !slices.Contains(all, word) {
				all = append(all, word)
			}
		}
	}
	return all
}

func ifupdownNames(h *inside.Host, id string) (servers, search []string) {
	paths, err := ifupdownFiles(h)
	if err != nil {
		return nil, nil
	}
	for _, path := range paths {
		text, _, err := readFile(h, path)
		if err != nil {
			continue
		}
		_, stanza := cutStanzas(string(text), func(name string) bool { return name == id })
		for line := range strings.Lines(stanza) {
			switch f := strings.Fields(line); {
			case len(f) < 2:
			case f[0] == "dns-nameservers" || f[0] == "dns-nameserver":
				servers = append(servers, f[1:]...)
			case f[0] == "dns-search" || f[0] == "dns-domain":
				search = append(search, f[1:]...)
			}
		}
	}
	return servers, search
}
