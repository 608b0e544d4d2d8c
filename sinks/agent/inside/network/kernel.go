package network

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// real is the kernel's state of one interface.
type real struct {
	item.Link
	index    int
	hardware bool // a device of the machine, not one that programs make
	carrier  bool
	up       bool
	dynamic  []netip.Prefix // addresses from leases and advertisements
	byHand   []item.Route   // routes that no manager's settings created
	hosts    []string       // host addresses, which may belong to a program that moves shared addresses
	servers  []string       // DNS servers from others than Slipway, if the system asks them
	search   []string
}

// machine is the kernel's state of all interfaces, by name.
type machine struct {
	links map[string]*real
	// unread says why addresses or routes could not be read.
	unread map[string]string
}

// tables are the queries to the kernel. Tests replace them.
type tables struct {
	addresses func() ([]kernelAddress, error)
	routes    func() ([]kernelRoute, error)
	uses      func() ([]kernelUse, error)
	largest   func() (map[int]int, error)
}

// look reads all interfaces of the system.
func (t tables) look(h *inside.Host) (*machine, error) {
	m := &machine{links: map[string]*real{}, unread: map[string]string{}}
	entries, err := os.ReadDir(h.Path("/sys/class/net"))
	if err != nil {
		return nil, err
	}
	vlans := readVLANs(h)
	byIndex := map[int]*real{}
	for _, e := range entries {
		if e.Name() == "lo" || !interfaceName().MatchString(e.Name()) {
			continue
		}
		folder := h.Path("/sys/class/net/" + e.Name())
		if info, err := os.Stat(folder); err != nil || !info.IsDir() { // bonding_masters is a file
			continue
		}
		r := readLink(folder)
		if v, ok := vlans[e.Name()]; ok {
			r.Kind, r.VLAN, r.Parent = "vlan", v.VLAN, v.Parent
		}
		m.links[e.Name()], byIndex[r.index] = r, r
	}
	m.addresses(t, byIndex)
	m.routes(t, byIndex)
	manager := Manager(h)
	asked, known := inUse(h)
	for name, r := range m.links {
		r.servers, r.search = nameService(h, manager, name, r)
		if known { // settings that nothing reads have no effect
			lost := unused(r.servers, asked)
			r.servers = slices.DeleteFunc(r.servers, func(s string) bool { return slices.Contains(lost, s) })
		}
	}
	return m, nil
}

// now are the current interfaces.
func (m *machine) now() links {
	all := links{}
	for id, r := range m.links {
		all[id] = r.Link
	}
	return all
}

// master is the bond or bridge of an interface; empty for none.
func (m *machine) master(id string) string {
	for name, r := range m.links {
		if slices.Contains(r.Members, id) {
			return name
		}
	}
	return ""
}

func (m *machine) addresses(t tables, byIndex map[int]*real) {
	all, err := t.addresses()
	if err != nil {
		m.unread["addresses"] = "the kernel does not tell its addresses: " + err.Error()
	}
	for _, a := range all {
		r := byIndex[a.index]
		switch {
		case r == nil || a.prefix.Addr().IsLinkLocalUnicast():
		case !a.permanent:
			r.dynamic = append(r.dynamic, a.prefix)
		case a.prefix.IsSingleIP():
			r.hosts = append(r.hosts, a.prefix.String())
		default:
			r.Addresses = append(r.Addresses, a.prefix.String())
		}
	}
}

func (m *machine) routes(t tables, byIndex map[int]*real) {
	all, err := t.routes()
	if err != nil {
		m.unread["routes"] = "the kernel does not tell its routes: " + err.Error()
	}
	for _, route := range all {
		if r := byIndex[route.index]; r != nil {
			r.Routes = append(r.Routes, route.Route)
			if route.byHand {
				r.byHand = append(r.byHand, route.Route)
			}
		}
	}
}

// readLink reads one folder of /sys/class/net.
func readLink(folder string) *real {
	r := &real{}
	text := func(name string) string { return inside.Text(filepath.Join(folder, name)) }
	count := func(name string) int { n, _ := strconv.Atoi(text(name)); return n }
	r.PCI = inside.PCIAddress(folder)
	r.Kind, r.index, r.MTU, r.MAC = "ethernet", count("ifindex"), count("mtu"), text("address")
	if own := text("bonding_slave/perm_hwaddr"); own != "" { // a member uses its bond's address
		r.MAC = own
	}
	flags, _ := strconv.ParseUint(strings.TrimPrefix(text("flags"), "0x"), 16, 32)
	r.up, r.carrier = flags&1 != 0, text("carrier") == "1"
	r.Functions = count("device/sriov_numvfs")
	r.hardware = exists(filepath.Join(folder, "device"))
	switch {
	case exists(filepath.Join(folder, "bonding")):
		r.Kind = "bond"
		r.Members = strings.Fields(text("bonding/slaves"))
		r.Bond = readBond(text)
	case exists(filepath.Join(folder, "bridge")):
		r.Kind = "bridge"
		r.STP = text("bridge/stp_state") != "0"
		if members, err := os.ReadDir(filepath.Join(folder, "brif")); err == nil {
			for _, m := range members {
				r.Members = append(r.Members, m.Name())
			}
		}
	}
	return r
}

