package start

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"syscall"
)

// up brings a link up. See rtnetlink(7) for the messages in this file.
func up(index int) error {
	body := make([]byte, syscall.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(body[4:], uint32(index))
	binary.NativeEndian.PutUint32(body[8:], syscall.IFF_UP)
	binary.NativeEndian.PutUint32(body[12:], syscall.IFF_UP) // the flags to change
	return change(syscall.RTM_NEWLINK, 0, body)
}

// address adds an address to a link.
func address(index int, a netip.Prefix) error {
	family := byte(syscall.AF_INET)
	if a.Addr().Is6() {
		family = syscall.AF_INET6
	}
	body := []byte{family, byte(a.Bits()), 0, 0, 0, 0, 0, 0}
	binary.NativeEndian.PutUint32(body[4:], uint32(index))
	body = attribute(body, syscall.IFA_LOCAL, a.Addr().AsSlice())
	body = attribute(body, syscall.IFA_ADDRESS, a.Addr().AsSlice())
	return change(syscall.RTM_NEWADDR, syscall.NLM_F_CREATE|syscall.NLM_F_REPLACE, body)
}

// defaultRoute adds a default route through a gateway on a link. If there are several, the link with the lowest
// index wins.
func defaultRoute(index int, gateway netip.Addr) error {
	body := make([]byte, syscall.SizeofRtMsg)
	body[0], body[4], body[5] = syscall.AF_INET, syscall.RT_TABLE_MAIN, syscall.RTPROT_STATIC
	body[6], body[7] = syscall.RT_SCOPE_UNIVERSE, syscall.RTN_UNICAST
	body = attribute(body, syscall.RTA_GATEWAY, gateway.AsSlice())
	body = attribute(body, syscall.RTA_OIF, binary.NativeEndian.AppendUint32(nil, uint32(index)))
	body = attribute(body, syscall.RTA_PRIORITY, binary.NativeEndian.AppendUint32(nil, uint32(index)))
	return change(syscall.RTM_NEWROUTE, syscall.NLM_F_CREATE|syscall.NLM_F_REPLACE, body)
}

func attribute(body []byte, kind uint16, value []byte) []byte {
	body = binary.NativeEndian.AppendUint16(body, uint16(4+len(value)))
	body = append(binary.NativeEndian.AppendUint16(body, kind), value...)
	for len(body)%4 != 0 {
		body = append(body, 0)
	}
	return body
}

// change sends one message to the kernel and waits for its answer.
func change(kind, flags uint16, body []byte) error {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, syscall.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	message := binary.NativeEndian.AppendUint32(nil, uint32(syscall.NLMSG_HDRLEN+len(body)))
	message = binary.NativeEndian.AppendUint16(message, kind)
	message = binary.NativeEndian.AppendUint16(message, flags|syscall.NLM_F_REQUEST|syscall.NLM_F_ACK)
	message = append(message, make([]byte, 8)...) // sequence number and port; only one message is sent
	if err := syscall.Sendto(fd, append(message, body...), 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := syscall.Recvfrom(fd, answer, 0)
	if err != nil {
		return err
	}
	if n < syscall.NLMSG_HDRLEN+4 || binary.NativeEndian.Uint16(answer[4:]) != syscall.NLMSG_ERROR {
		return fmt.Errorf("the kernel answers with %d bytes that are not an answer", n)
	}
	if number := int32(binary.NativeEndian.Uint32(answer[syscall.NLMSG_HDRLEN:])); number != 0 {
		return syscall.Errno(-number)
	}
	return nil
}
