package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/sys/unix"
)

// segment is the machines' end of the network: one socket for all of them.
type segment struct {
	conn *net.UDPConn

	mu    sync.Mutex
	waits map[dhcpv4.TransactionID]chan *dhcpv4.DHCPv4
}

func openSegment() (*segment, error) {
	l := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = errors.Join(
				unix.SetsockoptString(int(fd), unix.SOL_SOCKET, unix.SO_BINDTODEVICE, lan),
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BROADCAST, 1),
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20))
		})
		return errors.Join(err, failed)
	}}
	c, err := l.ListenPacket(context.Background(), "udp4", "0.0.0.0:68")
	if err != nil {
		return nil, err
	}
	s := &segment{conn: c.(*net.UDPConn), waits: map[dhcpv4.TransactionID]chan *dhcpv4.DHCPv4{}}
	go s.hear()
	return s, nil
}

// hear gives answers to those who wait for them.
func (s *segment) hear() {
	buf := make([]byte, 1500)
	for {
		n, _, err := s.conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		answer, err := dhcpv4.FromBytes(append([]byte(nil), buf[:n]...))
		if err != nil {
			continue
		}
		s.mu.Lock()
		to := s.waits[answer.TransactionID]
		s.mu.Unlock()
		select {
		case to <- answer:
		default: // nobody waits, or it came twice
		}
	}
}

var everybody = &net.UDPAddr{IP: net.IPv4bcast, Port: 67}

// ask sends a request until it is answered, and waits for a time each time.
func (s *segment) ask(msg *dhcpv4.DHCPv4, kind dhcpv4.MessageType, patience []time.Duration) (answer *dhcpv4.DHCPv4, again int, err error) {
	here := make(chan *dhcpv4.DHCPv4, 4)
	s.mu.Lock()
	s.waits[msg.TransactionID] = here
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.waits, msg.TransactionID)
		s.mu.Unlock()
	}()
	packet := msg.ToBytes()
	for i, d := range patience {
		if _, err := s.conn.WriteToUDP(packet, everybody); err != nil {
			return nil, i, err
		}
		t := time.NewTimer(d)
		for waiting := true; waiting; {
			select {
			case <-t.C:
				waiting = false
			case answer := <-here:
				switch answer.MessageType() {
				case kind:
					t.Stop()
					return answer, i, nil
				case dhcpv4.MessageTypeNak:
					t.Stop()
					return nil, i, fmt.Errorf("%s is refused", msg.ClientHWAddr)
				}
			}
		}
	}
	return nil, len(patience), fmt.Errorf("%s got no %s after %d tries", msg.ClientHWAddr, kind, len(patience))
}

// exchange gets a machine its address: discover, offer, request, acknowledgement. It says how
// often it had to ask again.
func (s *segment) exchange(m machine, patience []time.Duration, more ...dhcpv4.Modifier) (ack *dhcpv4.DHCPv4, again int, err error) {
	more = append([]dhcpv4.Modifier{dhcpv4.WithBroadcast(true)}, more...)
	discover, err := dhcpv4.New(append(more, dhcpv4.WithHwAddr(m.mac), dhcpv4.WithMessageType(dhcpv4.MessageTypeDiscover))...)
	if err != nil {
		return nil, 0, err
	}
	offer, again, err := s.ask(discover, dhcpv4.MessageTypeOffer, patience)
	if err != nil {
		return nil, again, err
	}
	request, err := dhcpv4.NewRequestFromOffer(offer, more...)
	if err != nil {
		return nil, again, err
	}
	ack, twice, err := s.ask(request, dhcpv4.MessageTypeAck, patience)
	if err == nil && !ack.YourIPAddr.Equal(m.address.AsSlice()) {
		err = fmt.Errorf("%s got the address %s, and its own is %s", m.name, ack.YourIPAddr, m.address)
	}
	return ack, again + twice, err
}

// awaitServer returns when a machine has got its address.
func (s *segment) awaitServer(more ...dhcpv4.Modifier) error {
	_, _, err := s.exchange(machineOf(0), seconds(60), more...)
	return err
}

// seconds is the patience of one that asks again every second.
func seconds(tries int) []time.Duration { return slices.Repeat([]time.Duration{time.Second}, tries) }
