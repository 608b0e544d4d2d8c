//go:build !linux

package netboot

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"
)

var errSystem = errors.New("network boot is served on Linux only")

type port struct {
	iface            *net.Interface
	dhcp, pxe, dhcp6 *net.UDPConn
	local            netip.Addr
	announces        bool
}

func openPort(string, bool, bool) (*port, error) { return nil, errSystem }

func openUDP(string, netip.Addr, int) (*net.UDPConn, error) { return nil, errSystem }

func missing(_ string, err error) error { return err }

func (p *port) Close()                               {}
func (p *port) is6() bool                            { return p.dhcp6 != nil }
func (p *port) listen(func(netip.Addr), chan<- asks) {}
func (p *port) forwards() bool                       { return false }
func (p *port) write([]byte) error                   { return errSystem }
func (p *port) discover() error                      { return errSystem }
func (p *port) receive6([]byte) (int, netip.AddrPort, netip.Addr, error) {
	return 0, netip.AddrPort{}, netip.Addr{}, errSystem
}
func (p *port) send(*answer) error   { return errSystem }
func (p *port) send6(*answer6) error { return errSystem }

func (p *port) inUse(context.Context, *network, netip.Addr, time.Duration) bool { return false }
