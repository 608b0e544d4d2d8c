package links

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/netlink"
)

// These are the bounds for trying targets.
const (
	maxTargets = 64
	tries      = 3
	eachTry    = 700 * time.Millisecond
	// settling is how long the kernel may take to ask an old neighbour again: it waits for 5 s, then asks up to
	// three times (arp(7)).
	settling = 9 * time.Second
)

// These are constants of ip(7), ipv6(7) and the headers that package syscall lacks.
const (
	mtuDiscover     = 10 // IP_MTU_DISCOVER
	mtuDiscoverSix  = 23 // IPV6_MTU_DISCOVER
	alwaysWhole     = 3  // IP_PMTUDISC_PROBE: never fragment, whatever is known of the path
	echoRequest     = 8
	echoReply       = 0
	echoRequestSix  = 128
	echoReplySix    = 129
	icmpHead        = 8
	ipHead, ipSix   = 20, 40
	leastIP, mostIP = 68, 65535
)

// reach tries all targets at once.
func reach(ctx context.Context, targets []item.Target) []item.Reached {
	targets = targets[:min(len(targets), maxTargets)]
	all := make([]item.Reached, len(targets))
	var asking sync.WaitGroup
	for i, t := range targets {
		asking.Go(func() { all[i] = ask(ctx, t, uint16(i)) })
	}
	asking.Wait()
	return all
}

// ask tries one target by ICMP, only on the network that both share. The kernel must first learn the target's
// hardware address, so a target that ignores ICMP still shows.
func ask(ctx context.Context, t item.Target, number uint16) item.Reached {
	r := item.Reached{Target: t}
	a, err := netip.ParseAddr(t.Address)
	if err != nil {
		r.Why = "it has no address that can be tried"
		return r
	}
	p, err := dial(a.Unmap(), number)
	if err != nil {
		r.Why = untried(err)
		return r
	}
	defer p.Close()
	defer context.AfterFunc(ctx, func() { p.SetDeadline(time.Unix(1, 0)) })()
	answers, err := p.tried(ctx, icmpHead)
	switch {
	case answers:
		r.Answers = item.Answered
	case err != nil:
		r.Why = untried(err)
	default:
		r.Answers, r.Why = p.kernelSays(ctx)
		return r
	}
	if !answers || t.MTU < leastIP || t.MTU > mostIP {
		return r
	}
	switch sized, err := p.tried(ctx, t.MTU-p.head()); {
	case sized:
		r.Sized = item.Answered
	case errors.Is(err, syscall.EMSGSIZE):
		r.Why = fmt.Sprintf("packets of %d bytes are larger than the MTU of this system's own interface", t.MTU)
	case err != nil:
		r.Why = fmt.Sprintf("packets of %d bytes cannot be sent: %v", t.MTU, err)
	case ctx.Err() == nil:
		r.Sized = item.Silent
	}
	return r
}

// untried says why a target could not be tried.
func untried(err error) string {
	if errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EADDRNOTAVAIL) {
		return "this system is not in its network"
	}
	return fmt.Sprintf("it cannot be tried: %v", err)
}

// pinger is a socket for one address. Its file supports deadlines.
type pinger struct {
	*os.File
	to     netip.Addr
	number uint16
	count  uint16
}

func dial(a netip.Addr, number uint16) (*pinger, error) {
	family, protocol, to := syscall.AF_INET, syscall.IPPROTO_ICMP, syscall.Sockaddr(nil)
	level, option := syscall.IPPROTO_IP, mtuDiscover
	if a.Is4() {
		to = &syscall.SockaddrInet4{Addr: a.As4()}
	} else {
		family, protocol, to = syscall.AF_INET6, syscall.IPPROTO_ICMPV6, &syscall.SockaddrInet6{Addr: a.As16()}
		level, option = syscall.IPPROTO_IPV6, mtuDiscoverSix
	}
	fd, err := syscall.Socket(family, syscall.SOCK_RAW|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_DONTROUTE, 1), // an answer through a router proves nothing
		syscall.SetsockoptInt(fd, level, option, alwaysWhole),
	)
	if err == nil {
		err = syscall.Connect(fd, to) // the socket then only receives from that address
	}
	if err != nil {
		syscall.Close(fd)
		return nil, err
	}
	return &pinger{File: os.NewFile(uintptr(fd), "a socket"), to: a, number: number ^ uint16(os.Getpid()<<6)}, nil
}

