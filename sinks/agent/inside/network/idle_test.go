package network

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// attribute is one attribute of a message of rtnetlink(7).
func attribute(kind uint16, value ...byte) []byte {
	head := binary.NativeEndian.AppendUint16(binary.NativeEndian.AppendUint16(nil, uint16(4+len(value))), kind)
	return slices.Concat(head, value, make([]byte, -len(value)&3))
}

func message(kind uint16, body ...[]byte) []byte {
	all := slices.Concat(body...)
	head := binary.NativeEndian.AppendUint32(nil, uint32(16+len(all)))
	return slices.Concat(binary.NativeEndian.AppendUint16(head, kind), make([]byte, 10), all)
}

func four(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

// Every address and route counts, whoever made it.
func TestParseUses(t *testing.T) {
	address := func(family, bits, flags byte, attributes ...[]byte) []byte {
		return message(20, []byte{family, bits, flags, 253}, four(3), slices.Concat(attributes...))
	}
	route := func(family, bits, table, protocol, kind byte, attributes ...[]byte) []byte {
		return message(24, []byte{family, bits, 0, 0, table, protocol, 0, kind, 0, 0, 0, 0}, slices.Concat(attributes...))
	}
	own := netip.MustParseAddr(ownOfEth1).AsSlice()
	nine, out := attribute(1, 10, 9, 0, 0), attribute(4, four(3)...)
	hop := func(index uint32) []byte {
		return slices.Concat([]byte{16, 0, 0, 0}, four(index), attribute(5, 10, 1, 0, 2))
	}
	for _, c := range []struct {
		name  string
		table []byte
		want  []kernelUse
	}{
		{"a dynamic address", address(2, 24, 0, attribute(1, 10, 1, 0, 7), attribute(2, 10, 1, 0, 7)), []kernelUse{{index: 3, prefix: netip.MustParsePrefix("10.1.0.7/24")}}},
		{"an address towards another", address(2, 32, 0x80, attribute(1, 10, 1, 0, 8), attribute(2, 10, 1, 0, 7)), []kernelUse{{index: 3, prefix: netip.MustParsePrefix("10.1.0.7/32")}}},
		{"a tentative one", address(10, 64, 0x40, attribute(1, own...)), []kernelUse{{index: 3, prefix: netip.MustParsePrefix(ownOfEth1 + "/64")}}},
		{"one of another family", address(16, 24, 0, attribute(1, 1, 2)), []kernelUse{{index: 3}}},
		{"a short address", message(20, []byte{2}), []kernelUse{{}}},
		{"a route of the kernel", route(10, 64, 254, 2, 1, attribute(1, own...), out), []kernelUse{{3, netip.MustParsePrefix(ownOfEth1 + "/64"), true, true}}},
		{"a route of DHCP in another table", route(2, 16, 7, 16, 1, nine, out), []kernelUse{{3, netip.MustParsePrefix("10.9.0.0/16"), true, false}}},
		{"a default route", route(2, 0, 254, 4, 1, out), []kernelUse{{index: 3, route: true}}},
		{"multicast that comes in", route(2, 16, 254, 17, 5, nine, attribute(3, four(4)...), out), []kernelUse{{3, netip.MustParsePrefix("10.9.0.0/16"), true, false}, {4, netip.MustParsePrefix("10.9.0.0/16"), true, false}}},
		{"several hops", route(2, 16, 254, 186, 1, nine, attribute(9, slices.Concat(hop(5), hop(3))...)), []kernelUse{{5, netip.MustParsePrefix("10.9.0.0/16"), true, false}, {3, netip.MustParsePrefix("10.9.0.0/16"), true, false}}},
		{"a hop without an end", route(2, 16, 254, 186, 1, nine, attribute(9, slices.Concat(make([]byte, 4), four(3))...)), []kernelUse{{3, netip.MustParsePrefix("10.9.0.0/16"), true, false}}},
		{"a hop object", route(2, 16, 254, 186, 1, nine, attribute(30, four(9)...)), []kernelUse{{0, netip.MustParsePrefix("10.9.0.0/16"), true, false}}},
		{"a hop object with its port", route(2, 16, 254, 186, 1, nine, attribute(30, four(9)...), out), []kernelUse{{3, netip.MustParsePrefix("10.9.0.0/16"), true, false}}},
		{"a route to nowhere", route(2, 16, 254, 4, 6, nine), nil},
		{"a short route", message(24, []byte{2}), []kernelUse{{}}},
	} {
		if got := append(parseAddressUses(c.table), parseRouteUses(c.table)...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// The kernel that runs this test tells the address and the routes of the loopback.
func TestRealUses(t *testing.T) {
	all, err := readUses()
	if err != nil || !slices.Contains(all, kernelUse{index: 1, prefix: netip.MustParsePrefix("127.0.0.1/8")}) {
		t.Errorf("no loopback among %v, %v", all, err)
	}
	if !slices.ContainsFunc(all, func(u kernelUse) bool { return u.index == 1 && u.route && u.kernel }) {
		t.Errorf("no route of the loopback among %v", all)
	}
}

// The largest MTU is that of the kernel. The loopback of the kernel that runs this test is listed.
func TestLargestMTU(t *testing.T) {
	link := func(index uint32, attributes ...[]byte) []byte {
		return message(16, make([]byte, 4), four(index), make([]byte, 8), slices.Concat(attributes...))
	}
	got := parseLargest(slices.Concat(link(3, attribute(4, four(1500)...), attribute(51, four(9000)...)), link(4), message(16, []byte{0})))
	if len(got) != 2 || got[3] != 9000 || got[4] != 0 {
		t.Errorf("%v", got)
	}
	if all, err := readLargest(); err != nil || !slices.Contains(slices.Collect(maps.Keys(all)), 1) {
		t.Errorf("%v, %v", all, err)
	}
}

func TestLinkLocal(t *testing.T) {
	got, err := linkLocal("52:54:00:aa:00:02")
	if err != nil || got != netip.MustParseAddr(ownOfEth1) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := linkLocal("02:00:5e:10:00:00:00:01"); err == nil || !strings.Contains(err.Error(), "is not a MAC address of 6 bytes") {
		t.Errorf("%v, %v", got, err)
	}
}
