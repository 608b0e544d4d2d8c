package report

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/slipway-gitops/slipway/sinks/agent/inside/netlink"
)

// These are constants of linux/if_link.h and linux/if_addr.h, for links and addresses of rtnetlink(7), that package
// syscall lacks.
const (
	linkHead         = 16 // struct ifinfomsg
	addressHead      = 8  // struct ifaddrmsg
	linkOperState    = 16 // IFLA_OPERSTATE
	linkNamespace    = 37 // IFLA_LINK_NETNSID
	addressFlags     = 8  // IFA_FLAGS
	flagTemporary    = 1  // IFA_F_TEMPORARY, only for IPv6
	ethernet         = 1  // ARPHRD_ETHER
	addressHeadFlags = 2  // offset of the flags in the header
)

// states are those of RFC 2863 in order, with the names of ip(8).
var states = []string{"UNKNOWN", "NOTPRESENT", "DOWN", "LOWERLAYERDOWN", "TESTING", "DORMANT", "UP"}

// scopes are those of rtnetlink(7), by number. Others are printed as numbers.
var scopes = map[byte]string{syscall.RT_SCOPE_UNIVERSE: "global", syscall.RT_SCOPE_SITE: "site", syscall.RT_SCOPE_LINK: "link", syscall.RT_SCOPE_HOST: "host"}

// links prints the lines of `ip -o link`, as far as the reader uses them.
func links() []byte {
	table, err := syscall.NetlinkRIB(syscall.RTM_GETLINK, syscall.AF_UNSPEC)
	if err != nil {
		return nil
	}
	names := namesOf(table)
	var b bytes.Buffer
	netlink.Messages(table, syscall.RTM_NEWLINK, func(body []byte) {
		if len(body) < linkHead {
			return
		}
		has := netlink.Attributes(body, linkHead)
		index := binary.NativeEndian.Uint32(body[4:])
		fmt.Fprintf(&b, "%d: %s%s: mtu %d state %s", index, names[index], below(has, names), number(has[syscall.IFLA_MTU]), state(has[linkOperState]))
		if binary.NativeEndian.Uint16(body[2:]) == ethernet && len(has[syscall.IFLA_ADDRESS]) == 6 {
			b.WriteString(" link/ether ")
			for i, v := range has[syscall.IFLA_ADDRESS] {
				fmt.Fprintf(&b, "%s%02x", ":"[:min(i, 1)], v)
			}
		}
		b.WriteString("\n")
	})
	return b.Bytes()
}

// namesOf are the names of all links in a table, by index.
func namesOf(table []byte) map[uint32]string {
	names := map[uint32]string{}
	netlink.Messages(table, syscall.RTM_NEWLINK, func(body []byte) {
		if len(body) >= linkHead {
			names[binary.NativeEndian.Uint32(body[4:])] = text(netlink.Attributes(body, linkHead)[syscall.IFLA_IFNAME])
		}
	})
	return names
}

// below is the lower link of a link, after an @: by name, or by index if it is in another namespace.
func below(has map[uint16][]byte, names map[uint32]string) string {
	on, ok := has[syscall.IFLA_LINK]
	if !ok {
		return ""
	}
	index := number(on)
	if _, elsewhere := has[linkNamespace]; elsewhere {
		return fmt.Sprintf("@if%d", index)
	}
	if name := names[index]; name != "" {
		return "@" + name
	}
	if index == 0 {
		return "@NONE"
	}
	return fmt.Sprintf("@if%d", index)
}

func state(b []byte) string {
	if len(b) == 1 && int(b[0]) < len(states) {
		return states[b[0]]
	}
	return states[0]
}

// addresses prints the lines of `ip -o addr`, as far as the reader uses them.
func addresses() []byte {
	table, err := syscall.NetlinkRIB(syscall.RTM_GETLINK, syscall.AF_UNSPEC)
	if err != nil {
		return nil
	}
	names := namesOf(table)
	if table, err = syscall.NetlinkRIB(syscall.RTM_GETADDR, syscall.AF_UNSPEC); err != nil {
		return nil
	}
	var b bytes.Buffer
	netlink.Messages(table, syscall.RTM_NEWADDR, func(body []byte) {
		if len(body) < addressHead {
			return
		}
		has, index := netlink.Attributes(body, addressHead), binary.NativeEndian.Uint32(body[4:])
		prefix, ok := prefixOf(body[1], has)
		if !ok {
			return
		}
		family := "inet"
		if body[0] == syscall.AF_INET6 {
			family = "inet6"
		}
		scope, known := scopes[body[3]]
		if !known {
			scope = fmt.Sprint(body[3])
		}
		fmt.Fprintf(&b, "%d: %s %s %s scope %s", index, names[index], family, prefix, scope)
		flags := uint32(body[addressHeadFlags])
		if wide := has[addressFlags]; len(wide) == 4 {
			flags = number(wide)
		}
		if family == "inet6" && flags&flagTemporary != 0 {
			b.WriteString(" temporary")
		}
		b.WriteString("\n")
	})
	return b.Bytes()
}

// prefixOf is an address with its prefix length. A point-to-point address has no network, so it is printed alone.
func prefixOf(length byte, has map[uint16][]byte) (string, bool) {
	own, other := has[syscall.IFA_LOCAL], has[syscall.IFA_ADDRESS]
	if own == nil {
		own = other
	}
	address, ok := netip.AddrFromSlice(own)
	if !ok {
		return "", false
	}
	if other != nil && !bytes.Equal(own, other) {
		return address.String(), true
	}
	return netip.PrefixFrom(address, int(length)).String(), true
}

func number(b []byte) uint32 {
	if len(b) != 4 {
		return 0
	}
	return binary.NativeEndian.Uint32(b)
}

// text is a zero-terminated text of the kernel.
func text(b []byte) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	return string(b)
}
