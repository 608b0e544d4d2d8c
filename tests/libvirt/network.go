package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// Address is the hypervisor's own in the guests' network, which is its bridge br0.
const Address = "10.77.0.1"

// Dial connects to an address of the guests' network, such as 10.77.0.11:22.
func (h *Hypervisor) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var c net.Conn
	err := h.inside(func() (err error) {
		c, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return c, err
}

// Listen serves an address of the hypervisor to its guests.
func (h *Hypervisor) Listen(network, address string) (net.Listener, error) {
	var l net.Listener
	err := h.inside(func() (err error) {
		l, err = net.Listen(network, address)
		return err
	})
	return l, err
}

// Forward gives an address of this host's loopback that leads to one of the
// guests' network for as long as the test runs, for programs that dial
// themselves. When nothing answers there, connections are closed at once.
func (h *Hypervisor) Forward(address string) string {
	h.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	h.t.Cleanup(func() {
		stop()
		if err := l.Close(); err != nil {
			h.t.Error(err)
		}
		all.Wait()
	})
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { h.join(ctx, c, address) })
		}
	})
	return l.Addr().String()
}

// join copies both ways until either side ends.
func (h *Hypervisor) join(ctx context.Context, c net.Conn, address string) {
	defer c.Close()
	guest, err := h.Dial(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer guest.Close()
	ctx, done := context.WithCancel(ctx)
	defer done()
	defer context.AfterFunc(ctx, func() {
		c.Close()
		guest.Close()
	})()
	var both sync.WaitGroup
	for to, from := range map[net.Conn]net.Conn{c: guest, guest: c} {
		both.Go(func() {
			defer done()
			_, _ = io.Copy(to, from) // a connection that breaks is one that ends
		})
	}
	both.Wait()
}

// inside does something in the hypervisor's network. A socket stays in the
// network in which its thread was when it was made.
func (h *Hypervisor) inside(do func() error) (err error) {
	runtime.LockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer own.Close()
	defer func() {
		if back := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); back != nil {
			err = errors.Join(err, back) // and the thread ends with its goroutine
			return
		}
		runtime.UnlockOSThread()
	}()
	its, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", h.script.Process.Pid))
	if err != nil {
		return err
	}
	defer its.Close()
	if err := unix.Setns(int(its.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the network of the hypervisor: %w", err)
	}
	return do()
}
