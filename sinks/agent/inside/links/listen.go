package links

import (
	"context"
	"encoding/binary"
	"syscall"
	"time"
	"unsafe"

	"github.com/slipway-gitops/slipway/engine/item"
)

// These are constants of packet(7) that package syscall lacks.
const (
	addMembership = 1 // PACKET_ADD_MEMBERSHIP
	multicast     = 0 // PACKET_MR_MULTICAST
	outgoing      = 4 // PACKET_OUTGOING
)

// nearestBridge is the destination address of LLDP frames between direct neighbours.
var nearestBridge = [8]byte{0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e}

// membership is struct packet_mreq.
type membership struct {
	index   int32
	kind    uint16
	length  uint16
	address [8]byte
}

// onlyLLDP is a filter that passes only LLDP frames: it loads the frame type, and passes the whole frame if the
// type is LLDP's.
var onlyLLDP = []syscall.SockFilter{
	{Code: syscall.BPF_LD + syscall.BPF_H + syscall.BPF_ABS, K: 12},
	{Code: syscall.BPF_JMP + syscall.BPF_JEQ + syscall.BPF_K, K: lldpType, Jf: 1},
	{Code: syscall.BPF_RET + syscall.BPF_K, K: 0xffff},
	{Code: syscall.BPF_RET + syscall.BPF_K, K: 0},
}

// attach installs a filter on a socket, which then receives only matching packets (socket(7), SO_ATTACH_FILTER).
func attach(fd int, filter []syscall.SockFilter) error {
	program := syscall.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, err := syscall.Syscall6(syscall.SYS_SETSOCKOPT, uintptr(fd), syscall.SOL_SOCKET, syscall.SO_ATTACH_FILTER,
		uintptr(unsafe.Pointer(&program)), unsafe.Sizeof(program), 0)
	if err != 0 {
		return err
	}
	return nil
}

// listen waits until each port has heard a neighbour, for at most longest. If the kernel does not allow it, nothing
// is heard.
func listen(ctx context.Context, ports []*port, longest time.Duration) {
	fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer syscall.Close(fd)
	// The socket asks for all frames, because only then does the kernel show those that arrive at members of bonds
	// and bridges. The filter is attached before any frame can arrive.
	every := int(binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, syscall.ETH_P_ALL)))
	wait := syscall.NsecToTimeval(int64(200 * time.Millisecond))
	if attach(fd, onlyLLDP) != nil || syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &wait) != nil ||
		syscall.Bind(fd, &syscall.SockaddrLinklayer{Protocol: uint16(every)}) != nil {
		return
	}
	waits := map[int]*port{}
	for _, p := range ports {
		m := membership{int32(p.index), multicast, 6, nearestBridge}
		text := (*[unsafe.Sizeof(m)]byte)(unsafe.Pointer(&m))[:]
		if syscall.SetsockoptString(fd, syscall.SOL_PACKET, addMembership, string(text)) == nil {
			waits[p.index] = p
		}
	}
	frame := make([]byte, 64<<10)
	for end := time.Now().Add(longest); len(waits) > 0 && ctx.Err() == nil && time.Now().Before(end); {
		size, from, err := syscall.Recvfrom(fd, frame, 0)
		at, ok := from.(*syscall.SockaddrLinklayer)
		if err != nil || !ok || at.Pkttype == outgoing || waits[at.Ifindex] == nil {
			continue // usually a timeout
		}
		if n, ok := parseFrame(frame[:size]); ok {
			n.By = "slipway"
			waits[at.Ifindex].Neighbours = []item.Neighbour{n}
			delete(waits, at.Ifindex)
		}
	}
}