// readBond reads the options of a bond. sysfs shows many of them as "fast 1".
func readBond(text func(string) string) *item.Bond {
	first := func(name string) string { v, _, _ := strings.Cut(text("bonding/"+name), " "); return v }
	count := func(name string) int { n, _ := strconv.Atoi(first(name)); return n }
	return &item.Bond{
		Mode: first("mode"), LACPRate: first("lacp_rate"), HashPolicy: first("xmit_hash_policy"), Monitor: count("miimon"),
		UpDelay: count("updelay"), DownDelay: count("downdelay"), MinLinks: count("min_links"), Primary: first("primary"),
	}
}

// readVLANs are the VLANs of /proc/net/vlan/config: "bond0.5 | 5 | bond0".
func readVLANs(h *inside.Host) map[string]item.Link {
	vlans := map[string]item.Link{}
	for text := range strings.Lines(inside.Text(h.Path("/proc/net/vlan/config"))) {
		parts := strings.Split(text, "|")
		if len(parts) != 3 {
			continue
		}
		if id, err := strconv.Atoi(strings.TrimSpace(parts[1])); err == nil {
			vlans[strings.TrimSpace(parts[0])] = item.Link{VLAN: id, Parent: strings.TrimSpace(parts[2])}
		}
	}
	return vlans
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// as is the kernel's state in terms of the settings. Options that the settings leave to the kernel, such as a
// bond's hash policy, are dropped.
func (r *real) as(made item.Link) item.Link {
	l := r.Link
	l.MTU = where(made.MTU, l.MTU) // a member has its bond's MTU, a VLAN its parent's
	if made.MAC == "" {
		l.MAC = ""
	}
	if made.PCI == "" {
		l.PCI = ""
	}
	l.Routes = asRoutes(r.withoutLeased(made), made.Routes)
	l.Addresses = slices.Clone(l.Addresses)
	for _, a := range r.hosts {
		if slices.Contains(made.Addresses, a) {
			l.Addresses = append(l.Addresses, a)
		}
	}
	if l.Bond != nil && made.Bond != nil {
		l.Bond = asBond(*l.Bond, *made.Bond)
	}
	l.Addresses, l.Shared = without(l.Addresses, made.Shared), made.Shared
	l.Trusted = made.Trusted && l.Functions > 0
	l.DHCP4, l.DHCP6, l.SLAAC = made.DHCP4, made.DHCP6, made.SLAAC
	l.Servers, l.Search = made.Servers, made.Search
	return l
}

// spanningTree reports whether a bridge uses the spanning tree protocol; nil for others.
func (r *real) spanningTree() *bool {
	if r.Kind != "bridge" {
		return nil
	}
	return &r.STP
}

// without removes shared addresses, which stay with the machine that has them.
func without(addresses, shared []string) []string {
	return slices.DeleteFunc(slices.Clone(addresses), func(text string) bool {
		p, err := netip.ParsePrefix(text)
		return err == nil && slices.Contains(shared, p.Addr().String())
	})
}

// asRoutes drops metrics that the manager or the kernel chose.
func asRoutes(routes, made []item.Route) []item.Route {
	var all []item.Route
	for _, r := range routes {
		plain := item.Route{To: r.To, Via: r.Via}
		if slices.Contains(made, plain) || strings.Contains(r.To, ":") && r.Metric == 1024 && !slices.Contains(made, r) {
			r = plain
		}
		all = append(all, r)
	}
	return all
}

func asBond(b, made item.Bond) *item.Bond {
	return &item.Bond{
		Mode: b.Mode, LACPRate: where(made.LACPRate, b.LACPRate), HashPolicy: where(made.HashPolicy, b.HashPolicy),
		Monitor: where(made.Monitor, b.Monitor), UpDelay: where(made.UpDelay, b.UpDelay), DownDelay: where(made.DownDelay, b.DownDelay),
		MinLinks: where(made.MinLinks, b.MinLinks), Primary: where(made.Primary, b.Primary),
	}
}

// where is the value if the setting is set at all.
func where[T comparable](set, value T) T {
	var none T
	if set == none {
		return none
	}
	return value
}

// meant are the options of a bond that apply to its mode. The kernel also has values for the others.
func meant(b *item.Bond) *item.Bond {
	if b == nil {
		return nil
	}
	m := *b
	if m.Mode != "802.3ad" {
		m.LACPRate, m.MinLinks = "", 0
	}
	if !slices.Contains([]string{"balance-xor", "802.3ad", "balance-tlb"}, m.Mode) {
		m.HashPolicy = ""
	}
	return &m
}

// guessed is the kernel's state of an interface that Slipway did not set up. An address that is not permanent
// indicates a lease.
func (r *real) guessed() item.Link {
	l := r.as(item.Link{Bond: r.Bond, DHCP4: r.dynamicOf(isFour) != ""})
	l.MAC, l.Bond = r.MAC, meant(r.Bond)
	if r.MTU != 1500 {
		l.MTU = r.MTU
	}
	if len(r.dynamic) == 0 { // otherwise they may come from a lease
		l.Servers, l.Search = r.servers, r.search
	}
	for _, p := range r.dynamic {
		switch {
		case p.Addr().Is4():
			l.DHCP4 = true
		case p.IsSingleIP():
			l.DHCP6 = true
		default:
			l.SLAAC = true
		}
	}
	return l
}
