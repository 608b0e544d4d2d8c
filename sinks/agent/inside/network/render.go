package network

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// links are interfaces by name.
type links map[string]item.Link

// file is a configuration file that we write.
type file struct {
	text string
	mode uint32
}

const header = "# Written by Slipway from the site's design. Changes are undone.\n"

// render is the configuration of interfaces for a manager: files by path.
func render(manager string, all links) map[string]file {
	files := map[string]file{}
	all = all.complete()
	switch manager {
	case Networkd:
		renderNetworkd(files, all)
	case Netplan:
		renderNetplan(files, all)
	case NetworkManager:
		renderKeyfiles(files, all)
	case Ifupdown:
		renderIfupdown(files, all)
	}
	return files
}

// names are the sorted names of interfaces, optionally of some kinds only.
func (all links) names(kinds ...string) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if len(kinds) == 0 || slices.Contains(kinds, all[name].Kind) {
			names = append(names, name)
		}
	}
	return names
}

// complete adds the members of bonds and bridges that have no other settings.
func (all links) complete() links {
	more := maps.Clone(all)
	for _, l := range all {
		for _, m := range l.Members {
			if _, known := more[m]; !known {
				more[m] = item.Link{Kind: "ethernet"}
			}
		}
	}
	return more
}

// master is the bond or bridge of an interface.
func (all links) master(name string) string {
	for _, m := range all.names("bond", "bridge") {
		if slices.Contains(all[m].Members, name) {
			return m
		}
	}
	return ""
}

// vlans are the VLANs on an interface.
func (all links) vlans(parent string) []string {
	var names []string
	for _, name := range all.names("vlan") {
		if all[name].Parent == parent {
			names = append(names, name)
		}
	}
	return names
}

// linkFile names an interface by its MAC address and sets its virtual functions. udev reads the file under every
// network manager.
func linkFile(files map[string]file, name string, l item.Link) {
	if l.Kind != "ethernet" || l.MAC == "" && l.Functions == 0 {
		return
	}
	var b strings.Builder
	b.WriteString(header + "[Match]\n")
	if l.MAC != "" {
		line(&b, "PermanentMACAddress", strings.ToLower(l.MAC))
	} else {
		line(&b, "OriginalName", name)
	}
	b.WriteString("\n[Link]\n")
	if l.MAC != "" {
		line(&b, "Name", name)
	}
	line(&b, "AlternativeNamesPolicy", "database onboard slot path")
	if l.Functions > 0 {
		line(&b, "SR-IOVVirtualFunctions", strconv.Itoa(l.Functions))
	}
	files["/etc/systemd/network/10-slipway-"+name+".link"] = file{b.String(), 0o644}
}

func line(b *strings.Builder, name, value string) {
	if value != "" {
		fmt.Fprintf(b, "%s=%s\n", name, value)
	}
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// families splits addresses or routes by address family.
func families[T any](all []T, text func(T) string) (four, six []T) {
	for _, v := range all {
		if strings.Contains(text(v), ":") {
			six = append(six, v)
		} else {
			four = append(four, v)
		}
	}
	return four, six
}

func itself(s string) string      { return s }
func target(r item.Route) string  { return r.To }
func defaultRoute(to string) bool { return to == "0.0.0.0/0" || to == "::/0" }
func uuid(name string) string {
	sum := sha256.Sum256([]byte("slipway interface " + name))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	h := hex.EncodeToString(sum[:16])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

var (
	interfaceName = inside.Pattern(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}$`)
	macAddress    = inside.Pattern(`^([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}$`)
	word          = inside.Pattern(`^[A-Za-z0-9][A-Za-z0-9.+_-]*$`)
)

// validate refuses interfaces that a configuration file could not express safely, or that no kernel can have.
func (all links) validate() error {
	for _, name := range all.names() {
		if why := all.wrong(name, all[name]); why != "" {
			return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("interface %q: %s", name, why)}
		}
	}
	return nil
}

func (all links) wrong(name string, l item.Link) string {
	if !interfaceName().MatchString(name) || name == "lo" || name == "all" || name == "default" {
		return "this is not a name for an interface: up to 15 letters, digits, _, . and -"
	}
	if l.MAC != "" && !macAddress().MatchString(l.MAC) {
		return fmt.Sprintf("%q is not a MAC address", l.MAC)
	}
	if l.MTU < 0 || l.MTU > 65535 || l.MTU > 0 && l.MTU < 68 {
		return fmt.Sprintf("an MTU of %d does not exist", l.MTU)
	}
	if why := wrongAddresses(l); why != "" {
		return why
	}
	if m := all.master(name); m != "" && (len(l.Addresses) > 0 || len(l.Routes) > 0 || l.DHCP4 || l.DHCP6 || l.SLAAC) {
		return fmt.Sprintf("it is a member of %s, so addresses and routes belong there", m)
	}
	switch l.Kind {
	case "ethernet":
	case "vlan":
		if l.VLAN < 1 || l.VLAN > 4094 || !interfaceName().MatchString(l.Parent) {
			return fmt.Sprintf("VLAN %d on %q does not exist", l.VLAN, l.Parent)
		}
	case "bond", "bridge":
		for _, m := range l.Members {
			if !interfaceName().MatchString(m) || m == name {
				return fmt.Sprintf("%q cannot be a member", m)
			}
		}
		if l.Kind == "bond" && l.Bond == nil {
			return "a bond needs a mode"
		}
		if b := l.Bond; b != nil {
			for _, value := range []string{b.Mode, b.LACPRate, b.HashPolicy, b.Primary} {
				if value != "" && !word().MatchString(value) {
					return fmt.Sprintf("%q is not a value for a bond", value)
				}
			}
		}
	default:
		return fmt.Sprintf("the kind %q is unknown", l.Kind)
	}
	return ""
}

func wrongAddresses(l item.Link) string {
	for _, a := range l.Addresses {
		if p, err := netip.ParsePrefix(a); err != nil || p.String() != a {
			return fmt.Sprintf("%q is not an address with its prefix length", a)
		}
	}
	for _, s := range l.Shared {
		if a, err := netip.ParseAddr(s); err != nil || a.String() != s {
			return fmt.Sprintf("%q is not a shared address", s)
		}
	}
	for _, r := range l.Routes {
		if p, err := netip.ParsePrefix(r.To); err != nil || p.Masked().String() != r.To {
			return fmt.Sprintf("%q is not a destination for a route", r.To)
		}
		if via, err := netip.ParseAddr(r.Via); r.Via != "" && (err != nil || via.Zone() != "") {
			return fmt.Sprintf("%q is not a gateway", r.Via)
		}
		if r.Metric < 0 || r.Metric > 1<<32-1 {
			return fmt.Sprintf("a metric of %d does not exist", r.Metric)
		}
	}
	for _, s := range l.Servers {
		if a, err := netip.ParseAddr(s); err != nil || a.Zone() != "" {
			return fmt.Sprintf("%q is not an address of a name server", s)
		}
	}
	for _, s := range l.Search {
		if !word().MatchString(s) {
			return fmt.Sprintf("%q is not a search domain", s)
		}
	}
	return ""
}