// head is the size of the IP header.
func (p *pinger) head() int {
	if p.to.Is4() {
		return ipHead
	}
	return ipSix
}

// tried sends echo requests of size bytes until one is answered. Its error says why none could be sent.
func (p *pinger) tried(ctx context.Context, size int) (bool, error) {
	for range tries {
		if ctx.Err() != nil {
			return false, nil
		}
		p.count++
		if p.SetDeadline(time.Now().Add(eachTry)) != nil {
			return false, nil
		}
		if _, err := p.Write(p.request(size)); err != nil && !errors.Is(err, syscall.EHOSTUNREACH) && !errors.Is(err, syscall.ECONNREFUSED) {
			return false, plain(err)
		}
		for answer := make([]byte, mostIP); ; {
			n, err := p.Read(answer)
			if err == nil && p.isReply(answer[:n], size) {
				return true, nil
			}
			if err != nil && (errors.Is(err, os.ErrDeadlineExceeded) || ctx.Err() != nil) {
				break
			}
			if err != nil { // an ICMP error such as "unreachable"
				select {
				case <-ctx.Done():
				case <-time.After(50 * time.Millisecond):
				}
			}
		}
	}
	return false, nil
}

// request is an echo request of size bytes (RFC 792, RFC 4443). The kernel computes the checksum for IPv6.
func (p *pinger) request(size int) []byte {
	b := make([]byte, max(size, icmpHead))
	b[0] = echoRequest
	if p.to.Is6() {
		b[0] = echoRequestSix
	}
	binary.BigEndian.PutUint16(b[4:], p.number)
	binary.BigEndian.PutUint16(b[6:], p.count)
	if p.to.Is4() {
		binary.BigEndian.PutUint16(b[2:], checksum(b))
	}
	return b
}

// isReply reports whether a packet answers the last request. An IPv4 packet includes its header.
func (p *pinger) isReply(packet []byte, size int) bool {
	kind := byte(echoReplySix)
	if p.to.Is4() {
		if len(packet) < ipHead || len(packet) < int(packet[0]&15)*4 {
			return false
		}
		kind, packet = echoReply, packet[int(packet[0]&15)*4:]
	}
	return len(packet) == max(size, icmpHead) && packet[0] == kind &&
		binary.BigEndian.Uint16(packet[4:]) == p.number && binary.BigEndian.Uint16(packet[6:]) == p.count
}

// checksum is the checksum of RFC 1071.
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		word := uint32(b[i]) << 8
		if i+1 < len(b) {
			word |= uint32(b[i+1])
		}
		sum += word
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// kernelSays reports whether a target that ignores ICMP has told the kernel its hardware address. The kernel asks
// again if it learned the address long ago.
func (p *pinger) kernelSays(ctx context.Context) (answers, why string) {
	for end := time.Now().Add(settling); ; {
		all, err := netlink.Neighbors()
		if err != nil {
			return "", fmt.Sprintf("it does not answer ICMP, and the kernel does not tell its neighbours: %v", err)
		}
		state := uint16(netlink.StateFailed)
		for _, n := range all {
			if n.Address.WithZone("") == p.to.WithZone("") {
				state = n.State
				if n.Answered() {
					return item.Answered, "it does not answer ICMP, so packets of its MTU were not tried"
				}
			}
		}
		if state&(netlink.StateFailed|netlink.StateIncomplete) != 0 {
			return item.Silent, ""
		}
		select {
		case <-ctx.Done():
			return "", "it was not tried to the end"
		case <-time.After(200 * time.Millisecond):
		}
		if time.Now().After(end) {
			return "", "it does not answer ICMP, and the kernel's last contact with it is too old"
		}
	}
}

// plain removes the name of the socket's file from an error.
func plain(err error) error {
	var at *os.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
