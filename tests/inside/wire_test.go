package inside_test

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// lan is a switch that knows VLANs, as the kernel of this host may not: guests have
// trunks, on which VLAN 1 is untagged, and taps are in one VLAN each. Frames of more
// than 1500 bytes are dropped, as on a switch without jumbo frames.
type lan struct {
	t      *testing.T
	folder string
	mu     sync.Mutex
	ports  []*port
	learnt map[place]*port
}

// place is where an address is known.
type place struct {
	vlan uint16
	mac  [6]byte
}

type port struct {
	access uint16          // the VLAN of a port without tags; 0 for a trunk
	carry  map[uint16]bool // the VLANs of a trunk
	send   func(frame []byte)
}

const (
	untagged  = 1
	switchMTU = 1500
)

func newLAN(t *testing.T) *lan {
	return &lan{t: t, folder: t.TempDir(), learnt: map[place]*port{}}
}

// trunk is a port for a guest, which sends datagrams from one socket to another.
func (s *lan) trunk(name string, vlans ...uint16) (guestEnd, switchEnd string) {
	s.t.Helper()
	guestEnd, switchEnd = filepath.Join(s.folder, name+"-guest"), filepath.Join(s.folder, name)
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: switchEnd, Net: "unixgram"})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	raw, err := c.SyscallConn()
	if err != nil {
		s.t.Fatal(err)
	}
	p := &port{carry: map[uint16]bool{}, send: func(frame []byte) {
		_ = raw.Write(func(fd uintptr) bool { // a port that takes nothing now gets nothing, as one that is down
			_ = unix.Sendto(int(fd), frame, unix.MSG_DONTWAIT, &unix.SockaddrUnix{Name: guestEnd})
			return true
		})
	}}
	for _, v := range vlans {
		p.carry[v] = true
	}
	s.plug(p, c.Read)
	return guestEnd, switchEnd
}

// tap is a port that is an interface of this network.
func (s *lan) tap(name string, vlan uint16) {
	s.t.Helper()
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := unix.NewIfreq(name)
	if err == nil {
		r.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, r)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), name)
	s.t.Cleanup(func() { f.Close() })
	s.plug(&port{access: vlan, send: func(frame []byte) { _, _ = f.Write(frame) }}, f.Read)
}

func (s *lan) plug(p *port, read func([]byte) (int, error)) {
	s.mu.Lock()
	s.ports = append(s.ports, p)
	s.mu.Unlock()
	go func() {
		for frame := make([]byte, 65536); ; {
			n, err := read(frame)
			if errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrClosed) {
				return
			}
			if err == nil && n >= 14 {
				s.pass(p, frame[:n])
			}
		}
	}()
}

// pass sends a frame on to where its destination was seen, or to all of its VLAN.
func (s *lan) pass(from *port, frame []byte) {
	vlan := from.access
	if vlan == 0 {
		vlan = untagged
		if binary.BigEndian.Uint16(frame[12:]) == 0x8100 && len(frame) >= 18 {
			vlan = binary.BigEndian.Uint16(frame[14:]) & 0xfff
			frame = append(append([]byte{}, frame[:12]...), frame[16:]...)
		}
	}
	local := frame[0] == 0x01 && frame[1] == 0x80 && frame[2] == 0xc2 && frame[3] == 0 && frame[4] == 0 && frame[5] < 0x10 // IEEE 802.1D, 7.12.6
	if local || !from.in(vlan) || len(frame) > 14+switchMTU {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.learnt[place{vlan, [6]byte(frame[6:12])}] = from
	to := s.learnt[place{vlan, [6]byte(frame[:6])}]
	for _, p := range s.ports {
		if p == from || !p.in(vlan) || to != nil && to != p && frame[0]&1 == 0 {
			continue
		}
		out := frame
		if p.access == 0 && vlan != untagged {
			out = append(append(append([]byte{}, frame[:12]...), 0x81, 0, byte(vlan>>8), byte(vlan)), frame[12:]...)
		}
		p.send(out)
	}
}

func (p *port) in(vlan uint16) bool {
	return p.access == vlan || p.access == 0 && (vlan == untagged || p.carry[vlan])
}
