// Package netlink reads kernel tables in the format of rtnetlink(7), with system calls only.
package netlink

import (
	"encoding/binary"
	"net/netip"
	"syscall"
)

// These are constants of rtnetlink(7) that package syscall lacks.
const (
	neighborMessage = 28 // RTM_NEWNEIGH
	neighborAsk     = 30 // RTM_GETNEIGH
)

// The states of a neighbour (NUD_…, linux/neighbour.h). In StateDelay and StateProbe, the kernel is asking the
// neighbour again.
const (
	StateIncomplete = 0x01
	StateReachable  = 0x02
	StateStale      = 0x04
	StateDelay      = 0x08
	StateProbe      = 0x10
	StateFailed     = 0x20
	StateNoARP      = 0x40
	StatePermanent  = 0x80
)

// Neighbor is another machine that the kernel knows.
type Neighbor struct {
	Address netip.Addr
	State   uint16
}

// Answered reports whether the neighbour answered recently, or need not answer.
func (n Neighbor) Answered() bool { return n.State&(StateReachable|StatePermanent|StateNoARP) != 0 }

// Neighbors returns the kernel's table of neighbours.
func Neighbors() ([]Neighbor, error) {
	table, err := syscall.NetlinkRIB(neighborAsk, syscall.AF_UNSPEC)
	if err != nil {
		return nil, err
	}
	return parseNeighbors(table), nil
}

// parseNeighbors reads a table of neighbours.
func parseNeighbors(table []byte) []Neighbor {
	const head = 12 // struct ndmsg
	var all []Neighbor
	Messages(table, neighborMessage, func(body []byte) {
		if len(body) < head {
			return
		}
		if address, ok := netip.AddrFromSlice(Attributes(body, head)[1]); ok { // NDA_DST
			all = append(all, Neighbor{address, binary.NativeEndian.Uint16(body[8:])})
		}
	})
	return all
}

// Messages calls a function for each message of a kind. It stops at a truncated or invalid message.
func Messages(table []byte, kind uint16, each func(body []byte)) {
	for len(table) >= syscall.NLMSG_HDRLEN {
		size := int(binary.NativeEndian.Uint32(table))
		if size < syscall.NLMSG_HDRLEN || size > len(table) {
			return
		}
		if binary.NativeEndian.Uint16(table[4:]) == kind {
			each(table[syscall.NLMSG_HDRLEN:size])
		}
		table = table[min(aligned(size), len(table)):]
	}
}

// Attributes are the attributes after a message's header, by type.
func Attributes(body []byte, head int) map[uint16][]byte {
	all := map[uint16][]byte{}
	if len(body) < head {
		return all
	}
	for rest := body[head:]; len(rest) >= syscall.SizeofRtAttr; {
		size := int(binary.NativeEndian.Uint16(rest))
		if size < syscall.SizeofRtAttr || size > len(rest) {
			break
		}
		all[binary.NativeEndian.Uint16(rest[2:])&0x3fff] = rest[syscall.SizeofRtAttr:size]
		rest = rest[min(aligned(size), len(rest)):]
	}
	return all
}

func aligned(n int) int { return (n + 3) &^ 3 }
