// Package port gives ports on which nobody listens to what cannot choose one by itself: a server of a test
// that is told its address before it starts, or that comes back at the address it had.
package port

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Linux gives the ports from 32768 on to outgoing connections, which would take a port before its server
// listens (net.ipv4.ip_local_port_range).
const low, high = 10_000, 32_000

var (
	mu   sync.Mutex
	held = map[int]net.Listener{}
)

// Free returns a TCP port on which nobody listens, at any IPv4 address of this host. It is given to nobody else, of any process
// of this host, until this process ends.
func Free() (int, error) {
	mu.Lock()
	defer mu.Unlock()
	for range 1000 {
		port := low + rand.IntN(high-low)
		if taken(port) {
			continue
		}
		// The name is the promise to other processes: the kernel gives it to one of them, and takes it back at its end.
		if l, err := net.Listen("unix", fmt.Sprint("@slipway-test-port-", port)); err == nil {
			held[port] = l
			return port, nil
		}
	}
	return 0, errors.New("none of 1000 ports is free")
}

func taken(port int) bool {
	l, err := net.Listen("tcp4", ":"+strconv.Itoa(port))
	if err == nil {
		l.Close()
	}
	return err != nil
}

// Address returns a Free port as an address of loopback.
func Address() (string, error) {
	port, err := Free()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), err
}
